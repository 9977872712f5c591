//! Keys that move from one shard to another to level the wear of drives: nothing is missed, and nothing old comes back,
//! whatever happens to shards in the meantime.

use std::sync::Arc;
use std::time::Duration;

use larder::{
    Cas, Clock, Config, Error, ErrorKind, LevellingOptions, SetOptions, ShardOptions, ShardState,
    Shards, Upkeep, VirtualClock, block_on,
};
use larder_device::{Device, ModelDevice};

use crate::rig::{config, drive, key_of, value_of, version_in};

const KEYS: u32 = 1500;
const DAY: Duration = Duration::from_secs(86_400);

struct Rig {
    cache: Shards,
    clock: Arc<VirtualClock>,
    drives: Vec<Arc<ModelDevice>>,
}

fn open(drives: Vec<Arc<ModelDevice>>, second: u64) -> Rig {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(second)));
    let config = Config { dram_bytes: 80 << 10, ..config() };
    let options = ShardOptions { upkeep: Upkeep::Callers, ..ShardOptions::default() };
    let given = drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect();
    let cache = block_on(Shards::open_with(config, options, given, Arc::clone(&clock) as _));
    Rig { cache: cache.unwrap(), clock, drives }
}

/// Three shards, with all keys at version 1, of which 40 % of those of the first are then at home at the second.
fn moved() -> (Rig, Vec<u32>) {
    let rig = open(vec![drive(), drive(), drive()], 1000);
    rig.fill(1);
    let before = rig.homes();
    assert_eq!(block_on(rig.cache.move_keys(0, 1, 4_000)).unwrap(), 4_000);
    let changed = before.iter().zip(rig.homes()).zip(0..KEYS);
    let changed = changed.filter(|((before, after), _)| *before != after);
    let keys: Vec<u32> = changed
        .map(|((before, after), key)| {
            assert_eq!((*before, after), (0, 1), "of the others nothing moves");
            key
        })
        .collect();
    // 40 % of a third.
    assert!(keys.len().abs_diff(200) < 40, "{}", keys.len());
    (rig, keys)
}

impl Rig {
    fn fill(&self, version: u32) {
        (0..KEYS).for_each(|key| self.set(key, version));
    }

    fn set(&self, key: u32, version: u32) {
        block_on(self.cache.set(&key_of(key), &value_of(key, version, 200), None)).unwrap();
    }

    fn get(&self, key: u32) -> Option<u32> {
        Some(version_in(key, &block_on(self.cache.get(&key_of(key))).unwrap()?))
    }

    /// The keys that are there; they must have the version that `version` says.
    fn check(&self, version: impl Fn(u32) -> u32) -> usize {
        let found = (0..KEYS).filter_map(|key| Some((key, self.get(key)?)));
        found.map(|(key, found)| assert_eq!(found, version(key), "key {key}")).count()
    }

    fn homes(&self) -> Vec<usize> {
        (0..KEYS).map(|key| self.cache.home_of(&key_of(key))).collect()
    }

    fn tend(&self) {
        let is_well = |it: &larder::ShardStatus| {
            matches!(it.state, ShardState::Healthy | ShardState::Retired)
        };
        block_on(async {
            let mut upkeep = std::pin::pin!(self.cache.upkeep());
            std::future::poll_fn(|context| {
                self.clock.advance_to_next();
                let _runs = upkeep.as_mut().poll(context);
                context.waker().wake_by_ref();
                match self.cache.status().shards.iter().all(is_well) {
                    true => std::task::Poll::Ready(()),
                    false => std::task::Poll::Pending,
                }
            })
            .await;
        });
    }

    /// The keys that a walk shows; none may be shown twice.
    fn walked(&self) -> usize {
        let mut seen = std::collections::BTreeSet::new();
        for mut walk in self.cache.scan() {
            while let Some(items) = block_on(walk.next()) {
                for item in items {
                    assert!(seen.insert(item.key().to_vec()), "{:?} twice", item.key());
                }
            }
        }
        seen.len()
    }

    /// Number of items that the cache of a shard has.
    fn items(&self, shard: usize) -> u64 {
        self.cache.shards().nth(shard).unwrap().cache().unwrap().estimated_len()
    }
}

