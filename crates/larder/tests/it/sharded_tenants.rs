//! Tenants on several devices: each tenant has a part of every device. Devices fail for all tenants or for one, tenants
//! are added and removed on all devices, and keys of different tenants are never mixed up.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use larder::{
    Config, Endurance, Error, ErrorKind, LocConfig, OnChange, RealClock, Recovery, Shards, Tenant,
    Tenants, TenantsConfig, VirtualClock, block_on,
};
use larder_device::label;
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, ModelDevice};

use crate::rig::{self, drive_of, key_of, value_of, version_in};

const MIB: u64 = 1 << 20;
const KEYS: Range<u32> = 0..900;
/// Minimum number of these keys on each of three shards.
const SHARE_MIN: u32 = 230;

type Drives = Vec<Arc<ModelDevice>>;
type Given = Vec<Option<Arc<dyn Device>>>;

fn drives(count: usize) -> Drives {
    (0..count).map(|_| drive_of(16 * MIB, true)).collect()
}

fn given(drives: &Drives) -> Given {
    drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect()
}

fn without(drives: &Drives, number: usize) -> Given {
    let mut devices = given(drives);
    devices[number] = None;
    devices
}

fn config(tenants: &[(&str, f64)]) -> TenantsConfig {
    let tenant = |&(name, percent): &(&str, f64)| Tenant {
        config: rig::config(),
        ..Tenant::new(name, percent)
    };
    let tenants = tenants.iter().map(tenant).collect();
    TenantsConfig { dram_bytes: 240 << 10, tenants, ..TenantsConfig::default() }
}

fn open_at(config: TenantsConfig, devices: Given, second: u64) -> Result<Tenants<Shards>, Error> {
    let clock = VirtualClock::starting_at(Duration::from_secs(second));
    block_on(Tenants::open_sharded(config, devices, Arc::new(clock)))
}

fn two() -> TenantsConfig {
    config(&[("a", 50.0), ("b", 50.0)])
}

fn fill(tenant: &Shards, version: u32, keys: Range<u32>) {
    for key in keys {
        let bytes = if key.is_multiple_of(10) { 3000 } else { 200 };
        block_on(tenant.set(&key_of(key), &value_of(key, version, bytes), None)).unwrap();
    }
}

fn fill_both(tenants: &Tenants<Shards>, version: u32, keys: Range<u32>) {
    for name in ["a", "b"] {
        fill(tenants.tenant(name).unwrap(), version, keys.clone());
    }
}

/// Number of keys that are there, by home shard; they must have this version.
fn found(tenant: &Shards, version: u32, keys: Range<u32>) -> Vec<u32> {
    let mut found = vec![0; tenant.shards().count()];
    for key in keys {
        let name = key_of(key);
        if let Some(value) = block_on(tenant.get(&name)).unwrap() {
            assert_eq!(version_in(key, &value), version, "key {key}");
            found[tenant.home_of(&name)] += 1;
        }
    }
    found
}

fn down(tenants: &Tenants<Shards>, name: &str) -> Vec<bool> {
    tenants.tenant(name).unwrap().shards().map(|shard| shard.down().is_some()).collect()
}

fn errors(tenant: &Shards) -> Vec<bool> {
    let errors = |cache: &larder::Larder| cache.stats().device_errors > 0;
    tenant.shards().map(|shard| shard.cache().is_some_and(errors)).collect()
}

