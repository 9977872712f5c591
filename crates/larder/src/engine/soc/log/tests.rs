//! Tests of the log with its engine: look-ups during moves, and arbitrary snapshots.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice, Payload, PlacementHandle,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use proptest::prelude::*;

use super::SocLogPlace;
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::engine::soc::change::BucketChange;
use crate::engine::soc::{Log, Soc, SocPlace};
use crate::observe::stats::Counters;
use larder_device::block_on;

type Faulty = FaultDevice<ModelDevice>;

const SEGMENTS: u32 = 4;

fn device() -> Arc<Faulty> {
    let geometry = Geometry::with_overprovisioning(4 << 20, 64 << 10, 60.0).unwrap();
    let model = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    Arc::new(FaultDevice::new(model, &FaultPlan::new(1)))
}

/// 200 buckets and a log of four segments of two pages.
fn soc(device: &Arc<Faulty>, threshold: u8, epoch: u64) -> Soc {
    let log = SocLogPlace {
        cache: larder_log::CacheId::ZERO,
        offset: 1 << 20,
        segments: SEGMENTS,
        segment_bytes: 8192,
        handle: PlacementHandle::DEFAULT,
        threshold,
        first_sequence: epoch << 32,
    };
    let place = SocPlace {
        durability: larder_device::Durability::Device,
        cache: larder_log::CacheId::ZERO,
        hasher: KeyHasher::UNSEEDED,
        offset: 2 << 20,
        buckets: 200,
        handle: PlacementHandle::DEFAULT,
        hot_handle: None,
        object_bytes_max: 2048,
        eviction: crate::config::SocEviction::Fifo,
        epoch,
        oldest_epoch: 1,
    };
    let device: Arc<dyn Device> = Arc::clone(device) as _;
    let clock = Arc::new(crate::base::time::CacheClock::new(Arc::new(larder_device::RealClock)));
    let breaker = Arc::new(crate::engine::breaker::CircuitBreaker::new(clock));
    Soc::new(device, place, Some(log), None, (Arc::new(Counters::default()), breaker))
}

fn log(soc: &Soc) -> &Log {
    soc.log.as_ref().unwrap()
}

fn set(soc: &Soc, key: u32, version: u32) {
    let key = key.to_le_bytes();
    let value = [&version.to_le_bytes()[..], &[7; 300]].concat();
    assert!(block_on(soc.set(&ItemRef::new(KeyHash::of(&key), &key, &value, 0), 0)));
}

fn version_in(fetched: &crate::base::item::FlashItem) -> u32 {
    u32::from_le_bytes(*fetched.item().value.first_chunk().unwrap())
}

fn get(soc: &Soc, key: u32) -> Option<u32> {
    let key = key.to_le_bytes();
    block_on(soc.get(KeyHash::of(&key), &key, 0)).map(|found| version_in(&found))
}

/// Fills the log until everything in it has been reclaimed.
fn go_round(soc: &Soc, first: u32) {
    (first..first + 100 * SEGMENTS).for_each(|key| set(soc, key, 1));
}

/// Starts a look-up of key 1 in a page of the log on flash, runs `meanwhile` before the read ends, and returns what was
/// found.
fn look_up_during(soc: &Soc, device: &Faulty, meanwhile: impl Fn()) -> Option<u32> {
    let rule = FaultRule::new(Fault::Delay { submissions: u32::MAX }).on_reads();
    device.set_plan(&FaultPlan::new(1).with(rule));
    let key = 1_u32.to_le_bytes();
    let mut look = pin!(soc.get(KeyHash::of(&key), &key, 0));
    let mut context = Context::from_waker(Waker::noop());
    assert!(look.as_mut().poll(&mut context).is_pending(), "it reads flash");
    device.set_plan(&FaultPlan::new(1));
    meanwhile();
    device.release_delayed();
    match look.as_mut().poll(&mut context) {
        Poll::Ready(found) => found.map(|found| version_in(&found)),
        Poll::Pending => panic!("nothing else is slow"),
    }
}

