//! The header of a batch: records of data that was written together, after the header and in the same device write.
//! Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LBCB"
//!       4      2  version of the formats
//!       6      2  n: number of records, at most 252
//!       8      4  CRC-32C of the cache's UUID (16 bytes) and of bytes 12 to 64 + 16 n
//!      12      4  segment
//!      16      4  where in the segment the batch begins
//!      20      4  bytes of the batch, header and data
//!      24      8  generation of the segment: which filling of it this is
//!      32      8  sequence: grows with each batch of the cache
//!      40      8  horizon: all batches of this epoch up to this sequence were complete when this was written
//!      48      8  oldest generation that counts: what lies in earlier ones is void
//!      56      4  epoch: which start of the cache wrote this
//!      60      4  reserved, 0
//!      64   16 n  records
//!
//! ```
//!
//! The word at the end of a [record](super::record) is the CRC-32C of its data as first written; 0 for a void.
//!
//! The header is padded to a block of the device. The data of the records follows, in their order.
//!
//! A record that may be overwritten in place has an invalid checksum after the first overwrite. So it is overwritten
//! only when the horizon of a durable header says that its batch was complete. Up to the horizon data is trusted
//! without a checksum, and after it no data was overwritten.

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::record::{ENTRY_BYTES, Record, RecordEntry};
use crate::layout::SECTOR_BYTES;

const MAGIC: [u8; 4] = *b"LBCB";
const CHECKED_FROM: usize = 12;
const HEADER_BYTES: usize = size_of::<BatchFixed>();
const _: () = assert!(HEADER_BYTES == 64);

/// Most records of a batch: its header then has 4096 bytes.
pub(super) const RECORDS_MAX: usize = (4096 - HEADER_BYTES) / ENTRY_BYTES;
/// Bytes to read in order to see a whole header.
pub(super) const HEADER_BYTES_MAX: usize = HEADER_BYTES + RECORDS_MAX * ENTRY_BYTES;
/// Most records of a header that fits into one sector, so that a device with the smallest blocks writes it atomically.
pub(super) const RECORDS_OF_A_SECTOR: usize = (SECTOR_BYTES - HEADER_BYTES) / ENTRY_BYTES;

/// Identifies a cache: the UUID of its label. Headers with another UUID are ignored.
pub(super) type CacheUuid = [u8; 16];

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BatchFixed {
    magic: [u8; 4],
    version: U16,
    records: U16,
    checksum: U32,
    segment: U32,
    position: U32,
    bytes: U32,
    generation: U64,
    sequence: U64,
    horizon: U64,
    void_below: U64,
    epoch: U32,
    reserved: U32,
}

/// Bytes of a header with `records` records, before the padding.
pub(super) fn header_bytes(records: usize) -> usize {
    HEADER_BYTES + records * ENTRY_BYTES
}

/// Identity and position of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) segment: u32,
    pub(super) position: u32,
    /// Includes its data.
    pub(super) bytes: u32,
    pub(super) generation: u64,
    pub(super) sequence: u64,
    pub(super) horizon: u64,
    pub(super) void_below: u64,
    pub(super) epoch: u32,
}

impl BatchHeader {
    /// Writes the header to the beginning of `into`, and fills the rest of `into` with zeros.
    ///
    /// # Panics
    /// If there are more than [`RECORDS_MAX`] records, or if one is longer than 128 sectors.
    pub(super) fn encode(&self, uuid: &CacheUuid, records: &[Record], into: &mut [u8]) {
        assert!(records.len() <= RECORDS_MAX, "{} records of {RECORDS_MAX}", records.len());
        let mut fixed = BatchFixed {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            records: u16::try_from(records.len()).expect("checked").into(),
            checksum: 0.into(),
            segment: self.segment.into(),
            position: self.position.into(),
            bytes: self.bytes.into(),
            generation: self.generation.into(),
            sequence: self.sequence.into(),
            horizon: self.horizon.into(),
            void_below: self.void_below.into(),
            epoch: self.epoch.into(),
            reserved: 0.into(),
        };
        let (head, rest) = into.split_at_mut(HEADER_BYTES);
        let entries = RecordEntry::put_all(records, rest);
        let checked = fixed.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
        let checksum = larder_checksum::crc32c_append(larder_checksum::crc32c(uuid), checked);
        fixed.checksum = larder_checksum::crc32c_append(checksum, entries).into();
        head.copy_from_slice(fixed.as_bytes());
    }

