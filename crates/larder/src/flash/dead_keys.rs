//! What the snapshot of a clean shutdown keeps of dead keys in buckets: the clock of the tombstone
//! log, their number, and their hashes. See `metadata` for the bytes.

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::tombstones::CLOCK_MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    clock: U64,
    hashes: U64,
}

pub(super) const DEAD_KEYS_SNAPSHOT_HEADER_BYTES: u64 = size_of::<Header>() as u64;
pub(super) const DEAD_KEY_SNAPSHOT_BYTES: u64 = size_of::<U64>() as u64;
const _: () = assert!(DEAD_KEYS_SNAPSHOT_HEADER_BYTES == 16 && DEAD_KEY_SNAPSHOT_BYTES == 8);

/// What was kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeadKeysSnapshot {
    pub(super) clock: u64,
    pub(super) hashes: Vec<u64>,
}

impl DeadKeysSnapshot {
    pub(super) fn export(&self, out: &mut Vec<u8>) {
        assert!(self.clock < CLOCK_MAX, "a clock of {} would not be read back", self.clock);
        let hashes = self.hashes.len() as u64;
        let header = Header { clock: self.clock.into(), hashes: hashes.into() };
        out.extend_from_slice(header.as_bytes());
        self.hashes.iter().for_each(|&hash| out.extend_from_slice(U64::new(hash).as_bytes()));
    }

    /// Splits the front of a snapshot off.
    pub(super) fn split_off(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, behind) = Header::ref_from_prefix(bytes).ok()?;
        let clock = Some(header.clock.get()).filter(|&clock| clock < CLOCK_MAX)?;
        let count = usize::try_from(header.hashes.get()).ok()?;
        let (hashes, rest) = <[U64]>::ref_from_prefix_with_elems(behind, count).ok()?;
        Some((Self { clock, hashes: hashes.iter().map(|hash| hash.get()).collect() }, rest))
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
        // Made by hand: what is on flash is read by later versions.
        let front = [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, [&front[..], &[0xff; 8]].concat());
        bytes.push(9);
        assert_eq!(DeadKeysSnapshot::split_off(&bytes), Some((kept, &[9][..])));
        assert_eq!(DeadKeysSnapshot::split_off(bytes.get(..31).unwrap()), None);
        let late = [CLOCK_MAX.to_le_bytes(), [0; 8]].concat();
        assert_eq!(DeadKeysSnapshot::split_off(&late), None, "no cache counts as far");
        let endless = [[0xff; 16], [0; 16]].concat();
        assert_eq!(DeadKeysSnapshot::split_off(&endless), None);
    }
}
