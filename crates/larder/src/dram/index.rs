//! Which item lies where: eight bytes an item, and no keys.
//!
//! Sharded by hash, each shard behind its own lock. A shard is a table of buckets of eight entries,
//! a cache line each; a hash has two buckets to be in and goes to the emptier one. If both are full
//! an entry of theirs may still go to its other bucket (cuckoo hashing), which lets the table fill
//! to nine tenths. An entry is a tag and a place; whether the key is the right one, the
//! record at that place says.
//!
//! ```text
//!   bits 0..26   offset in the segment, in units of 4 bytes
//!       26..46   number of the segment's slot, from 1 on: an entry is never 0
//!       46       clean: flash holds this very version
//!       47..49   visits: hits that the eviction policy remembers, saturating
//!       49..64   tag: the lower bits of the hash
//! ```
//!
//! Everything but visits changes under the write lock; readers count visits.

use std::sync::PoisonError;

use super::record::UNIT_BYTES;
use crate::key::KeyHash;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

const ENTRIES: usize = 8;
const OFFSET_BITS: u32 = 26;
const SLOT_BITS: u32 = 20;
const SLOT_AT: u32 = OFFSET_BITS;
const CLEAN_BIT: u64 = 1 << 46;
const VISITS_AT: u32 = 47;
const VISITS_MAX: u64 = 3;
const TAG_AT: u32 = 49;

/// Slots that an entry can name.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// Longest segment that an entry can point into.
pub(crate) const SEGMENT_BYTES_MAX: usize = UNIT_BYTES << OFFSET_BITS;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) slot: u32,
    pub(crate) at: usize,
}

/// An entry that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    #[allow(clippy::cast_possible_truncation)] // masked to 20 and 26 bits
    pub(crate) fn location(self) -> Location {
        let slot = (self.0 >> SLOT_AT) as u32 & ((1 << SLOT_BITS) - 1);
        let units = self.0 as usize & ((1 << OFFSET_BITS) - 1);
        Location { slot, at: units * UNIT_BYTES }
    }

    pub(crate) fn visits(self) -> u64 {
        (self.0 >> VISITS_AT) & VISITS_MAX
    }

    pub(crate) fn is_clean(self) -> bool {
        self.0 & CLEAN_BIT != 0
    }

    fn new(tag: u64, location: Location, clean: bool, visits: u64) -> Self {
        debug_assert!(location.slot > 0 && location.at.is_multiple_of(UNIT_BYTES));
        let units = (location.at / UNIT_BYTES) as u64;
        let clean = if clean { CLEAN_BIT } else { 0 };
        let visits = visits.min(VISITS_MAX) << VISITS_AT;
        Self(tag | visits | clean | u64::from(location.slot) << SLOT_AT | units)
    }

    fn visited(self) -> Self {
        Self(self.0 + (1 << VISITS_AT))
    }
}

/// Proof that a shard is locked: places read from it stay occupied as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(());

#[repr(align(64))]
#[derive(Debug, Default)]
struct Bucket([AtomicU64; ENTRIES]);

#[derive(Debug)]
struct Table {
    buckets: Box<[Bucket]>,
    len: usize,
}

#[repr(align(64))]
#[derive(Debug)]
struct Shard(RwLock<Table>);

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    bytes: AtomicUsize,
}

/// What an entry points to, for the index to ask: all it has are tags.
pub(crate) trait Records {
    fn is_key(&self, at: Location, key: &[u8], held: &Held) -> bool;
    fn hash_at(&self, at: Location, held: &Held) -> KeyHash;
}

