//! The sizes that the cache accepts and refuses, and its error messages.

use std::sync::Arc;

use larder::{
    Config, ErrorKind, Larder, LocConfig, RealClock, SetOptions, SocConfig, Tiers, VALUE_BYTES_MAX,
    block_on,
};
use larder_device::Device;

use crate::rig::{Rig, config, drive, drive_of};

#[test]
fn impossible_keys_and_values_are_refused() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    let set = |key: &[u8], value: &[u8]| {
        let error = block_on(rig.cache.set(key, value, None)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(set(&vec![7; 65_536], b"x").contains("key of 65536 bytes"));
    assert!(set(b"k", &vec![0; VALUE_BYTES_MAX + 1]).contains("value of 134217729 bytes"));
    assert!(set(b"k", &vec![0; 2 << 20]).contains("flash holds at most"));
    assert!(block_on(rig.cache.get(&[7; 65_536])).is_err());
    assert!(block_on(rig.cache.delete(&[7; 65_536])).is_err());
}

/// An empty key is like any other in DRAM. Flash does not accept it.
#[test]
fn the_empty_key_is_in_dram_alone() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    block_on(rig.cache.set(b"", b"rye", None)).unwrap();
    assert_eq!(block_on(rig.cache.get(b"")).unwrap().as_deref(), Some(&b"rye"[..]));
    let flash_only = SetOptions { tiers: Tiers::FlashOnly, ..SetOptions::default() };
    block_on(rig.cache.set_with(b"", &[7; 300], flash_only)).unwrap();
    let _all = block_on(rig.cache.flush()).unwrap();
    assert_eq!(block_on(rig.cache.get(b"")).unwrap().map(|value| value.len()), Some(300));
    assert!(block_on(rig.cache.delete(b"")).unwrap());
    assert_eq!(block_on(rig.cache.get(b"")).unwrap(), None);
}

#[test]
fn a_refused_value_leaves_no_older_one_behind() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    for too_large in [2 << 20, (16 << 20) + 1] {
        block_on(rig.cache.set(b"k", b"old", None)).unwrap();
        assert!(block_on(rig.cache.set(b"k", &vec![0; too_large], None)).is_err());
        assert_eq!(block_on(rig.cache.get(b"k")).unwrap(), None);
    }
}

#[test]
fn the_longest_key_and_the_largest_value_go_through_flash() {
    let drive = drive_of(160 << 20, true);
    let config = Config {
        dram_bytes: 1 << 20,
        loc: LocConfig { region_bytes: Some(32 << 20), ..LocConfig::default() },
        ..Config::default()
    };
    let rig = Rig::open(config, &drive);
    let (key, value) = (vec![7; 65_535], vec![9; 16 << 20]);
    block_on(rig.cache.set(&key, &value, None)).unwrap();
    block_on(rig.cache.set(b"one byte", b"x", None)).unwrap();
    block_on(rig.cache.set(b"none", b"", None)).unwrap();
    assert_eq!(block_on(rig.cache.get(&key)).unwrap().as_deref(), Some(&value[..]));
    assert_eq!(block_on(rig.cache.get(b"one byte")).unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(block_on(rig.cache.get(b"none")).unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(rig.cache.stats().loc_hits, 1);
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let refuse = |config: Config| {
        let device: Arc<dyn Device> = drive();
        let opened = block_on(Larder::open(config, Some(device), Arc::new(RealClock)));
        let error = opened.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let base = Config::default;
    assert!(
        refuse(Config { soc: SocConfig { percent: Some(120.0), ..base().soc }, ..base() })
            .starts_with("soc.percent = 120")
    );
    assert!(
        refuse(Config { soc: SocConfig { percent: Some(f64::NAN), ..base().soc }, ..base() })
            .starts_with("soc.percent = NaN")
    );
    assert!(refuse(Config { utilization_percent: 0.0, ..base() }).contains("more than 0"));
    assert!(refuse(Config { utilization_percent: 1.0, ..base() }).contains("use more flash"));
    assert!(
        refuse(Config { soc: SocConfig { max_object_bytes: 5000, ..base().soc }, ..base() })
            .contains("1 to 4050")
    );
    assert!(
        refuse(Config { loc: LocConfig { region_bytes: Some(1000), ..base().loc }, ..base() })
            .contains("loc.region_bytes = 1000")
    );
}
