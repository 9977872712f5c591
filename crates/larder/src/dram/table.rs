//! A shard of the index: buckets of eight entries, a cache line each.
//!
//! A tag has two possible buckets and goes to the emptier one. If both are full, one of their entries may still move
//! to its other bucket (cuckoo hashing), which lets the table fill to nine tenths. An entry is a tag and a place; the
//! record at that place tells whether the key is the right one. The tag alone determines the buckets of an entry:
//! entries move, and tables grow, without reading records, each of which would be a memory access (partial-key cuckoo
//! hashing: Fan, Andersen, Kaminsky: "MemC3", NSDI'13).
//!
//! ```text
//!   bits 0..18   offset in the segment, in units of 4 bytes
//!       18..38   number of the segment's slot, from 1 on: an entry is never 0
//!       38       clean: flash holds this very version
//!       39..41   frequency: hits that the eviction policy remembers, saturating
//!       41..64   tag: the lower bits of the hash
//! ```
//!
//! One thread at a time changes entries, except for frequencies, which readers count. Entries are stored with
//! `Release` and loaded with `SeqCst`, for lock-free readers (`readers` explains why).

use super::readers::LockProof;
use super::record::UNIT_BYTES;
use crate::base::key::KeyHash;
use crate::base::sync::atomic::{AtomicU64, Ordering};

const ENTRIES: usize = 8;
/// Number of places in a first bucket that are kept free for entries whose second bucket is full.
const ENTRIES_KEPT: usize = 3;
const OFFSET_BITS: u32 = 18;
const SLOT_BITS: u32 = 20;
const SLOT_AT: u32 = OFFSET_BITS;
const CLEAN_BIT: u64 = 1 << 38;
const FREQUENCY_AT: u32 = 39;
pub(super) const FREQUENCY_MAX: u64 = 3;
const TAG_AT: u32 = 41;
/// A table that is less full than one in this number of places does not grow for a tag whose buckets are full: then
/// more keys have the same hash than any table has room for.
const FULL_PART: usize = 4;
/// A table that is less full than one in this number of places shrinks.
const SPARSE_PART: usize = 3;

/// Number of slots that an entry can name.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// An entry can point to offsets below this. A longer segment has one record, which begins at 0.
pub(crate) const OFFSETS_END: usize = UNIT_BYTES << OFFSET_BITS;

const _: () = {
    assert!(SLOT_AT + SLOT_BITS == CLEAN_BIT.trailing_zeros() && CLEAN_BIT.is_power_of_two());
    assert!(FREQUENCY_AT == CLEAN_BIT.trailing_zeros() + 1);
    assert!(
        TAG_AT == FREQUENCY_AT + FREQUENCY_MAX.count_ones(),
        "parts of an entry touch each other"
    );
    assert!(FREQUENCY_MAX & (FREQUENCY_MAX + 1) == 0, "a frequency is all bits of its part");
    assert!(
        align_of::<Bucket>() == 64 && (size_of::<Bucket>() == 64 || cfg!(shuttle)),
        "a bucket is a cache line"
    );
};

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) slot: u32,
    pub(crate) at: usize,
}

/// An entry that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    #[allow(clippy::cast_possible_truncation)] // masked to 20 and 18 bits
    pub(crate) fn location(self) -> Location {
        let slot = (self.0 >> SLOT_AT) as u32 & ((1 << SLOT_BITS) - 1);
        let units = self.0 as usize & ((1 << OFFSET_BITS) - 1);
        Location { slot, at: units * UNIT_BYTES }
    }

    pub(crate) fn frequency(self) -> u64 {
        (self.0 >> FREQUENCY_AT) & FREQUENCY_MAX
    }

    pub(crate) fn is_clean(self) -> bool {
        self.0 & CLEAN_BIT != 0
    }

    pub(super) fn new(hash: KeyHash, location: Location, clean: bool, frequency: u64) -> Self {
        debug_assert!(location.slot > 0 && location.at.is_multiple_of(UNIT_BYTES));
        debug_assert!(location.at < OFFSETS_END);
        debug_assert!(
            (location.slot as usize) < SLOTS_MAX,
            "a slot's number has its bits in an entry"
        );
        let units = (location.at / UNIT_BYTES) as u64;
        let clean = if clean { CLEAN_BIT } else { 0 };
        let frequency = frequency.min(FREQUENCY_MAX) << FREQUENCY_AT;
        Self(
            Tag::of(hash).0 << TAG_AT
                | frequency
                | clean
                | u64::from(location.slot) << SLOT_AT
                | units,
        )
    }

    pub(super) fn with_clean(self, clean: bool) -> Self {
        Self(self.0 & !CLEAN_BIT | if clean { CLEAN_BIT } else { 0 })
    }

    fn tag(self) -> Tag {
        Tag(self.0 >> TAG_AT)
    }

    fn hit(self) -> Self {
        debug_assert!(self.frequency() < FREQUENCY_MAX, "it would run over into the tag");
        Self(self.0 + (1 << FREQUENCY_AT))
    }
}

