//! The size of an object: a law of sizes, evaluated on the hash of a key.

use super::convert::{spread, to_u32, unit};
use super::{normal, quantiles};

/// Steps of the index into the quantiles.
const STEPS: u32 = 256;

/// A distribution of sizes in bytes. Equal hashes give equal sizes.
#[derive(Clone, Debug)]
pub(super) enum SizeLaw {
    /// All objects have this size.
    Fixed(u32),
    /// All whole numbers from the first to the last are equally likely.
    Uniform(u32, u32),
    /// Measured quantiles, interpolated linearly.
    Quantiles(Quantiles),
    /// The logarithm is normally distributed.
    Lognormal(Lognormal),
}

impl SizeLaw {
    /// The law with these quantiles at [`quantiles::PROBABILITIES`].
    pub(super) fn quantiles(sizes: &[f64]) -> Self {
        Self::Quantiles(Quantiles::new(sizes))
    }

    /// The size for a hash whose bits are evenly distributed.
    #[inline]
    pub(super) fn size_bytes(&self, hash: u64) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform(first, last) => {
                let count = u64::from(last.saturating_sub(*first)) + 1;
                first + u32::try_from(spread(hash, count)).unwrap_or(0)
            }
            Self::Quantiles(law) => to_u32(law.at(unit(hash)) + 0.5),
            Self::Lognormal(law) => to_u32(law.at(unit(hash)) + 0.5),
        }
    }
}

/// An inverse distribution function, given at [`quantiles::PROBABILITIES`].
#[derive(Clone, Debug)]
pub(super) struct Quantiles {
    pieces: Vec<Piece>,
    /// For each of [`STEPS`] equal steps of probability, the piece in which the step begins.
    index: Vec<u8>,
}

/// The straight line between two quantiles.
#[derive(Clone, Copy, Debug)]
struct Piece {
    to: f64,
    /// Size at probability 0 if the line is extended to there.
    offset: f64,
    slope: f64,
}

impl Quantiles {
    fn new(sizes: &[f64]) -> Self {
        let points: Vec<(f64, f64)> =
            quantiles::PROBABILITIES.into_iter().zip(sizes.iter().copied()).collect();
        let pieces = points.iter().zip(&points[1..]).map(|(from, to)| {
            let slope = (to.1 - from.1) / (to.0 - from.0);
            Piece { to: to.0, offset: from.1 - slope * from.0, slope }
        });
        let starts = (0..STEPS).map(|step| {
            let p = f64::from(step) / f64::from(STEPS);
            let above = quantiles::PROBABILITIES.partition_point(|&at| at <= p);
            u8::try_from(above - 1).unwrap_or(u8::MAX)
        });
        Self { pieces: pieces.collect(), index: starts.collect() }
    }

    #[inline]
    fn at(&self, p: f64) -> f64 {
        let start = usize::from(self.index[to_u32(p * f64::from(STEPS)) as usize]);
        let mut piece = &self.pieces[start];
        for next in &self.pieces[start + 1..] {
            if p < piece.to {
                break;
            }
            piece = next;
        }
        piece.offset + p * piece.slope
    }
}

/// `exp(mu + sigma * z)` for a standard normal `z`, within limits.
#[derive(Clone, Debug)]
pub(super) struct Lognormal {
    mu: f64,
    sigma: f64,
    /// The part of the normal distribution that is used: where it begins, and its width.
    from: f64,
    width: f64,
    cap: f64,
}

impl Lognormal {
    /// The law without a cap, from 1 byte up.
    pub(super) fn new(mu: f64, sigma: f64) -> Self {
        Self { mu, sigma, from: 0.0, width: 1.0, cap: f64::from(u32::MAX) }
    }

    /// Larger sizes become `cap`.
    pub(super) fn capped(self, cap: u32) -> Self {
        Self { cap: f64::from(cap), ..self }
    }

    /// Sizes outside of `first..=last` do not occur; the others keep their proportions.
    pub(super) fn truncated(self, first: u32, last: u32) -> Self {
        let at = |size: u32| normal::below((f64::from(size).ln() - self.mu) / self.sigma);
        Self { from: at(first), width: at(last) - at(first), ..self }
    }

    #[inline]
    fn at(&self, p: f64) -> f64 {
        let z = normal::inverse(self.from + p * self.width);
        (self.mu + self.sigma * z).exp().clamp(1.0, self.cap)
    }

    /// Mean of `size^exponent`, of the law without cap and truncation.
    pub(super) fn moment(&self, exponent: f64) -> f64 {
        (exponent * self.mu + (exponent * self.sigma).powi(2) / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    fn sizes(law: &SizeLaw) -> Vec<u32> {
        let mut sizes: Vec<u32> = (0..200_000).map(|i| law.size_bytes(mix(i, 1))).collect();
        sizes.sort_unstable();
        sizes
    }

    fn mean(sizes: &[u32]) -> f64 {
        sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / sizes.len() as f64
    }

    #[test]
    fn quantiles_are_met() {
        let sizes = sizes(&SizeLaw::quantiles(&quantiles::META_CDN_OBJECT));
        for (p, size) in [(0.25, 2783.0), (0.5, 13343.0), (0.9, 77631.0), (0.99, 274_239.0)] {
            let found = f64::from(sizes[to_u32(p * sizes.len() as f64) as usize]);
            assert!((found / size - 1.0).abs() < 0.05, "p{p}: {found}, not {size}");
        }
        assert!(sizes[0] >= 127 && sizes[sizes.len() - 1] <= 4_176_255);
    }

    #[test]
    fn the_index_agrees_with_a_search() {
        let law = Quantiles::new(&quantiles::META_KV_SMALL_VALUE);
        for i in 0..10_000 {
            let p = f64::from(i) / 10_000.0;
            let low = quantiles::PROBABILITIES.partition_point(|&at| at <= p) - 1;
            let (from, to) =
                (quantiles::META_KV_SMALL_VALUE[low], quantiles::META_KV_SMALL_VALUE[low + 1]);
            assert!((from - 0.01..=to + 0.01).contains(&law.at(p)), "{p}");
        }
    }

    #[test]
    fn lognormal_laws_have_their_means() {
        // The means that were published with the presets.
        let document = sizes(&SizeLaw::Lognormal(Lognormal::new(6.49, 0.94)));
        assert!((mean(&document) / 1024.0 - 1.0).abs() < 0.02, "{}", mean(&document));
        let image = Lognormal::new(10.669, 0.658).truncated(32_768, 131_072);
        let image = sizes(&SizeLaw::Lognormal(image));
        assert!((mean(&image) / 61_500.0 - 1.0).abs() < 0.02, "{}", mean(&image));
        assert!(image[0] >= 32_768 && image[image.len() - 1] <= 131_072);
        let capped = sizes(&SizeLaw::Lognormal(Lognormal::new(6.39, 1.046).capped(5000)));
        assert_eq!(capped[capped.len() - 1], 5000);
    }

    #[test]
    fn uniform_and_fixed() {
        let uniform = sizes(&SizeLaw::Uniform(21, 107));
        assert_eq!((uniform[0], uniform[uniform.len() - 1]), (21, 107));
        assert!((mean(&uniform) - 64.0).abs() < 0.3);
        assert_eq!(SizeLaw::Fixed(44).size_bytes(u64::MAX), 44);
        assert_eq!(SizeLaw::Uniform(21, 107).size_bytes(u64::MAX), 107);
    }
}
