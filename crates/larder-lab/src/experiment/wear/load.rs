//! The erase load: the contents of each channel, and how their writes arrive.

use fastrand::Rng;

/// Contents of a channel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contents {
    /// By die: its share of all erases for tenants. The shares of all channels add up to 1.
    pub(super) shares: Vec<f64>,
    /// Current factor of its writes.
    pub(super) burst: f64,
}

/// The initial contents of a drive, by channel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Load {
    pub(super) contents: Vec<Contents>,
    /// Sigma of the lognormal distribution of a channel's weekly writes about their mean; 0 is even.
    pub(super) burst_sigma: f64,
    /// Each step erases exactly the average, without randomness.
    pub(super) exact: bool,
}

impl Load {
    /// Makes a load from rates by channel and die, in any unit.
    pub(super) fn new(rates: Vec<Vec<f64>>) -> Self {
        let all: f64 = rates.iter().flatten().sum();
        assert!(all > 0.0, "at least one die has writes");
        let contents = |dies: Vec<f64>| Contents {
            shares: dies.into_iter().map(|rate| rate / all).collect(),
            burst: 1.0,
        };
        Self { contents: rates.into_iter().map(contents).collect(), burst_sigma: 0.0, exact: false }
    }

    /// `hot` channels are written at the same rate, the others are only read.
    pub(super) fn hot(channels: usize, hot: usize) -> Self {
        Self::new((0..channels).map(|at| vec![if at < hot { 1.0 } else { 0.0 }]).collect())
    }

    /// Lognormally distributed rates, independent for each die.
    pub(super) fn lognormal(channels: usize, dies: usize, sigma: f64, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut channel = || (0..dies).map(|_| (sigma * normal(&mut rng)).exp()).collect();
        Self::new((0..channels).map(|_| channel()).collect())
    }

    /// Rates from 1 to `ratio`, in a geometric series.
    #[allow(clippy::cast_precision_loss)] // tens of channels
    pub(super) fn spread(channels: usize, ratio: f64) -> Self {
        let step = |at: usize| at as f64 / (channels - 1) as f64;
        Self::new((0..channels).map(|at| vec![ratio.powf(step(at))]).collect())
    }

    pub(super) fn without_chance(self) -> Self {
        Self { exact: true, ..self }
    }

    pub(super) fn with_bursts(self, burst_sigma: f64) -> Self {
        Self { burst_sigma, ..self }
    }

    /// Draws the burst factors of a week.
    pub(super) fn draw_bursts(&mut self, rng: &mut Rng) {
        let sigma = self.burst_sigma;
        if sigma > 0.0 {
            for contents in &mut self.contents {
                contents.burst = (sigma * normal(rng) - sigma * sigma / 2.0).exp();
            }
        }
    }
}

/// Draws a number of events with mean `mean`. Blocks are erased independently of each other.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^63, not negative
pub(super) fn events(rng: &mut Rng, mean: f64) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    if mean >= 30.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0) as u64;
    }
    // The Poisson distribution by Knuth's method: count the uniform numbers that can be multiplied.
    let least = (-mean).exp();
    let (mut product, mut count) = (rng.f64(), 0);
    while product > least {
        product *= rng.f64();
        count += 1;
    }
    count
}

/// A normally distributed number, by the Box-Muller method.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)] // small samples
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one() {
        for load in [Load::hot(16, 3), Load::lognormal(16, 4, 1.2, 7), Load::spread(16, 12.0)] {
            let sum: f64 = load.contents.iter().flat_map(|contents| &contents.shares).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        }
        let spread = Load::spread(16, 12.0).contents;
        assert!((spread[15].shares[0] / spread[0].shares[0] - 12.0).abs() < 1e-9);
        assert_eq!(Load::lognormal(4, 1, 1.2, 7), Load::lognormal(4, 1, 1.2, 7));
        assert_ne!(Load::lognormal(4, 1, 1.2, 7), Load::lognormal(4, 1, 1.2, 8));
    }

    /// Mean and variance of the Poisson distribution, on both sides of the change of method.
    #[test]
    fn events_have_their_mean_and_spread() {
        let mut rng = Rng::with_seed(3);
        for mean in [0.3, 5.0, 29.0, 31.0, 4000.0] {
            let drawn: Vec<f64> = (0..20_000).map(|_| events(&mut rng, mean) as f64).collect();
            let average = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance =
                drawn.iter().map(|n| (n - average).powi(2)).sum::<f64>() / drawn.len() as f64;
            assert!((average / mean - 1.0).abs() < 0.03, "{mean}: {average}");
            assert!((variance / mean - 1.0).abs() < 0.06, "{mean}: {variance}");
        }
        assert_eq!(events(&mut rng, 0.0), 0);
    }

    #[test]
    fn bursts_keep_the_mean() {
        let mut load = Load::lognormal(64, 1, 1.0, 1).with_bursts(1.0);
        let mut rng = Rng::with_seed(1);
        let mut sum = 0.0;
        for _ in 0..1000 {
            load.draw_bursts(&mut rng);
            sum += load.contents.iter().map(|contents| contents.burst).sum::<f64>();
        }
        assert!((sum / 64_000.0 - 1.0).abs() < 0.03, "{sum}");
    }
}
