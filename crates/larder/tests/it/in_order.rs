//! A close that writes small objects sequentially, or that has limited time: all objects are found again, once, and
//! nothing older; wherever the process dies or the power is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder::{
    Config, CrashSafety, Larder, LocConfig, Recovery, RemovalListener, RemovalReason, Shards,
    SocConfig, Tenant, Tenants, TenantsConfig, VirtualClock, block_on,
};
use larder_device::{Clock, Device, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice};

use crate::rig::{Rig, config, drive, key_of, logged, value_of, version_in};

/// DRAM for about a thousand small objects.
const DRAM_BYTES: u64 = 400 << 10;

fn kinds() -> Vec<Config> {
    let roomy = |config| Config { dram_bytes: DRAM_BYTES, ..config };
    let off = |config| Config { crash_safety: CrashSafety::Off, ..config };
    let classes = Config { loc: LocConfig { ttl_classes: vec![60], ..config().loc }, ..config() };
    vec![
        roomy(config()),
        roomy(logged()),
        roomy(classes),
        off(roomy(config())),
        off(roomy(logged())),
    ]
}

fn scanned(cache: &Larder) -> HashMap<Vec<u8>, u32> {
    let mut seen = HashMap::new();
    let mut scan = cache.scan();
    while let Some(batch) = block_on(scan.next()) {
        batch.iter().for_each(|item| *seen.entry(item.key().to_vec()).or_insert(0) += 1);
    }
    seen
}

#[test]
fn what_dram_held_is_written_in_order_found_once_and_moves_later() {
    for config in kinds() {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        // Older versions in buckets.
        (0..200).for_each(|key| rig.set(key, 1, 100));
        let _flushed = block_on(rig.cache.flush()).unwrap();
        (100..900).for_each(|key| rig.set(key, 2, 100));
        (150..160).for_each(|key| assert!(rig.delete(key)));
        let expected = |key: u32| match key {
            0..100 => Some(1),
            150..160 => None,
            _ => Some(2),
        };
        let writes = rig.cache.stats().soc_bucket_writes;
        let closed = block_on(rig.cache.close()).unwrap();
        let in_order = closed.closed_in_order_objects;
        let by_bucket = closed.soc_bucket_writes - writes;
        assert!(in_order >= 600 && by_bucket <= 130, "{in_order}, {by_bucket}, {config:?}");
        for round in 0..2 {
            let rig = Rig::open(config.clone(), &drive);
            assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
            let seen = scanned(&rig.cache);
            assert!(seen.len() == 890 && seen.values().all(|&times| times == 1), "{}", seen.len());
            (0..900).for_each(|key| assert_eq!(rig.get(key), expected(key), "key {key}"));
            // An object that was read goes to its bucket when it leaves DRAM.
            (2000..5000).for_each(|key| rig.set(key, 1, 100));
            let moved = rig.cache.stats().moved_small_objects;
            assert!(round > 0 || moved >= 400, "{moved} moved, {config:?}");
            for key in 0..900 {
                let found = rig.get(key);
                assert!(found.is_none() || found == expected(key), "key {key}: {found:?}");
            }
            (2000..5000).for_each(|key| _ = rig.delete(key));
            (0..900).filter_map(|key| Some((key, expected(key)?))).for_each(|(key, version)| {
                rig.set(key, version, 100);
            });
            block_on(rig.cache.close()).unwrap();
        }
    }
}

/// In the index of regions, one would displace the other.
#[test]
fn of_keys_that_the_index_cannot_tell_apart_all_are_found() {
    const KEYS: u32 = 30_000;
    let (drive, config) = (drive(), Config { dram_bytes: 4 << 20, ..config() });
    let rig = Rig::open(config.clone(), &drive);
    (0..KEYS).for_each(|key| rig.set(key, 1, 12));
    let closed = block_on(rig.cache.close()).unwrap();
    let to_buckets = u64::from(KEYS) - closed.closed_in_order_objects;
    assert!((1..=20).contains(&to_buckets), "{to_buckets}");
    let rig = Rig::open(config, &drive);
    block_on(rig.cache.rebuild());
    (0..KEYS).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}"));
}

/// A clock that advances each time it is read.
struct Ticking(AtomicU64, Duration);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        let looks = self.0.fetch_add(1, Ordering::Relaxed);
        Duration::from_secs(1000) + self.1 * u32::try_from(looks).unwrap()
    }
}

