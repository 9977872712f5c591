//! The index of large objects: ten bytes of DRAM per object, without keys.
//!
//! ```text
//!  entry, 8 bytes            and 2 bytes beside it
//!   bits 0..44  address in units of 4 bytes           lower 16 bits of the tag
//!       44..53  span: how much to read (see below)
//!       53..56  what is remembered of hits (see `reinsertion.rs`)
//!       56..64  upper 8 bits of the tag
//! ```
//!
//! The upper bits of a key's hash select its shard. Within a shard, a tag of 24 lower bits stands for the key. Two keys
//! with the same shard and tag displace each other, which a cache may do: among a million objects this happens to about
//! a hundred. The keys themselves are on flash: a look-up compares the key in the record that it has read.
//!
//! A shard is a table of buckets with eight slots. The tag and the size of the table determine the two buckets that an
//! entry may be in. So the table can grow, and entries can move to make room (cuckoo hashing), without reading flash. A
//! table grows by an eighth when it is nine tenths full.
//!
//! The span is a length rounded up to a number with five significant bits, at most a sixteenth more.

use larder_log::RecordForm;
use larder_log::RegionId;

use crate::base::key::KeyHash;
use crate::base::prefetch::prefetch;
use crate::config::HITS_MAX;

/// Entries per bucket for tables that are created with a known number of entries: nine tenths full, like tables that
/// are about to grow.
const RESERVED_PER_BUCKET: u64 = 7;
/// Unit of addresses.
const UNIT_BYTES: usize = 4;
const _: () = assert!(matches!(RecordForm::PLAIN.align_bytes(), 4));

const ENTRIES: usize = 8;
/// Bytes of regions per shard; at most [`SHARDS_MAX`] shards.
const SHARD_BYTES: u64 = 1 << 20;
const SHARDS_MAX: u64 = 1 << 16;
const ADDRESS_BITS: u32 = 44;
const SPAN_AT: u32 = ADDRESS_BITS;
const SPAN_BITS: u32 = 9;
const HITS_AT: u32 = SPAN_AT + SPAN_BITS;
const TAG_AT: u32 = 56;
const TAG_BITS: u32 = 24;

/// Maximum bytes of regions that addresses reach.
pub(crate) const BYTES_MAX: u64 = (UNIT_BYTES as u64) << ADDRESS_BITS;
/// The hit field of a place lies below the upper bits of its tag.
const _: () = assert!(HITS_AT + (HITS_MAX as u32).count_ones() <= TAG_AT && TAG_AT < u64::BITS);
/// A tag has two parts: the upper bits are in the place, the lower 16 bits in a separate array.
const _: () = assert!(TAG_BITS == (u64::BITS - TAG_AT) + u16::BITS);
/// A table that was created for a known number of entries has room for them.
const _: () = assert!(RESERVED_PER_BUCKET < ENTRIES as u64);

/// Where an object lies, and its hit field since it was written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    /// At least as long as the record; may extend past the end of the region.
    pub(crate) span: u32,
    pub(crate) hits: u8,
}

#[derive(Debug)]
pub(crate) struct LocIndex {
    shards: Box<[IndexShard]>,
    region_bytes: u32,
    len: usize,
    /// Minimum number of buckets of a shard's table, applied when the next entry is added.
    buckets_expected: usize,
}

/// The entry that was in the slot before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    /// The older entry was replaced. Region and offset of the older one.
    Older(RegionId, u32),
    /// The entry in the slot is newer, so it stayed.
    Newer,
}

#[derive(Debug, Default)]
struct IndexShard {
    places: Vec<u64>,
    /// The lower bits of the tags.
    tags: Vec<u16>,
}

impl LocIndex {
    pub(crate) fn new(regions: u32, region_bytes: u32) -> Self {
        assert!(
            u64::from(regions) * u64::from(region_bytes) <= BYTES_MAX,
            "addresses reach {BYTES_MAX} bytes: {regions} regions of {region_bytes}"
        );
        let shards = (u64::from(regions) * u64::from(region_bytes) / SHARD_BYTES)
            .clamp(1, SHARDS_MAX)
            .next_power_of_two();
        let shards = (0..shards).map(|_| IndexShard::default()).collect();
        Self { shards, region_bytes, len: 0, buckets_expected: 0 }
    }

    pub(crate) fn get(&self, hash: KeyHash) -> Option<Location> {
        let shard = &self.shards[self.shard(hash)];
        shard.find(tag(hash)).map(|at| self.location(shard.places[at]))
    }

