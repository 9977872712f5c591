//! Tests the tier while a caller keeps values from every segment.

use super::value::Value;
use super::*;
use std::collections::{BTreeMap, VecDeque};

const VALUE_BYTES: usize = 200;
const POLICIES: [DramPolicy; 2] = [DramPolicy::S3Fifo, DramPolicy::Lru];

fn tier(budget: usize, policy: DramPolicy) -> DramTier {
    DramTier::new(budget as u64, policy, false, 0, KeyHasher::UNSEEDED)
}

fn hash_of(key: u64) -> KeyHash {
    KeyHash::of(&key.to_le_bytes())
}

fn value_of(key: u64, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

fn insert(tier: &DramTier, key: u64, bytes: usize) -> Result<(), DramFull> {
    let (name, value) = (key.to_le_bytes(), value_of(key, bytes));
    let item = ItemRef { flags: 5, ..ItemRef::new(hash_of(key), &name, &value, 1000) };
    tier.insert(&item, &0, &|_| true)
}

fn look(tier: &DramTier, key: u64) -> Option<PinnedValue> {
    match tier.get(hash_of(key), &key.to_le_bytes(), || 0) {
        Lookup::Hit(found) => Some(found),
        Lookup::Expired | Lookup::Absent => None,
    }
}

fn is_there(tier: &DramTier, key: u64) -> bool {
    look(tier, key).is_some_and(|found| found[..] == value_of(key, found.len()))
}

fn slot_of(tier: &DramTier, key: u64) -> Option<u32> {
    tier.index.peek(hash_of(key), |entry, locked| {
        let at = entry.location();
        (tier.record(at, locked).key == key.to_le_bytes()).then_some(at.slot)
    })
}

/// For each segment the first of these keys that lies there, and its value.
fn one_of_each_segment(
    tier: &DramTier,
    keys: impl Iterator<Item = u64>,
) -> BTreeMap<u32, (u64, Value)> {
    let mut kept = BTreeMap::new();
    for key in keys {
        let Some(slot) = slot_of(tier, key) else { continue };
        kept.entry(slot).or_insert_with(|| (key, look(tier, key).expect("it is there").keep()));
    }
    kept
}

/// Number of values with a permit.
fn lent(tier: &DramTier) -> usize {
    let permits = tier.segments.pool().permits();
    permits.limit() - permits.free()
}

/// In tiers of several sizes; every fourth item has a hit.
#[test]
fn a_value_kept_of_every_segment_keeps_nothing_new_away() {
    for policy in POLICIES {
        for budget in [8 << 10, 9 << 10, 11 << 10, 20 << 10, 99 << 10, 2 << 20, 3 << 20, 64 << 20] {
            let tier = tier(budget, policy);
            let fits = (budget / (VALUE_BYTES + 30)) as u64;
            (0..fits * 2).for_each(|key| insert(&tier, key, VALUE_BYTES).unwrap());
            (0..fits * 2).step_by(4).for_each(|key| _ = (look(&tier, key), look(&tier, key)));
            let oldest_first = budget % 3 > 0;
            let numbers = 0..fits * 2;
            let kept = if oldest_first {
                one_of_each_segment(&tier, numbers)
            } else {
                one_of_each_segment(&tier, numbers.rev())
            };
            let segments = tier.segments.pool().allocated_bytes() / tier.segment_bytes();
            assert!(kept.len() >= segments * 9 / 10, "{} of {segments} segments", kept.len());
            let meta: Vec<_> = kept.values().map(|(_, value)| value.meta()).collect();
            assert_eq!(lent(&tier), tier.segments.pool().permits().limit().min(kept.len()));
            assert_eq!(tier.copied_values(), (kept.len() - lent(&tier)) as u64);

            for key in fits * 2..fits * 5 {
                insert(&tier, key, VALUE_BYTES).expect("nothing is refused");
                assert!(is_there(&tier, key), "{key} of {budget} bytes");
                let used = tier.used_bytes();
                assert!(used <= (budget + tier.segment_bytes()) as u64, "{used} of {budget}");
            }
            for ((key, value), meta) in kept.values().zip(meta) {
                assert_eq!(value[..], value_of(*key, VALUE_BYTES));
                assert_eq!((value.meta(), value.key()), (meta, &key.to_le_bytes()[..]));
                assert!(meta.version > 0 && meta.flags == 5 && meta.expires_at.is_some());
            }
            drop(kept);
            assert_eq!(lent(&tier), 0);
        }
    }
}

#[test]
fn threads_that_keep_all_that_they_find_keep_nothing_new_away() {
    const BUDGET: usize = 2 << 20;
    const THREADS: u64 = 3;
    for policy in POLICIES {
        let tier = &tier(BUDGET, policy);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut kept = VecDeque::new();
                    for number in 0..60_000 {
                        let key = number * THREADS + thread;
                        insert(tier, key, VALUE_BYTES).expect("nothing is refused");
                        let older = (number - number * 7 % 3000.min(number + 1)) * THREADS + thread;
                        for key in [key, older] {
                            kept.extend(look(tier, key).map(|found| (key, found.keep())));
                        }
                        while kept.len() > 2000 {
                            let (key, value) = kept.pop_front().expect("it is not empty");
                            assert_eq!(value[..], value_of(key, VALUE_BYTES));
                        }
                        let (used, segment) = (tier.used_bytes(), tier.segment_bytes() as u64);
                        assert!(used <= BUDGET as u64 + THREADS * segment, "{used}");
                    }
                });
            }
        });
        assert_eq!(lent(tier), 0);
    }
}

