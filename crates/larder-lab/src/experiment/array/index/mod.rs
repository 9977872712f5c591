//! Indexes of values on flash, as the device sees them: what each operation reads and writes.
//!
//! | module | what it is |
//! |---|---|
//! | `access` | requests to the device, and their sums |
//! | `entries` | entries cached in four-way sets over tables on flash: the rule of the array engine, as a prediction |
//! | `paged` | a hash table whose pages come from flash when they are asked for |
//! | `whole`, `cut` | all entries in DRAM, and as many as fit |
//! | `recency` | which of a number of slots was used longest ago |
//! | `stored` | which keys there are |
//!
//! All take keys whose bits are evenly distributed, and use other bits for each purpose.

mod access;
mod cut;
mod entries;
mod paged;
mod recency;
mod stored;
mod whole;

pub(super) use access::{Access, Kind, Sums};
pub(super) use cut::{CutIndex, Order};
pub(super) use entries::EntryCache;
pub(super) use paged::PagedTable;
pub(super) use whole::WholeIndex;

/// An index of values that lie on flash.
///
/// The value of a SET is not among its requests: it goes to a log, in the same way whatever the index.
pub(super) trait ValueIndex {
    /// Looks a key up and reads its value: what the device is asked, in this order, goes behind `asked`. Whether the
    /// key was found.
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool;

    /// Notes where the new value of a key is.
    fn set(&mut self, key: u64, asked: &mut Vec<Access>);

    /// Memory of what is cached of the index, in bytes: full to the last entry.
    fn dram_bytes(&self) -> u64;
}

/// Spreads the upper bits of a key over `count` numbers.
pub(super) fn spread(key: u64, count: u64) -> u64 {
    u64::try_from((u128::from(key) * u128::from(count)) >> 64).unwrap_or(0)
}
