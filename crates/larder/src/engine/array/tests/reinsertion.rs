//! Which objects are appended again before their region is reclaimed, when, and how many.

use larder_device::{Fault, FaultDevice, FaultPlan, FaultRule};

use super::*;

const BYTES: usize = 3000;

fn counts(bench: &Bench) -> [u64; 4] {
    let counters = &bench.counters;
    [
        counters.array_reinsertion_candidates_objects.get(),
        counters.array_reinserted_objects.get(),
        counters.array_reinsertion_over_share_objects.get(),
        counters.array_reinsertion_late_objects.get(),
    ]
}

/// Sets keys from `first` on until `regions` more regions are sealed. Returns the next key.
fn fill(bench: &Bench, first: u64, regions: u64) -> u64 {
    let until = bench.counters.array_sealed_regions.get() + regions;
    let keys = (first..).take_while(|&key| {
        bench.set(key, &value(key, 0, BYTES), 0);
        bench.counters.array_sealed_regions.get() < until
    });
    first + keys.count() as u64 + 1
}

/// A log in which all regions but the open ones are sealed, and how busy its writes are from now on: always. The keys
/// of the first region, which is reclaimed next but one, are returned.
fn full(regions: u32) -> (Bench, u64, u64) {
    let bench = Bench::new(place(regions, (8, 64), 1));
    let first = fill(&bench, 0, 1);
    let next = fill(&bench, first, u64::from(regions) - 4);
    (bench, first, next)
}

#[test]
fn those_with_the_most_hits_stay_if_the_drive_has_no_time_for_all() {
    let (bench, in_first, mut next) = full(24);
    // So the share is at its least, five objects of a region of about sixty.
    for _ in 0..20 {
        (0..1000).for_each(|_| bench.array.reinsertion.note_busy(1.0));
        bench.array.reinsertion.region_began();
    }
    let asked = |key: u64| match key {
        5 => 3,
        50 => 2,
        10..40 => 1,
        _ => 0,
    };
    (0..in_first).for_each(|key| (0..asked(key)).for_each(|_| drop(bench.get(key))));
    let reclaimed = bench.counters.array_reclaimed_regions.get();
    while bench.counters.array_reclaimed_regions.get() < reclaimed + 3 {
        bench.set(next, &value(next, 0, BYTES), 0);
        bench.array.reinsertion.note_busy(1.0);
        next += 1;
    }
    let [candidates, reinserted, over_share, late] = counts(&bench);
    assert!(candidates >= 32 && over_share >= 24, "{:?}", counts(&bench));
    assert_eq!(candidates, reinserted + over_share + late, "each has one fate");
    let kept: Vec<u64> = (0..in_first).filter(|&key| bench.get(key).is_some()).collect();
    assert_eq!(kept, [5, 37, 38, 39, 50], "those with the most hits, and then the youngest");
}

#[test]
fn hits_count_once_and_what_is_overwritten_has_none() {
    let (bench, in_first, next) = full(12);
    (0..10).for_each(|key| drop(bench.get(key)));
    // Requested, then set again: the new record has no hits.
    (10..20).for_each(|key| drop(bench.get(key)));
    (10..20).for_each(|key| _ = bench.set(key, &value(key, 1, BYTES), 0));
    let next = fill(&bench, next, 12);
    let [candidates, reinserted, ..] = counts(&bench);
    assert_eq!((candidates, reinserted), (10, 10), "of {in_first}");
    // They are reclaimed again, and nothing has asked for them since.
    fill(&bench, next, 14);
    assert_eq!(counts(&bench)[..2], [10, 10]);
    assert!((0..20).all(|key| bench.get(key).is_none()));
}

#[test]
fn they_are_spread_over_the_filling_of_a_region() {
    let (bench, in_first, mut next) = full(12);
    (0..in_first).step_by(5).for_each(|key| drop(bench.get(key)));
    let (mut before, mut begun) = (counts(&bench)[1], bench.counters.array_reclaimed_regions.get());
    let (mut most, mut steps) = (0, 0);
    for _ in 0..200 {
        bench.set(next, &value(next, 0, BYTES), 0);
        next += 1;
        let now = counts(&bench)[1];
        let reclaimed = bench.counters.array_reclaimed_regions.get();
        if reclaimed == begun {
            most = most.max(now - before);
            steps += u64::from(now > before);
        } else {
            assert!(now - before <= 1, "no burst when a region is reclaimed: {}", now - before);
        }
        (before, begun) = (now, reclaimed);
    }
    assert!(most <= 1 && steps >= 5, "at most one for each new object: {most}, {steps} times");
    let [candidates, reinserted, over_share, late] = counts(&bench);
    assert!(reinserted >= 5 && late == 0, "{:?}", counts(&bench));
    assert_eq!(candidates, reinserted + over_share);
}

#[test]
fn an_object_that_changes_while_it_is_read_stays_changed() {
    let layout = place(12, (8, 512), 1);
    let bytes = usize::try_from(layout.log.regions * layout.log.region_bytes).unwrap();
    let memory = MemoryDevice::holding(vec![0; bytes]);
    let device = Arc::new(FaultDevice::new(memory, &FaultPlan::new(1)));
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, layout);
    let in_first = fill(&bench, 0, 1);
    let mut next = fill(&bench, in_first, 6);
    let asked: Vec<u64> = (0..in_first).step_by(3).collect();
    asked.iter().for_each(|&key| drop(bench.get(key)));
    let mut set_new = |count: u64| {
        (next..next + count).for_each(|key| _ = bench.set(key, &value(key, 0, BYTES), 0));
        next += count;
    };
    while counts(&bench)[0] == 0 {
        set_new(1);
    }
    let (before, reinserted) = (bench.reads().1, counts(&bench)[1]);
    let late = FaultRule::new(Fault::Delay { submissions: 1_000_000 }).on_reads();
    device.set_plan(&FaultPlan::new(1).with(late));
    set_new(20); // they do not wait for the reads that they begin
    assert!(bench.reads().1 > before && counts(&bench)[1] == reinserted, "{:?}", counts(&bench));
    for &key in &asked {
        match key % 2 {
            0 => bench.delete(key),
            _ => _ = bench.set(key, &value(key, 1, BYTES), 0),
        }
    }
    device.set_plan(&FaultPlan::new(1));
    device.release_delayed();
    set_new(10);
    assert_eq!(counts(&bench)[1], reinserted, "nothing of what was read is current");
    for key in asked {
        let expected = (key % 2 == 1).then(|| value(key, 1, BYTES));
        assert_eq!(bench.get(key), expected, "{key}");
    }
}
