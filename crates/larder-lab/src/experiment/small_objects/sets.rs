//! Sets of objects that are rewritten whole, under FIFO or RRIP. Buckets, the log in front of them and the fold use
//! them.

use super::layout::{Entry, LookUp, PAYLOAD_BYTES, Places, flash_bytes};
use super::objects::{Key, Objects};

/// The prediction of an object that may be evicted.
const FAR: u8 = 7;
/// The product's Bloom filter of a bucket.
const FILTER_BITS: f64 = 128.0;
const FILTER_PROBES: i32 = 4;
/// Bits of DRAM for a set, as in the product: the filter, and the bucket's generation.
pub(super) const SET_BITS: f64 = 19.0 * 8.0;

/// Which object of a full set is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Eviction {
    /// The one that was written first.
    Fifo,
    /// Kangaroo's rule: predictions of 3 bits on flash, a hit bit in DRAM that is applied when the set is rewritten.
    Rrip,
}

/// The sets of a layout. The place of an object is the number of its set.
pub(super) struct Sets {
    sets: Vec<Vec<Entry>>,
    eviction: Eviction,
}

impl Sets {
    pub(super) fn new(count: u32, eviction: Eviction) -> Self {
        Self { sets: vec![Vec::new(); count as usize], eviction }
    }

    #[allow(clippy::cast_possible_truncation)] // made from a `u32`
    pub(super) fn count(&self) -> u32 {
        self.sets.len() as u32
    }

    pub(super) fn entries(&self, set: u32) -> &[Entry] {
        &self.sets[set as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &[Entry])> {
        (0..).zip(self.sets.iter().map(Vec::as_slice))
    }

    /// The entries of `set` with the last version of their object.
    pub(super) fn live<'a>(
        &'a self,
        set: u32,
        places: &'a Places,
        objects: &'a Objects,
    ) -> impl Iterator<Item = &'a Entry> {
        self.entries(set).iter().filter(move |entry| places.is_live(entry, set, objects))
    }

    /// Reads the set if its filter says so.
    pub(super) fn look_up(
        &self,
        set: u32,
        key: Key,
        places: &mut Places,
        objects: &Objects,
    ) -> LookUp {
        let entries = self.entries(set);
        let Some(entry) = entries.iter().rev().find(|entry| entry.key == key) else {
            let reads = false_positive(entries.len());
            return LookUp { reads, ..LookUp::default() };
        };
        if !places.is_live(entry, set, objects) {
            return LookUp { is_old: true, ..LookUp::default() };
        }
        places.hit(key);
        LookUp { version: Some(entry.version), reads: 1.0, ..LookUp::default() }
    }

    /// Rewrites a set: drops what is old, inserts `incoming` and evicts what has no room. New objects may be evicted
    /// at once.
    pub(super) fn rewrite(
        &mut self,
        set: u32,
        incoming: &[Entry],
        places: &mut Places,
        objects: &Objects,
    ) {
        let mut entries = std::mem::take(&mut self.sets[set as usize]);
        entries.retain(|entry| places.is_live(entry, set, objects));
        for entry in &mut entries {
            if places.hits(entry.key) > 0 {
                entry.rank = 0;
                places.set_hits(entry.key, 0);
            }
        }
        let before = entries.len();
        entries.extend_from_slice(incoming);
        let evicted = match self.eviction {
            _ if flash_bytes(&entries) <= PAYLOAD_BYTES => Vec::new(),
            Eviction::Fifo => evict_first(&mut entries),
            Eviction::Rrip => evict_far(&mut entries),
        };
        evicted.iter().for_each(|entry| places.clear(entry.key));
        let is_new = |entry: &Entry| incoming.iter().any(|it| it.key == entry.key);
        debug_assert!(before <= entries.len() + evicted.len());
        entries.iter().filter(|entry| is_new(entry)).for_each(|entry| places.put(entry.key, set));
        self.sets[set as usize] = entries;
    }

    /// Empties a set.
    pub(super) fn clear(&mut self, set: u32) {
        self.sets[set as usize].clear();
    }
}

/// Chance that a bucket's filter of this number of objects lets another key through.
#[allow(clippy::cast_precision_loss)] // a few dozen
fn false_positive(entries: usize) -> f64 {
    let set = 1.0 - (-f64::from(FILTER_PROBES) * entries as f64 / FILTER_BITS).exp();
    set.powi(FILTER_PROBES)
}

/// Evicts from the front until the rest has room.
fn evict_first(entries: &mut Vec<Entry>) -> Vec<Entry> {
    let mut bytes = flash_bytes(entries);
    let mut count = 0;
    while bytes > PAYLOAD_BYTES {
        bytes -= entries[count].flash_bytes();
        count += 1;
    }
    entries.drain(..count).collect()
}

/// Ages all until one is far, and evicts the farthest. Of those with the same prediction, older ones stay.
fn evict_far(entries: &mut Vec<Entry>) -> Vec<Entry> {
    let most = entries.iter().map(|entry| entry.rank).max().unwrap_or(FAR);
    entries.iter_mut().for_each(|entry| entry.rank = (entry.rank + FAR - most).min(FAR));
    entries.sort_by_key(|entry| entry.rank);
    let mut bytes = 0;
    let (kept, evicted) = entries.iter().partition(|entry| {
        let has_room = bytes + entry.flash_bytes() <= PAYLOAD_BYTES;
        bytes += if has_room { entry.flash_bytes() } else { 0 };
        has_room
    });
    *entries = kept;
    evicted
}

#[cfg(test)]
mod tests {
    use super::super::layout::LONG;
    use super::*;

    fn entry(key: Key, rank: u8) -> Entry {
        Entry { key, version: 1, bytes: 1000, rank }
    }

    #[test]
    fn fifo_evicts_what_came_first() {
        let mut entries: Vec<_> = (0..5).map(|key| entry(key, LONG)).collect();
        let evicted = evict_first(&mut entries);
        assert_eq!(evicted.iter().map(|it| it.key).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn rrip_ages_only_for_room_and_prefers_what_is_there() {
        let mut entries: Vec<_> =
            [0, 3, 6, 6, 6].into_iter().zip(0..).map(|(r, k)| entry(k, r)).collect();
        let evicted = evict_far(&mut entries);
        assert_eq!(evicted.iter().map(|it| it.key).collect::<Vec<_>>(), [4]);
        assert_eq!(entries.iter().map(|it| it.rank).collect::<Vec<_>>(), [1, 4, 7, 7]);
    }

    #[test]
    fn the_filter_of_seventeen_objects_lets_three_percent_through() {
        assert!((0.025..0.035).contains(&false_positive(17)));
        assert_eq!(false_positive(0), 0.0);
    }
}