impl Index {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        debug_assert!(shards.is_power_of_two());
        let shard = |_| Shard(RwLock::new(Table::new(1)));
        let index = Self { shards: (0..shards).map(shard).collect(), bytes: AtomicUsize::new(0) };
        let bytes = shards * (size_of::<Shard>() + size_of::<Bucket>());
        index.bytes.store(bytes, Ordering::Relaxed);
        index
    }

    /// Memory that the tables take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len).sum()
    }

    /// Shows `look` the entries that may be of this hash until it has found what it wants; that
    /// entry counts a visit.
    pub(crate) fn find<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Held) -> Option<T>,
    ) -> Option<T> {
        let table = self.shard(hash).read();
        for slot in table.candidates(hash) {
            let entry = Entry(slot.load(Ordering::Relaxed));
            let Some(found) = look(entry, &Held(())) else { continue };
            if entry.visits() < VISITS_MAX {
                // Losing against another reader loses a visit, which is only a hint.
                let (old, new) = (entry.0, entry.visited().0);
                let _ = slot.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
            }
            return Some(found);
        }
        None
    }

    /// Points `key` to `location`, if `admit` agrees, which has a last look at the entry that did so
    /// before. A replacement counts as a visit.
    pub(crate) fn set(
        &self,
        hash: KeyHash,
        key: &[u8],
        location: Location,
        clean: bool,
        records: &impl Records,
        admit: impl FnOnce(Option<Entry>, &Held) -> bool,
    ) -> bool {
        let mut table = self.shard(hash).write();
        let held = Held(());
        let new = |visits| Entry::new(tag(hash), location, clean, visits).0;
        if let Some((slot, old)) = table.position(hash, key, records, &held) {
            let admitted = admit(Some(old), &held);
            if admitted {
                slot.store(new(old.visits() + 1), Ordering::Relaxed);
            }
            return admitted;
        }
        if !admit(None, &held) {
            return false;
        }
        while !table.insert(hash, new(0)) && !table.displace(hash, new(0), records, &held) {
            let grown = table.grow(records, &held);
            self.bytes.fetch_add(grown, Ordering::Relaxed);
        }
        true
    }

    /// As [`Index::find`], but counts no visit.
    pub(crate) fn peek<T>(
        &self,
        hash: KeyHash,
        mut look: impl FnMut(Entry, &Held) -> Option<T>,
    ) -> Option<T> {
        let table = self.shard(hash).read();
        let mut slots = table.candidates(hash);
        slots.find_map(|slot| look(Entry(slot.load(Ordering::Relaxed)), &Held(())))
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Shows `look` every entry of a shard; a hash is in the shard that its upper bits name.
    pub(crate) fn each_in(&self, shard: usize, mut look: impl FnMut(Entry, &Held)) {
        let table = self.shards[shard].read();
        let slots = table.buckets.iter().flat_map(|bucket| &bucket.0);
        let entries = slots.map(|slot| slot.load(Ordering::Relaxed)).filter(|&entry| entry != 0);
        entries.for_each(|entry| look(Entry(entry), &Held(())));
    }

    /// Marks the entry of `key` as one whose version flash holds.
    pub(crate) fn set_clean(&self, hash: KeyHash, key: &[u8], records: &impl Records) {
        let table = self.shard(hash).write();
        if let Some((slot, entry)) = table.position(hash, key, records, &Held(())) {
            slot.store(entry.0 | CLEAN_BIT, Ordering::Relaxed);
        }
    }

    /// Takes `key` out, if `look` finds in its entry what it wants.
    pub(crate) fn remove_if<T>(
        &self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        look: impl FnOnce(Entry, &Held) -> Option<T>,
    ) -> Option<T> {
        let mut table = self.shard(hash).write();
        let held = Held(());
        let (slot, entry) = table.position(hash, key, records, &held)?;
        let seen = look(entry, &held)?;
        slot.store(0, Ordering::Relaxed);
        table.len -= 1;
        Some(seen)
    }

    /// The entry of this hash that points to `location`.
    pub(crate) fn entry_at(&self, hash: KeyHash, location: Location) -> Option<Entry> {
        let table = self.shard(hash).read();
        table.position_at(hash, location).map(|(_, entry)| entry)
    }

    /// Takes out the entry of this hash that points to `location`. Says whether there was one.
    pub(crate) fn remove_at(&self, hash: KeyHash, location: Location) -> bool {
        let mut table = self.shard(hash).write();
        let Some((slot, _)) = table.position_at(hash, location) else { return false };
        slot.store(0, Ordering::Relaxed);
        table.len -= 1;
        true
    }

    /// Points the entry of this hash from one place to another. Says whether it was there.
    pub(crate) fn relocate(
        &self,
        hash: KeyHash,
        from: Location,
        to: Location,
        visits: u64,
    ) -> bool {
        let table = self.shard(hash).write();
        let Some((slot, old)) = table.position_at(hash, from) else { return false };
        slot.store(Entry::new(tag(hash), to, old.is_clean(), visits).0, Ordering::Relaxed);
        true
    }

    fn shard(&self, hash: KeyHash) -> &Shard {
        let shard = hash.spread_over(self.shards.len() as u64);
        &self.shards[usize::try_from(shard).expect("below the number of shards")]
    }
}

impl Shard {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn new(buckets: usize) -> Self {
        Self { buckets: (0..buckets).map(|_| Bucket::default()).collect(), len: 0 }
    }

