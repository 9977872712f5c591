//! What a crash leaves of the array if a region has become unreadable.

use std::sync::Arc;

use larder::config::Demotions;
use larder::plan::Class;
use larder::{ArrayConfig, Config, CrashSafety, Larder, RealClock, SocConfig, block_on};
use larder_device::{Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice};

const FLASH_BYTES: usize = 16 << 20;
const REGION_BYTES: u32 = 64 << 10;
const KEYS: u32 = 1500;

type Drive = Arc<FaultDevice<MemoryDevice>>;

fn open(drive: &Drive) -> Larder {
    let array = ArrayConfig {
        percent: 100.0,
        region_bytes: Some(REGION_BYTES),
        write_bytes: 16 << 10,
        mean_object_bytes: 1024,
        ttl_groups: false,
        reinsertion: false,
        ..ArrayConfig::default()
    };
    let config = Config {
        dram_bytes: 64 << 10,
        soc: SocConfig { percent: Some(0.0), log_percent: Some(0.0), ..SocConfig::default() },
        array,
        crash_safety: CrashSafety::Process,
        // A thread would write at other times in each run, and with such a small log, needed entries might then fill
        // it.
        demotions: Demotions::Callers,
        // Small enough that the ring goes round: it then no longer names these dead keys.
        tombstone_log_bytes: Some(16 << 10),
        hash_seed: Some(1),
        ..Config::default()
    };
    block_on(Larder::open(config, Some(Arc::clone(drive) as _), Arc::new(RealClock))).unwrap()
}

fn set(cache: &Larder, keys: std::ops::Range<u32>) {
    for key in keys {
        block_on(cache.set(&key.to_le_bytes(), &[7; 3000], None)).unwrap();
    }
}

/// A drive on which every second key is deleted, which the tables know; and the offsets of its table regions.
fn crashed() -> (Drive, Vec<u64>) {
    let memory = MemoryDevice::holding(vec![0; FLASH_BYTES]);
    let drive = Arc::new(FaultDevice::new(memory, &FaultPlan::new(1)));
    let cache = open(&drive);
    set(&cache, 0..KEYS);
    let flushed = block_on(cache.flush()).unwrap();
    assert_eq!((flushed.refused, flushed.lost), (0, 0));
    for key in (0..KEYS).step_by(2) {
        assert!(block_on(cache.delete(&key.to_le_bytes())).unwrap());
    }
    set(&cache, KEYS..KEYS + 600);
    let flushed = block_on(cache.flush()).unwrap();
    assert_eq!((flushed.refused, flushed.lost), (0, 0));
    let first = cache.layout().unwrap().array_offset;
    let regions = cache.flash_regions();
    let of_tables = regions.iter().filter(|region| region.class == Some(Class::ArrayTables));
    let at = |number: u32| first + u64::from(number) * u64::from(REGION_BYTES);
    let regions = of_tables.map(|region| at(region.number)).collect();
    drop(cache);
    (drive, regions)
}

/// The newest writing of a table may be in the unreadable region, and the deaths that it knows have been forgotten
/// elsewhere.
#[test]
fn nothing_that_was_deleted_is_back_if_a_region_of_tables_cannot_be_read() {
    let regions = crashed().1;
    assert!(regions.len() > 1, "{regions:?}");
    for start in regions {
        let (drive, _) = crashed();
        let unreadable = FaultRule::new(Fault::Error).on_reads();
        let range = start..start + u64::from(REGION_BYTES);
        drive.set_plan(&FaultPlan::new(1).with(unreadable.within(range)));
        let cache = open(&drive);
        for key in 0..KEYS + 600 {
            let found = block_on(cache.get(&key.to_le_bytes())).unwrap();
            assert!(
                found.is_none() || key >= KEYS || key % 2 == 1,
                "{key} with {start} unreadable"
            );
        }
        assert_eq!(cache.stats().arrays_given_up, 1);
    }
}

/// The beginning of the region shows that it has no tables: everything else stays.
#[test]
fn a_region_of_objects_that_cannot_be_read_to_its_end_costs_no_others() {
    let (drive, of_tables) = crashed();
    let cache = open(&drive);
    let found = |cache: &Larder| {
        let there = |key: &u32| block_on(cache.get(&key.to_le_bytes())).unwrap().is_some();
        (0..KEYS).filter(there).count()
    };
    let before = found(&cache);
    assert_eq!(before, KEYS as usize / 2);
    // After the bytes that are read together with the label.
    let start = cache.layout().unwrap().array_offset + 8 * u64::from(REGION_BYTES);
    drop(cache);
    assert!(!of_tables.contains(&start));
    let end = start + u64::from(REGION_BYTES);
    let unreadable = FaultRule::new(Fault::Error).on_reads().within(end - 4096..end);
    drive.set_plan(&FaultPlan::new(1).with(unreadable));
    let cache = open(&drive);
    let after = found(&cache);
    assert_eq!(cache.stats().arrays_given_up, 0);
    assert!(after < before && after > before - 40, "{after} of {before}");
}
