//! The cache on an append-only store: it serves, is killed, and comes back, and nearly everything that it writes is
//! written once.

use std::sync::Arc;

use larder::{ArrayConfig, Config, ErrorKind, LocConfig, Recovery, SocConfig, SocLayout, block_on};
use larder_blocks::{
    BlockStore, BlocksOnDevice, BlocksOptions, DeviceOnBlocks, DeviceOnBlocksOptions, MemoryBlocks,
};
use larder_device::Device;
use larder_device::plan::Class;

use crate::rig::{Rig, config, drive_of};

const BLOCK_BYTES: u64 = 256 << 10;

fn device(store: &Arc<dyn BlockStore>, options: &DeviceOnBlocksOptions) -> Arc<DeviceOnBlocks> {
    let store = Arc::clone(store);
    let device = match store.list().is_empty() {
        true => block_on(DeviceOnBlocks::format(store, options)),
        false => block_on(DeviceOnBlocks::open(store, options)),
    };
    Arc::new(device.unwrap())
}

/// Fills the cache several times over, and changes and deletes some objects.
fn work(rig: &Rig, round: u32) {
    for key in 0..600 {
        rig.set(key, round, if key % 3 == 0 { 300 } else { 20_000 + key as usize });
        if key % 50 == 7 {
            rig.delete(key - 5);
        }
    }
}

/// Checks that objects are of the latest round and not deleted, and that there are enough of them.
fn check(rig: &Rig, round: u32) {
    let found = (0..600).filter(|&key| match rig.get(key) {
        Some(version) => {
            assert_eq!(version, round, "key {key}");
            assert!(key % 50 != 2, "key {key} was deleted");
            true
        }
        None => false,
    });
    let found = found.count();
    assert!(found > 150, "{found} objects, in round {round}");
}

fn lives(config: &Config, store: Arc<dyn BlockStore>, reopen: impl Fn() -> Arc<dyn BlockStore>) {
    let options = config.on_blocks(store.info()).unwrap();
    let mut on = device(&store, &options);
    let rig = Rig::open(config.clone(), &on);
    assert_eq!(rig.cache.recovery(), Some(Recovery::Fresh));
    work(&rig, 1);
    check(&rig, 1);
    drop((rig, on, store));
    for round in 2..5 {
        on = device(&reopen(), &options);
        let rig = Rig::open(config.clone(), &on);
        let recovery = rig.cache.recovery();
        // After a kill, the cache recovers from the crash; every other round closes.
        let as_expected = match round % 2 {
            0 => matches!(recovery, Some(Recovery::Crashed { .. })),
            _ => matches!(recovery, Some(Recovery::Clean { .. })),
        };
        assert!(as_expected, "{recovery:?} in round {round}");
        block_on(rig.cache.rebuild());
        check(&rig, round - 1);
        work(&rig, round);
        check(&rig, round);
        assert_eq!(rig.cache.stats().device_errors, 0);
        if round % 2 == 0 {
            block_on(rig.cache.close()).unwrap();
        }
    }
}

#[test]
fn a_cache_on_blocks_comes_back() {
    let drive = drive_of(24 << 20, true);
    let blocks = BlocksOptions { block_bytes: BLOCK_BYTES, journal_log_pages: None };
    let format = BlocksOnDevice::format(drive.clone(), &blocks);
    let store = Arc::new(block_on(format).unwrap());
    lives(&config(), store, || Arc::new(block_on(BlocksOnDevice::open(drive.clone())).unwrap()));
}

/// A region is several blocks; there is also a log in front of the buckets.
#[test]
fn a_region_may_be_several_blocks() {
    let with = |region_bytes, ru_aware_eviction| Config {
        loc: LocConfig { region_bytes: Some(region_bytes), ru_aware_eviction, ..config().loc },
        soc: SocConfig { log_percent: Some(5.0), ..config().soc },
        ..config()
    };
    for config in [with(512 << 10, false), with(768 << 10, true)] {
        let store: Arc<dyn BlockStore> =
            Arc::new(MemoryBlocks::new(80, BLOCK_BYTES, 4096).unwrap());
        let again = Arc::clone(&store);
        lives(&config, store, || Arc::clone(&again));
    }
}

fn paged(percent: f64) -> SocConfig {
    let (layout, pages_per_set) = (Some(SocLayout::Pages), Some(160));
    SocConfig { layout, pages_per_set, percent: Some(percent), ..SocConfig::default() }
}

