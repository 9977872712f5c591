//! The index of the log's objects, by bucket: seven bytes of DRAM per object, without keys.
//!
//! ```text
//!  bits  0..12  tag: bits 16 to 28 of the key's hash
//!       12..16  bucket within its partition
//!       16..17  dead: found expired
//!       17..18  hit since it was logged
//!       18..26  number of the record in its page
//!       26..56  page of the log
//! ```
//!
//! Sixteen adjacent buckets form a partition: a list of their objects, oldest first. So all objects of a bucket in the
//! log are found together, and of those with the same tag the newest comes last.
//!
//! A tag does not identify a key. A task that removes an object has read its record and knows its place (page and
//! number); two keys never displace each other.
//!
//! Objects of one bucket change under the lock of the bucket, except for the bits hit and dead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::key::KeyHash;

const PARTITION_BUCKETS: u64 = 16;
const SHARDS: u64 = 64;
const TAG_BITS: u32 = 12;
const BUCKET_AT: u32 = TAG_BITS;
const DEAD: u64 = 1 << 16;
const HIT: u64 = 1 << 17;
const NUMBER_AT: u32 = 18;
const PAGE_AT: u32 = 26;
const PAGE_BITS: u32 = 30;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 7;
/// The fields of an entry are adjacent and fill it.
const _: () = assert!(BUCKET_AT + 4 == 16 && DEAD == 1 << 16 && HIT == DEAD << 1);
const _: () = assert!(NUMBER_AT == 18 && NUMBER_AT + u8::BITS == PAGE_AT);
const _: () =
    assert!((PAGE_AT + PAGE_BITS) as usize == 8 * ENTRY_BYTES && PARTITION_BUCKETS == 1 << 4);

/// Maximum pages of a log.
pub(super) const PAGES_MAX: u64 = 1 << PAGE_BITS;
/// Bytes in the snapshot of an entry, and of a partition's number of entries.
pub(super) const ENTRY_SNAPSHOT_BYTES: usize = ENTRY_BYTES;
pub(super) const PARTITION_SNAPSHOT_BYTES: usize = 4;

/// Where a record lies: the page of the log, and the record's number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPosition {
    pub(super) page: u32,
    pub(super) number: u8,
}

/// What the index knows of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub(super) place: LogPosition,
    /// Requested since it was logged.
    pub(super) hit: bool,
    /// Expired or invalidated. Its record must stay known until no older version of the key can be on flash.
    pub(super) dead: bool,
}

#[derive(Debug, Clone, Copy)]
struct PageEntry([u8; ENTRY_BYTES]);

#[derive(Debug, Default)]
struct Partition(Vec<PageEntry>);

#[derive(Debug)]
pub(super) struct PageIndex {
    /// Partition p is at index p / [`SHARDS`] of shard p % [`SHARDS`].
    shards: Box<[Mutex<Box<[Partition]>>]>,
    partitions: u64,
    /// Allocated entries.
    room: AtomicU64,
    len: AtomicU64,
}

/// Objects of the log that move to their bucket with one write of it.
pub(super) struct MovingObjects {
    index: Arc<PageIndex>,
    bucket: u64,
    places: Vec<LogPosition>,
}

impl MovingObjects {
    /// Makes the index forget them: the bucket has them now, or they were lost with it.
    pub(super) fn leave_log(self) {
        self.places.iter().for_each(|&place| _ = self.index.remove(self.bucket, place));
    }
}

/// The number of partitions for this number of buckets.
pub(super) fn partitions(buckets: u64) -> u64 {
    buckets.div_ceil(PARTITION_BUCKETS)
}

impl PageIndex {
    pub(super) fn new(buckets: u64) -> Self {
        let partitions = partitions(buckets);
        let shard = |number| {
            let count = partitions.saturating_sub(number).div_ceil(SHARDS);
            Mutex::new((0..count).map(|_| Partition::default()).collect())
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            partitions,
            room: AtomicU64::new(0),
            len: AtomicU64::new(0),
        }
    }

    /// The objects at these places, which move to their bucket.
    pub(super) fn moving(self: &Arc<Self>, bucket: u64, places: Vec<LogPosition>) -> MovingObjects {
        MovingObjects { index: Arc::clone(self), bucket, places }
    }

