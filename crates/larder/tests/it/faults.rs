//! A faulty device: never a wrong value, never a panic, everything counted.

use std::sync::Arc;

use larder::{Config, CrashSafety, Larder, LocConfig, RealClock, Reinsertion, block_on};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

use crate::rig::{Rig, config, logged};

const KEYS: u32 = 300;

pub(crate) fn faulty(plan: &FaultPlan) -> Arc<FaultDevice<ModelDevice>> {
    let geometry = Geometry::with_overprovisioning(8 << 20, 256 << 10, 60.0).unwrap();
    let model = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    Arc::new(FaultDevice::new(model, plan))
}

/// A mixed load that can be continued.
struct Load {
    rng: fastrand::Rng,
    newest: [u32; KEYS as usize],
    version: u32,
}

impl Load {
    fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), newest: [0; KEYS as usize], version: 0 }
    }

    /// Checks each answer against the newest version; returns how many gets were hits.
    fn run(&mut self, rig: &Rig) -> u32 {
        let mut hits = 0;
        for _ in 0..6000 {
            self.version += 1;
            let key = self.rng.u32(..KEYS);
            let newest = &mut self.newest[key as usize];
            match self.rng.u32(..10) {
                0..4 => {
                    let bytes = if self.rng.u32(..4) == 0 { 9_000 } else { 300 };
                    rig.set(key, self.version, bytes);
                    *newest = self.version;
                }
                4 => {
                    rig.delete(key);
                    *newest = 0;
                }
                _ => {
                    if let Some(found) = rig.get(key) {
                        assert_eq!(found, *newest, "key {key}");
                        hits += 1;
                    }
                }
            }
        }
        hits
    }
}

#[test]
fn misbehaviour_costs_hits_and_nothing_else() {
    let torn = |reported_done| Fault::TornWrite { blocks: None, reported_done };
    let faults = [Fault::Error, Fault::BitFlip, torn(false), torn(true), Fault::LostWrite];
    for (fault, config) in faults.into_iter().flat_map(|f| [(f, config()), (f, logged())]) {
        println!("{fault:?}, log {}", config.soc.log_percent.unwrap_or(0.0));
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(
            Config { loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..config.loc }, ..config },
            &device,
        );
        let mut load = Load::new(2);
        let good = load.run(&rig);
        device.set_plan(&FaultPlan::new(3).with(FaultRule::new(fault).with_probability(0.02)));
        let bad = load.run(&rig);
        let stats = rig.cache.stats();
        assert!(good > 2000 && bad > 500, "{good} {bad}");
        let seen = stats.device_errors
            + stats.soc_bad_buckets
            + stats.soc_log_bad_pages
            + stats.loc_bad_records;
        assert!(seen > 0, "{stats:?}");
    }
}

#[test]
fn a_device_that_vanishes_leaves_a_dram_cache() {
    [config(), logged()].into_iter().for_each(a_device_that_vanishes_leaves_a_dram_cache_with);
}

fn a_device_that_vanishes_leaves_a_dram_cache_with(config: Config) {
    let device = faulty(&FaultPlan::new(4));
    let rig = Rig::open(config.clone(), &device);
    Load::new(4).run(&rig);
    device.set_plan(&FaultPlan::new(4).with(FaultRule::new(Fault::Gone)));
    (0..2000).for_each(|key| rig.set(key, 7, 100));
    assert_eq!(rig.get(1999), Some(7));
    let stats = rig.cache.stats();
    assert!(stats.device_errors > 0 && stats.lost_to_device_errors_objects > 0);
    assert!(stats.last_device_error.is_some());
    assert!(block_on(rig.cache.close()).is_err(), "a shutdown that keeps nothing says so");
}

/// Each request of a run fails once, in turn.
#[test]
fn every_request_may_fail() {
    every_request_may_fail_with(&config(), 120);
    // More objects: the log must go round, with its objects on flash when the requests fail.
    every_request_may_fail_with(&logged(), 400);
}

