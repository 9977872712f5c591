//! A run: a page that lists the pages after it. A batch is one or more runs; it is valid when all of them are present.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERFR"
//!       8      2  version of the formats
//!      10      2  reserved, 0
//!      12      4  CRC-32C of bytes 16 to the end of the page
//!      16     16  UUID of the file system
//!      32      8  batch, from 1
//!      40      8  address of this page
//!      48      2  attempt: a batch that could not be written is written again
//!      50      2  n: number of entries
//!      52      4  number of the run in its batch, from 0
//!      56      4  runs of the batch
//!      60      4  reserved, 0
//!      64   24 n  entries
//!
//!  an entry:
//!       0      1  kind: 1 data, 2 node: the next page behind the run's; 3 gone: no page
//!       1      3  reserved, 0
//!       4      4  CRC-32C of the page (gone: 0)
//!       8      8  inode
//!      16      8  data: index of the page in its file; node: part; gone: the first part that is gone
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::{FORMAT_VERSION, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::address::Address;

const RUN_MAGIC: [u8; 8] = *b"LARDERFR";
const CHECKED_FROM: usize = 16;
pub(crate) const HEADER_BYTES: usize = size_of::<Header>();
pub(crate) const ENTRY_BYTES: usize = size_of::<RawEntry>();
const _: () = assert!(HEADER_BYTES == 64 && ENTRY_BYTES == 24);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    checksum: U32,
    uuid: [u8; 16],
    batch: U64,
    address: U64,
    attempt: U16,
    entries: U16,
    number: U32,
    runs: U32,
    reserved_too: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    kind: u8,
    reserved: [u8; 3],
    checksum: U32,
    inode: U64,
    index: U64,
}

/// A page of the log, or the removal of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Data { inode: u64, index: u64, checksum: u32 },
    Node { inode: u64, part: u32, checksum: u32 },
    Gone { inode: u64, from_part: u32 },
}

impl Entry {
    /// The checksum of its page, if it has one.
    pub(crate) fn checksum(&self) -> Option<u32> {
        match *self {
            Self::Data { checksum, .. } | Self::Node { checksum, .. } => Some(checksum),
            Self::Gone { .. } => None,
        }
    }
}

/// A run, as stored on flash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) batch: u64,
    pub(crate) attempt: u16,
    pub(crate) number: u32,
    pub(crate) runs: u32,
    pub(crate) entries: Vec<Entry>,
}

impl Run {
    /// Number of pages after that of the run.
    pub(crate) fn pages(&self) -> u32 {
        let pages = self.entries.iter().filter(|entry| entry.checksum().is_some()).count();
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// Encodes the run for `address` into a page of zeros.
    pub(crate) fn encode(&self, uuid: Uuid, address: Address, page: &mut [u8]) {
        let mut bytes = Vec::with_capacity(page.len());
        let mut header = Header {
            magic: RUN_MAGIC,
            version: FORMAT_VERSION.into(),
            reserved: 0.into(),
            checksum: 0.into(),
            uuid: uuid.bytes(),
            batch: self.batch.into(),
            address: address.raw().into(),
            attempt: self.attempt.into(),
            entries: u16::try_from(self.entries.len()).unwrap_or(u16::MAX).into(),
            number: self.number.into(),
            runs: self.runs.into(),
            reserved_too: 0.into(),
        };
        bytes.extend_from_slice(header.as_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(raw(*entry).as_bytes());
        }
        assert!(bytes.len() <= page.len(), "{} entries in a run", self.entries.len());
        bytes.resize(page.len(), 0);
        let checked = bytes.get(CHECKED_FROM..).unwrap_or_default();
        header.checksum = larder_checksum::crc32c(checked).into();
        page.copy_from_slice(&bytes);
        if let Some(front) = page.get_mut(..HEADER_BYTES) {
            front.copy_from_slice(header.as_bytes());
        }
    }

    /// Decodes the run at `address`. `None` if there is none of this file system, or it is damaged.
    pub(crate) fn decode(uuid: Uuid, address: Address, page: &[u8]) -> Option<Self> {
        let (header, body) = Header::ref_from_prefix(page).ok()?;
        let is_it = header.magic == RUN_MAGIC
            && header.version.get() == FORMAT_VERSION
            && header.reserved.get() == 0
            && header.uuid == uuid.bytes()
            && header.address.get() == address.raw()
            && header.checksum.get() == larder_checksum::crc32c(page.get(CHECKED_FROM..)?)
            && header.number.get() < header.runs.get();
        if !is_it {
            return None;
        }
        let bytes = usize::from(header.entries.get()).checked_mul(ENTRY_BYTES)?;
        let raw = <[RawEntry]>::ref_from_bytes(body.get(..bytes)?).ok()?;
        Some(Self {
            batch: header.batch.get(),
            attempt: header.attempt.get(),
            number: header.number.get(),
            runs: header.runs.get(),
            entries: raw.iter().map(entry).collect::<Option<Vec<_>>>()?,
        })
    }
}

fn raw(entry: Entry) -> RawEntry {
    let (kind, checksum, inode, index) = match entry {
        Entry::Data { inode, index, checksum } => (1, checksum, inode, index),
        Entry::Node { inode, part, checksum } => (2, checksum, inode, part.into()),
        Entry::Gone { inode, from_part } => (3, 0, inode, from_part.into()),
    };
    RawEntry {
        kind,
        reserved: [0; 3],
        checksum: checksum.into(),
        inode: inode.into(),
        index: index.into(),
    }
}

fn entry(raw: &RawEntry) -> Option<Entry> {
    let (inode, index, checksum) = (raw.inode.get(), raw.index.get(), raw.checksum.get());
    Some(match raw.kind {
        1 => Entry::Data { inode, index, checksum },
        2 => Entry::Node { inode, part: u32::try_from(index).ok()?, checksum },
        3 => Entry::Gone { inode, from_part: u32::try_from(index).ok()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use larder_blocks::BlockId;

    use super::*;

    #[test]
    fn a_run_is_read_back_where_it_belongs_alone() {
        let uuid = Uuid::from_bytes(*b"0123456789abcdef");
        let at = |page| Address::new(BlockId::new(3), page).unwrap();
        let entries = vec![
            Entry::Data { inode: 7, index: 1 << 40, checksum: 9 },
            Entry::Node { inode: 7, part: 2, checksum: 8 },
            Entry::Gone { inode: 5, from_part: 1 },
        ];
        let run = Run { batch: 9, attempt: 1, number: 1, runs: 2, entries };
        let mut page = vec![0; 4096];
        run.encode(uuid, at(5), &mut page);
        assert_eq!(Run::decode(uuid, at(5), &page).as_ref(), Some(&run));
        assert_eq!(run.pages(), 2);
        assert_eq!(Run::decode(uuid, at(6), &page), None);
        assert_eq!(Run::decode(Uuid::from_bytes([1; 16]), at(5), &page), None);
        for bit in (0..64 * 8 + 3 * 24 * 8).chain([4095 * 8]) {
            let mut flipped = page.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(Run::decode(uuid, at(5), &flipped), None, "bit {bit}");
        }
    }
}
