//! Nodes: an inode with the first pages of its file, and leaves with the others. The map of nodes says which node a
//! page must be, and its checksum.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERFN"
//!       8      2  version of the formats
//!      10      2  kind: 1 inode, 2 leaf
//!      12      4  part: 0 the inode, from 2 on leaves
//!      16      8  inode
//!      24      8  reserved, 0
//!                 a leaf:                          an inode:
//!      32   12 p  pointers                         32   4  mode: kind and permissions
//!                                                  36   4  uid           40   4  gid
//!                                                  44   4  links         48   4  device number
//!                                                  52   4  reserved, 0
//!                                                  56   8  length in bytes
//!                                                  64   8  pages that it has
//!                                                  72   8  directory: the one above
//!                                                  80   8  directory: the next cookie
//!                                                  88  12  accessed: 8 seconds, signed, 4 nanoseconds
//!                                                 100  12  modified     112  12  changed
//!                                                 124  12  created
//!                                                 136  24  reserved, 0
//!                                                 160 12 p pointers
//!
//!  a pointer: 8 address of the page, 0 for a hole; 4 CRC-32C of its bytes
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::address::{Address, Pointer};
use crate::attributes::{Kind, Owner, Time};

const NODE_MAGIC: [u8; 8] = *b"LARDERFN";
pub(crate) const LEAF_HEADER_BYTES: usize = size_of::<Header>();
pub(crate) const INODE_HEADER_BYTES: usize = size_of::<Header>() + size_of::<RawInode>();
pub(crate) const POINTER_BYTES: usize = size_of::<RawPointer>();
const _: () = assert!(LEAF_HEADER_BYTES == 32 && INODE_HEADER_BYTES == 160 && POINTER_BYTES == 12);