    /// The two buckets of a hash. Shards use its upper bits, so these use mixtures.
    fn buckets_of(&self, hash: KeyHash) -> [&Bucket; 2] {
        let count = self.buckets.len() as u64;
        let pick = |mixed: u64| {
            let bucket = KeyHash(mixed).spread_over(count);
            &self.buckets[usize::try_from(bucket).expect("below the number of buckets")]
        };
        [pick(hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)), pick(hash.0.rotate_left(32))]
    }

    /// Entries whose tag is that of the hash.
    fn candidates(&self, hash: KeyHash) -> impl Iterator<Item = &AtomicU64> {
        let tag = tag(hash);
        let slots = self.buckets_of(hash).into_iter().flat_map(|bucket| &bucket.0);
        slots.filter(move |slot| {
            let entry = slot.load(Ordering::Relaxed);
            entry != 0 && (entry ^ tag) >> TAG_AT == 0
        })
    }

    fn position(
        &self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        held: &Held,
    ) -> Option<(&AtomicU64, Entry)> {
        let slots = self.candidates(hash);
        let mut entries = slots.map(|slot| (slot, Entry(slot.load(Ordering::Relaxed))));
        entries.find(|(_, entry)| records.is_key(entry.location(), key, held))
    }

    fn position_at(&self, hash: KeyHash, location: Location) -> Option<(&AtomicU64, Entry)> {
        let slots = self.candidates(hash);
        let mut entries = slots.map(|slot| (slot, Entry(slot.load(Ordering::Relaxed))));
        entries.find(|(_, entry)| entry.location() == location)
    }

    /// Puts an entry into the emptier bucket of its hash. `false` if both are full.
    fn insert(&mut self, hash: KeyHash, entry: u64) -> bool {
        let free = |bucket: &Bucket| {
            bucket.0.iter().filter(|slot| slot.load(Ordering::Relaxed) == 0).count()
        };
        let [first, second] = self.buckets_of(hash);
        let bucket = if free(first) >= free(second) { first } else { second };
        let empty = bucket.0.iter().find(|slot| slot.load(Ordering::Relaxed) == 0);
        let Some(slot) = empty else { return false };
        slot.store(entry, Ordering::Relaxed);
        self.len += 1;
        true
    }

    /// Puts an entry into a full bucket by sending one that is there to its other bucket. `false` if
    /// all of those are full too.
    fn displace(&mut self, hash: KeyHash, entry: u64, records: &impl Records, held: &Held) -> bool {
        let full: [&Bucket; 2] = self.buckets_of(hash);
        let displaced = full.iter().flat_map(|bucket| &bucket.0).any(|slot| {
            let resident = slot.load(Ordering::Relaxed);
            let home = records.hash_at(Entry(resident).location(), held);
            let mut others = self.buckets_of(home).into_iter().flat_map(|bucket| &bucket.0);
            let empty = others.find(|slot| slot.load(Ordering::Relaxed) == 0);
            if let Some(empty) = empty {
                empty.store(resident, Ordering::Relaxed);
                slot.store(entry, Ordering::Relaxed);
            }
            empty.is_some()
        });
        self.len += usize::from(displaced);
        displaced
    }

    /// Makes the table a quarter larger. Returns the bytes that it grew by.
    fn grow(&mut self, records: &impl Records, held: &Held) -> usize {
        let old = self.buckets.len();
        let mut count = old;
        loop {
            count += (count / 4).max(1);
            let mut larger = Self::new(count);
            let slots = self.buckets.iter().flat_map(|bucket| &bucket.0);
            let mut entries =
                slots.map(|slot| slot.load(Ordering::Relaxed)).filter(|&entry| entry != 0);
            let all_fit = entries.all(|entry| {
                let hash = records.hash_at(Entry(entry).location(), held);
                larger.insert(hash, entry) || larger.displace(hash, entry, records, held)
            });
            if all_fit {
                *self = larger;
                return (count - old) * size_of::<Bucket>();
            }
        }
    }
}

fn tag(hash: KeyHash) -> u64 {
    hash.0 << TAG_AT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Keys are their own places: key `k` lies in slot `k + 1`.
    struct Numbers;

    fn key_of(slot: u32) -> [u8; 4] {
        (slot - 1).to_le_bytes()
    }

    impl Records for Numbers {
        fn is_key(&self, at: Location, key: &[u8], _: &Held) -> bool {
            key_of(at.slot) == key
        }

        fn hash_at(&self, at: Location, _: &Held) -> KeyHash {
            KeyHash::of(&key_of(at.slot))
        }
    }

    fn find(index: &Index, key: u32) -> Option<Location> {
        let bytes = key.to_le_bytes();
        index.find(KeyHash::of(&bytes), |entry, held| {
            Numbers.is_key(entry.location(), &bytes, held).then(|| entry.location())
        })
    }

    fn set(index: &Index, key: u32, location: Location, clean: bool) -> Option<Entry> {
        let bytes = key.to_le_bytes();
        let mut old = None;
        let hash = KeyHash::of(&bytes);
        index.set(hash, &bytes, location, clean, &Numbers, |entry, _| {
            old = entry;
            true
        });
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
