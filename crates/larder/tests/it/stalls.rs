//! A device that does not answer for some time: the cache continues in DRAM, and never returns old values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use larder::{Config, CrashSafety, ErrorKind, Larder, RealClock, block_on};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice};

use crate::faults::faulty;
use crate::rig::{config, key_of, logged, value_of, version_in};

const WAIT: Duration = Duration::from_millis(20);
/// A wait that has not ended after this time counts as endless, even on a busy machine.
const EVER: Duration = Duration::from_secs(30);
const KEYS: u32 = 400;

type Drive = Arc<FaultDevice<ModelDevice>>;

fn open(config: &Config, drive: &Drive) -> Larder {
    let config = Config { flash_wait: Some(WAIT), ..config.clone() };
    let drive: Arc<dyn Device> = Arc::clone(drive) as _;
    block_on(Larder::open(config, Some(drive), Arc::new(RealClock))).unwrap()
}

fn every_config() -> impl Iterator<Item = Config> {
    let safety = [CrashSafety::Process, CrashSafety::Off];
    let both = [config(), logged()];
    both.into_iter().flat_map(move |config| {
        safety.map(|crash_safety| Config { crash_safety, ..config.clone() })
    })
}

fn stall() -> FaultPlan {
    FaultPlan::new(1).with(FaultRule::new(Fault::Stall))
}

fn answer(drive: &Drive) {
    drive.set_plan(&FaultPlan::new(1));
    drive.release_delayed();
}

/// A load whose answers are checked: a value must be the newest one, or missing.
struct Load {
    rng: fastrand::Rng,
    first: u32,
    newest: Vec<u32>,
    /// Keys whose change returned an error: an older version may be found after a crash.
    unsafe_keys: Vec<bool>,
    version: u32,
}

impl Load {
    fn new(first: u32) -> Self {
        let keys = KEYS as usize;
        let rng = fastrand::Rng::with_seed(first.into());
        Self { rng, first, newest: vec![0; keys], unsafe_keys: vec![false; keys], version: 0 }
    }

    fn run(&mut self, cache: &Larder, operations: u32) -> u32 {
        (0..operations).map(|_| u32::from(self.step(cache))).sum()
    }

    /// Returns whether it was a hit.
    fn step(&mut self, cache: &Larder) -> bool {
        self.version += 1;
        let at = self.rng.usize(..self.newest.len());
        let key = self.first + u32::try_from(at).unwrap();
        let changed = match self.rng.u32(..10) {
            0..5 => {
                let bytes = if self.rng.u32(..4) == 0 { 9_000 } else { 300 };
                self.newest[at] = self.version;
                block_on(cache.set(&key_of(key), &value_of(key, self.version, bytes), None))
            }
            5 => {
                self.newest[at] = 0;
                block_on(cache.delete(&key_of(key))).map(drop)
            }
            _ => return self.check(cache, at),
        };
        self.unsafe_keys[at] = changed.is_err();
        if let Err(error) = changed {
            assert_eq!(error.kind(), ErrorKind::Device, "{error}");
        }
        false
    }

    fn check(&self, cache: &Larder, at: usize) -> bool {
        let key = self.first + u32::try_from(at).unwrap();
        let found = block_on(cache.get(&key_of(key))).unwrap();
        let Some(value) = found else { return false };
        assert_eq!(version_in(key, &value), self.newest[at], "key {key}");
        true
    }

    fn check_all(&self, cache: &Larder, with_unsafe: bool) -> u32 {
        let checked = (0..self.newest.len()).filter(|&at| with_unsafe || !self.unsafe_keys[at]);
        checked.map(|at| u32::from(self.check(cache, at))).sum()
    }
}

#[test]
fn a_stalled_device_costs_a_wait_and_shows_nothing_old() {
    std::thread::scope(|scope| {
        every_config().for_each(|config| drop(scope.spawn(move || stalled_once(&config))));
    });
}

