//! Every request of a run fails once, every byte on flash is damaged once, and a slow device is only slow. The short
//! forms always run; the long ones are ignored (CONTRIBUTING.md has the commands).

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use larder::{
    Config, CrashSafety, ErrorKind, Larder, LocConfig, SocConfig, SocLayout, VirtualClock, block_on,
};
use larder_device::label::COPY_BYTES;
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice};

use crate::rig::{key_of, value_of, version_in};

const KEYS: u32 = 60;
const CAPACITY_BYTES: usize = 252 << 10;

fn memory(bytes: Vec<u8>) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::holding(bytes))
}

/// What a cache keeps after a crash, and how it stores small objects.
type Kind = (CrashSafety, SocLayout);

const KINDS: [Kind; 4] = [
    (CrashSafety::Process, SocLayout::Buckets),
    (CrashSafety::Off, SocLayout::Buckets),
    (CrashSafety::Process, SocLayout::Pages),
    (CrashSafety::Off, SocLayout::Pages),
];

fn config((crash_safety, layout): Kind) -> Config {
    let (percent, pages_per_set) = match layout {
        SocLayout::Pages => (Some(40.0), Some(8)),
        _ => (Some(25.0), None),
    };
    Config {
        dram_bytes: 8 << 10,
        soc: SocConfig { percent, layout: Some(layout), pages_per_set, ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(16 << 10), ..LocConfig::default() },
        crash_safety,
        hash_seed: Some(1),
        demotions: larder::config::Demotions::Callers,
        ..Config::default()
    }
}

fn open(config: &Config, device: &Arc<impl Device + 'static>) -> Result<Larder, larder::Error> {
    let clock = Arc::new(VirtualClock::starting_at(std::time::Duration::from_secs(1000)));
    block_on(Larder::open(config.clone(), Some(Arc::clone(device) as _), clock))
}

/// The versions that each key may return, besides none.
#[derive(Default)]
struct Oracle {
    newest: HashMap<u32, Option<u32>>,
    /// What a crash may bring back: the versions before changes that returned an error.
    doubtful: HashMap<u32, Vec<u32>>,
    /// The part of these that came back, or may have.
    undone: HashMap<u32, Vec<u32>>,
}

impl Oracle {
    /// Records that a change has returned; `version` is `None` for a delete.
    fn changed<T>(&mut self, key: u32, version: Option<u32>, outcome: Result<T, larder::Error>) {
        let before = self.newest.insert(key, version).flatten();
        let undone = self.undone.remove(&key).unwrap_or_default();
        match outcome {
            Ok(_) => _ = self.doubtful.remove(&key),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Device, "{error}");
                self.doubtful.entry(key).or_default().extend(undone.into_iter().chain(before));
            }
        }
    }

    fn crashed(&mut self) {
        for (key, versions) in self.doubtful.drain() {
            self.undone.entry(key).or_default().extend(versions);
        }
    }

    /// Reads every key. Returns how many are there.
    fn judge(&self, cache: &Larder, what: &str) -> u32 {
        let mut hits = 0;
        for key in 0..KEYS {
            let Some(value) = block_on(cache.get(&key_of(key))).expect("a miss at worst") else {
                continue;
            };
            let found = version_in(key, &value);
            let newest = self.newest.get(&key).copied().flatten();
            let undone = self.undone.get(&key).is_some_and(|old| old.contains(&found));
            assert!(
                newest == Some(found) || undone,
                "{what}: key {key} is {found}, not {newest:?}"
            );
            hits += 1;
        }
        hits
    }
}

/// Sets, deletes and gets, mostly of keys that flash holds.
fn load(cache: &Larder, oracle: &mut Oracle, rng: &mut fastrand::Rng, version: &mut u32) {
    for _ in 0..90 {
        *version += 1;
        let key = rng.u32(..KEYS);
        match rng.u32(..10) {
            0 => oracle.changed(key, None, block_on(cache.delete(&key_of(key)))),
            1..7 => {
                let bytes = if key.is_multiple_of(4) { 2000 } else { 100 + rng.usize(..200) };
                let value = value_of(key, *version, bytes);
                let set = block_on(cache.set(&key_of(key), &value, None));
                oracle.changed(key, Some(*version), set);
            }
            _ => _ = block_on(cache.get(&key_of(key))).expect("a miss at worst"),
        }
    }
}

