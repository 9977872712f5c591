//! Which item lies where: eight bytes an item, and no keys.
//!
//! Sharded by hash, each shard a table behind a lock of its own. Entries change under the write
//! lock. They are found without it: such a reader may miss an entry that goes to its other bucket
//! meanwhile, or to a larger table, which a count of such moves tells him, and finds none that was taken
//! out before he came.

use std::sync::PoisonError;

use super::prefetch::prefetch;
use super::published::Published;
use super::readers::{Held, Locked, LockedAlone, Readers};
use super::retired::Retired;
pub(crate) use super::table::Records;
use super::table::{Bucket, Table, empty_buckets, places_of};
pub(crate) use super::table::{Entry, Location, OFFSETS_END, SLOTS_MAX};
use crate::key::KeyHash;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

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

/// Entries were moved, or records overwritten, while somebody looked for one, who has found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved;

/// Somebody who looks at entries, with the shard's lock or without.
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    held: &'a Held,
    /// The shard's moves, and how many there were before the first look; `None` is with the lock.
    moves: Option<(&'a AtomicUsize, usize)>,
}

impl Looking<'_> {
    pub(crate) fn held(&self) -> &Held {
        self.held
    }

    /// Whether nothing moved since the first look. Asked with a segment pinned: then its records that the
    /// shard's entries name are what they were, and stay it (`overwrite` says why).
    #[inline]
    pub(crate) fn nothing_moved(&self) -> bool {
        let stayed = |(moves, before): (&AtomicUsize, usize)| {
            before & 1 == 0 && moves.load(Ordering::SeqCst) == before
        };
        self.moves.is_none_or(stayed)
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    bytes: AtomicUsize,
    readers: Readers<Retired>,
}

