//! Reads and appends that arrive at random, whether or not earlier ones are done; or appends without a pause.

use std::str::FromStr;

use larder_ssd::timed::Nanoseconds;

/// Marks the token of an append, so that it is measured apart from reads.
pub(super) const WRITTEN: u64 = 1 << 63;
/// Appends in flight of a tenant that writes without a pause.
const IN_FLIGHT: usize = 16;

/// A load of reads and appends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mixed {
    /// Bytes of a request.
    pub(super) bytes: u64,
    /// Reads a second; above 0.
    reads: f64,
    writes: Writes,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Writes {
    /// This number a second.
    PerSecond(f64),
    /// Each follows an earlier one at once.
    Full,
}

/// Reads `1000+100`: 1000 reads and 100 appends a second; or `1000+full`.
impl FromStr for Mixed {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (reads, writes) = text.split_once('+').ok_or(())?;
        let rate = |text: &str| {
            let rate: f64 = text.parse().ok()?;
            (0.0..=100_000.0).contains(&rate).then_some(rate)
        };
        let reads = rate(reads).filter(|reads| *reads >= 1.0).ok_or(())?;
        let writes = match writes {
            "full" => Writes::Full,
            _ => Writes::PerSecond(rate(writes).ok_or(())?),
        };
        Ok(Self { bytes: 64 << 10, reads, writes })
    }
}

impl Mixed {
    /// The same reads, and no appends.
    pub(super) fn reads_alone(self) -> Self {
        Self { writes: Writes::PerSecond(0.0), ..self }
    }

    /// Appends that follow one another.
    pub(super) fn in_flight(&self) -> usize {
        if self.writes == Writes::Full { IN_FLIGHT } else { 0 }
    }

    /// Whether another request follows the one with this token.
    pub(super) fn follows(&self, token: u64) -> bool {
        self.writes == Writes::Full && token & WRITTEN != 0
    }

    /// Appends a second that arrive by themselves.
    fn arriving(&self) -> f64 {
        if let Writes::PerSecond(per_s) = self.writes { per_s } else { 0.0 }
    }

    /// Whether the request that arrives next is a read.
    pub(super) fn reads(&self, rng: &mut fastrand::Rng) -> bool {
        rng.f64() * (self.reads + self.arriving()) < self.reads
    }

    /// Time from one arrival to the next.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative
    pub(super) fn wait_ns(&self, rng: &mut fastrand::Rng) -> Nanoseconds {
        let per_s = self.reads + self.arriving();
        (-rng.f64().max(f64::MIN_POSITIVE).ln() * 1e9 / per_s) as Nanoseconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_and_arrive_at_their_rates() {
        for text in ["", "1000", "0+100", "1000+", "1000+-1", "1000+some", "1000+200000", "NaN+1"] {
            assert!(Mixed::from_str(text).is_err(), "{text}");
        }
        let mixed: Mixed = "1000+100".parse().unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        let took: u64 = (0..100_000).map(|_| mixed.wait_ns(&mut rng)).sum();
        assert!((90_000_000_000..92_000_000_000).contains(&took), "{took}");
        let reads = (0..110_000).filter(|_| mixed.reads(&mut rng)).count();
        assert!((99_500..100_500).contains(&reads), "{reads}");
        assert!(!mixed.follows(WRITTEN) && mixed.in_flight() == 0);
        let full: Mixed = "1000+full".parse().unwrap();
        assert!(full.follows(WRITTEN | 4096) && !full.follows(4096) && full.in_flight() > 0);
        assert!((0..1000).all(|_| full.reads(&mut rng)), "appends follow each other");
        assert_eq!(full.reads_alone(), mixed.reads_alone());
    }
}