#[test]
fn the_same_key_in_two_tenants_is_two_items_on_every_device() {
    let mut drives = drives(3);
    let tenants = open_at(two(), given(&drives), 1000).unwrap();
    let (a, b) = (tenants.tenant("a").unwrap(), tenants.tenant("b").unwrap());
    fill(a, 1, KEYS);
    fill(b, 2, KEYS);
    let (of_a, of_b) = (found(a, 1, KEYS), found(b, 2, KEYS));
    assert!(of_a.iter().all(|&keys| keys > SHARE_MIN), "{of_a:?}");
    assert_eq!(of_a, of_b, "a key belongs to one device, whosever it is");
    let names: Vec<_> = KEYS.map(key_of).collect();
    let many = block_on(a.get_many(&names)).unwrap();
    assert!(KEYS.zip(&many).all(|(key, value)| version_in(key, value.as_ref().unwrap()) == 1));
    assert!(block_on(a.delete(&key_of(7))).unwrap());
    assert!(block_on(a.get(&key_of(7))).unwrap().is_none());
    assert!(block_on(b.get(&key_of(7))).unwrap().is_some());
    let (sum, sets) = (tenants.stats(), 2 * u64::from(KEYS.end));
    assert_eq!((sum.sets, a.stats().sets + b.stats().sets), (sets, sets));
    fill(a, 1, 7..8);
    let dram_used = || tenants.stats().dram_used_bytes;
    assert!(dram_used() > 150 << 10 && dram_used() <= 240 << 10, "{}", dram_used());
    tenants.set_dram_bytes(120 << 10);
    fill_both_twice(a, b);
    assert!(dram_used() > 60 << 10 && dram_used() <= 120 << 10, "{}", dram_used());
    block_on(tenants.close()).unwrap();
    // The devices are free, although this value still exists.
    drives.rotate_left(1);
    let again = open_at(two(), given(&drives), 2000).unwrap();
    assert!(block_on(a.get(&key_of(7))).is_err(), "it is closed");
    let tenants = again;
    let warm = ["a", "b"].map(|name| tenants.tenant(name).unwrap());
    assert_eq!((found(warm[0], 1, KEYS), found(warm[1], 2, KEYS)), (of_a, of_b));
}

fn fill_both_twice(a: &Shards, b: &Shards) {
    for _ in 0..2 {
        fill(a, 1, KEYS);
        fill(b, 2, KEYS);
    }
}

#[test]
fn each_tenant_places_its_streams_on_every_device() {
    use larder::plan::Class;
    let drives = drives(2);
    let tenants = open_at(two(), given(&drives), 1000).unwrap();
    fill_both(&tenants, 1, 0..3000);
    let plans = tenants.placements();
    assert_eq!(plans.len(), 2);
    for (number, (plan, drive)) in plans.iter().zip(&drives).enumerate() {
        let by_handle = drive.stats().host_written_bytes_by_handle;
        for (name, tenant) in tenants.iter() {
            let stats = tenant.shards().nth(number).unwrap().cache().unwrap().stats();
            let written = |class| by_handle[usize::from(plan.handle_of(name, class).index())];
            assert_eq!(written(Class::Soc), stats.soc_written_bytes, "{name} {number}: {plan}");
            assert_eq!(written(Class::Loc), stats.loc_written_bytes);
            assert!(stats.soc_written_bytes > 0 && stats.loc_written_bytes > 0);
        }
    }
}

/// Calls with many keys go to all caches at once and answer in the order of the keys.
#[test]
fn answers_to_many_keys_come_in_their_order() {
    let tenants = open_at(two(), given(&drives(3)), 1000).unwrap();
    let tenant = tenants.tenant("a").unwrap();
    fill(tenant, 1, KEYS);
    // More than DRAM holds, some twice, some missing.
    let keys: Vec<u32> = (0..1500).map(|at| at * 7 % 1000).collect();
    let names: Vec<_> = keys.iter().map(|&key| key_of(key)).collect();
    let there = |key: u32| KEYS.contains(&key).then_some(key);
    let expected: Vec<_> = keys.iter().map(|&key| there(key)).collect();
    let version = |key: u32, value: &[u8]| (version_in(key, value) == 1).then_some(key);

    let values = block_on(tenant.get_many(&names)).unwrap();
    let looked = keys.iter().zip(&values);
    let looked: Vec<_> = looked.map(|(&key, value)| version(key, value.as_ref()?)).collect();
    assert_eq!(looked, expected);
    let mut shown = vec![None; keys.len()];
    let show = |at: usize, value: &[u8], _| {
        assert!(shown[at].is_none(), "shown twice");
        shown[at] = version(keys[at], value);
    };
    let hits = block_on(tenant.get_many_with(&names, show)).unwrap();
    assert_eq!((hits, &shown), (expected.iter().flatten().count(), &expected));
    let mut buffer = Vec::new();
    let copied = tenant.blocking().get_many_into(&names, &mut buffer).unwrap();
    let mut rest = &buffer[..];
    for ((&key, copied), expected) in keys.iter().zip(copied).zip(expected) {
        let value = copied.map(|copied| rest.split_off(..copied.bytes).unwrap());
        assert_eq!(value.and_then(|value| version(key, value)), expected);
    }
    assert!(rest.is_empty());
    let wrong = block_on(tenant.get_many(&[&b"fine"[..], &[7; 65_536]])).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
    let all: Vec<_> = tenant.blocking().scan().map(|item| item.key().to_vec()).collect();
    assert_eq!(all.len(), KEYS.len(), "each is there once");
}