fn open_ticking(config: &Config, device: &Arc<impl Device + 'static>) -> Larder {
    let clock = Arc::new(Ticking(AtomicU64::new(0), Duration::from_micros(10)));
    let config = Config { flash_wait: None, ..config.clone() };
    block_on(Larder::open(config, Some(Arc::clone(device) as _), clock)).unwrap()
}

#[test]
fn what_there_is_no_time_for_is_left_out_and_nothing_older_comes_back() {
    for config in kinds() {
        for micros in [0, 2_000, 1_000_000] {
            let drive = drive();
            let cache = open_ticking(&config, &drive);
            let set = |key: u32, version| {
                let value =
                    value_of(key, version, if key.is_multiple_of(50) { 5_000 } else { 100 });
                block_on(cache.set(&key_of(key), &value, None)).unwrap();
            };
            (0..300).for_each(|key| set(key, 1));
            let _flushed = block_on(cache.flush()).unwrap();
            (0..800).for_each(|key| set(key, 2));
            let closed = block_on(cache.close_within(Duration::from_micros(micros))).unwrap();
            let left_out = closed.left_out_objects;
            let cache = open_ticking(&config, &drive);
            assert!(matches!(cache.recovery(), Some(Recovery::Clean { .. })));
            block_on(cache.rebuild());
            let mut found = 0;
            for key in 0..800 {
                let Some(value) = block_on(cache.get(&key_of(key))).unwrap() else { continue };
                assert_eq!(version_in(key, &value), 2, "key {key} after {micros} us, {config:?}");
                found += 1;
            }
            let is_off = config.crash_safety == CrashSafety::Off;
            // There is room for all of it. The objects of an emptied bucket are lost.
            let gone = 800 - found - left_out;
            assert!(gone <= closed.left_out_buckets * 30, "{gone}: {micros} us, {config:?}");
            match micros {
                0 => assert_eq!(left_out, 800),
                2_000 => assert!(0 < left_out && left_out < 800, "{left_out}"),
                _ => assert_eq!((left_out, closed.left_out_buckets), (0, 0)),
            }
            assert!(closed.left_out_buckets == 0 || is_off && left_out > 0);
        }
    }
}

