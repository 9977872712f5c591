//! A checkpoint: pages that together hold the addresses of all nodes, and the number of live pages of each block.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERFC"
//!       8      2  version of the formats
//!      10      2  reserved, 0
//!      12      4  CRC-32C of bytes 16 to the end of the page
//!      16     16  UUID of the file system
//!      32      8  sequence of the checkpoint, from 1
//!      40      8  the last batch that it contains
//!      48      4  number of the page, from 0
//!      52      4  pages of the checkpoint
//!      56      8  reserved, 0
//!      64         the page's part of the body, to the end of the page; behind the body zeros
//!
//!  the body:
//!       0      4  bytes of a page          4      4  pages of a block
//!       8      8  the next inode          16      8  n: nodes
//!      24      8  b: blocks               32      8  o: orphans
//!      40     24  reserved, 0
//!      64   24 n  nodes, by inode and part: 8 inode, 4 part, 4 CRC-32C of the page, 8 its address
//!           32 b  blocks: 8 number, 4 pages that are written or given up, 4 pages that are live, 8 use (tag),
//!                 8 batch that wrote there last
//!            8 o  orphans: inodes without a name that were open
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::{FORMAT_VERSION, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::tag::Use;
use crate::address::{Address, Pointer};

const CHECKPOINT_MAGIC: [u8; 8] = *b"LARDERFC";
const CHECKED_FROM: usize = 16;
pub(crate) const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 64 && size_of::<Head>() == 64);
const _: () = assert!(size_of::<RawNode>() == 24 && size_of::<RawBlock>() == 32);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    checksum: U32,
    uuid: [u8; 16],
    sequence: U64,
    batch: U64,
    number: U32,
    pages: U32,
    reserved_too: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    page_bytes: U32,
    block_pages: U32,
    next_ino: U64,
    nodes: U64,
    blocks: U64,
    orphans: U64,
    reserved: [u8; 24],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNode {
    inode: U64,
    part: U32,
    checksum: U32,
    address: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBlock {
    block: U64,
    used_pages: U32,
    live_pages: U32,
    tag: U64,
    batch: U64,
}

/// Identifies the checkpoint, and its file system, that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Which {
    pub(crate) uuid: Uuid,
    pub(crate) sequence: u64,
    pub(crate) batch: u64,
    pub(crate) pages: u32,
}

/// The entry of a block in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockLine {
    pub(crate) block: u64,
    pub(crate) used_pages: u32,
    pub(crate) live_pages: u32,
    pub(crate) what_for: Use,
    pub(crate) batch: u64,
}

/// The content of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) page_bytes: u32,
    pub(crate) block_pages: u32,
    pub(crate) next_ino: u64,
    pub(crate) nodes: Vec<((u64, u32), Pointer)>,
    pub(crate) blocks: Vec<BlockLine>,
    pub(crate) orphans: Vec<u64>,
}

