//! The part of a clean shutdown's snapshot about dead keys: the clock of the tombstone log, the number of dead keys in
//! buckets, and their hashes. The hashes of dead keys in tables of the array are in a part of their own, next to the
//! parts of the engines. See `snapshot` for the format.

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::snapshot;
use crate::engine::tombstones::{CLOCK_MAX, KeysIn};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DeadKeysHeader {
    clock: U64,
    hashes: U64,
}

pub(super) const DEAD_KEYS_SNAPSHOT_HEADER_BYTES: u64 = size_of::<DeadKeysHeader>() as u64;
pub(super) const DEAD_KEY_SNAPSHOT_BYTES: u64 = size_of::<U64>() as u64;
const _: () = assert!(DEAD_KEYS_SNAPSHOT_HEADER_BYTES == 16 && DEAD_KEY_SNAPSHOT_BYTES == 8);

/// Kind of the part with the keys in tables.
const TABLE_KEYS: [u8; 4] = *b"ADED";

/// The parsed content.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DeadKeysSnapshot {
    pub(super) clock: u64,
    /// Hashes of dead keys in buckets.
    pub(super) buckets: Vec<u64>,
    /// Hashes of dead keys in tables.
    pub(super) tables: Vec<u64>,
}

impl DeadKeysSnapshot {
    pub(super) fn export(&self, out: &mut Vec<u8>) {
        assert!(self.clock < CLOCK_MAX, "a clock of {} would not be read back", self.clock);
        let hashes = self.buckets.len() as u64;
        let header = DeadKeysHeader { clock: self.clock.into(), hashes: hashes.into() };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&as_listed(&self.buckets));
        if !self.tables.is_empty() {
            snapshot::put_part(out, TABLE_KEYS, &as_listed(&self.tables));
        }
    }

    /// The hashes of one kind.
    pub(super) fn of(&self, keys: KeysIn) -> &[u64] {
        match keys {
            KeysIn::Buckets => &self.buckets,
            KeysIn::Tables => &self.tables,
        }
    }

    pub(super) fn of_mut(&mut self, keys: KeysIn) -> &mut Vec<u64> {
        match keys {
            KeysIn::Buckets => &mut self.buckets,
            KeysIn::Tables => &mut self.tables,
        }
    }

    /// Splits the dead keys off the front of a snapshot. Also returns the rest, which contains the parts.
    pub(super) fn split_off(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, behind) = DeadKeysHeader::ref_from_prefix(bytes).ok()?;
        let clock = Some(header.clock.get()).filter(|&clock| clock < CLOCK_MAX)?;
        let count = usize::try_from(header.hashes.get()).ok()?;
        let (hashes, rest) = <[U64]>::ref_from_prefix_with_elems(behind, count).ok()?;
        let tables = <[U64]>::ref_from_bytes(snapshot::part(rest, TABLE_KEYS)).ok()?;
        let [buckets, tables] = [hashes, tables].map(|of| of.iter().map(|it| it.get()).collect());
        Some((Self { clock, buckets, tables }, rest))
    }
}

fn as_listed(hashes: &[u64]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back() {
        let kept = DeadKeysSnapshot { clock: 7, buckets: vec![1, u64::MAX], tables: Vec::new() };
        let mut bytes = Vec::new();
        kept.export(&mut bytes);
        // Expected bytes are written by hand: later versions must be able to read this format.
        let front = [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, [&front[..], &[0xff; 8]].concat());
        bytes.push(9);
        let read = DeadKeysSnapshot::split_off(&bytes);
        assert_eq!(read.as_ref().map(|(dead, rest)| (dead, *rest)), Some((&kept, &[9][..])));
        assert_eq!(DeadKeysSnapshot::split_off(bytes.get(..31).unwrap()), None);
        let with_tables = DeadKeysSnapshot { tables: vec![5, 1 << 60], ..kept };
        let mut bytes = Vec::new();
        with_tables.export(&mut bytes);
        snapshot::put_part(&mut bytes, *b"LREG", b"behind");
        assert_eq!(bytes.get(32..52), Some(&b"ADED\0\0\0\0\x10\0\0\0\0\0\0\0\x05\0\0\0"[..]));
        let (read, rest) = DeadKeysSnapshot::split_off(&bytes).unwrap();
        assert_eq!((read, snapshot::part(rest, *b"LREG")), (with_tables, &b"behind"[..]));
        let late = [CLOCK_MAX.to_le_bytes(), [0; 8]].concat();
        assert_eq!(DeadKeysSnapshot::split_off(&late), None, "no cache counts as far");
        let endless = [[0xff; 16], [0; 16]].concat();
        assert_eq!(DeadKeysSnapshot::split_off(&endless), None);
    }
}
