//! Decides which objects are kept when their region is reclaimed.
//!
//! The index has three bits per object for hits. Policies by hits use them as a counter. The policy by reuse time
//! stores in them the quarter of a round of the log in which the last hit was:
//!
//! ```text
//!   0           no hit
//!   1, 2, 3, 4  one hit, in the first to last quarter since the object was written
//!   5, 6, 7     several hits, the last one in the first two, the third, the last quarter
//! ```
//!
//! Let t be the time of the last hit in rounds, and take the end of the round. An object with a single hit at t has
//! been waiting for 1 - t, and its next hit is expected t after the last one: it is not overdue if t is at least half a
//! round. With n hits the mean interval is t / n, so t must be at least n / (n + 1) of a round: the last quarter for
//! three or more hits. The same is assumed for two.

use crate::base::key::KeyHash;
use crate::config::{HITS_MAX, Reinsertion};

/// From this value on, marks are of objects with several hits.
const SEVERAL: u8 = 5;
/// The first two quarters share a mark.
const _: () = assert!(SEVERAL + 3 - 1 == HITS_MAX);

impl Reinsertion {
    /// The mark to store after a hit in this quarter of the round.
    pub(super) fn mark(self, marks: u8, quarter: u8) -> u8 {
        debug_assert!(
            marks <= HITS_MAX && quarter < 4,
            "{marks} marks, quarter {quarter} of a round"
        );
        match self {
            Self::ReuseTime if marks == 0 => 1 + quarter,
            Self::ReuseTime => SEVERAL + quarter.saturating_sub(1),
            Self::None | Self::Hits(_) | Self::Percent(_) => (marks + 1).min(HITS_MAX),
        }
    }

    /// Known number of hits; by reuse time, 2 stands for several.
    pub(super) fn hits(self, marks: u8) -> u8 {
        match self {
            Self::ReuseTime if marks >= SEVERAL => 2,
            Self::ReuseTime => marks.min(1),
            Self::None | Self::Hits(_) | Self::Percent(_) => marks,
        }
    }

    /// Whether to keep an object that was written in this filling.
    pub(super) fn keeps(self, marks: u8, hash: KeyHash, sequence: u64) -> bool {
        match self {
            Self::None => false,
            Self::Hits(hits) => marks >= hits,
            Self::ReuseTime => matches!(marks, 3 | 4 | 7),
            Self::Percent(percent) => {
                let drawn = (hash.0 ^ sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                (drawn * 100) >> 32 < u64::from(percent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark after hits in these quarters.
    fn marks(quarters: &[u8]) -> u8 {
        quarters.iter().fold(0, |marks, &quarter| Reinsertion::ReuseTime.mark(marks, quarter))
    }

    #[test]
    fn an_object_that_is_overdue_is_not_kept() {
        let kept = |quarters: &[u8]| Reinsertion::ReuseTime.keeps(marks(quarters), KeyHash(0), 0);
        for quarters in [&[2][..], &[3], &[0, 3], &[3, 3, 3], &[0, 1, 2, 3]] {
            assert!(kept(quarters), "{quarters:?}");
        }
        for quarters in [&[][..], &[0], &[1], &[0, 0, 0, 0, 0], &[1, 2], &[0, 1, 2]] {
            assert!(!kept(quarters), "{quarters:?}");
        }
        let hits = |quarters: &[u8]| Reinsertion::ReuseTime.hits(marks(quarters));
        assert_eq!([hits(&[]), hits(&[3]), hits(&[0, 0]), hits(&[3, 3])], [0, 1, 2, 2]);
    }

    #[test]
    fn hits_are_counted_as_far_as_they_can() {
        let policy = Reinsertion::Hits(2);
        let counted = (0..20).fold(0, |marks, _| policy.mark(marks, 3));
        assert_eq!(counted, HITS_MAX);
        assert!(policy.keeps(2, KeyHash(0), 0) && !policy.keeps(1, KeyHash(0), 0));
        assert!(!Reinsertion::None.keeps(7, KeyHash(0), 0));
    }

    #[test]
    fn a_percentage_keeps_its_share_of_all_keys() {
        for percent in [1, 30, 100] {
            let policy = Reinsertion::Percent(percent);
            let hashes = (0..20_000_u32).map(|key| KeyHash::of(&key.to_le_bytes()));
            let kept = hashes.filter(|&hash| policy.keeps(0, hash, 77)).count();
            assert!(kept.abs_diff(usize::from(percent) * 200) < 300, "{percent}: {kept}");
        }
    }
}
