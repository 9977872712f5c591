//! Operations continue while an application keeps values: of every segment, and of flash.

use std::time::Duration;

use larder::{Cas, Change, Config, SetOptions, Value, block_on};

use crate::rig::{Rig, config, drive_of, key_of, value_of, version_in};
use crate::updates::both;

fn get(rig: &Rig, key: u32) -> Option<Value> {
    block_on(rig.cache.get(&key_of(key))).unwrap()
}

/// Keeps more values than the tier has segments, each twice.
fn keep_all(rig: &Rig, keys: std::ops::Range<u32>) -> Vec<(u32, Value)> {
    let found: Vec<_> = keys.filter_map(|key| Some((key, get(rig, key)?))).collect();
    let clones = found.clone();
    found.into_iter().chain(clones).collect()
}

#[test]
fn changes_and_looks_go_on_while_all_is_kept() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        (0..60).for_each(|key| rig.set(key, 1, 100));
        let kept = keep_all(rig, 0..60);
        assert!(cache.stats().copied_values > 50, "{}", cache.stats().copied_values);
        let (copied, keys) = (cache.stats().copied_values, [key_of(59), key_of(58)]);
        for _ in 0..3 {
            block_on(cache.get_with(&keys[0], |_, _| ())).unwrap();
            block_on(cache.get_into(&keys[0], &mut Vec::new())).unwrap();
            block_on(cache.get_many_with(&keys, |_, _, _| ())).unwrap();
            block_on(cache.get_many_into(&keys, &mut Vec::new())).unwrap();
            cache.blocking().get_with(&keys[0], |_, _| ()).unwrap();
            cache.blocking().get_into(&keys[0], &mut Vec::new()).unwrap();
        }
        assert_eq!(cache.stats().copied_values, copied, "a lookup keeps nothing");
        for key in 0..60 {
            let name = key_of(key);
            let current = get(rig, key).unwrap();
            let (value, options) = (value_of(key, 2, 100), SetOptions::default());
            let cas = |version| block_on(cache.cas(&name, &value, version, options)).unwrap();
            assert_eq!(cas(current.version()), Cas::Stored, "a copy has the version");
            assert_eq!(cas(current.version()), Cas::OtherVersion);
            assert!(block_on(cache.append(&name, b"+")).unwrap());
            assert!(block_on(cache.touch(&name, Some(Duration::from_secs(50)))).unwrap());
            let before = block_on(cache.update(&name, |there| {
                let copy = there.cloned().unwrap();
                assert_eq!((copy.meta(), &copy), (there.unwrap().meta(), there.unwrap()));
                Change::Keep
            }));
            let before = before.unwrap().unwrap();
            assert_eq!((before.len(), before.meta().expires_at.is_some()), (101, true));
        }
        push_out();
        for (key, value) in kept {
            assert_eq!(version_in(key, &value), 1, "a value never changes");
        }
        assert_eq!(cache.stats().rejected_dram_pinned_objects, 0);
    });
}

#[test]
fn many_values_and_scanned_ones_are_copied_where_too_many_are_kept() {
    let rig = Rig::open(Config { dram_bytes: 200 << 10, ..config() }, &drive_of(8 << 20, true));
    (0..500).for_each(|key| rig.set(key, key, 100));
    let names: Vec<_> = (0..500).map(key_of).collect();
    let found = block_on(rig.cache.get_many(&names)).unwrap();
    for (key, value) in (0..).zip(&found) {
        assert_eq!(version_in(key, value.as_ref().unwrap()), key);
    }
    let copied = rig.cache.stats().copied_values;
    assert!((450..500).contains(&copied), "{copied}");
    let mut scan = rig.cache.scan();
    let mut scanned = 0;
    while let Some(batch) = block_on(scan.next()) {
        scanned += batch.len();
    }
    assert_eq!(scanned, 500);
    assert!(rig.cache.stats().copied_values >= copied + 500, "no permit is left");
    drop(found);
    let copied = rig.cache.stats().copied_values;
    assert!(get(&rig, 7).is_some());
    assert_eq!(rig.cache.stats().copied_values, copied);
}

/// Values of every segment are kept, and new versions arrive: none is refused, and no older one remains anywhere.
#[test]
fn above_flash_new_versions_find_room_and_older_ones_are_gone() {
    for dram_bytes in [9 << 10, 20 << 10, 200 << 10] {
        let rig = Rig::open(Config { dram_bytes, ..config() }, &drive_of(16 << 20, true));
        let mut kept = Vec::new();
        for version in 1..4 {
            for key in 0..1000 {
                rig.set(key, version, 150);
                kept.push((key, version, get(&rig, key).unwrap()));
            }
            for key in 0..1000 {
                assert_eq!(rig.get(key), Some(version), "in DRAM or on flash");
            }
        }
        let stats = rig.cache.stats();
        assert_eq!(stats.rejected_dram_pinned_objects + stats.rejected_demotions_objects, 0);
        assert!(stats.dram_used_bytes <= dram_bytes * 11 / 10, "{}", stats.dram_used_bytes);
        for (key, version, value) in &kept {
            assert_eq!(version_in(*key, value), *version);
        }
        (0..1000).step_by(2).for_each(|key| assert!(rig.delete(key)));
        drop(kept);
        for key in 0..1000 {
            assert_eq!(rig.get(key), (key % 2 == 1).then_some(3));
        }
    }
}

/// The number of looks is not bounded: while they occupy all of DRAM, new values are written around it, and counted.
#[test]
fn what_finds_all_of_dram_looked_at_goes_to_flash_and_its_older_version_is_gone() {
    let rig = Rig::open(config(), &drive_of(8 << 20, true));
    (0..400).for_each(|key| rig.set(key, 1, 100));
    look_at_all(&rig, 399, 40, &|| {
        for version in 2..4 {
            (0..40).for_each(|key| rig.set(key, version, 600));
            (0..40).for_each(|key| assert_eq!(rig.get(key), Some(version)));
        }
    });
    let stats = rig.cache.stats();
    assert!(stats.dram_written_around_objects > 20, "{}", stats.dram_written_around_objects);
    assert_eq!(stats.rejected_dram_pinned_objects + stats.rejected_demotions_objects, 0);
    (0..400).for_each(|key| assert_eq!(rig.get(key), Some(if key < 40 { 3 } else { 1 })));
}

/// Holds looks at `count` keys at once, every fourth key from `first` downwards, and then calls `meanwhile`.
fn look_at_all(rig: &Rig, first: u32, count: u32, meanwhile: &dyn Fn()) {
    if count == 0 {
        return meanwhile();
    }
    let next = || look_at_all(rig, first - 4, count - 1, meanwhile);
    let seen = block_on(rig.cache.get_with(&key_of(first), |_, _| next())).unwrap();
    assert!(seen.is_some());
}
