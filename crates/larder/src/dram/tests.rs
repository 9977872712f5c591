//! Tests the tier as a whole.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

fn tier(budget: u64, policy: DramPolicy) -> DramTier {
    DramTier::new(budget, policy, false, 0, KeyHasher::UNSEEDED)
}

fn insert(tier: &DramTier, key: u64, value_bytes: usize, expiry_s: u32) -> Result<(), DramFull> {
    let key = key.to_le_bytes();
    let value = vec![7; value_bytes];
    tier.insert(&ItemRef::new(KeyHash::of(&key), &key, &value, expiry_s), &0, &|_| true)
}

fn get(tier: &DramTier, key: u64, now_s: u32) -> Lookup {
    let key = key.to_le_bytes();
    tier.get(KeyHash::of(&key), &key, || u64::from(now_s) * 1000)
}

fn holds(tier: &DramTier, key: u64) -> bool {
    matches!(get(tier, key, 0), Lookup::Hit(_))
}

fn remove(tier: &DramTier, key: u64) -> Option<bool> {
    let key = key.to_le_bytes();
    tier.remove(KeyHash::of(&key), &key, 0)
}

fn key_in(demotion: &Demotion) -> u64 {
    u64::from_le_bytes(demotion.item(false).key.try_into().unwrap())
}

#[test]
fn an_item_costs_at_most_27_bytes_without_key_and_value() {
    let tier = tier(64 << 20, DramPolicy::S3Fifo);
    (0..1_000_000).for_each(|key| insert(&tier, key, 50, 0).unwrap());
    assert!(tier.len() < 900_000, "the tier is full");
    let overhead = tier.used_bytes() as f64 / tier.len() as f64 - 58.0;
    println!("{overhead:.1} bytes an item");
    assert!(overhead <= 27.0, "{overhead} bytes an item");
}

#[test]
fn what_flash_has_as_it_is_leaves_without_going_there() {
    for (clean, is_below) in [(true, true), (true, false), (false, true)] {
        let tier = DramTier::new(64 << 10, DramPolicy::Lru, true, 0, KeyHasher::UNSEEDED);
        let tier = tier.above(move |_| is_below);
        for key in 0..2000_u64 {
            let key = key.to_le_bytes();
            let item = ItemRef { clean, ..ItemRef::new(KeyHash::of(&key), &key, &[7; 100], 0) };
            while tier.insert(&item, &0, &|_| true).is_err() {
                tier.next_demotion().into_iter().for_each(|demotion| tier.demoted(demotion));
            }
        }
        let left = tier.counters.evicted_clean_objects.get();
        assert_eq!(left > 1000, clean && is_below, "{left} left");
        assert_eq!(tier.next_demotion().is_none(), clean && is_below, "{clean} {is_below}");
    }
}

