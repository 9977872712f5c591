//! What an opening refuses, its error messages, and what it leaves untouched.

use std::sync::Arc;

use larder::{
    AdmissionPolicy, Config, Error, ErrorKind, Larder, LocConfig, RealClock, Recovery, Shards,
    Tenant, Tenants, TenantsConfig, block_on,
};
use larder_device::label;
use larder_device::{Device, FileDevice, Io, IoBuffer, MemoryDevice, PlacementHandle, SliceDevice};

use crate::rig::{Rig, config, drive};

type Shared = Arc<dyn Device>;

fn open(device: &Shared) -> Result<Larder, Error> {
    block_on(Larder::open(config(), Some(Arc::clone(device)), Arc::new(RealClock)))
}

fn slice(device: &Shared, range: std::ops::Range<u64>) -> Shared {
    Arc::new(SliceDevice::new(Arc::clone(device), range, &[]).unwrap())
}

fn refusal<T>(opened: Result<T, Error>) -> String {
    let error = opened.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    error.to_string()
}

/// Changes the byte at `offset` of a device.
fn change(device: &impl Device, offset: u64, change: impl FnOnce(&mut u8)) {
    let block = offset / 4096 * 4096;
    let read = Io::Read { offset: block, buffer: IoBuffer::zeroed(4096) };
    let mut buffer = device.submit(read).wait().unwrap();
    change(&mut buffer.as_mut_slice()[usize::try_from(offset - block).unwrap()]);
    let handle = PlacementHandle::DEFAULT;
    device.submit(Io::write(block, buffer, handle)).wait().unwrap();
}

#[test]
fn two_caches_never_share_bytes_of_a_device() {
    let drive: Shared = drive();
    let first = open(&drive).unwrap();
    let said = refusal(open(&drive));
    assert!(said.contains("has bytes 0 to 8388608 of the device below; close that one"), "{said}");
    refusal(open(&slice(&drive, 4 << 20..8 << 20)));
    block_on(first.set(b"bread", b"rye", None)).unwrap();
    block_on(first.close()).unwrap();
    let left = open(&slice(&drive, 0..4 << 20));
    let right = open(&slice(&drive, 4 << 20..8 << 20)).expect("the other half");
    drop(left);
    refusal(open(&drive));
    drop(right);
    let _again = open(&drive);
}

/// The cache works in units of 4 KiB: a device supports them if its blocks divide them.
#[test]
fn a_cache_works_on_any_device_whose_blocks_divide_its_own() {
    for block_bytes in [512, 1024, 2048, 4096] {
        // If possible, with a remainder smaller than a block of the cache.
        let bytes = vec![0; (8 << 20) + block_bytes as usize % 4096];
        let device = Arc::new(MemoryDevice::with_blocks(bytes, block_bytes).unwrap());
        let entries = || (0..400_u32).map(|n| (format!("key {n}"), vec![7; 100 + n as usize * 20]));
        let Rig { cache, .. } = Rig::open(config(), &device);
        for (key, value) in entries() {
            block_on(cache.set(key.as_bytes(), &value, None)).unwrap();
        }
        block_on(cache.close()).unwrap();
        let Rig { cache, .. } = Rig::open(config(), &device);
        let found = entries().filter(|(key, value)| {
            let found = block_on(cache.get(key.as_bytes())).unwrap();
            found.inspect(|found| assert!(**found == value[..], "{key}")).is_some()
        });
        let found = found.count();
        assert!(found > 200, "of 400 in blocks of {block_bytes} bytes: {found}");
    }
    for block_bytes in [64, 8192, 16_384] {
        let device = Arc::new(MemoryDevice::with_blocks(vec![0; 8 << 20], block_bytes).unwrap());
        let error = Rig::try_open(config(), &device).err().expect("it must be refused");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(&format!("block_bytes {block_bytes} of memory")));
        assert!(device.bytes().iter().all(|byte| *byte == 0), "nothing was written");
    }
}

