//! What an array and a set of arrays refuse: each error names the problem and the solution, and leaves the devices
//! unchanged.

use std::sync::Arc;
use std::time::Duration;

use larder::{
    AnyRoute, ArrayConfig, Config, CrashSafety, Error, ErrorKind, Larder, Routed, Shards, Tenant,
    Tenants, TenantsConfig, VALUE_BYTES_MAX, VirtualClock, block_on,
};
use larder_device::{Device, Io, IoBuffer, ModelDevice, PlacementHandle};

use crate::array::with_array;
use crate::rig::{drive_of, key_of, value_of};

const DRIVE_BYTES: u64 = 12 << 20;

type Drives = Vec<Arc<ModelDevice>>;

fn drives(count: usize) -> Drives {
    (0..count).map(|_| drive_of(DRIVE_BYTES, true)).collect()
}

/// Large objects in the array, with DRAM in proportion to the number of shards.
fn settings(shards: u64) -> Config {
    let base = with_array(CrashSafety::Process);
    let array = ArrayConfig { region_bytes: Some(128 << 10), ..base.array };
    Config { dram_bytes: shards * (32 << 10), array, ..base }
}

fn clock(second: u64) -> Arc<VirtualClock> {
    Arc::new(VirtualClock::starting_at(Duration::from_secs(second)))
}

fn open_set(config: Config, drives: &[Arc<ModelDevice>], second: u64) -> Result<Shards, Error> {
    let given = drives.iter().map(|drive| Some(Arc::clone(drive) as _)).collect();
    block_on(Shards::open(config, given, clock(second)))
}

fn open_one(config: Config, drive: &Arc<ModelDevice>) -> Result<Larder, Error> {
    block_on(Larder::open(config, Some(Arc::clone(drive) as _), clock(9000)))
}

/// A single array, and a set of them.
fn both() -> [Routed<AnyRoute>; 2] {
    let one = open_one(settings(1), &drives(1)[0]).unwrap();
    let set = open_set(settings(2), &drives(2), 1000).unwrap();
    [AnyRoute::One(Arc::new(one)), AnyRoute::Shards(Arc::new(set))].map(Routed::new)
}

