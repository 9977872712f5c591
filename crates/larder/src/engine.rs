//! What flash asks of an engine: one that keeps objects of some sizes on a part of the device.
//!
//! Flash holds a list of them and knows no more of each than this. An engine is a module that implements [`Engine`]
//! and a line in `flash/engines.rs`.
//!
//! What all of them keep to:
//!
//! 1. A look-up returns a value whole and for its own key, or nothing. Nothing expired is returned.
//! 2. Of one key an engine holds one version. Two engines may hold one each for a moment, while an object moves: then
//!    they are the same.
//! 3. Where there are tombstones, what [`Engine::invalidate`] was called for stays away for good, also after a crash,
//!    once its receipt is committed. Where there are none, a crash empties flash, and [`Engine::remove`] and
//!    [`Engine::void`] need only hold until then.
//! 4. A caller may be dropped at any wait. What it began goes on or is finished by the next one.
//! 5. "No" of [`Engine::may_hold`] is certain and costs no I/O.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::error::Error;
use crate::flash_region::FlashRegion;
use crate::item::{Fetched, ItemRef};
use crate::key::KeyHash;
use crate::long::{Found, Lack, NewParts, Parts};
use crate::stats::Stats;
use crate::tier::Tier;
use crate::tombstones::{Inheritance, KeysIn, Receipt};

/// Whether somebody who has only so much time is to leave the rest out.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// What an engine makes of an invalidation.
#[derive(Debug, Default)]
pub(crate) struct Invalidated {
    /// There was something, and it is written down that it is dead.
    pub(crate) was_there: bool,
    /// What still has to be committed before the caller may be told. A later receipt stands for earlier ones.
    pub(crate) receipt: Option<Receipt>,
}

/// Bytes of memory, by what they are for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What is known of the objects: index, filters.
    pub(crate) index_bytes: u64,
    /// Buffers that are in use or kept for the next request.
    pub(crate) buffer_bytes: u64,
    /// What these come to at times.
    pub(crate) buffer_bytes_max: u64,
}

/// What was found again of an earlier opening.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundAgain {
    pub(crate) objects: u64,
    /// Regions that nobody has looked at yet.
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

/// Who says which records in regions are dead, after a clean shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadRecords {
    /// The snapshot: it lists regions, and what of them is current.
    Listed,
    /// The tombstone log, which goes on in the next opening.
    InLog,
}

/// What a clean shutdown has left beside an engine's part of the snapshot.
pub(crate) enum Kept {
    /// Nothing: the snapshot says everything.
    Snapshot,
    /// The tombstone log, which says what records are dead.
    Log(Arc<Inheritance>),
}

/// How far a scan of an engine has come.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Parts of the engine that were not begun.
    pub(crate) parts: Range<u64>,
    /// Names of objects in the part that was begun last.
    pub(crate) names: Vec<KeyHash>,
}