#[test]
fn a_key_moves_with_its_next_change_and_no_look_up_misses_it() {
    let (rig, keys) = moved();
    let (gets, at_target) = (rig.cache.stats().gets, rig.items(1));
    assert_eq!(rig.check(|_| 1), KEYS as usize, "what has not moved is where it was");
    let stats = rig.cache.stats();
    assert_eq!(stats.gets - gets, u64::from(KEYS), "a look-up counts once");
    assert_eq!(rig.cache.status().old_home_gets, keys.len() as u64);
    let many: Vec<_> = keys.iter().map(|key| key_of(*key)).collect();
    let found = block_on(rig.cache.get_many(&many)).unwrap();
    assert!(found.iter().all(Option::is_some));
    assert_eq!(rig.walked(), KEYS as usize);
    // Numbers of items are estimates.
    assert!(rig.items(1).abs_diff(at_target) < 10, "no look-up has copied anything");
    // Every second one is changed, and is at one place from then on.
    let (changed, rest): (Vec<u32>, Vec<u32>) = keys.iter().partition(|key| *key % 2 == 0);
    changed.iter().for_each(|key| rig.set(*key, 2));
    let version = |key| if changed.contains(&key) { 2 } else { 1 };
    assert_eq!(rig.check(version), KEYS as usize);
    assert_eq!(rig.walked(), KEYS as usize);
    assert_eq!(rig.cache.stats().deletes, 0, "no client has deleted anything");
    let before = rig.cache.status().old_home_gets;
    changed.iter().for_each(|key| assert_eq!(rig.get(*key), Some(2)));
    assert_eq!(rig.cache.status().old_home_gets, before);
    rest.iter().for_each(|key| assert_eq!(rig.get(*key), Some(1)));
    assert_eq!(rig.cache.status().old_home_gets, before + rest.len() as u64);
}

#[test]
fn every_call_sees_a_key_that_has_not_moved_yet() {
    let (rig, keys) = moved();
    let mut next = keys.iter().map(|key| (*key, key_of(*key)));
    let mut key = || next.next().unwrap();
    let cache = &rig.cache;
    let options = SetOptions::default();
    block_on(async {
        let (number, one) = key();
        assert!(!cache.add(&one, b"oat", options).await?, "it is there");
        assert_eq!(rig.get(number), Some(1));
        assert!(cache.replace(&key().1, b"oat", options).await?);
        let (_, appended) = key();
        assert!(cache.append(&appended, b"!").await? && cache.append(&appended, b"?").await?);
        let value = cache.get(&appended).await?.unwrap();
        assert!(value.ends_with(b"!?") && value.len() == 202);
        // A version that the old home has given is right at the new one, once.
        let (_, compared) = key();
        let version = cache.get(&compared).await?.unwrap().version();
        assert_eq!(cache.cas(&compared, b"oat", version, options).await?, Cas::Stored);
        assert_eq!(cache.cas(&compared, b"rye", version, options).await?, Cas::OtherVersion);
        let (_, touched) = key();
        assert!(cache.touch(&touched, Some(DAY)).await? && cache.get(&touched).await?.is_some());
        let (_, deleted) = key();
        assert!(cache.contains(&deleted).await? && cache.delete(&deleted).await?);
        assert!(!cache.contains(&deleted).await? && cache.get(&deleted).await?.is_none());
        assert!(!cache.delete(&deleted).await? && cache.add(&deleted, b"oat", options).await?);
        let (number, fetched) = key();
        let fetch = async || -> Result<Vec<u8>, String> { panic!("it is there") };
        let value = cache.get_or_fetch(&fetched, options, fetch).await.unwrap();
        assert_eq!(version_in(number, &value), 1);
        let (number, peeked) = key();
        let seen = cache.peek_with(&peeked, |value, _| version_in(number, value)).await?;
        assert_eq!(seen, Some(1));
        // A stale value at the old home has a winner too.
        let (_, stale) = key();
        cache.get(&stale).await?;
        assert!(cache.invalidate(&stale, None).await?);
        let version = cache.get(&stale).await?.unwrap().version();
        assert!(cache.win(&stale, version)? && !cache.win(&stale, version)?);
        let (_, counted) = key();
        cache.set(&counted, b"41", None).await?;
        assert_eq!(cache.incr(&counted, 1).await?, Some(42));
        let (_, updated) = key();
        let store = larder::Change::StoreKeepingExpiry(b"oat"[..].into());
        let seen =
            cache.update(&updated, |value| value.map_or(larder::Change::Keep, |_| store.clone()));
        assert!(seen.await?.is_some());
        assert_eq!(cache.get(&updated).await?.as_deref(), Some(&b"oat"[..]));
        Ok::<(), Error>(())
    })
    .unwrap();
    let (_, at_once) = key();
    block_on(rig.cache.get(&at_once)).unwrap();
    let seen = rig.cache.get_at_once_with(&at_once, |value, _| value.len()).unwrap();
    assert_eq!(seen, Some(200), "its old home has it in DRAM");
    block_on(rig.cache.clear()).unwrap();
    assert_eq!((rig.check(|_| 0), rig.walked()), (0, 0));
}

