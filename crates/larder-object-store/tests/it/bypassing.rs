//! What is passed through, and that it is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use larder::block_on;
use larder_object_store::Options;

use super::CachedStore;
use super::counting::Counting;
use super::object_store::path::Path;
use super::object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use super::reading::settle;
use crate::rig::{self, PART};

const SIZE: u64 = 3 * PART;

async fn stored(options: Options) -> (Counting, CachedStore<Counting>) {
    let store = Counting::new();
    for path in ["o", "f/o"] {
        store.write(path, rig::bytes_of(1, SIZE)).await;
    }
    let cached = CachedStore::with_options(store.clone(), rig::cache(), "b", options).unwrap();
    (store, cached)
}

async fn read(cached: &CachedStore<Counting>, path: &str) {
    let bytes = cached.get(&Path::from(path)).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes, rig::bytes_of(1, SIZE));
}

#[tokio::test]
async fn objects_without_a_strong_e_tag_are_passed_through() {
    for is_weak in [false, true] {
        let (store, cached) = stored(rig::options()).await;
        store.state().e_tags.store(is_weak, SeqCst);
        store.state().weak.store(is_weak, SeqCst);
        for _ in 0..4 {
            read(&cached, "o").await;
        }
        let metrics = cached.metrics();
        assert_eq!((metrics.bypassed_no_validator, metrics.part_misses), (4, 0));
        assert!(store.taken().len() <= 5, "only the first is asked for twice");
        // The answer is that of the store, not an old head.
        store.state().inner.delete(&Path::from("o")).await.unwrap();
        assert!(cached.get(&Path::from("o")).await.is_err());
        assert!(cached.head(&Path::from("o")).await.is_err());
    }
}

#[tokio::test]
async fn immutable_objects_need_no_e_tag() {
    let (store, cached) = stored(rig::immutable()).await;
    store.state().e_tags.store(false, SeqCst);
    read(&cached, "f/o").await;
    settle(&cached, 3).await;
    store.taken();
    read(&cached, "f/o").await;
    assert_eq!(store.taken(), []);
}

#[tokio::test]
async fn objects_above_the_limit_are_passed_through() {
    let (store, cached) = stored(Options { max_object: SIZE - 1, ..rig::immutable() }).await;
    for _ in 0..3 {
        read(&cached, "f/o").await;
    }
    assert_eq!(cached.metrics().bypassed_too_large, 3);
    assert!(store.taken().len() >= 3);
    let all = cached.get_ranges(&Path::from("f/o"), &[0..5, 9..10]).await.unwrap();
    assert_eq!(all[1], rig::bytes_of(1, 10)[9..]);
}

#[tokio::test]
async fn other_versions_and_impossible_ranges_are_passed_through() {
    let (_store, cached) = stored(rig::immutable()).await;
    let path = Path::from("f/o");
    read(&cached, "f/o").await;
    settle(&cached, 3).await;
    let version = GetOptions::new().with_version(Some("7"));
    // This store has no versions, and takes no notice.
    cached.get_opts(&path, version).await.unwrap();
    assert_eq!(cached.metrics().bypassed_version, 1);
    assert!(cached.get_range(&path, SIZE..SIZE + 1).await.is_err());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = cached.get_range(&path, 9..3).await;
    assert!(reversed.is_err());
    assert_eq!(cached.metrics().bypassed_range, 2);
}

#[tokio::test]
async fn a_cache_that_fails_costs_requests_and_no_errors() {
    let store = Counting::new();
    store.write("f/o", rig::bytes_of(1, SIZE)).await;
    let cache = rig::cache();
    let options = rig::immutable();
    let cached = CachedStore::with_options(store, Arc::clone(&cache), "b", options).unwrap();
    read(&cached, "f/o").await;
    block_on(cache.close()).unwrap();
    for _ in 0..3 {
        read(&cached, "f/o").await;
    }
    let path = Path::from("f/o");
    cached.put(&path, rig::bytes_of(1, SIZE).into()).await.unwrap();
    read(&cached, "f/o").await;
    assert!(cached.metrics().cache_errors > 0);
}

#[test]
fn numbers_are_text_for_monitoring_systems() {
    let cached = CachedStore::new(Counting::new(), rig::cache(), "lake").unwrap();
    let text = cached.metrics().open_metrics("lake");
    assert!(text.contains("larder_object_store_bypassed_too_large_total{store=\"lake\"} 0\n"));
}