/// The part that is the inode itself.
pub(crate) const PART_INODE: u32 = 0;
/// The part with the extended attributes.
pub(crate) const PART_ATTRIBUTES: u32 = 1;
/// The part with the first leaf.
pub(crate) const PART_LEAVES: u32 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U16,
    kind: U16,
    part: U32,
    inode: U64,
    reserved: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTime {
    seconds: I64,
    nanoseconds: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInode {
    mode: U32,
    uid: U32,
    gid: U32,
    links: U32,
    rdev: U32,
    reserved: U32,
    size: U64,
    pages: U64,
    parent: U64,
    next_cookie: U64,
    times: [RawTime; 4],
    reserved_too: [u8; 24],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPointer {
    address: U64,
    checksum: U32,
}

/// Pointers to the pages of a file; `None` is a hole.
pub(crate) type Pointers = Vec<Option<Pointer>>;

/// An inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) rdev: u32,
    pub(crate) size: u64,
    pub(crate) pages: u64,
    pub(crate) parent: u64,
    pub(crate) next_cookie: u64,
    pub(crate) accessed: Time,
    pub(crate) modified: Time,
    pub(crate) changed: Time,
    pub(crate) created: Time,
    pub(crate) pointers: Pointers,
}

impl Inode {
    /// A new inode without pages. `parent` is the parent directory, used only for a directory, whose link count starts
    /// at 2.
    pub(crate) fn new(kind: Kind, owner: Owner, parent: u64, now: Time, pointers: usize) -> Self {
        let is_directory = kind == Kind::Directory;
        Self {
            kind,
            permissions: owner.permissions & 0o7777,
            uid: owner.uid,
            gid: owner.gid,
            links: if is_directory { 2 } else { 1 },
            rdev: 0,
            size: 0,
            pages: 0,
            parent: if is_directory { parent } else { 0 },
            next_cookie: 1,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            pointers: vec![None; pointers],
        }
    }
}

/// Encodes the page of an inode.
pub(crate) fn encode_inode(ino: u64, inode: &Inode, page_bytes: usize) -> Vec<u8> {
    let times = [inode.accessed, inode.modified, inode.changed, inode.created];
    let raw = RawInode {
        mode: (inode.kind.mode_bits() | u32::from(inode.permissions)).into(),
        uid: inode.uid.into(),
        gid: inode.gid.into(),
        links: inode.links.into(),
        rdev: inode.rdev.into(),
        reserved: 0.into(),
        size: inode.size.into(),
        pages: inode.pages.into(),
        parent: inode.parent.into(),
        next_cookie: inode.next_cookie.into(),
        times: times.map(|time| RawTime {
            seconds: time.seconds.into(),
            nanoseconds: time.nanoseconds.into(),
        }),
        reserved_too: [0; 24],
    };
    let mut page = begin(1, ino, PART_INODE, page_bytes);
    page.extend_from_slice(raw.as_bytes());
    end(page, &inode.pointers, page_bytes)
}

/// Encodes the page of a leaf.
pub(crate) fn encode_leaf(ino: u64, part: u32, pointers: &Pointers, page_bytes: usize) -> Vec<u8> {
    end(begin(2, ino, part, page_bytes), pointers, page_bytes)
}

fn begin(kind: u16, ino: u64, part: u32, page_bytes: usize) -> Vec<u8> {
    let header = Header {
        magic: NODE_MAGIC,
        version: FORMAT_VERSION.into(),
        kind: kind.into(),
        part: part.into(),
        inode: ino.into(),
        reserved: 0.into(),
    };
    let mut page = Vec::with_capacity(page_bytes);
    page.extend_from_slice(header.as_bytes());
    page
}

fn end(mut page: Vec<u8>, pointers: &Pointers, page_bytes: usize) -> Vec<u8> {
    for pointer in pointers {
        let address = pointer.map_or(0, |it| it.address.raw()).into();
        let checksum = pointer.map_or(0, |it| it.checksum).into();
        page.extend_from_slice(RawPointer { address, checksum }.as_bytes());
    }
    assert!(page.len() <= page_bytes, "{} pointers in a node", pointers.len());
    page.resize(page_bytes, 0);
    page
}

/// Decodes the inode in a page, which must be that of `ino`. `None` if it is not.
pub(crate) fn decode_inode(ino: u64, page: &[u8]) -> Option<Inode> {
    let body = checked(1, ino, PART_INODE, page)?;
    let (raw, rest) = RawInode::ref_from_prefix(body).ok()?;
    let mode = raw.mode.get();
    let [accessed, modified, changed, created] = &raw.times;
    Some(Inode {
        kind: Kind::of_mode(mode)?,
        permissions: u16::try_from(mode & 0o7777).ok()?,
        uid: raw.uid.get(),
        gid: raw.gid.get(),
        links: raw.links.get(),
        rdev: raw.rdev.get(),
        size: raw.size.get(),
        pages: raw.pages.get(),
        parent: raw.parent.get(),
        next_cookie: raw.next_cookie.get(),
        accessed: time(accessed)?,
        modified: time(modified)?,
        changed: time(changed)?,
        created: time(created)?,
        pointers: pointers(rest)?,
    })
}

/// Decodes the pointers in a page, which must be this leaf. `None` if it is not.
pub(crate) fn decode_leaf(ino: u64, part: u32, page: &[u8]) -> Option<Pointers> {
    pointers(checked(2, ino, part, page)?)
}

fn checked(kind: u16, ino: u64, part: u32, page: &[u8]) -> Option<&[u8]> {
    let (header, body) = Header::ref_from_prefix(page).ok()?;
    let is_it = header.magic == NODE_MAGIC
        && header.version.get() == FORMAT_VERSION
        && header.kind.get() == kind
        && header.inode.get() == ino
        && header.part.get() == part;
    is_it.then_some(body)
}

fn time(raw: &RawTime) -> Option<Time> {
    let nanoseconds = raw.nanoseconds.get();
    (nanoseconds < 1_000_000_000).then(|| Time { seconds: raw.seconds.get(), nanoseconds })
}

fn pointers(body: &[u8]) -> Option<Pointers> {
    let whole = body.len() - body.len() % POINTER_BYTES;
    let raw = <[RawPointer]>::ref_from_bytes(body.get(..whole)?).ok()?;
    let pointer = |raw: &RawPointer| {
        let address = Address::from_raw(raw.address.get())?;
        Some(Pointer { address, checksum: raw.checksum.get() })
    };
    Some(raw.iter().map(pointer).collect())
}

#[cfg(test)]
mod tests {
    use larder_blocks::BlockId;

    use super::*;

    #[test]
    fn nodes_are_read_back_as_what_they_are_alone() {
        let pointer = Pointer { address: Address::new(BlockId::new(4), 2).unwrap(), checksum: 6 };
        let time = |seconds| Time { seconds, nanoseconds: 7 };
        let inode = Inode {
            kind: Kind::Symlink,
            permissions: 0o4751,
            uid: 1,
            gid: 2,
            links: 3,
            rdev: 4,
            size: 5,
            pages: 6,
            parent: 7,
            next_cookie: 8,
            accessed: time(-1),
            modified: time(2),
            changed: time(3),
            created: time(4),
            pointers: [vec![None, Some(pointer)], vec![None; 326]].concat(),
        };
        let page = encode_inode(9, &inode, 4096);
        assert_eq!(decode_inode(9, &page), Some(inode.clone()));
        assert_eq!(decode_inode(8, &page), None);
        assert_eq!(decode_leaf(9, 0, &page), None);
        let leaf = [vec![Some(pointer)], vec![None; 337]].concat();
        let page = encode_leaf(9, 2, &leaf, 4096);
        assert_eq!(decode_leaf(9, 2, &page), Some(leaf));
        assert_eq!(decode_leaf(9, 3, &page), None);
        assert_eq!(decode_inode(9, &page), None);
        assert_eq!(decode_inode(9, b"short"), None);
        let mut odd = encode_inode(9, &inode, 4096);
        odd.splice(96..100, 1_000_000_000_u32.to_le_bytes());
        assert_eq!(decode_inode(9, &odd), None, "that number of nanoseconds is not below a second");
    }
}
