//! Pages of a store on zones. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERZB"
//!       8      2  version 1
//!      10      2  kind: 1 header of a block, 2 log
//!      12      4  CRC-32C of bytes 16 to 4096
//!      16     16  UUID of the store
//!
//!  header of a block, the first page of its zone:
//!      32      8  number of the block
//!      40      8  tag
//!
//!  log:
//!      32      8  generation: of two logs the later has the higher one
//!      40      4  number of the page in its zone
//!      44      4  pages of the snapshot that the zone begins with
//!      48      8  numbers of blocks from this one on were not given yet
//!      56      4  n: entries
//!      60      4  reserved, 0
//!      64   16 n  blocks that were closed early: 8 number, 8 bytes that were written
//! ```
//!
//! All else is 0.

#![deny(clippy::indexing_slicing)]

use larder_device::IoBuffer;
use larder_device::label::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a page in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// Most entries of a page of the log.
pub(super) const ENTRIES_MAX: usize = (PAGE_BYTES - 64) / size_of::<RawEntry>();

const MAGIC: [u8; 8] = *b"LARDERZB";
const VERSION: u16 = 1;
const CHECKED_FROM: usize = 16;
const _: () = assert!(size_of::<RawPage>() == 32 && size_of::<RawHeader>() == 16);
const _: () = assert!(size_of::<RawLog>() == 32 && ENTRIES_MAX == 252);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPage {
    magic: [u8; 8],
    version: U16,
    kind: U16,
    checksum: U32,
    uuid: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    block: U64,
    tag: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLog {
    generation: U64,
    number: U32,
    snapshot_pages: U32,
    next_block: U64,
    entries: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    block: U64,
    bytes: U64,
}

/// A block that was closed before it was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClosedEarly {
    pub(super) block: u64,
    /// Readable bytes of the block.
    pub(super) bytes: u64,
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogPage {
    pub(super) generation: u64,
    pub(super) number: u32,
    pub(super) snapshot_pages: u32,
    pub(super) next_block: u64,
    pub(super) closed_early: Vec<ClosedEarly>,
}

/// The content of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    Header { block: u64, tag: u64 },
    Log(LogPage),
}

/// Encodes a page of the store `uuid`.
pub(super) fn encode(uuid: Uuid, page: &Page) -> IoBuffer {
    let (kind, content) = match page {
        Page::Header { block, tag } => {
            let raw = RawHeader { block: (*block).into(), tag: (*tag).into() };
            (1, raw.as_bytes().to_vec())
        }
        Page::Log(log) => (2, encode_log(log)),
    };
    let mut raw = RawPage {
        magic: MAGIC,
        version: VERSION.into(),
        kind: U16::new(kind),
        checksum: 0.into(),
        uuid: uuid.bytes(),
    };
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
    buffer.copy_in(0, raw.as_bytes());
    buffer.copy_in(size_of::<RawPage>(), &content);
    let checked = buffer.as_slice().get(CHECKED_FROM..).unwrap_or_default();
    raw.checksum = larder_checksum::crc32c(checked).into();
    buffer.copy_in(0, raw.as_bytes());
    buffer
}

fn encode_log(log: &LogPage) -> Vec<u8> {
    assert!(log.closed_early.len() <= ENTRIES_MAX, "{} entries", log.closed_early.len());
    let raw = RawLog {
        generation: log.generation.into(),
        number: log.number.into(),
        snapshot_pages: log.snapshot_pages.into(),
        next_block: log.next_block.into(),
        entries: u32::try_from(log.closed_early.len()).expect("they are few").into(),
        reserved: 0.into(),
    };
    let mut bytes = raw.as_bytes().to_vec();
    for entry in &log.closed_early {
        let raw = RawEntry { block: entry.block.into(), bytes: entry.bytes.into() };
        bytes.extend_from_slice(raw.as_bytes());
    }
    bytes
}

/// The version of a page of a later format version.
pub(super) fn later_version(page: &[u8]) -> Option<u16> {
    let (raw, _) = RawPage::ref_from_prefix(page).ok()?;
    let version = raw.version.get();
    (raw.magic == MAGIC && version > VERSION).then_some(version)
}

