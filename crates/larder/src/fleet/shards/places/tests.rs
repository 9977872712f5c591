//! Tests places and names against a model: whatever happens to shards, no old value comes back.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::base::key::KeyHasher;
use crate::fleet::partition::{KeyStep, after, among};

const fn healthy(weight: u32) -> ShardStanding {
    ShardStanding { state: ShardState::Healthy, weight, since: 0 }
}

fn hashes(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|key| KeyHasher::UNSEEDED.hash(&key.to_le_bytes()).0)
}

fn first(shards: &[ShardStanding], hash: u64) -> usize {
    chain(shards, &[], hash).first.expect("a shard is live").shard.index()
}

#[test]
fn equal_weights_give_the_order_of_the_mixed_numbers() {
    for weight in [1, 7, 2048, u32::MAX] {
        for count in [1, 2, 8, SHARDS_MAX] {
            let shards = vec![healthy(weight); count];
            for hash in hashes(2_000) {
                let most = (0..count).max_by_key(|&number| mix(hash, number)).unwrap();
                assert_eq!(first(&shards, hash), most);
            }
        }
    }
}

#[test]
fn keys_are_divided_by_weight() {
    let shards = [healthy(100), healthy(200), healthy(300), healthy(50)];
    let mut keys = [0_u32; 4];
    hashes(65_000).for_each(|hash| keys[first(&shards, hash)] += 1);
    for (count, expected) in keys.iter().zip([10_000, 20_000, 30_000, 5_000]) {
        assert!(count.abs_diff(expected) < expected / 25, "{keys:?}");
    }
}

#[test]
fn only_keys_that_must_move_do() {
    let before: Vec<ShardStanding> = (1..=8).map(|weight| healthy(weight * 100)).collect();
    let added = [&before[..], &[healthy(600)]].concat();
    let mut lost = before.clone();
    lost[5] = ShardStanding { state: ShardState::Failed, since: 3, ..lost[5] };
    let (mut came, mut went) = (0, 0);
    for hash in hashes(20_000) {
        let home = first(&before, hash);
        let grown = first(&added, hash);
        assert!(grown == 8 || grown == home);
        came += u32::from(grown == 8);
        let elsewhere = first(&lost, hash);
        assert_eq!(elsewhere != home, home == 5, "of the others nothing moves");
        went += u32::from(home == 5);
    }
    // 600 of 4200, 600 of 3600.
    assert!(came.abs_diff(20_000 / 7) < 150 && went.abs_diff(20_000 / 6) < 150, "{came} {went}");
}

#[test]
fn a_chain_names_what_its_places_had_before() {
    let mut shards = [healthy(1), healthy(1), healthy(1)];
    let hash = hashes(1).next().unwrap();
    let mut order: Vec<usize> = (0..3).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(mix(hash, number)));
    let mut states = |states: [(ShardState, u32); 3]| {
        for (number, (state, since)) in order.iter().zip(states) {
            shards[*number] = ShardStanding { state, weight: 1, since };
        }
        let chain = chain(&shards, &[], hash);
        let rank = |place: &ShardPlace| {
            (order.iter().position(|&it| it == place.shard.index()).unwrap(), place.since)
        };
        chain.first.iter().chain(&chain.later).map(rank).collect::<Vec<_>>()
    };
    use ShardState::{Failed, Healthy, Refilling, Retired};
    assert_eq!(states([(Healthy, 0), (Failed, 9), (Healthy, 0)]), [(0, 0)]);
    assert_eq!(states([(Failed, 5), (Healthy, 0), (Healthy, 0)]), [(1, 5)]);
    assert_eq!(states([(Failed, 5), (Retired, 2), (Healthy, 0)]), [(2, 5)]);
    assert_eq!(states([(Refilling, 5), (Healthy, 3), (Healthy, 0)]), [(0, 0), (1, 5)]);
    assert_eq!(states([(Refilling, 0), (Healthy, 0), (Healthy, 0)]), [(0, 0), (1, 0)]);
    assert_eq!(states([(Refilling, 5), (Failed, 7), (Healthy, 0)]), [(0, 0), (2, 7)]);
    assert_eq!(states([(Failed, 4), (Refilling, 2), (Healthy, 0)]), [(1, 4), (2, 4)]);
    assert_eq!(states([(Refilling, 4), (Refilling, 6), (Healthy, 0)]), [(0, 0), (1, 4), (2, 6)]);
    assert_eq!(states([(Failed, 4), (Failed, 6), (Retired, 5)]), []);
}

