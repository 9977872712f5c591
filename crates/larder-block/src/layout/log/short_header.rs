//! The header of a batch on a device whose blocks are smaller than a sector: memory. It equals the
//! [header](super::batch) on other devices, without the fields that follow from its position and its records. With one
//! record it has 64 bytes, a line of the processor's cache. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LBSH"
//!       4      2  version of the formats
//!       6      2  n: number of records, at most 252
//!       8      4  CRC-32C of the cache's UUID (16 bytes), the segment (4), where in the segment the batch begins (4),
//!                 and of bytes 12 to 48 + 16 n
//!      12      4  epoch: which start of the cache wrote this
//!      16      8  generation of the segment
//!      24      8  sequence
//!      32      8  horizon
//!      40      8  oldest generation that counts
//!      48   16 n  records
//! ```
//!
//! The header is padded to a block of the device. The data of the records follows, in their order.
//!
//! Such a device writes words of 8 bytes atomically, and nothing longer: a power loss while a header overwrites
//! another one may leave neither. Within a segment headers overwrite only what no longer counts, except for the first
//! one of a filling: it would overwrite that of the previous filling, which may still count. So the first two blocks
//! of a segment are places for the first header. It is a note, without records, and goes to the place that the current
//! one does not use. The note with the higher generation counts. Batches begin after both places.

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::batch::{BatchHeader, CacheUuid, RECORDS_MAX};
use super::record::{ENTRY_BYTES, Record, RecordEntry};