/// Decodes a page: its store and its content. `None` if it is not such a page, or is damaged.
pub(super) fn decode(page: &[u8]) -> Option<(Uuid, Page)> {
    let (raw, rest) = RawPage::ref_from_prefix(page).ok()?;
    let sound = page.len() == PAGE_BYTES
        && raw.magic == MAGIC
        && raw.version.get() == VERSION
        && raw.checksum.get() == larder_checksum::crc32c(page.get(CHECKED_FROM..)?);
    if !sound {
        return None;
    }
    let content = match raw.kind.get() {
        1 => {
            let (header, _) = RawHeader::ref_from_prefix(rest).ok()?;
            Page::Header { block: header.block.get(), tag: header.tag.get() }
        }
        2 => Page::Log(decode_log(rest)?),
        _ => return None,
    };
    Some((Uuid::from_bytes(raw.uuid), content))
}

fn decode_log(bytes: &[u8]) -> Option<LogPage> {
    let (raw, rest) = RawLog::ref_from_prefix(bytes).ok()?;
    let count = usize::try_from(raw.entries.get()).ok()?;
    let listed = rest.get(..count.checked_mul(size_of::<RawEntry>())?)?;
    let entries = <[RawEntry]>::ref_from_bytes(listed).ok()?;
    let entry = |raw: &RawEntry| ClosedEarly { block: raw.block.get(), bytes: raw.bytes.get() };
    Some(LogPage {
        generation: raw.generation.get(),
        number: raw.number.get(),
        snapshot_pages: raw.snapshot_pages.get(),
        next_block: raw.next_block.get(),
        closed_early: entries.iter().map(entry).collect(),
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uuid() -> Uuid {
        Uuid::from_bytes([7; 16])
    }

    fn log() -> Page {
        Page::Log(LogPage {
            generation: 0x0102_0304_0506_0708,
            number: 9,
            snapshot_pages: 2,
            next_block: 0x55,
            closed_early: vec![ClosedEarly { block: 3, bytes: 8192 }],
        })
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Each byte, as docs/formats.md describes it.
    #[test]
    fn pages_are_what_they_were_in_version_1() {
        let header = Page::Header { block: 9, tag: 0x4c44_4202_0000_0007 };
        let bytes = encode(uuid(), &header);
        let told = hex(&bytes.as_slice()[..48]);
        let front = format!("4c41524445525a4201000100{}{}", &told[24..32], "07".repeat(16));
        assert_eq!(told, format!("{front}0900000000000000070000000242444c"));
        assert!(bytes.as_slice()[48..].iter().all(|byte| *byte == 0));
        assert_eq!(decode(bytes.as_slice()), Some((uuid(), header)));
        let bytes = encode(uuid(), &log());
        let told = hex(&bytes.as_slice()[..80]);
        let front = format!("4c41524445525a4201000200{}{}", &told[24..32], "07".repeat(16));
        assert_eq!(
            told,
            format!(
                "{front}080706050403020109000000020000005500000000000000\
                 010000000000000003000000000000000020000000000000"
            )
        );
        assert_eq!(decode(bytes.as_slice()), Some((uuid(), log())));
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let mut bytes = encode(uuid(), &log());
        bytes.as_mut_slice()[8] += 1;
        assert_eq!((decode(bytes.as_slice()), later_version(bytes.as_slice())), (None, Some(2)));
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..PAGE_BYTES * 8) {
            let mut bytes = encode(uuid(), &log());
            bytes.as_mut_slice()[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(bytes.as_slice()).is_none());
        }

        #[test]
        fn hostile_counts_are_none(kind in 0_u16..4, count in any::<u32>()) {
            let mut bytes = encode(uuid(), &log());
            bytes.copy_in(10, &kind.to_le_bytes());
            bytes.copy_in(56, &count.to_le_bytes());
            let checksum = larder_checksum::crc32c(&bytes.as_slice()[CHECKED_FROM..]);
            bytes.copy_in(12, &checksum.to_le_bytes());
            if let Some((_, Page::Log(log))) = decode(bytes.as_slice()) {
                prop_assert!(log.closed_early.len() <= ENTRIES_MAX);
            }
        }
    }
}