    /// As [`LocIndex::get`], and sets the hit field to the result of `mark`, at most [`HITS_MAX`].
    pub(crate) fn touch(
        &mut self,
        hash: KeyHash,
        mark: impl FnOnce(&Location) -> u8,
    ) -> Option<Location> {
        let number = self.shard(hash);
        let at = self.shards[number].find(tag(hash))?;
        let location = self.location(self.shards[number].places[at]);
        let hits = mark(&location).min(HITS_MAX);
        let place = &mut self.shards[number].places[at];
        *place = *place & !(u64::from(HITS_MAX) << HITS_AT) | u64::from(hits) << HITS_AT;
        Some(Location { hits, ..location })
    }

    /// Whether the newest object of `hash` lies at this place.
    pub(crate) fn points_to(&self, hash: KeyHash, region: RegionId, offset: u32) -> bool {
        self.get(hash).is_some_and(|found| (found.region, found.offset) == (region, offset))
    }

    /// Points `hash` to a record of `length` bytes, at an offset that is a multiple of [`UNIT_BYTES`].
    pub(crate) fn set(&mut self, hash: KeyHash, region: RegionId, offset: u32, length: u32) {
        let place = self.place(region, offset, length);
        let number = self.shard(hash);
        let shard = &mut self.shards[number];
        shard.grow_to(self.buckets_expected);
        self.len += usize::from(shard.set(tag(hash), place));
    }

    /// As [`LocIndex::set`], but keeps an existing entry if `is_newer` returns true for its region and offset. Returns
    /// what was there.
    pub(crate) fn set_unless(
        &mut self,
        hash: KeyHash,
        (region, offset, length): (RegionId, u32, u32),
        is_newer: impl FnOnce(RegionId, u32) -> bool,
    ) -> Was {
        let place = self.place(region, offset, length);
        let number = self.shard(hash);
        let tag = tag(hash);
        let shard = &mut self.shards[number];
        let Some(at) = shard.find(tag) else {
            shard.grow_to(self.buckets_expected);
            shard.add(tag, place);
            self.len += 1;
            return Was::Absent;
        };
        let there = self.location(self.shards[number].places[at]);
        if is_newer(there.region, there.offset) {
            return Was::Newer;
        }
        self.shards[number].put(at, tag, place | u64::from(tag >> 16) << TAG_AT);
        Was::Older(there.region, there.offset)
    }

    /// Touches the memory where the entries of these hashes belong, so that later accesses find it in the processor's
    /// caches. These accesses do not depend on one another, unlike insertions.
    pub(crate) fn warm(&self, hashes: impl Iterator<Item = KeyHash>) {
        let seen = hashes.fold(0, |seen, hash| {
            let shard = &self.shards[self.shard(hash)];
            let Some([first, second]) = shard.buckets_of(tag(hash)) else { return seen };
            // Read the first and the last slot of a bucket: it may start in the middle of a cache line.
            let places =
                [first, second].map(|at| shard.places[at] ^ shard.places[at + ENTRIES - 1]);
            seen ^ u64::from(shard.tags[first] ^ shard.tags[second]) ^ places[0] ^ places[1]
        });
        std::hint::black_box(seen);
    }