fn every_request_may_fail_with(config: &Config, small: u32) {
    let script = |rig: &Rig| {
        (0..small).for_each(|key| rig.set(key, 1, 200));
        (500..540).for_each(|key| rig.set(key, 1, 20_000));
        (0..60).for_each(|key| rig.set(key, 2, 200));
        (0..540).filter(|&key| rig.get(key).is_some_and(|v| v != 1 + u32::from(key < 60))).count()
    };
    let device = faulty(&FaultPlan::new(5));
    let rig = Rig::open(config.clone(), &device);
    assert_eq!(script(&rig), 0);
    let _ = block_on(rig.cache.close());
    let requests = device.submissions();
    assert!(requests > 300, "{requests}");
    for number in (0..requests).step_by(3) {
        let device = faulty(&FaultPlan::new(5).with(FaultRule::new(Fault::Error).at_io(number)));
        let shared: Arc<dyn Device> = Arc::clone(&device) as _;
        let opened = block_on(Larder::open(config.clone(), Some(shared), Arc::new(RealClock)));
        if opened.is_err() {
            assert!(number < 10, "only the label can stop an opening, not request {number}");
            continue;
        }
        drop(opened);
        let device = faulty(&FaultPlan::new(5).with(FaultRule::new(Fault::Error).at_io(number)));
        let rig = Rig::open(config.clone(), &device);
        assert_eq!(script(&rig), 0, "request {number}");
        let _ = block_on(rig.cache.close());
    }
}

/// Callers that are dropped while their writes are in flight lose nothing that was written.
#[test]
fn abandoned_writes_still_count() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    let device = faulty(&FaultPlan::new(6));
    let rig = Rig::open(config(), &device);
    let slow = FaultRule::new(Fault::Delay { submissions: 2 }).on_writes();
    device.set_plan(&FaultPlan::new(6).with(slow));
    let mut context = Context::from_waker(Waker::noop());
    let mut abandoned = 0;
    for key in 0..2000 {
        let bytes = if key % 4 == 0 { 9_000 } else { 300 };
        let (key_bytes, value) = (crate::rig::key_of(key), crate::rig::value_of(key, 1, bytes));
        let mut set = pin!(rig.cache.set(&key_bytes, &value, None));
        abandoned += u32::from(set.as_mut().poll(&mut context).is_pending());
        device.release_delayed();
    }
    let stats = rig.cache.stats();
    assert!(abandoned > 500, "{abandoned}");
    assert_eq!(stats.soc_retired_buckets + stats.loc_retired_regions, 0);
    assert_eq!(stats.lost_to_device_errors_objects, 0);
    device.set_plan(&FaultPlan::new(6));
    let found = (1000..2000).filter(|&key| rig.get(key) == Some(1)).count();
    assert!(found > 300, "{found}");
}

/// An outage of some seconds costs few places, and those come back.
#[test]
fn an_outage_is_not_for_ever() {
    for config in [config(), logged()] {
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(config, &device);
        let mut now = 1000;
        let mut load = |rig: &Rig, seconds: u64, first: u32| {
            for second in 0..seconds {
                now += 1;
                rig.clock.advance_to(std::time::Duration::from_secs(now));
                for n in 0..40 {
                    let key = first + u32::try_from(second).unwrap() * 40 + n;
                    rig.set(key, 1, if n % 8 == 0 { 20_000 } else { 200 });
                }
            }
        };
        load(&rig, 60, 0);
        device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
        load(&rig, 30, 10_000);
        let during = rig.cache.stats();
        assert_eq!(during.flash_avoided, 1);
        // It began with the first failed writes, some seconds after writes began to fail.
        assert!((1060..1075).contains(&during.flash_avoided_since_seconds), "{during:?}");
        let layout = *rig.cache.layout().unwrap();
        assert!(during.soc_retired_buckets > 0 && during.rejected_in_outage_objects > 500);
        assert!(during.soc_retired_buckets * 4 < layout.soc_buckets, "{during:?}");
        assert!(during.loc_retired_regions * 2 < u64::from(layout.loc_regions), "{during:?}");
        device.set_plan(&FaultPlan::new(1));
        load(&rig, 200, 20_000);
        let after = rig.cache.stats();
        assert_eq!((after.flash_avoided, after.flash_avoided_since_seconds), (0, 0));
        assert_eq!(after.crash_safe, 1, "the log of the dead is back too");
        assert_eq!(after.loc_revived_regions, after.loc_retired_regions);
        assert!(after.soc_revived_buckets * 10 >= after.soc_retired_buckets * 9, "{after:?}");
        let lost = after.lost_to_device_errors_objects;
        load(&rig, 20, 30_000);
        assert_eq!(rig.cache.stats().lost_to_device_errors_objects, lost);
    }
}

