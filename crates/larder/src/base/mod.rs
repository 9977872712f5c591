//! The words of the cache that every wing uses: what an item is, what a place on the device is, and how tasks wait.
//!
//! Uses no other wing.
//!
//! Invariants:
//!
//! 1. A key's hash decides everything about its place ([`key`]); its seed is fixed while flash has content.
//! 2. The cache's time never goes backwards ([`time`]).
//! 3. A future may be dropped at any await; then another waiter goes on with its work ([`turns`]).
//! 4. State that threads share takes its locks and atomics from [`sync`], so that shuttle can choose their order.
//!
//! | file | what it is |
//! |---|---|
//! | `error` | the errors of the cache |
//! | `item` | a key with its value, as the tiers pass it on, and the marks of an item in DRAM |
//! | `key` | keys: their limits and their hash |
//! | `layout` | the position on the device of each part of the cache |
//! | `prefetch` | prefetches memory |
//! | `removal` | tells a listener what leaves the cache, and why |
//! | `side_by_side` | runs several futures in one task |
//! | `signal` | waiting for a change |
//! | `sync` | locks and atomics, replaced under shuttle |
//! | `tier` | where an item was found, and where a value may be |
//! | `time` | the cache's own time |
//! | `ttl_groups` | the groups of objects that expire at about the same time |
//! | `turns` | work that one task does for all waiters |

pub(crate) mod combining;
pub mod error;
pub(crate) mod item;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod prefetch;
pub(crate) mod removal;
pub(crate) mod side_by_side;
pub(crate) mod signal;
pub(crate) mod sync;
pub(crate) mod tier;
pub(crate) mod time;
pub(crate) mod ttl_groups;