/// Encodes the body.
pub(crate) fn encode_body(body: &Body) -> Vec<u8> {
    let head = Head {
        page_bytes: body.page_bytes.into(),
        block_pages: body.block_pages.into(),
        next_ino: body.next_ino.into(),
        nodes: (body.nodes.len() as u64).into(),
        blocks: (body.blocks.len() as u64).into(),
        orphans: (body.orphans.len() as u64).into(),
        reserved: [0; 24],
    };
    let mut bytes = head.as_bytes().to_vec();
    for ((inode, part), pointer) in &body.nodes {
        let raw = RawNode {
            inode: (*inode).into(),
            part: (*part).into(),
            checksum: pointer.checksum.into(),
            address: pointer.address.raw().into(),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    for line in &body.blocks {
        let raw = RawBlock {
            block: line.block.into(),
            used_pages: line.used_pages.into(),
            live_pages: line.live_pages.into(),
            tag: line.what_for.tag().into(),
            batch: line.batch.into(),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    for orphan in &body.orphans {
        bytes.extend_from_slice(&orphan.to_le_bytes());
    }
    bytes
}

/// Decodes the body; zeros may follow it. `None` if it is invalid.
pub(crate) fn decode_body(bytes: &[u8]) -> Option<Body> {
    let (head, rest) = Head::ref_from_prefix(bytes).ok()?;
    let (nodes, rest) = rows::<RawNode>(rest, head.nodes.get())?;
    let (blocks, rest) = rows::<RawBlock>(rest, head.blocks.get())?;
    let (orphans, _) = rows::<U64>(rest, head.orphans.get())?;
    let node = |raw: &RawNode| {
        let address = Address::from_raw(raw.address.get())?;
        let pointer = Pointer { address, checksum: raw.checksum.get() };
        Some(((raw.inode.get(), raw.part.get()), pointer))
    };
    let line = |raw: &RawBlock| {
        let what_for = Use::of_tag(raw.tag.get()).filter(|it| *it != Use::Checkpoint)?;
        Some(BlockLine {
            block: raw.block.get(),
            used_pages: raw.used_pages.get(),
            live_pages: raw.live_pages.get(),
            what_for,
            batch: raw.batch.get(),
        })
    };
    Some(Body {
        page_bytes: head.page_bytes.get(),
        block_pages: head.block_pages.get(),
        next_ino: head.next_ino.get(),
        nodes: nodes.iter().map(node).collect::<Option<_>>()?,
        blocks: blocks.iter().map(line).collect::<Option<_>>()?,
        orphans: orphans.iter().map(|raw| raw.get()).collect(),
    })
}

fn rows<T>(bytes: &[u8], count: u64) -> Option<(&[T], &[u8])>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let length = usize::try_from(count).ok()?.checked_mul(size_of::<T>())?;
    let (rows, rest) = bytes.split_at_checked(length)?;
    Some((<[T]>::ref_from_bytes(rows).ok()?, rest))
}

/// Encodes a page of a checkpoint, with its part of the body.
pub(crate) fn encode_page(which: Which, number: u32, part: &[u8], page_bytes: usize) -> Vec<u8> {
    let mut header = Header {
        magic: CHECKPOINT_MAGIC,
        version: FORMAT_VERSION.into(),
        reserved: 0.into(),
        checksum: 0.into(),
        uuid: which.uuid.bytes(),
        sequence: which.sequence.into(),
        batch: which.batch.into(),
        number: number.into(),
        pages: which.pages.into(),
        reserved_too: 0.into(),
    };
    let mut page = [header.as_bytes(), part].concat();
    page.resize(page_bytes, 0);
    header.checksum = larder_checksum::crc32c(page.get(CHECKED_FROM..).unwrap_or_default()).into();
    if let Some(front) = page.get_mut(..HEADER_BYTES) {
        front.copy_from_slice(header.as_bytes());
    }
    page
}

/// Decodes a page: its checkpoint, its number, and its part of the body. `None` if it is no page of a checkpoint, or
/// damaged.
pub(crate) fn decode_page(page: &[u8]) -> Option<(Which, u32, &[u8])> {
    let (header, body) = Header::ref_from_prefix(page).ok()?;
    let is_whole = header.magic == CHECKPOINT_MAGIC
        && header.version.get() == FORMAT_VERSION
        && header.reserved.get() == 0
        && header.checksum.get() == larder_checksum::crc32c(page.get(CHECKED_FROM..)?)
        && header.number.get() < header.pages.get();
    let which = Which {
        uuid: Uuid::from_bytes(header.uuid),
        sequence: header.sequence.get(),
        batch: header.batch.get(),
        pages: header.pages.get(),
    };
    is_whole.then_some((which, header.number.get(), body))
}

/// The version of a checkpoint page of another version of the formats.
pub(crate) fn other_version(page: &[u8]) -> Option<u16> {
    let (header, _) = Header::ref_from_prefix(page).ok()?;
    let version = header.version.get();
    (header.magic == CHECKPOINT_MAGIC && version != FORMAT_VERSION).then_some(version)
}

#[cfg(test)]
mod tests {
    use larder_blocks::BlockId;

    use super::*;

    fn body() -> Body {
        let pointer = Pointer { address: Address::new(BlockId::new(4), 2).unwrap(), checksum: 6 };
        let line =
            BlockLine { block: 4, used_pages: 9, live_pages: 3, what_for: Use::Cold, batch: 12 };
        Body {
            page_bytes: 4096,
            block_pages: 64,
            next_ino: 77,
            nodes: vec![((1, 0), pointer), ((1, 2), pointer)],
            blocks: vec![line],
            orphans: vec![5, 6],
        }
    }

    #[test]
    fn a_body_is_read_back() {
        let bytes = encode_body(&body());
        assert_eq!(decode_body(&bytes), Some(body()));
        assert_eq!(decode_body(&[bytes.clone(), vec![0; 99]].concat()), Some(body()));
        for cut in [0, 63, 70, 120, bytes.len() - 1] {
            assert_eq!(decode_body(bytes.get(..cut).unwrap()), None, "cut at {cut}");
        }
        for at in [16, 24, 32] {
            let mut endless = bytes.clone();
            endless.splice(at..at + 8, u64::MAX.to_le_bytes());
            assert_eq!(decode_body(&endless), None);
        }
    }

    #[test]
    fn no_bit_flip_passes() {
        let which = Which { uuid: Uuid::from_bytes([3; 16]), sequence: 4, batch: 5, pages: 2 };
        let page = encode_page(which, 1, b"some of it", 4096);
        let (read, number, part) = decode_page(&page).unwrap();
        assert_eq!((read, number, part.starts_with(b"some of it\0")), (which, 1, true));
        for bit in (0..64 * 8 + 100).chain([4095 * 8]) {
            let mut flipped = page.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(decode_page(&flipped), None, "bit {bit}");
        }
        assert_eq!(other_version(&page), None);
    }
}
