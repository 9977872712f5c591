//! Batches: the contents of a block of pages, one after the other. Little-endian.
//!
//! A batch is a header of 4096 bytes and the pages that it carries. It is appended in one piece.
//!
//! A batch with an entry of kind 3 has no other entry, and may be followed by *versions*: each is one page without a
//! header, appended by itself, and is what the page of that entry holds from then on. So a page that is written again
//! and again (the open block of a tombstone log) takes one header, not one each time. A page that begins with the
//! magic of a header is never a version; the writer gives such content a batch.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERDB"
//!       8      2  version of this format: 10; 9 has no versions of pages, and is read
//!      10      2  reserved, 0
//!      12      4  CRC-32C of bytes 16 to 4096
//!      16     16  UUID of the device
//!      32      8  sequence: of two batches the later has the higher one
//!      40      8  number of the block
//!      48      4  page of the block at which this batch begins
//!      52      4  n: entries
//!      56      4  percent of spare blocks  ─┐
//!      60      4  slots together            │ as it was made
//!      64      8  bytes of the device       │
//!      72      8  bytes of the front        │
//!      80      8  bytes of the tail         │
//!      88      2  placement handles        ─┘
//!      90      4  versions between the batch before this one in the block and this one
//!      94     34  reserved, 0
//!     128   16 n  entries
//!
//!  an entry:
//!       0      4  number of the page: those of the front, then those of the tail
//!       4      4  kind: 1 the next page of the batch is what it holds, 2 it and those behind it are zeros, 3 as 1, and
//!                 versions of it may follow
//!       8      4  1; of kind 2, number of pages
//!      12      4  CRC-32C of the page; of kind 2, 0
//! ```

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use larder_device::label::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::shape::{BATCH_PAGES, DeviceOnBlocksOptions, PAGE_BYTES};
use crate::info::BlockId;

/// Most entries of a header.
pub(super) const ENTRIES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / ENTRY_BYTES;

/// Length of the magic.
pub(super) const MAGIC_BYTES: usize = 8;
const MAGIC: [u8; MAGIC_BYTES] = *b"LARDERDB";
const VERSION: u16 = 10;
/// The last version without versions of pages. It is a part of the present one.
const VERSION_WITHOUT_VERSIONS: u16 = 9;
const CHECKED_FROM: usize = 16;
const HEADER_BYTES: usize = size_of::<RawHeader>();
const ENTRY_BYTES: usize = size_of::<RawEntry>();
const _: () = assert!(HEADER_BYTES == 128 && ENTRY_BYTES == 16 && ENTRIES_MAX == 248);
const _: () = assert!(BATCH_PAGES as usize <= ENTRIES_MAX, "a batch lists what it carries");

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    checksum: U32,
    uuid: [u8; 16],
    sequence: U64,
    block: U64,
    at: U32,
    entries: U32,
    spare_percent: U32,
    slots_together: U32,
    capacity_bytes: U64,
    front_bytes: U64,
    tail_bytes: U64,
    handles: U16,
    versions_before: U32,
    reserved_too: [u8; 34],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    page: U32,
    kind: U32,
    count: U32,
    checksum: U32,
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) uuid: Uuid,
    pub(super) sequence: u64,
    pub(super) block: BlockId,
    /// Page of the block at which the batch begins.
    pub(super) at: u32,
    /// Versions of a page that lie between the batch before this one and this one.
    pub(super) versions_before: u32,
    pub(super) options: DeviceOnBlocksOptions,
}

/// An entry of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// The next page that the batch carries is the content of `page`.
    Data { page: u32, checksum: u32 },
    /// `count` pages from `page` on are zeros.
    Zeros { page: u32, count: u32 },
    /// As `Data`, of a batch without other entries, which may be followed by versions of `page`.
    FirstVersion { page: u32, checksum: u32 },
}

impl Entry {
    /// The pages of the device that it is about.
    pub(super) fn pages(&self) -> Range<u32> {
        match *self {
            Self::Data { page, .. } | Self::FirstVersion { page, .. } => page..page + 1,
            Self::Zeros { page, count } => page..page + count,
        }
    }

    /// The checksum of the page that the batch carries for this entry.
    fn checksum(&self) -> Option<u32> {
        match *self {
            Self::Data { checksum, .. } | Self::FirstVersion { checksum, .. } => Some(checksum),
            Self::Zeros { .. } => None,
        }
    }
}

/// The page that the pages behind a batch with these entries are versions of, up to the next header.
pub(super) fn versioned(entries: &[Entry]) -> Option<u32> {
    match *entries {
        [Entry::FirstVersion { page, .. }] => Some(page),
        _ => None,
    }
}

