//! Compares the index with a map, and checks its size.

use super::super::record::UNIT_BYTES;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Keys are their own places: key `k` lies in slot `k + 1`.
struct Numbers;

/// A record that was written there before.
struct OldRecord(Location);

impl Putting for OldRecord {
    fn append(&mut self, _: Option<Location>, _: &LockProof) -> Result<Location, PutOutcome> {
        Ok(self.0)
    }
}

fn key_of(slot: u32) -> [u8; 4] {
    (slot - 1).to_le_bytes()
}

impl Records for Numbers {
    fn is_key(&self, at: Location, key: &[u8], _: &LockProof) -> bool {
        key_of(at.slot) == key
    }

    fn hash(&self, at: Location, _: &LockProof) -> KeyHash {
        KeyHash::of(&key_of(at.slot))
    }
}

fn find(index: &Index, key: u32) -> Option<Location> {
    let bytes = key.to_le_bytes();
    index.find(KeyHash::of(&bytes), |entry, _| {
        (key_of(entry.location().slot) == bytes).then(|| entry.location())
    })
}

fn set(index: &Index, key: u32, location: Location, clean: bool) -> Option<Entry> {
    let bytes = key.to_le_bytes();
    let hash = KeyHash::of(&bytes);
    let mut at = OldRecord(location);
    let old =
        index.peek(hash, |entry, _| (key_of(entry.location().slot) == bytes).then_some(entry));
    assert_eq!(index.put(hash, &bytes, clean, &Numbers, &mut at), Ok(PutOutcome::Done));
    old
}

#[test]
fn the_table_is_nearly_full_before_it_grows() {
    let index = Index::new(4);
    for key in 0..200_000_u32 {
        set(&index, key, Location { slot: key + 1, at: 0 }, false);
    }
    assert_eq!(index.len(), 200_000);
    assert!((0..200_000).all(|key| find(&index, key).is_some()));
    let per_item = index.memory_bytes() as f64 / 200_000.0;
    assert!(per_item < 11.5, "{per_item} bytes an item");
}

#[test]
fn frequencies_saturate_and_survive_a_replacement() {
    let index = Index::new(1);
    let (bytes, at) = (0_u32.to_le_bytes(), |at| Location { slot: 1, at });
    let hash = KeyHash::of(&bytes);
    assert_eq!(set(&index, 0, at(0), true), None);
    (0..9).for_each(|_| _ = find(&index, 0));
    assert_eq!(index.entry_at(hash, at(0)).map(Entry::frequency), Some(3));
    assert!(index.entry_at(hash, at(0)).is_some_and(Entry::is_clean));
    assert!(index.relocate(hash, at(0), (at(8), 1), |_| ()));
    let old = set(&index, 0, at(4), false).unwrap();
    assert_eq!((old.location(), old.frequency(), old.is_clean()), (at(8), 1, true));
    let entry = index.entry_at(hash, at(4)).unwrap();
    assert_eq!((entry.frequency(), entry.is_clean()), (2, false));
}

#[test]
fn keys_of_one_hash_take_no_more_than_their_buckets() {
    let index = Index::new(1);
    let set = |hash, key: u32| {
        let (bytes, location) = (key.to_le_bytes(), Location { slot: key + 1, at: 0 });
        index.put(hash, &bytes, false, &Numbers, &mut OldRecord(location))
    };
    let others = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| {
            assert_eq!(set(KeyHash::of(&key.to_le_bytes()), key), Ok(PutOutcome::Done))
        });
    };
    others(0..1000);
    let refused = (1000..101_000).filter(|&key| set(KeyHash(7), key) == Err(ShardFull)).count();
    assert!(refused >= 100_000 - 16, "{refused}");
    others(101_000..102_000);
    assert_eq!(index.len(), 2000 + 100_000 - refused);
    assert!(index.memory_bytes() < 64 << 10, "{}", index.memory_bytes());
    assert!((0..1000).all(|key| find(&index, key).is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_a_map(ops in prop::collection::vec((0_u8..4, 0_u32..300, 0_usize..1000), 1..900)) {
        let index = Index::new(2);
        let mut map: HashMap<u32, Location> = HashMap::new();
        for (op, key, at) in ops {
            let bytes = key.to_le_bytes();
            let hash = KeyHash::of(&bytes);
            let location = Location { slot: key + 1, at: at * UNIT_BYTES };
            match op {
                0 | 1 if map.get(&key) != Some(&location) => {
                    let old = set(&index, key, location, false);
                    prop_assert_eq!(old.map(Entry::location), map.insert(key, location));
                }
                2 => {
                    let old = index.remove_if(hash, &bytes, &Numbers, |entry, _| Some(entry.location()));
                    prop_assert_eq!(old, map.remove(&key));
                }
                _ => {
                    let there = map.get(&key) == Some(&location);
                    prop_assert_eq!(index.remove_at(hash, location), there);
                    if there {
                        map.remove(&key);
                    }
                }
            }
            prop_assert_eq!(find(&index, key), map.get(&key).copied());
            prop_assert_eq!(index.len(), map.len());
        }
    }
}