/// Keys with equal XXH3 hashes without a seed, as in this tier.
fn alike(which: u64) -> Vec<u8> {
    let mut key = vec![0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
    key.extend_from_slice(&which.to_le_bytes());
    key.extend_from_slice(b"sixteen others..");
    key
}

/// A million keys with one hash, in a tier without protection: a few are stored, the rest are refused, and other keys
/// are not affected. `--nocapture` shows how long gets of others took before and after.
#[test]
fn a_million_keys_of_one_hash_are_refused_and_others_stay_as_they_are() {
    const OTHERS: u64 = 100_000;
    let tier = tier(64 << 20, DramPolicy::S3Fifo);
    (0..OTHERS).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    let look = || {
        let pass = |_| {
            let begin = std::time::Instant::now();
            assert!((0..OTHERS).all(|key| holds(&tier, key)));
            begin.elapsed()
        };
        (0..5).map(pass).min().unwrap()
    };
    let (index_bytes, before) = (tier.index.memory_bytes(), look());
    let hash = KeyHash::of(&alike(0));
    let mut taken = 0;
    for which in 0..1_000_000 {
        let key = alike(which);
        assert!(which > 1000 || KeyHash::of(&key) == hash);
        taken +=
            u64::from(tier.insert(&ItemRef::new(hash, &key, b"rye", 0), &0, &|_| true).is_ok());
    }
    let after = look();
    println!("{taken} taken; gets of others: {before:?} before, {after:?} after");
    assert!((4..=64).contains(&taken), "{taken} of one hash were taken");
    assert_eq!(tier.len() as u64, OTHERS + taken, "an entry for each, no other left");
    // A shard in which a place was searched may have grown once.
    let grown = tier.index.memory_bytes() - index_bytes;
    assert!(grown <= index_bytes / 8, "{grown} of {index_bytes}");
    assert!(tier.used_bytes() <= 64 << 20);
}

#[test]
fn an_interrupted_reader_delays_no_writer() {
    let tier = tier(1 << 20, DramPolicy::S3Fifo);
    (0..20_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    let inside = tier.index.readers().enter();
    // Segments are reused however long it takes; outgrown tables wait for the reader.
    (20_000..40_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    assert!(holds(&tier, 39_999) && tier.used_bytes() <= 1 << 20, "{}", tier.used_bytes());
    drop(inside);
    tier.reclaim();
    assert_eq!(tier.index.readers().retired(), 0);
}

/// Anything may happen between the look at an entry and the pin, and no thread waits for the reader.
#[test]
fn a_reader_whose_segment_is_used_again_before_it_has_pinned_it_gets_no_record() {
    let tier = tier(8 << 20, DramPolicy::Lru);
    let hash_of = |key: u64| KeyHash::of(&key.to_le_bytes());
    let hash = hash_of(0);
    insert(&tier, 0, 100, 0).unwrap();
    // In other shards: nothing moves in this one, so that only the entry tells.
    let others: Vec<u64> =
        (1..20_000).filter(|&key| hash_of(key).0 >> 60 != hash.0 >> 60).collect();
    let found = tier.index.find_without_lock(hash, |entry, looking| {
        let at = entry.location();
        let segment = tier.segments.get(at, looking.held());
        assert!(segment.pin(at.at, looking).is_some(), "nothing has happened");
        others.iter().for_each(|&key| insert(&tier, key, 999, 0).unwrap());
        segment.pin(at.at, looking)
    });
    assert!(found.is_err() && !tier.holds(hash));
}

/// Long items have their own segments, which are not reused: only a few of them may wait.
#[test]
fn long_items_wait_for_readers_before_they_are_far_over_the_budget() {
    let tier = tier(1 << 20, DramPolicy::S3Fifo);
    let inside = tier.index.readers().enter();
    (0..20).for_each(|key| insert(&tier, key, 40_000, 0).unwrap());
    assert!(tier.index.readers().retired() > 0 && tier.used_bytes() < 9 << 17);
    drop(inside);
    (20..30).for_each(|key| insert(&tier, key, 40_000, 0).unwrap());
    assert!(tier.index.readers().retired() < 2 && tier.used_bytes() <= 1 << 20);
}

/// A thread waits for readers, while another one gives more up, and leaves.
#[test]
fn what_others_gave_up_is_not_waited_for_in_vain() {
    let tier = tier(1 << 20, DramPolicy::S3Fifo);
    std::thread::scope(|scope| {
        let inside = tier.index.readers().enter();
        let setting =
            scope.spawn(|| (0..40).for_each(|key| insert(&tier, key, 40_000, 0).unwrap()));
        while !tier.segments.pool().has_many_retired() {
            std::thread::yield_now();
        }
        let segment = tier.segments.pool().open_anyway(200_000, 0).segment().clone();
        tier.segments.pool().give_back(segment, 0);
        drop(inside);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !setting.is_finished() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        let is_over = setting.is_finished();
        tier.reclaim(); // lets it end, whatever it waits for
        assert!(is_over, "it waits for what no thread retires");
    });
}

#[test]
fn tables_that_were_outgrown_are_freed_at_once() {
    let tier = tier(64 << 20, DramPolicy::S3Fifo);
    (0..200_000).for_each(|key| insert(&tier, key, 50, 0).unwrap());
    assert_eq!((tier.len(), tier.index.readers().retired()), (200_000, 0));
}

/// Whatever their number: what counts is segments.
#[test]
fn an_interrupted_reader_keeps_no_table_from_growing() {
    let tier = tier(64 << 20, DramPolicy::S3Fifo);
    let inside = tier.index.readers().enter();
    (0..200_000).for_each(|key| insert(&tier, key, 50, 0).unwrap());
    assert!(tier.index.readers().retired() > 1000);
    drop(inside);
    tier.reclaim();
    assert_eq!((tier.len(), tier.index.readers().retired()), (200_000, 0));
}

/// All threads look for one item, and other entries could hide it.
#[test]
fn a_lookup_without_a_lock_misses_no_item() {
    let tier = tier(4 << 20, DramPolicy::S3Fifo);
    insert(&tier, u64::MAX, 100, 0).unwrap();
    std::thread::scope(|scope| {
        let filling =
            scope.spawn(|| (0..15_000).for_each(|key| insert(&tier, key, 100, 0).unwrap()));
        let key = u64::MAX.to_le_bytes();
        while !filling.is_finished() {
            let found = tier.get_prefer_lock_free(KeyHash::of(&key), &key, || 0);
            assert!(matches!(found, Lookup::Hit(_)));
        }
    });
}

#[test]
fn s3_fifo_keeps_what_was_hit_through_a_scan() {
    let tier = tier(300_000, DramPolicy::S3Fifo);
    (0..50).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    for _ in 0..2 {
        (0..50).for_each(|key| assert!(holds(&tier, key)));
    }
    (1000..20_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    assert_eq!((0..50).filter(|&key| holds(&tier, key)).count(), 50);
}

/// A set that finds no room comes again. What was evicted not long ago goes to the main queue then, as it would have.
#[test]
fn what_finds_no_room_at_first_is_recalled_later() {
    let survivors = |tries: usize| {
        let tier = DramTier::new(1 << 20, DramPolicy::S3Fifo, true, 0, KeyHasher::UNSEEDED);
        let demote = || {
            while let Some(demotion) = tier.next_demotion() {
                tier.demoted(demotion);
            }
        };
        let put = |key| {
            while insert(&tier, key, 100, 0).is_err() {
                demote();
            }
        };
        (0..20_000).for_each(put);
        let evicted: Vec<u64> =
            (0..20_000).rev().filter(|key| !holds(&tier, *key)).take(200).collect();
        (20_000..).take_while(|key| insert(&tier, *key, 100, 0).is_ok()).for_each(drop);
        for key in evicted.repeat(tries) {
            assert_eq!(insert(&tier, key, 100, 0), Err(DramFull));
        }
        demote();
        evicted.iter().copied().for_each(put);
        (50_000..60_000).for_each(put);
        evicted.into_iter().filter(|key| holds(&tier, *key)).count()
    };
    let [at_once, later] = [0, 2].map(survivors);
    assert!(at_once > 100 && later > at_once / 2, "{at_once} {later} survive a scan");
}

#[test]
fn lru_gives_a_second_chance_to_what_was_hit() {
    let tier = tier(300_000, DramPolicy::Lru);
    (0..1000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    for round in 1..20 {
        (0..50).for_each(|key| assert!(holds(&tier, key), "{key} in round {round}"));
        (0..500).for_each(|key| insert(&tier, round * 1000 + key, 100, 0).unwrap());
    }
    assert!(!holds(&tier, 500));
}

#[test]
fn a_demoting_item_stays_visible_until_it_was_demoted() {
    let tier = DramTier::new(40_000, DramPolicy::S3Fifo, true, 0, KeyHasher::UNSEEDED);
    let mut key = 0;
    let demotion = loop {
        if let Some(demotion) = tier.next_demotion() {
            break demotion;
        }
        insert(&tier, key, 100, 0).unwrap();
        key += 1;
    };
    let leaving = key_in(&demotion);
    assert!(holds(&tier, leaving));
    assert!(tier.demoting(&demotion).is_some());
    tier.demoted(demotion);
    assert!(matches!(get(&tier, leaving, 0), Lookup::Absent));
}

#[test]
fn a_replaced_item_is_no_longer_demoted_and_a_dropped_sender_loses_nothing() {
    let tier = DramTier::new(40_000, DramPolicy::S3Fifo, true, 0, KeyHasher::UNSEEDED);
    (0..600).for_each(|key| _ = insert(&tier, key, 100, 0));
    let demotion = tier.next_demotion().unwrap();
    let leaving = key_in(&demotion);
    tier.requeue_demotion(demotion);
    let again = tier.next_demotion().unwrap();
    assert_eq!(key_in(&again), leaving);
    while insert(&tier, leaving, 50, 0).is_err() {
        tier.next_demotion().into_iter().for_each(|other| tier.demoted(other));
    }
    assert!(tier.demoting(&again).is_none());
    tier.demoted(again);
    assert!(matches!(get(&tier, leaving, 0), Lookup::Hit(found) if found.len() == 50));
}

#[test]
fn what_is_larger_than_the_tier_is_demoted_at_once() {
    let tier = DramTier::new(8_000, DramPolicy::Lru, true, 0, KeyHasher::UNSEEDED);
    assert!(!tier.can_hold(7000));
    let key = 0_u64.to_le_bytes();
    let before = tier.used_bytes();
    let item = ItemRef::new(KeyHash::of(&key), &key, &[7; 20_000], 0);
    let taken = tier.demotions().above().try_take(tier.demoting_bytes(&item)).unwrap();
    let on_its_way = tier.insert_to_demote(&item, taken, &|_| true).unwrap();
    assert!(holds(&tier, 0));
    assert!(tier.is_on_its_way(on_its_way) && tier.demotions().bytes() > 0);
    tier.demoted(tier.next_demotion().unwrap());
    assert!(tier.next_demotion().is_none() && !holds(&tier, 0));
    assert!(!tier.is_on_its_way(on_its_way));
    assert_eq!(tier.demotions().bytes(), 0, "its bytes were given back");
    assert_eq!(tier.used_bytes(), before);
}

#[test]
fn expiry_is_told_apart_from_absence() {
    let tier = tier(40_000, DramPolicy::S3Fifo);
    insert(&tier, 0, 10, 5).unwrap();
    assert!(matches!(get(&tier, 0, 4), Lookup::Hit(_)));
    assert!(matches!(get(&tier, 0, 5), Lookup::Expired));
    assert!(matches!(get(&tier, 1, 5), Lookup::Absent));
    assert_eq!((remove(&tier, 0), remove(&tier, 0)), (Some(true), None));
}

#[test]
fn expired_segments_go_before_others() {
    let tier = tier(400_000, DramPolicy::S3Fifo);
    let put = |key: u64, expiry_s, now_s| {
        let key = key.to_le_bytes();
        let item = ItemRef::new(KeyHash::of(&key), &key, &[7; 100], expiry_s);
        tier.insert(&item, &now_s, &|_| true).unwrap();
    };
    (0..1000).for_each(|key| put(key, 0, 0));
    (1000..2000).for_each(|key| put(key, 30, 0));
    (2000..2800).for_each(|key| put(key, 0, 40));
    let kept = (0..1000).filter(|&key| holds(&tier, key)).count();
    assert!(kept > 990, "{kept} of 1000 that never expire");
}

#[test]
fn values_in_use_are_not_overwritten() {
    let tier = tier(100_000, DramPolicy::S3Fifo);
    insert(&tier, 0, 200, 0).unwrap();
    let Lookup::Hit(value) = get(&tier, 0, 0) else { panic!("it was just put there") };
    remove(&tier, 0).unwrap();
    (1..5000).for_each(|key| insert(&tier, key, 200, 0).unwrap());
    assert_eq!(value[..], [7; 200]);
    assert!(tier.used_bytes() <= 100_000);
}

/// Evicting their neighbours would free nothing.
#[test]
fn values_in_use_cost_others_no_more_than_their_segments() {
    const SEGMENTS: usize = 40;
    for policy in [DramPolicy::S3Fifo, DramPolicy::Lru] {
        let tier = tier(1 << 20, policy);
        (0..20_000).for_each(|key| insert(&tier, key, 200, 0).unwrap());
        let before = tier.len();
        let value =
            |key| if let Lookup::Hit(value) = get(&tier, key, 0) { Some(value) } else { None };
        let pinned: Vec<_> =
            (0..20_000).rev().filter_map(value).step_by(8).take(SEGMENTS).collect();
        assert_eq!(pinned.len(), SEGMENTS);
        let mut stays = 0;
        for key in 20_000..60_000 {
            insert(&tier, key, 200, 0).unwrap();
            stays = stays.max(before.saturating_sub(tier.len()));
        }
        assert!(tier.used_bytes() <= 1 << 20);
        assert!(tier.len() * 10 > before * 9, "{} of {before} items", tier.len());
        assert!(stays * 4 < before, "{stays} fewer than {before}");
    }
}

#[test]
fn where_all_segments_are_pinned_what_is_there_stays() {
    let tier = tier(200_000, DramPolicy::Lru);
    let mut pinned = Vec::new();
    let refused = (0..2000).find(|&key| {
        let refused = insert(&tier, key, 200, 0).is_err();
        if let Lookup::Hit(value) = get(&tier, key, 0) {
            pinned.push(value);
        }
        refused
    });
    let refused = refused.expect("the budget holds");
    assert!((0..refused).all(|key| holds(&tier, key)) && !holds(&tier, refused));
    assert!(tier.used_bytes() <= 200_000);
    drop(pinned);
    insert(&tier, refused, 200, 0).unwrap();
    assert!(holds(&tier, refused));
}

#[test]
fn the_budget_can_change_at_run_time() {
    let tier = tier(1_000_000, DramPolicy::S3Fifo);
    (0..10_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    assert!(tier.used_bytes() > 900_000);
    tier.set_budget(500_000, 0);
    (10_000..10_100).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    assert!(tier.used_bytes() <= 500_000, "{}", tier.used_bytes());
    tier.set_budget(1_000_000, 0);
    (20_000..30_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
    assert!(tier.used_bytes() > 900_000);
}

/// Each thread owns some keys, writes versions in order, and reads all keys.
#[test]
fn threads_never_see_a_value_of_another_key_nor_an_older_one_of_their_own() {
    const KEYS: u64 = 400;
    let tier = tier(60_000, DramPolicy::S3Fifo);
    let newest: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (tier, newest) = (&tier, &newest);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for version in 1..60_000_u32 {
                    let mine = rng.u64(..KEYS / 3) * 3 + thread;
                    let key = mine.to_le_bytes();
                    let value =
                        [&key[..], &version.to_le_bytes(), &[3; 80][..rng.usize(..80)]].concat();
                    let at = usize::try_from(mine).unwrap();
                    match rng.u8(..10) {
                        0..4 => {
                            let item = ItemRef::new(KeyHash::of(&key), &key, &value, 0);
                            tier.insert(&item, &0, &|_| true).unwrap();
                            newest[at].store(version, Ordering::Relaxed);
                        }
                        4 => _ = remove(tier, mine),
                        _ => {
                            let key = rng.u64(..KEYS);
                            let Lookup::Hit(value) = get(tier, key, 0) else { continue };
                            assert_eq!(value[..8], key.to_le_bytes());
                            if key % 3 == thread {
                                let version =
                                    newest[usize::try_from(key).unwrap()].load(Ordering::Relaxed);
                                assert_eq!(value[8..12], version.to_le_bytes());
                            }
                        }
                    }
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, the tier never returns an old version, and exceeds its budget only by what is demoted.
    #[test]
    fn agrees_with_a_map(
        ops in prop::collection::vec((0_u8..10, 0_u64..200, 0_usize..700), 1..800),
        lru in any::<bool>(),
        above_flash in any::<bool>(),
    ) {
        let policy = if lru { DramPolicy::Lru } else { DramPolicy::S3Fifo };
        let tier = DramTier::new(40_000, policy, above_flash, 0, KeyHasher::UNSEEDED);
        let mut newest: HashMap<u64, usize> = HashMap::new();
        for (op, key, value_bytes) in ops {
            match op {
                0..5 => {
                    for attempt in 0.. {
                        if insert(&tier, key, value_bytes, 0).is_ok() {
                            break;
                        }
                        prop_assert!(attempt < 1000, "nothing is pinned");
                        if let Some(demotion) = tier.next_demotion() {
                            tier.demoted(demotion);
                        }
                    }
                    newest.insert(key, value_bytes);
                }
                5..9 => if let Lookup::Hit(found) = get(&tier, key, 0) {
                    prop_assert_eq!(Some(&found.len()), newest.get(&key));
                },
                _ => {
                    remove(&tier, key);
                    newest.remove(&key);
                    prop_assert!(matches!(get(&tier, key, 0), Lookup::Absent));
                }
            }
            if key % 3 == 0 && let Some(demotion) = tier.next_demotion() {
                tier.demoted(demotion);
            }
            let most = if above_flash { 44_000 } else { 40_000 };
            prop_assert!(tier.used_bytes() <= most, "{}", tier.used_bytes());
        }
    }
}

/// If everything is hit all the time, a set does not copy segment after segment.
#[test]
fn each_eviction_frees_something_where_all_is_hot() {
    for policy in [DramPolicy::S3Fifo, DramPolicy::Lru] {
        let tier = tier(4 << 20, policy);
        (0..40_000).for_each(|key| insert(&tier, key, 100, 0).unwrap());
        for round in 0..40 {
            (0..3 * 40_000).for_each(|hit| drop(get(&tier, hit % 40_000, 0)));
            let before = tier.len();
            assert!(tier.make_room(0));
            let (left, at_least) = (before - tier.len(), tier.segment_bytes() / 8 / 160);
            // The first segment of a queue provides the statistics.
            assert!(round < 3 || left >= at_least, "{policy:?}, {round}: {left} of {at_least}");
        }
    }
}
