//! Tests of values in parts: reads, versions, and what is forgotten.

use super::*;
use crate::base::item::Kind;
use crate::engine::Judge;

const REGION: usize = REGION_BYTES as usize;

fn long(key: u64, version: u64, regions: usize) -> Vec<u8> {
    let mut next = pseudo_random(key << 32 | version);
    let words = (0..regions * REGION / 8).flat_map(|_| next().to_le_bytes());
    words.collect()
}

impl Bench {
    /// Sets a value; the number of reads is not limited.
    fn set_long(&self, key: u64, value: &[u8]) -> bool {
        let (key, now_s) = (key.to_le_bytes(), self.now_s());
        let item = ItemRef::new(KeyHash::of(&key), &key, value, 0);
        assert!(Engine::takes(&self.array, &item), "{} bytes", value.len());
        self.array.die(item.hash);
        block_on(self.array.set(&item, now_s))
    }

    /// Gets, with at most two reads for the head and for each part.
    fn get_long(&self, key: u64) -> Option<Vec<u8>> {
        let (key, now_s) = (key.to_le_bytes(), self.now_s());
        let before = self.reads();
        let found = block_on(self.array.find_whole(KeyHash::of(&key), &key, now_s))?;
        let after = self.reads();
        let value = found.item().value.to_vec();
        let records = 1 + value.len().div_ceil(self.array.log.place().part_bytes()) as u64;
        assert!(after.0 - before.0 <= records, "{before:?} to {after:?}, {records} records");
        assert!(after.1 - before.1 <= records, "{before:?} to {after:?}, {records} records");
        Some(value)
    }

    /// The head as it was read, and its entry.
    fn head(&self, key: u64) -> (FlashItem, super::super::entry::SetEntry) {
        let hash = KeyHash::of(&key.to_le_bytes());
        let entry = block_on(self.array.tables.find(hash)).unwrap();
        (block_on(self.array.fetch(hash, entry, self.now_s())).unwrap(), entry)
    }
}

#[test]
fn a_part_costs_two_reads_at_most_and_one_with_its_entry_in_dram() {
    let bench = Bench::new(place(64, (4, 3), 1));
    for key in 0..12 {
        assert!(bench.set_long(key, &long(key, 1, 2)));
        assert_eq!(bench.get_long(key), Some(long(key, 1, 2)), "{key}");
    }
    block_on(bench.array.log.regions().write_out());
    // The latest key: DRAM has all of its entries, while those of the first keys are in tables.
    let before = bench.reads();
    assert!(bench.get_long(11).is_some());
    let (tables, records) = (bench.reads().0 - before.0, bench.reads().1 - before.1);
    assert!(tables <= 3 && records == 18, "{tables}, {records}");
    let found = (0..12).filter(|&key| bench.get_long(key).is_some()).count();
    assert!(found >= 11, "{found}");
    assert_eq!(bench.counters.array_incomplete_objects.get(), 0);
}

#[test]
fn parts_of_two_versions_are_never_put_together() {
    let bench = Bench::new(place(96, (4, 8), 1));
    assert!(bench.set_long(7, &long(7, 1, 3)));
    let (head, entry) = bench.head(7);
    assert_eq!(head.kind, Kind::Head);
    assert!(bench.set_long(7, &long(7, 2, 3)));
    // A task that has read the old head finds the old parts, or nothing.
    let old = block_on(bench.array.complete(head, entry));
    assert!(old.is_none_or(|found| found.item().value == long(7, 1, 3)));
    let (head, entry) = bench.head(7);
    assert!(bench.set_long(7, &long(7, 3, 3)));
    // Everything else is evicted, including the old parts.
    for key in 100..180 {
        assert!(bench.set_long(key, &long(key, 1, 1)));
        assert!(bench.get_long(7).is_some_and(|found| found == long(7, 3, 3)), "{key}");
    }
    assert_eq!(block_on(bench.array.complete(head, entry)).map(|_| ()), None);
    assert_eq!(bench.get_long(7), Some(long(7, 3, 3)), "a newer head stays");
    assert_eq!(bench.counters.array_incomplete_objects.get(), 0);
}

#[test]
fn a_head_that_lacks_a_part_is_forgotten_and_costs_no_read_again() {
    let bench = Bench::new(ArrayPlace { reinsertion: false, ..place(64, (4, 8), 1) });
    assert!(bench.set_long(7, &long(7, 1, 8)));
    let mut others = 1000;
    while bench.get_long(7).inspect(|found| assert!(*found == long(7, 1, 8))).is_some() {
        assert!(bench.set(others, &value(others, 0, 30_000), 0));
        others += 1;
    }
    assert_eq!(bench.counters.array_incomplete_objects.get(), 1);
    let before = bench.reads();
    assert!(bench.get_long(7).is_none());
    assert_eq!(bench.reads(), before);
    assert!(bench.set_long(7, &long(7, 2, 8)));
    assert_eq!(bench.get_long(7), Some(long(7, 2, 8)));
}

#[test]
fn a_scan_has_long_values_whole_and_counts_no_hit() {
    let bench = Bench::new(place(96, (4, 2), 1));
    (0..6).for_each(|key| assert!(bench.set_long(key, &long(key, 1, 2))));
    (10..60).for_each(|key| assert!(bench.set(key, &value(key, 0, 3000), 0)));
    bench.delete(3);
    let hits = |bench: &Bench| {
        let state = bench.array.log.lock();
        let tables = 0..bench.array.log.place().tables;
        let sets = tables.flat_map(|table| state.entries.sets_of(table).to_vec());
        sets.flat_map(|set| set.entries().collect::<Vec<_>>()).filter(|it| it.hits() > 0).count()
    };
    let (before, reads) = (hits(&bench), bench.reads().0);
    let judge = |item: &ItemRef<'_>| {
        let key = u64::from_le_bytes(item.key.try_into().expect("a key, not that of a part"));
        Some((key, item.value.to_vec()))
    };
    let judge: Judge<'_, (u64, Vec<u8>)> = &judge;
    let mut cursor = Engine::scan(&bench.array, &(0..=u64::MAX));
    let mut found = HashMap::new();
    while let Some(batch) = block_on(Engine::scan_on(&bench.array, &mut cursor, judge)) {
        found.extend(batch);
    }
    assert_eq!((hits(&bench), bench.reads().0), (before, reads));
    for key in (0..6).filter(|&key| key != 3) {
        assert!(found[&key] == long(key, 1, 2), "{key}");
    }
    assert!((10..60).all(|key| found[&key] == value(key, 0, 3000)));
    assert_eq!(found.len(), 55);
}