/// Opens the cache; tries again if that fails.
fn reopen(config: &Config, device: &Arc<impl Device + 'static>, oracle: &mut Oracle) -> Larder {
    open(config, device).unwrap_or_else(|_| {
        oracle.crashed();
        open(config, device).expect("the fault is over")
    })
}

/// Opens, loads, closes, opens, loads, abandons, opens, loads, closes, and opens a cache. Returns the hits at the end.
fn run(config: &Config, device: &Arc<impl Device + 'static>, seed: u64, what: &str) -> u32 {
    let (mut rng, mut oracle, mut version) = (fastrand::Rng::with_seed(seed), Oracle::default(), 0);
    for life in 0..3 {
        let cache = reopen(config, device, &mut oracle);
        oracle.judge(&cache, what);
        load(&cache, &mut oracle, &mut rng, &mut version);
        oracle.judge(&cache, what);
        if life == 1 {
            drop(cache);
            oracle.crashed();
        } else if block_on(cache.close()).is_err() {
            oracle.crashed();
        }
    }
    let cache = reopen(config, device, &mut oracle);
    oracle.judge(&cache, what)
}

/// Fails every `step`th request of a run, one per repetition. Returns how many requests there were.
fn fail_each(seed: u64, kind: Kind, step: usize) -> u64 {
    let config = config(kind);
    let drive =
        |plan: &FaultPlan| Arc::new(FaultDevice::new(memory(vec![0; CAPACITY_BYTES]), plan));
    let device = drive(&FaultPlan::new(seed));
    assert!(run(&config, &device, seed, "without faults") > KEYS / 4, "the run is worth failing");
    let requests = device.submissions();
    let torn = Fault::TornWrite { blocks: None, reported_done: false };
    for number in (0..requests).step_by(step) {
        for fault in [Fault::Error, torn] {
            let what = format!("seed {seed}, {kind:?}, {fault:?} at request {number}");
            let device = drive(&FaultPlan::new(seed).with(FaultRule::new(fault).at_io(number)));
            run(&config, &device, seed, &what);
        }
    }
    requests
}

#[test]
fn some_requests_of_a_run_fail_once() {
    for kind in KINDS {
        let requests = fail_each(1, kind, 5);
        assert!(requests > 100, "{kind:?}: {requests}");
    }
}

#[test]
#[ignore = "minutes"]
fn every_request_of_a_run_fails_once() {
    for seed in 0..20 {
        for kind in KINDS {
            let requests = fail_each(seed, kind, 1);
            println!("seed {seed}, {kind:?}: each of {requests} requests");
        }
    }
}

/// The bytes that a cache leaves on its device, closed or not, and the oracle for its keys.
fn left_behind(kind: Kind, closed: bool) -> (Vec<u8>, Oracle) {
    let device = memory(vec![0; CAPACITY_BYTES]);
    let cache = open(&config(kind), &device).unwrap();
    let (mut rng, mut oracle, mut version) = (fastrand::Rng::with_seed(9), Oracle::default(), 0);
    (0..4).for_each(|_| load(&cache, &mut oracle, &mut rng, &mut version));
    if closed {
        block_on(cache.close()).unwrap();
    } else {
        // Pages in memory would be lost.
        if kind.1 == SocLayout::Pages {
            let _flushed = block_on(cache.flush()).unwrap();
        }
        drop(cache);
    }
    let bytes = device.bytes();
    (bytes, oracle)
}

