//! Maps a key's hash to the place of its item: eight bytes per item, without keys.
//!
//! The index is sharded by hash; each shard is a table with a lock of its own. Entries change under the write lock
//! (`change`). Look-ups need no lock. Such a reader may miss an entry that moves to its other bucket, or to another
//! table, during the look-up; a counter of such moves tells it. It never finds an entry that was removed before it
//! came.
//!
//! Between the moment at which a lock-free reader sees an entry and the moment at which it pins the record, the
//! record may vanish: a segment is reused as soon as no entry names it and it has no pins, without waiting for
//! readers. So a reader that has pinned checks again ([`Looking`]). It checks the entry, which the thread that reuses
//! a segment removes before it checks for pins. And it checks the move counter of the shard, which the thread that
//! overwrites a record increments before it checks for pins. Each side has two steps: it announces what it does, and
//! then checks what the other does. All four accesses are `SeqCst`, or have such a fence between them, so at least
//! one side sees the other. If the pin came too early, it is a pin of a segment, but not of the record, and is given
//! back.
//!
//! Tables grow and shrink with their content, each behind its own lock. Shards are divided as the budget grows
//! (`directory`). A thread that has chosen a shard and then locked it checks again that it is still the right one.

mod change;

use std::cell::Cell;
use std::sync::PoisonError;

pub(crate) use self::change::{PutOutcome, Putting, ShardFull};
use super::directory::Directory;
use super::published::PublishedSlice;
use super::readers::{LockProof, LockProofAlone, ReadProof, Readers};
use super::retired::RetiredMemory;
pub(crate) use super::table::Records;
use super::table::{AtomicEntry, Bucket, Table, empty_buckets, places_of};
pub(crate) use super::table::{Entry, Location, OFFSETS_END, SLOTS_MAX};
use crate::base::key::KeyHash;
use crate::base::prefetch::prefetch;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[repr(align(64))]
#[derive(Debug)]
struct IndexShard {
    /// The number of entries; its lock guards them.
    len: RwLock<usize>,
    /// Odd while entries move: a reader that misses one then may have overlooked it. Also odd while a record is
    /// overwritten in place.
    moves: AtomicUsize,
    buckets: PublishedSlice<Bucket>,
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Directory<IndexShard>,
    /// The wanted number of shards.
    wanted: AtomicUsize,
    /// Locked to divide a shard, and to visit all shards exactly once.
    dividing: Mutex<()>,
    bytes: AtomicUsize,
    readers: Readers<RetiredMemory>,
}

