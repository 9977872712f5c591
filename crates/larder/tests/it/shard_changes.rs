//! Shards that are added and removed while their set is open.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use larder::{
    Clock, ClosedSet, Config, Error, ErrorKind, SetOrder, SetStatus, ShardOptions, ShardState,
    Shards, Upkeep, VirtualClock, block_on,
};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice};

use futures_util::FutureExt;

use crate::rig::{config, drive, drive_of, key_of, value_of, version_in};

const KEYS: u32 = 1500;

struct Rig {
    cache: Shards,
    clock: Arc<VirtualClock>,
}

fn given(drives: &[Arc<ModelDevice>]) -> Vec<Option<Arc<dyn Device>>> {
    drives.iter().map(|drive| Some(Arc::clone(drive) as _)).collect()
}

fn open(devices: Vec<Option<Arc<dyn Device>>>) -> Rig {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let config = Config { dram_bytes: 80 << 10, ..config() };
    let options = ShardOptions { upkeep: Upkeep::Callers, ..ShardOptions::default() };
    let cache = Shards::open_with(config, options, devices, Arc::clone(&clock) as _);
    Rig { cache: block_on(cache).unwrap(), clock }
}

impl Rig {
    fn fill(&self, version: u32) {
        for key in 0..KEYS {
            block_on(self.cache.set(&key_of(key), &value_of(key, version, 200), None)).unwrap();
        }
    }

    /// Number of keys that are there; they must have this version.
    fn found(&self, version: u32) -> u32 {
        let get = |key| block_on(self.cache.get(&key_of(key))).unwrap();
        let found = (0..KEYS).filter_map(|key| Some((key, get(key)?)));
        let seen = found.map(|(key, value)| assert_eq!(version_in(key, &value), version, "{key}"));
        u32::try_from(seen.count()).unwrap()
    }

    fn homes(&self) -> Vec<usize> {
        (0..KEYS).map(|key| self.cache.home_of(&key_of(key))).collect()
    }

    fn state(&self, shard: usize) -> ShardState {
        self.cache.status().shards[shard].state
    }

