//! DRAM budgets that change while the cache is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder::{Config, Larder, RealClock, block_on};

use crate::rig::{Rig, config, drive_of};

const MIB: u64 = 1 << 20;

fn cache_of(dram_bytes: u64) -> Larder {
    let config = Config { dram_bytes, ..Config::default() };
    block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap()
}

fn set(cache: &Larder, key: u64, bytes: usize) {
    block_on(cache.set(&key.to_le_bytes(), &vec![key.to_le_bytes()[0]; bytes], None)).unwrap();
}

fn holds(cache: &Larder, key: u64) -> bool {
    let found = block_on(cache.get(&key.to_le_bytes())).unwrap();
    found.is_some_and(|found| found.iter().all(|&byte| byte == key.to_le_bytes()[0]))
}

/// Sets as many bytes as the budget. Each value finds room, and is there at once.
fn pass(cache: &Larder, budget: u64, from: u64, bytes: usize) -> u64 {
    let end = from + budget / (bytes as u64 + 28);
    let refused = cache.stats().rejected_dram_pinned_objects;
    for key in from..end {
        set(cache, key, bytes);
        assert!(holds(cache, key), "{key} was refused");
    }
    let stats = cache.stats();
    assert_eq!(stats.rejected_dram_pinned_objects, refused);
    assert!(stats.dram_used_bytes * 10 <= budget * 11, "{} of {budget}", stats.dram_used_bytes);
    end
}

#[test]
fn a_smaller_budget_is_kept_after_a_pass_and_refuses_nothing() {
    for (large, small, bytes) in [(64, 8, 20_000), (16, 2, 100), (128, 1, 1000), (20, 1, 8)] {
        let cache = cache_of(large * MIB);
        let next = pass(&cache, large * MIB, 0, bytes);
        cache.set_dram_bytes(small * MIB);
        let next = pass(&cache, small * MIB, next, bytes);
        let stats = cache.stats();
        let held = stats.dram_items * (bytes as u64 + 24);
        // For values of 8 bytes that is three fifths: the rest is held by the shards of a larger index.
        assert!(held * 2 >= small * MIB, "{held} of {small} MiB are items");
        cache.set_dram_bytes(large * MIB);
        pass(&cache, large * MIB, next, bytes);
    }
}

#[test]
fn a_larger_budget_is_used_however_small_the_first_one_was() {
    for (small, large, bytes) in [(512 << 10, 140 * MIB, 100), (8 << 10, 64 * MIB, 300)] {
        let cache = cache_of(small);
        let next = pass(&cache, small, 0, bytes);
        cache.set_dram_bytes(large);
        let end = pass(&cache, large * 8 / 10, next, bytes);
        assert!((next..end).all(|key| holds(&cache, key)), "something left before its time");
        let mut scan = cache.scan();
        let mut seen = 0;
        while let Some(batch) = block_on(scan.next()) {
            seen += batch.len() as u64;
        }
        assert_eq!(seen, cache.stats().dram_items);
        cache.set_dram_bytes(small);
        pass(&cache, large / 256, end, bytes);
    }
}

/// Gets alone make progress, by one segment each.
#[test]
fn what_is_too_much_leaves_with_gets_alone() {
    let cache = cache_of(256 * MIB);
    let next = pass(&cache, 256 * MIB, 0, 4000);
    cache.set_dram_bytes(16 * MIB);
    let after_the_call = cache.stats().dram_used_bytes;
    assert!((16 * MIB..230 * MIB).contains(&after_the_call), "{after_the_call}");
    for _ in 0..4 {
        (next - 1000..next).for_each(|key| _ = holds(&cache, key));
    }
    assert!(cache.stats().dram_used_bytes <= 16 * MIB);
}

#[test]
fn values_in_use_stay_what_they_are_above_a_smaller_budget() {
    let cache = cache_of(64 * MIB);
    pass(&cache, 64 * MIB, 0, 10_000);
    let keys = 1000..3000_u64;
    let get = |key: u64| block_on(cache.get(&key.to_le_bytes())).unwrap().unwrap();
    let kept: Vec<_> = keys.clone().map(get).collect();
    cache.set_dram_bytes(2 * MIB);
    for key in 100_000..101_000 {
        set(&cache, key, 1000);
    }
    let stats = cache.stats();
    assert!(stats.copied_values > 1900, "{} of them are copies", stats.copied_values);
    // Segments of the old size are not used again: they stay with the readers that pin them.
    assert!(stats.dram_used_bytes <= 2 * MIB, "{}", stats.dram_used_bytes);
    for (key, value) in keys.zip(kept) {
        assert!(value.iter().all(|&byte| byte == key.to_le_bytes()[0]));
    }
    pass(&cache, 2 * MIB, 200_000, 1000);
}

#[test]
fn threads_go_on_while_the_budget_goes_up_and_down() {
    let cache = cache_of(64 * MIB);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (cache, ended) = (&cache, &ended);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut key = thread << 32;
                while !ended.load(Ordering::Relaxed) {
                    key += 1;
                    set(cache, key, [20, 200, 3000][rng.usize(..3)]);
                    let other = (thread << 32) + rng.u64(1..=key - (thread << 32));
                    let found = block_on(cache.get(&other.to_le_bytes())).unwrap();
                    assert!(found.is_none_or(|it| it.iter().all(|&b| b == other.to_le_bytes()[0])));
                }
            });
        }
        for round in 0..12 {
            let budget = [64 * MIB, MIB, 100 * MIB, 700 << 10][round % 4];
            cache.set_dram_bytes(budget);
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(cache.stats().rejected_dram_pinned_objects, 0);
    cache.set_dram_bytes(8 * MIB);
    pass(&cache, 8 * MIB, 1 << 60, 500);
}

#[test]
fn above_flash_a_smaller_budget_is_kept_too() {
    let drive = drive_of(64 << 20, true);
    let rig = Rig::open(Config { dram_bytes: 8 * MIB, ..config() }, &drive);
    (0..8000).for_each(|key| rig.set(key, 1, 900));
    assert!(rig.cache.stats().dram_used_bytes > 7 * MIB);
    rig.cache.set_dram_bytes(100 << 10);
    (8000..8200).for_each(|key| rig.set(key, 1, 900));
    let stats = rig.cache.stats();
    assert!(stats.dram_used_bytes <= 110 << 10, "{}", stats.dram_used_bytes);
    assert_eq!(stats.rejected_dram_pinned_objects, 0);
    let kept = (0..8200).filter(|&key| rig.get(key) == Some(1)).count();
    assert!(kept > 8000, "{kept} went to flash");
}

#[test]
fn budgets_that_cannot_be_are_taken_as_the_next_that_can() {
    let cache = cache_of(MIB);
    for bytes in [1, u64::MAX, 8 << 10, 1 << 50] {
        cache.set_dram_bytes(bytes);
        set(&cache, bytes, 2500);
        assert!(holds(&cache, bytes), "with {bytes}");
    }
    cache.set_memory_bytes(1);
    set(&cache, 1, 2500);
    assert!(holds(&cache, 1));
}