    /// Prefetches the memory of the entry of a hash that will be looked up soon.
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        let shard = &self.shards[self.shard(hash)];
        let Some(buckets) = shard.buckets_of(tag(hash)) else { return };
        for first in buckets {
            prefetch(&raw const shard.tags[first]);
            // A bucket may start in the middle of a cache line.
            prefetch(&raw const shard.places[first]);
            prefetch(&raw const shard.places[first + ENTRIES - 1]);
        }
    }

    /// Announces this number of entries, so that tables need not grow step by step.
    pub(crate) fn expect(&mut self, entries: u64) {
        let shards = self.shards.len() as u64;
        let buckets = entries.div_ceil(shards).div_ceil(RESERVED_PER_BUCKET);
        self.buckets_expected = usize::try_from(buckets).unwrap_or(0);
    }

    /// Whether [`LocIndex::expect`] was called with a number greater than 0.
    pub(crate) fn knows_what_to_expect(&self) -> bool {
        self.buckets_expected > 0
    }

    pub(crate) fn remove(&mut self, hash: KeyHash) -> bool {
        let number = self.shard(hash);
        let shard = &mut self.shards[number];
        let Some(at) = shard.find(tag(hash)) else { return false };
        shard.places[at] = 0;
        assert!(self.len > 0, "what is removed was counted");
        self.len -= 1;
        true
    }

    /// Removes `hash` if its newest object lies at this place.
    pub(crate) fn remove_if_at(&mut self, hash: KeyHash, region: RegionId, offset: u32) -> bool {
        self.points_to(hash, region, offset) && self.remove(hash)
    }

    /// Removes all entries in `region` by checking every entry; used when the region's footer cannot be read. Returns
    /// the number of removed entries.
    pub(crate) fn remove_region(&mut self, region: RegionId) -> u64 {
        let units = u64::from(self.region_bytes) / UNIT_BYTES as u64;
        let region = u64::from(region.number());
        let inside = region * units..(region + 1) * units;
        let mut removed = 0;
        for place in self.shards.iter_mut().flat_map(|shard| &mut shard.places) {
            if *place != 0 && inside.contains(&address(*place)) {
                *place = 0;
                removed += 1;
            }
        }
        assert!(removed <= self.len, "{removed} of {} that were counted", self.len);
        self.len -= removed;
        removed as u64
    }

    /// Removes all entries of one shard that lie in regions for which `is_gone` is true. Returns the number of removed
    /// entries.
    pub(crate) fn sweep(&mut self, shard: usize, is_gone: &dyn Fn(RegionId) -> bool) -> u64 {
        let units = u64::from(self.region_bytes) / UNIT_BYTES as u64;
        let mut removed = 0;
        for place in self.shards[shard].places.iter_mut().filter(|place| **place != 0) {
            let region = u32::try_from(address(*place) / units).map(RegionId::new);
            if region.is_ok_and(is_gone) {
                *place = 0;
                removed += 1;
            }
        }
        assert!(removed <= self.len, "{removed} of {} that were counted", self.len);
        self.len -= removed;
        removed as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of shards, a power of two.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Hashes that find the entries of a shard. The index has only parts of the keys' hashes, so these are other hashes
    /// that select the same entries.
    pub(crate) fn hashes_in(&self, shard: usize) -> Vec<KeyHash> {
        let start = (shard as u128) << 64 >> self.shards.len().trailing_zeros();
        let start = u64::try_from(start).expect("a shard starts below 2^64");
        let table = &self.shards[shard];
        let used = (0..table.places.len()).filter(|&at| table.places[at] != 0);
        used.map(|at| KeyHash(start | u64::from(table.tag_at(at)))).collect()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entry = size_of::<u64>() + size_of::<u16>();
        let tables: usize = self.shards.iter().map(|shard| shard.places.len() * entry).sum();
        tables + size_of_val(&*self.shards)
    }

    fn place(&self, region: RegionId, offset: u32, length: u32) -> u64 {
        let address = u64::from(region.number()) * u64::from(self.region_bytes) + u64::from(offset);
        debug_assert!(address.is_multiple_of(UNIT_BYTES as u64), "records are aligned: {address}");
        debug_assert!(offset < self.region_bytes, "offset {offset} of {}", self.region_bytes);
        debug_assert!(address < BYTES_MAX, "{address} is within reach");
        let units = u64::from(length).div_ceil(UNIT_BYTES as u64);
        debug_assert!(units > 0, "0 is a slot without an entry");
        (address / UNIT_BYTES as u64) | (span_code(units) << SPAN_AT)
    }

    fn shard(&self, hash: KeyHash) -> usize {
        usize::try_from(hash.spread_over(self.shards.len() as u64)).expect("below a table length")
    }

    #[allow(clippy::cast_possible_truncation)] // bounded by construction
    fn location(&self, place: u64) -> Location {
        let bytes = address(place) * UNIT_BYTES as u64;
        let region_bytes = u64::from(self.region_bytes);
        let span = span_units((place >> SPAN_AT) & ((1 << SPAN_BITS) - 1)) * UNIT_BYTES as u64;
        Location {
            region: RegionId::new((bytes / region_bytes) as u32),
            offset: (bytes % region_bytes) as u32,
            span: span as u32,
            hits: (place >> HITS_AT) as u8 & HITS_MAX,
        }
    }
}

