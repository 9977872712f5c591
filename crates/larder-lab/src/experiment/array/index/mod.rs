//! Indexes of values on flash, seen from the device: the reads and writes of each operation.
//!
//! | module | what it is |
//! |---|---|
//! | `access` | requests to the device, and their sums |
//! | `entries` | entries cached in four-way sets over tables on flash: the array engine's algorithm, as a prediction |
//! | `paged` | a hash table whose pages are read from flash on demand, at its best |
//! | `whole`, `cut` | all entries in DRAM, and as many as fit |
//! | `hopscotch` | uDepot's table of fixed size as in BigKV's artifact, whole in DRAM or in pages |
//! | `slickcache` | SlickCache's three tiers as in BigKV's artifact |
//! | `frames` | pages of a table in DRAM |
//! | `recency`, `recent` | slots in LRU order, and keys in them |
//! | `stored` | the set of stored keys |
//!
//! All indexes take keys whose bits are evenly distributed, and use different bits for each purpose.

mod access;
mod cut;
mod entries;
mod frames;
mod hopscotch;
mod paged;
mod recency;
mod recent;
mod slickcache;
mod stored;
mod whole;

pub(super) use access::{Access, Kind, Sums};
pub(super) use cut::{CutIndex, Order};
pub(super) use entries::EntryCache;
pub(super) use hopscotch::HopscotchTable;
pub(super) use paged::PagedTable;
pub(super) use slickcache::SlickIndex;
pub(super) use whole::WholeIndex;

/// An index of values that lie on flash.
///
/// The value of a SET is not among its requests: every index writes it to a log in the same way.
pub(super) trait ValueIndex {
    /// Looks up a key and reads its value. Appends the device requests to `asked` in their order. Returns whether the
    /// key was found.
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool;

    /// Records the location of the new value of a key. Some indexes read the old value first.
    fn set(&mut self, key: u64, asked: &mut Vec<Access>);

    /// Bytes of DRAM that the cached part of the index takes when it is full.
    fn dram_bytes(&self) -> u64;
}

/// Maps the upper bits of a key evenly to `0..count`.
pub(super) fn spread(key: u64, count: u64) -> u64 {
    u64::try_from((u128::from(key) * u128::from(count)) >> 64).unwrap_or(0)
}
