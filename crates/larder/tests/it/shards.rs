//! Several devices as shards: they fail independently, come back empty, and never mix up their keys.

use std::sync::Arc;
use std::time::Duration;

use larder::{
    Config, Error, ErrorKind, Shards, Tenant, Tenants, TenantsConfig, VirtualClock, block_on,
};
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice, PlacementHandle,
};

use crate::rig::{config, drive, key_of, value_of, version_in};

const KEYS: u32 = 2000;

type Drives = Vec<Arc<ModelDevice>>;

fn drives(count: usize) -> Drives {
    (0..count).map(|_| drive()).collect()
}

fn given(drives: &[Arc<ModelDevice>]) -> Vec<Option<Arc<dyn Device>>> {
    drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect()
}

fn open_at(devices: Vec<Option<Arc<dyn Device>>>, second: u64) -> Result<Shards, Error> {
    let clock = VirtualClock::starting_at(Duration::from_secs(second));
    let config = Config { dram_bytes: 80 << 10, ..config() };
    block_on(Shards::open(config, devices, Arc::new(clock)))
}

fn refusal(devices: Vec<Option<Arc<dyn Device>>>) -> String {
    let error = open_at(devices, 9000).err().expect("it must be refused");
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    error.to_string()
}

fn fill(cache: &Shards, version: u32) {
    for key in 0..KEYS {
        let bytes = if key.is_multiple_of(10) { 3000 } else { 200 };
        block_on(cache.set(&key_of(key), &value_of(key, version, bytes), None)).unwrap();
    }
}

fn get(cache: &Shards, key: u32) -> Option<u32> {
    Some(version_in(key, &block_on(cache.get(&key_of(key))).unwrap()?))
}

/// Number of keys that are there, by home shard; they must have this version.
fn found(cache: &Shards, version: u32) -> Vec<u32> {
    let mut found = vec![0; cache.shards().count()];
    for key in 0..KEYS {
        if let Some(answer) = get(cache, key) {
            assert_eq!(answer, version, "key {key}");
            found[cache.home_of(&key_of(key))] += 1;
        }
    }
    found
}

#[test]
fn each_shard_has_its_part_of_the_keys_and_keeps_it_in_any_order() {
    let mut drives = drives(4);
    let cache = open_at(given(&drives), 1000).unwrap();
    fill(&cache, 1);
    let before = found(&cache, 1);
    assert!(before.iter().all(|&keys| (400..600).contains(&keys)), "{before:?}");
    let many: Vec<_> = (0..KEYS).map(key_of).collect();
    let many = block_on(cache.get_many(&many)).unwrap();
    assert_eq!(many.iter().flatten().count(), before.iter().sum::<u32>() as usize);
    let sum = cache.stats();
    assert_eq!(sum.sets, u64::from(KEYS));
    assert_eq!(
        cache.shards().map(|shard| shard.cache().unwrap().stats().sets).sum::<u64>(),
        sum.sets
    );
    assert!(cache.shards().all(|shard| shard.down().is_none()));
    block_on(cache.close()).unwrap();
    drives.rotate_left(1);
    drives.swap(0, 2);
    let cache = open_at(given(&drives), 2000).unwrap();
    assert_eq!(found(&cache, 1), before);
}

#[test]
fn a_shard_whose_device_dies_degrades_alone() {
    let drives = drives(3);
    let mut devices = given(&drives);
    let gone = Arc::new(FaultDevice::new(Arc::clone(&drives[1]), &FaultPlan::new(1)));
    devices[1] = Some(Arc::clone(&gone) as _);
    let cache = open_at(devices, 1000).unwrap();
    fill(&cache, 1);
    let before = found(&cache, 1);
    gone.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Gone)));
    let after = found(&cache, 1);
    assert_eq!((after[0], after[2]), (before[0], before[2]), "the others serve on");
    assert!(after[1] < before[1] / 2, "{after:?}: DRAM is all it has");
    let errors: Vec<bool> =
        cache.shards().map(|shard| shard.cache().unwrap().stats().device_errors > 0).collect();
    assert_eq!(errors, [false, true, false]);
    let closed = block_on(cache.close());
    assert!(closed.unwrap_err().to_string().starts_with("shard 1: "));
    drop(cache);
    // The others were nevertheless closed cleanly.
    let cache = open_at(vec![given(&drives)[0].clone(), None, given(&drives)[2].clone()], 2000);
    let after = found(&cache.unwrap(), 1);
    assert_eq!((after[0], after[1], after[2]), (before[0], 0, before[2]));
}

