//! Which item lies where: eight bytes an item, and no keys.
//!
//! Sharded by hash, each shard a table behind a lock of its own. Entries change under the write
//! lock (`change`). They are found without it: such a reader may miss an entry that goes to its other bucket
//! meanwhile, or to another table, which a count of such moves tells it, and finds none that was taken
//! out before it came.
//!
//! Between an entry that a reader without a lock has seen and the pin that keeps its record, the record may
//! be gone: the segment is used again as soon as no entry names it and nobody pins it, and waits for no
//! reader. So whoever has pinned looks once more ([`Looking`]): at the entry, which whoever uses a segment again has
//! taken out before it looks for pins, and at the moves of the shard, which whoever overwrites a record has
//! counted before it looks for pins. Each has two steps, says what it does and looks at what the other
//! does, and all four are `SeqCst`, or have such a fence between them: so at least one of the two sees
//! the other. A pin that came too early is of a segment, but of no record, and is given back.
//!
//! Tables grow and shrink with what they hold, each behind its own lock; with the budget shards are
//! divided (`directory`). Who has chosen a shard and then locked it looks once more whether it is still
//! the one.

mod change;

use std::cell::Cell;
use std::sync::PoisonError;

pub(crate) use self::change::{Put, Putting, ShardFull};
use super::directory::Directory;
use super::prefetch::prefetch;
use super::published::Published;
use super::readers::{Held, Locked, LockedAlone, Readers};
use super::retired::Retired;
pub(crate) use super::table::Records;
use super::table::{AtomicEntry, Bucket, Table, empty_buckets, places_of};
pub(crate) use super::table::{Entry, Location, OFFSETS_END, SLOTS_MAX};
use crate::key::KeyHash;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[repr(align(64))]
#[derive(Debug)]
struct Shard {
    /// Counts the entries, and guards them.
    len: RwLock<usize>,
    /// Odd while entries go to other places: whoever missed one meanwhile may have overlooked it. Odd, too,
    /// while a record is overwritten where it lies.
    moves: AtomicUsize,
    buckets: Published<Bucket>,
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Directory<Shard>,
    /// So many shards are wanted.
    wanted: AtomicUsize,
    /// Held by the one who divides a shard, and by who wants to see all of them once.
    dividing: Mutex<()>,
    bytes: AtomicUsize,
    readers: Readers<Retired>,
}

