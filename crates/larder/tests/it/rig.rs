//! Common parts of the tests: a small drive, a small cache, and keys and values that identify themselves.

use std::sync::Arc;
use std::time::Duration;

use larder::config::Demotions;
use larder::{Config, Error, ErrorKind, Larder, LocConfig, SocConfig, VirtualClock, block_on};
use larder_device::{Device, ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

/// A drive of 8 MiB in units of 256 KiB with ample over-provisioning.
pub(crate) fn drive() -> Arc<ModelDevice> {
    drive_of(8 << 20, true)
}

pub(crate) fn drive_of(bytes: u64, fdp: bool) -> Arc<ModelDevice> {
    Arc::new(model_of(bytes, fdp))
}

pub(crate) fn model_of(bytes: u64, fdp: bool) -> ModelDevice {
    let geometry = Geometry::with_overprovisioning(bytes, 256 << 10, 60.0).unwrap();
    let config = ManagedConfig { fdp, ..ManagedConfig::new(geometry) };
    ModelDevice::new(config, Payload::Memory).unwrap()
}

/// A cache that is much smaller than the data of the tests: 20 KiB of DRAM, 2 MiB of small objects, regions of 256 KiB.
pub(crate) fn config() -> Config {
    Config {
        dram_bytes: 20 << 10,
        soc: SocConfig { percent: Some(25.0), ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(256 << 10), ..LocConfig::default() },
        // So that the numbers that these tests count are the same in each run.
        demotions: Demotions::Callers,
        hash_seed: Some(1),
        ..Config::default()
    }
}

/// The same cache with a thread that sends demotions.
pub(crate) fn by_thread(config: Config) -> Config {
    Config { demotions: Demotions::Thread, ..config }
}

/// The same with a log of 80 KiB in front of the buckets, which drops no objects for lack of others in their bucket.
pub(crate) fn logged() -> Config {
    Config {
        soc: SocConfig { log_percent: Some(1.0), log_threshold: 1, ..config().soc },
        ..config()
    }
}

pub(crate) struct Rig {
    pub(crate) cache: Larder,
    pub(crate) clock: Arc<VirtualClock>,
}

impl Rig {
    pub(crate) fn open(config: Config, device: &Arc<impl Device + 'static>) -> Self {
        Self::open_at(config, device, 1000)
    }

    pub(crate) fn open_at(config: Config, device: &Arc<impl Device + 'static>, now: u64) -> Self {
        Self::try_open_at(config, device, now).unwrap()
    }

    pub(crate) fn try_open(
        config: Config,
        device: &Arc<impl Device + 'static>,
    ) -> Result<Self, Error> {
        Self::try_open_at(config, device, 1000)
    }

    fn try_open_at(
        config: Config,
        device: &Arc<impl Device + 'static>,
        now: u64,
    ) -> Result<Self, Error> {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(now)));
        let device: Arc<dyn Device> = Arc::clone(device) as _;
        let cache = block_on(Larder::open(config, Some(device), Arc::clone(&clock) as _))?;
        Ok(Self { cache, clock })
    }

    pub(crate) fn set(&self, key: u32, version: u32, bytes: usize) {
        taken(block_on(self.cache.set(&key_of(key), &value_of(key, version, bytes), None)));
    }

    pub(crate) fn set_for(&self, key: u32, version: u32, bytes: usize, ttl: Duration) {
        taken(block_on(self.cache.set(&key_of(key), &value_of(key, version, bytes), Some(ttl))));
    }

    /// The version that the cache has of `key`, after checking that the value is whole and belongs to the key.
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        let value = block_on(self.cache.get(&key_of(key))).unwrap()?;
        Some(version_in(key, &value))
    }

    pub(crate) fn delete(&self, key: u32) -> bool {
        block_on(self.cache.delete(&key_of(key))).unwrap()
    }
}

/// Accepts device errors: a device that takes no writes loses nothing while the cache runs.
fn taken(set: Result<(), Error>) {
    if let Err(error) = set {
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    }
}

pub(crate) fn key_of(key: u32) -> Vec<u8> {
    format!("key-{key:08}").into_bytes()
}

/// A value that starts with key and version and is filled with bytes that depend on both.
pub(crate) fn value_of(key: u32, version: u32, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes.max(12));
    value.extend_from_slice(&key.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    value.extend_from_slice(&u32::try_from(bytes.max(12)).unwrap().to_le_bytes());
    value.resize(bytes.max(12), filler(key, version));
    value
}

pub(crate) fn version_in(key: u32, value: &[u8]) -> u32 {
    let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), key, "a value of another key");
    assert_eq!(word(8) as usize, value.len(), "a value that is not whole");
    let version = word(4);
    assert!(value[12..].iter().all(|&byte| byte == filler(key, version)), "a torn value");
    version
}

fn filler(key: u32, version: u32) -> u8 {
    (key.wrapping_mul(31).wrapping_add(version) % 251).to_le_bytes()[0]
}