#[test]
fn a_shard_that_was_away_starts_empty() {
    let drives = drives(3);
    let cache = open_at(given(&drives), 1000).unwrap();
    fill(&cache, 1);
    let before = found(&cache, 1);
    block_on(cache.close()).unwrap();
    let without = |number: usize| {
        let mut devices = given(&drives);
        devices[number] = None;
        devices
    };
    let cache = open_at(without(1), 2000).unwrap();
    let down: Vec<bool> = cache.shards().map(|shard| shard.down().is_some()).collect();
    assert_eq!(down, [false, true, false]);
    assert_eq!(found(&cache, 1), [before[0], 0, before[2]]);
    // Its keys change on other shards, and the device does not know.
    fill(&cache, 2);
    assert!(found(&cache, 2)[1] > 0, "others stand in for it");
    block_on(cache.close()).unwrap();
    // It is away again, together with another one.
    let mut devices = without(1);
    devices[2] = None;
    let cache = open_at(devices, 3000).unwrap();
    let now = found(&cache, 2);
    assert!(now[0] > 0 && now[2] == 0, "{now:?}");
    block_on(cache.close()).unwrap();
    let cache = open_at(given(&drives), 4000).unwrap();
    let back = found(&cache, 2);
    assert!(back[0] > 0 && back[2] == 0, "{back:?}: no value from before");
    fill(&cache, 3);
    block_on(cache.close()).unwrap();
    let cache = open_at(given(&drives), 5000).unwrap();
    assert!(found(&cache, 3).iter().all(|&keys| keys > 400), "all is forgiven");
}

/// When this shard last saw the others' tables, they had been written later than its own.
#[test]
fn one_that_went_on_alone_knows_better_than_those_that_were_away() {
    for alone in 0..3 {
        let drives = drives(3);
        let cache = open_at(given(&drives), 1000).unwrap();
        fill(&cache, 1);
        block_on(cache.close()).unwrap();
        let mut devices = vec![None; 3];
        devices[alone] = given(&drives)[alone].clone();
        let cache = open_at(devices, 2000).unwrap();
        fill(&cache, 2);
        block_on(cache.close()).unwrap();
        let cache = open_at(given(&drives), 3000).unwrap();
        let now = found(&cache, 2);
        assert!(now.iter().all(|&keys| keys > 0), "{now:?}: what was stood in for comes home");
        block_on(cache.close()).unwrap();
    }
}

#[test]
fn a_replaced_shard_starts_empty_when_it_is_back() {
    let drives = drives(4);
    let with = |third: usize| given(&[&drives[..2], &drives[third..=third]].concat());
    let cache = open_at(with(2), 1000).unwrap();
    fill(&cache, 1);
    let before = found(&cache, 1);
    block_on(cache.close()).unwrap();
    // A blank device takes its number, and its keys change there.
    let cache = open_at(with(3), 2000).unwrap();
    assert!(cache.shards().all(|shard| shard.down().is_none()));
    assert_eq!(found(&cache, 1), [before[0], before[1], 0]);
    fill(&cache, 2);
    block_on(cache.close()).unwrap();
    for third in [2, 3] {
        let cache = open_at(with(third), 3000).unwrap();
        let now = found(&cache, 2);
        assert_eq!(now[2], 0, "device {third}: no value from before");
        assert!(now[..2].iter().all(|&keys| keys > 400), "the others keep theirs: {now:?}");
        fill(&cache, 2);
        block_on(cache.close()).unwrap();
    }
    // No device has been away since.
    let cache = open_at(with(3), 4000).unwrap();
    assert!(found(&cache, 2).iter().all(|&keys| keys > 400));
    block_on(cache.close()).unwrap();
    let said = refusal(given(&drives));
    assert!(said.contains("is one of a set of 3 shards"), "{said}");
}