    /// Runs the set's upkeep until this condition holds.
    fn tend(&self, holds: impl Fn(&SetStatus) -> bool) {
        block_on(async {
            let upkeep = std::pin::pin!(self.cache.upkeep());
            let look = std::pin::pin!(async {
                while !holds(&self.cache.status()) {
                    let at = self.clock.monotonic() + Duration::from_millis(10);
                    self.clock.sleep_until(at).await;
                }
            });
            // If nothing waits for a device, only this advances the clock.
            let clock = poll_fn(|context| {
                self.clock.advance_to_next();
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            let tended = futures_util::future::select(upkeep, look);
            futures_util::future::select(tended, clock).await;
        });
    }
}

fn refused(changed: Result<impl Sized, Error>, kind: ErrorKind, said: &str) {
    let error = changed.err().expect("it must be refused");
    assert!(error.kind() == kind && error.to_string().contains(said), "{error:?}");
}

#[test]
fn only_keys_that_must_move_do() {
    let rig = open(given(&[drive(), drive(), drive()]));
    rig.fill(1);
    let before = rig.homes();
    let all = rig.found(1);
    // Twice as large: it gets two parts of five.
    let number = block_on(rig.cache.add_shard(drive_of(16 << 20, true))).unwrap();
    assert_eq!((number, rig.state(3)), (3, ShardState::Refilling));
    let after = rig.homes();
    let moved: Vec<_> = before.iter().zip(&after).filter(|(one, other)| one != other).collect();
    assert!(moved.iter().all(|(_, to)| **to == 3));
    assert!(moved.len().abs_diff(600) < 60, "{} of {KEYS}", moved.len());
    assert_eq!(rig.found(1), all, "what it has not yet, others have");
    rig.tend(|status| status.shards[3].state == ShardState::Healthy);
    assert_eq!(rig.found(1), all);
    assert!(rig.cache.status().refilled_bytes <= 600 * 300, "of what had to move");
    // It is removed again, and only its keys move.
    block_on(rig.cache.retire_shard(3)).unwrap();
    assert_eq!(rig.homes(), before);
    assert_eq!(rig.found(1) as usize, all as usize - moved.len(), "it has taken its values along");
    rig.fill(2);
    assert_eq!(rig.found(2), all);
    // Its number is given to a new shard with as many keys, which brings nothing back.
    assert_eq!(block_on(rig.cache.add_shard(drive_of(16 << 20, true))).unwrap(), 3);
    assert_eq!((rig.homes(), rig.found(2)), (after, all));
    refused(block_on(rig.cache.fail_shard(7)), ErrorKind::InvalidInput, "there is no shard 7");
}

/// Includes a short key: on another shard it gets a longer name, longer than the part that selects its counter.
#[test]
fn versions_of_a_key_grow_wherever_it_is() {
    let rig = open(given(&[drive(), drive(), drive()]));
    let set = |key: &[u8]| {
        block_on(rig.cache.set(key, b"rye", None)).unwrap();
        block_on(rig.cache.get(key)).unwrap().expect("it is in DRAM").version()
    };
    for key in [&b"bread"[..], b"bread-of-the-day"] {
        let at_home = (0..100).map(|_| set(key)).max().unwrap();
        block_on(rig.cache.fail_shard(rig.cache.home_of(key))).unwrap();
        assert!(set(key) > at_home, "{key:?}");
        // Back again, for the next key.
        let home = rig.cache.home_of(key);
        block_on(rig.cache.replace_shard(home, drive())).unwrap();
        rig.tend(|status| status.shards.iter().all(|it| it.state == ShardState::Healthy));
    }
}

#[test]
fn a_spare_steps_in_and_gets_what_others_stood_in_for() {
    let drives = [drive(), drive(), drive(), drive()];
    let rig = open(given(&drives[..3]));
    rig.fill(1);
    block_on(rig.cache.add_spare(Arc::clone(&drives[3]) as _)).unwrap();
    // The upkeep looks for failed shards before there is one, and keeps running.
    assert!(rig.cache.upkeep().now_or_never().is_none());
    let homes = rig.homes();
    let at_home = |shard| homes.iter().filter(|&&home| home == shard).count();
    block_on(rig.cache.fail_shard(1)).unwrap();
    assert_eq!(rig.found(1) as usize, KEYS as usize - at_home(1));
    rig.fill(2);
    assert_eq!(rig.found(2), KEYS, "others stand in");
    rig.tend(|status| status.shards.iter().all(|it| it.state == ShardState::Healthy));
    assert!(rig.cache.status().refilled_bytes > 0);
    assert_eq!(rig.found(2), KEYS);
    // The shard has the values itself now: the names on other shards are no longer asked.
    let there = rig.cache.shards().nth(1).unwrap();
    assert!(
        there.cache().unwrap().stats().sets > 0 || there.cache().unwrap().estimated_len() > 400
    );
    // A second failure: what others stored during the first one does not come back.
    block_on(rig.cache.fail_shard(1)).unwrap();
    assert_eq!(rig.found(2) as usize, KEYS as usize - at_home(1));
    block_on(rig.cache.close()).unwrap();
    drop(rig);
    // The first device is back next to the spare that has replaced it: there is one device too many.
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(2000)));
    let again = Shards::open(config(), given(&drives), clock);
    refused(block_on(again), ErrorKind::Foreign, "is one of a set of 3 shards, and 4 devices");
    let rig =
        open(given(&[Arc::clone(&drives[0]), Arc::clone(&drives[2]), Arc::clone(&drives[3])]));
    assert_eq!(rig.state(1), ShardState::Refilling);
    assert_eq!(rig.found(2) as usize, KEYS as usize - at_home(1));
    // A former shard can become a spare, and a shard again.
    block_on(rig.cache.add_spare(Arc::clone(&drives[1]) as _)).unwrap();
    block_on(rig.cache.fail_shard(0)).unwrap();
    rig.tend(|status| status.shards.iter().all(|it| it.state == ShardState::Healthy));
    rig.fill(3);
    assert_eq!(rig.found(3), KEYS);
}