#[test]
fn what_is_no_key_or_no_value_is_refused() {
    for cache in both() {
        let refused = |key: &[u8], value: &[u8]| {
            let error = block_on(cache.set(key, value, None)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            error.to_string()
        };
        let said = refused(&vec![7; 65_536], b"x");
        assert!(said.contains("key of 65536 bytes: must be at most 65535"), "{said}");
        let value = vec![0; VALUE_BYTES_MAX + 1];
        assert!(refused(b"k", &value).contains("value of 134217729 bytes"));
        // More than a quarter of the array.
        let said = refused(b"k", &value[..6 << 20]);
        assert!(said.contains("flash holds at most"), "{said}");
        for read in [&[7; 65_536][..], &[7; 70_000]] {
            let kind = |error: Option<Error>| error.map(|error| error.kind());
            assert_eq!(kind(block_on(cache.get(read)).err()), Some(ErrorKind::InvalidInput));
            assert_eq!(kind(block_on(cache.delete(read)).err()), Some(ErrorKind::InvalidInput));
        }
        let (key, value) = (vec![7; 65_535], vec![9; 100_000]);
        block_on(cache.set(&key, &value, None)).unwrap();
        assert_eq!(block_on(cache.flush()).unwrap().refused, 0);
        assert_eq!(block_on(cache.get(&key)).unwrap().as_deref(), Some(&value[..]));
        assert!(cache.stats().array_data_written_bytes > 165_535);
    }
}

#[test]
fn what_has_no_time_left_is_stored_as_expired() {
    for cache in both() {
        (0..100).for_each(|key| {
            block_on(cache.set(&key_of(key), &value_of(key, 1, 5000), None)).unwrap();
        });
        assert_eq!(block_on(cache.flush()).unwrap().lost, 0);
        let found = || (0..100).filter(|&key| block_on(cache.get(&key_of(key))).unwrap().is_some());
        assert_eq!(found().count(), 100);
        (0..100).for_each(|key| {
            let no_time = Some(Duration::ZERO);
            block_on(cache.set(&key_of(key), &value_of(key, 2, 5000), no_time)).unwrap();
        });
        assert_eq!(found().count(), 0, "nor what was there before");
        assert_eq!(block_on(cache.flush()).unwrap().lost, 0);
        assert_eq!(found().count(), 0);
    }
}

/// All bytes of the drives.
fn contents(drives: &[Arc<ModelDevice>]) -> Vec<Vec<u8>> {
    let of = |drive: &Arc<ModelDevice>| {
        let piece = |offset| {
            let buffer = IoBuffer::zeroed(1 << 20);
            drive.submit(Io::Read { offset, buffer }).wait().unwrap().as_slice().to_vec()
        };
        (0..DRIVE_BYTES).step_by(1 << 20).flat_map(piece).collect()
    };
    drives.iter().map(of).collect()
}

/// Bytes that were written to the drives, or deallocated there.
fn changed(drives: &[Arc<ModelDevice>]) -> u64 {
    let all = drives.iter().map(|drive| drive.stats());
    all.map(|it| it.host_written_bytes + it.deallocated_bytes + it.zeroed_bytes).sum()
}

/// Checks that opening is refused with this error, and that none of `drives` is written.
#[track_caller]
fn refused(
    drives: &[Arc<ModelDevice>],
    opened: impl FnOnce() -> Option<Error>,
    kind: ErrorKind,
    parts: &[&str],
) {
    let before = changed(drives);
    let error = opened().expect("it must be refused");
    let said = error.to_string();
    assert!(error.kind() == kind && parts.iter().all(|part| said.contains(part)), "{error:?}");
    assert_eq!(changed(drives), before, "a drive was written: {said}");
}

/// A set of three with values, its former third device, and two devices of another set.
fn sets() -> Drives {
    let all = drives(6);
    let use_and_close = |drives: &[Arc<ModelDevice>], second| {
        let cache = open_set(settings(3), drives, second).unwrap();
        (0..200).for_each(|key| {
            block_on(cache.set(&key_of(key), &value_of(key, 1, 5000), None)).unwrap();
        });
        block_on(cache.close()).unwrap();
    };
    use_and_close(&[&all[..2], &all[3..4]].concat(), 1000);
    use_and_close(&all[..3], 2000);
    use_and_close(&all[4..], 3000);
    all
}

#[test]
fn devices_that_are_no_set_are_refused_and_left_alone() {
    let all = sets();
    let before = contents(&all);
    let set = |numbers: &[usize]| -> Drives {
        numbers.iter().map(|&number| Arc::clone(&all[number])).collect()
    };
    let open = |numbers: &[usize]| open_set(settings(3), &set(numbers), 9000).err();
    let foreign = |numbers: &[usize], parts: &[&str]| {
        refused(&all, || open(numbers), ErrorKind::Foreign, parts);
    };
    refused(&all, || open(&[0, 1, 1]), ErrorKind::InUse, &[]);
    foreign(&[0, 1, 4], &["is a shard of another set", "leave it out"]);
    foreign(&[0, 1], &["is one of a set of 3 shards, and 2 devices were given", "give None"]);
    foreign(&[0, 1, 2, 3], &["is one of a set of 3 shards, and 4 devices were given"]);
    // The device that has replaced it since has the newer table.
    foreign(&[0, 2, 3], &["is there twice", "leave one out"]);
    let alone = || open_one(settings(1), &all[0]).err();
    refused(
        &all,
        alone,
        ErrorKind::Foreign,
        &["holds a partition table", "open it as Tenants or Shards"],
    );
    // Data of another program.
    let other = drives(1);
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(0x5a);
    other[0].submit(Io::write(0, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
    let with_other = [&all[..2], &other[..]].concat();
    let open_with = || open_set(settings(3), &with_other, 9000).err();
    refused(&with_other, open_with, ErrorKind::Foreign, &["erase its first"]);
    let alone = || open_one(settings(1), &other[0]).err();
    refused(&other, alone, ErrorKind::Foreign, &["erase its first"]);
    assert!(contents(&all) == before, "not a byte is another one");
    let found = open_set(settings(3), &all[..3], 9000).unwrap();
    let there = |key: &u32| block_on(found.get(&key_of(*key))).unwrap().is_some();
    assert_eq!((0..200).filter(there).count(), 200, "nothing is lost by all that");
}

#[test]
fn budgets_below_what_is_needed_are_refused_before_anything_is_written() {
    let (all, blank) = (sets(), drives(3));
    let with = |change: fn(&mut Config)| {
        let mut config = settings(3);
        change(&mut config);
        config
    };
    let cases: [(Config, &[&str]); 4] = [
        (
            with(|it| it.array.memory_bytes = Some(1 << 10)),
            &["array.memory_bytes = 1024", "needs", "use at least"],
        ),
        (with(|it| it.array.index_bytes = Some(1)), &["array.index_bytes = 1", "use at least"]),
        (with(|it| it.dram_bytes = 100), &["dram_bytes = 100"]),
        (
            with(|it| it.memory_bytes = Some(300 << 10)),
            &["memory_bytes = ", "alone needs", "set at least"],
        ),
    ];
    for (config, parts) in cases {
        for drives in [&all[..3], &blank] {
            let open = || open_set(config.clone(), drives, 9000).err();
            refused(drives, open, ErrorKind::Config, parts);
        }
        let drive = drives(1);
        refused(&drive, || open_one(config.clone(), &drive[0]).err(), ErrorKind::Config, parts);
    }
    let tenants = || {
        let both = ["photos", "pages"].map(|name| Tenant::new(name, 50.0));
        let memory_bytes = Some(300 << 10);
        TenantsConfig { memory_bytes, tenants: both.into(), ..TenantsConfig::default() }
    };
    let parts = ["memory_bytes = 307200: flash of all tenants alone needs", "set at least"];
    let drive = drives(1);
    let open = || block_on(Tenants::open(tenants(), Some(drive[0].clone()), clock(9000))).err();
    refused(&drive, open, ErrorKind::Config, &parts);
    let given = || drive.iter().map(|drive| Some(Arc::clone(drive) as _)).collect();
    let open = || block_on(Tenants::open_sharded(tenants(), given(), clock(9000))).err();
    refused(&drive, open, ErrorKind::Config, &parts);
    let none = open_set(settings(1), &[], 9000).err().unwrap().to_string();
    assert!(none.contains("0 shards: must be 1 to 128"), "{none}");
}

#[test]
fn unequal_devices_are_no_error() {
    let drives = [24_u64, 12, 12].map(|mib| drive_of(mib << 20, true));
    let cache = open_set(settings(3), &drives, 1000).unwrap();
    let home = |key| cache.home_of(&key_of(key));
    let at_first = (0..3000).filter(|&key| home(key) == 0).count();
    assert!((1350..1650).contains(&at_first), "half of the keys, not {at_first} of 3000");
    (0..200).for_each(|key| {
        block_on(cache.set(&key_of(key), &value_of(key, 1, 5000), None)).unwrap();
    });
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = open_set(settings(3), &drives, 2000).unwrap();
    let there = |key: &u32| block_on(cache.get(&key_of(*key))).unwrap().is_some();
    assert_eq!((0..200).filter(there).count(), 200);
}