/// Whether a page cannot be a version, because it begins as a header does.
pub(super) fn begins_as_header(page: &[u8]) -> bool {
    page.starts_with(&MAGIC)
}

/// Number of pages that a batch with these entries carries.
pub(super) fn pages_of(entries: &[Entry]) -> u32 {
    let data = entries.iter().filter_map(Entry::checksum).count();
    u32::try_from(data).expect("a header lists few")
}

/// Encodes the header of a batch.
pub(super) fn encode(header: &BatchHeader, entries: &[Entry]) -> Vec<u8> {
    assert!(entries.len() <= ENTRIES_MAX, "{} entries, at most {ENTRIES_MAX}", entries.len());
    let mut raw = RawHeader {
        magic: MAGIC,
        version: VERSION.into(),
        reserved: 0.into(),
        checksum: 0.into(),
        uuid: header.uuid.bytes(),
        sequence: header.sequence.into(),
        block: header.block.number().into(),
        at: header.at.into(),
        entries: u32::try_from(entries.len()).expect("they are few").into(),
        spare_percent: header.options.spare_percent.into(),
        slots_together: header.options.slots_together.into(),
        capacity_bytes: header.options.capacity_bytes.into(),
        front_bytes: header.options.front_bytes.into(),
        tail_bytes: header.options.tail_bytes.into(),
        handles: header.options.handles.into(),
        versions_before: header.versions_before.into(),
        reserved_too: [0; 34],
    };
    let listed: Vec<u8> = entries.iter().flat_map(|entry| raw_entry(*entry)).collect();
    let padding = vec![0; PAGE_BYTES - HEADER_BYTES - listed.len()];
    let own = raw.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
    let checksum = [&listed, &padding].iter().fold(larder_checksum::crc32c(own), |sum, bytes| {
        larder_checksum::crc32c_append(sum, bytes)
    });
    raw.checksum = checksum.into();
    [raw.as_bytes(), &listed, &padding].concat()
}

fn raw_entry(entry: Entry) -> [u8; ENTRY_BYTES] {
    let (page, kind, count, checksum) = match entry {
        Entry::Data { page, checksum } => (page, 1, 1, checksum),
        Entry::Zeros { page, count } => (page, 2, count, 0),
        Entry::FirstVersion { page, checksum } => (page, 3, 1, checksum),
    };
    let raw = RawEntry {
        page: page.into(),
        kind: kind.into(),
        count: count.into(),
        checksum: checksum.into(),
    };
    let mut bytes = [0; ENTRY_BYTES];
    bytes.copy_from_slice(raw.as_bytes());
    bytes
}

/// The version of a header of a later version of the format.
pub(super) fn later_version(page: &[u8]) -> Option<u16> {
    let (header, _) = RawHeader::ref_from_prefix(page).ok()?;
    let version = header.version.get();
    (header.magic == MAGIC && version > VERSION).then_some(version)
}

/// Decodes a header and its entries. `None` if it is not a header, or is damaged.
pub(super) fn parse(page: &[u8]) -> Option<(BatchHeader, Vec<Entry>)> {
    let (raw, rest) = RawHeader::ref_from_prefix(page).ok()?;
    let sound = page.len() == PAGE_BYTES
        && raw.magic == MAGIC
        && [VERSION_WITHOUT_VERSIONS, VERSION].contains(&raw.version.get())
        && raw.reserved.get() == 0
        && raw.checksum.get() == larder_checksum::crc32c(page.get(CHECKED_FROM..)?);
    if !sound {
        return None;
    }
    let count = usize::try_from(raw.entries.get()).ok()?;
    let listed = rest.get(..count.checked_mul(ENTRY_BYTES)?)?;
    let listed = <[RawEntry]>::ref_from_bytes(listed).ok()?;
    let entries = listed.iter().map(parse_entry).collect::<Option<Vec<_>>>()?;
    let is_first = |entry: &Entry| matches!(entry, Entry::FirstVersion { .. });
    let may_have_versions = raw.version.get() == VERSION;
    if entries.iter().any(is_first) && !(may_have_versions && entries.len() == 1) {
        return None;
    }
    let options = DeviceOnBlocksOptions {
        capacity_bytes: raw.capacity_bytes.get(),
        front_bytes: raw.front_bytes.get(),
        tail_bytes: raw.tail_bytes.get(),
        spare_percent: raw.spare_percent.get(),
        slots_together: raw.slots_together.get(),
        handles: raw.handles.get(),
    };
    let header = BatchHeader {
        uuid: Uuid::from_bytes(raw.uuid),
        sequence: raw.sequence.get(),
        block: BlockId::new(raw.block.get()),
        at: raw.at.get(),
        versions_before: raw.versions_before.get(),
        options,
    };
    Some((header, entries))
}