/// Three shards with all keys; from now on, writes of the third one have this fault.
fn with_third_whose_writes(fault: Fault) -> (Rig, Arc<FaultDevice<Arc<ModelDevice>>>) {
    let drives = [drive(), drive(), drive()];
    let faulty = Arc::new(FaultDevice::new(Arc::clone(&drives[2]), &FaultPlan::new(1)));
    let mut devices = given(&drives);
    devices[2] = Some(Arc::clone(&faulty) as _);
    let rig = open(devices);
    rig.fill(1);
    faulty.set_plan(&FaultPlan::new(1).with(FaultRule::new(fault).on_writes()));
    (rig, faulty)
}

/// A set that was visible and was replaced while it waited for a device does not come back when its shard is taken out.
#[test]
fn a_change_that_a_shard_takes_with_it_is_not_made_again() {
    let (rig, faulty) = with_third_whose_writes(Fault::Stall);
    let homes = rig.homes();
    let of_third = (0..KEYS).filter(|key| homes[*key as usize] == 2);
    // A key that is on flash: the set waits until the device has recorded its tombstone.
    let is_waiting = |name: &Vec<u8>| {
        let value = value_of(0, 2, 200);
        std::pin::pin!(rig.cache.set(name, &value, None)).now_or_never().is_none()
    };
    let waiting = of_third.map(key_of).find(is_waiting);
    let name = waiting.expect("something is on flash");
    let (second, third) = (value_of(0, 2, 200), value_of(0, 3, 200));
    let mut set = std::pin::pin!(rig.cache.set(&name, &second, None));
    assert!(set.as_mut().now_or_never().is_none());
    block_on(rig.cache.fail_shard(2)).unwrap();
    block_on(rig.cache.set(&name, &third, None)).unwrap();
    block_on(set).unwrap();
    assert_eq!(block_on(rig.cache.get(&name)).unwrap().as_deref(), Some(&third[..]));
    assert_eq!(rig.cache.status().lost_changes, 1);
    faulty.release_delayed();
}

/// No client sends requests to the other shards; the upkeep does, and they answer, so the host is not the problem.
#[test]
fn a_stalled_device_among_idle_ones_is_taken_out() {
    let (rig, faulty) = with_third_whose_writes(Fault::Stall);
    let homes = rig.homes();
    let names: Vec<_> = (0..KEYS).filter(|key| homes[*key as usize] == 2).map(key_of).collect();
    let mut sets = Vec::new();
    for name in &names {
        let mut set = Box::pin(rig.cache.set(name, b"another", None));
        if set.as_mut().now_or_never().is_none() {
            sets.push(set);
            break;
        }
    }
    assert!(!sets.is_empty(), "nothing waits for the device");
    let begun = rig.clock.monotonic();
    let is_over = |status: &SetStatus| {
        status.failed > 0 || rig.clock.monotonic() > begun + Duration::from_secs(20)
    };
    rig.tend(is_over);
    assert_eq!([0, 1, 2].map(|shard| rig.state(shard) == ShardState::Failed), [false, false, true]);
    let took = rig.clock.monotonic() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}");
    faulty.release_delayed();
}

#[test]
fn a_device_that_takes_no_writes_is_nobodys_error() {
    let (rig, _faulty) = with_third_whose_writes(Fault::Error);
    // What the device has on flash can no longer be voided: it is taken out, and no caller gets an error.
    rig.fill(2);
    assert_eq!(rig.state(2), ShardState::Failed);
    // Values that it could not keep are lost; this is visible only as misses.
    let lost = rig.cache.status().lost_changes;
    assert!(u64::from(rig.found(2)) + lost == KEYS.into() && lost > 0, "{lost}");
    rig.fill(2);
    assert_eq!(rig.found(2), KEYS);
    for key in 0..KEYS {
        let name = key_of(key);
        assert!(
            block_on(rig.cache.append(&name, b"")).unwrap()
                && block_on(rig.cache.contains(&name)).unwrap()
        );
        assert!(block_on(rig.cache.delete(&name)).unwrap(), "{key}");
    }
    assert_eq!(rig.found(2), 0);
    // Two are left, and one of them is always kept.
    block_on(rig.cache.fail_shard(0)).unwrap();
    refused(
        block_on(rig.cache.fail_shard(1)),
        ErrorKind::InvalidInput,
        "the last one that is live",
    );
    refused(block_on(rig.cache.retire_shard(1)), ErrorKind::InvalidInput, "add another one first");
}

