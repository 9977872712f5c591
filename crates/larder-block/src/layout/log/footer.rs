//! The footer of a segment repeats the records of its batches, so that a start sees the whole segment with one read.
//! It is at the end of the segment, and is written in the device write of the last batch. Little-endian.
//!
//! ```text
//!  segment ├─ batch ─┬─ batch ─┬ ─ ─ ┤   ├─ last batch ─┼─ zeros ─ entries ─ trailer ─┤
//!                                      gap: no batch fits
//!  entries: one for each record, in their order; one of kind 0 for a batch without records
//!       0   12 records as in headers
//!      12    4 sequence of its batch, less that of the first batch of the segment
//!
//!  trailer, the last 64 bytes
//!  offset  bytes  field
//!       0      4  magic "LBSF"
//!       4      2  version of the formats
//!       6      2  reserved, 0
//!       8      4  CRC-32C of the cache's UUID (16 bytes), of the entries, and of bytes 12 to 64
//!      12      4  segment
//!      16      4  n: number of entries
//!      20      4  where in the segment the last batch begins
//!      24      8  generation of the segment: which filling of it this is
//!      32      8  sequence of the first batch
//!      40      8  horizon ┐
//!      48      8  oldest generation that counts │ as in the header of the last batch
//!      56      4  epoch   ┘
//!      60      4  reserved, 0
//! ```
//!
//! A batch begins where the previous one ends, except the last: that one ends where the footer begins. A footer counts
//! only together with a first header of the same filling, because the footer of the previous filling stays until the
//! last batch of this one overwrites it. The footer is written before it is known that its own batch, and others in
//! flight with it, are complete. Batches that no horizon covers are checked by their headers, which have the
//! checksums.

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::batch::{BatchHeader, CacheUuid, RECORDS_MAX};
use super::filling::{Filling, are_in_lines};
use super::geometry::Geometry;
use super::record::{ENTRY_BYTES, Record, RecordEntry};

const MAGIC: [u8; 4] = *b"LBSF";
const CHECKED_FROM: usize = 12;
const TRAILER_BYTES: usize = size_of::<FooterTrailer>();
const _: () = assert!(TRAILER_BYTES == 64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FooterTrailer {
    magic: [u8; 4],
    version: U16,
    reserved: U16,
    checksum: U32,
    segment: U32,
    entries: U32,
    last_position: U32,
    generation: U64,
    first_sequence: U64,
    horizon: U64,
    void_below: U64,
    epoch: U32,
    reserved_too: U32,
}

/// Bytes of a footer with `entries` entries, in blocks of `block_bytes`.
pub(super) fn footer_bytes(entries: usize, block_bytes: u32) -> usize {
    (TRAILER_BYTES + entries * ENTRY_BYTES).next_multiple_of(block_bytes as usize)
}

/// What the footer of an open segment will list.
#[derive(Debug, Default)]
pub(super) struct Listing {
    first_sequence: u64,
    entries: Vec<RecordEntry>,
}

impl Listing {
    /// Starts again for a newly opened segment.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Whether a batch of this sequence can be listed: 2^32 batches of other segments may have come in between.
    pub(super) fn reaches(&self, sequence: u64) -> bool {
        self.entries.is_empty() || u32::try_from(sequence - self.first_sequence).is_ok()
    }

    pub(super) fn push(&mut self, sequence: u64, records: &[Record]) {
        if self.entries.is_empty() {
            self.first_sequence = sequence;
        }
        let word = u32::try_from(sequence - self.first_sequence).expect("asked before");
        match records {
            [] => self.entries.push(RecordEntry::of_none(word)),
            _ => self.entries.extend(records.iter().map(|record| RecordEntry::of(record, word))),
        }
    }

    /// The footer that is written after the batch of `last`, padded to blocks.
    pub(super) fn encode(&self, uuid: &CacheUuid, last: &BatchHeader, block_bytes: u32) -> Vec<u8> {
        let mut trailer = FooterTrailer {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            reserved: 0.into(),
            checksum: 0.into(),
            segment: last.segment.into(),
            entries: u32::try_from(self.entries.len()).expect("within a segment").into(),
            last_position: last.position.into(),
            generation: last.generation.into(),
            first_sequence: self.first_sequence.into(),
            horizon: last.horizon.into(),
            void_below: last.void_below.into(),
            epoch: last.epoch.into(),
            reserved_too: 0.into(),
        };
        let entries = self.entries.as_bytes();
        trailer.checksum = checksum(uuid, entries, trailer.as_bytes()).into();
        let zeros = footer_bytes(self.entries.len(), block_bytes) - entries.len() - TRAILER_BYTES;
        let zeros = vec![0; zeros];
        [&zeros, entries, trailer.as_bytes()].concat()
    }
}

fn checksum(uuid: &CacheUuid, entries: &[u8], trailer: &[u8]) -> u32 {
    let checked = trailer.get(CHECKED_FROM..).unwrap_or_default();
    larder_checksum::crc32c_append(
        larder_checksum::crc32c_append(larder_checksum::crc32c(uuid), entries),
        checked,
    )
}

/// The result of parsing the last bytes of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Footer {
    /// A valid footer.
    Of(Filling),
    /// Perhaps a footer, with this number of bytes.
    Longer(usize),
    /// No footer of this cache and segment.
    None,
}