/// Judges an object that a scan has come to, at a time at which the engine holds it.
pub(crate) type Judge<'a, T> = &'a (dyn Fn(&ItemRef<'_>) -> Option<T> + Sync);

/// Appends objects to an engine in a row, without a wait between them. Keeps others from its index meanwhile.
pub(crate) trait Append {
    /// An object of this hash will be asked for, or appended.
    fn expect(&self, hash: KeyHash);

    /// Whether an object of this hash is stored.
    fn holds(&self, hash: KeyHash) -> bool;

    /// Whether there is room for `item` now.
    fn has_room_for(&mut self, item: &ItemRef<'_>) -> bool;

    /// Appends an item for which there is room, unless the index has something in its place. Says whether it did.
    fn append_new(&mut self, item: &ItemRef<'_>) -> bool;
}

/// See the [module](self). The caller holds the key's lock wherever a key is changed.
pub(crate) trait Engine {
    /// What statistics and listeners call it.
    fn tier(&self) -> Tier;

    /// What the superblock and the snapshot call its part.
    fn section(&self) -> [u8; 4];

    /// Whether it can hold an object of this size.
    fn takes(&self, item: &ItemRef<'_>) -> bool;

    /// Longest object that it can hold, key and value, in bytes.
    fn object_bytes_max(&self) -> usize;

    /// Objects that have the same group are written with one write. `None`: each with its own, or with whatever comes.
    fn group_of(&self, _hash: KeyHash) -> Option<u64> {
        None
    }

    /// Whether an object of this hash may be stored.
    fn may_hold(&self, hash: KeyHash) -> bool;

    /// Whether a version of `key` is stored. An expired one may count, if only a read would show that it is.
    async fn holds(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool;

    /// Looks `key` up.
    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Fetched>;

    /// Looks `key` up, but reads of a value in parts only which they are.
    async fn look_up(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Found> {
        self.get(hash, key, now_s).await.map(Found::Whole)
    }

    /// The next part of a value that [`Engine::look_up`] has found; `None` behind the last one.
    ///
    /// # Errors
    /// If it is not there.
    async fn next_part(&self, _parts: &mut Parts) -> Result<Option<Fetched>, Lack> {
        Ok(None)
    }

    /// Begins to store an object with a value of this length, if it would lie in parts. Nobody finds them before
    /// [`Engine::add_head`].
    fn new_parts(&self, _item: &ItemRef<'_>, _value_bytes: usize) -> Option<NewParts> {
        None
    }

    /// Stores the next part. Says whether it is stored.
    async fn add_part(&self, _parts: &mut NewParts, _bytes: &[u8], _now_s: u32) -> bool {
        false
    }

    /// Stores what makes parts an object, whose key has no older version. Says whether it is stored.
    async fn add_head(&self, _parts: &NewParts, _item: &ItemRef<'_>, _now_s: u32) -> bool {
        false
    }

    /// Stores items of one group, each in place of an older version. Returns those that are not stored: no version of
    /// their keys is, and it has said why.
    async fn set_together<'i, 'a>(
        &self,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>>;

    /// Bytes that it has room for, if objects can be appended to it in a row, whichever engine they belong to. A close
    /// sends there what it has no time to send elsewhere.
    fn append_bytes_max(&self) -> Option<u64> {
        None
    }

    /// Whether an object of this size can be appended to it.
    fn can_append(&self, _item: &ItemRef<'_>) -> bool {
        false
    }

    /// Begins to append, where [`Engine::append_bytes_max`] is something.
    fn appending(&self, _now_s: u32) -> Option<Box<dyn Append + '_>> {
        None
    }

    /// Sends off what was appended, if that is enough for a write.
    async fn write_appended(&self) {}

    /// So many objects more will come to its index.
    fn expect(&self, _objects: u64) {}

    /// Makes sure that no version of `key` is stored, as long as the cache is open. Says whether one was.
    async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool;

    /// As [`Engine::remove`], without a read: other objects may have to go with it. Only where there are no
    /// tombstones.
    async fn void(&self, hash: KeyHash);

    /// Whatever it holds of this hash is older than what the caller is about to do. Only where there are tombstones.
    ///
    /// # Errors
    /// If that cannot be written down; a crash may bring it back then.
    async fn invalidate(&self, hash: KeyHash) -> Result<Invalidated, Error>;

    /// Does its part that fewer tombstones are needed, if they are too many: gives up what most of them are of, or
    /// what `hash` shares its place with.
    async fn relieve_tombstones(&self, _hash: KeyHash) {}

    /// Which tombstones of keys count in it, if any do.
    fn keys_in(&self) -> Option<KeysIn> {
        None
    }

    /// Learns what it does not know of the place of this hash, if tombstones of keys count there
    /// ([`Engine::keys_in`]).
    async fn learn_place_of(&self, _hash: u64) {}

    /// Writes the place of this hash without its dead, if tombstones of keys count there
    /// ([`Engine::keys_in`]).
    async fn write_without_dead(&self, _hash: u64) {}

    /// Takes over what a crash has left of which `log` says what is dead; nothing is known of it yet.
    fn inherit(&mut self, log: &Arc<Inheritance>);

    /// After [`Engine::inherit`]: finds again what it must know before it serves.
    ///
    /// # Errors
    /// If something has to be written down and cannot be.
    async fn recover(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Takes over its part of the snapshot of a clean shutdown; an empty one if there is none.
    ///
    /// # Errors
    /// If something has to be written down and cannot be.
    async fn import(&mut self, part: &[u8], kept: &Kept) -> Result<(), Error>;

    /// Brings to its index at once what an opening has left, if that does not take long.
    async fn index_eagerly(&self) {}

    /// Brings all that an opening has left to its index, unless it is to stop. Returns the regions looked at.
    async fn index_until(&self, _stop: Stop<'_>) -> u64 {
        0
    }

    /// Does a little of that, for who found nothing.
    async fn index_a_little(&self) {}

    /// Brings a little of what an opening has left to its index, in turn with others. Says whether there is more.
    async fn index_in_turn(&self) -> bool {
        false
    }

    /// Whether its index knows all that it holds.
    fn is_indexed(&self) -> bool {
        true
    }

    /// Objects that it holds and that its index does not know, if the snapshot of the last shutdown listed them.
    async fn unindexed_objects(&self) -> u64 {
        0
    }

    /// Reads what would answer misses without I/O and an opening has left unknown, unless it is to stop. Returns how
    /// many places it read.
    async fn learn_until(&self, _stop: Stop<'_>) -> u64 {
        0
    }

    /// Whether a snapshot must say which of its records are dead, if the tombstone log does not.
    fn has_records(&self) -> bool {
        false
    }

    /// What was found again of an earlier opening.
    fn found_again(&self) -> FoundAgain {
        FoundAgain::default()
    }

    /// Writes what it holds in memory, if what is set may wait there. It goes on to be filled.
    async fn persist(&self) {}

    /// For a clean shutdown: writes what it holds in memory and waits for all that is under way. Little is set
    /// afterwards.
    async fn finish(&self);

    /// What the next opening needs to know of it: its part of a snapshot. After [`Engine::finish`].
    async fn export(&self, dead: DeadRecords) -> Vec<u8>;

    /// Waits for all writes that are under way. Nobody else uses it.
    async fn finish_writes(&self);

    /// What was written before this epoch is void. Nobody else uses it, and nothing is under way.
    fn clear(&self, epoch: u64);

    /// Memory that it takes.
    fn memory(&self) -> Memory;

    /// Adds what it knows of itself.
    fn add_to(&self, stats: &mut Stats);

    /// Its regions, if it has some.
    fn regions(&self) -> Vec<FlashRegion> {
        Vec::new()
    }

    /// How many objects it holds, about: dead ones may count, and what is not known to be there may not.
    fn estimated_len(&self) -> u64;

    /// Into so many equal parts of the space of hashes, a power of two, a scan may be divided at most.
    fn scan_parts_max(&self) -> usize {
        usize::MAX
    }

    /// Begins a scan of the objects with these hashes. It may come to others too.
    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor;

    /// Goes on with a scan: what `judge` makes of the next few objects, expired or not. Counts no hit and forgets
    /// nothing. `None` at the end.
    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>>;
}