#[test]
fn devices_that_are_no_ones_to_give_are_refused_and_left_alone() {
    let (drives, others) = ([drive(), drive()], [drive(), drive(), drive()]);
    let rig = open(given(&drives));
    rig.fill(1);
    let all = rig.found(1);
    let again = Arc::clone(&drives[0]) as Arc<dyn Device>;
    refused(block_on(rig.cache.add_shard(again)), ErrorKind::InUse, "");
    drop(open(given(&others)));
    let foreign = Arc::clone(&others[1]) as Arc<dyn Device>;
    let written = others[1].stats().host_written_bytes;
    refused(
        block_on(rig.cache.replace_shard(0, foreign)),
        ErrorKind::Foreign,
        "a shard of another set",
    );
    assert_eq!(others[1].stats().host_written_bytes, written);
    refused(
        block_on(rig.cache.replace_shard(9, drive())),
        ErrorKind::InvalidInput,
        "there is no shard 9",
    );
    assert_eq!(rig.found(1), all, "nothing has changed");
}

/// Keys with the same prefix as names of moved keys, and keys that are too long for such a name.
#[test]
fn any_key_is_itself_wherever_it_is() {
    let rig = open(given(&[drive(), drive(), drive()]));
    let keys: Vec<Vec<u8>> = (0..40_u8)
        .flat_map(|n| [vec![0xff, 0x1c, n], vec![0xff, 0x1c, 0, 0, 0, 2, n], vec![n]])
        .collect();
    let set_all = |value: &[u8]| {
        for key in &keys {
            block_on(rig.cache.set(key, value, None)).unwrap();
        }
    };
    let have = |value: &[u8]| {
        keys.iter()
            .filter(|key| block_on(rig.cache.get(key)).unwrap().as_deref() == Some(value))
            .count()
    };
    set_all(b"one");
    assert_eq!(have(b"one"), keys.len());
    block_on(rig.cache.fail_shard(0)).unwrap();
    set_all(b"two");
    assert_eq!(have(b"two"), keys.len());
    let mut seen: Vec<_> = rig.cache.blocking().scan().map(|item| item.key().to_vec()).collect();
    seen.sort();
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(seen, expected, "each once, as it is called");
    let long = vec![7; 65_535];
    block_on(rig.cache.set(&long, b"long", None)).unwrap();
    let is_elsewhere = rig.cache.home_of(&long) == 0;
    assert_eq!(block_on(rig.cache.get(&long)).unwrap().is_some(), !is_elsewhere);
}

/// A set that is not open is changed using the tables on its devices.
#[test]
fn a_closed_set_can_be_changed() {
    let drives = [drive(), drive(), drive(), drive()];
    let rig = open(given(&drives[..3]));
    rig.fill(1);
    let (all, homes) = (rig.found(1), rig.homes());
    block_on(rig.cache.close()).unwrap();
    drop(rig);
    let look = |drives: &[Arc<ModelDevice>]| {
        let devices = drives.iter().map(|drive| Arc::clone(drive) as _).collect();
        block_on(ClosedSet::look(devices, Arc::new(VirtualClock::default())))
    };
    let few = look(&drives[..2]).unwrap().status();
    assert!(few.shards[2].down.is_some() && few.shards[2].state == ShardState::Healthy);
    let mut set = look(&drives[..2]).unwrap();
    refused(block_on(set.change(SetOrder::Retire(1))), ErrorKind::InvalidInput, "shard 2 is live");
    drop(set);
    let mut set = look(&drives[..3]).unwrap();
    refused(
        block_on(set.change(SetOrder::Fail(9))),
        ErrorKind::InvalidInput,
        "there is no shard 9",
    );
    block_on(set.change(SetOrder::Add { capacity_bytes: 8 << 20 })).unwrap();
    drop(set);
    let rig = open(given(&drives));
    assert_eq!(
        (rig.state(3), rig.found(1)),
        (ShardState::Refilling, all),
        "others have its values"
    );
    rig.tend(|status| status.shards[3].state == ShardState::Healthy);
    assert_eq!(rig.found(1), all);
    block_on(rig.cache.close()).unwrap();
    drop(rig);
    let mut set = look(&drives).unwrap();
    block_on(set.change(SetOrder::Retire(3))).unwrap();
    drop(set);
    let error = look(&drives).map(|set| set.status().shards[3].state);
    assert_eq!(error.unwrap(), ShardState::Retired);
    let rig = open(given(&drives[..3]));
    assert_eq!(rig.homes(), homes);
    assert!(rig.found(1) > all / 2);
}

