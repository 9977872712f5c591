//! The costs of an answer: device reads and allocations.

use std::sync::Arc;

use allocation_counter::measure;
use larder::{Config, Larder, Route, Routed, Shards, SocConfig, VirtualClock, block_on};
use larder_device::{Device, FileDevice, FileOptions};

const SMALL: std::ops::Range<u32> = 0..600;
const LARGE: std::ops::Range<u32> = 600..900;

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    let length = if SMALL.contains(&number) { 100 } else { 3000 };
    vec![u8::try_from(number % 251).unwrap(); length]
}

/// A cache with all items on flash: it was closed and opened again.
fn reopened(device: &Arc<dyn Device>) -> Larder {
    let config = Config {
        dram_bytes: 64 << 20,
        soc: SocConfig { percent: Some(20.0), ..SocConfig::default() },
        ..Config::default()
    };
    let open = || {
        let clock = Arc::new(VirtualClock::default());
        block_on(Larder::open(config.clone(), Some(Arc::clone(device)), clock)).unwrap()
    };
    let cache = open();
    for number in SMALL.chain(LARGE) {
        block_on(cache.set(&key(number), &value(number), None)).unwrap();
    }
    block_on(cache.close()).unwrap();
    open()
}

fn reads(cache: &Larder) -> u64 {
    let stats = cache.stats();
    stats.soc_bucket_reads + stats.loc_record_reads
}

#[test]
fn a_hit_on_flash_reads_once_and_allocates_at_most_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    let file = FileDevice::open(&path, &FileOptions::default()).unwrap();
    let device: Arc<dyn Device> = Arc::new(file);
    let cache = reopened(&device);
    for (name, numbers) in [("small", SMALL), ("large", LARGE)] {
        let keys: Vec<_> = numbers.map(|number| (key(number), value(number))).collect();
        // The first keys fill the pools of buffers, rings and tables.
        let (warm, measured) = keys.split_at(keys.len() / 2);
        let look_up = |keys: &[(Vec<u8>, Vec<u8>)]| {
            let before = reads(&cache);
            let mut allocations = 0;
            for (key, value) in keys {
                let mut found = None;
                allocations += measure(|| found = block_on(cache.get(key)).unwrap()).count_total;
                assert_eq!(found.as_deref(), Some(&value[..]));
            }
            (reads(&cache) - before, allocations)
        };
        look_up(warm);
        let (reads, allocations) = look_up(measured);
        let hits = measured.len() as u64;
        println!("{name}: {hits} hits, {reads} reads, {allocations} allocations");
        assert_eq!(reads, hits, "{name}");
        assert!(allocations <= hits, "{name}: {allocations} allocations for {hits} hits");
    }
}

#[test]
fn a_hit_in_dram_allocates_nothing() {
    let clock = Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, clock)).unwrap();
    block_on(cache.set(b"bread", b"rye", None)).unwrap();
    let counted = measure(|| {
        assert!(block_on(cache.get(b"bread")).unwrap().is_some());
        assert!(cache.blocking().get(b"bread").unwrap().is_some());
        assert_eq!(cache.blocking().get_with(b"bread", |value, _| value.len()).unwrap(), Some(3));
        let found = cache.blocking().get_many_with(&[b"bread"; 40], |_, _, _| ());
        assert_eq!(found.unwrap(), 40);
        // Overwriting in place allocates nothing either.
        cache.blocking().set(b"bread", b"oat", None).unwrap();
    });
    assert_eq!(counted.count_total, 0);
}

/// A route adds only a step of dispatch.
#[test]
fn a_hit_in_dram_over_a_route_allocates_nothing() {
    let clock = || Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, clock())).unwrap();
    let devices = vec![Some(crate::rig::drive() as _), Some(crate::rig::drive() as _)];
    let config = Config { dram_bytes: 1 << 20, ..crate::rig::config() };
    let shards = block_on(Shards::open(config, devices, clock())).unwrap();
    fn hit<R: Route>(cache: &Routed<R>) {
        block_on(cache.set(b"bread", b"rye", None)).unwrap();
        let counted = measure(|| {
            assert!(block_on(cache.get(b"bread")).unwrap().is_some());
            assert!(cache.blocking().get(b"bread").unwrap().is_some());
            assert_eq!(
                block_on(cache.get_with(b"bread", |value, _| value.len())).unwrap(),
                Some(3)
            );
        });
        assert_eq!(counted.count_total, 0);
    }
    hit(&Routed::new(&cache));
    hit(&shards);
}
