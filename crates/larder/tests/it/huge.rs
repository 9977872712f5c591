//! Values of dozens of MiB: written around DRAM if it is smaller, whole, and across restarts.

use std::sync::Arc;

use larder::{ArrayConfig, Config, LocConfig, Recovery, SocConfig, block_on};
use larder_device::MemoryDevice;

use crate::rig::{Rig, config};

const MIB: usize = 1 << 20;

/// Each word contains its position and the version, so that any misplaced word is detected.
fn value_of(version: u64, bytes: usize) -> Vec<u8> {
    let word = |at: u64| (version << 40 | at).to_le_bytes();
    (0..bytes as u64 / 8).flat_map(word).collect()
}

fn in_array() -> Config {
    let array = ArrayConfig {
        percent: 99.0,
        region_bytes: Some(4 << 20),
        mean_object_bytes: 1 << 20,
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let soc = SocConfig { percent: Some(1.0), log_percent: Some(0.0), ..config().soc };
    Config { dram_bytes: 4 << 20, array, soc, ..config() }
}

fn in_regions() -> Config {
    let loc = LocConfig { region_bytes: Some(4 << 20), ..config().loc };
    let soc = SocConfig { percent: Some(1.0), ..config().soc };
    Config { dram_bytes: 4 << 20, loc, soc, ..config() }
}

fn outlives_restarts(config: &Config) {
    let device = Arc::new(MemoryDevice::holding(vec![0; 240 * MIB]));
    let set = |rig: &Rig, key: &[u8], version, bytes| {
        block_on(rig.cache.set(key, &value_of(version, bytes), None)).unwrap();
    };
    let check = |rig: &Rig| {
        for (key, version, bytes) in [(b"a", 1, 20 * MIB), (b"b", 3, 48 * MIB)] {
            let found = block_on(rig.cache.get(key)).unwrap().expect("it is on flash");
            assert!(found[..] == value_of(version, bytes), "{bytes}");
        }
        assert!(block_on(rig.cache.get(b"c")).unwrap().is_none());
    };
    let rig = Rig::open(config.clone(), &device);
    set(&rig, b"a", 1, 20 * MIB);
    set(&rig, b"b", 2, 20 * MIB);
    set(&rig, b"b", 3, 48 * MIB);
    set(&rig, b"c", 4, 20 * MIB);
    assert!(block_on(rig.cache.delete(b"c")).unwrap());
    check(&rig);
    assert_eq!(rig.cache.stats().dram_hits, 0, "DRAM has no place for them");
    let _ = block_on(rig.cache.flush()).unwrap();
    drop(rig);
    let rig = Rig::open(config.clone(), &device);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
    block_on(rig.cache.rebuild());
    check(&rig);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config.clone(), &device);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
    check(&rig);
}

#[test]
fn an_array_keeps_values_of_20_and_48_mib() {
    outlives_restarts(&in_array());
}

#[test]
fn the_large_object_engine_keeps_values_of_20_and_48_mib() {
    outlives_restarts(&in_regions());
}

#[test]
fn dram_keeps_what_it_has_a_place_for() {
    let config = Config { dram_bytes: 200 << 20, ..config() };
    let rig = Rig::open(config, &Arc::new(MemoryDevice::holding(vec![0; 8 * MIB])));
    let key = b"one for which 25 bits of a length are too few";
    let options = larder::SetOptions { flags: 5, ..Default::default() };
    block_on(rig.cache.set_with(key, &value_of(1, 48 * MIB), options)).unwrap();
    let found = block_on(rig.cache.get(key)).unwrap().unwrap();
    assert!(found[..] == value_of(1, 48 * MIB) && found.flags() == 5);
    // Replaced, and made longer.
    block_on(rig.cache.set(key, &value_of(2, 48 * MIB), None)).unwrap();
    assert!(block_on(rig.cache.append(key, b"the end")).unwrap());
    let found = block_on(rig.cache.get(key)).unwrap().unwrap();
    assert!(found[..48 * MIB] == value_of(2, 48 * MIB) && found[48 * MIB..] == *b"the end");
    assert!(block_on(rig.cache.delete(key)).unwrap());
}