/// For large objects, no region is written before it is recorded that its old content is void. If that fails, no region
/// is written, but it is an outage nevertheless.
#[test]
fn an_outage_of_large_objects_alone_is_one() {
    let device = faulty(&FaultPlan::new(1));
    let rig = Rig::open(config(), &device);
    (0..1000).for_each(|key| rig.set(key, 1, 20_000));
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    (1000..2000).for_each(|key| rig.set(key, 1, 20_000));
    let stats = rig.cache.stats();
    assert_eq!((stats.flash_avoided, stats.flash_avoided_since_seconds), (1, 1000));
    assert!(stats.rejected_in_outage_objects > 500, "{stats:?}");
}

/// An object that cannot move from the log to its bucket is lost, and so is the older version that it hid there.
#[test]
fn what_an_outage_takes_from_the_log_uncovers_nothing() {
    for seed in 0..20 {
        let config = Config { crash_safety: CrashSafety::Off, ..logged() };
        let device = faulty(&FaultPlan::new(seed));
        let rig = Rig::open(config, &device);
        let mut load = Load::new(seed);
        for outage in 1..6 {
            device.set_plan(&FaultPlan::new(seed));
            load.run(&rig);
            rig.clock.advance_to(std::time::Duration::from_secs(1000 + 100 * outage));
            let writes = FaultRule::new(Fault::Error).on_writes();
            device.set_plan(&FaultPlan::new(seed).with(writes));
            load.run(&rig);
        }
        let stats = rig.cache.stats();
        assert!(stats.rejected_in_outage_objects > 0 && stats.lost_to_device_errors_objects > 0);
    }
}

/// One bad place is given up alone: writes elsewhere continue.
#[test]
fn one_bad_bucket_is_no_outage() {
    let device = faulty(&FaultPlan::new(1));
    let rig = Rig::open(config(), &device);
    let layout = *rig.cache.layout().unwrap();
    let bad = layout.soc_offset..layout.soc_offset + 4096;
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes().within(bad)));
    (0..20_000).for_each(|key| rig.set(key, 1, 200));
    let stats = rig.cache.stats();
    assert_eq!((stats.soc_retired_buckets, stats.rejected_in_outage_objects), (1, 0));
    assert!(stats.lost_to_device_errors_objects < 20_000 / layout.soc_buckets * 3);
}

/// A device that reports a bucket as written but keeps the old one: the generation detects it.
#[test]
fn a_bucket_that_was_not_written_brings_nothing_back() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(Config { crash_safety, ..config() }, &device);
        let layout = *rig.cache.layout().unwrap();
        (0..100).for_each(|key| rig.set(key, 1, 100));
        let _ = block_on(rig.cache.flush()).unwrap();
        let lost = FaultRule::new(Fault::LostWrite).on_writes();
        let buckets = layout.soc_offset..layout.capacity_bytes;
        device.set_plan(&FaultPlan::new(1).with(lost.within(buckets)));
        (0..100).for_each(|key| rig.set(key, 2, 100));
        let _ = block_on(rig.cache.flush()).unwrap();
        // Push them out of DRAM.
        (1000..1300).for_each(|key| rig.set(key, 1, 200));
        let old = (0..100).filter(|&key| rig.get(key) == Some(1)).count();
        assert_eq!(old, 0, "of 100 replaced values");
        assert!(rig.cache.stats().soc_bad_buckets > 50);
    }
}