impl Index {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let bytes = shards * (size_of::<Shard>() + size_of::<Bucket>());
        Self {
            shards: Directory::new((0..shards).map(|_| Shard::of_buckets(1)).collect()),
            wanted: AtomicUsize::new(shards),
            dividing: Mutex::default(),
            bytes: AtomicUsize::new(bytes),
            readers: Readers::default(),
        }
    }

    /// Those who look without a lock.
    pub(crate) fn readers(&self) -> &Readers<Retired> {
        &self.readers
    }

    /// Memory that the tables take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What they take at least, with hardly an entry.
    pub(crate) fn memory_bytes_min(&self) -> usize {
        self.shards.count() * (size_of::<Shard>() + size_of::<Bucket>())
    }

    pub(crate) fn len(&self) -> usize {
        let _undivided = self.dividing();
        self.shards.all().map(|shard| *shard.read().0).sum()
    }

    /// Shows `look` the entries that may be of this hash until it has found what it wants; that
    /// entry counts a hit.
    pub(crate) fn find<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Looking<'_>) -> Option<T>,
    ) -> Option<T> {
        let (shard, _len, locked) = self.read(hash);
        let looking = Looking::locked(&locked);
        shard.table(&locked).find(hash, |_, entry| look(entry, &looking))
    }

    /// The same without a lock. Who finds none knows that there was none at some moment since it began.
    ///
    /// # Errors
    /// [`Moved`]: it does not know it.
    pub(crate) fn find_without_lock<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Looking<'_>) -> Option<T>,
    ) -> Result<Option<T>, Moved> {
        let inside = self.readers.enter();
        let number = self.shards.number_of(hash);
        let shard = self.shards.at(number);
        // Who sees what a move left behind, an empty place, another table, or a record that is being
        // overwritten, sees that it had begun: all of this is loaded with `SeqCst`, in this order. Of a
        // shard that was divided before, the number tells.
        let since = Since::now(&shard.moves);
        if self.shards.number_of(hash) != number {
            return Err(Moved);
        }
        let mut has_moved = false;
        let found = shard.table(inside.held()).find(hash, |place, entry| {
            let looking = Looking::unlocked(inside.held(), since, place, entry);
            let found = look(entry, &looking);
            has_moved |= looking.has_moved();
            found
        });
        if found.is_some() || !has_moved && since.nothing_moved() { Ok(found) } else { Err(Moved) }
    }

    /// Asks memory for the places of a hash, which will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        let (buckets, count) = self.shard(hash).buckets.address();
        places_of(hash, count).into_iter().for_each(|at| prefetch(buckets.wrapping_add(at)));
    }

    /// Shows `each` what entries of these hashes name: hints, which others may be changing.
    pub(crate) fn peek_all(&self, hashes: &[KeyHash], each: impl Fn(Location, &Held)) {
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
        mut look: impl FnMut(Entry, &Locked) -> Option<T>,
    ) -> Option<T> {
        let (shard, _len, locked) = self.read(hash);
        shard.table(&locked).candidates(hash).find_map(|(_, entry)| look(entry, &locked))
    }

    /// Wants at least so many shards, a power of two. [`Index::divide`] makes them.
    pub(crate) fn want_shards(&self, shards: usize) {
        let shards = shards.min(self.shards.count_max());
        self.wanted.fetch_max(shards, Ordering::Relaxed);
    }

    /// Whether there are less shards than wanted.
    #[inline]
    pub(crate) fn is_to_be_divided(&self) -> bool {
        self.shards.count() < self.wanted.load(Ordering::Relaxed)
    }

    /// Into how many equal parts, by the upper bits of hashes, entries can be shown.
    pub(crate) fn parts(&self) -> usize {
        1 << self.shards.count().ilog2()
    }

    /// Shows `look` every entry of one of so many parts, and perhaps others: an earlier answer of
    /// [`Index::parts`].
    pub(crate) fn each_in(&self, part: usize, parts: usize, mut look: impl FnMut(Entry, &Locked)) {
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

    /// Where a hash is; whoever has no lock may have to look again.
    fn shard(&self, hash: KeyHash) -> &Shard {
        self.shards.at(self.shards.number_of(hash))
    }

    /// The shard of a hash, which stays that as long as it is locked.
    fn read(&self, hash: KeyHash) -> (&Shard, RwLockReadGuard<'_, usize>, Locked) {
        let (shard, (len, locked)) = self.locked(hash, Shard::read);
        (shard, len, locked)
    }

    fn write(&self, hash: KeyHash) -> (&Shard, RwLockWriteGuard<'_, usize>, LockedAlone) {
        let (shard, (len, locked)) = self.locked(hash, Shard::write);
        (shard, len, locked)
    }

    /// The shard of a hash, locked. It may have been divided before it was.
    fn locked<'a, L>(&'a self, hash: KeyHash, lock: impl Fn(&'a Shard) -> L) -> (&'a Shard, L) {
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

impl Shard {
    fn of_buckets(count: usize) -> Self {
        Self {
            len: RwLock::new(0),
            moves: AtomicUsize::new(0),
            buckets: Published::new(empty_buckets(count)),
        }
    }

    fn table<'a>(&'a self, held: &'a Held) -> Table<'a> {
        Table(self.buckets.get(held))
    }

    fn read(&self) -> (RwLockReadGuard<'_, usize>, Locked) {
        (self.len.read().unwrap_or_else(PoisonError::into_inner), Locked::new())
    }

    fn write(&self) -> (RwLockWriteGuard<'_, usize>, LockedAlone) {
        (self.len.write().unwrap_or_else(PoisonError::into_inner), LockedAlone::new())
    }
}

/// Entries were moved, or records overwritten, while somebody looked for one, who has found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved;

/// Somebody who looks at an entry, with the shard's lock or without.
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    held: &'a Held,
    /// `None` is with the lock.
    unlocked: Option<Unlocked<'a>>,
}

#[derive(Debug)]
struct Unlocked<'a> {
    since: Since<'a>,
    place: &'a AtomicEntry,
    entry: Entry,
    /// Whether it was seen that something moved.
    moved: Cell<bool>,
}

/// The moves of a shard, and how many there were before the first look.
#[derive(Debug, Clone, Copy)]
struct Since<'a> {
    moves: &'a AtomicUsize,
    before: usize,
}

impl<'a> Since<'a> {
    fn now(moves: &'a AtomicUsize) -> Self {
        Self { moves, before: moves.load(Ordering::SeqCst) }
    }

    /// Whether no entry went to another place since then, and no record was overwritten.
    #[inline]
    fn nothing_moved(self) -> bool {
        self.before & 1 == 0 && self.moves.load(Ordering::SeqCst) == self.before
    }
}

impl<'a> Looking<'a> {
    fn locked(held: &'a Held) -> Self {
        Self { held, unlocked: None }
    }

    /// The entry was seen at this place after `since`.
    fn unlocked(held: &'a Held, since: Since<'a>, place: &'a AtomicEntry, entry: Entry) -> Self {
        let moved = Cell::new(false);
        Self { held, unlocked: Some(Unlocked { since, place, entry, moved }) }
    }

    pub(crate) fn held(&self) -> &Held {
        self.held
    }

    /// Whether the entry still names the record that it named, and nothing was overwritten. Asked with the
    /// segment pinned: then the record stays what it is as long as the pin lives.
    #[inline]
    pub(crate) fn is_as_it_was(&self) -> bool {
        let Some(Unlocked { since, place, entry, moved }) = &self.unlocked else { return true };
        let as_it_was = place.names_what(*entry) && since.nothing_moved();
        moved.set(!as_it_was);
        as_it_was
    }

    /// Whether it was seen that something moved.
    fn has_moved(&self) -> bool {
        self.unlocked.as_ref().is_some_and(|unlocked| unlocked.moved.get())
    }
}

#[cfg(test)]
mod tests;