#[test]
fn tenants_and_shards_have_their_devices_for_themselves() {
    let (drive, other): (Shared, Shared) = (drive(), drive());
    let tenants = || {
        let tenants = vec![Tenant { config: config(), ..Tenant::new("a", 50.0) }];
        let config = TenantsConfig { dram_bytes: 40 << 10, tenants, ..TenantsConfig::default() };
        block_on(Tenants::open(config, Some(Arc::clone(&drive)), Arc::new(RealClock)))
    };
    let shards = |devices: [&Shared; 2]| {
        let devices = devices.map(|device| Some(Arc::clone(device))).to_vec();
        block_on(Shards::open(config(), devices, Arc::new(RealClock)))
    };
    let has_it = tenants().unwrap();
    refusal(tenants());
    refusal(open(&drive));
    refusal(open(&slice(&drive, 6 << 20..8 << 20)));
    refusal(shards([&other, &drive]));
    drop(has_it);
    drop(tenants().unwrap());
    change(&drive, 0, |byte| *byte ^= 255);
    change(&drive, 4096, |byte| *byte ^= 255);
    let error = open(&drive).err().expect("it is no cache's");
    assert_eq!(error.kind(), ErrorKind::Foreign, "a refused open has claimed nothing");
    refusal(shards([&other, &other]));
}

#[test]
fn a_damaged_superblock_does_not_keep_an_empty_start_away() {
    for bit in 0..80_u64 {
        let drive = drive();
        drop(Rig::open(config(), &drive));
        for copy in label::COPIES {
            change(&*drive, copy + bit / 8, |byte| *byte ^= 1 << (bit % 8));
        }
        let rig = Rig::try_open(Config { start_empty: true, ..config() }, &drive);
        let rig = rig.unwrap_or_else(|error| panic!("bit {bit}: {error}"));
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })), "bit {bit}");
    }
}

#[test]
fn one_copy_of_the_label_is_enough() {
    for copy in label::COPIES {
        let drive = drive();
        let rig = Rig::open(config(), &drive);
        rig.set(1, 1, 100);
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        change(&*drive, copy + 70, |byte| *byte ^= 1);
        assert_eq!(Rig::open(config(), &drive).get(1), Some(1));
    }
}

/// Writes the front of a device as formats up to version 8 began: a superblock in the first block.
fn make_old(device: &impl Device, mark: &[u8; 8]) {
    for copy in label::COPIES {
        for at in 0..96 {
            change(device, copy + at, |byte| *byte = 0);
        }
    }
    for (at, &mark) in (0..).zip(mark) {
        change(device, at, |byte| *byte = mark);
    }
    change(device, 8, |byte| *byte = 8);
}

#[test]
fn another_format_is_refused_and_gives_way_when_asked_to() {
    let later = label::FORMAT_VERSION + 1;
    for version in ["8 or earlier".to_owned(), later.to_string()] {
        let drive = drive();
        let rig = Rig::open(config(), &drive);
        rig.set(1, 1, 100);
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        if version == later.to_string() {
            for copy in label::COPIES {
                change(&*drive, copy + 8, |byte| *byte += 1);
            }
        } else {
            make_old(&*drive, b"LARDERSB");
        }
        let before = drive.stats().host_written_bytes;
        let error = Rig::try_open(config(), &drive).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Foreign);
        let said = format!("a cache in format version {version}, and this program knows 9");
        assert!(error.to_string().contains(&said), "{error}");
        for way_out in ["open it with a program that knows it", "set start_empty to begin"] {
            assert!(error.to_string().contains(way_out), "{error}");
        }
        assert_eq!(drive.stats().host_written_bytes, before, "it is as it was");
        let rig = Rig::open_at(Config { start_empty: true, ..config() }, &drive, 2000);
        let Some(Recovery::Discarded { reason }) = rig.cache.recovery() else { panic!() };
        assert!(reason.contains(&format!("format version {version}")), "{reason}");
        assert_eq!(rig.get(1), None);
        rig.set(2, 1, 100);
        block_on(rig.cache.close()).unwrap();
        assert_eq!(Rig::open_at(config(), &drive, 2001).get(2), Some(1));
    }
}

