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
//! | `open`, `close`, `clear`, `gate` | the life of a cache, and the calls inside it |
//! | `read`, `look`, `many`, `single_flight` | look-ups, one or many; reads that callers share |
//! | `place`, `item`, `options` | where a new item goes, and how a caller describes it |
//! | `update`, `stale` | read-modify-write, and values that are served until a better one comes |
//! | `fetch`, `reentry` | one fetch per key, and calls of the cache from inside itself |
//! | `stream` | long values in parts |
//! | `iterate`, `pages` | scans |
//! | `core`, `demoting/`, `flush` | what sends items to flash, and the state that it shares with the cache |
//! | `budget`, `lending`, `memory` | memory budgets |
//! | `inspect` | statistics and maintenance |

mod budget;
mod clear;
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
pub(crate) mod look;
pub(crate) mod many;
pub(crate) mod memory;
mod open;
mod options;
pub(crate) mod pages;
mod place;
mod read;
mod reentry;
mod single_flight;
mod stale;
pub(crate) mod stream;
mod update;

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use larder_device::Claim;

use crate::base::error::{Error, ErrorKind};
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher, check_key, check_value};
use crate::base::removal::RemovalReason;
use crate::base::tier::{Tier, Tiers};
use crate::dram::ItemView;
use crate::observe::latency::{Stopwatch, TimedCall};

use self::core::Core;
pub(crate) use budget::Allotment;
use demoting::Sender;
use fetch::Outcome;
pub use fetch::{FetchError, Fetched};
pub use flush::Flushed;
use gate::GateEntry;
pub use iterate::{Scan, Scanned};
use lending::Membership;
pub use look::Copied;
pub use options::SetOptions;
pub use pages::{EstimatedItems, ScanPage};
use read::Hit;
use single_flight::SingleFlight;
pub use update::{Cas, Change};

/// Rule 7: bytes sent to flash per byte brought to DRAM.
const DEMOTED_PER_BROUGHT: usize = 2;

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
    /// First field, so that it is dropped before the rest.
    sender: Sender,
    /// Released before the device is dropped, and by a close, except for requests that have timed out and have not
    /// ended.
    claim: Mutex<Option<Arc<Claim>>>,
    core: Arc<Core>,
    /// Hashes every key that comes in, once.
    hasher: KeyHasher,
    /// Reads of flash in flight, by the hash of the key.
    reads: SingleFlight<u64, Option<Hit>>,
    fetches: SingleFlight<Box<[u8]>, Outcome>,
    stopwatch: Stopwatch,
    /// See [`Config::demotion_wait`](crate::Config::demotion_wait).
    demotion_wait: Duration,
    /// Whether hits record their time.
    notes_access: bool,
    /// Set if the cache shares its budget with others.
    membership: OnceLock<Membership<Self>>,
}