/// The part of the hash that an entry stores: the lower bits. Shards are chosen by the upper ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag(u64);

impl Tag {
    fn of(hash: KeyHash) -> Self {
        Self(hash.0 & (u64::MAX >> TAG_AT))
    }

    /// The two of `count` buckets where it may be: by two different mixtures of its bits.
    fn places(self, count: usize) -> [usize; 2] {
        let pick = |mixed: u64| {
            let bucket = KeyHash(mixed).spread_over(count as u64);
            usize::try_from(bucket).expect("below the number of buckets")
        };
        let mixed = (self.0 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [pick(mixed), pick((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93))]
    }
}

/// The buckets of a hash in a table of `count`.
pub(super) fn places_of(hash: KeyHash, count: usize) -> [usize; 2] {
    Tag::of(hash).places(count)
}

/// A place for an entry. Only the holder of the shard's write lock changes it, except for the frequency.
#[derive(Debug, Default)]
pub(super) struct AtomicEntry(AtomicU64);

#[repr(align(64))]
#[derive(Debug, Default)]
pub(super) struct Bucket([AtomicEntry; ENTRIES]);

/// The buckets of a shard. While a larger table replaces the old one, a lock-free reader may see only the beginning
/// of it, and find little there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a>(pub(super) &'a [Bucket]);

/// Access to the records that entries point to, since the table has only tags.
pub(crate) trait Records {
    fn is_key(&self, at: Location, key: &[u8], locked: &LockProof) -> bool;

    fn hash(&self, at: Location, locked: &LockProof) -> KeyHash;
}

impl AtomicEntry {
    fn entry(&self) -> Option<Entry> {
        let entry = self.0.load(Ordering::SeqCst);
        (entry != 0).then_some(Entry(entry))
    }

    /// Whether this entry names the very record that `seen` does.
    #[inline]
    pub(super) fn names_what(&self, seen: Entry) -> bool {
        (self.0.load(Ordering::SeqCst) ^ seen.0) & !(CLEAN_BIT | FREQUENCY_MAX << FREQUENCY_AT) == 0
    }