    /// Objects that may be the one of `hash`, newest first.
    pub(super) fn candidates(&self, bucket: u64, hash: KeyHash) -> Vec<LogEntry> {
        let wanted = mark(bucket, hash);
        self.with(bucket, |partition| {
            let entries = partition.0.iter().rev().map(PageEntry::get);
            entries.filter(|entry| is_marked(*entry, wanted)).map(found).collect()
        })
    }

    /// Whether there is such an object that is not dead.
    pub(super) fn may_hold(&self, bucket: u64, hash: KeyHash) -> bool {
        let wanted = mark(bucket, hash);
        self.with(bucket, |partition| {
            partition.0.iter().any(|entry| {
                let entry = entry.get();
                is_marked(entry, wanted) && entry & DEAD == 0
            })
        })
    }

    /// All objects of a bucket, oldest first.
    pub(super) fn of_bucket(&self, bucket: u64) -> Vec<LogEntry> {
        let within = bucket % PARTITION_BUCKETS;
        self.with(bucket, |partition| {
            let entries = partition.0.iter().map(PageEntry::get);
            entries.filter(|entry| entry >> BUCKET_AT & 0xf == within).map(found).collect()
        })
    }

    pub(super) fn holds(&self, bucket: u64, place: LogPosition) -> bool {
        self.with(bucket, |partition| partition.position(bucket, place).is_some())
    }

    /// Adds an object as the newest of its bucket.
    pub(super) fn insert(&self, bucket: u64, hash: KeyHash, place: LogPosition, dead: bool) {
        debug_assert!(!self.holds(bucket, place), "{place:?} is one object's");
        let dead = if dead { DEAD } else { 0 };
        self.push(bucket, mark(bucket, hash) | dead | address(place));
    }

    /// Removes the object at `place`. Returns whether it was there.
    pub(super) fn remove(&self, bucket: u64, place: LogPosition) -> bool {
        self.with(bucket, |partition| {
            let Some(at) = partition.position(bucket, place) else { return false };
            partition.0.remove(at);
            let before = partition.0.capacity();
            if before > partition.0.len() * 3 / 2 + 4 {
                partition.0.shrink_to(partition.0.len() * 9 / 8);
                self.room.fetch_sub((before - partition.0.capacity()) as u64, Ordering::Relaxed);
            }
            let before = self.len.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "what is removed was counted");
            true
        })
    }

    /// Notes a request for the object at `place`, and whether it was found expired.
    pub(super) fn touch(&self, bucket: u64, place: LogPosition, expired: bool) {
        let bits = if expired { HIT | DEAD } else { HIT };
        self.with(bucket, |partition| {
            if let Some(at) = partition.position(bucket, place) {
                partition.0[at] = PageEntry::of(partition.0[at].get() | bits);
            }
        });
    }

    /// Everything in a page, found by checking every entry; used when the page cannot be read.
    pub(super) fn of_page(&self, page: u32) -> Vec<(u64, LogPosition)> {
        let mut all = Vec::new();
        for partition in 0..self.partitions {
            let first = partition * PARTITION_BUCKETS;
            self.with(first, |partition| {
                let entries = partition.0.iter().map(PageEntry::get);
                let inside = entries.filter(|entry| found(*entry).place.page == page);
                all.extend(inside.map(|e| (first + (e >> BUCKET_AT & 0xf), found(e).place)));
            });
        }
        all
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.room.load(Ordering::Relaxed) * ENTRY_BYTES as u64
            + self.partitions * size_of::<Partition>() as u64
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Writes all partitions to `out`: the number of entries, and the entries. Leaves out the entries beyond `room` and
    /// returns their buckets and places.
    pub(super) fn export(&self, out: &mut Vec<u8>, mut room: u64) -> Vec<(u64, LogPosition)> {
        let mut left_out = Vec::new();
        for number in 0..self.partitions {
            let first = number * PARTITION_BUCKETS;
            self.with(first, |partition| {
                let kept = usize::try_from(room).unwrap_or(usize::MAX).min(partition.0.len());
                let (kept, rest) = partition.0.split_at(kept);
                room -= kept.len() as u64;
                let count = u32::try_from(kept.len()).expect("a partition is small");
                out.extend_from_slice(&count.to_le_bytes());
                kept.iter().for_each(|entry| out.extend_from_slice(&entry.0));
                left_out.extend(rest.iter().map(|entry| {
                    let entry = entry.get();
                    (first + (entry >> BUCKET_AT & 0xf), found(entry).place)
                }));
            });
        }
        left_out
    }

    /// Takes over what [`PageIndex::export`] wrote. Returns whether `bytes` was exactly that, with only pages for which
    /// `is_known` is true; if not, the index is empty.
    pub(super) fn import(&self, bytes: &[u8], is_known: impl Fn(u32) -> bool) -> bool {
        let taken = self.take_in(bytes, is_known).is_some();
        if !taken {
            self.clear();
        }
        taken
    }

    /// Forgets all objects.
    pub(super) fn clear(&self) {
        (0..self.partitions).for_each(|number| {
            self.with(number * PARTITION_BUCKETS, |partition| partition.0 = Vec::new());
        });
        self.len.store(0, Ordering::Relaxed);
        self.room.store(0, Ordering::Relaxed);
    }

    fn take_in(&self, bytes: &[u8], is_known: impl Fn(u32) -> bool) -> Option<()> {
        let mut rest = bytes;
        for number in 0..self.partitions {
            let (count, behind) = rest.split_first_chunk::<PARTITION_SNAPSHOT_BYTES>()?;
            let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
            let (entries, behind) = behind.split_at_checked(count.checked_mul(ENTRY_BYTES)?)?;
            rest = behind;
            for entry in entries.chunks_exact(ENTRY_BYTES) {
                let entry = PageEntry(entry.try_into().ok()?).get();
                if !is_known(found(entry).place.page) {
                    return None;
                }
                self.push(number * PARTITION_BUCKETS, entry);
            }
        }
        rest.is_empty().then_some(())
    }

    fn push(&self, bucket: u64, entry: u64) {
        self.with(bucket, |partition| {
            let before = partition.0.capacity();
            if partition.0.len() == before {
                partition.0.reserve_exact(before / 8 + 2);
                self.room.fetch_add((partition.0.capacity() - before) as u64, Ordering::Relaxed);
            }
            partition.0.push(PageEntry::of(entry));
        });
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    fn with<T>(&self, bucket: u64, act: impl FnOnce(&mut Partition) -> T) -> T {
        let partition = bucket / PARTITION_BUCKETS;
        debug_assert!(partition < self.partitions, "bucket {bucket}: {partition} partitions");
        let (shard, at) = (index(partition % SHARDS), index(partition / SHARDS));
        let mut shard: MutexGuard<'_, _> =
            self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut shard[at])
    }
}