fn moved(from: usize, to: usize, parts: std::ops::Range<u16>, since: u32) -> MovedKeys {
    let shard = |number| ShardNumber::new(number).unwrap();
    let (begin, end, is_back, moved_at_s) = (parts.start, parts.end, false, 0);
    MovedKeys { from: shard(from), to: shard(to), begin, end, is_back, since, moved_at_s }
}

#[test]
fn a_share_of_the_keys_of_one_shard_moves_to_one_other() {
    let shards = [healthy(100), healthy(200), healthy(300), healthy(50)];
    let entries = [moved(1, 3, 0..1_000, 7), moved(1, 0, 1_000..3_000, 8)];
    let mut counts = [0_u32; 4];
    for hash in hashes(65_000) {
        let (before, after) = (first(&shards, hash), chain(&shards, &entries, hash));
        let place = after.first.unwrap();
        match (before, place.shard.index()) {
            (1, to @ (0 | 3)) => {
                counts[to] += 1;
                assert_eq!(place.since, if to == 3 { 7 } else { 8 });
                let old = ShardPlace { shard: ShardNumber::new(1).unwrap(), since: 0 };
                assert_eq!((after.later, after.is_refilling), (vec![old], false));
            }
            (home, now) => {
                assert_eq!((home, place.since, after.later), (now, 0, vec![]));
                counts[1] += u32::from(home == 1);
            }
        }
        // Taken back, the places are the same, and the old home is asked first.
        let back = entries.map(|entry| MovedKeys { is_back: true, ..entry });
        assert_eq!(first_of(&shards, &back, hash), before);
    }
    for (count, expected) in counts.iter().zip([4_000, 14_000, 0, 2_000_u32]) {
        assert!(count.abs_diff(expected) <= expected / 12, "{counts:?}");
    }
}

fn first_of(shards: &[ShardStanding], moved: &[MovedKeys], hash: u64) -> usize {
    chain(shards, moved, hash).first.expect("a shard is live").shard.index()
}

#[test]
fn a_moved_key_is_looked_for_at_all_places_of_both_orders() {
    // All keys of shard 0 have moved to shard 1.
    let hash = hashes(1_000).find(|&hash| first(&[healthy(1); 3], hash) == 0).unwrap();
    let entries = [moved(0, 1, 0..KEY_PARTS, 4)];
    let places = |states: [(ShardState, u32); 3], entries: &[MovedKeys]| {
        let shards = states.map(|(state, since)| ShardStanding { state, weight: 1, since });
        let chain = chain(&shards, entries, hash);
        let all = chain.first.iter().chain(&chain.later);
        all.map(|it| (it.shard.index(), it.since)).collect::<Vec<_>>()
    };
    use ShardState::{Failed, Healthy, Refilling};
    let all = |states| places(states, &entries);
    assert_eq!(all([(Healthy, 0), (Healthy, 0), (Healthy, 0)]), [(1, 4), (0, 0)]);
    // Away: the other one has it under a name of its own, and keeps what was never moved.
    assert_eq!(all([(Healthy, 0), (Failed, 5), (Healthy, 0)]), [(0, 5), (0, 0)]);
    assert_eq!(all([(Healthy, 0), (Refilling, 5), (Healthy, 0)]), [(1, 4), (0, 5), (0, 0)]);
    let without_home = all([(Failed, 5), (Healthy, 0), (Healthy, 0)]);
    assert_eq!(without_home[0], (1, 4));
    assert!(without_home[1] == (1, 5) || without_home[1] == (2, 5), "the next by the hash");
    let back = entries.map(|entry| MovedKeys { is_back: true, ..entry });
    assert_eq!(places([(Healthy, 0), (Healthy, 0), (Healthy, 0)], &back), [(0, 0), (1, 4)]);
}

