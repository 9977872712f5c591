//! Pages of the journal. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERBJ"
//!       8      2  version of the formats
//!      10      2  kind: 1 head, 2 snapshot, 3 log, 4 superseded
//!      12      4  CRC-32C of bytes 16 to 4096
//!      16     16  UUID of the store
//!      32      8  generation of the half
//!      40      4  number of the page in its half; the head has 0
//!      44      4  n: number of records
//!      48     16  reserved, 0
//!      64   32 n  records; of a head, what the store is:
//!                 8  bytes of a block        8  bytes of the body of a half
//!                 8  number of regions       8  number of the next block
//!                 4  pages of the snapshot   4  reserved, 0
//!
//!  a record:
//!       0      1  kind: 1 allocated, 2 written, 3 freed
//!       1      1  reserved, 0
//!       2      2  stream             (allocated; else 0)
//!       4      4  region             (allocated; else 0)
//!       8      8  block
//!      16      8  tag                (allocated; else 0)
//!      24      8  bytes that have landed (freed: 0)
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::{FORMAT_VERSION, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a page of the journal in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// Most records of a page.
pub(super) const RECORDS_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / RECORD_BYTES;

const JOURNAL_MAGIC: [u8; 8] = *b"LARDERBJ";
const CHECKED_FROM: usize = 16;
const HEADER_BYTES: usize = size_of::<RecordHeader>();
const RECORD_BYTES: usize = size_of::<RawRecord>();
const _: () = assert!(HEADER_BYTES == 64 && RECORD_BYTES == 32 && RECORDS_MAX == 126);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RecordHeader {
    magic: [u8; 8],
    version: U16,
    kind: U16,
    checksum: U32,
    uuid: [u8; 16],
    generation: U64,
    number: U32,
    records: U32,
    reserved: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRecord {
    kind: u8,
    reserved: u8,
    stream: U16,
    region: U32,
    block: U64,
    tag: U64,
    bytes: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    block_bytes: U64,
    body_bytes: U64,
    regions: U64,
    next_block: U64,
    snapshot_pages: U32,
    reserved: U32,
}

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Head = 1,
    Snapshot = 2,
    Log = 3,
    Superseded = 4,
}

/// One filling of one half of a store's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filling {
    pub(super) uuid: Uuid,
    pub(super) generation: u64,
}

/// A change of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// `bytes` is what had landed in a snapshot; 0 in the log.
    Allocated {
        block: u64,
        region: u32,
        stream: u16,
        tag: u64,
        bytes: u64,
    },
    Written {
        block: u64,
        bytes: u64,
    },
    Freed {
        block: u64,
    },
}

/// The layout of the store, and the end of its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) block_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) regions: u64,
    pub(super) next_block: u64,
    pub(super) snapshot_pages: u32,
}

/// Encodes a page of records.
pub(super) fn encode(kind: PageKind, of: Filling, number: u32, records: &[Record]) -> Vec<u8> {
    assert!(
        records.len() <= RECORDS_MAX,
        "{} records, and a page has {RECORDS_MAX}",
        records.len()
    );
    let body: Vec<u8> =
        records.iter().flat_map(|record| raw(*record).as_bytes().to_vec()).collect();
    let count = u32::try_from(records.len()).expect("a page has few");
    sealed(kind, of, number, count, &body)
}

/// Encodes the first page of a half.
pub(super) fn encode_head(of: Filling, head: Head) -> Vec<u8> {
    let raw = RawHead {
        block_bytes: head.block_bytes.into(),
        body_bytes: head.body_bytes.into(),
        regions: head.regions.into(),
        next_block: head.next_block.into(),
        snapshot_pages: head.snapshot_pages.into(),
        reserved: 0.into(),
    };
    sealed(PageKind::Head, of, 0, 0, raw.as_bytes())
}

fn sealed(kind: PageKind, of: Filling, number: u32, records: u32, body: &[u8]) -> Vec<u8> {
    let mut header = RecordHeader {
        magic: JOURNAL_MAGIC,
        version: FORMAT_VERSION.into(),
        kind: (kind as u16).into(),
        checksum: 0.into(),
        uuid: of.uuid.bytes(),
        generation: of.generation.into(),
        number: number.into(),
        records: records.into(),
        reserved: [0; 16],
    };
    let padding = vec![0; PAGE_BYTES - HEADER_BYTES - body.len()];
    let checked = header.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
    let checksum = [body, &padding].iter().fold(larder_checksum::crc32c(checked), |sum, bytes| {
        larder_checksum::crc32c_append(sum, bytes)
    });
    header.checksum = checksum.into();
    [header.as_bytes(), body, &padding].concat()
}

fn raw(record: Record) -> RawRecord {
    let (kind, stream, region, block, tag, bytes) = match record {
        Record::Allocated { block, region, stream, tag, bytes } => {
            (1, stream, region, block, tag, bytes)
        }
        Record::Written { block, bytes } => (2, 0, 0, block, 0, bytes),
        Record::Freed { block } => (3, 0, 0, block, 0, 0),
    };
    RawRecord {
        kind,
        reserved: 0,
        stream: stream.into(),
        region: region.into(),
        block: block.into(),
        tag: tag.into(),
        bytes: bytes.into(),
    }
}