#[test]
fn a_device_that_dies_costs_each_tenant_its_keys_there_and_nothing_else() {
    let drives = drives(3);
    let mut devices = given(&drives);
    let gone = Arc::new(FaultDevice::new(Arc::clone(&drives[1]), &FaultPlan::new(1)));
    devices[1] = Some(Arc::clone(&gone) as _);
    let tenants = open_at(two(), devices, 1000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    fill(of("a"), 1, KEYS);
    fill(of("b"), 2, KEYS);
    let before = found(of("a"), 1, KEYS);
    gone.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Gone)));
    for (name, version) in [("a", 1), ("b", 2)] {
        let after = found(of(name), version, KEYS);
        assert_eq!((after[0], after[2]), (before[0], before[2]), "the others serve on");
        assert!(after[1] < before[1] / 2, "{after:?}: DRAM is all it has");
        assert_eq!(errors(of(name)), [false, true, false], "{name}: it is counted");
    }
    let closed = block_on(tenants.close()).unwrap_err().to_string();
    assert!(closed.starts_with("tenant \"a\": shard 1: "), "{closed}");
    drop(tenants);
    // The others were nevertheless closed cleanly, for both tenants.
    let tenants = open_at(two(), without(&drives, 1), 2000).unwrap();
    for (name, version) in [("a", 1), ("b", 2)] {
        let after = found(tenants.tenant(name).unwrap(), version, KEYS);
        assert_eq!(after, [before[0], 0, before[2]], "{name}");
        assert_eq!(down(&tenants, name), [false, true, false]);
    }
}

/// A defect in one part affects neither the tenant's other devices nor the device's other tenants.
#[test]
fn a_part_that_cannot_be_read_costs_one_tenant_what_lies_there() {
    let drives = drives(3);
    let mut devices = given(&drives);
    let torn = Arc::new(FaultDevice::new(Arc::clone(&drives[1]), &FaultPlan::new(1)));
    devices[1] = Some(Arc::clone(&torn) as _);
    let tenants = open_at(two(), devices, 1000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    fill(of("a"), 1, KEYS);
    fill(of("b"), 2, KEYS);
    let before = found(of("a"), 1, KEYS);
    // The first half of the device belongs to the first tenant.
    let part = 512 << 10..8 * MIB;
    torn.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).within(part)));
    let after = found(of("a"), 1, KEYS);
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert!(after[1] < before[1] / 2, "{after:?}");
    assert_eq!(found(of("b"), 2, KEYS), before, "the neighbour has lost nothing");
    assert_eq!(errors(of("a")), [false, true, false]);
    assert_eq!(errors(of("b")), [false; 3]);
}

