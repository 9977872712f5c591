//! One oracle for all engines: through gets, sets, cancelled requests, closes and crashes, a key has its last version
//! or none.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, VirtualClock};

use super::plain;
use crate::config::{Demotions, OnChange};
use crate::{
    Config, CrashSafety, Larder, LocConfig, Recovery, SetOptions, SocConfig, Tier, block_on,
};

const KEYS: u32 = 160;
const STEPS: u32 = 1500;

type Below = Arc<FaultDevice<Arc<MemoryDevice>>>;

/// Name of the case with the example engine.
const THIRD: &str = "the third";

/// A configuration to test: in which tier its objects are, and their sizes.
struct Case {
    name: &'static str,
    config: Config,
    tier: Tier,
    bytes: std::ops::Range<usize>,
}

fn cases() -> Vec<Case> {
    let base = || Config {
        dram_bytes: 16 << 10,
        loc: LocConfig { region_bytes: Some(64 << 10), ..LocConfig::default() },
        demotions: Demotions::Callers,
        on_change: OnChange::Discard,
        hash_seed: Some(3),
        ..Config::default()
    };
    let (small, large) = (Tier::SmallObjects, Tier::LargeObjects);
    let soc = Config { soc: SocConfig { percent: Some(100.0), ..base().soc }, ..base() };
    let logged = Config {
        soc: SocConfig { percent: Some(70.0), log_percent: Some(10.0), ..base().soc },
        ..base()
    };
    let loc = Config { soc: SocConfig { percent: Some(0.0), ..base().soc }, ..base() };
    vec![
        Case { name: "SOC", config: soc, tier: small, bytes: 20..600 },
        Case { name: "SOC with a log", config: logged, tier: small, bytes: 20..600 },
        Case { name: "LOC", config: loc.clone(), tier: large, bytes: 20..9000 },
        Case { name: THIRD, config: loc, tier: large, bytes: 20..9000 },
    ]
}

/// Versions that a key may have: the last one set, or one of those whose sets were cancelled or failed.
#[derive(Default)]
struct Oracle(HashMap<u32, Vec<u32>>);

impl Oracle {
    fn is(&mut self, key: u32, version: Option<u32>) {
        self.0.insert(key, version.into_iter().collect());
    }

    fn may_be(&mut self, key: u32, version: u32) {
        self.0.entry(key).or_default().push(version);
    }

    fn judge(&mut self, key: u32, found: Option<u32>, what: &str) {
        let Some(found) = found else { return };
        let may = self.0.get(&key).map_or(&[][..], Vec::as_slice);
        assert!(
            may.contains(&found),
            "{what}: key {key} has version {found}, and may have {may:?}"
        );
        // A version that was seen is the current one: none of the others can appear later.
        self.is(key, Some(found));
    }
}

struct Fixture {
    case: Case,
    device: Below,
    clock: Arc<VirtualClock>,
    cache: Option<Larder>,
    oracle: Oracle,
    rng: fastrand::Rng,
    version: u32,
}

impl Fixture {
    fn open(&mut self) {
        plain::set_percent(if self.case.name == THIRD { 70 } else { 0 });
        let device: Arc<dyn Device> = Arc::clone(&self.device) as _;
        let clock = Arc::clone(&self.clock) as _;
        let opened = block_on(Larder::open(self.case.config.clone(), Some(device), clock));
        self.cache = Some(opened.expect("faults come later"));
    }

    fn cache(&self) -> &Larder {
        self.cache.as_ref().expect("it is open")
    }