fn stalled_once(config: &Config) {
    let drive = faulty(&FaultPlan::new(1));
    let cache = open(config, &drive);
    let mut load = Load::new(0);
    let good = load.run(&cache, 4000);
    drive.set_plan(&stall());
    let begun = Instant::now();
    load.run(&cache, 2000);
    assert!(begun.elapsed() < EVER, "{:?}", begun.elapsed());
    // A value that was just set is there, even if the tombstones that are owed to flash cannot be written.
    let set = block_on(cache.set(&key_of(9999), &value_of(9999, 7, 300), None));
    assert!(set.is_ok() || config.crash_safety == CrashSafety::Process, "{set:?}");
    assert!(block_on(cache.get(&key_of(9999))).unwrap().is_some());
    let during = cache.stats();
    assert!((1..200).contains(&during.device_timeouts), "{during:?}");
    assert_eq!(during.flash_avoided, 1);
    assert!(during.rejected_in_outage_objects > 500, "{during:?}");
    load.check_all(&cache, true);
    answer(&drive);
    // Abandoned writes have landed now, but over nothing newer.
    load.check_all(&cache, true);
    std::thread::sleep(Duration::from_millis(2100));
    load.run(&cache, 4000);
    let better = load.run(&cache, 4000);
    assert!(better * 10 > good * 8, "{better} hits beside {good}");
    assert_eq!(cache.stats().device_timeouts, during.device_timeouts);
    assert_eq!(cache.stats().flash_avoided, 0);
    if config.crash_safety == CrashSafety::Process {
        drop(cache);
        let cache = open(config, &drive);
        assert!(load.check_all(&cache, true) > 0);
    }
}

/// The process ends while the device stalls; writes in flight may or may not happen.
#[test]
fn a_crash_in_a_stall_brings_nothing_back_that_was_promised_to_be_gone() {
    for (seed, config) in (0..6).flat_map(|seed| [(seed, config()), (seed, logged())]) {
        let drive = faulty(&FaultPlan::new(seed));
        let cache = open(&config, &drive);
        let mut load = Load::new(0);
        load.run(&cache, 3000);
        drive.set_plan(&stall());
        load.run(&cache, 300);
        assert!(cache.stats().device_timeouts > 0);
        drop(cache);
        let shared: Arc<dyn Device> = Arc::clone(&drive) as _;
        let again = block_on(Larder::open(config.clone(), Some(shared), Arc::new(RealClock)));
        let refused = again.err().expect("late writes would land on the new cache");
        assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
        answer(&drive);
        let cache = open(&config, &drive);
        assert!(load.check_all(&cache, false) > 0, "seed {seed}");
    }
}

#[test]
fn more_threads_than_cores_on_a_device_that_stalls_again_and_again() {
    for config in every_config() {
        let drive = faulty(&FaultPlan::new(1));
        let cache = open(&config, &drive);
        let is_over = AtomicBool::new(false);
        let loads: Vec<Load> = std::thread::scope(|scope| {
            let (cache, drive, is_over) = (&cache, &drive, &is_over);
            let threads = (0..16).map(|thread| {
                scope.spawn(move || {
                    let mut load = Load::new(thread * 1000);
                    load.run(cache, 3000);
                    load
                })
            });
            let threads: Vec<_> = threads.collect();
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    drive.set_plan(&stall());
                    std::thread::sleep(3 * WAIT);
                    answer(drive);
                    std::thread::sleep(WAIT);
                }
            });
            let loads = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            is_over.store(true, Ordering::SeqCst);
            loads
        });
        assert!(cache.stats().device_timeouts > 0);
        answer(&drive);
        let hits: u32 = loads.iter().map(|load| load.check_all(&cache, true)).sum();
        assert!(hits > 0);
    }
}

#[test]
fn close_and_flush_on_a_stalled_device_say_so() {
    let drive = faulty(&FaultPlan::new(1));
    let cache = open(&config(), &drive);
    Load::new(0).run(&cache, 1000);
    drive.set_plan(&stall());
    assert_eq!(block_on(cache.flush()).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(block_on(cache.close()).unwrap_err().kind(), ErrorKind::Device);
    answer(&drive);
}

#[test]
fn a_wait_of_nothing_is_refused() {
    let drive = faulty(&FaultPlan::new(1));
    let none = Config { flash_wait: Some(Duration::ZERO), ..config() };
    let shared: Arc<dyn Device> = Arc::clone(&drive) as _;
    let refused = block_on(Larder::open(none, Some(shared), Arc::new(RealClock))).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("flash_wait = 0s"), "{refused}");
}
