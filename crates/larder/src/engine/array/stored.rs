//! The fields that a snapshot has of the array; `snapshot.rs` describes them.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StoredHeader {
    pub(super) clock: U64,
    pub(super) tables: U32,
    pub(super) regions: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StoredTable {
    pub(super) region: U32,
    pub(super) offset: U32,
    pub(super) stamp: U64,
    pub(super) entries: U16,
    pub(super) overflown: u8,
    pub(super) flags: u8,
    pub(super) reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct StoredRegion {
    pub(super) sequence: U64,
    pub(super) latest_expiry_s: U32,
    pub(super) stream: U16,
    pub(super) reserved: U16,
}

/// Bytes of a table in the snapshot, plus the header, which is accounted to the first table.
pub(crate) const TABLE_SNAPSHOT_BYTES: u64 =
    (size_of::<StoredTable>() + size_of::<StoredHeader>()) as u64;
/// Bytes of a group in the snapshot.
const GROUP_SNAPSHOT_BYTES: u64 = size_of::<U64>() as u64;
/// Bytes of a region in the snapshot.
pub(crate) const REGION_SNAPSHOT_BYTES: u64 = size_of::<StoredRegion>() as u64;
const _: () = assert!(size_of::<StoredHeader>() == 16 && size_of::<StoredTable>() == 24);
const _: () = assert!(TABLE_SNAPSHOT_BYTES == 40 && REGION_SNAPSHOT_BYTES == 16);

/// Maximum bytes in the snapshot of an array with these numbers of tables, groups and regions.
pub(crate) fn snapshot_bytes(tables: u32, groups: u32, regions: u32) -> u64 {
    u64::from(tables) * TABLE_SNAPSHOT_BYTES
        + u64::from(groups) * GROUP_SNAPSHOT_BYTES
        + u64::from(regions) * REGION_SNAPSHOT_BYTES
}