#[test]
fn a_share_that_is_taken_back_brings_back_nothing_old() {
    let (rig, keys) = moved();
    keys.iter().for_each(|key| rig.set(*key, 2));
    let is_moved = |key| keys.contains(&key);
    assert_eq!(block_on(rig.cache.move_keys(1, 0, 10_000)).unwrap(), 4_000);
    let status = rig.cache.status();
    let share = status.moved[0];
    assert_eq!((share.parts, share.returned_parts, status.moved_parts), (0, 4_000, 8_000));
    assert_eq!(rig.check(|key| if is_moved(key) { 2 } else { 1 }), KEYS as usize);
    assert!(keys.iter().all(|key| rig.cache.home_of(&key_of(*key)) == 0));
    // Changed at home, and moved a second time: the values from the first time are gone.
    keys.iter().for_each(|key| rig.set(*key, 3));
    assert_eq!(block_on(rig.cache.move_keys(0, 1, 4_000)).unwrap(), 4_000);
    assert_eq!(rig.check(|key| if is_moved(key) { 3 } else { 1 }), KEYS as usize);
    keys.iter().for_each(|key| assert!(block_on(rig.cache.delete(&key_of(*key))).unwrap()));
    assert_eq!(rig.check(|_| 1), KEYS as usize - keys.len());
}

#[test]
fn a_share_outlives_the_process() {
    let (rig, keys) = moved();
    keys.iter().take(50).for_each(|key| rig.set(*key, 2));
    let version = |key| if keys[..50].contains(&key) { 2 } else { 1 };
    let homes = rig.homes();
    block_on(rig.cache.close()).unwrap();
    let Rig { cache, drives, .. } = rig;
    drop(cache);
    // In any order.
    let order = [2, 0, 1].map(|at: usize| Arc::clone(&drives[at]));
    let rig = open(order.to_vec(), 2000);
    assert_eq!(rig.homes(), homes);
    assert_eq!(rig.check(version), KEYS as usize);
    assert_eq!(rig.cache.status().moved[0].parts, 4_000);
}

/// What may be missed after an event, and what comes after it.
fn after(event: impl Fn(&Rig), missed: impl Fn(usize, bool) -> bool) {
    let (rig, keys) = moved();
    // Half of the keys that may move have moved.
    let (changed, _): (Vec<u32>, Vec<u32>) = keys.iter().partition(|key| *key % 2 == 0);
    changed.iter().for_each(|key| rig.set(*key, 2));
    let before = rig.homes();
    event(&rig);
    let mut lost = 0;
    for key in 0..KEYS {
        let is_changed = changed.contains(&key);
        // Where the value was.
        let place = if keys.contains(&key) && !is_changed { 0 } else { before[key as usize] };
        match rig.get(key) {
            Some(version) => assert_eq!(version, if is_changed { 2 } else { 1 }, "key {key}"),
            None => {
                assert!(missed(place, is_changed), "key {key} of shard {place} is missed");
                lost += 1;
            }
        }
    }
    assert!(rig.walked() <= (KEYS - lost) as usize);
    // All are changed meanwhile, and nothing older is seen when all shards are back.
    rig.fill(3);
    assert_eq!(rig.check(|_| 3), KEYS as usize);
    for shard in rig.cache.status().shards {
        if shard.state == ShardState::Failed {
            block_on(rig.cache.replace_shard(shard.number, drive())).unwrap();
        }
    }
    assert_eq!(rig.check(|_| 3), KEYS as usize);
    rig.tend();
    assert_eq!((rig.check(|_| 3), rig.walked()), (KEYS as usize, KEYS as usize));
    rig.fill(4);
    assert_eq!(rig.check(|_| 4), KEYS as usize);
}

#[test]
fn a_failed_shard_with_moved_keys_costs_only_what_it_had() {
    after(|rig| block_on(rig.cache.fail_shard(0)).unwrap(), |place, _| place == 0);
    after(|rig| block_on(rig.cache.fail_shard(1)).unwrap(), |place, _| place == 1);
    after(|rig| block_on(rig.cache.fail_shard(2)).unwrap(), |place, _| place == 2);
}

#[test]
fn a_retired_shard_with_moved_keys_costs_only_what_it_had() {
    after(|rig| block_on(rig.cache.retire_shard(0)).unwrap(), |place, _| place == 0);
    after(|rig| block_on(rig.cache.retire_shard(1)).unwrap(), |place, _| place == 1);
    // The next step forgets it, and its number may be given away.
    after(
        |rig| {
            block_on(rig.cache.retire_shard(1)).unwrap();
            assert_eq!(block_on(rig.cache.move_keys(0, 2, 100)).unwrap(), 100);
            assert_eq!(rig.cache.status().moved.len(), 1);
            assert_eq!(block_on(rig.cache.add_shard(drive())).unwrap(), 1);
        },
        |place, _| place == 1,
    );
}

