//! What the snapshot of a clean shutdown keeps of dead keys in buckets: the clock of the tombstone
//! log, their number, and their hashes. See `metadata` for the bytes.

#![deny(clippy::indexing_slicing)]

use crate::le::u64_at;
use crate::tombstones::CLOCK_MAX;

pub(super) const DEAD_KEYS_SNAPSHOT_HEADER_BYTES: u64 = 16;
pub(super) const DEAD_KEY_SNAPSHOT_BYTES: u64 = 8;

/// What was kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeadKeysSnapshot {
    pub(super) clock: u64,
    pub(super) hashes: Vec<u64>,
}

impl DeadKeysSnapshot {
    pub(super) fn export(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clock.to_le_bytes());
        out.extend_from_slice(&(self.hashes.len() as u64).to_le_bytes());
        self.hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
    }

    /// Splits the front of a snapshot off.
    pub(super) fn split_off(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let clock = u64_at(bytes, 0).filter(|&clock| clock < CLOCK_MAX)?;
        let count = u64_at(bytes, 8)?;
        let header = usize::try_from(DEAD_KEYS_SNAPSHOT_HEADER_BYTES).ok()?;
        let length = usize::try_from(count.checked_mul(DEAD_KEY_SNAPSHOT_BYTES)?).ok()?;
        let (listed, rest) = bytes.get(header..)?.split_at_checked(length)?;
        let hashes = listed.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash));
        Some((Self { clock, hashes: hashes.collect() }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back() {
        let kept = DeadKeysSnapshot { clock: 7, hashes: vec![1, u64::MAX] };
        let mut bytes = Vec::new();
        kept.export(&mut bytes);
        bytes.push(9);
        assert_eq!(DeadKeysSnapshot::split_off(&bytes), Some((kept, &[9][..])));
        assert_eq!(DeadKeysSnapshot::split_off(bytes.get(..31).unwrap()), None);
        let late = DeadKeysSnapshot { clock: CLOCK_MAX, hashes: Vec::new() };
        let mut bytes = Vec::new();
        late.export(&mut bytes);
        assert_eq!(DeadKeysSnapshot::split_off(&bytes), None, "no cache counts as far");
        let endless = [[0xff; 16], [0; 16]].concat();
        assert_eq!(DeadKeysSnapshot::split_off(&endless), None);
    }
}