impl Partition {
    fn position(&self, bucket: u64, place: LogPosition) -> Option<usize> {
        let wanted = address(place) | (bucket % PARTITION_BUCKETS) << BUCKET_AT;
        let ignored = DEAD | HIT | ((1 << TAG_BITS) - 1);
        self.0.iter().position(|entry| entry.get() & !ignored == wanted)
    }
}

impl PageEntry {
    fn of(entry: u64) -> Self {
        let [bytes @ .., rest] = entry.to_le_bytes();
        debug_assert_eq!(rest, 0, "an entry has 56 bits");
        Self(bytes)
    }

    fn get(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..ENTRY_BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

/// Tag and bucket of an entry.
fn mark(bucket: u64, hash: KeyHash) -> u64 {
    let tag = hash.0 >> 16 & ((1 << TAG_BITS) - 1);
    tag | (bucket % PARTITION_BUCKETS) << BUCKET_AT
}

fn is_marked(entry: u64, mark: u64) -> bool {
    entry & 0xffff == mark
}

fn address(place: LogPosition) -> u64 {
    debug_assert!(u64::from(place.page) < PAGES_MAX, "{place:?}");
    u64::from(place.page) << PAGE_AT | u64::from(place.number) << NUMBER_AT
}

#[allow(clippy::cast_possible_truncation)] // bounded by construction
fn found(entry: u64) -> LogEntry {
    let place = LogPosition { page: (entry >> PAGE_AT) as u32, number: (entry >> NUMBER_AT) as u8 };
    LogEntry { place, hit: entry & HIT != 0, dead: entry & DEAD != 0 }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("the index fits memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUCKETS: u64 = 1100;

    fn place(n: u32) -> LogPosition {
        LogPosition { page: n / 200, number: u8::try_from(n % 200).unwrap() }
    }

    #[test]
    fn of_one_tag_the_newest_comes_first() {
        let index = PageIndex::new(BUCKETS);
        let hash = KeyHash::of(b"key");
        (0..3).for_each(|n| index.insert(1099, hash, place(n), false));
        index.insert(1098, hash, place(3), false);
        let places = |found: Vec<LogEntry>| found.iter().map(|f| f.place).collect::<Vec<_>>();
        assert_eq!(places(index.candidates(1099, hash)), [place(2), place(1), place(0)]);
        assert!(index.remove(1099, place(1)) && !index.remove(1099, place(1)));
        assert_eq!(places(index.of_bucket(1099)), [place(0), place(2)]);
        assert_eq!(index.of_page(0).len(), 3);
        assert_eq!(index.len(), 3);
    }

    #[test]
    fn hits_and_deaths_are_remembered() {
        let index = PageIndex::new(1);
        let hash = KeyHash::of(b"key");
        index.insert(0, hash, place(5), false);
        index.touch(0, place(5), false);
        assert_eq!(index.of_bucket(0), [LogEntry { place: place(5), hit: true, dead: false }]);
        assert!(index.may_hold(0, hash));
        index.touch(0, place(5), true);
        assert!(!index.may_hold(0, hash));
        assert_eq!(index.candidates(0, hash).len(), 1);
        assert!(index.holds(0, place(5)));
    }

    /// Removing an object does not reallocate the others each time: memory is freed when a third of it is unused.
    #[test]
    fn a_partition_keeps_its_memory_until_much_of_it_is_empty() {
        let index = PageIndex::new(1);
        let hash = KeyHash::of(b"key");
        (0..160).for_each(|n| index.insert(0, hash, place(n), false));
        let capacity = || index.with(0, |partition| partition.0.capacity());
        let full = capacity();
        (0..20).for_each(|n| assert!(index.remove(0, place(n))));
        assert_eq!(capacity(), full);
        (20..150).for_each(|n| assert!(index.remove(0, place(n))));
        assert!(capacity() < full / 4);
    }

    #[test]
    fn a_snapshot_without_room_says_what_it_left_out() {
        let index = PageIndex::new(40);
        (0..40).for_each(|n| index.insert(u64::from(n), KeyHash(0), place(n), n % 2 == 0));
        let mut bytes = Vec::new();
        let left_out = index.export(&mut bytes, 30);
        assert_eq!(left_out, (30..40).map(|n| (u64::from(n), place(n))).collect::<Vec<_>>());
        let other = PageIndex::new(40);
        assert!(!other.import(&bytes, |_| false), "unknown pages");
        assert!(!other.import(&bytes[..bytes.len() - 1], |_| true));
        assert_eq!((other.len(), other.of_bucket(0).len()), (0, 0));
        assert!(other.import(&bytes, |_| true));
        (0..30).for_each(|bucket| assert_eq!(other.of_bucket(bucket), index.of_bucket(bucket)));
        assert_eq!(other.len(), 30);
    }

    proptest! {
        /// Compares the index with a plain list.
        #[test]
        fn agrees_with_a_list(
            ops in prop::collection::vec((0..BUCKETS / 8, 0..400_u32, any::<bool>()), 1..600),
        ) {
            let index = PageIndex::new(BUCKETS);
            let mut list: Vec<(u64, u32)> = Vec::new();
            for (bucket, n, insert) in ops {
                let known = list.iter().position(|&known| known == (bucket, n));
                prop_assert_eq!(index.holds(bucket, place(n)), known.is_some());
                if insert && known.is_none() {
                    index.insert(bucket, KeyHash(u64::from(n) << 16), place(n), false);
                    list.push((bucket, n));
                } else if !insert {
                    prop_assert_eq!(index.remove(bucket, place(n)), known.is_some());
                    if let Some(at) = known {
                        list.remove(at);
                    }
                }
                let expected: Vec<_> =
                    list.iter().filter(|l| l.0 == bucket).map(|l| place(l.1)).collect();
                let found: Vec<_> = index.of_bucket(bucket).iter().map(|f| f.place).collect();
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(index.len(), list.len() as u64);
            let fixed = index.partitions * size_of::<Partition>() as u64;
            let entries = (index.memory_bytes() - fixed) / ENTRY_BYTES as u64;
            prop_assert!(entries >= index.len());
        }
    }
}
