//! The snapshot of a clean shutdown, which lies after the label. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LSNP"
//!       4      2  version of the formats
//!       6      2  flags: 1 if the tombstone log says which records are dead
//!       8      4  CRC-32C of the cache's identity (6 bytes), of bytes 4 to 8 and of bytes 16 to 32 + length
//!      12      4  reserved, 0
//!      16      8  length of what follows the header
//!      24      8  epoch that wrote it
//!      32      *  with a tombstone log: its clock (8), dead keys (8): n, and their n hashes (8 each)
//!       *      *  a part of dead keys in tables of the array, if there are some; a part for each engine
//!
//!  part
//!       0      4  kind, as the superblock has it: "LREG" (see `loc/engine.rs`), "SBKT" (`soc/engine.rs`), "ARRY"; or
//!                 "ADED": hashes of dead keys in tables (8 each)
//!       4      4  reserved, 0
//!       8      8  n: length
//!      16      n  what the engine keeps
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::{AREA_BYTES, FORMAT_VERSION, SNAPSHOT_MARK};
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::engine::DeadRecords;

/// Offset of the snapshot on the device.
pub(super) const SNAPSHOT_AT: u64 = AREA_BYTES;
const MAGIC: [u8; 4] = SNAPSHOT_MARK;
const IN_LOG: u16 = 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SnapshotHeader {
    magic: [u8; 4],
    version: U16,
    flags: U16,
    checksum: U32,
    reserved: U32,
    length: U64,
    epoch: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PartHeader {
    kind: [u8; 4],
    reserved: U32,
    length: U64,
}

pub(super) const HEADER_BYTES: usize = size_of::<SnapshotHeader>();
/// Bytes of a part in addition to the engine's content.
pub(super) const PART_HEADER_BYTES: usize = size_of::<PartHeader>();
const _: () = assert!(HEADER_BYTES == 32 && PART_HEADER_BYTES == 16);

/// Encodes a snapshot with this content.
pub(super) fn encode(
    content: &[u8],
    records: DeadRecords,
    (cache, epoch): (CacheId, u64),
) -> Vec<u8> {
    let mut header = SnapshotHeader {
        magic: MAGIC,
        version: FORMAT_VERSION.into(),
        flags: match records {
            DeadRecords::Listed => 0,
            DeadRecords::InLog => IN_LOG,
        }
        .into(),
        checksum: 0.into(),
        reserved: 0.into(),
        length: (content.len() as u64).into(),
        epoch: epoch.into(),
    };
    header.checksum = checksum(&header, content, cache).into();
    debug_assert!(header.epoch.get() > 0, "epochs begin with 1");
    [header.as_bytes(), content].concat()
}

fn checksum(header: &SnapshotHeader, content: &[u8], cache: CacheId) -> u32 {
    let marks = [header.version.as_bytes(), header.flags.as_bytes()].concat();
    let numbers = [header.length.as_bytes(), header.epoch.as_bytes()].concat();
    let front = larder_checksum::crc32c_append(cache.checksum(&marks), &numbers);
    larder_checksum::crc32c_append(front, content)
}

/// Total length of the snapshot that starts with this header, header included, if it is at most `room`. Not yet
/// verified.
pub(super) fn announced_bytes(bytes: &[u8], room: u64) -> Option<usize> {
    let (header, _) = SnapshotHeader::ref_from_prefix(bytes).ok()?;
    let total = header.length.get().checked_add(HEADER_BYTES as u64)?;
    let is_plausible =
        header.magic == MAGIC && header.version.get() == FORMAT_VERSION && total <= room;
    if is_plausible { usize::try_from(total).ok() } else { None }
}

/// Verifies a snapshot. Returns where dead records are named, and the content.
pub(super) fn parse(bytes: &[u8], cache: CacheId, epoch: u64) -> Option<(DeadRecords, &[u8])> {
    let total = announced_bytes(bytes, bytes.len() as u64)?;
    let (header, content) = SnapshotHeader::ref_from_prefix(bytes.get(..total)?).ok()?;
    let is_ours = header.reserved.get() == 0
        && header.checksum.get() == checksum(header, content, cache)
        && header.epoch.get() == epoch;
    let records = match header.flags.get() {
        0 => DeadRecords::Listed,
        IN_LOG => DeadRecords::InLog,
        _ => return None,
    };
    is_ours.then_some((records, content))
}

/// Appends an engine's part.
pub(super) fn put_part(content: &mut Vec<u8>, kind: [u8; 4], part: &[u8]) {
    let header = PartHeader { kind, reserved: 0.into(), length: (part.len() as u64).into() };
    content.extend_from_slice(header.as_bytes());
    content.extend_from_slice(part);
    debug_assert!(content.ends_with(part), "a part comes whole, behind those before it");
}

/// Finds an engine's part in the list. Empty if there is none, or if an earlier part is damaged.
pub(super) fn part(mut parts: &[u8], kind: [u8; 4]) -> &[u8] {
    while let Ok((header, rest)) = PartHeader::ref_from_prefix(parts) {
        let length = usize::try_from(header.length.get()).unwrap_or(usize::MAX);
        let Some((part, behind)) = rest.split_at_checked(length) else { break };
        if header.kind == kind {
            return part;
        }
        parts = behind;
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EPOCH: u64 = 4;

    fn snapshot(content: &[u8]) -> Vec<u8> {
        encode(content, DeadRecords::InLog, (CacheId::ZERO, EPOCH))
    }

    #[test]
    fn a_snapshot_belongs_to_its_cache_and_epoch() {
        let mut bytes = snapshot(b"content");
        bytes.resize(4096, 0xee);
        assert_eq!(announced_bytes(&bytes, 39), Some(39));
        assert_eq!(announced_bytes(&bytes, 38), None);
        let parsed = parse(&bytes, CacheId::ZERO, EPOCH);
        assert_eq!(parsed, Some((DeadRecords::InLog, &b"content"[..])));
        assert_eq!(parse(&bytes, CacheId::ZERO, EPOCH + 1), None);
        assert_eq!(parse(&bytes, CacheId::from_number(1), EPOCH), None);
    }

    #[test]
    fn each_engine_finds_its_part() {
        let mut parts = Vec::new();
        put_part(&mut parts, *b"AAAA", b"of a");
        put_part(&mut parts, *b"BBBB", b"");
        put_part(&mut parts, *b"CCCC", b"of c");
        assert_eq!(part(&parts, *b"AAAA"), b"of a");
        assert_eq!(part(&parts, *b"BBBB"), b"");
        assert_eq!(part(&parts, *b"CCCC"), b"of c");
        assert_eq!(part(&parts, *b"DDDD"), b"");
        assert_eq!(part(parts.get(..parts.len() - 1).unwrap(), *b"CCCC"), b"", "cut short");
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..(HEADER_BYTES + 7) * 8) {
            let mut bytes = snapshot(b"content");
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert_eq!(parse(&bytes, CacheId::ZERO, EPOCH), None);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = announced_bytes(&bytes, u64::MAX);
            let _ = part(&bytes, *b"LREG");
            prop_assert!(parse(&bytes, CacheId::ZERO, 0).is_none());
        }
    }
}