fn parse_entry(raw: &RawEntry) -> Option<Entry> {
    let (page, count, checksum) = (raw.page.get(), raw.count.get(), raw.checksum.get());
    page.checked_add(count)?;
    match (raw.kind.get(), count) {
        (1, 1) => Some(Entry::Data { page, checksum }),
        (2, 1..) if checksum == 0 => Some(Entry::Zeros { page, count }),
        (3, 1) => Some(Entry::FirstVersion { page, checksum }),
        _ => None,
    }
}

/// Whether these are the pages that a batch carries.
pub(super) fn carries(entries: &[Entry], pages: &[u8]) -> bool {
    entries
        .iter()
        .filter_map(Entry::checksum)
        .eq(pages.chunks(PAGE_BYTES).map(larder_checksum::crc32c))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> BatchHeader {
        BatchHeader {
            uuid: Uuid::from_bytes([7; 16]),
            sequence: 0x0102_0304_0506_0708,
            block: BlockId::new(9),
            at: 5,
            versions_before: 6,
            options: DeviceOnBlocksOptions {
                capacity_bytes: 1 << 20,
                front_bytes: 8192,
                tail_bytes: 4096,
                spare_percent: 25,
                slots_together: 3,
                handles: 2,
            },
        }
    }

    fn entries() -> Vec<Entry> {
        vec![
            Entry::Data { page: 1, checksum: larder_checksum::crc32c(&[1; PAGE_BYTES]) },
            Entry::Zeros { page: 2, count: 3 },
        ]
    }

    /// Each byte, as docs/formats.md describes it.
    #[test]
    fn a_header_is_what_it_was_in_version_10() {
        let bytes = encode(&header(), &entries());
        let hex: String = bytes[..160].iter().map(|byte| format!("{byte:02x}")).collect();
        let reserved = "00".repeat(34);
        assert_eq!(
            hex,
            format!(
                "4c41524445524442\
                 0a000000{}\
                 07070707070707070707070707070707\
                 0807060504030201\
                 0900000000000000\
                 0500000002000000\
                 1900000003000000\
                 0000100000000000\
                 0020000000000000\
                 0010000000000000\
                 020006000000{reserved}\
                 010000000100000001000000{}\
                 02000000020000000300000000000000",
                &hex[24..32],
                &hex[280..288],
            )
        );
        assert!(bytes[160..].iter().all(|byte| *byte == 0));
        assert_eq!(parse(&bytes), Some((header(), entries())));
        assert!(carries(&entries(), &[1; PAGE_BYTES]));
        assert!(!carries(&entries(), &[2; PAGE_BYTES]) && !carries(&entries(), &[]));
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let mut bytes = encode(&header(), &entries());
        bytes[8] += 1;
        assert_eq!(parse(&bytes), None);
        assert_eq!(later_version(&bytes), Some(VERSION + 1));
    }

    fn in_version(version: u16, entries: &[Entry]) -> Vec<u8> {
        let mut bytes = encode(&header(), entries);
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        bytes
    }

    /// The checksum does not cover the version, so the version alone makes a header one of version 9.
    #[test]
    fn version_9_is_read_and_has_no_versions_of_pages() {
        let first = [Entry::FirstVersion { page: 7, checksum: 8 }];
        assert_eq!(parse(&in_version(9, &entries())), Some((header(), entries())));
        assert_eq!(parse(&in_version(10, &first)), Some((header(), first.to_vec())));
        assert_eq!((versioned(&first), versioned(&entries())), (Some(7), None));
        assert_eq!(parse(&in_version(9, &first)), None);
        assert_eq!(parse(&in_version(8, &entries())), None);
        let beside_others = [&first[..], &entries()].concat();
        assert_eq!(parse(&in_version(10, &beside_others)), None);
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..PAGE_BYTES * 8) {
            let mut bytes = encode(&header(), &entries());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(parse(&bytes).is_none());
        }

        #[test]
        fn hostile_entries_are_none(raw in any::<[u32; 4]>(), count in any::<u32>()) {
            let mut bytes = encode(&header(), &entries());
            bytes[52..56].copy_from_slice(&count.to_le_bytes());
            for (at, field) in raw.iter().enumerate() {
                bytes[128 + 4 * at..132 + 4 * at].copy_from_slice(&field.to_le_bytes());
            }
            let checksum = larder_checksum::crc32c(&bytes[CHECKED_FROM..]);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
            if let Some((_, entries)) = parse(&bytes) {
                prop_assert!(entries.len() <= ENTRIES_MAX);
            }
        }
    }
}
