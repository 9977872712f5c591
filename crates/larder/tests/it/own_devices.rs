//! Tenants on a virtual SSD each: failures of one tenant's dies do not affect the others.

use std::sync::Arc;

use larder::plan::Class;
use larder::{
    Config, ErrorKind, Larder, LocConfig, Recovery, Tenant, Tenants, TenantsConfig, VirtualClock,
    block_on,
};
use larder_blocks::vssd::MemoryKeeper;
use larder_blocks::{BlockStore, DeviceOnBlocks, VssdArray};
use larder_device::{Device, MemoryDevice};
use larder_ssd::nand::{BlockIndex, ChannelIndex, DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId};

use crate::rig::{self, key_of, value_of, version_in};

const NAMES: [&str; 3] = ["flour", "sugar", "salt"];
const KEYS: std::ops::Range<u32> = 0..400;

/// 4 channels of one die each, with blocks of 256 KiB. On the channel of "sugar", no write reaches the end of a block.
fn array() -> (VssdArray, Vec<VssdId>) {
    let geometry = NandGeometry {
        array: DieArray { channels: 4, dies_per_channel: 1 },
        planes: 1,
        bits: 2,
        blocks_per_die: 64,
        pages_per_block: 32,
        page_bytes: 8192,
        mapping_bytes: 4096,
    };
    let dying = geometry.array.dies_of(ChannelIndex(1)).next().unwrap();
    let last = geometry.block_pages() - geometry.stripe_pages();
    let blocks: Vec<BlockIndex> = geometry.blocks_of(dying).collect();
    let program_failures = blocks.into_iter().map(|block| (block, last)).collect();
    let config = RawConfig { page_words: true, program_failures, ..RawConfig::new(geometry) };
    let drive = RawSsd::new(config).unwrap();
    let rates = Throughputs { channel_mb_s: 400, die_mb_s: 400, soft_plane_mb_s: 100 };
    let (images, keeper) = (Box::<MemoryImages>::default(), Box::<MemoryKeeper>::default());
    let array = VssdArray::create(vec![drive], images, keeper, [7; 16], rates).unwrap();
    let request = Request { isolation: Isolation::Channel, mb_s: 0, bytes: 1 };
    let vssds = NAMES.map(|_| array.alloc(request).unwrap()).to_vec();
    (array, vssds)
}

fn config() -> Config {
    let loc = LocConfig { region_bytes: Some(256 << 10), ..rig::config().loc };
    Config { loc, ..rig::config() }
}

fn device(array: &VssdArray, vssd: VssdId) -> Arc<dyn Device> {
    let store: Arc<dyn BlockStore> = Arc::new(array.store(vssd).unwrap());
    let options = config().on_blocks(store.info()).unwrap();
    let device = match store.list().is_empty() {
        true => block_on(DeviceOnBlocks::format(store, &options)),
        false => block_on(DeviceOnBlocks::open(store, &options)),
    };
    Arc::new(device.unwrap())
}

fn tenant(name: &str) -> Tenant {
    Tenant { config: config(), ..Tenant::new(name, 100.0 / 3.0) }
}

fn open(tenants: Vec<(Tenant, Arc<dyn Device>)>) -> Result<Tenants, larder::Error> {
    let config = TenantsConfig { dram_bytes: 192 << 10, ..TenantsConfig::default() };
    block_on(Tenants::open_on(config, tenants, Arc::new(VirtualClock::default())))
}

/// Each tenant has its own version.
fn fill(cache: &Larder, version: u32, dies: bool) {
    for _ in 0..4 {
        for key in KEYS {
            let bytes = if key % 3 == 0 { 300 } else { 12_000 };
            let set = block_on(cache.set(&key_of(key), &value_of(key, version, bytes), None));
            if let Err(error) = set {
                assert!(dies, "{error}");
                assert!(format!("{error:?}").contains("is read-only"), "{error:?}");
            }
        }
    }
}

fn found(cache: &Larder, version: u32) -> usize {
    let answers = KEYS.filter_map(|key| {
        let value = block_on(cache.get(&key_of(key))).unwrap()?;
        assert_eq!(version_in(key, &value), version, "key {key} is of another tenant");
        Some(())
    });
    answers.count()
}

#[test]
fn tenants_on_vssds_of_their_own_outlive_dies_of_others() {
    let (array, vssds) = array();
    let own = NAMES.iter().zip(&vssds).map(|(name, &vssd)| (tenant(name), device(&array, vssd)));
    let tenants = open(own.collect()).unwrap();
    let loc = |name| tenants.placement().handle_of(name, Class::Loc);
    assert_eq!(NAMES.map(loc), [loc("flour"); 3], "each on a device of its own");
    for (version, (name, cache)) in (1..).zip(tenants.iter()) {
        fill(cache, version, name == "sugar");
    }
    let info = |vssd| array.look(|array| array.info(vssd).unwrap()).unwrap();
    assert_eq!(
        vssds.iter().map(|&vssd| info(vssd).read_only).collect::<Vec<_>>(),
        [false, true, false]
    );
    for (version, name) in [(1, "flour"), (3, "salt")] {
        let cache = tenants.tenant(name).unwrap();
        assert_eq!(cache.stats().device_errors, 0, "{name}");
        assert!(found(cache, version) > 300, "{name}");
    }
    let dying = tenants.tenant("sugar").unwrap();
    assert!(dying.stats().device_errors > 0);
    found(dying, 2);
    assert_eq!(tenants.stats().sets, 3 * 4 * u64::from(KEYS.end));
    let closed = block_on(tenants.close());
    if let Err(error) = closed {
        assert!(error.to_string().contains("tenant \"sugar\""), "{error}");
    }
    drop(tenants);
    array.power_cycle().unwrap();
    let own = |at: usize| (tenant(NAMES[at]), device(&array, vssds[at]));
    let tenants = open(vec![own(0), own(2)]).unwrap();
    for (version, (name, cache)) in [1, 3].into_iter().zip(tenants.iter()) {
        assert!(matches!(cache.recovery(), Some(Recovery::Clean { .. })), "{name}");
        assert!(found(cache, version) > 300, "{name}");
    }
    // A read-only virtual SSD cannot be written, so no cache can open there.
    let refused = open(vec![own(1)]).err().unwrap().to_string();
    assert!(refused.starts_with("tenant \"sugar\""), "{refused}");
}

#[test]
fn what_cannot_work_is_refused_with_the_tenant() {
    let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 32 << 20])) };
    let refusal = |tenants| {
        let error = open(tenants).err().unwrap();
        (error.kind(), error.to_string())
    };
    let shared = device();
    let (kind, message) = refusal(vec![
        (tenant("a"), device()),
        (tenant("b"), shared.clone()),
        (tenant("c"), shared),
    ]);
    assert_eq!(kind, ErrorKind::InUse);
    assert!(message.starts_with("tenant \"c\""), "{message}");
    let small = Arc::new(MemoryDevice::holding(vec![0; 64 << 10]));
    let (kind, message) = refusal(vec![(tenant("a"), device()), (tenant("b"), small)]);
    assert_eq!(kind, ErrorKind::Config);
    assert!(message.starts_with("tenant \"b\""), "{message}");
    assert!(refusal(vec![]).1.contains("0 tenants"));
    let config = TenantsConfig { tenants: vec![tenant("a")], ..TenantsConfig::default() };
    let on = vec![(tenant("b"), device())];
    let error = block_on(Tenants::open_on(config, on, Arc::new(VirtualClock::default())));
    assert!(error.err().unwrap().to_string().contains("1 of them have no device"));
}
