//! Which item lies where: eight bytes an item, and no keys.
//!
//! Sharded by hash, each shard a table behind a lock of its own. Entries change under the write
//! lock. They are found without it: such a reader may miss an entry that goes to its other bucket
//! meanwhile, or to another table, which a count of such moves tells him, and finds none that was taken
//! out before he came.
//!
//! Tables grow and shrink with what they hold, each behind its own lock; with the budget shards are
//! divided (`directory`). Who has chosen a shard and then locked it looks once more whether it is still
//! the one.

use std::sync::PoisonError;

use super::directory::Directory;
use super::looking::Since;
pub(crate) use super::looking::{Looking, Moved};
use super::prefetch::prefetch;
use super::published::Published;
pub(crate) use super::putting::{Put, Putting};
use super::readers::{Held, Locked, LockedAlone, Readers};
use super::retired::Retired;
pub(crate) use super::table::Records;
use super::table::{Bucket, Table, buckets_for, empty_buckets, places_of};
pub(crate) use super::table::{Entry, Location, OFFSETS_END, SLOTS_MAX};
use crate::key::KeyHash;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// More keys have this hash than there are places for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowded;

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

    /// Lets `putting` put a record under `key`, all with the shard's lock taken once. Readers without a lock
    /// look again after one was overwritten. A replacement counts as a hit.
    ///
    /// # Errors
    /// [`Crowded`], though the record was appended: there is no entry of the key.
    pub(crate) fn put(
        &self,
        hash: KeyHash,
        key: &[u8],
        clean: bool,
        records: &impl Records,
        putting: &mut impl Putting,
    ) -> Result<Put, Crowded> {
        let (shard, mut len, mut locked) = self.write(hash);
        let table = shard.table(&locked);
        let found = table.position(hash, key, records, &locked);
        if let Some((place, old)) = found
            && putting.fits(old.location(), &locked)
        {
            shard.begin_moves();
            let put = putting.overwrite(old.location(), &locked);
            if put == Some(Put::Done) {
                place.put(Entry::new(hash, old.location(), clean, old.frequency() + 1));
            }
            shard.end_moves();
            if let Some(put) = put {
                return Ok(put);
            }
        }
        let location = match putting.append(found.map(|(_, old)| old.location()), &locked) {
            Ok(location) => location,
            Err(put) => return Ok(put),
        };
        match found {
            Some((place, old)) => place.put(Entry::new(hash, location, clean, old.frequency() + 1)),
            None => {
                let entry = Entry::new(hash, location, clean, 0);
                if !table.insert(entry)
                    && let Err(crowded) = self.insert_among(shard, *len, entry, &mut locked)
                {
                    putting.take_back(location, &locked);
                    return Err(crowded);
                }
                *len += 1;
            }
        }
        Ok(Put::Done)
    }

    /// Puts an entry into a shard in whose buckets for it there is no place: others move, or the table
    /// grows.
    fn insert_among(
        &self,
        shard: &Shard,
        len: usize,
        entry: Entry,
        locked: &mut LockedAlone,
    ) -> Result<(), Crowded> {
        shard.begin_moves();
        let inserted = loop {
            let table = shard.table(locked);
            if table.insert(entry) || table.clear_and_insert(entry) {
                break Ok(());
            }
            if !table.should_grow(len) {
                break Err(Crowded);
            }
            let larger = table.grown();
            let grown = size_of_val(&*larger) - table.memory_bytes();
            self.bytes.fetch_add(grown, Ordering::Relaxed);
            shard.buckets.replace(larger, &self.readers, locked);
        };
        shard.end_moves();
        inserted
    }

    /// Gives memory back after entries were taken out, if few are left.
    fn shrink(&self, shard: &Shard, len: usize, locked: &mut LockedAlone) {
        let table = shard.table(locked);
        let Some(smaller) = table.shrunk(len) else { return };
        let bytes = table.memory_bytes() - size_of_val(&*smaller);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        shard.begin_moves();
        shard.buckets.replace(smaller, &self.readers, locked);
        shard.end_moves();
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

    /// Divides a shard, if nobody else does so. The hash of each of its entries is that of its record.
    pub(crate) fn divide(&self, records: &impl Records) {
        let Ok(_alone) = self.dividing.try_lock() else { return };
        if !self.is_to_be_divided() {
            return;
        }
        let from = self.shards.at(self.shards.next_divided());
        let (to, made) = self.shards.prepare_next(|| Shard::of_buckets(0));
        // In the order of their numbers.
        let (mut from_len, mut locked) = from.write();
        let (mut to_len, mut to_locked) = to.write();
        let table = from.table(&locked);
        let (go, stay): (Vec<_>, Vec<_>) = table
            .entries()
            .partition(|entry| self.shards.goes_to_next(records.hash(entry.location(), &locked)));
        let (here, there) = (buckets_of(&stay), buckets_of(&go));
        let more = size_of_val(&*here) + size_of_val(&*there) + made * size_of::<Shard>();
        let less = table.memory_bytes();
        self.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes.fetch_sub(less, Ordering::Relaxed);
        (*from_len, *to_len) = (stay.len(), go.len());
        from.begin_moves();
        to.buckets.replace(there, &self.readers, &mut to_locked);
        self.shards.add_next();
        from.buckets.replace(here, &self.readers, &mut locked);
        from.end_moves();
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

    /// Marks the entry of `key` as one whose version flash holds, or does not hold any more.
    pub(crate) fn set_clean(&self, hash: KeyHash, key: &[u8], clean: bool, records: &impl Records) {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position(hash, key, records, &locked);
        if let Some((place, entry)) = found {
            place.put(entry.with_clean(clean));
        }
    }

    /// Takes `key` out, if `look` finds in its entry what it wants.
    pub(crate) fn remove_if<T>(
        &self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        look: impl FnOnce(Entry, &Locked) -> Option<T>,
    ) -> Option<T> {
        let (shard, mut len, mut locked) = self.write(hash);
        let (place, entry) = shard.table(&locked).position(hash, key, records, &locked)?;
        let seen = look(entry, &locked)?;
        place.clear();
        *len -= 1;
        self.shrink(shard, *len, &mut locked);
        Some(seen)
    }

    /// Takes everything out, shard by shard, each in one step, and shows it to `each`.
    pub(crate) fn clear(&self, mut each: impl FnMut(Entry, &Locked)) {
        let _undivided = self.dividing();
        for shard in self.shards.all() {
            let (mut len, mut locked) = shard.write();
            shard.table(&locked).clear(|entry| each(entry, &locked));
            *len = 0;
            self.shrink(shard, 0, &mut locked);
        }
    }

    /// The entry of this hash that points to `location`.
    pub(crate) fn entry_at(&self, hash: KeyHash, location: Location) -> Option<Entry> {
        let (shard, _len, locked) = self.read(hash);
        shard.table(&locked).position_at(hash, location).map(|(_, entry)| entry)
    }

    /// Takes out the entry of this hash that points to `location`. Says whether there was one.
    pub(crate) fn remove_at(&self, hash: KeyHash, location: Location) -> bool {
        self.remove_at_if(hash, location, |_| true).is_some()
    }

    /// The entry of this hash that points to `location`, which is taken out if `leaves` says so.
    pub(crate) fn remove_at_if(
        &self,
        hash: KeyHash,
        location: Location,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<Entry> {
        let (shard, mut len, mut locked) = self.write(hash);
        let (entry, left) = shard.take_out(hash, location, &mut len, &locked, leaves)?;
        if left {
            self.shrink(shard, *len, &mut locked);
        }
        Some(entry)
    }

    /// The same for a tier that ends: no table becomes smaller. Says whether the entry was taken out; `None`:
    /// there is none.
    pub(crate) fn leave(
        &self,
        hash: KeyHash,
        location: Location,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<bool> {
        let (shard, mut len, locked) = self.write(hash);
        let (_, left) = shard.take_out(hash, location, &mut len, &locked, leaves)?;
        Some(left)
    }

    /// Points the entry of this hash from one place to another, after a last word of `about_to`. Says
    /// whether it was there.
    pub(crate) fn relocate(
        &self,
        hash: KeyHash,
        from: Location,
        (to, frequency): (Location, u64),
        about_to: impl FnOnce(&LockedAlone),
    ) -> bool {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position_at(hash, from);
        let Some((place, old)) = found else { return false };
        about_to(&locked);
        place.put(Entry::new(hash, to, old.is_clean(), frequency));
        true
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

/// A table of these entries.
fn buckets_of(entries: &[Entry]) -> Box<[Bucket]> {
    let mut buckets = empty_buckets(buckets_for(entries.len()));
    while !Table(&buckets).take_all(entries.iter().copied()) {
        let count = buckets.len();
        buckets = empty_buckets(count + (count / 4).max(1));
    }
    buckets
}

impl Shard {
    fn of_buckets(count: usize) -> Self {
        Self {
            len: RwLock::new(0),
            moves: AtomicUsize::new(0),
            buckets: Published::new(empty_buckets(count)),
        }
    }

    /// The entry of this hash that points to `location`, and whether it was taken out: if `leaves` says so.
    fn take_out(
        &self,
        hash: KeyHash,
        location: Location,
        len: &mut usize,
        locked: &LockedAlone,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<(Entry, bool)> {
        let (place, entry) = self.table(locked).position_at(hash, location)?;
        let left = leaves(entry);
        if left {
            place.clear();
            *len -= 1;
        }
        Some((entry, left))
    }

    /// With the lock held, until [`Shard::end_moves`].
    fn begin_moves(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    fn end_moves(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use super::super::record::UNIT_BYTES;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Keys are their own places: key `k` lies in slot `k + 1`.
    struct Numbers;

    /// A record that was written there before.
    struct At(Location);

    impl Putting for At {
        fn append(&mut self, _: Option<Location>, _: &Locked) -> Result<Location, Put> {
            Ok(self.0)
        }
    }

    fn key_of(slot: u32) -> [u8; 4] {
        (slot - 1).to_le_bytes()
    }

    impl Records for Numbers {
        fn is_key(&self, at: Location, key: &[u8], _: &Locked) -> bool {
            key_of(at.slot) == key
        }

        fn hash(&self, at: Location, _: &Locked) -> KeyHash {
            KeyHash::of(&key_of(at.slot))
        }
    }

    fn find(index: &Index, key: u32) -> Option<Location> {
        let bytes = key.to_le_bytes();
        index.find(KeyHash::of(&bytes), |entry, _| {
            (key_of(entry.location().slot) == bytes).then(|| entry.location())
        })
    }

    fn set(index: &Index, key: u32, location: Location, clean: bool) -> Option<Entry> {
        let bytes = key.to_le_bytes();
        let hash = KeyHash::of(&bytes);
        let mut at = At(location);
        let old =
            index.peek(hash, |entry, _| (key_of(entry.location().slot) == bytes).then_some(entry));
        assert_eq!(index.put(hash, &bytes, clean, &Numbers, &mut at), Ok(Put::Done));
        old
    }

    #[test]
    fn the_table_is_nearly_full_before_it_grows() {
        let index = Index::new(4);
        for key in 0..200_000_u32 {
            set(&index, key, Location { slot: key + 1, at: 0 }, false);
        }
        assert_eq!(index.len(), 200_000);
        assert!((0..200_000).all(|key| find(&index, key).is_some()));
        let per_item = index.memory_bytes() as f64 / 200_000.0;
        assert!(per_item < 11.5, "{per_item} bytes an item");
    }

    #[test]
    fn frequencies_saturate_and_survive_a_replacement() {
        let index = Index::new(1);
        let (bytes, at) = (0_u32.to_le_bytes(), |at| Location { slot: 1, at });
        let hash = KeyHash::of(&bytes);
        assert_eq!(set(&index, 0, at(0), true), None);
        (0..9).for_each(|_| _ = find(&index, 0));
        assert_eq!(index.entry_at(hash, at(0)).map(Entry::frequency), Some(3));
        assert!(index.entry_at(hash, at(0)).is_some_and(Entry::is_clean));
        assert!(index.relocate(hash, at(0), (at(8), 1), |_| ()));
        let old = set(&index, 0, at(4), false).unwrap();
        assert_eq!((old.location(), old.frequency(), old.is_clean()), (at(8), 1, true));
        let entry = index.entry_at(hash, at(4)).unwrap();
        assert_eq!((entry.frequency(), entry.is_clean()), (2, false));
    }

    #[test]
    fn keys_of_one_hash_take_no_more_than_their_buckets() {
        let index = Index::new(1);
        let set = |hash, key: u32| {
            let (bytes, location) = (key.to_le_bytes(), Location { slot: key + 1, at: 0 });
            index.put(hash, &bytes, false, &Numbers, &mut At(location))
        };
        let others = |keys: std::ops::Range<u32>| {
            keys.for_each(|key| {
                assert_eq!(set(KeyHash::of(&key.to_le_bytes()), key), Ok(Put::Done))
            });
        };
        others(0..1000);
        let refused = (1000..101_000).filter(|&key| set(KeyHash(7), key) == Err(Crowded)).count();
        assert!(refused >= 100_000 - 16, "{refused}");
        others(101_000..102_000);
        assert_eq!(index.len(), 2000 + 100_000 - refused);
        assert!(index.memory_bytes() < 64 << 10, "{}", index.memory_bytes());
        assert!((0..1000).all(|key| find(&index, key).is_some()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((0_u8..4, 0_u32..300, 0_usize..1000), 1..900)) {
            let index = Index::new(2);
            let mut map: HashMap<u32, Location> = HashMap::new();
            for (op, key, at) in ops {
                let bytes = key.to_le_bytes();
                let hash = KeyHash::of(&bytes);
                let location = Location { slot: key + 1, at: at * UNIT_BYTES };
                match op {
                    0 | 1 => {
                        let old = set(&index, key, location, false);
                        prop_assert_eq!(old.map(Entry::location), map.insert(key, location));
                    }
                    2 => {
                        let old = index.remove_if(hash, &bytes, &Numbers, |entry, _| Some(entry.location()));
                        prop_assert_eq!(old, map.remove(&key));
                    }
                    _ => {
                        let there = map.get(&key) == Some(&location);
                        prop_assert_eq!(index.remove_at(hash, location), there);
                        if there {
                            map.remove(&key);
                        }
                    }
                }
                prop_assert_eq!(find(&index, key), map.get(&key).copied());
                prop_assert_eq!(index.len(), map.len());
            }
        }
    }
}