/// Regions of pages by set are blocks, like those of large objects, whatever lies before them.
#[test]
fn pages_by_set_on_blocks_come_back() {
    let loc = |region_bytes| LocConfig { region_bytes: Some(region_bytes), ..config().loc };
    let array = ArrayConfig {
        percent: 75.0,
        region_bytes: Some(u32::try_from(BLOCK_BYTES).unwrap()),
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let with = |soc, loc| Config { soc, loc, ..config() };
    let odd = Config { utilization_percent: 91.3, ..with(paged(25.0), loc(256 << 10)) };
    for (config, together) in [
        (with(paged(25.0), loc(256 << 10)), 1),
        (with(paged(75.0), loc(768 << 10)), 3),
        (odd, 1),
        (Config { array, ..with(paged(25.0), config().loc) }, 1),
    ] {
        let store: Arc<dyn BlockStore> =
            Arc::new(MemoryBlocks::new(90, BLOCK_BYTES, 4096).unwrap());
        let options = config.on_blocks(store.info()).unwrap();
        assert_eq!(options.slots_together, together, "{options:?}");
        let again = Arc::clone(&store);
        lives(&config, Arc::clone(&store), || Arc::clone(&again));
        let on = device(&store, &options);
        let layout = *Rig::open(config, &on).cache.layout().unwrap();
        let region_bytes = u64::from(together) * BLOCK_BYTES;
        assert_eq!(u64::from(layout.soc_page_region_bytes), region_bytes);
        assert_eq!((layout.soc_offset - options.front_bytes) % region_bytes, 0, "{layout:?}");
        assert_eq!(options.capacity_bytes - options.tail_bytes, layout.usable_bytes);
    }
}

/// With fewer than 10 regions in blocks, they are parts of a block, and mapped; also if those of large objects are
/// other numbers of blocks.
#[test]
fn a_share_of_few_blocks_is_mapped() {
    let region = |blocks, region_bytes, percent| {
        let store: Arc<dyn BlockStore> =
            Arc::new(MemoryBlocks::new(blocks, BLOCK_BYTES, 4096).unwrap());
        let loc = LocConfig { region_bytes, ..config().loc };
        let config = Config { soc: paged(percent), loc, ..config() };
        let options = config.on_blocks(store.info()).unwrap();
        let on = device(&store, &options);
        let layout = *Rig::open(config, &on).cache.layout().unwrap();
        let is_mapped = options.tail_bytes >= layout.soc_bytes();
        (layout.soc_page_region_bytes >> 10, is_mapped, options.slots_together)
    };
    let (kib, is_mapped, together) = region(80, Some(256 << 10), 10.0);
    assert!(kib < 256 && is_mapped && together == 1, "{kib} {is_mapped} {together}");
    assert_eq!(region(80, Some(256 << 10), 30.0), (256, false, 1));
    assert_eq!(region(80, Some(512 << 10), 30.0), (512, false, 2));
    assert_eq!(region(80, None, 30.0), (256, true, 4), "large objects have regions of 1 MiB");
}

/// Regions of the array are blocks, like those of large objects.
#[test]
fn an_array_on_blocks_comes_back() {
    // Buckets have the rest.
    let array = ArrayConfig {
        percent: 75.0,
        region_bytes: Some(u32::try_from(BLOCK_BYTES).unwrap()),
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let config = Config { array, ..config() };
    let store: Arc<dyn BlockStore> = Arc::new(MemoryBlocks::new(80, BLOCK_BYTES, 4096).unwrap());
    let again = Arc::clone(&store);
    lives(&config, Arc::clone(&store), || Arc::clone(&again));
    let options = config.on_blocks(store.info()).unwrap();
    let slots = options.capacity_bytes - options.front_bytes - options.tail_bytes;
    assert!(slots * 10 > options.capacity_bytes * 6, "{options:?}");
    assert_eq!(slots % BLOCK_BYTES, 0, "{options:?}");
}

/// Buckets die at random, tombstones in order: they are kept apart if there are enough blocks.
#[test]
fn small_objects_have_a_handle_of_their_own() {
    let store: Arc<dyn BlockStore> =
        Arc::new(MemoryBlocks::new(200, BLOCK_BYTES / 4, 4096).unwrap());
    let loc = LocConfig { region_bytes: Some(256 << 10), ..config().loc };
    let config = Config { loc, ..config() };
    let again = Arc::clone(&store);
    lives(&config, Arc::clone(&store), || Arc::clone(&again));
    let options = config.on_blocks(store.info()).unwrap();
    let on = device(&store, &options);
    let rig = Rig::open(config, &on);
    work(&rig, 9);
    let plan = rig.cache.placement();
    let soc = plan.handle_of("", Class::Soc);
    assert_ne!(soc, plan.handle_of("", Class::Metadata), "{plan:?}");
    let by_handle = on.stats().host_written_bytes_by_handle;
    assert!(by_handle[usize::from(soc.index())] > 0, "{by_handle:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_out() {
    let refusal = |config: Config, blocks| {
        let store = MemoryBlocks::new(blocks, BLOCK_BYTES, 4096).unwrap();
        let error = config.on_blocks(store.info()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let loc = |region_bytes| LocConfig { region_bytes: Some(region_bytes), ..config().loc };
    let odd = refusal(Config { loc: loc(384 << 10), ..config() }, 80);
    assert!(odd.contains("set loc.region_bytes = 524288"), "{odd}");
    let part = refusal(Config { loc: loc(64 << 10), ..config() }, 80);
    assert!(part.contains("set loc.region_bytes = 262144"), "{part}");
    let array = |percent, region_bytes| ArrayConfig {
        percent,
        region_bytes: Some(region_bytes),
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let odd = refusal(Config { array: array(75.0, 64 << 10), ..config() }, 80);
    assert!(odd.contains("set array.region_bytes = 262144"), "{odd}");
    let both = ArrayConfig { min_object_bytes: 30_000, ..array(40.0, 256 << 10) };
    let two = refusal(Config { array: both, ..config() }, 80);
    assert!(two.contains("array.percent: leaves room"), "{two}");
    let few = refusal(config(), 2);
    assert!(few.contains("use more"), "{few}");
}

/// The LOC on raw blocks has DLWA 1.00; with label, tombstones and small objects at most 1.05.
#[test]
#[allow(clippy::cast_precision_loss)]
fn what_is_written_in_order_is_written_once() {
    let store: Arc<dyn BlockStore> = Arc::new(MemoryBlocks::new(160, 1 << 20, 4096).unwrap());
    let config = Config {
        soc: SocConfig { percent: Some(2.0), ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(1 << 20), ..LocConfig::default() },
        ..config()
    };
    let options = config.on_blocks(store.info()).unwrap();
    let on = device(&store, &options);
    let rig = Rig::open(config, &on);
    let mut rng = fastrand::Rng::with_seed(1);
    while on.stats().host_written_bytes < 8 * options.capacity_bytes {
        let key = rng.u32(..20_000);
        let bytes =
            if rng.u32(..8) == 0 { rng.usize(50..1000) } else { rng.usize(4 << 10..120 << 10) };
        rig.set(key, 1, bytes);
    }
    let (stats, counts, cache) = (on.stats(), on.counts(), rig.cache.stats());
    let pages = counts.page_bytes;
    let area = pages + counts.header_bytes + counts.moved_bytes;
    let regions = stats.host_written_bytes - pages;
    let regions_media = stats.media_written_bytes.unwrap() - area;
    println!(
        "LOC on raw blocks: DLWA {:.4} ({} MiB); random area: {:.2} ({} MiB of pages, {} of headers, {} moved); \
         together: {:.4}",
        regions_media as f64 / regions as f64,
        regions >> 20,
        area as f64 / pages as f64,
        pages >> 20,
        counts.header_bytes >> 20,
        counts.moved_bytes >> 20,
        stats.dlwa().unwrap()
    );
    assert_eq!(regions_media, regions + counts.padded_bytes, "to the byte");
    assert_eq!(counts.padded_bytes, 0);
    assert!(cache.loc_evicted_objects + cache.soc_evicted_objects > 0, "it went round");
    assert!(stats.dlwa().unwrap() <= 1.05, "{stats:?}");
}

/// Pages by set leave in the order in which they came: cleaning has nothing to do with them.
#[test]
#[allow(clippy::cast_precision_loss)]
fn small_objects_in_pages_are_written_once() {
    let play = |soc: SocConfig| {
        let store: Arc<dyn BlockStore> =
            Arc::new(MemoryBlocks::new(120, BLOCK_BYTES, 4096).unwrap());
        let config = Config { soc, dram_bytes: 1 << 20, ..config() };
        let options = config.on_blocks(store.info()).unwrap();
        let mut on = device(&store, &options);
        let mut rig = Rig::open(config.clone(), &on);
        let mut media_before = 0;
        let mut rng = fastrand::Rng::with_seed(3);
        let mut versions = vec![0; 100_000];
        for round in 0..300_000_u32 {
            let key = rng.u32(..100_000);
            let bytes = if rng.u32(..50) == 0 { 20_000 } else { rng.usize(100..300) };
            let version = &mut versions[key as usize];
            if let Some(found) = rig.get(key) {
                assert_eq!(found, *version, "key {key}");
                continue;
            }
            *version += 1;
            rig.set(key, *version, bytes);
            if round == 100_000 {
                // A kill, in the middle of regions of both engines.
                drop((rig, on));
                on = device(&store, &options);
                media_before = on.stats().media_written_bytes.unwrap();
                rig = Rig::open(config.clone(), &on);
            }
        }
        let stats = rig.cache.stats();
        assert_eq!(stats.device_errors, 0, "{stats:?}");
        let media = on.stats().media_written_bytes.unwrap() - media_before;
        (media as f64 / on.stats().host_written_bytes as f64, stats)
    };
    let (dlwa, stats) = play(SocConfig { pages_per_set: Some(24), ..paged(40.0) });
    assert!(stats.soc_reclaimed_regions > 10 && stats.soc_hits > 1000, "{stats:?}");
    assert!((1.0..1.02).contains(&dlwa), "{dlwa}");
    let buckets = SocConfig { layout: Some(SocLayout::Buckets), ..SocConfig::default() };
    let (dlwa, _) = play(SocConfig { percent: Some(40.0), ..buckets });
    assert!(dlwa > 1.5, "{dlwa}");
}