impl Index {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        debug_assert!(shards.is_power_of_two());
        let shard = |_| Shard {
            len: RwLock::new(0),
            moves: AtomicUsize::new(0),
            buckets: Published::new(empty_buckets(1)),
        };
        let bytes = shards * (size_of::<Shard>() + size_of::<Bucket>());
        Self {
            shards: (0..shards).map(shard).collect(),
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

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| *shard.read().0).sum()
    }

    /// Shows `look` the entries that may be of this hash until it has found what it wants; that
    /// entry counts a visit.
    pub(crate) fn find<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Looking<'_>) -> Option<T>,
    ) -> Option<T> {
        let shard = self.shard(hash);
        let (_len, locked) = shard.read();
        let looking = Looking { held: &locked, moves: None };
        shard.table(&locked).find(hash, |entry| look(entry, &looking))
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
        let shard = self.shard(hash);
        // Who sees what a move left behind, an empty place, a larger table, or a record that is being
        // overwritten, sees that it had begun: all of this is loaded with `SeqCst`, in this order.
        let before = shard.moves.load(Ordering::SeqCst);
        let looking = Looking { held: inside.held(), moves: Some((&shard.moves, before)) };
        let found = shard.table(inside.held()).find(hash, |entry| look(entry, &looking));
        if found.is_some() || looking.nothing_moved() { Ok(found) } else { Err(Moved) }
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

    /// Points `key` to `location`, if `admit` agrees, which has a last look at the entry that did so
    /// before. A replacement counts as a visit. Says whether it agreed.
    ///
    /// # Errors
    /// [`Crowded`], though `admit` agreed: there is no entry of the key then.
    pub(crate) fn set(
        &self,
        hash: KeyHash,
        key: &[u8],
        location: Location,
        clean: bool,
        records: &impl Records,
        admit: impl FnOnce(Option<Entry>, &Locked) -> bool,
    ) -> Result<bool, Crowded> {
        let shard = self.shard(hash);
        let (mut len, mut locked) = shard.write();
        let table = shard.table(&locked);
        let new = |visits| Entry::new(hash, location, clean, visits);
        if let Some((place, old)) = table.position(hash, key, records, &locked) {
            let admitted = admit(Some(old), &locked);
            if admitted {
                place.put(new(old.visits() + 1));
            }
            return Ok(admitted);
        }
        if !admit(None, &locked) {
            return Ok(false);
        }
        if !table.insert(new(0)) {
            self.insert_among(shard, *len, new(0), &mut locked)?;
        }
        *len += 1;
        Ok(true)
    }

    /// Lets `change` overwrite the record of `key` where it lies, if `fits` says that it may be; readers
    /// without a lock look again. `change` says whether it did, which counts as a visit, or does not say:
    /// it cannot.
    pub(crate) fn overwrite(
        &self,
        hash: KeyHash,
        key: &[u8],
        clean: bool,
        records: &impl Records,
        fits: impl FnOnce(Location, &Locked) -> bool,
        change: impl FnOnce(Location, &LockedAlone) -> Option<bool>,
    ) -> Option<bool> {
        let shard = self.shard(hash);
        let (_len, locked) = shard.write();
        let (place, old) = shard.table(&locked).position(hash, key, records, &locked)?;
        let at = old.location();
        if !fits(at, &locked) {
            return None;
        }
        shard.moves.fetch_add(1, Ordering::SeqCst);
        let changed = change(at, &locked);
        if changed == Some(true) {
            place.put(Entry::new(hash, at, clean, old.visits() + 1));
        }
        shard.moves.fetch_add(1, Ordering::SeqCst);
        changed
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
        shard.moves.fetch_add(1, Ordering::SeqCst);
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
        shard.moves.fetch_add(1, Ordering::SeqCst);
        inserted
    }

    /// As [`Index::find`], but counts no visit.
    pub(crate) fn peek<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Locked) -> Option<T>,
    ) -> Option<T> {
        let shard = self.shard(hash);
        let (_len, locked) = shard.read();
        shard.table(&locked).candidates(hash).find_map(|(_, entry)| look(entry, &locked))
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Shows `look` every entry of a shard; a hash is in the shard that its upper bits name.
    pub(crate) fn each_in(&self, shard: usize, mut look: impl FnMut(Entry, &Locked)) {
        let shard = &self.shards[shard];
        let (_len, locked) = shard.read();
        shard.table(&locked).entries().for_each(|entry| look(entry, &locked));
    }

    /// Marks the entry of `key` as one whose version flash holds.
    pub(crate) fn set_clean(&self, hash: KeyHash, key: &[u8], records: &impl Records) {
        let shard = self.shard(hash);
        let (_len, locked) = shard.write();
        let found = shard.table(&locked).position(hash, key, records, &locked);
        if let Some((place, entry)) = found {
            place.put(entry.cleaned());
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
        let shard = self.shard(hash);
        let (mut len, locked) = shard.write();
        let (place, entry) = shard.table(&locked).position(hash, key, records, &locked)?;
        let seen = look(entry, &locked)?;
        place.clear();
        *len -= 1;
        Some(seen)
    }

    /// Takes out everything that a shard has, in one step, and shows it to `each`.
    pub(crate) fn clear_shard(&self, shard: usize, mut each: impl FnMut(Entry, &Locked)) {
        let shard = &self.shards[shard];
        let (mut len, locked) = shard.write();
        shard.table(&locked).clear(|entry| each(entry, &locked));
        *len = 0;
    }

    /// The entry of this hash that points to `location`.
    pub(crate) fn entry_at(&self, hash: KeyHash, location: Location) -> Option<Entry> {
        let shard = self.shard(hash);
        let (_len, locked) = shard.read();
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
        let shard = self.shard(hash);
        let (mut len, locked) = shard.write();
        let (place, entry) = shard.table(&locked).position_at(hash, location)?;
        if leaves(entry) {
            place.clear();
            *len -= 1;
        }
        Some(entry)
    }

    /// Points the entry of this hash from one place to another. Says whether it was there.
    pub(crate) fn relocate(
        &self,
        hash: KeyHash,
        from: Location,
        to: Location,
        visits: u64,
    ) -> bool {
        let shard = self.shard(hash);
        let (_len, locked) = shard.write();
        let found = shard.table(&locked).position_at(hash, from);
        let Some((place, old)) = found else { return false };
        place.put(Entry::new(hash, to, old.is_clean(), visits));
        true
    }

    fn shard(&self, hash: KeyHash) -> &Shard {
        let shard = hash.spread_over(self.shards.len() as u64);
        &self.shards[usize::try_from(shard).expect("below the number of shards")]
    }
}

impl Shard {
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

    fn key_of(slot: u32) -> [u8; 4] {
        (slot - 1).to_le_bytes()
    }

    impl Records for Numbers {
        fn is_key(&self, at: Location, key: &[u8], _: &Locked) -> bool {
            key_of(at.slot) == key
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
        let mut old = None;
        let hash = KeyHash::of(&bytes);
        let set = index.set(hash, &bytes, location, clean, &Numbers, |entry, _| {
            old = entry;
            true
        });
        assert_eq!(set, Ok(true));
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
    fn visits_saturate_and_survive_a_replacement() {
        let index = Index::new(1);
        let (bytes, at) = (0_u32.to_le_bytes(), |at| Location { slot: 1, at });
        let hash = KeyHash::of(&bytes);
        assert_eq!(set(&index, 0, at(0), true), None);
        (0..9).for_each(|_| _ = find(&index, 0));
        assert_eq!(index.entry_at(hash, at(0)).map(Entry::visits), Some(3));
        assert!(index.entry_at(hash, at(0)).is_some_and(Entry::is_clean));
        assert!(index.relocate(hash, at(0), at(8), 1));
        let old = set(&index, 0, at(4), false).unwrap();
        assert_eq!((old.location(), old.visits(), old.is_clean()), (at(8), 1, true));
        let entry = index.entry_at(hash, at(4)).unwrap();
        assert_eq!((entry.visits(), entry.is_clean()), (2, false));
    }

    #[test]
    fn keys_of_one_hash_take_no_more_than_their_buckets() {
        let index = Index::new(1);
        let set = |hash, key: u32| {
            let (bytes, location) = (key.to_le_bytes(), Location { slot: key + 1, at: 0 });
            index.set(hash, &bytes, location, false, &Numbers, |_, _| true)
        };
        let others = |keys: std::ops::Range<u32>| {
            keys.for_each(|key| assert_eq!(set(KeyHash::of(&key.to_le_bytes()), key), Ok(true)));
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