impl Footer {
    /// Parses the last bytes of `segment`. A result of [`Of`](Self::Of) was checked as far as possible without its
    /// batches: they follow each other, and no record crosses a line boundary.
    pub(super) fn parse(bytes: &[u8], uuid: &CacheUuid, segment: u32, geometry: &Geometry) -> Self {
        let Ok((rest, trailer)) = FooterTrailer::ref_from_suffix(bytes) else { return Self::None };
        let is_one = trailer.magic == MAGIC
            && trailer.version.get() == FORMAT_VERSION
            && trailer.segment.get() == segment
            && (trailer.reserved.get(), trailer.reserved_too.get()) == (0, 0);
        if !is_one {
            return Self::None;
        }
        // This cannot overflow: it is less than 2^37.
        let whole = footer_bytes(trailer.entries.get() as usize, geometry.block_bytes);
        if whole > geometry.segment_bytes as usize {
            return Self::None;
        }
        let entries_bytes = trailer.entries.get() as usize * ENTRY_BYTES;
        let Some(entries) = rest.len().checked_sub(entries_bytes).and_then(|at| rest.get(at..))
        else {
            return Self::Longer(whole);
        };
        if trailer.checksum.get() != checksum(uuid, entries, trailer.as_bytes()) {
            return Self::None;
        }
        let filling = <[RecordEntry]>::ref_from_bytes(entries)
            .ok()
            .and_then(|entries| filling(trailer, entries, geometry));
        filling.map_or(Self::None, Self::Of)
    }
}