/// Whether a page has the mark of a journal, even if it is damaged.
pub(super) fn is_marked(page: &[u8]) -> bool {
    page.starts_with(&JOURNAL_MAGIC)
}

/// The version of a page of a later format version.
pub(super) fn later_version(page: &[u8]) -> Option<u16> {
    let (header, _) = RecordHeader::ref_from_prefix(page).ok()?;
    let version = header.version.get();
    (header.magic == JOURNAL_MAGIC && version > FORMAT_VERSION).then_some(version)
}

/// Decodes a head and the filling that it begins. `None` if it is not a head, or is damaged.
pub(super) fn parse_head(page: &[u8]) -> Option<(Filling, Head)> {
    let (header, body) = checked(page, PageKind::Head)?;
    let (raw, _) = RawHead::ref_from_prefix(body).ok()?;
    let filling =
        Filling { uuid: Uuid::from_bytes(header.uuid), generation: header.generation.get() };
    let head = Head {
        block_bytes: raw.block_bytes.get(),
        body_bytes: raw.body_bytes.get(),
        regions: raw.regions.get(),
        next_block: raw.next_block.get(),
        snapshot_pages: raw.snapshot_pages.get(),
    };
    (header.number.get() == 0).then_some((filling, head))
}

/// Decodes the records of a page, if it is the page of this kind, filling and number.
pub(super) fn parse(kind: PageKind, of: Filling, number: u32, page: &[u8]) -> Option<Vec<Record>> {
    let (header, body) = checked(page, kind)?;
    let is_it = header.uuid == of.uuid.bytes()
        && header.generation.get() == of.generation
        && header.number.get() == number;
    let count = usize::try_from(header.records.get()).ok()?;
    let records = body.get(..count.checked_mul(RECORD_BYTES)?)?;
    let raw = <[RawRecord]>::ref_from_bytes(records).ok()?;
    is_it.then(|| raw.iter().map(record).collect::<Option<Vec<_>>>())?
}

fn checked(page: &[u8], kind: PageKind) -> Option<(&RecordHeader, &[u8])> {
    let (header, body) = RecordHeader::ref_from_prefix(page).ok()?;
    let is_whole = page.len() == PAGE_BYTES
        && header.magic == JOURNAL_MAGIC
        && header.version.get() == FORMAT_VERSION
        && header.kind.get() == kind as u16
        && header.checksum.get() == larder_checksum::crc32c(page.get(CHECKED_FROM..)?);
    is_whole.then_some((header, body))
}

fn record(raw: &RawRecord) -> Option<Record> {
    let (block, bytes) = (raw.block.get(), raw.bytes.get());
    Some(match raw.kind {
        1 => Record::Allocated {
            block,
            region: raw.region.get(),
            stream: raw.stream.get(),
            tag: raw.tag.get(),
            bytes,
        },
        2 => Record::Written { block, bytes },
        3 => Record::Freed { block },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILLING: Filling =
        Filling { uuid: Uuid::from_bytes(*b"0123456789abcdef"), generation: 3 };

    fn records() -> Vec<Record> {
        vec![
            Record::Allocated { block: 7, region: 2, stream: 1, tag: 99, bytes: 0 },
            Record::Written { block: 7, bytes: 8192 },
            Record::Freed { block: 5 },
        ]
    }

    #[test]
    fn a_page_is_read_back_where_it_belongs_alone() {
        let page = encode(PageKind::Log, FILLING, 4, &records());
        assert_eq!(parse(PageKind::Log, FILLING, 4, &page), Some(records()));
        assert_eq!(parse(PageKind::Log, FILLING, 5, &page), None);
        assert_eq!(parse(PageKind::Snapshot, FILLING, 4, &page), None);
        let later = Filling { generation: 4, ..FILLING };
        assert_eq!(parse(PageKind::Log, later, 4, &page), None);
        let other = Filling { uuid: Uuid::from_bytes([1; 16]), ..FILLING };
        assert_eq!(parse(PageKind::Log, other, 4, &page), None);
    }

    #[test]
    fn no_bit_flip_passes() {
        let head =
            Head { block_bytes: 1, body_bytes: 2, regions: 3, next_block: 4, snapshot_pages: 5 };
        let whole = encode_head(FILLING, head);
        assert_eq!(parse_head(&whole), Some((FILLING, head)));
        let log = encode(PageKind::Log, FILLING, 4, &records());
        for bit in (0..1024).chain([PAGE_BYTES * 8 - 1]) {
            let flip = |page: &[u8]| {
                let mut page = page.to_vec();
                *page.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
                page
            };
            assert_eq!(parse_head(&flip(&whole)), None, "bit {bit}");
            assert_eq!(parse(PageKind::Log, FILLING, 4, &flip(&log)), None, "bit {bit}");
        }
        assert_eq!(parse_head(whole.get(..64).unwrap()), None, "cut short");
        let mut later = whole;
        later.splice(8..10, (FORMAT_VERSION + 1).to_le_bytes());
        assert_eq!(later_version(&later), Some(FORMAT_VERSION + 1));
    }
}
