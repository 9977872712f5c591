//! The flash engines, and what they share. An engine keeps objects of some sizes on a part of the device.
//!
//! Uses `base`, `observe` and `config`. `flash` holds a list of engines and knows only the interface [`Engine`]. A new
//! engine is a module that implements it and a line in `flash/engines.rs`.
//!
//! Every engine guarantees:
//!
//! 1. A look-up returns a value whole and for its own key, or nothing. It returns nothing that has expired.
//! 2. An engine holds one version of a key. While an object moves, two engines may each hold it for a moment: then
//!    both hold the same version.
//! 3. With tombstones, whatever [`Engine::invalidate`] was called for stays away for good, also after a crash, once
//!    its receipt is committed. Without tombstones a crash empties flash, and [`Engine::remove`] and [`Engine::void`]
//!    need only hold until then.
//! 4. A caller may drop the future at any await. The operation then goes on, or the next caller finishes it.
//! 5. A "no" from [`Engine::may_hold`] is certain and costs no I/O.
//!
//! | file | what it is |
//! |---|---|
//! | `array/` | the array engine: large objects, with an index on flash |
//! | `loc/` | the large-object engine: large objects, with an index in DRAM |
//! | `soc/` | the small-object engine: buckets, and a log in front of them |
//! | `pages/` | the small-object engine in its other layout: pages by set |
//! | `small_record` | a small object as a record in a page |
//! | `long/` | values longer than a region, in parts |
//! | `stored` | an item as a record in a log of regions |
//! | `flash_region` | a region, for programs that show a map of flash |
//! | `tombstones/` | the log of what has died on flash |
//! | `region_tombstones` | tombstones of regions that are filled anew |
//! | `superblock` | the content of the cache's label; the log of tombstones rewrites it |
//! | `breaker` | the circuit breaker for writes |
//! | `shared_flush` | flushes of the device that several writers share |

pub(crate) mod array;
pub(crate) mod breaker;
pub(crate) mod flash_region;
pub(crate) mod loc;
pub(crate) mod long;
pub(crate) mod pages;
pub(crate) mod region_tombstones;
pub(crate) mod shared_flush;
mod small_record;
pub(crate) mod soc;
pub(crate) mod stored;
pub(crate) mod superblock;
pub(crate) mod tombstones;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::tier::Tier;
use crate::engine::flash_region::FlashRegion;
use crate::engine::long::{Lack, LongLookup, NewParts, Parts};
use crate::engine::tombstones::{Inheritance, KeysIn, Receipt};
use crate::observe::stats::Stats;

/// Tells a caller with limited time to stop and skip the rest.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Outcome of an invalidation.
#[derive(Debug, Default)]
pub(crate) struct InvalidateOutcome {
    /// The engine held something, and its death is recorded.
    pub(crate) was_there: bool,
    /// What must still be committed before the caller gets its answer. A later receipt covers all earlier ones.
    pub(crate) receipt: Option<Receipt>,
}

/// Bytes of memory, by use.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Knowledge about objects: index, filters.
    pub(crate) index_bytes: u64,
    /// Buffers in use or kept for the next request.
    pub(crate) buffer_bytes: u64,
    /// Largest value that `buffer_bytes` reaches.
    pub(crate) buffer_bytes_max: u64,
}

/// What an opening recovered from an earlier one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundAgain {
    pub(crate) objects: u64,
    /// Regions that are not indexed yet.
    pub(crate) regions_left: u32,
}

impl FoundAgain {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects + other.objects,
            regions_left: self.regions_left + other.regions_left,
        }
    }
}

/// What records which records in regions are dead, after a clean shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadRecords {
    /// The snapshot: it lists the regions and their live records.
    Listed,
    /// The tombstone log, which the next opening continues.
    InLog,
}

/// What a clean shutdown has left besides the engine's part of the snapshot.
pub(crate) enum ShutdownMark {
    /// Nothing: the snapshot is complete.
    Snapshot,
    /// The tombstone log, which says which records are dead.
    Log(Arc<Inheritance>),
}

/// Position of a scan in an engine.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Parts of the engine that the scan has not begun.
    pub(crate) parts: Range<u64>,
    /// Hashes of objects left to visit in the part that was begun last.
    pub(crate) names: Vec<KeyHash>,
}

