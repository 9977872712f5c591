//! The tests with `object_store` 0.14.

#[path = "bypassing.rs"]
mod bypassing;
#[path = "conformance.rs"]
mod conformance;
#[path = "counting.rs"]
mod counting;
#[path = "freshness.rs"]
mod freshness;
#[path = "places.rs"]
mod places;
#[path = "reading.rs"]
mod reading;
#[path = "sharing.rs"]
mod sharing;
#[path = "writers.rs"]
mod writers;

use larder_object_store::v0_14::CachedStore;
use object_store_0_14 as object_store;

/// Two tests of the suite that only this version has.
#[tokio::test]
async fn it_conforms_to_what_this_version_has_more() {
    use object_store_0_14::integration::{multipart_put_part_out_of_order, multipart_with_opts};
    let inner = object_store_0_14::memory::InMemory::new();
    let store = CachedStore::new(inner.clone(), crate::rig::cache(), "suite").unwrap();
    multipart_with_opts(&store, &inner).await;
    multipart_put_part_out_of_order(&store, &inner).await;
}