/// An engine in which key 1 is in the log, on flash.
fn with_key_in_log(device: &Arc<Faulty>, threshold: u8) -> Soc {
    let soc = soc(device, threshold, 1);
    set(&soc, 1, 1);
    (100..150).for_each(|key| set(&soc, key, 1));
    assert_eq!(soc.counters.soc_log_moved_objects.get(), 0);
    soc
}

#[test]
fn a_lookup_finds_an_object_that_moves() {
    let device = device();
    let soc = with_key_in_log(&device, 1);
    let found = look_up_during(&soc, &device, || go_round(&soc, 1000));
    assert_eq!(found, Some(1));
    assert_eq!(get(&soc, 1), Some(1));
    assert!(soc.counters.soc_log_moved_objects.get() > 100);
}

#[test]
fn a_lookup_during_a_readmission_finds_no_older_version() {
    let device = device();
    let soc = soc(&device, 1, 1);
    set(&soc, 1, 1);
    go_round(&soc, 1000);
    // The newer version hides the one in the bucket, and is read while it moves.
    set(&soc, 1, 2);
    (100..150).for_each(|key| set(&soc, key, 1));
    let found = look_up_during(&soc, &device, || go_round(&soc, 5000));
    assert_eq!(found, Some(2));
    assert_eq!(get(&soc, 1), Some(2));
}

#[test]
fn a_lookup_during_a_delete_finds_the_object_or_nothing() {
    let device = device();
    let soc = with_key_in_log(&device, 1);
    let key = 1_u32.to_le_bytes();
    let delete = || assert!(block_on(soc.remove(KeyHash::of(&key), &key, 0)));
    let found = look_up_during(&soc, &device, delete);
    assert!(matches!(found, None | Some(1)));
    assert_eq!(get(&soc, 1), None);
}

/// An unreadable page must not make the bucket's version visible.
#[test]
fn what_cannot_be_read_hides_the_bucket_until_it_is_gone() {
    for replace in [false, true] {
        let device = device();
        let soc = soc(&device, 1, 1);
        set(&soc, 1, 1);
        go_round(&soc, 1000);
        set(&soc, 1, 2);
        // Enough for its segment to be written, and too little for the object to have moved.
        (100..126).for_each(|key| set(&soc, key, 1));
        let log = (1 << 20)..(2 << 20);
        let rule = FaultRule::new(Fault::Error).on_reads().within(log);
        device.set_plan(&FaultPlan::new(1).with(rule));
        assert_eq!(get(&soc, 1), None);
        if replace {
            set(&soc, 1, 3);
        } else {
            go_round(&soc, 5000);
        }
        device.set_plan(&FaultPlan::new(1));
        assert_eq!(get(&soc, 1), replace.then_some(3));
        assert!(soc.counters.lost_to_device_errors_objects.get() > 0);
    }
}

/// If its bucket cannot be written, an object has nowhere to go when its page is needed: it is lost, and so is the
/// version that it hid in the bucket.
#[test]
fn what_has_nowhere_to_go_is_lost_and_uncovers_nothing() {
    let device = device();
    let soc = soc(&device, 1, 1);
    set(&soc, 1, 1);
    go_round(&soc, 1000);
    set(&soc, 1, 2);
    let bucket_of = |key: u32| soc.buckets.number_of(KeyHash::of(&key.to_le_bytes()));
    let number = bucket_of(1);
    soc.buckets.states().failed(number, log(&soc).breaker.now_s());
    let lost = soc.counters.lost_to_device_errors_objects.get();
    let others = (5000..).filter(|&key| bucket_of(key) != number);
    others.take(400).for_each(|key| set(&soc, key, 1));
    assert_eq!(get(&soc, 1), None);
    assert!(soc.counters.lost_to_device_errors_objects.get() > lost);
    assert!(log(&soc).index.of_bucket(number).is_empty());
}