/// Called by a scan for each object that it visits, while the engine holds that object.
pub(crate) type Judge<'a, T> = &'a (dyn Fn(&ItemRef<'_>) -> Option<T> + Sync);

/// Appends objects to an engine in order, without a wait between them. Locks others out of the index until it is
/// dropped.
pub(crate) trait Append {
    /// Announces that an object of this hash will be looked up or appended.
    fn expect(&self, hash: KeyHash);

    /// Whether an object of this hash is stored.
    fn holds(&self, hash: KeyHash) -> bool;

    /// Whether there is room for `item` now.
    fn has_room_for(&mut self, item: &ItemRef<'_>) -> bool;

    /// Appends an item for which there is room, unless the index entry is taken. Returns whether it appended.
    fn append_new(&mut self, item: &ItemRef<'_>) -> bool;
}

/// See the [module](self). The caller holds the key's lock for every call that changes a key.
pub(crate) trait Engine {
    /// The engine's name in statistics and for listeners.
    fn tier(&self) -> Tier;

    /// The name of the engine's section in the superblock and the snapshot.
    fn section(&self) -> [u8; 4];

    /// Whether the engine can hold an object of this size.
    fn takes(&self, item: &ItemRef<'_>) -> bool;

    /// Longest object that the engine can hold, key and value, in bytes.
    fn object_bytes_max(&self) -> usize;

    /// Objects of the same group go to flash with one write. `None`: each object has its own write, or shares one
    /// with whatever else comes.
    fn group_of(&self, _hash: KeyHash) -> Option<u64> {
        None
    }

    /// Whether an object of this hash may be stored. `false` is certain.
    fn may_hold(&self, hash: KeyHash) -> bool;

    /// Whether a version of `key` is stored. An expired version may count if only a read would show that it has
    /// expired.
    async fn holds(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool;

    /// Looks `key` up.
    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem>;

    /// Looks `key` up. Of a value in parts, reads only the list of its parts.
    async fn look_up(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<LongLookup> {
        self.get(hash, key, now_s).await.map(LongLookup::Whole)
    }

    /// The next part of a value that [`Engine::look_up`] has found; `None` after the last part.
    ///
    /// # Errors
    /// If the part is missing.
    async fn next_part(&self, _parts: &mut Parts) -> Result<Option<FlashItem>, Lack> {
        Ok(None)
    }

    /// Starts to store an object with a value of this length, if its value would be split into parts. A look-up does
    /// not find them before [`Engine::add_head`].
    fn new_parts(&self, _item: &ItemRef<'_>, _value_bytes: usize) -> Option<NewParts> {
        None
    }

    /// Stores the next part. Returns whether it is stored.
    async fn add_part(&self, _parts: &mut NewParts, _bytes: &[u8], _now_s: u32) -> bool {
        false
    }

    /// Stores the head, which makes the parts an object. The key has no older version. Returns whether the head is
    /// stored.
    async fn add_head(&self, _parts: &NewParts, _item: &ItemRef<'_>, _now_s: u32) -> bool {
        false
    }

    /// Stores an item in place of an older version. Returns whether it is stored; if not, no version of the key is on
    /// flash any more, and the engine has counted and reported the reason.
    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool;

    /// The same for items of one group. Returns the items that are not stored.
    async fn set_together<'i, 'a>(
        &self,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>> {
        let mut lost = Vec::new();
        for item in items {
            if !self.set(item, now_s).await {
                lost.push(item);
            }
        }
        lost
    }

    /// Bytes that can be appended in order to this engine, for objects of any engine. A close appends there what it
    /// has no time to write elsewhere. `None` if the engine cannot append.
    fn append_bytes_max(&self) -> Option<u64> {
        None
    }

    /// Whether an object of this size can be appended to the engine.
    fn can_append(&self, _item: &ItemRef<'_>) -> bool {
        false
    }

    /// Starts to append. `Some` where [`Engine::append_bytes_max`] is `Some`.
    fn appending(&self, _now_s: u32) -> Option<Box<dyn Append + '_>> {
        None
    }

    /// Submits what was appended, if it fills a write.
    async fn write_appended(&self) {}

    /// Announces that this number of objects more will come to the index.
    fn expect(&self, _objects: u64) {}

    /// Removes all versions of `key` for as long as the cache is open. Returns whether one was stored.
    async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool;

    /// As [`Engine::remove`], but without a read: it may remove other objects too. Only without tombstones.
    async fn void(&self, hash: KeyHash);

    /// Declares that all objects of this hash in the engine are older than what the caller is about to store. Only
    /// with tombstones.
    ///
    /// # Errors
    /// If that cannot be recorded; then a crash may bring the old object back.
    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error>;

    /// Whether [`Engine::invalidate`] may have something to do. Costs no I/O; "no" is certain while the caller holds
    /// the key's lock.
    fn has_to_void(&self, _hash: KeyHash) -> bool {
        true
    }

    /// Called when there are too many tombstones. Gives up either the place that causes most of them, or the place of
    /// `hash`, so that fewer are needed.
    async fn relieve_tombstones(&self, _hash: KeyHash) {}

    /// The key tombstones that count in this engine, if it uses them.
    fn keys_in(&self) -> Option<KeysIn> {
        None
    }

    /// Reads what is unknown of the place of this hash, if key tombstones count in this engine ([`Engine::keys_in`]).
    async fn learn_place_of(&self, _hash: u64) {}

    /// Rewrites the place of this hash without its dead objects, if key tombstones count in this engine
    /// ([`Engine::keys_in`]).
    async fn write_without_dead(&self, _hash: u64) {}

    /// Takes over what a crash has left. `log` says which records are dead. Reads nothing yet.
    fn inherit(&mut self, log: &Arc<Inheritance>);

    /// After [`Engine::inherit`]: recovers what the engine must know before it serves.
    ///
    /// # Errors
    /// If something must be recorded and cannot be.
    async fn recover(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Takes over the engine's part of the snapshot of a clean shutdown; the part is empty if there is none.
    ///
    /// # Errors
    /// If something must be recorded and cannot be.
    async fn import(&mut self, part: &[u8], kept: &ShutdownMark) -> Result<(), Error>;

    /// Indexes what an earlier opening has left, if that is quick.
    async fn index_eagerly(&self) {}

    /// Indexes all that an earlier opening has left, until `stop` says to end. Returns the number of regions read.
    async fn index_until(&self, _stop: Stop<'_>) -> u64 {
        0
    }

    /// Does a little of that indexing, for a caller that found nothing.
    async fn index_a_little(&self) {}

    /// Indexes a little of what an earlier opening has left, in turn with other callers. Returns whether more is
    /// left.
    async fn index_in_turn(&self) -> bool {
        false
    }

    /// Whether the index covers everything that the engine holds.
    fn is_indexed(&self) -> bool {
        true
    }

    /// Objects that the engine holds but has not indexed, if the snapshot of the last shutdown listed them.
    async fn unindexed_objects(&self) -> u64 {
        0
    }

    /// Reads what the engine needs to answer misses without I/O and does not know after the opening, until `stop`
    /// says to end. Returns the number of places read.
    async fn learn_until(&self, _stop: Stop<'_>) -> u64 {
        0
    }

    /// Whether a snapshot must list dead records when the tombstone log does not.
    fn has_records(&self) -> bool {
        false
    }

    /// What was recovered from an earlier opening.
    fn found_again(&self) -> FoundAgain {
        FoundAgain::default()
    }

    /// Writes what the engine holds in memory, if stored objects may wait there. The engine can still be filled.
    async fn persist(&self) {}

    /// For a clean shutdown: writes what the engine holds in memory and waits for everything in flight. Few objects
    /// are set afterwards.
    async fn finish(&self);

    /// The engine's part of a snapshot, for the next opening. Call after [`Engine::finish`].
    async fn export(&self, dead: DeadRecords) -> Vec<u8>;

    /// Waits for all writes in flight. The caller has exclusive use of the engine.
    async fn finish_writes(&self);

    /// Voids everything written before this epoch. The caller has exclusive use, and nothing is in flight.
    fn clear(&self, epoch: u64);

    /// Memory in use.
    fn memory(&self) -> Memory;

    /// Adds the engine's numbers to `stats`.
    fn add_to(&self, stats: &mut Stats);

    /// The engine's regions; empty if it has none.
    fn regions(&self) -> Vec<FlashRegion> {
        Vec::new()
    }

    /// Approximate number of objects: may count dead ones, and may miss ones that are not indexed.
    fn estimated_len(&self) -> u64;

    /// Maximum number of equal parts, a power of two, into which a scan may divide the hash space.
    fn scan_parts_max(&self) -> usize {
        usize::MAX
    }

    /// Starts a scan of the objects with these hashes. It may visit others too.
    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor;

    /// Continues a scan: what `judge` returns for the next few objects, expired or not. It counts no hit and forgets
    /// nothing. `None` at the end.
    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>>;
}
