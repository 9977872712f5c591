//! An exact Zipf sampler without a table, which would take the caches' memory and cache lines.
//!
//! Rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996): invert the integral of x^-s, and reject the little that
//! lies above the histogram. Nearly every draw is accepted at once.

/// Draws ranks 1 to `n`, rank k in proportion to k^-s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    n: f64,
    s: f64,
    /// Integral at the left end, minus the weight of rank 1.
    low: f64,
    high: f64,
    /// A draw at most this far left of its rank is accepted without looking.
    sure: f64,
}

impl Zipf {
    /// A sampler over `n` ranks. `s` is above 0 and not 1.
    pub(crate) fn new(n: u64, s: f64) -> Self {
        let n = n as f64;
        let sure = 2.0 - inverse(integral(2.5, s) - 2_f64.powf(-s), s);
        Self { n, s, low: integral(1.5, s) - 1.0, high: integral(n + 0.5, s), sure }
    }

    /// A rank, from 1.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        loop {
            let u = self.high + rng.f64() * (self.low - self.high);
            let x = inverse(u, self.s);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.sure || u >= integral(k + 0.5, self.s) - k.powf(-self.s) {
                return k as u64;
            }
        }
    }
}

/// Integral of x^-s, up to a constant.
fn integral(x: f64, s: f64) -> f64 {
    (x.powf(1.0 - s) - 1.0) / (1.0 - s)
}

fn inverse(y: f64, s: f64) -> f64 {
    (1.0 + y * (1.0 - s)).powf(1.0 / (1.0 - s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_they_should() {
        for s in [0.9, 0.99, 1.2] {
            let zipf = Zipf::new(1000, s);
            let mut rng = fastrand::Rng::with_seed(1);
            let mut counts = vec![0_u32; 1001];
            let draws = 1_000_000;
            for _ in 0..draws {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            let total: f64 = (1..=1000).map(|k| f64::from(k).powf(-s)).sum();
            for k in [1, 2, 3, 10, 100, 1000] {
                let expected = f64::from(k as u32).powf(-s) / total * f64::from(draws);
                let seen = f64::from(counts[k]);
                assert!((seen - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{s} {k} {seen}");
            }
        }
    }
}
