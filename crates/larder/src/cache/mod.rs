//! The cache: `get`, `set`, `delete` over both tiers, and the rules that keep the tiers consistent.
//!
//! 1. A task that changes a key, or sends it to flash, holds the key's lock: a stripe of async mutexes. A hit takes
//!    no lock, in DRAM or on flash. A value that was read from flash enters DRAM only if the key was not changed
//!    since the read began (`read`).
//! 2. DRAM is newer than flash. While a key is in DRAM (or on its way out), no look-up reads flash for it.
//! 3. When an item leaves DRAM, flash ends up with this version or with none; an older one never stays there.
//! 4. No task holds a lock while it waits for another key's lock. A task that changes or sends several keys at once
//!    waits for the lock of one of them, and takes along those whose locks are free.
//! 5. Before a key is changed in DRAM, flash records that its version of the key is void (`tombstones`): a crash
//!    empties DRAM, and flash must not answer in its place.
//! 6. A call that may touch the device is inside the `gate` while it does, once: a clear or a close waits until no
//!    call is inside.
//! 7. A thread of the cache sends what leaves DRAM to flash (`demoting`). Without it (`Demotions::Callers`), callers
//!    that bring new items to DRAM help to send old ones, twice as many bytes as they brought: so no caller pays for
//!    all, and the backlog shrinks.
//! 8. The number of bytes on their way to flash is bounded: a part of DRAM's budget, and above it
//!    `demoting_bytes_max`. A caller that would exceed it waits, without any lock, and is refused after
//!    `demotion_wait`.
//!
//! Uses `base`, `observe`, `config`, `dram`, `engine` and `flash`.
//!
//! | file | what it is |
//! |---|---|
//! | `life` | the calls by which a cache is opened, flushed, emptied and closed; `close`, `flush`: what these send |
//! | `read` | the calls that look keys up; `look`: what they find; `single_flight`: shared reads |
//! | `write` | the calls that set, change and remove; `change`: what an update does |
//! | `inspect` | the calls for statistics, scans and memory budgets; `streams`: what is known of each write stream |
//! | `item`, `options` | how a caller describes an item |
//! | `place`, `demoting/` | where a new item goes, and how old ones make room for it |
//! | `fetch`, `reentry` | one fetch per key, and calls of the cache from inside itself |
//! | `stream` | long values in parts |
//! | `iterate`, `pages` | scans |
//! | `core`, `gate` | the tiers with their locks, and the calls inside |
//! | `budget`, `lending`, `memory` | memory budgets |

mod at_once;
mod budget;
mod change;
mod close;
mod core;
mod demoting;
mod fetch;
mod flush;
pub(crate) mod gate;
mod inspect;
mod item;
mod iterate;
pub(crate) mod lending;
mod life;
pub(crate) mod look;
pub(crate) mod memory;
mod options;
pub(crate) mod pages;
mod place;
mod read;
mod reentry;
mod single_flight;
pub(crate) mod stream;
pub(crate) mod streams;
mod write;

use std::sync::{Arc, Mutex};

use larder_device::Claim;

use crate::base::key::KeyHasher;
use crate::observe::latency::Stopwatch;

use self::core::Core;
pub(crate) use budget::Allotment;
pub use change::{Cas, Change};
use demoting::Demoter;
use fetch::Outcome;
pub use fetch::{FetchError, Fetched};
pub use flush::Flushed;
use item::ItemBuilder;
pub use iterate::{Scan, Scanned};
pub use look::Copied;
use look::Hit;
pub use options::SetOptions;
pub use pages::{EstimatedItems, ScanPage};
use single_flight::SingleFlight;

/// A hybrid cache, DRAM in front of flash. Share it between threads and tasks behind an [`Arc`].
///
/// Every future may be dropped at any point: the cache stays consistent, though an operation in flight may be lost.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Larder, RealClock, block_on};
///
/// let cache = Larder::open(Default::default(), None, Arc::new(RealClock));
/// let cache = Arc::new(block_on(cache)?);
/// let beside = Arc::clone(&cache);
/// std::thread::spawn(move || block_on(beside.set(b"bread", b"rye", None))).join().unwrap()?;
/// assert!(block_on(cache.contains(b"bread"))?);
/// # Ok::<(), larder::Error>(())
/// ```
pub struct Larder {
    /// First field, so that its thread ends before the rest is dropped.
    demoter: Demoter,
    /// Released before the device is dropped, and by a close, except for requests that have timed out and have not
    /// ended.
    claim: Mutex<Option<Arc<Claim>>>,
    core: Arc<Core>,
    /// Builds the items that callers describe.
    items: ItemBuilder,
    /// Hashes every key that comes in, once.
    hasher: KeyHasher,
    /// Reads of flash in flight, by the hash of the key.
    reads: SingleFlight<u64, Option<Hit>>,
    fetches: SingleFlight<Box<[u8]>, Outcome>,
    stopwatch: Stopwatch,
}