impl IndexShard {
    fn find(&self, tag: u32) -> Option<usize> {
        // Compare the lower bits first: they mostly differ, they lie close together, and eight are compared at once.
        #[allow(clippy::cast_possible_truncation)]
        let low = tag as u16;
        for first in self.buckets_of(tag)? {
            let tags: &[u16; ENTRIES] = self.tags.get(first..)?.first_chunk()?;
            let same = (0..ENTRIES).fold(0_u32, |same, at| same | u32::from(tags[at] == low) << at);
            let mut left = same;
            while left != 0 {
                let at = first + left.trailing_zeros() as usize;
                if self.places[at] != 0 && self.tag_at(at) == tag {
                    return Some(at);
                }
                left &= left - 1;
            }
        }
        None
    }

    /// Returns whether the entry is new.
    fn set(&mut self, tag: u32, place: u64) -> bool {
        let place = place | u64::from(tag >> 16) << TAG_AT;
        if let Some(at) = self.find(tag) {
            self.places[at] = place;
            return false;
        }
        self.add(tag, place & !(u64::MAX << TAG_AT));
        true
    }

    /// Adds an entry for a tag that has none.
    fn add(&mut self, tag: u32, place: u64) {
        debug_assert!(self.find(tag).is_none(), "a tag has one entry");
        let place = place | u64::from(tag >> 16) << TAG_AT;
        while !self.insert(tag, place) {
            self.grow_to(self.places.len() / ENTRIES + 1);
        }
    }

    /// Puts a new entry into one of its two buckets. If both are full, moves one entry to that entry's other bucket.
    fn insert(&mut self, tag: u32, place: u64) -> bool {
        let Some([first, second]) = self.buckets_of(tag) else { return false };
        if let Some(at) = self.empty_in(first).or_else(|| self.empty_in(second)) {
            self.put(at, tag, place);
            return true;
        }
        let way = (first..first + ENTRIES).chain(second..second + ENTRIES).find_map(|at| {
            let [here, there] = self.buckets_of(self.tag_at(at))?;
            Some((at, self.empty_in(here).or_else(|| self.empty_in(there))?))
        });
        let Some((at, empty)) = way else { return false };
        self.put(empty, self.tag_at(at), self.places[at]);
        self.put(at, tag, place);
        true
    }

    /// An empty slot of a bucket.
    fn empty_in(&self, bucket: usize) -> Option<usize> {
        // Without branches: the position of the first empty slot is unpredictable, and a branch misprediction costs
        // more than checking all slots.
        let slots: &[u64; ENTRIES] = self.places.get(bucket..)?.first_chunk()?;
        let empty = (0..ENTRIES).fold(0_u32, |empty, at| empty | u32::from(slots[at] == 0) << at);
        (empty != 0).then(|| bucket + empty.trailing_zeros() as usize)
    }

    #[allow(clippy::cast_possible_truncation)] // only the lower bits are needed
    fn put(&mut self, at: usize, tag: u32, place: u64) {
        debug_assert!(place != 0, "0 is a slot without an entry");
        self.places[at] = place;
        self.tags[at] = tag as u16;
        debug_assert_eq!(self.tag_at(at), tag, "both parts are of one tag");
    }

    /// Grows by an eighth, or to this number of buckets if that is more.
    fn grow_to(&mut self, least: usize) {
        let mut buckets = self.places.len() / ENTRIES;
        if buckets >= least {
            return;
        }
        loop {
            buckets = (buckets + (buckets / 8).max(1)).max(least);
            let slots = buckets * ENTRIES;
            let mut larger = Self { places: vec![0; slots], tags: vec![0; slots] };
            let mut entries = (0..self.places.len()).filter(|&at| self.places[at] != 0);
            if entries.all(|at| larger.insert(self.tag_at(at), self.places[at])) {
                debug_assert_eq!(larger.entries(), self.entries(), "a table that grows loses none");
                *self = larger;
                return;
            }
        }
    }

    /// Counts the used slots.
    fn entries(&self) -> usize {
        self.places.iter().filter(|place| **place != 0).count()
    }

    fn tag_at(&self, at: usize) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // eight bits
        let upper = (self.places[at] >> TAG_AT) as u32;
        upper << 16 | u32::from(self.tags[at])
    }

    /// The first slots of the two buckets of a tag. `None` if there are no buckets yet.
    fn buckets_of(&self, tag: u32) -> Option<[usize; 2]> {
        let buckets = (self.places.len() / ENTRIES) as u64;
        let pick = |tag: u32| ((u64::from(tag) * buckets) >> TAG_BITS) as usize * ENTRIES;
        let mixed = tag.wrapping_mul(0x9e37_79b1) >> (32 - TAG_BITS);
        (buckets > 0).then(|| [pick(tag), pick(mixed)])
    }
}