/// An event of a set, or of the one key in it.
#[derive(Debug, Clone)]
enum Step {
    Set,
    Delete,
    Get,
    /// A shard forgets the key under all names.
    Evict(usize),
    Fail(usize),
    Return(usize),
    Refilled(usize),
    Retire(usize),
    Add(u32),
    /// Some of the keys of a shard move to another one.
    Move(usize, usize, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Set),
        1 => Just(Step::Delete),
        6 => Just(Step::Get),
        3 => (0..8_usize).prop_map(Step::Evict),
        3 => (0..8_usize).prop_map(Step::Fail),
        3 => (0..8_usize).prop_map(Step::Return),
        2 => (0..8_usize).prop_map(Step::Refilled),
        1 => (0..8_usize).prop_map(Step::Retire),
        1 => (1..5_u32).prop_map(Step::Add),
        4 => (0..8_usize, 0..8_usize, 1..6_000_u16).prop_map(|(a, b, parts)| Step::Move(a, b, parts)),
    ];
    prop::collection::vec(step, 0..80)
}

/// A set with one key, whose shards hold versions of it under names.
struct Model {
    shards: Vec<ShardStanding>,
    held: Vec<HashMap<u32, u32>>,
    epoch: u32,
    hash: u64,
    moved: Vec<MovedKeys>,
    /// The last version drawn.
    latest: u32,
    /// The version that a look-up may find.
    allowed: Option<u32>,
}

impl Model {
    fn chain(&self) -> Chain {
        chain(&self.shards, &self.moved, self.hash)
    }

    /// As a set does it: while all shards are healthy, and with an epoch in which none fails.
    fn shift(&mut self, (from, to): (usize, usize), parts: u16) {
        let is = |number: usize, state| self.shards.get(number).is_some_and(|it| it.state == state);
        let is_steady = |number| is(number, ShardState::Healthy) || is(number, ShardState::Retired);
        let are_fit = from != to && [from, to].iter().all(|&it| is(it, ShardState::Healthy));
        if !are_fit || !(0..self.shards.len()).all(is_steady) {
            return;
        }
        let shard = |number| ShardNumber::new(number).unwrap();
        let since = self.epoch + 1;
        let step = KeyStep { from: shard(from), to: shard(to), parts, since, now_s: 0 };
        let left = among(&self.moved, |shard| is(shard.index(), ShardState::Healthy));
        if let Some((moved, _)) = after(&left, step) {
            (self.moved, self.epoch) = (moved, since);
        }
    }

    fn change(&mut self, number: usize, from: &[ShardState], to: ShardState) -> bool {
        let Some(shard) = self.shards.get_mut(number).filter(|it| from.contains(&it.state)) else {
            return false;
        };
        self.epoch += 1;
        shard.state = to;
        if !to.is_live() {
            shard.since = self.epoch;
        }
        true
    }

