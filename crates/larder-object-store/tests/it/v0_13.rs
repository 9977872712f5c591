//! The tests with `object_store` 0.13.

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

use larder_object_store::v0_13::CachedStore;
use object_store_0_13 as object_store;