#[test]
fn a_device_that_cannot_be_written_is_out_before_anything_is_served() {
    let drives = drives(3);
    let cache = open_at(given(&drives), 1000).unwrap();
    fill(&cache, 1);
    block_on(cache.close()).unwrap();
    let open_with = |rule: FaultRule, second| {
        let mut devices = given(&drives);
        let plan = FaultPlan::new(1).with(rule);
        devices[2] = Some(Arc::new(FaultDevice::new(Arc::clone(&drives[2]), &plan)) as _);
        open_at(devices, second).unwrap()
    };
    let cache = open_with(FaultRule::new(Fault::Error).on_writes(), 2000);
    let down = cache.shards().nth(2).and_then(|shard| shard.down().map(str::to_owned));
    assert!(down.is_some());
    fill(&cache, 2);
    let before = found(&cache, 2);
    block_on(cache.close()).unwrap();
    let cache = open_at(given(&drives), 3000).unwrap();
    assert_eq!(found(&cache, 2), before, "what others stood in for is found");
}

#[test]
fn a_blank_device_takes_the_place_of_a_missing_one() {
    let mut drives = drives(3);
    let cache = open_at(given(&drives), 1000).unwrap();
    fill(&cache, 1);
    let before = found(&cache, 1);
    block_on(cache.close()).unwrap();
    let old = std::mem::replace(&mut drives[0], drive());
    let cache = open_at(given(&drives), 2000).unwrap();
    assert_eq!(found(&cache, 1), [0, before[1], before[2]]);
    block_on(cache.close()).unwrap();
    let twice = vec![Some(old as Arc<dyn Device>), given(&drives)[0].clone(), None];
    assert!(refusal(twice).contains("is there twice"));
}

#[test]
fn devices_that_do_not_belong_together_are_refused() {
    let (three, other) = (drives(3), drives(3));
    drop(open_at(given(&three), 1000).unwrap());
    drop(open_at(given(&other), 2000).unwrap());
    let mixed = [&three[..2], &other[2..]].concat();
    assert!(refusal(given(&mixed)).contains("is a shard of another set"));
    assert!(refusal(given(&three[..2])).contains("is one of a set of 3 shards, and 2 devices"));
    let device: Arc<dyn Device> = Arc::clone(&three[0]) as _;
    let clock = || Arc::new(VirtualClock::starting_at(Duration::from_secs(3000)));
    let tenants =
        TenantsConfig { tenants: vec![Tenant::new("a", 50.0)], ..TenantsConfig::default() };
    let refused = block_on(Tenants::open(tenants, Some(device), clock())).err().unwrap();
    assert!(refused.to_string().contains("is a shard of a set"), "{refused}");
    let none = open_at(vec![None, None], 1000).err().unwrap();
    assert_eq!(none.kind(), ErrorKind::Device);
    assert!(none.to_string().contains("no shard can serve"), "{none}");
}

#[test]
fn each_shard_places_its_streams() {
    let drives = drives(2);
    let cache = open_at(given(&drives), 1000).unwrap();
    fill(&cache, 1);
    for (shard, drive) in cache.shards().zip(&drives) {
        let stats = shard.cache().unwrap().stats();
        let by_handle = drive.stats().host_written_bytes_by_handle;
        let handle = |class| {
            let handle: PlacementHandle = shard.cache().unwrap().placement().handle_of("", class);
            by_handle[usize::from(handle.index())]
        };
        assert_eq!(handle(larder::plan::Class::Soc), stats.soc_written_bytes);
        assert_eq!(handle(larder::plan::Class::Loc), stats.loc_written_bytes);
        assert!(stats.soc_written_bytes > 0 && stats.loc_written_bytes > 0);
    }
}