impl Index {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let bytes = shards * (size_of::<IndexShard>() + size_of::<Bucket>());
        Self {
            shards: Directory::new((0..shards).map(|_| IndexShard::of_buckets(1)).collect()),
            wanted: AtomicUsize::new(shards),
            dividing: Mutex::default(),
            bytes: AtomicUsize::new(bytes),
            readers: Readers::default(),
        }
    }

    /// The readers without a lock.
    pub(crate) fn readers(&self) -> &Readers<RetiredMemory> {
        &self.readers
    }

    /// Memory of the tables.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Minimum memory of the tables, with hardly an entry.
    pub(crate) fn memory_bytes_min(&self) -> usize {
        self.shards.count() * (size_of::<IndexShard>() + size_of::<Bucket>())
    }

    pub(crate) fn len(&self) -> usize {
        let _undivided = self.dividing();
        self.shards.all().map(|shard| *shard.read().0).sum()
    }

    /// Calls `look` with the entries that may be of this hash until it returns a result; that entry counts a hit.
    pub(crate) fn find<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Looking<'_>) -> Option<T>,
    ) -> Option<T> {
        let (shard, _len, locked) = self.read(hash);
        let looking = Looking::locked(&locked);
        shard.table(&locked).find(hash, |_, entry| look(entry, &looking))
    }

    /// The same without a lock. `None` means that there was no entry at some moment since the start.
    ///
    /// # Errors
    /// [`IndexMoved`]: an entry may have been overlooked.
    pub(crate) fn find_without_lock<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Looking<'_>) -> Option<T>,
    ) -> Result<Option<T>, IndexMoved> {
        let inside = self.readers.enter();
        let number = self.shards.number_of(hash);
        let shard = self.shards.at(number);
        // A reader that sees the result of a move (an empty place, another table, or a record that is being
        // overwritten) also sees that the move had begun, because all of this is loaded with `SeqCst`, in this order.
        // If the shard was divided before, the number tells.
        let since = Since::now(&shard.moves);
        if self.shards.number_of(hash) != number {
            return Err(IndexMoved);
        }
        let mut has_moved = false;
        let found = shard.table(inside.held()).find(hash, |place, entry| {
            let looking = Looking::unlocked(inside.held(), since, place, entry);
            let found = look(entry, &looking);
            has_moved |= looking.has_moved();
            found
        });
        if found.is_some() || !has_moved && since.nothing_moved() {
            Ok(found)
        } else {
            Err(IndexMoved)
        }
    }

    /// Prefetches the buckets of a hash that will be looked up soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        let (buckets, count) = self.shard(hash).buckets.address();
        places_of(hash, count).into_iter().for_each(|at| prefetch(buckets.wrapping_add(at)));
    }

    /// Calls `each` with the locations in entries of these hashes: hints only, since other threads may change them.
    pub(crate) fn peek_all(&self, hashes: &[KeyHash], each: impl Fn(Location, &ReadProof)) {
        let inside = self.readers.enter();
        for &hash in hashes {
            let table = self.shard(hash).table(inside.held());
            if let Some((_, entry)) = table.candidates(hash).next() {
                each(entry.location(), inside.held());
            }
        }
    }

    /// As [`Index::find`], but counts no hit.
    pub(crate) fn peek<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &LockProof) -> Option<T>,
    ) -> Option<T> {
        let (shard, _len, locked) = self.read(hash);
        shard.table(&locked).candidates(hash).find_map(|(_, entry)| look(entry, &locked))
    }

    /// Requests at least this number of shards, a power of two. [`Index::divide`] creates them.
    pub(crate) fn want_shards(&self, shards: usize) {
        let shards = shards.min(self.shards.count_max());
        self.wanted.fetch_max(shards, Ordering::Relaxed);
    }

    /// Whether there are fewer shards than wanted.
    #[inline]
    pub(crate) fn is_to_be_divided(&self) -> bool {
        self.shards.count() < self.wanted.load(Ordering::Relaxed)
    }

    /// Number of equal parts, by the upper bits of hashes, in which entries can be listed.
    pub(crate) fn parts(&self) -> usize {
        1 << self.shards.count().ilog2()
    }

    /// Calls `look` with every entry of one of `parts` parts, and perhaps others. `parts` is an earlier result of
    /// [`Index::parts`].
    pub(crate) fn each_in(
        &self,
        part: usize,
        parts: usize,
        mut look: impl FnMut(Entry, &LockProof),
    ) {
        let _undivided = self.dividing();
        for shard in self.shards.of_part(part, parts) {
            let (_len, locked) = shard.read();
            shard.table(&locked).entries().for_each(|entry| look(entry, &locked));
        }
    }

    /// The entry of this hash that points to `location`.
    pub(crate) fn entry_at(&self, hash: KeyHash, location: Location) -> Option<Entry> {
        let (shard, _len, locked) = self.read(hash);
        shard.table(&locked).position_at(hash, location).map(|(_, entry)| entry)
    }

    /// The shard of a hash; without a lock the caller may have to check again.
    fn shard(&self, hash: KeyHash) -> &IndexShard {
        self.shards.at(self.shards.number_of(hash))
    }

    /// The locked shard of a hash; it remains the right one while it is locked.
    fn read(&self, hash: KeyHash) -> (&IndexShard, RwLockReadGuard<'_, usize>, LockProof) {
        let (shard, (len, locked)) = self.locked(hash, IndexShard::read);
        (shard, len, locked)
    }

    fn write(&self, hash: KeyHash) -> (&IndexShard, RwLockWriteGuard<'_, usize>, LockProofAlone) {
        let (shard, (len, locked)) = self.locked(hash, IndexShard::write);
        (shard, len, locked)
    }

    /// Locks the shard of a hash, and checks afterwards that it was not divided before it was locked.
    fn locked<'a, L>(
        &'a self,
        hash: KeyHash,
        lock: impl Fn(&'a IndexShard) -> L,
    ) -> (&'a IndexShard, L) {
        loop {
            let number = self.shards.number_of(hash);
            let shard = self.shards.at(number);
            let locked = lock(shard);
            if self.shards.number_of(hash) == number {
                return (shard, locked);
            }
        }
    }

    fn dividing(&self) -> MutexGuard<'_, ()> {
        self.dividing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IndexShard {
    fn of_buckets(count: usize) -> Self {
        Self {
            len: RwLock::new(0),
            moves: AtomicUsize::new(0),
            buckets: PublishedSlice::new(empty_buckets(count)),
        }
    }

    fn table<'a>(&'a self, held: &'a ReadProof) -> Table<'a> {
        Table(self.buckets.get(held))
    }

    fn read(&self) -> (RwLockReadGuard<'_, usize>, LockProof) {
        (self.len.read().unwrap_or_else(PoisonError::into_inner), LockProof::new())
    }

    fn write(&self) -> (RwLockWriteGuard<'_, usize>, LockProofAlone) {
        (self.len.write().unwrap_or_else(PoisonError::into_inner), LockProofAlone::new())
    }
}

