//! Ranks by the Zipf-Mandelbrot law, without a table.

use super::convert::to_u64;

/// Draws ranks `r` from 1 to `count` with weight `(r + shift)^-exponent`.
///
/// Rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996): the integral of the weight is inverted, the
/// result is rounded to a rank, and the rank is accepted if the point lies under the rank's bar. Nearly all are
/// accepted, so a draw costs about one power function; memory is constant.
#[derive(Clone, Debug)]
pub struct ZipfMandelbrot {
    count: f64,
    shift: f64,
    exponent: f64,
    /// `1 / (1 - exponent)`.
    inverse_power: f64,
    /// The values of the integral between which the draws lie.
    integral_first: f64,
    integral_last: f64,
    /// A point that is at most this far below its rank lies under the bar, without a further check.
    sure: f64,
}

impl ZipfMandelbrot {
    /// The law for `count` ranks (at least 1), `shift` from 0 up, `exponent` above 0 and not 1. With `shift` 0 it is
    /// Zipf's law.
    ///
    /// ```
    /// use larder_workload::generate::ZipfMandelbrot;
    ///
    /// let (law, mut rng) = (ZipfMandelbrot::new(1000, 0.0, 0.9), fastrand::Rng::with_seed(1));
    /// let firsts = (0..10_000).filter(|_| law.draw(&mut rng) == 1).count();
    /// assert!((900..1000).contains(&firsts), "9.4 % are of the first rank: {firsts}");
    /// ```
    ///
    /// # Panics
    /// If a parameter is outside these limits.
    pub fn new(count: u64, shift: f64, exponent: f64) -> Self {
        assert!(count > 0 && shift >= 0.0, "ranks to draw, and weights that are finite");
        assert!(exponent > 0.0 && (exponent - 1.0).abs() > 1e-6, "the integral is a power");
        let mut law = Self {
            count: count as f64,
            shift,
            exponent,
            inverse_power: 1.0 / (1.0 - exponent),
            integral_first: 0.0,
            integral_last: 0.0,
            sure: 0.0,
        };
        law.integral_first = law.integral(1.5) - law.weight(1.0);
        law.integral_last = law.integral(law.count + 0.5);
        law.sure = 2.0 - law.integral_inverse(law.integral(2.5) - law.weight(2.0));
        law
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        loop {
            let span = self.integral_first - self.integral_last;
            let point = self.integral_last + rng.f64() * span;
            let x = self.integral_inverse(point);
            // A cast, not `floor`: on processors of the baseline `floor` is a function call.
            let rank = (to_u64(x + 0.5) as f64).clamp(1.0, self.count);
            if rank - x <= self.sure || point >= self.integral(rank + 0.5) - self.weight(rank) {
                return to_u64(rank);
            }
        }
    }

    #[inline]
    fn weight(&self, x: f64) -> f64 {
        (x + self.shift).powf(-self.exponent)
    }

    /// The integral of the weight, up to a constant.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        (x + self.shift).powf(1.0 - self.exponent) * self.inverse_power
    }

    #[inline]
    fn integral_inverse(&self, y: f64) -> f64 {
        (y * (1.0 - self.exponent)).powf(self.inverse_power) - self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of drawn ranks against exact probabilities, per degree of freedom: close to 1 if the law
    /// holds.
    fn chi_square(count: u64, shift: f64, exponent: f64) -> f64 {
        const DRAWS: u32 = 400_000;
        let law = ZipfMandelbrot::new(count, shift, exponent);
        let mut rng = fastrand::Rng::with_seed(11);
        let mut seen = vec![0_u32; usize::try_from(count).unwrap()];
        for _ in 0..DRAWS {
            seen[usize::try_from(law.draw(&mut rng)).unwrap() - 1] += 1;
        }
        let weights: Vec<f64> = (1..=count).map(|r| (r as f64 + shift).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let terms = seen.iter().zip(&weights).map(|(&seen, weight)| {
            let expected = weight / total * f64::from(DRAWS);
            (f64::from(seen) - expected).powi(2) / expected
        });
        terms.sum::<f64>() / (count as f64 - 1.0).max(1.0)
    }

    #[test]
    fn draws_follow_the_exact_probabilities() {
        // The exponents and shifts of the presets, steep and flat laws, few ranks and many.
        for (count, shift, exponent) in [
            (1000, 10.0, 1.238),
            (1000, 4.5, 0.816),
            (1000, 522.4, 1.206),
            (1000, 0.0, 0.5),
            (100, 0.0, 1.5),
            (20, 0.1, 2.0),
            (2, 0.0, 1.2),
        ] {
            let statistic = chi_square(count, shift, exponent);
            // Six standard deviations above 1, whose square is 2 / degrees of freedom.
            let bound = 1.0 + 6.0 * (2.0 / (count as f64 - 1.0)).sqrt();
            assert!(statistic < bound, "{count} {shift} {exponent}: {statistic} > {bound}");
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let law = ZipfMandelbrot::new(1, 0.0, 1.2);
        let mut rng = fastrand::Rng::with_seed(1);
        assert!((0..1000).all(|_| law.draw(&mut rng) == 1));
    }
}