    pub(super) fn put(&self, entry: Entry) {
        debug_assert!(entry.0 != 0, "0 is an empty place");
        self.0.store(entry.0, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Counts a hit of the entry that was seen here. A lost race loses a hit, which is only a hint. Relaxed is
    /// enough: a reader that sees the successor of an entry also sees what was stored before the entry.
    fn touch(&self, seen: Entry) {
        if seen.frequency() < FREQUENCY_MAX {
            let (old, new) = (seen.0, seen.hit().0);
            let _ = self.0.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Bucket {
    fn empty_places(&self) -> impl Iterator<Item = &AtomicEntry> {
        self.0.iter().filter(|place| place.entry().is_none())
    }
}

/// Iterator over the entries of a bucket that have a given tag.
struct TaggedEntries<'a> {
    bucket: &'a Bucket,
    entries: [u64; ENTRIES],
    /// A bit for each of the entries.
    tagged: u32,
}

impl<'a> TaggedEntries<'a> {
    /// Loads each entry once, because without a lock the next load may return another one.
    #[inline]
    fn new(bucket: &'a Bucket, tag: Tag) -> Self {
        let mut found = Self { bucket, entries: [0; ENTRIES], tagged: 0 };
        let tag = tag.0 << TAG_AT;
        for (at, (place, entry)) in bucket.0.iter().zip(&mut found.entries).enumerate() {
            *entry = place.0.load(Ordering::SeqCst);
            let is_tagged = (*entry ^ tag) >> TAG_AT == 0 && *entry != 0;
            found.tagged |= u32::from(is_tagged) << at;
        }
        found
    }
}

impl<'a> Iterator for TaggedEntries<'a> {
    type Item = (&'a AtomicEntry, Entry);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.tagged == 0 {
            return None;
        }
        let at = self.tagged.trailing_zeros() as usize % ENTRIES;
        self.tagged &= self.tagged - 1;
        Some((&self.bucket.0[at], Entry(self.entries[at])))
    }
}

/// Buckets without entries.
pub(super) fn empty_buckets(count: usize) -> Box<[Bucket]> {
    (0..count).map(|_| Bucket::default()).collect()
}

/// Number of buckets that this number of entries fills to three quarters.
pub(super) fn buckets_for(entries: usize) -> usize {
    (entries * 4).div_ceil(ENTRIES * 3).max(1)
}

impl<'a> Table<'a> {
    pub(super) fn memory_bytes(self) -> usize {
        size_of_val(self.0)
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry> {
        self.0.iter().flat_map(|bucket| &bucket.0).filter_map(AtomicEntry::entry)
    }

    /// Removes all entries, and calls `each` for each.
    pub(super) fn clear(self, mut each: impl FnMut(Entry)) {
        for place in self.0.iter().flat_map(|bucket| &bucket.0) {
            if let Some(entry) = place.entry() {
                place.clear();
                each(entry);
            }
        }
    }

    /// The two buckets of a tag.
    fn buckets_of(self, tag: Tag) -> [&'a Bucket; 2] {
        tag.places(self.0.len()).map(|at| &self.0[at])
    }

    /// Entries with the tag of the hash, and their places. The second bucket is far away in memory and is read only
    /// if the first gave no result.
    #[inline]
    pub(super) fn candidates(
        self,
        hash: KeyHash,
    ) -> impl Iterator<Item = (&'a AtomicEntry, Entry)> {
        let tag = Tag::of(hash);
        self.buckets_of(tag).into_iter().flat_map(move |bucket| TaggedEntries::new(bucket, tag))
    }

    /// Calls `look` with the candidates until it returns a result; that entry counts a hit.
    #[inline]
    pub(super) fn find<T>(
        self,
        hash: KeyHash,
        mut look: impl FnMut(&'a AtomicEntry, Entry) -> Option<T>,
    ) -> Option<T> {
        self.candidates(hash).find_map(|(place, entry)| {
            let found = look(place, entry)?;
            place.touch(entry);
            Some(found)
        })
    }

    pub(super) fn position(
        self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        locked: &LockProof,
    ) -> Option<(&'a AtomicEntry, Entry)> {
        self.candidates(hash).find(|(_, entry)| records.is_key(entry.location(), key, locked))
    }

    pub(super) fn position_at(
        self,
        hash: KeyHash,
        location: Location,
    ) -> Option<(&'a AtomicEntry, Entry)> {
        self.candidates(hash).find(|(_, entry)| entry.location() == location)
    }

    /// Puts an entry into one of its buckets. `false` if both are full. Prefers the first, where look-ups start, but
    /// keeps first buckets from filling up completely.
    pub(super) fn insert(self, entry: Entry) -> bool {
        let [first, second] = self.buckets_of(entry.tag());
        let empty = first.empty_places().count();
        let is_first = empty >= ENTRIES_KEPT || empty >= second.empty_places().count();
        let bucket = if is_first { first } else { second };
        let empty = bucket.empty_places().next();
        empty.inspect(|place| place.put(entry)).is_some()
    }

    /// Makes a place for an entry whose buckets are full, by moving one of their entries to its other bucket. `false`
    /// if all of those are full too.
    fn clear_place(self, entry: Entry) -> bool {
        let full: [&Bucket; 2] = self.buckets_of(entry.tag());
        full.iter().flat_map(|bucket| &bucket.0).any(|place| {
            let Some(resident) = place.entry() else { return false };
            let home = self.buckets_of(resident.tag());
            let empty = home.into_iter().flat_map(Bucket::empty_places).next();
            if let Some(empty) = empty {
                empty.put(resident);
                place.clear();
            }
            empty.is_some()
        })
    }

    /// The same, and inserts the entry.
    pub(super) fn clear_and_insert(self, entry: Entry) -> bool {
        self.clear_place(entry) && self.insert(entry)
    }

    /// Whether a larger table would help an entry without a place, when there are `entries` others.
    pub(super) fn should_grow(self, entries: usize) -> bool {
        entries * FULL_PART >= self.0.len() * ENTRIES
    }

    /// The same entries in a quarter more buckets.
    pub(super) fn grown(self) -> Box<[Bucket]> {
        let mut count = self.0.len();
        loop {
            count += (count / 4).max(1);
            let buckets = empty_buckets(count);
            if Table(&buckets).take_all(self.entries()) {
                debug_assert!(buckets.len() > self.0.len(), "or its caller would try for ever");
                return buckets;
            }
        }
    }

    /// The same entries in fewer buckets, if there are few entries.
    pub(super) fn shrunk(self, entries: usize) -> Option<Box<[Bucket]>> {
        if self.0.len() <= 1 || entries * SPARSE_PART >= self.0.len() * ENTRIES {
            return None;
        }
        let buckets = empty_buckets(buckets_for(entries));
        debug_assert!(
            buckets.len() < self.0.len(),
            "a sparse table has more buckets than it needs"
        );
        Table(&buckets).take_all(self.entries()).then_some(buckets)
    }

    /// Inserts these entries. `false` if there is no room for all of them.
    pub(super) fn take_all(self, mut entries: impl Iterator<Item = Entry>) -> bool {
        entries.all(|entry| self.insert(entry) || self.clear_and_insert(entry))
    }
}