    /// Parses the header at `position` of `segment`. `None` if no batch of this cache begins there. The length of the
    /// batch must match its parts and be at most `room`.
    pub(super) fn parse(
        bytes: &[u8],
        uuid: &CacheUuid,
        (segment, position): (u32, u32),
        (room, block_bytes): (u32, u32),
    ) -> Option<(Self, Vec<Record>)> {
        let (fixed, rest) = BatchFixed::ref_from_prefix(bytes).ok()?;
        let count = usize::from(fixed.records.get());
        if fixed.magic != MAGIC || fixed.version.get() != FORMAT_VERSION || count > RECORDS_MAX {
            return None;
        }
        let checksum = larder_checksum::crc32c_append(
            larder_checksum::crc32c(uuid),
            bytes.get(CHECKED_FROM..header_bytes(count))?,
        );
        let is_whole = fixed.checksum.get() == checksum
            && fixed.segment.get() == segment
            && fixed.position.get() == position
            && fixed.reserved.get() == 0;
        if !is_whole {
            return None;
        }
        let records = RecordEntry::take_all(rest, count)?;
        let data: usize = records.iter().map(Record::data_bytes).sum();
        let header = header_bytes(count).next_multiple_of(block_bytes as usize);
        let header_and_data = u32::try_from(header + data).ok()?;
        (header_and_data == fixed.bytes.get() && header_and_data <= room).then(|| {
            let header = Self {
                segment,
                position,
                bytes: header_and_data,
                generation: fixed.generation.get(),
                sequence: fixed.sequence.get(),
                horizon: fixed.horizon.get(),
                void_below: fixed.void_below.get(),
                epoch: fixed.epoch.get(),
            };
            (header, records)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::log::record::RecordKind;
    use crate::layout::{CoreId, Span};

    const UUID: CacheUuid = *b"0123456789abcdef";
    const AT: (u32, u32) = (3, 4096);

    fn sample() -> (BatchHeader, Vec<Record>) {
        let kinds = [
            RecordKind::Dirty { is_overwritable: true },
            RecordKind::Clean,
            RecordKind::Void,
            RecordKind::Unsettled,
            RecordKind::Destaged,
        ];
        let records: Vec<Record> = (0_u16..)
            .zip(kinds)
            .map(|(number, kind)| {
                let core = CoreId::new(number).unwrap();
                let span = Span { core, first: 1 << 40 | 8, sectors: 128 - u32::from(number) };
                Record { span, kind, checksum: 7 }
            })
            .collect();
        let data: usize = records.iter().map(Record::data_bytes).sum();
        let bytes = u32::try_from(512 + data).unwrap();
        let header = BatchHeader {
            segment: AT.0,
            position: AT.1,
            bytes,
            generation: 9,
            sequence: 10,
            horizon: 8,
            void_below: 2,
            epoch: 1,
        };
        (header, records)
    }

    #[test]
    fn what_is_written_is_read_where_it_was_written_and_by_whom() {
        let (header, records) = sample();
        let mut bytes = vec![7; header_bytes(records.len())];
        header.encode(&UUID, &records, &mut bytes);
        let room = (header.bytes, 512);
        assert_eq!(BatchHeader::parse(&bytes, &UUID, AT, room), Some((header, records)));
        assert_eq!(BatchHeader::parse(&bytes, b"another cache of", AT, room), None);
        assert_eq!(BatchHeader::parse(&bytes, &UUID, (3, 8192), room), None, "elsewhere");
        assert_eq!(BatchHeader::parse(&bytes, &UUID, AT, (header.bytes - 1, 512)), None, "no room");
        assert_eq!(BatchHeader::parse(&bytes, &UUID, AT, (1 << 20, 4096)), None, "other blocks");
    }

    /// Each bit, and each length.
    #[test]
    fn no_bit_flip_and_no_cut_passes() {
        let (header, records) = sample();
        let mut bytes = vec![7; header_bytes(records.len())];
        header.encode(&UUID, &records, &mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(BatchHeader::parse(&flipped, &UUID, AT, (1 << 20, 512)), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            let cut = bytes.get(..length).unwrap();
            assert_eq!(BatchHeader::parse(cut, &UUID, AT, (1 << 20, 512)), None, "{length} bytes");
        }
    }
}