/// The buckets have room for all objects: an object that waits in vain for others of its bucket goes there alone.
#[test]
fn nothing_is_lost_where_everything_fits() {
    for threshold in [1, 2, 4] {
        let device = device();
        let soc = soc(&device, threshold, 1);
        (0..1200).for_each(|key| set(&soc, key, key));
        let missing = (0..1200).filter(|&key| get(&soc, key) != Some(key)).count();
        let evicted = soc.counters.soc_evicted_objects.get();
        assert_eq!((missing, evicted), (0, 0), "threshold {threshold}");
        assert_eq!(soc.counters.soc_log_dropped_objects.get(), 0, "threshold {threshold}");
    }
}

/// A full bucket keeps its content: a new object that waits alone is dropped.
#[test]
fn an_object_that_waits_alone_evicts_no_other() {
    let device = device();
    let soc = soc(&device, 200, 1);
    (0..6000).for_each(|key| set(&soc, key, key));
    let dropped = soc.counters.soc_log_dropped_objects.get();
    // A false positive of the filter makes a new object look like the next version of one in its bucket.
    let evicted = soc.counters.soc_evicted_objects.get();
    assert!(dropped > 2000 && evicted < 150, "{dropped} {evicted}");
    let found = (0..500).filter(|&key| get(&soc, key) == Some(key)).count();
    assert!(found > 400, "{found} of the first ones, which found room");
}

/// Otherwise the snapshot would describe the bucket as it was before.
#[test]
fn a_write_whose_caller_gave_up_has_ended_when_a_snapshot_is_made() {
    let device = device();
    let soc = soc(&device, 1, 1);
    let number = soc.buckets.number_of(KeyHash::of(&1_u32.to_le_bytes()));
    let buckets = (2 << 20)..(4 << 20);
    let slow = FaultRule::new(Fault::Delay { submissions: u32::MAX }).on_writes().within(buckets);
    device.set_plan(&FaultPlan::new(1).with(slow));
    let mut context = Context::from_waker(Waker::noop());
    let mut stripe = block_on(soc.buckets.lock(number));
    let bucket = block_on(soc.buckets.load_or_empty(number));
    {
        let change = BucketChange::default();
        let store = soc.buckets.store_moved(&mut stripe, number, bucket, change, None);
        assert!(pin!(store).poll(&mut context).is_pending());
    }
    drop(stripe);
    let mut finishing = pin!(soc.buckets.finish_all());
    assert!(finishing.as_mut().poll(&mut context).is_pending(), "it is slow");
    device.release_delayed();
    assert!(finishing.as_mut().poll(&mut context).is_ready());
    assert!(block_on(soc.buckets.lock(number)).is_none());
}

#[test]
fn a_snapshot_brings_the_log_back() {
    let device = device();
    let first = soc(&device, 2, 1);
    (0..500).for_each(|key| set(&first, key, key + 1));
    let (held, found): (_, Vec<_>) =
        (first.log_objects(), (0..500).map(|k| get(&first, k)).collect());
    block_on(log(&first).write_out());
    let part = block_on(log(&first).export());
    let mut buckets = Vec::new();
    first.buckets.export(&mut buckets);
    drop(first);
    let second = soc(&device, 2, 2);
    assert_eq!(log(&second).import(&[&part[..], b"behind"].concat()), Some(&b"behind"[..]));
    second.buckets.states().import(&buckets);
    assert_eq!(second.log_objects(), held);
    (0..500).zip(found).for_each(|(key, found)| assert_eq!(get(&second, key), found, "{key}"));
    go_round(&second, 1000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary snapshots: no panic, and a refused snapshot leaves nothing behind.
    #[test]
    fn any_snapshot_is_taken_or_left(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        damage in prop::option::of((0..2000_usize, any::<u8>())),
    ) {
        let device = device();
        let soc = with_key_in_log(&device, 2);
        let mut part = match damage {
            Some(_) => block_on(log(&soc).export()),
            None => [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat(),
        };
        if let Some((at, byte)) = damage {
            let at = at % part.len();
            part[at] = byte;
        }
        let next = self::soc(&device, 2, 2);
        if log(&next).import(&part).is_none() {
            prop_assert_eq!(next.log_objects(), 0);
        }
        prop_assert!(matches!(get(&next, 1), None | Some(1)));
        go_round(&next, 1000);
        prop_assert!(matches!(get(&next, 1), None | Some(1)));
    }
}
