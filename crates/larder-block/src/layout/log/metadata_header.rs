//! The header of a batch on a device that keeps metadata per block. It is stored in the metadata of the batch's own
//! data blocks, piece by piece in order, and takes no block. Little-endian.
//!
//! ```text
//!  segment ├─ data ─┬─ data ─┬─ data ─┼─ data ─┬─ ─
//!          │ header 1, header 2, zeros│ header
//!          └───────── batch ──────────┴── batch ─ ─
//!
//!  offset  bytes  field
//!       0      4  magic "LBMH"
//!       4         as in a [short header](super::short_header); with n records it is 48 + 16 n bytes
//! ```
//!
//! The rest of the metadata of the batch's blocks is zeros, and so is the metadata of all blocks without a piece of a
//! header: footers, headers in blocks, data overwritten in place.
//!
//! A batch has its header here if the metadata of its data blocks has room for it: 64 bytes for each record with data.
//! A batch without data, or with little except voids, has a [header](super::batch) in a block in front of its data.
//! The records determine which one it is.
//!
//! A block is written atomically with its metadata, and nothing longer is. So the first batch of a filling has one
//! record: its header is present or absent with one block. And a block that is overwritten in place has lost its piece
//! of a header. So this is allowed only if the [footer](super::footer) durably says the same, and not in the first
//! batch, without which a footer does not count.

#![deny(clippy::indexing_slicing)]

use super::batch::{BatchHeader, CacheUuid};
use super::record::Record;
use super::short_header;
pub(super) use super::short_header::header_bytes;

const MAGIC: [u8; 4] = *b"LBMH";

/// Fewest bytes of metadata per block: a header of one record.
pub(super) const METADATA_BYTES_MIN: u16 = 64;

/// Whether a header of `records` records fits into the metadata of `data_bytes` bytes of data.
pub(super) fn fits(
    records: usize,
    data_bytes: usize,
    block_bytes: u32,
    metadata_bytes: u16,
) -> bool {
    let room = data_bytes / block_bytes as usize * usize::from(metadata_bytes);
    header_bytes(records) <= room
}

/// Writes the header to the beginning of `into`, the metadata of the batch's data blocks or more, and zeros after it.
///
/// # Panics
/// Like [`BatchHeader::encode`].
pub(super) fn encode(header: &BatchHeader, uuid: &CacheUuid, records: &[Record], into: &mut [u8]) {
    short_header::encode_as(MAGIC, header, uuid, records, into);
}

/// Parses the metadata of the blocks from `position` of `segment` on. `None` if no batch of this cache begins there
/// with its header in them. Its length must match its data and be at most `room`.
pub(super) fn parse(
    metadata: &[u8],
    uuid: &CacheUuid,
    place: (u32, u32),
    (room, block_bytes, metadata_bytes): (u32, u32, u16),
) -> Option<(BatchHeader, Vec<Record>)> {
    let (header, records) = short_header::parse_as(MAGIC, metadata, uuid, place)?;
    let data: usize = records.iter().map(Record::data_bytes).sum();
    let is_sound = data.is_multiple_of(block_bytes as usize)
        && fits(records.len(), data, block_bytes, metadata_bytes);
    let bytes = u32::try_from(data).ok().filter(|bytes| is_sound && *bytes <= room)?;
    Some((BatchHeader { bytes, ..header }, records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::log::record::RecordKind;
    use crate::layout::{CoreId, Span};

    const UUID: CacheUuid = *b"0123456789abcdef";
    const AT: (u32, u32) = (3, 8192);
    const ROOM: (u32, u32, u16) = (1 << 20, 4096, 64);

    fn sample(voids: usize) -> (BatchHeader, Vec<Record>, Vec<u8>) {
        let record = |number: u64, kind| {
            let core = CoreId::new(1).unwrap();
            Record { span: Span { core, first: number * 8, sectors: 8 }, kind, checksum: 7 }
        };
        let dirty = RecordKind::Dirty { is_overwritable: true };
        let mut records = vec![record(1, dirty), record(2, RecordKind::Clean)];
        records.extend((0..voids).map(|number| record(9 + number as u64, RecordKind::Void)));
        let header = BatchHeader {
            segment: AT.0,
            position: AT.1,
            bytes: 8192,
            generation: 9,
            sequence: 10,
            horizon: 8,
            void_below: 2,
            epoch: 1,
        };
        let mut metadata = vec![7; 192];
        encode(&header, &UUID, &records, &mut metadata);
        (header, records, metadata)
    }

    #[test]
    fn what_is_written_is_read_where_it_was_written_and_by_whom() {
        let (header, records, metadata) = sample(3);
        let parsed = |place, room| parse(&metadata, &UUID, place, room);
        assert_eq!(parsed(AT, ROOM), Some((header, records)));
        assert_eq!(parse(&metadata, b"another cache of", AT, ROOM), None);
        assert_eq!(parsed((3, 4096), ROOM), None, "elsewhere");
        assert_eq!(parsed(AT, (8191, 4096, 64)), None, "no room");
        assert_eq!(parsed(AT, (1 << 20, 8192, 64)), None, "half of its blocks");
        let (_, records, metadata) = sample(4);
        assert!(!fits(records.len(), 8192, 4096, 64), "it would have a block in front");
        assert_eq!(parse(&metadata, &UUID, AT, ROOM), None);
    }

    /// Each bit, and each length: a block that is torn away takes a piece with it.
    #[test]
    fn no_bit_flip_and_no_cut_passes() {
        let (_, records, metadata) = sample(3);
        let whole = header_bytes(records.len());
        for bit in 0..whole * 8 {
            let mut flipped = metadata.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped, &UUID, AT, ROOM), None, "bit {bit}");
        }
        for length in 0..whole {
            let cut = metadata.get(..length).unwrap();
            assert_eq!(parse(cut, &UUID, AT, ROOM), None, "{length} bytes");
        }
    }
}