#[test]
fn a_device_that_was_away_starts_empty_for_every_tenant() {
    let drives = drives(3);
    let tenants = open_at(two(), given(&drives), 1000).unwrap();
    fill(tenants.tenant("a").unwrap(), 1, KEYS);
    fill(tenants.tenant("b").unwrap(), 1, KEYS);
    let before = found(tenants.tenant("a").unwrap(), 1, KEYS);
    block_on(tenants.close()).unwrap();
    drop(tenants);
    let tenants = open_at(two(), without(&drives, 1), 2000).unwrap();
    assert_eq!(down(&tenants, "b"), [false, true, false]);
    // During that time one tenant's keys change, on other devices; the other's do not.
    fill(tenants.tenant("a").unwrap(), 2, KEYS);
    assert_eq!(found(tenants.tenant("a").unwrap(), 2, KEYS)[1], before[1], "others stand in");
    block_on(tenants.close()).unwrap();
    drop(tenants);
    // Now another device is away: that the first one was away is recorded only on the third.
    let tenants = open_at(two(), without(&drives, 0), 3000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    let back = found(of("a"), 2, KEYS);
    assert_eq!((back[0], back[2]), (0, before[2]), "nothing from before");
    assert!(0 < back[1] && back[1] < before[1], "what the third one stood in for: {back:?}");
    assert_eq!(found(of("b"), 1, KEYS), [0, 0, before[2]], "per device, not per tenant");
    for name in ["a", "b"] {
        let back = of(name).shards().nth(1).unwrap();
        assert_eq!(back.cache().unwrap().recovery(), Some(Recovery::Fresh));
    }
    block_on(tenants.close()).unwrap();
    drop(tenants);
    for second in [4000, 5000] {
        let tenants = open_at(two(), given(&drives), second).unwrap();
        let of = |name| tenants.tenant(name).unwrap();
        fill(of("a"), 3, KEYS);
        fill(of("b"), 4, KEYS);
        assert_eq!(
            (found(of("a"), 3, KEYS), found(of("b"), 4, KEYS)),
            (before.clone(), before.clone())
        );
        block_on(tenants.close()).unwrap();
    }
}

#[test]
fn a_device_that_cannot_be_written_is_out_for_all_before_anything_is_served() {
    let drives = drives(3);
    let tenants = open_at(two(), given(&drives), 1000).unwrap();
    fill_both(&tenants, 1, KEYS);
    block_on(tenants.close()).unwrap();
    drop(tenants);
    // First the whole device fails, then the part of one tenant: in both cases no tenant has the device.
    for (round, part) in (1..).zip([0..16 * MIB, 8 * MIB..16 * MIB]) {
        let mut devices = given(&drives);
        let rule = FaultRule::new(Fault::Error).on_writes().within(part);
        let plan = FaultPlan::new(1).with(rule);
        devices[2] = Some(Arc::new(FaultDevice::new(Arc::clone(&drives[2]), &plan)) as _);
        let tenants = open_at(two(), devices, 2000 * round).unwrap();
        assert_eq!(down(&tenants, "a"), [false, false, true]);
        fill_both(&tenants, 2, KEYS);
        block_on(tenants.close()).unwrap();
        drop(tenants);
        let tenants = open_at(two(), given(&drives), 2000 * round + 1000).unwrap();
        for name in ["a", "b"] {
            let back = found(tenants.tenant(name).unwrap(), 2, KEYS);
            assert!(back[0] > SHARE_MIN && back[2] > SHARE_MIN, "{name}: {back:?}");
            fill(tenants.tenant(name).unwrap(), 1, KEYS);
        }
        block_on(tenants.close()).unwrap();
    }
}

#[test]
fn more_tenants_than_handles_or_cores_are_found_warm() {
    const TENANTS: u32 = 60;
    let names: Vec<String> = (0..TENANTS).map(|number| format!("tenant-{number}")).collect();
    let config = || {
        let own = Config {
            loc: LocConfig {
                region_bytes: Some(64 << 10),
                write_bytes: 16 << 10,
                ..rig::config().loc
            },
            ..rig::config()
        };
        let tenant = |name: &String| Tenant { config: own.clone(), ..Tenant::new(name, 1.6) };
        TenantsConfig {
            dram_bytes: 2 * MIB,
            tenants: names.iter().map(tenant).collect(),
            ..TenantsConfig::default()
        }
    };
    let mut drives: Drives = (0..3).map(|_| drive_of(64 * MIB, true)).collect();
    let keys = 0..60;
    let tenants = open_at(config(), given(&drives), 1000).unwrap();
    for (version, (name, tenant)) in (1..).zip(tenants.iter()) {
        assert_eq!(name, names[version as usize - 1]);
        fill(tenant, version, keys.clone());
    }
    let before: Vec<_> = (1..)
        .zip(tenants.iter())
        .map(|(version, (_, it))| found(it, version, keys.clone()))
        .collect();
    assert!(before.iter().all(|found| found.iter().sum::<u32>() == keys.end), "{before:?}");
    let stats = block_on(tenants.close()).unwrap();
    assert_eq!(stats.sets, u64::from(TENANTS * keys.end));
    drop(tenants);
    drives.swap(0, 2);
    // In another order of devices and of tenants.
    let reversed =
        TenantsConfig { tenants: config().tenants.into_iter().rev().collect(), ..config() };
    let tenants = open_at(reversed, given(&drives), 2000).unwrap();
    for (version, (name, before)) in (1..).zip(names.iter().zip(before)) {
        assert_eq!(found(tenants.tenant(name).unwrap(), version, keys.clone()), before, "{name}");
    }
}

#[test]
fn tenants_come_and_go_on_all_devices() {
    let drives = drives(3);
    let tenants = open_at(config(&[("a", 30.0), ("b", 40.0)]), given(&drives), 1000).unwrap();
    fill(tenants.tenant("a").unwrap(), 1, KEYS);
    fill(tenants.tenant("b").unwrap(), 2, KEYS);
    block_on(tenants.close()).unwrap();
    drop(tenants);
    let three = config(&[("c", 30.0), ("b", 40.0), ("a", 30.0)]);
    let tenants = open_at(three, given(&drives), 2000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    let all = |found: Vec<u32>| found.iter().sum::<u32>();
    assert_eq!((all(found(of("a"), 1, KEYS)), all(found(of("b"), 2, KEYS))), (KEYS.end, KEYS.end));
    assert_eq!(all(found(of("c"), 3, KEYS)), 0);
    fill(of("c"), 3, KEYS);
    block_on(tenants.close()).unwrap();
    drop(tenants);

    let refused = |config, devices| open_at(config, devices, 9000).err().unwrap();
    let fewer = config(&[("b", 40.0), ("c", 30.0)]);
    let error = refused(fewer.clone(), given(&drives));
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("has a tenant \"a\" with 30 %"), "{error}");
    let resized = config(&[("a", 30.0), ("b", 20.0), ("c", 30.0)]);
    let error = refused(resized.clone(), given(&drives));
    assert!(
        error.to_string().contains("tenant \"b\": flash_percent = 20, but it has 40 %"),
        "{error}"
    );
    // Another tenant is in a's place now, on all devices except the one that is away.
    let dropped =
        TenantsConfig { drop_others: true, ..config(&[("b", 40.0), ("d", 30.0), ("c", 30.0)]) };
    let tenants = open_at(dropped.clone(), without(&drives, 2), 3000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    assert_eq!(all(found(of("d"), 0, KEYS)), 0, "d lies where a lay");
    assert!(found(of("c"), 3, KEYS)[0] > SHARE_MIN);
    block_on(tenants.close()).unwrap();
    drop(tenants);
    // That device is divided again when it is back, and a has nothing there either.
    let dropped = TenantsConfig { drop_others: false, ..dropped };
    let tenants = open_at(dropped, given(&drives), 4000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    let back = found(of("b"), 2, KEYS);
    assert!(back[0] > SHARE_MIN && back[1] > SHARE_MIN && back[2] == 0, "{back:?}");
    block_on(tenants.close()).unwrap();
    drop(tenants);
    let a_again =
        TenantsConfig { drop_others: true, ..config(&[("a", 30.0), ("b", 40.0), ("c", 30.0)]) };
    let tenants = open_at(a_again, given(&drives), 5000).unwrap();
    assert_eq!(all(found(tenants.tenant("a").unwrap(), 0, KEYS)), 0, "its old items are gone");
    block_on(tenants.close()).unwrap();
    drop(tenants);
    let resized = TenantsConfig { on_change: OnChange::Discard, ..resized };
    let tenants = open_at(resized, given(&drives), 6000).unwrap();
    let of = |name| tenants.tenant(name).unwrap();
    assert_eq!(all(found(of("b"), 0, KEYS)), 0);
    assert!(found(of("c"), 3, KEYS)[0] > SHARE_MIN, "and no other loses anything");
    let parts: u64 = tenants.unused_bytes() / MIB;
    assert!((9..14).contains(&parts), "a fifth of three devices of 16: {parts}");
}

/// Offsets of the parts of a device, from its table.
fn part_starts(device: &ModelDevice) -> Vec<u64> {
    let block = read(device, 0);
    let field = |at: usize| u64::from_le_bytes(block.as_slice()[at..at + 8].try_into().unwrap());
    // After the header of the label, the table's fixed fields and its shards; the numbers of parts and shards have 32
    // and 16 bits.
    let parts = usize::try_from(field(64 + 16) & 0xffff_ffff).unwrap();
    let shards = usize::try_from(field(64 + 8) >> 48).unwrap();
    (0..parts).map(|part| field(64 + 32 + 28 * shards + 88 * part)).collect()
}

fn read(device: &ModelDevice, offset: u64) -> IoBuffer {
    let read = Io::Read { offset, buffer: IoBuffer::zeroed(4096) };
    device.submit(read).wait().unwrap()
}

/// One copy of a table may be older than the other, if a write was interrupted, and be the only one left: it must not
/// lead to any cache.
#[test]
fn no_cache_is_left_where_an_old_table_leads() {
    let drives = drives(2);
    drop(open_at(config(&[("a", 30.0), ("b", 40.0)]), given(&drives), 1000).unwrap());
    let before = part_starts(&drives[1]);
    let is_label = |at: u64| read(&drives[1], at).as_slice().starts_with(b"LARDERLB");
    assert!(before.len() == 2 && before.iter().all(|&at| is_label(at)));
    let other = TenantsConfig { drop_others: true, ..config(&[("b", 40.0), ("c", 30.0)]) };
    drop(open_at(other.clone(), without(&drives, 1), 2000).unwrap());
    drop(open_at(other, given(&drives), 3000).unwrap());
    let after = part_starts(&drives[1]);
    assert!(after[0] == before[0] && after[1] != before[1], "{before:?} {after:?}");
    assert!(after.iter().all(|&at| is_label(at)));
    assert!(!is_label(before[1]));
}

#[test]
fn what_was_divided_otherwise_is_refused_and_left_as_it_was() {
    let clock = || Arc::new(RealClock);
    let written =
        |drives: &Drives| drives.iter().map(|it| it.stats().host_written_bytes).sum::<u64>();
    let both = drives(2);
    drop(open_at(two(), given(&both), 1000).unwrap());
    let before = written(&both);
    let foreign = |error: Error, said: &str| {
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    };
    let shards = block_on(Shards::open(rig::config(), given(&both), clock()));
    foreign(
        shards.err().unwrap(),
        "is divided among tenants; open the set with Tenants::open_sharded",
    );
    let alone = block_on(Tenants::open(two(), given(&both)[0].clone(), clock()));
    foreign(
        alone.err().unwrap(),
        "is a shard of a set; open it as Shards, or with Tenants::open_sharded",
    );
    assert_eq!(written(&both), before);

    let one = drives(1);
    drop(block_on(Tenants::open(two(), given(&one)[0].clone(), clock())).unwrap());
    foreign(open_at(two(), given(&one), 1000).err().unwrap(), "open it alone, with Tenants::open");
    let plain = drives(2);
    drop(block_on(Shards::open(rig::config(), given(&plain), clock())).unwrap());
    let error = open_at(two(), given(&plain), 1000).err().unwrap().to_string();
    assert!(
        error.contains("shard 0: ") && error.contains("has a tenant \"shard\" with 100 %"),
        "{error}"
    );
    for count in [0, 129] {
        let error = open_at(two(), vec![None; count], 1000).err().unwrap().to_string();
        assert!(error.contains(&format!("{count} shards: must be 1 to 128")), "{error}");
    }
    let none = open_at(two(), vec![None, None], 1000).err().unwrap();
    assert_eq!(none.kind(), ErrorKind::Device);
    // With `start_empty`, a set without tenants becomes one with tenants, and the other way round.
    let anew = TenantsConfig { start_empty: true, ..two() };
    let tenants = open_at(anew, given(&plain), 2000).unwrap();
    fill(tenants.tenant("a").unwrap(), 1, KEYS);
    block_on(tenants.close()).unwrap();
    drop(tenants);
    let anew = Config { start_empty: true, ..rig::config() };
    let shards = block_on(Shards::open(anew, given(&plain), clock())).unwrap();
    assert_eq!(found(&shards, 0, KEYS), [0, 0]);
}

#[test]
fn settings_that_do_not_fit_are_refused_before_anything_is_written() {
    let drives = drives(2);
    let large = Config {
        loc: LocConfig { region_bytes: Some(64 << 20), ..rig::config().loc },
        ..rig::config()
    };
    let shards = block_on(Shards::open(large.clone(), given(&drives), Arc::new(RealClock)));
    let tenants = TenantsConfig {
        tenants: vec![Tenant { config: large, ..Tenant::new("a", 50.0) }],
        ..TenantsConfig::default()
    };
    let tenants = open_at(tenants, given(&drives), 1000);
    for error in [shards.err().unwrap(), tenants.err().unwrap()] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().starts_with("shard 0: "), "{error}");
    }
    assert!(drives.iter().all(|drive| drive.stats().host_written_bytes == 0), "they are blank");
}

/// Few keys: the following is repeated many times.
const FEW: Range<u32> = 0..60;

/// Two devices, one of which was away when its keys changed from version 1 to 2.
fn one_was_away() -> Drives {
    let drives: Drives = (0..2).map(|_| rig::drive()).collect();
    for (version, devices) in [(1, given(&drives)), (2, without(&drives, 1))] {
        let tenants = open_at(two(), devices, 1000 * u64::from(version)).unwrap();
        fill_both(&tenants, version, FEW);
        block_on(tenants.close()).unwrap();
    }
    drives
}

/// Opens the set when both devices are there again; one of them fails at its request number `at`. If it opens, sets all
/// keys to version 3, and then the process dies. Returns whether the request belonged to the opening, and which shards
/// did not serve.
fn open_until(drives: &Drives, faulty: usize, at: u64) -> (bool, Vec<bool>) {
    let plan = FaultPlan::new(1).with(FaultRule::new(Fault::Gone).at_io(at));
    let device = Arc::new(FaultDevice::new(Arc::clone(&drives[faulty]), &plan));
    let mut devices = given(drives);
    devices[faulty] = Some(Arc::clone(&device) as _);
    let tenants = open_at(two(), devices, 3000).expect("the other one serves");
    let is_of_opening = device.is_down();
    for name in ["a", "b"] {
        for key in FEW {
            // A device that takes no writes causes an error if it had an older value.
            let _ = block_on(tenants.tenant(name).unwrap().set(
                &key_of(key),
                &value_of(key, 3, 200),
                None,
            ));
        }
    }
    (is_of_opening, down(&tenants, "a"))
}

/// During an opening that records which devices are back and which are away, each request may be the last one of its
/// device, and the process may die soon after. Whatever the next opening finds, nothing comes back that was changed
/// while its device did not serve.
#[test]
fn a_device_pulled_out_at_any_request_of_an_opening_brings_nothing_back() {
    let mut pulled = 0;
    for faulty in [0, 1] {
        for at in 0.. {
            let drives = one_was_away();
            let (is_of_opening, away) = open_until(&drives, faulty, at);
            let tenants = open_at(two(), given(&drives), 4000).unwrap();
            for (name, key) in
                ["a", "b"].into_iter().flat_map(|name| FEW.map(move |key| (name, key)))
            {
                let (tenant, name_of_key) = (tenants.tenant(name).unwrap(), key_of(key));
                let value = block_on(tenant.get(&name_of_key)).unwrap();
                let Some(version) = value.map(|value| version_in(key, &value)) else { continue };
                let shard = tenant.home_of(&name_of_key);
                // A shard that served may have lost its last changes; one that did not serve has nothing from before.
                let oldest = if away[shard] || shard == 1 { 3 } else { 2 };
                assert!(version >= oldest, "{name} {key}: {version}, {faulty} pulled out at {at}");
            }
            if !is_of_opening {
                break;
            }
            assert_eq!(away, [faulty == 0, faulty == 1], "it is down, and no other");
            pulled += 1;
        }
    }
    assert!(pulled > 40, "{pulled} requests");
}

#[test]
fn memory_is_one_budget_of_all_tenants_on_all_devices() {
    const ALL: u64 = 6 * MIB;
    let own = Config {
        loc: LocConfig { region_bytes: Some(64 << 10), write_bytes: 16 << 10, ..rig::config().loc },
        ..rig::config()
    };
    let tenants = [("greedy", 50.0, 64 * MIB), ("idle", 50.0, 0)];
    let tenants = tenants.map(|(name, percent, borrow_max)| Tenant {
        config: own.clone(),
        dram_borrow_max_bytes: borrow_max,
        ..Tenant::new(name, percent)
    });
    let config = TenantsConfig {
        memory_bytes: Some(ALL),
        tenants: tenants.to_vec(),
        endurance: Some(Endurance::of_tbw(1)),
        ..TenantsConfig::default()
    };
    let drives: Drives = (0..2).map(|_| drive_of(32 * MIB, true)).collect();
    let tenants = open_at(config, given(&drives), 1000).unwrap();
    let (greedy, idle) = (tenants.tenant("greedy").unwrap(), tenants.tenant("idle").unwrap());
    let set = |tenant: &Shards, key| {
        block_on(tenant.set(&key_of(key), &value_of(key, 1, 1000), None)).unwrap();
        let stats = tenants.stats();
        let sum = stats.dram_used_bytes + stats.flash_memory_bytes;
        assert!(sum <= ALL + ALL / 25, "{sum} of {ALL}");
    };
    (0..12_000).for_each(|key| set(greedy, key));
    let used = |tenant: &Shards| tenant.stats().dram_used_bytes;
    let needed = tenants.stats().flash_memory_bytes;
    let half = (ALL - needed) / 2;
    assert!(used(greedy) > half + half / 2, "{} of {half}: it borrows", used(greedy));
    (0..12_000).for_each(|key| set(idle, key));
    assert!(used(idle) > half - half / 4, "{} of {half}: it has its own back", used(idle));
    tenants.set_memory_bytes(ALL / 2);
    (0..6_000).for_each(|key| set(if key % 2 == 0 { greedy } else { idle }, key));
    let stats = tenants.stats();
    let sum = stats.dram_used_bytes + stats.flash_memory_bytes;
    assert!(sum <= ALL / 2 + ALL / 50, "{sum}");
    let life = stats.drive_life.unwrap();
    let most = drives.iter().map(|drive| drive.stats().media_written_bytes.unwrap()).max();
    assert!(life.written_bytes <= most.unwrap(), "of one drive, not of both");
}

/// A table has copies like any other label.
#[test]
fn a_table_of_tenants_and_shards_outlives_the_loss_of_one_copy() {
    for lost in label::COPIES {
        let drives = drives(2);
        let tenants = open_at(two(), given(&drives), 1000).unwrap();
        fill(tenants.tenant("b").unwrap(), 1, KEYS);
        let before = found(tenants.tenant("b").unwrap(), 1, KEYS);
        block_on(tenants.close()).unwrap();
        drop(tenants);
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(0xee);
        let handle = larder_device::PlacementHandle::DEFAULT;
        drives[0].submit(Io::write(lost, buffer, handle)).wait().unwrap();
        let tenants = open_at(two(), given(&drives), 2000).unwrap();
        assert_eq!(found(tenants.tenant("b").unwrap(), 1, KEYS), before);
    }
}