fn tag(hash: KeyHash) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // only the lower bits are needed
    let low = hash.0 as u32;
    low & ((1 << TAG_BITS) - 1)
}

fn address(place: u64) -> u64 {
    place & ((1 << ADDRESS_BITS) - 1)
}

/// Below 32 the number itself; above, five significant bits, rounded up.
fn span_code(units: u64) -> u64 {
    if units < 32 {
        return units;
    }
    let exponent = u64::from(units.ilog2()) - 4;
    let mantissa = units.div_ceil(1 << exponent);
    // A mantissa of 32 overflows into the next exponent, where it has the same value.
    let code = exponent * 16 + mantissa;
    debug_assert!(code < 1 << SPAN_BITS, "{units} units are a region at most");
    debug_assert!(span_units(code) >= units, "a read of this span covers the whole record");
    code
}

fn span_units(code: u64) -> u64 {
    if code < 32 {
        return code;
    }
    let exponent = code / 16 - 1;
    (code - exponent * 16) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const REGION: u32 = 1 << 20;

    fn region(number: u32) -> RegionId {
        RegionId::new(number)
    }

    fn hash(key: u32) -> KeyHash {
        KeyHash::of(&key.to_le_bytes())
    }

    #[test]
    fn an_object_costs_at_most_12_bytes() {
        let mut index = LocIndex::new(1024, REGION);
        let mut worst: f64 = 0.0;
        for key in 0..1_000_000_u32 {
            index.set(hash(key), region(key % 1024), key / 1024 * 4, 1000);
            if key > 500_000 && key % 10_000 == 0 {
                worst = worst.max(index.memory_bytes() as f64 / index.len() as f64);
            }
        }
        println!("at worst {worst:.2} bytes an object");
        assert!(worst <= 12.0, "{worst}");
        assert!(index.len() > 999_000, "{}", index.len());
    }

    #[test]
    fn hits_are_remembered_as_far_as_they_can() {
        let mut index = LocIndex::new(4, REGION);
        index.set(hash(0), region(3), 80, 5000);
        for hits in 1..20 {
            let found = index.touch(hash(0), |at| at.hits + 1).unwrap();
            assert_eq!(index.get(hash(0)), Some(found));
            assert_eq!(
                (found.region, found.offset, found.hits),
                (region(3), 80, hits.min(HITS_MAX))
            );
        }
    }

    #[test]
    fn a_region_can_be_forgotten_whole() {
        let mut index = LocIndex::new(4, REGION);
        (0..400).for_each(|key| index.set(hash(key), region(key % 4), key * 4, 50));
        assert_eq!(index.remove_region(region(2)), 100);
        assert_eq!(index.len(), 300);
        assert!((0..400).all(|key| index.get(hash(key)).is_some() == (key % 4 != 2)));
    }

    proptest! {
        #[test]
        fn a_span_is_a_little_longer_than_the_record(length in 1_u32..1 << 30) {
            let mut index = LocIndex::new(1, 1 << 30);
            index.set(hash(0), region(0), 0, length);
            let span = index.get(hash(0)).unwrap().span;
            prop_assert!(span >= length && u64::from(span) <= u64::from(length) * 17 / 16 + 3);
        }

        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((0_u8..4, 0_u32..500, 0_u32..4, 0_u32..1000), 1..2000)) {
            let mut index = LocIndex::new(4, REGION);
            let mut map: HashMap<u32, (RegionId, u32)> = HashMap::new();
            for (op, key, at_region, at) in ops {
                let (region, offset) = (region(at_region), at * 4);
                match op {
                    0 | 1 => {
                        index.set(hash(key), region, offset, 100 + at);
                        map.insert(key, (region, offset));
                    }
                    2 => prop_assert_eq!(index.remove(hash(key)), map.remove(&key).is_some()),
                    _ => {
                        let there = map.get(&key) == Some(&(region, offset));
                        prop_assert_eq!(index.remove_if_at(hash(key), region, offset), there);
                        if there {
                            map.remove(&key);
                        }
                    }
                }
                let found = index.get(hash(key)).map(|found| (found.region, found.offset));
                prop_assert_eq!(found, map.get(&key).copied());
                prop_assert_eq!(index.len(), map.len());
            }
        }
    }
}