/// Flips a bit in every nonzero byte that `chosen` selects, one per repetition: unused bytes of this device are 0.
fn damage_each(kind: Kind, closed: bool, chosen: impl Fn(usize) -> bool) -> u32 {
    let config = config(kind);
    let (image, oracle) = left_behind(kind, closed);
    let whole = open(&config, &memory(image.clone())).unwrap();
    let hits = oracle.judge(&whole, "undamaged");
    assert_eq!(hits > KEYS / 4, closed || kind.0 == CrashSafety::Process, "{kind:?}: {hits}");
    drop(whole);
    let mut damaged = 0;
    for at in (0..image.len()).filter(|&at| chosen(at)) {
        // In the label and the snapshot's header, zeros are fields too.
        let fields = [(0, 280), (COPY_BYTES, 280), (2 * COPY_BYTES, 104)];
        if image[at] == 0 && !fields.iter().any(|&(from, bytes)| (from..from + bytes).contains(&at))
        {
            continue;
        }
        let mut bytes = image.clone();
        bytes[at] ^= 1 << (at % 8);
        let what = format!("{kind:?}, closed {closed}, byte {at} damaged");
        let device = memory(bytes);
        match open(&config, &device) {
            Ok(cache) => {
                oracle.judge(&cache, &what);
                // The cache also continues to work.
                let value = value_of(KEYS, 1, 100);
                assert!(block_on(cache.set(&key_of(KEYS), &value, None)).is_ok(), "{what}");
                assert!(block_on(cache.close()).is_ok(), "{what}");
                oracle.judge(&open(&config, &device).expect(&what), &what);
            }
            // The label has another copy.
            Err(error) => panic!("{what}: {error}"),
        }
        damaged += 1;
    }
    damaged
}

/// What is left by a close, or by a crash that leaves something.
fn left() -> impl Iterator<Item = (Kind, bool)> {
    let all = KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]);
    all.filter(|&((crash_safety, _), closed)| closed || crash_safety != CrashSafety::Off)
}

#[test]
fn some_bytes_of_every_structure_are_damaged_once() {
    for (kind, closed) in left() {
        let damaged = damage_each(kind, closed, |at| at < 280 || at % 4096 < 48 || at % 37 == 0);
        assert!(damaged > 1000, "{damaged}");
    }
}

#[test]
#[ignore = "minutes"]
fn every_byte_of_every_structure_is_damaged_once() {
    for (kind, closed) in left() {
        let damaged = damage_each(kind, closed, |_| true);
        println!("{kind:?}, closed {closed}: each of {damaged} bytes");
    }
}

/// One request in a hundred takes a hundred times as long as the others: until a hundred more have been submitted, or
/// no client can continue otherwise.
#[test]
fn a_device_that_is_slow_now_and_then_is_only_slow() {
    type Client<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
    for kind in KINDS {
        let slow = FaultRule::new(Fault::Delay { submissions: 100 }).with_probability(0.01);
        let plan = FaultPlan::new(3).with(slow);
        let device =
            Arc::new(FaultDevice::new(memory(vec![0; CAPACITY_BYTES]), &FaultPlan::new(3)));
        let cache = open(&config(kind), &device).unwrap();
        device.set_plan(&plan);
        // Each client has keys of its own, so it knows the newest version.
        let client = |client: u32| -> Client<'_> {
            let cache = &cache;
            Box::pin(async move {
                let mut rng = fastrand::Rng::with_seed(u64::from(client));
                let mut newest = HashMap::new();
                for version in 1..1500 {
                    let key = client + 8 * rng.u32(..KEYS / 8);
                    if rng.bool() {
                        let value =
                            value_of(key, version, if key.is_multiple_of(4) { 2000 } else { 200 });
                        cache.set(&key_of(key), &value, None).await.unwrap();
                        newest.insert(key, version);
                    } else if let Some(value) = cache.get(&key_of(key)).await.unwrap() {
                        assert_eq!(Some(&version_in(key, &value)), newest.get(&key));
                    }
                }
            })
        };
        let mut clients: Vec<_> = (0..8).map(client).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut rounds = 0;
        while !clients.is_empty() {
            clients.retain_mut(|client| client.as_mut().poll(&mut context).is_pending());
            rounds += 1;
            if rounds % 100 == 0 {
                device.release_delayed();
            }
            assert!(rounds < 1_000_000, "{} clients hang", clients.len());
        }
        let counts = device.counts();
        assert!(counts.delays > 5, "{counts:?}");
        let stats = cache.stats();
        assert_eq!(stats.lost_to_device_errors_objects + stats.device_errors, 0);
    }
}