/// Long items have their own memory: it moves from the budget to the caller that keeps it.
#[test]
fn long_values_are_kept_without_a_copy_and_leave_the_budget_when_they_are_evicted() {
    const BUDGET: usize = 2 << 20;
    const LONG: usize = 100_000;
    for policy in POLICIES {
        let tier = tier(BUDGET, policy);
        let mut kept = Vec::new();
        for key in 0..200 {
            insert(&tier, key, LONG).expect("nothing is refused");
            kept.push(look(&tier, key).expect("it is there").keep());
            let used = tier.used_bytes();
            assert!(used <= (BUDGET + tier.segment_bytes()) as u64, "{used}");
        }
        assert_eq!((lent(&tier), tier.copied_values()), (0, 0));
        assert!((0..200).filter(|&key| is_there(&tier, key)).count() >= 15);
        (0..200).zip(&kept).for_each(|(key, value)| assert_eq!(value[..], value_of(key, LONG)));
    }
}

#[test]
fn permits_are_all_there_again_when_values_were_dropped_wherever() {
    let tier = tier(8 << 20, DramPolicy::S3Fifo);
    (0..30_000).for_each(|key| insert(&tier, key, VALUE_BYTES).unwrap());
    for round in 0..10 {
        let keep = |key| look(&tier, key).map(PinnedValue::keep);
        let kept: Vec<_> = (0..30_000).rev().filter_map(keep).take(50).collect();
        let clones = kept.clone();
        assert_eq!((lent(&tier), tier.copied_values()), (64, 36 * (round + 1)));
        assert!(kept.iter().zip(&clones).all(|(one, other)| one == other));
        assert!(kept.iter().zip(&clones).all(|(one, other)| one.meta() == other.meta()));
        std::thread::scope(|scope| {
            for half in [kept, clones] {
                scope.spawn(move || drop(half));
            }
        });
        assert_eq!((lent(&tier), tier.segments.pool().permits().limit()), (0, 64));
    }
}

#[test]
fn a_lookup_takes_no_permit() {
    let tier = tier(1 << 20, DramPolicy::Lru);
    (0..3000).for_each(|key| insert(&tier, key, VALUE_BYTES).unwrap());
    let looks: Vec<_> = (0..200).filter_map(|key| look(&tier, key)).collect();
    let again = looks.clone();
    assert_eq!((looks.len(), again.len(), lent(&tier), tier.copied_values()), (200, 200, 0, 0));
}

#[test]
fn permits_follow_the_budget() {
    let tier = tier(64 << 20, DramPolicy::Lru);
    (0..200_000).for_each(|key| insert(&tier, key, VALUE_BYTES).unwrap());
    let kept = one_of_each_segment(&tier, 0..200_000);
    assert_eq!(lent(&tier), 64);
    tier.set_budget(1 << 20, 0);
    let limit = tier.segments.pool().permits().limit();
    assert_eq!(limit, (1 << 20) / tier.segment_bytes() / 8);
    assert!((1..64).contains(&limit), "{limit}");
    // The kept values pin longer segments than those to come, and these are not counted in the budget.
    for key in 200_000..220_000 {
        insert(&tier, key, VALUE_BYTES).expect("nothing is refused");
        assert!(is_there(&tier, key));
    }
    assert!(tier.used_bytes() <= (1 << 20) + tier.segment_bytes() as u64, "{}", tier.used_bytes());
    kept.values().for_each(|(key, value)| assert_eq!(value[..], value_of(*key, VALUE_BYTES)));
    drop(kept);
    assert_eq!((lent(&tier), tier.segments.pool().permits().free()), (0, limit));
    tier.set_budget(640 << 20, 0);
    assert_eq!((lent(&tier), tier.segments.pool().permits().limit()), (0, 80));
}