#[test]
fn another_partition_table_gives_way_when_asked_to() {
    let drive: Shared = drive();
    let open = |start_empty| {
        let tenants = vec![Tenant { config: config(), ..Tenant::new("a", 50.0) }];
        let config =
            TenantsConfig { dram_bytes: 40 << 10, tenants, start_empty, ..Default::default() };
        block_on(Tenants::open(config, Some(Arc::clone(&drive)), Arc::new(RealClock)))
    };
    drop(open(false).unwrap());
    // A later version, a checksum that fails in both copies, and an old table.
    for (at, value) in [(8, 77), (100, 77), (0, 0)] {
        if at == 0 {
            make_old(&drive, b"LARDERPT");
        } else {
            label::COPIES
                .into_iter()
                .for_each(|copy| change(&drive, copy + at, |byte| *byte = value));
        }
        let before = drive.stats().host_written_bytes;
        let error = open(false).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Foreign);
        assert!(error.to_string().contains("set start_empty, or erase"), "{error}");
        assert_eq!(drive.stats().host_written_bytes, before, "it is as it was");
        drop(open(true).unwrap());
        drop(open(false).unwrap());
    }
    let devices = || vec![Some(Arc::clone(&drive))];
    let shards = |start_empty| {
        let config = Config { start_empty, ..config() };
        block_on(Shards::open(config, devices(), Arc::new(RealClock)))
    };
    label::COPIES.into_iter().for_each(|copy| change(&drive, copy + 8, |byte| *byte = 77));
    assert_eq!(shards(false).err().unwrap().kind(), ErrorKind::Foreign);
    drop(shards(true).unwrap());
    drop(shards(false).unwrap());
}

#[test]
fn another_programs_file_is_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter");
    let text = b"Dear Sir or Madam, ".repeat(1000);
    std::fs::write(&path, &text).unwrap();
    assert!(FileDevice::create(&path, 8 << 20).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), text);
}

#[test]
fn sizes_that_cannot_be_meant_are_refused_by_name_and_value() {
    let refused = |config: Config| {
        let error = block_on(Larder::open(config, None, Arc::new(RealClock))).err();
        error.expect("it is refused").to_string()
    };
    let base = Config::default;
    for bytes in [0, 1, 5000, 3 << 30, u32::MAX] {
        let said =
            refused(Config { loc: LocConfig { write_bytes: bytes, ..base().loc }, ..base() });
        assert!(said.starts_with(&format!("loc.write_bytes = {bytes}: must be")), "{said}");
        let said = refused(Config {
            loc: LocConfig { region_bytes: Some(bytes), ..base().loc },
            ..base()
        });
        assert!(said.starts_with(&format!("loc.region_bytes = {bytes}: must be")), "{said}");
    }
    let much = u64::MAX;
    for bytes in [1, 8191, (1 << 40) + 1, 1 << 45, 1 << 50, much] {
        let said = refused(Config { dram_bytes: bytes, ..base() });
        let range = "must be 8192 to 1099511627776, or 0";
        assert!(said.starts_with(&format!("dram_bytes = {bytes}: {range}")), "{said}");
    }
    for bytes in [0, 1, 1 << 45, 1 << 50, much] {
        let said = refused(Config { memory_bytes: Some(bytes), ..base() });
        let range = "must be 8192 to 1099511627776";
        assert!(said.starts_with(&format!("memory_bytes = {bytes}: {range}")), "{said}");
    }
    for bytes in [8192, 1 << 40] {
        let config = Config { dram_bytes: bytes, ..base() };
        let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
        block_on(cache.set(b"bread", &[7; 3000], None)).unwrap();
        assert_eq!(block_on(cache.get(b"bread")).unwrap().as_deref(), Some(&[7; 3000][..]));
    }
    for bytes in [0, 4095, much] {
        let admission = AdmissionPolicy::RejectFirst;
        let said = refused(Config { admission, admission_memory_bytes: bytes, ..base() });
        assert!(said.starts_with(&format!("admission_memory_bytes = {bytes}: must be")), "{said}");
    }
    let tenants = vec![Tenant::new("a", 50.0)];
    let config = TenantsConfig { dram_bytes: much, tenants, ..TenantsConfig::default() };
    let error = block_on(Tenants::open(config, None, Arc::new(RealClock))).err().unwrap();
    assert!(error.to_string().starts_with("dram_bytes = "), "{error}");
}
