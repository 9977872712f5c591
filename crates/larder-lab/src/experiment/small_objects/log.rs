//! A log of small objects in front of sets: a FIFO queue by bytes, with an index by set.

use std::collections::VecDeque;

use super::layout::{Entry, LONG, Places};
use super::objects::Objects;

/// A place with this bit is the number of a record in the log; without it, the number of a set.
const IN_LOG: u32 = 1 << 31;
/// Bits of DRAM for a live record, and for the chain of a set: Kangaroo's.
const RECORD_BITS: f64 = 48.0;
const CHAIN_BITS: f64 = 16.0;
/// Values of the tag in the product's index.
const TAG_VALUES: f64 = 4096.0;
/// By how much a hit in the log improves the prediction.
const HIT_RANKS: u8 = 3;

/// The log. Records are numbered from the oldest that it ever had.
pub(super) struct Log {
    records: VecDeque<Entry>,
    /// The number of the first record.
    first: u32,
    bytes: u64,
    capacity_bytes: u64,
    /// Numbers of the records of each set, old ones included.
    by_set: Vec<Vec<u32>>,
}

impl Log {
    pub(super) fn new(capacity_bytes: u64, sets: u32) -> Self {
        let by_set = vec![Vec::new(); sets as usize];
        Self { records: VecDeque::new(), first: 0, bytes: 0, capacity_bytes, by_set }
    }

    pub(super) fn is_in_log(place: u32) -> bool {
        place & IN_LOG != 0
    }

    /// Appends a record; returns its bytes on flash.
    #[allow(clippy::cast_possible_truncation)] // numbers of a short run
    pub(super) fn append(&mut self, entry: Entry, set: u32, places: &mut Places) -> u64 {
        let bytes = u64::from(entry.flash_bytes());
        let number = self.first + self.records.len() as u32;
        self.records.push_back(entry);
        self.by_set[set as usize].push(number);
        self.bytes += bytes;
        places.put(entry.key, IN_LOG | number);
        bytes
    }

    /// The oldest record, if the log is too full, and its place.
    pub(super) fn surplus(&self) -> Option<(Entry, u32)> {
        let oldest = self.records.front().filter(|_| self.bytes > self.capacity_bytes);
        oldest.map(|entry| (*entry, IN_LOG | self.first))
    }

    pub(super) fn remove_oldest(&mut self) {
        if let Some(entry) = self.records.pop_front() {
            self.first += 1;
            self.bytes -= u64::from(entry.flash_bytes());
        }
    }

    /// The live records of a set, with predictions by their hits.
    pub(super) fn of_set(&mut self, set: u32, places: &Places, objects: &Objects) -> Vec<Entry> {
        let (records, first) = (&self.records, self.first);
        let mut live = Vec::new();
        self.by_set[set as usize].retain(|number| {
            let record = number.checked_sub(first).and_then(|at| records.get(at as usize));
            let record = record.filter(|it| places.is_live(it, IN_LOG | *number, objects));
            live.extend(record.map(|it| {
                let rank = LONG.saturating_sub(places.hits(it.key).saturating_mul(HIT_RANKS));
                Entry { rank, ..*it }
            }));
            record.is_some()
        });
        live
    }

    /// The version of a record.
    pub(super) fn version(&self, place: u32) -> Option<u32> {
        let at = (place & !IN_LOG).checked_sub(self.first)?;
        self.records.get(at as usize).map(|entry| entry.version)
    }

    /// Expected false reads of a look-up: tags of the set's records that are those of another key.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn false_reads(&self, set: u32) -> f64 {
        self.by_set[set as usize].len() as f64 / TAG_VALUES
    }

    /// Live records.
    pub(super) fn live<'a>(
        &'a self,
        places: &'a Places,
        objects: &'a Objects,
    ) -> impl Iterator<Item = &'a Entry> {
        let numbered = (self.first..).zip(&self.records);
        numbered
            .filter(move |(number, it)| places.is_live(it, IN_LOG | number, objects))
            .map(|(_, it)| it)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn dram_bits(&self, live: u64) -> f64 {
        live as f64 * RECORD_BITS + self.by_set.len() as f64 * CHAIN_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_what_has_room_and_lists_it_by_set() {
        let mut objects = Objects::new(1000);
        (0..1000).for_each(|key| objects.set(key, 90, 0));
        let (mut log, mut places) = (Log::new(10_000, 7), Places::new(1000));
        for key in 0..1000 {
            assert_eq!(log.append(Entry::of(key, &objects), key % 7, &mut places), 100);
            while let Some((oldest, place)) = log.surplus() {
                assert_eq!(places.get(oldest.key), Some(place));
                places.clear(oldest.key);
                log.remove_oldest();
            }
        }
        let live: Vec<_> = log.live(&places, &objects).map(|it| it.key).collect();
        assert_eq!(live, (900..1000).collect::<Vec<_>>());
        places.hit(994);
        let of_set = log.of_set(994 % 7, &places, &objects);
        assert_eq!(of_set.len(), live.iter().filter(|key| *key % 7 == 994 % 7).count());
        let rank = |key| of_set.iter().find(|it| it.key == key).map(|it| it.rank);
        assert_eq!((rank(994), rank(987)), (Some(LONG - HIT_RANKS), Some(LONG)));
        objects.delete(987);
        assert_eq!(log.of_set(994 % 7, &places, &objects).len(), of_set.len() - 1);
    }
}