/// A shard comes back without an operator when its device answers again; totals include what its caches did before.
#[test]
fn a_shard_whose_device_answers_again_comes_back_by_itself() {
    let (rig, faulty) = with_third_whose_writes(Fault::Error);
    let before = rig.cache.stats();
    rig.fill(2);
    assert_eq!(rig.state(2), ShardState::Failed);
    let out = rig.cache.stats();
    assert!(out.sets >= before.sets + u64::from(KEYS) && out.device_errors > 0, "{out:?}");
    // While it takes no writes, it is retried in vain, at growing intervals.
    let begun = rig.clock.monotonic();
    rig.tend(|_| rig.clock.monotonic() > begun + Duration::from_secs(9));
    assert_eq!(rig.state(2), ShardState::Failed);
    faulty.set_plan(&FaultPlan::new(1));
    rig.tend(|status| status.shards[2].state == ShardState::Healthy);
    assert_eq!((rig.cache.status().returned, rig.cache.status().failed), (1, 1));
    let back = rig.cache.stats();
    assert!(back.gets >= out.gets && back.sets >= out.sets && back.deletes >= out.deletes);
    assert!(back.device_errors >= out.device_errors);
    // Nothing of its earlier content comes back.
    rig.found(2);
}

/// A shard that an operator has taken out stays out.
#[test]
fn a_shard_that_was_told_to_have_failed_stays_out() {
    let rig = open(given(&[drive(), drive(), drive()]));
    block_on(rig.cache.fail_shard(1)).unwrap();
    let begun = rig.clock.monotonic();
    rig.tend(|_| rig.clock.monotonic() > begun + Duration::from_secs(60));
    assert_eq!(rig.state(1), ShardState::Failed);
}

/// A shard that has failed by itself does not come back, as a shard or as a spare, if an operator has retired it since.
#[test]
fn an_operator_has_the_last_word_on_a_shard_that_has_failed() {
    let (rig, faulty) = with_third_whose_writes(Fault::Error);
    rig.fill(2);
    assert_eq!(rig.state(2), ShardState::Failed);
    faulty.set_plan(&FaultPlan::new(1));
    block_on(rig.cache.retire_shard(2)).unwrap();
    let begun = rig.clock.monotonic();
    rig.tend(|_| rig.clock.monotonic() > begun + Duration::from_secs(60));
    assert_eq!((rig.state(2), rig.cache.status().returned), (ShardState::Retired, 0));
    // Its device is free for another use.
    block_on(rig.cache.add_shard(faulty)).unwrap();
}

/// The clock jumps by hours, as after a suspended host, while requests are in flight.
#[test]
fn a_host_that_has_slept_takes_no_shard_out() {
    let rig = open(given(&[drive(), drive(), drive()]));
    rig.fill(1);
    for hours in 1..4 {
        let begun = rig.clock.monotonic();
        rig.tend(|_| rig.clock.monotonic() > begun + Duration::from_secs(1));
        rig.clock.advance_to(rig.clock.monotonic() + Duration::from_secs(3600 * hours));
        rig.tend(|status| status.host_pauses == hours);
        rig.fill(u32::try_from(hours).unwrap());
    }
    let status = rig.cache.status();
    assert!(status.shards.iter().all(|shard| shard.state == ShardState::Healthy), "{status:?}");
    assert_eq!(status.failed, 0);
}