#[test]
fn a_spare_and_an_added_shard_work_with_moved_keys() {
    after(
        |rig| {
            block_on(rig.cache.add_spare(drive())).unwrap();
            block_on(rig.cache.fail_shard(1)).unwrap();
            rig.tend();
        },
        |place, _| place == 1,
    );
    after(|rig| assert_eq!(block_on(rig.cache.add_shard(drive())).unwrap(), 3), |_, _| false);
    after(
        |rig| {
            assert_eq!(block_on(rig.cache.add_shard(drive())).unwrap(), 3);
            rig.tend();
        },
        |_, _| false,
    );
}

#[test]
fn moves_that_cannot_be_are_refused() {
    let rig = open(vec![drive(), drive()], 1000);
    let refused = |from, to, parts, said: &str| {
        let error = block_on(rig.cache.move_keys(from, to, parts)).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    };
    refused(0, 0, 10, "name two shards");
    refused(0, 1, 10_001, "at most all parts");
    refused(0, 5, 10, "there is no shard 5");
    refused(0, 300, 10, "there is no shard 300");
    block_on(rig.cache.fail_shard(1)).unwrap();
    refused(0, 1, 10, "shard 1 is failed");
    assert_eq!(rig.cache.status().moved, []);
}

/// A key that is too long for the name of a moved one never moves.
#[test]
fn the_longest_keys_stay() {
    let (rig, _) = moved();
    let longest = vec![b'k'; 65_535];
    block_on(rig.cache.set(&longest, b"rye", None)).unwrap();
    assert!(block_on(rig.cache.get(&longest)).unwrap().is_some());
    let longest = (0..100_u8).map(|last| [&longest[1..], &[last]].concat());
    let homes: Vec<usize> = longest.map(|key| rig.cache.home_of(&key)).collect();
    block_on(rig.cache.move_keys(0, 1, 6_000)).unwrap();
    let longest = (0..100_u8).map(|last| [&[b'k'; 65_534][..], &[last]].concat());
    assert_eq!(longest.map(|key| rig.cache.home_of(&key)).collect::<Vec<_>>(), homes);
}

/// Keys are written at rates of about 3 : 1; a step a day moves them.
#[test]
fn keys_move_to_the_drive_that_wears_slowest_once_a_day() {
    let rig = open(vec![drive(), drive()], 1000);
    // As if each drive could be written 40 MiB.
    let rated_bytes = Some(40 << 20);
    let options = LevellingOptions { is_on: true, planned_days: 50.0, rated_bytes };
    let look = |options| block_on(rig.cache.level_drives(options)).unwrap();
    assert_eq!(look(options), None);
    let write_a_day = |rig: &Rig, day: u32| {
        let of_shard =
            |shard| (0..KEYS).filter(move |key| rig.cache.home_of(&key_of(*key)) == shard);
        for key in of_shard(0).chain(of_shard(1).take(200)) {
            rig.set(key, day);
        }
    };
    write_a_day(&rig, 1);
    rig.clock.advance_to(rig.clock.now() + DAY / 2);
    assert_eq!(look(options), None);
    let status = rig.cache.status().levelling.unwrap();
    assert_eq!(status.pause.as_deref(), Some("the wear of fewer than two drives is known"));
    write_a_day(&rig, 2);
    rig.clock.advance_to(rig.clock.now() + DAY / 2);
    // Off: it only says what it sees.
    assert_eq!(look(LevellingOptions { is_on: false, ..options }), None);
    let status = rig.cache.status().levelling.unwrap();
    assert_eq!(status.pause.as_deref(), Some("off"));
    let forecasts: Vec<f64> =
        status.drives.iter().map(|it| it.unwrap().forecast.unwrap()).collect();
    assert!(forecasts[0] > 1.3 * forecasts[1] && forecasts[0] > 1.0, "{forecasts:?}");
    // An hour later it is on.
    rig.clock.advance_to(rig.clock.now() + Duration::from_secs(3600));
    let step = look(options).expect("the first drive wears faster");
    assert_eq!((step.from, step.to, step.parts), (0, 1, 28));
    assert_eq!(rig.cache.status().moved[0].parts, 28);
    rig.clock.advance_to(rig.clock.now() + Duration::from_secs(3600));
    assert_eq!(look(options), None);
    let status = rig.cache.status().levelling.unwrap();
    assert!(status.pause.unwrap().starts_with("the next step is due in 82800 s"));
    assert_eq!(status.last_step, Some(step));
    rig.clock.advance_to(rig.clock.now() + DAY);
    assert!(look(options).is_some(), "a day later");
    assert_eq!(rig.cache.status().moved[0].parts, 56);
}
