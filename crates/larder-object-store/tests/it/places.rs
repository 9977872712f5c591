//! Where the parts are: one cache for several stores, flash, shards, a tenant.

use std::sync::Arc;

use larder::{
    Config, FileDevice, Larder, LocConfig, RealClock, Shards, Tenant, Tenants, TenantsConfig,
    block_on,
};
use larder_object_store::Options;

use super::CachedStore;
use super::counting::Counting;
use super::object_store::path::Path;
use super::object_store::{ObjectStore, ObjectStoreExt};
use super::reading::settle;
use crate::rig::{self, PART};

const SIZE: u64 = 3 * PART;

async fn read(cached: &dyn ObjectStore, path: &str, version: u32) {
    let bytes = cached.get(&Path::from(path)).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes, rig::bytes_of(version, SIZE));
}

#[tokio::test]
async fn two_stores_in_one_cache_do_not_mix() {
    let cache = rig::cache();
    let mut both = Vec::new();
    for version in [1, 2] {
        let store = Counting::new();
        // The ETags of both are equal.
        store.write("f/o", rig::bytes_of(version, SIZE)).await;
        let name = format!("bucket-{version}");
        let cache = Arc::clone(&cache);
        both.push(CachedStore::with_options(store, cache, &name, rig::immutable()).unwrap());
    }
    for _ in 0..2 {
        for (cached, version) in both.iter().zip([1, 2]) {
            read(cached, "f/o", version).await;
            settle(cached, 3).await;
        }
    }
    assert!(both.iter().all(|cached| cached.metrics().part_hits == 3));
}

#[tokio::test]
async fn stores_of_one_name_with_parts_of_different_sizes_do_not_mix() {
    let store = Counting::new();
    // Its last part has the size of a smaller part.
    store.write("f/o", rig::bytes_of(1, SIZE)).await;
    let cache = rig::cache();
    for part_size in [2 * PART, PART, 4 * PART, PART] {
        let options = Options { part_size, ..rig::immutable() };
        let cache = Arc::clone(&cache);
        let cached = CachedStore::with_options(store.clone(), cache, "b", options).unwrap();
        read(&cached, "f/o", 1).await;
        let metrics = cached.metrics();
        settle(&cached, metrics.part_misses).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_on_flash_that_is_too_small_evicts_and_mixes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = FileDevice::create(directory.path().join("flash"), 16 << 20).unwrap();
    let config = Config {
        dram_bytes: 1 << 20,
        loc: LocConfig { region_bytes: Some(1 << 20), ..LocConfig::default() },
        ..Config::default()
    };
    let cache =
        Arc::new(Larder::open(config, Some(Arc::new(file)), Arc::new(RealClock)).await.unwrap());
    let store = Counting::new();
    let options = rig::immutable();
    let cached =
        CachedStore::with_options(store.clone(), Arc::clone(&cache), "b", options).unwrap();
    // 200 objects of 192 KiB: more than twice the flash.
    for number in 0..200 {
        store.write(&format!("f/{number}"), rig::bytes_of(number, SIZE)).await;
    }
    for round in 0..3 {
        for number in (0..200).map(|at| if round == 1 { 199 - at } else { at }) {
            read(&cached, &format!("f/{number}"), number).await;
        }
    }
    let (metrics, stats) = (cached.metrics(), cache.stats());
    assert!(metrics.part_hits > 0 && metrics.upstream_bytes > 300 * SIZE, "{metrics:?}");
    assert!(stats.hits() > 0 && stats.evicted_objects() > 0, "{stats:?}");
    cache.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cached_is_found_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("flash");
    let store = Counting::new();
    store.write("f/o", rig::bytes_of(1, SIZE)).await;
    for round in 0..2 {
        let cache = Arc::new(Larder::at(&place, 64 << 20).await.unwrap());
        let options = rig::immutable();
        let cached =
            CachedStore::with_options(store.clone(), Arc::clone(&cache), "b", options).unwrap();
        read(&cached, "f/o", 1).await;
        match round {
            0 => settle(&cached, 3).await,
            _ => assert_eq!((store.taken().len(), cached.metrics().part_hits), (0, 3)),
        }
        store.taken();
        cache.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_tenant_and_a_set_of_shards_are_caches_like_others() {
    let config = TenantsConfig {
        dram_bytes: 32 << 20,
        tenants: vec![Tenant::new("lake", 60.0), Tenant::new("pages", 40.0)],
        ..TenantsConfig::default()
    };
    let tenants = Tenants::open(config, None, Arc::new(RealClock)).await.unwrap();
    let lake = tenants.tenant_shared("lake").unwrap();
    let store = Counting::new();
    store.write("f/o", rig::bytes_of(1, SIZE)).await;
    let options: Options = rig::immutable();
    let cached = CachedStore::with_options(store.clone(), lake, "b", options.clone()).unwrap();
    for _ in 0..2 {
        read(&cached, "f/o", 1).await;
        settle(&cached, 3).await;
    }
    assert_eq!(cached.metrics().part_hits, 3);
    assert_eq!(tenants.tenant("pages").unwrap().stats().sets, 0);

    let config = Config { dram_bytes: 32 << 20, ..Config::default() };
    let directory = tempfile::tempdir().unwrap();
    let device = |name: &str| -> Option<Arc<dyn larder::Device>> {
        Some(Arc::new(FileDevice::create(directory.path().join(name), 64 << 20).unwrap()))
    };
    let shards =
        Shards::open(config, vec![device("a"), device("b")], Arc::new(RealClock)).await.unwrap();
    let shards = Arc::new(shards);
    let cached = CachedStore::with_options(store, Arc::clone(&shards), "b", options).unwrap();
    for _ in 0..2 {
        read(&cached, "f/o", 1).await;
        settle(&cached, 3).await;
    }
    assert_eq!(cached.metrics().part_hits, 3);
    block_on(shards.close()).unwrap();
}