#[test]
fn the_listener_is_told_of_what_is_left_out() {
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let listener = RemovalListener::new(move |removal| {
        if removal.reason == RemovalReason::LeftOut {
            assert!(removal.key.is_some());
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let config = Config { dram_bytes: DRAM_BYTES, removal_listener: Some(listener), ..config() };
    let rig = Rig::open(config, &drive());
    (0..300).for_each(|key| rig.set(key, 1, 100));
    let closed = rig.cache.blocking().close_within(Duration::ZERO).unwrap();
    assert_eq!((closed.left_out_objects, told.load(Ordering::Relaxed)), (300, 300));
}

#[test]
fn shards_and_tenants_close_in_time_too() {
    let clock = || Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let drives = [drive(), drive()];
    let devices = drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect();
    let shards = block_on(Shards::open(config(), devices, clock())).unwrap();
    let tenants = vec![Tenant::new("web", 50.0), Tenant::new("mail", 50.0)];
    let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    let tenants = block_on(Tenants::open(config, Some(drive()), clock())).unwrap();
    for key in 0..20 {
        block_on(shards.set(&key_of(key), b"1", None)).unwrap();
        for name in ["web", "mail"] {
            block_on(tenants.tenant(name).unwrap().set(&key_of(key), b"1", None)).unwrap();
        }
    }
    assert_eq!(block_on(shards.close_within(Duration::ZERO)).unwrap().left_out_objects, 20);
    assert_eq!(block_on(tenants.close_within(Duration::ZERO)).unwrap().left_out_objects, 40);
}

/// How a device ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Only the process ends: what was written stays.
    Kill,
    /// The power is lost, and with it what was not flushed.
    PowerLoss,
}

/// A cache whose device ends at a request of an opening or a close.
struct Ends {
    config: Config,
    end: End,
    memory: Arc<MemoryDevice>,
    device: Arc<FaultDevice<Arc<MemoryDevice>>>,
    newest: HashMap<u32, u32>,
}

impl Ends {
    fn new(config: Config, end: End) -> Self {
        let memory = Arc::new(MemoryDevice::holding(vec![0; 512 << 10]));
        let device = Arc::new(FaultDevice::new(Arc::clone(&memory), &FaultPlan::new(1)));
        let mut ends = Self { config, end, memory, device, newest: HashMap::new() };
        ends.come_back();
        ends
    }

    /// Restarts the device if necessary, and removes the planned end.
    fn come_back(&mut self) {
        let plan = FaultPlan::new(1);
        match self.end {
            End::Kill => {
                let memory = Arc::clone(&self.memory);
                self.device = Arc::new(FaultDevice::new(memory, &plan.volatile_writes(0)));
            }
            End::PowerLoss => {
                self.device.set_plan(&plan);
                if self.device.is_down() {
                    self.device.restart().unwrap();
                }
            }
        }
    }

    /// Plans the end after this number of requests.
    fn end_after(&self, requests: u64) {
        let at = self.device.submissions() + requests;
        let plan = |fault| FaultPlan::new(at).with(FaultRule::new(fault).at_io(at));
        self.device.set_plan(&match self.end {
            End::Kill => plan(Fault::Gone).volatile_writes(0),
            End::PowerLoss => plan(Fault::Crash),
        });
    }

    fn open(&self) -> Result<Larder, larder::Error> {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let device = Arc::clone(&self.device) as Arc<dyn Device>;
        block_on(Larder::open(self.config.clone(), Some(device), clock))
    }

    /// Checks all keys. Returns how many are there.
    fn judge(&self, cache: &Larder, what: &str) -> usize {
        let keys = self.newest.iter().filter(|(key, newest)| {
            let value = block_on(cache.get(&key_of(**key))).unwrap();
            let found = value.map(|value| version_in(**key, &value));
            assert!(found.is_none_or(|found| found == **newest), "{what}: key {key} {found:?}");
            found.is_some()
        });
        keys.count()
    }

    /// Sets some keys to a new version.
    fn change(&mut self, cache: &Larder, version: u32) {
        for key in (version % 3..150).step_by(3) {
            let value = value_of(key, version, if key.is_multiple_of(30) { 2_000 } else { 100 });
            block_on(cache.set(&key_of(key), &value, None)).unwrap();
            self.newest.insert(key, version);
        }
    }
}

/// Closes a cache whose device ends after this number of requests of the close, and of each of the next two openings.
/// Returns whether the close was complete before.
fn end_at(crash_safety: CrashSafety, end: End, requests: u64) -> bool {
    let config = Config {
        dram_bytes: 64 << 10,
        soc: SocConfig { percent: Some(25.0), ..SocConfig::default() },
        loc: LocConfig {
            region_bytes: Some(16 << 10),
            eager_index_objects: if requests.is_multiple_of(2) { 0 } else { 1 << 16 },
            ..LocConfig::default()
        },
        crash_safety,
        hash_seed: Some(1),
        demotions: larder::config::Demotions::Callers,
        ..Config::default()
    };
    let what = format!("{crash_safety:?}, {end:?} after {requests}");
    let mut ends = Ends::new(config, end);
    let cache = ends.open().unwrap();
    (1..4).for_each(|version| ends.change(&cache, version));
    let _flushed = block_on(cache.flush()).unwrap();
    ends.change(&cache, 4);
    ends.end_after(requests);
    let is_closed = block_on(cache.close()).is_ok();
    drop(cache);
    for _ in 0..2 {
        ends.come_back();
        ends.end_after(requests);
        // It may end in the middle of the takeover.
        if let Ok(cache) = ends.open() {
            ends.judge(&cache, &what);
            block_on(cache.rebuild());
        }
    }
    ends.come_back();
    let cache = ends.open().unwrap();
    block_on(cache.rebuild());
    ends.judge(&cache, &what);
    ends.change(&cache, 5);
    ends.judge(&cache, &what);
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = ends.open().unwrap();
    block_on(cache.rebuild());
    assert!(ends.judge(&cache, &what) >= 50, "{what}: what was set last is there");
    is_closed
}

#[test]
fn nothing_older_comes_back_wherever_a_close_or_the_opening_after_it_ends() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        for end in [End::Kill, End::PowerLoss] {
            let mut moments = (0..).step_by(3).take(200);
            let before = moments.by_ref().take_while(|&at| !end_at(crash_safety, end, at)).count();
            assert!((2..190).contains(&before), "{before}: {crash_safety:?}, {end:?}");
            // After the close, in the openings.
            moments.take(8).for_each(|at| assert!(end_at(crash_safety, end, at)));
        }
    }
}