    fn apply(&mut self, step: &Step) {
        use ShardState::{Failed, Healthy, Refilling, Retired};
        let live = self.shards.iter().filter(|it| it.state.is_live()).count();
        match *step {
            Step::Set | Step::Delete => {
                let Chain { first, later, .. } = self.chain();
                for place in later {
                    self.held[place.shard.index()].remove(&place.since);
                }
                let place = first.expect("one is live");
                let held = &mut self.held[place.shard.index()];
                held.remove(&place.since);
                self.latest += 1;
                self.allowed = matches!(step, Step::Set).then_some(self.latest);
                self.allowed.map(|version| held.insert(place.since, version));
            }
            Step::Get => {
                let Chain { first, later, is_refilling } = self.chain();
                let first = first.expect("one is live");
                let mut places = std::iter::once(&first).chain(&later);
                let found =
                    places.find_map(|it| self.held[it.shard.index()].get(&it.since).copied());
                assert!(found.is_none() || found == self.allowed, "stale: {found:?}");
                if let Some(version) = found.filter(|_| is_refilling) {
                    self.held[first.shard.index()].insert(first.since, version);
                }
            }
            Step::Evict(number) => {
                // Names of earlier epochs stay there.
                let Chain { first, .. } = self.chain();
                let place = first.expect("one is live");
                if place.shard.index() == number {
                    self.held[number].remove(&place.since);
                }
            }
            Step::Fail(number) if live > 1 => {
                self.change(number, &[Healthy, Refilling], Failed);
            }
            Step::Retire(number) if live > 1 => {
                self.change(number, &[Healthy, Refilling, Failed], Retired);
            }
            Step::Return(number) => {
                if self.change(number, &[Failed, Retired], Refilling) {
                    self.held[number].clear();
                }
            }
            Step::Refilled(number) => {
                self.change(number, &[Refilling], Healthy);
            }
            Step::Add(weight) if self.shards.len() < 8 => {
                self.epoch += 1;
                self.shards.push(ShardStanding { state: Refilling, weight, since: 0 });
                self.held.push(HashMap::new());
            }
            Step::Move(from, to, parts) => self.shift((from, to), parts),
            Step::Fail(_) | Step::Retire(_) | Step::Add(_) => {}
        }
    }
}

/// Few shards, between which most of the keys move to and fro.
fn moving_steps() -> impl Strategy<Value = Vec<Step>> {
    let shard = || 0..5_usize;
    let step = prop_oneof![
        4 => Just(Step::Set),
        4 => Just(Step::Get),
        1 => Just(Step::Delete),
        1 => shard().prop_map(Step::Evict),
        1 => shard().prop_map(Step::Fail),
        2 => shard().prop_map(Step::Return),
        3 => shard().prop_map(Step::Refilled),
        1 => shard().prop_map(Step::Retire),
        1 => Just(Step::Add(9)),
        4 => (shard(), shard(), 5_000..10_000_u16).prop_map(|(a, b, parts)| Step::Move(a, b, parts)),
    ];
    prop::collection::vec(step, 0..60)
}

fn model(hash: u64, count: usize) -> Model {
    let (shards, held) = (vec![healthy(2); count], vec![HashMap::new(); count]);
    Model { shards, held, epoch: 1, hash, moved: Vec::new(), latest: 0, allowed: None }
}

/// The value that a shard had before another one was added is not found when the key moves back to it.
#[test]
fn a_move_finds_nothing_of_what_was_there_before() {
    let grown = [healthy(2), healthy(2), healthy(9)];
    let is_fit = |hash: &u64| first(&grown[..2], *hash) == 0 && first(&grown, *hash) == 2;
    let hash = hashes(1_000).find(is_fit).unwrap();
    let mut model = model(hash, 2);
    let steps = [Step::Set, Step::Add(9), Step::Refilled(2), Step::Set, Step::Move(2, 0, 10_000)];
    steps.iter().for_each(|step| model.apply(step));
    assert_eq!(model.chain().first.map(|place| place.shard.index()), Some(0));
    assert_eq!(model.held[0].get(&0), Some(&1), "the old value is still there");
    model.apply(&Step::Get);
    [Step::Set, Step::Get].iter().for_each(|step| model.apply(step));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_value_comes_back(hash in any::<u64>(), steps in steps(), count in 2..5_usize) {
        let mut model = model(hash, count);
        steps.iter().for_each(|step| model.apply(step));
    }

    #[test]
    fn no_value_comes_back_when_keys_move(
        hash in any::<u64>(), steps in moving_steps(), count in 2..4_usize,
    ) {
        let mut model = model(hash, count);
        steps.iter().for_each(|step| model.apply(step));
    }
}