/// The batches of a footer; `None` if their positions are impossible.
fn filling(
    trailer: &FooterTrailer,
    entries: &[RecordEntry],
    geometry: &Geometry,
) -> Option<Filling> {
    let footer = u32::try_from(footer_bytes(entries.len(), geometry.block_bytes)).ok()?;
    let footer_position = geometry.segment_bytes.checked_sub(footer)?;
    let (mut filling, mut records): (Option<Filling>, Vec<Record>) = (None, Vec::new());
    let mut chunks = entries.chunk_by(|a, b| a.word() == b.word()).peekable();
    while let Some(chunk) = chunks.next() {
        records.clear();
        if !matches!(chunk, [none] if none.is_none()) {
            for entry in chunk {
                records.push(entry.record(0)?);
            }
        }
        let position = match (&filling, chunks.peek()) {
            (_, None) => trailer.last_position.get(),
            (Some(filling), _) => filling.end(),
            (None, _) => 0,
        };
        let sequence = trailer.first_sequence.get().checked_add(chunk.first()?.word().into())?;
        let data: usize = records.iter().map(Record::data_bytes).sum();
        let is_note = filling.is_none() && geometry.tears_sectors();
        let bytes = match is_note {
            true => geometry.notes_bytes(),
            false => {
                let header = geometry.header_bytes(records.len(), data);
                header.checked_add(u32::try_from(data).ok()?)?
            }
        };
        let is_sound = records.len() <= RECORDS_MAX
            && (records.is_empty() || !is_note)
            && are_in_lines(&records, geometry)
            && position.checked_add(bytes)? <= footer_position
            && filling.as_ref().map_or(sequence == trailer.first_sequence.get(), |filling| {
                position >= filling.end() && sequence > filling.last().sequence
            });
        if !is_sound {
            return None;
        }
        let header = BatchHeader {
            segment: trailer.segment.get(),
            position,
            bytes,
            generation: trailer.generation.get(),
            sequence,
            horizon: trailer.horizon.get(),
            void_below: trailer.void_below.get(),
            epoch: trailer.epoch.get(),
        };
        match &mut filling {
            Some(filling) => filling.push(&header, &records),
            None => filling.insert(Filling::new(&header, &records)).reserve(entries.len()),
        }
    }
    filling.filter(|filling| filling.end() == footer_position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::log::geometry::SMALL;
    use crate::layout::log::record::RecordKind;
    use crate::layout::{CoreId, Span};

    const UUID: CacheUuid = *b"0123456789abcdef";

    fn header(position: u32, bytes: u32, sequence: u64) -> BatchHeader {
        BatchHeader {
            segment: 3,
            position,
            bytes,
            generation: 9,
            sequence,
            horizon: 70,
            void_below: 2,
            epoch: 5,
        }
    }

    fn records(lines: std::ops::Range<u64>, kind: RecordKind) -> Vec<Record> {
        let span = |line| Span { core: CoreId::new(1).unwrap(), first: line * 8, sectors: 8 };
        lines.map(|line| Record { span: span(line), kind, checksum: 0 }).collect()
    }

    /// Three batches, one of them without records, and the parsed result.
    fn sample() -> (Vec<u8>, Filling) {
        let dirty = RecordKind::Dirty { is_overwritable: true };
        let (first, last) = (records(0..3, dirty), records(9..13, RecordKind::Clean));
        let footer = u32::try_from(footer_bytes(8, 512)).unwrap();
        let last_bytes = 512 + 4 * 4096;
        let headers = [
            (header(0, 512 + 3 * 4096, 71), &first[..]),
            (header(512 + 3 * 4096, 512, 80), &[]),
            (header((64 << 10) - footer - last_bytes, last_bytes, 81), &last),
        ];
        let mut listing = Listing::default();
        headers.iter().for_each(|(header, records)| listing.push(header.sequence, records));
        let bytes = listing.encode(&UUID, &headers[2].0, 512);
        assert_eq!(bytes.len(), footer as usize);
        let mut filling = Filling::new(&headers[0].0, headers[0].1);
        headers.iter().skip(1).for_each(|(header, records)| filling.push(header, records));
        (bytes, filling)
    }

    #[test]
    fn what_is_listed_is_read_where_it_was_written_and_by_whom() {
        let (bytes, filling) = sample();
        let parse = |bytes: &[u8]| Footer::parse(bytes, &UUID, 3, &SMALL);
        assert_eq!(parse(&[&[7; 4096][..], &bytes].concat()), Footer::Of(filling));
        assert_eq!(Footer::parse(&bytes, b"another cache of", 3, &SMALL), Footer::None);
        assert_eq!(Footer::parse(&bytes, &UUID, 4, &SMALL), Footer::None, "elsewhere");
        let blocks = Geometry { block_bytes: 4096, ..SMALL };
        assert_eq!(Footer::parse(&bytes, &UUID, 3, &blocks), Footer::None, "other blocks");
        assert_eq!(parse(bytes.get(bytes.len() - 64..).unwrap()), Footer::Longer(512));
    }

    #[test]
    fn no_bit_flip_passes() {
        let (bytes, _) = sample();
        // The bytes before the entries are zeros that are never read.
        for bit in (bytes.len() - 8 * ENTRY_BYTES - TRAILER_BYTES) * 8..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            let parsed = Footer::parse(&flipped, &UUID, 3, &SMALL);
            assert!(!matches!(parsed, Footer::Of(_)), "bit {bit}: {parsed:?}");
        }
    }

    /// The checksum is right, but the footer is invalid: batches overlap, end elsewhere, or their sequences do not
    /// grow.
    #[test]
    fn batches_that_cannot_lie_like_that_are_refused() {
        let lines = records(0..4, RecordKind::Clean);
        let footer = |batches: &[(u64, &[Record])], last: &BatchHeader| {
            let mut listing = Listing { first_sequence: 0, entries: Vec::new() };
            batches.iter().for_each(|(sequence, records)| listing.push(*sequence, records));
            listing.encode(&UUID, last, 512)
        };
        let end = (64 << 10) - 512;
        let last = |bytes: u32| header(end - bytes, bytes, 2);
        let parse = |bytes: &[u8]| Footer::parse(bytes, &UUID, 3, &SMALL);
        let right = footer(&[(1, &lines), (2, &lines)], &last(512 + 4 * 4096));
        assert!(matches!(parse(&right), Footer::Of(_)));
        let elsewhere = footer(&[(1, &lines), (2, &lines)], &last(1024 + 4 * 4096));
        assert_eq!(parse(&elsewhere), Footer::None);
        let overlapping =
            footer(&[(1, &lines.repeat(2)), (2, &lines.repeat(2))], &last(512 + 8 * 4096));
        assert_eq!(parse(&overlapping), Footer::None);
        let whole = *lines.first().unwrap();
        let crossing = Record { span: Span { first: 4, ..whole.span }, ..whole };
        let crossing = footer(&[(1, &lines), (2, &[crossing])], &last(512 + 4096));
        assert_eq!(parse(&crossing), Footer::None);
        let unordered = footer(&[(1, &lines), (3, &lines), (2, &lines)], &last(512 + 4 * 4096));
        assert_eq!(parse(&unordered), Footer::None);
    }
}