/// A look-up found nothing, but entries were moved, or records overwritten, at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexMoved;

/// The context of a look at an entry, with the shard's lock or without.
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    held: &'a ReadProof,
    /// `None` means with the lock.
    unlocked: Option<UnlockedEntry<'a>>,
}

#[derive(Debug)]
struct UnlockedEntry<'a> {
    since: Since<'a>,
    place: &'a AtomicEntry,
    entry: Entry,
    /// Whether a move was seen.
    moved: Cell<bool>,
}

/// The move counter of a shard, and its value before the first look.
#[derive(Debug, Clone, Copy)]
struct Since<'a> {
    moves: &'a AtomicUsize,
    before: usize,
}

impl<'a> Since<'a> {
    fn now(moves: &'a AtomicUsize) -> Self {
        Self { moves, before: moves.load(Ordering::SeqCst) }
    }

    /// Whether since then no entry has moved and no record was overwritten.
    #[inline]
    fn nothing_moved(self) -> bool {
        self.before & 1 == 0 && self.moves.load(Ordering::SeqCst) == self.before
    }
}

impl<'a> Looking<'a> {
    fn locked(held: &'a ReadProof) -> Self {
        Self { held, unlocked: None }
    }

    /// The entry was seen at this place after `since`.
    fn unlocked(
        held: &'a ReadProof,
        since: Since<'a>,
        place: &'a AtomicEntry,
        entry: Entry,
    ) -> Self {
        let moved = Cell::new(false);
        Self { held, unlocked: Some(UnlockedEntry { since, place, entry, moved }) }
    }

    pub(crate) fn held(&self) -> &ReadProof {
        self.held
    }

    /// Whether the entry still names the same record, and nothing was overwritten. The caller has pinned the segment:
    /// if this is true, the record does not change while the pin lives.
    #[inline]
    pub(crate) fn is_as_it_was(&self) -> bool {
        let Some(UnlockedEntry { since, place, entry, moved }) = &self.unlocked else {
            return true;
        };
        let as_it_was = place.names_what(*entry) && since.nothing_moved();
        moved.set(!as_it_was);
        as_it_was
    }

    /// Whether a move was seen.
    fn has_moved(&self) -> bool {
        self.unlocked.as_ref().is_some_and(|unlocked| unlocked.moved.get())
    }
}

#[cfg(test)]
mod tests;