const MAGIC: [u8; 4] = *b"LBSH";
const CHECKED_FROM: usize = 12;
const HEADER_BYTES: usize = size_of::<ShortFixed>();
const _: () = assert!(HEADER_BYTES + ENTRY_BYTES == 64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ShortFixed {
    magic: [u8; 4],
    version: U16,
    records: U16,
    checksum: U32,
    epoch: U32,
    generation: U64,
    sequence: U64,
    horizon: U64,
    void_below: U64,
}

/// Bytes of a header with `records` records, before the padding.
pub(super) fn header_bytes(records: usize) -> usize {
    HEADER_BYTES + records * ENTRY_BYTES
}

/// Like [`BatchHeader::encode`].
///
/// # Panics
/// Like [`BatchHeader::encode`].
pub(super) fn encode(header: &BatchHeader, uuid: &CacheUuid, records: &[Record], into: &mut [u8]) {
    encode_as(MAGIC, header, uuid, records, into);
}

/// Like [`encode`], with another magic.
pub(super) fn encode_as(
    magic: [u8; 4],
    header: &BatchHeader,
    uuid: &CacheUuid,
    records: &[Record],
    into: &mut [u8],
) {
    assert!(records.len() <= RECORDS_MAX, "{} records of {RECORDS_MAX}", records.len());
    let mut fixed = ShortFixed {
        magic,
        version: FORMAT_VERSION.into(),
        records: u16::try_from(records.len()).expect("checked").into(),
        checksum: 0.into(),
        epoch: header.epoch.into(),
        generation: header.generation.into(),
        sequence: header.sequence.into(),
        horizon: header.horizon.into(),
        void_below: header.void_below.into(),
    };
    let (head, rest) = into.split_at_mut(HEADER_BYTES);
    let entries = RecordEntry::put_all(records, rest);
    let checked = fixed.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
    let checksum =
        larder_checksum::crc32c_append(identity(uuid, header.segment, header.position), checked);
    fixed.checksum = larder_checksum::crc32c_append(checksum, entries).into();
    head.copy_from_slice(fixed.as_bytes());
}

/// Like [`BatchHeader::parse`].
pub(super) fn parse(
    bytes: &[u8],
    uuid: &CacheUuid,
    (segment, position): (u32, u32),
    (room, block_bytes): (u32, u32),
) -> Option<(BatchHeader, Vec<Record>)> {
    let (header, records) = parse_as(MAGIC, bytes, uuid, (segment, position))?;
    let data: usize = records.iter().map(Record::data_bytes).sum();
    let whole = header_bytes(records.len()).next_multiple_of(block_bytes as usize);
    let bytes = u32::try_from(whole + data).ok().filter(|bytes| *bytes <= room)?;
    Some((BatchHeader { bytes, ..header }, records))
}

/// Parses with another magic, and without the length of the batch, which is 0.
pub(super) fn parse_as(
    magic: [u8; 4],
    bytes: &[u8],
    uuid: &CacheUuid,
    (segment, position): (u32, u32),
) -> Option<(BatchHeader, Vec<Record>)> {
    let (fixed, rest) = ShortFixed::ref_from_prefix(bytes).ok()?;
    let count = usize::from(fixed.records.get());
    if fixed.magic != magic || fixed.version.get() != FORMAT_VERSION || count > RECORDS_MAX {
        return None;
    }
    let checksum = larder_checksum::crc32c_append(
        identity(uuid, segment, position),
        bytes.get(CHECKED_FROM..header_bytes(count))?,
    );
    if fixed.checksum.get() != checksum {
        return None;
    }
    let records = RecordEntry::take_all(rest, count)?;
    let header = BatchHeader {
        segment,
        position,
        bytes: 0,
        generation: fixed.generation.get(),
        sequence: fixed.sequence.get(),
        horizon: fixed.horizon.get(),
        void_below: fixed.void_below.get(),
        epoch: fixed.epoch.get(),
    };
    Some((header, records))
}

/// The checksum of the identity of a header: the cache and the position.
fn identity(uuid: &CacheUuid, segment: u32, position: u32) -> u32 {
    let place = [U32::new(segment), U32::new(position)];
    larder_checksum::crc32c_append(larder_checksum::crc32c(uuid), place.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::log::record::RecordKind;
    use crate::layout::{CoreId, Span};

    const UUID: CacheUuid = *b"0123456789abcdef";
    const AT: (u32, u32) = (3, 4096 + 64);

    fn sample(records: u32) -> (BatchHeader, Vec<Record>, Vec<u8>) {
        let span = |number: u32| Span {
            core: CoreId::new(9).unwrap(),
            first: 1 << 40 | u64::from(number) << 3,
            sectors: 8,
        };
        let kind = RecordKind::Dirty { is_overwritable: false };
        let records: Vec<Record> =
            (0..records).map(|number| Record { span: span(number), kind, checksum: 7 }).collect();
        let head = header_bytes(records.len()).next_multiple_of(64);
        let header = BatchHeader {
            segment: AT.0,
            position: AT.1,
            bytes: u32::try_from(head + records.len() * 4096).unwrap(),
            generation: 9,
            sequence: 10,
            horizon: 8,
            void_below: 2,
            epoch: 1,
        };
        let mut bytes = vec![7; head];
        encode(&header, &UUID, &records, &mut bytes);
        (header, records, bytes)
    }

    #[test]
    fn what_is_written_is_read_where_it_was_written_and_by_whom() {
        for count in [0, 1, 2, 252] {
            let (header, records, bytes) = sample(count);
            let room = (header.bytes, 64);
            assert_eq!(parse(&bytes, &UUID, AT, room), Some((header, records)));
            assert_eq!(parse(&bytes, b"another cache of", AT, room), None);
            assert_eq!(parse(&bytes, &UUID, (3, 4096), room), None, "elsewhere");
            assert_eq!(parse(&bytes, &UUID, (4, AT.1), room), None, "of another segment");
            assert_eq!(parse(&bytes, &UUID, AT, (header.bytes - 1, 64)), None, "no room");
        }
        assert_eq!((sample(0).2.len(), sample(1).2.len(), sample(2).2.len()), (64, 64, 128));
    }

    /// Each bit, and each length. The padding of a note is not checked.
    #[test]
    fn no_bit_flip_and_no_cut_passes() {
        let (_, _, bytes) = sample(1);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped, &UUID, AT, (1 << 20, 64)), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = bytes.get(..length).unwrap();
            assert_eq!(parse(cut, &UUID, AT, (1 << 20, 64)), None, "{length} bytes");
        }
    }
}