impl Larder {
    /// Stores `value` under `key` and replaces any older value. It expires after `ttl` (rounded up to milliseconds,
    /// and on flash to whole seconds), or never.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a key or a value that no tier can hold; the key then has no value at all.
    /// [`ErrorKind::Device`] if flash holds an older value and cannot record that it is void: the new value is
    /// stored, but a crash may bring the older one back.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use std::time::Duration;
    /// block_on(cache.set(b"bread", b"rye", Some(Duration::from_secs(3600))))?;
    /// block_on(cache.set(b"bread", b"oat", None))?; // in its place
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"oat"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        self.set_with(key, value, SetOptions { ttl, ..SetOptions::default() }).await
    }

    /// As [`Larder::set`], with all options of a value.
    ///
    /// # Errors
    /// As [`Larder::set`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set_with(b"bread", b"rye", SetOptions { flags: 7, ..Default::default() }))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.map(|value| value.flags()), Some(7));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        check_key(key)?;
        self.check_reentry()?;
        let inside = self.enter().await?;
        let begun = self.stopwatch.begin();
        let stored = self.store(key, value, options).await;
        self.stopwatch.end(begun, TimedCall::Set);
        self.leave(inside);
        stored
    }

    /// [`Larder::set_with`], for a valid key.
    async fn store(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<(), Error> {
        let hash = self.hasher.hash(key);
        self.core.counters.sets.add(1);
        if let Err(refusal) = check_value(value) {
            self.remove(hash, key).await?;
            return Err(refusal);
        }
        let item = self.item(hash, key, value, options);
        if !self.can_hold(&item) {
            self.remove(hash, key).await?;
            return Err(self.too_large(&item));
        }
        let supersede = |there: Option<&ItemView<'_>>| self.supersede(hash, key, there);
        let (stored, told_flash) = self.place(&item, &supersede, None).await;
        if !stored {
            self.remove(hash, key).await?;
        }
        told_flash
    }

    /// A version for a value of `key` that is about to be stored, for [`SetOptions::version`]: larger than those of
    /// all earlier values of the key. For callers that must report the version of their change.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let version = cache.draw_version(b"bread");
    /// let options = SetOptions { version: Some(version), ..SetOptions::default() };
    /// block_on(cache.set_with(b"bread", b"rye", options))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.map(|it| it.version()), Some(version.get()));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn draw_version(&self, key: &[u8]) -> NonZeroU64 {
        self.core.dram.draw_version(key)
    }

    /// Removes `key` from both tiers. Returns whether it was there. A large object on flash counts as there even if
    /// it has expired, because it is not read to find out.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key; [`ErrorKind::Device`] as for
    /// [`Larder::set`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.delete(b"bread"))?);
    /// assert!(!block_on(cache.delete(b"bread"))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        self.check_reentry()?;
        let inside = self.enter().await?;
        self.core.counters.deletes.add(1);
        let begun = self.stopwatch.begin();
        let removed = self.remove(self.hasher.hash(key), key).await;
        self.stopwatch.end(begun, TimedCall::Delete);
        self.leave(inside);
        removed
    }

    /// Makes sure that flash's version of a key does not come back after a crash. The caller holds the key's lock and
    /// is about to change the key.
    async fn invalidate_on_flash(&self, hash: KeyHash) -> Result<(), Error> {
        debug_assert!(
            self.core.is_key_locked(hash),
            "rule 1: the caller that changes a key holds its lock"
        );
        match &self.core.flash {
            Some(flash) => flash.invalidate(hash).await,
            None => Ok(()),
        }
    }

    /// Called at the moment at which the key changes: overtakes reads and fetches in flight, and counts the replaced
    /// value.
    fn supersede(&self, hash: KeyHash, key: &[u8], there: Option<&ItemView<'_>>) -> bool {
        self.reads.overtake(hash, &hash.0);
        self.fetches.overtake(hash, key);
        if let Some(ItemView { key, value, .. }) = there {
            self.core.counters.replaced_objects.add(1);
            let bytes = key.len() + value.len();
            self.core.counters.removals.key(RemovalReason::Replaced, Tier::Dram, key, bytes);
        }
        true
    }

    /// Removes `key` from both tiers.
    async fn remove(&self, hash: KeyHash, key: &[u8]) -> Result<bool, Error> {
        let _key_lock = self.core.lock_key(hash).await;
        let seen = self.tier_and_bytes(hash, key);
        let on_flash = match &self.core.flash {
            Some(flash) => flash.remove(hash, key, self.core.now_s()).await,
            None => Ok(false),
        };
        // Overtake between the two removals: a read that begins now finds nothing on flash, and one that began before
        // brings nothing to DRAM afterwards.
        self.supersede(hash, key, None);
        let in_dram = self.core.dram.remove(hash, key, self.core.now_ms());
        let was_there = in_dram.unwrap_or(matches!(on_flash, Ok(true)));
        if was_there {
            self.core.counters.deleted_objects.add(1);
            let (tier, bytes) = seen.unwrap_or((Tier::SmallObjects, 0));
            self.core.counters.removals.key(RemovalReason::Deleted, tier, key, bytes);
        }
        on_flash.map(|_| was_there)
    }

    /// The tier of `key`, if it is stored, and its bytes if DRAM has it; only for the removal listener.
    fn tier_and_bytes(&self, hash: KeyHash, key: &[u8]) -> Option<(Tier, usize)> {
        if !self.core.counters.removals.wanted() {
            return None;
        }
        let mut residents = self.core.dram.residents(hash).into_iter();
        if let Some(there) = residents.find(|resident| resident.value.key() == key) {
            return Some((Tier::Dram, key.len() + there.value.len()));
        }
        let tier = self.core.flash.as_deref().and_then(|flash| flash.tier_of(hash));
        Some((tier.unwrap_or(Tier::SmallObjects), 0))
    }

    /// Applies rule 7 for a caller that brought `brought` bytes to DRAM.
    async fn demote_for(&self, brought: usize) {
        let bytes = self.demoted_for(brought);
        self.demote_or_shrink(bytes).await;
        self.demote_for_debtors(bytes).await;
    }

    /// Sends at least `bytes` of the waiting records to flash, or leaves that to the thread or task that sends.
    async fn demote_or_shrink(&self, bytes: usize) {
        if self.core.flash.is_none() || !self.sender.relieves() {
            self.core.demote_bytes(bytes).await;
        } else if self.core.dram.is_shrinking() {
            self.core.dram.shrink_by_segment(self.core.now_s());
        }
    }

    /// Enters the gate, for a call that may touch the device. Without flash a clear or a close need not wait for
    /// calls.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    async fn enter(&self) -> Result<Option<GateEntry<'_>>, Error> {
        if self.core.flash.is_some() {
            self.core.gate.enter().await.map(Some)
        } else {
            self.core.gate.check().map(|()| None)
        }
    }

    /// Leaves the gate, and then reports removals to the listener, with no locks held.
    fn leave(&self, inside: Option<GateEntry<'_>>) {
        drop(inside);
        self.core.counters.removals.tell();
    }

    /// Refuses a call that would wait for a lock that the caller's own thread holds. Without flash there are no such
    /// locks.
    fn check_reentry(&self) -> Result<(), Error> {
        if self.core.flash.is_some() { reentry::check_update(self.id()) } else { Ok(()) }
    }

    /// Identifies the cache while it is not moved, as during a call.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether a tier allowed for `item` can hold it.
    fn can_hold(&self, item: &ItemRef<'_>) -> bool {
        // Ask flash first: it answers without a lock.
        self.core
            .flash
            .as_deref()
            .is_some_and(|flash| item.tiers != Tiers::DramOnly && flash.takes(item))
            || self.stays_in_dram(item)
    }

    /// Whether `item` may stay in DRAM; if not, it goes straight to flash.
    fn stays_in_dram(&self, item: &ItemRef<'_>) -> bool {
        let is_for_flash = item.tiers == Tiers::FlashOnly && self.core.flash.is_some();
        !is_for_flash && self.core.dram.can_hold(item.object_bytes())
    }

    fn too_large(&self, item: &ItemRef<'_>) -> Error {
        let object_bytes = item.object_bytes();
        let message = match &self.core.flash {
            Some(_) if item.tiers == Tiers::DramOnly => format!(
                "object of {object_bytes} bytes, for DRAM only: dram_bytes is too small for it"
            ),
            Some(flash) => format!(
                "object of {object_bytes} bytes: flash holds at most {} (use more of it, or set \
                 region_bytes higher), and dram_bytes is too small for it",
                flash.object_bytes_max()
            ),
            None => format!("object of {object_bytes} bytes: dram_bytes is too small for it"),
        };
        Error::new(ErrorKind::InvalidInput, message)
    }
}
