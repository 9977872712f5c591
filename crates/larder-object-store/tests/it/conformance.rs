//! The suite of `object_store` itself, over a cached `InMemory`, with the default options and with trust in heads.

use std::sync::Arc;
use std::time::Duration;

use larder_object_store::Options;

use super::CachedStore;
use super::object_store::integration::{
    copy_if_not_exists, copy_rename_nonexistent_object, get_nonexistent_object, get_opts,
    list_uses_directories_correctly, list_with_delimiter, list_with_offset_exclusivity, multipart,
    multipart_out_of_order, multipart_race_condition, put_get_attributes, put_get_delete_list,
    put_opts, rename_and_copy, stream_get,
};
use super::object_store::memory::InMemory;
use super::object_store::path::Path;
use super::object_store::{Error, ObjectStore};
use crate::rig;

async fn conforms(options: Options) {
    let inner = InMemory::new();
    let store = CachedStore::with_options(inner.clone(), rig::cache(), "suite", options).unwrap();
    let integration: &dyn ObjectStore = &store;
    put_get_delete_list(integration).await;
    get_opts(integration).await;
    list_uses_directories_correctly(integration).await;
    list_with_delimiter(integration).await;
    rename_and_copy(integration).await;
    copy_if_not_exists(integration).await;
    copy_rename_nonexistent_object(integration).await;
    stream_get(integration).await;
    put_opts(integration, true).await;
    multipart(integration, &inner).await;
    multipart_race_condition(integration, true).await;
    multipart_out_of_order(integration).await;
    put_get_attributes(integration).await;
    list_with_offset_exclusivity(integration).await;
    let missing = get_nonexistent_object(integration, Some(Path::from("nonexistent"))).await;
    let error = missing.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(store.metrics().cache_errors, 0);
    assert!(store.metrics().part_hits > 0, "{:?}", store.metrics());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms_and_asks_for_each_head() {
    conforms(Options::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms_with_heads_and_listings_that_are_trusted() {
    let hour = Duration::from_secs(3600);
    conforms(Options { head_ttl: hour, list_ttl: hour, part_size: 64 << 10, ..Options::default() })
        .await;
}

#[tokio::test]
async fn it_is_an_object_store_that_can_be_shared() {
    let store = CachedStore::new(InMemory::new(), rig::cache(), "bucket").unwrap();
    assert_eq!(store.to_string(), "CachedStore(bucket, InMemory)");
    let shared: Arc<dyn ObjectStore> = Arc::new(store.clone());
    let over_shared = CachedStore::new(shared, rig::cache(), "bucket").unwrap();
    put_get_delete_list(&over_shared).await;
    assert!(CachedStore::new(InMemory::new(), rig::cache(), "").is_err());
}