#[test]
fn values_outlive_a_tier_with_their_permits() {
    let tier = tier(1 << 20, DramPolicy::S3Fifo);
    (0..1000).for_each(|key| insert(&tier, key, VALUE_BYTES).unwrap());
    let kept: Vec<_> = (0..100).filter_map(|key| look(&tier, key)).map(PinnedValue::keep).collect();
    drop(tier);
    let clones = kept.clone();
    for (key, value) in (0..100).zip(kept.into_iter().chain(clones)) {
        assert_eq!(value[..], value_of(key, VALUE_BYTES));
    }
}

/// What a reader does with the values that it finds.
#[derive(Debug, Clone, Copy)]
enum Keeps {
    Nothing,
    /// Keeps one value of each segment that has any, oldest or newest first; from some moment on.
    Segments {
        newest: bool,
    },
    /// Keeps this number of the last values found.
    Last(usize),
}

/// Keys with a Zipf distribution.
struct Zipf {
    sums: Vec<f64>,
    rng: fastrand::Rng,
}

impl Zipf {
    fn new(keys: u32, exponent: f64) -> Self {
        let weights = (1..=keys).map(|rank| f64::from(rank).powf(-exponent));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect(), rng: fastrand::Rng::with_seed(1) }
    }

    fn draw(&mut self) -> u64 {
        let all = self.sums.last().copied().unwrap_or_default();
        let point = self.rng.f64() * all;
        self.sums.partition_point(|sum| *sum < point) as u64
    }
}

/// The hit ratio, in percent, of the second half of a number of look-ups; each missing key is set after its look-up.
fn look_aside(budget: usize, policy: DramPolicy, keys: u32, keeps: Keeps) -> f64 {
    let tier = tier(budget, policy);
    let mut zipf = Zipf::new(keys, 0.9);
    let looks = keys * 12;
    let (mut hits, mut last, mut segments) = (0, VecDeque::new(), BTreeMap::new());
    for number in 0..looks {
        if number == looks / 3
            && let Keeps::Segments { newest } = keeps
        {
            // Not by popularity, which is the order of their numbers.
            let mut all: Vec<u64> = (0..u64::from(keys)).collect();
            all.sort_by_cached_key(|&key| {
                let there = tier.residents(hash_of(key)).pop();
                let version = there.map_or(0, |resident| resident.value.version());
                if newest { u64::MAX - version } else { version }
            });
            segments = one_of_each_segment(&tier, all.into_iter());
        }
        let key = zipf.draw();
        let found = look(&tier, key);
        hits += u32::from(found.is_some() && number >= looks / 2);
        match found {
            Some(found) => {
                if let Keeps::Last(count) = keeps {
                    last.push_back(found.keep());
                    last.drain(..last.len().saturating_sub(count));
                }
            }
            None => insert(&tier, key, VALUE_BYTES).expect("nothing is refused"),
        }
    }
    assert!(tier.used_bytes() <= (budget + tier.segment_bytes()) as u64);
    drop(segments);
    f64::from(hits) * 100.0 / f64::from(looks - looks / 2)
}

/// Prints the hit ratio of a cache with kept values, next to that of a cache of the size of the rest.
fn hits_of_the_rest(budget: usize, keys: u32) {
    for policy in POLICIES {
        let pinned = budget / 8;
        let whole = look_aside(budget, policy, keys, Keeps::Nothing);
        let rest = look_aside(budget - pinned, policy, keys, Keeps::Nothing);
        println!("{policy:?}, {budget} bytes, {keys} keys: {whole:.2} %, of 7/8 {rest:.2} %");
        let oldest = Keeps::Segments { newest: false };
        for keeps in [oldest, Keeps::Segments { newest: true }, Keeps::Last(1000)] {
            let hits = look_aside(budget, policy, keys, keeps);
            println!("  {keeps:?}: {hits:.2} %");
            assert!((rest - 2.0..=whole + 2.0).contains(&hits), "{hits} with {keeps:?}");
        }
    }
}

#[test]
fn the_rest_of_the_tier_finds_as_much_as_one_of_that_size() {
    hits_of_the_rest(2 << 20, 40_000);
}

/// `cargo test --release -p larder --lib -- --ignored --nocapture kept_tests` prints the figures.
#[test]
#[ignore = "takes a minute"]
fn the_rest_of_a_larger_tier_does_too() {
    hits_of_the_rest(64 << 20, 1_200_000);
}