    fn value(&mut self, version: u32) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        let bytes = self.rng.usize(self.case.bytes.clone());
        value.resize(bytes, u8::try_from(version % 251).unwrap());
        value
    }

    fn found(value: &[u8]) -> u32 {
        let version = u32::from_le_bytes(*value.first_chunk().expect("all are longer"));
        assert!(value[4..].iter().all(|&byte| u32::from(byte) == version % 251), "torn");
        version
    }

    fn get(&mut self, key: u32, what: &str) -> bool {
        let found = block_on(self.cache().get(&key.to_le_bytes())).unwrap();
        self.oracle.judge(key, found.as_deref().map(Self::found), what);
        found.is_some()
    }

    fn set(&mut self, key: u32) {
        self.version += 1;
        let (version, value) = (self.version, self.value(self.version));
        let options = match self.rng.u32(..4) {
            0 => SetOptions { tiers: crate::Tiers::FlashOnly, ..SetOptions::default() },
            _ => SetOptions::default(),
        };
        let gives_up = self.rng.u32(..12) == 0;
        let name = key.to_le_bytes();
        let ended = {
            let cache = self.cache.as_ref().expect("it is open");
            let mut set = pin!(cache.set_with(&name, &value, options));
            if gives_up {
                set.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            } else {
                // If the device fails, the value may be lost, but no wrong version may appear.
                block_on(set).is_ok()
            }
        };
        if ended { self.oracle.is(key, Some(version)) } else { self.oracle.may_be(key, version) }
    }

    fn step(&mut self) {
        let key = self.rng.u32(..KEYS);
        match self.rng.u32(..100) {
            0..45 => _ = self.get(key, "get"),
            45..80 => self.set(key),
            80..90 => {
                if block_on(self.cache().delete(&key.to_le_bytes())).is_ok() {
                    self.oracle.is(key, None);
                }
            }
            90..92 => _ = block_on(self.cache().flush()),
            92..94 => _ = block_on(self.cache().rebuild()),
            94 if self.rng.u32(..8) == 0 => {
                if block_on(self.cache().clear()).is_ok() {
                    self.oracle.0.clear();
                }
            }
            95..97 => self.scan(),
            _ => self
                .clock
                .advance_to(larder_device::Clock::now(&*self.clock) + Duration::from_secs(1)),
        }
    }

    fn scan(&mut self) {
        let mut seen = Vec::new();
        {
            let mut scan = self.cache().scan();
            while let Some(batch) = block_on(scan.next()) {
                for item in batch {
                    let key = u32::from_le_bytes(item.key().try_into().unwrap());
                    seen.push((key, Self::found(item.value())));
                }
            }
        }
        let keys: std::collections::HashSet<u32> = seen.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), seen.len(), "each once");
        seen.into_iter().for_each(|(key, version)| self.oracle.judge(key, Some(version), "scan"));
    }

    /// Closes the cache or crashes it, and opens it again.
    fn restart(&mut self) {
        self.device.set_plan(&FaultPlan::new(1));
        let closes = self.rng.bool();
        let cache = self.cache.take().expect("it is open");
        let had: Vec<u32> = (0..KEYS)
            .filter(|key| closes && block_on(cache.contains(&key.to_le_bytes())).unwrap())
            .collect();
        if closes {
            block_on(cache.close()).unwrap();
        }
        drop(cache);
        self.open();
        if closes {
            let recovery = self.cache().recovery().unwrap();
            assert!(matches!(recovery, Recovery::Clean { .. }), "{recovery:?}");
            let kept = had.iter().filter(|&&key| self.get(key, "after a close")).count();
            assert!(kept * 10 >= had.len() * 9, "{kept} of {} outlive a close", had.len());
        }
    }
}

fn run(case: Case, crash_safety: CrashSafety, seed: u64) {
    let flash = Arc::new(MemoryDevice::holding(vec![0; 2 << 20]));
    let device: Below = Arc::new(FaultDevice::new(flash, &FaultPlan::new(seed)));
    let case = Case { config: Config { crash_safety, ..case.config }, ..case };
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let rng = fastrand::Rng::with_seed(seed);
    let oracle = Oracle::default();
    let mut fixture = Fixture { case, device, clock, cache: None, oracle, rng, version: 0 };
    fixture.open();
    let mut hits = 0;
    for opening in 0..4 {
        if opening == 2 {
            let fails = FaultRule::new(Fault::Error).with_probability(0.01);
            fixture.device.set_plan(&FaultPlan::new(seed).with(fails));
        }
        (0..STEPS / 4).for_each(|_| fixture.step());
        let stats = fixture.cache().stats();
        hits += match fixture.case.tier {
            Tier::SmallObjects => stats.soc_hits,
            _ => stats.loc_hits,
        };
        fixture.restart();
    }
    assert!(hits > 50, "{} was asked: {hits} hits", fixture.case.name);
}

#[test]
fn every_engine_has_the_newest_version_or_none() {
    for seed in 0..12 {
        for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
            for case in cases() {
                let told = format!("{}, {crash_safety:?}, seed {seed}", case.name);
                println!("{told}");
                run(case, crash_safety, seed);
            }
        }
    }
}
