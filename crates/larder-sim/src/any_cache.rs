//! What is tried: a cache, or those of several shards, by the same calls.

use larder::{AnyRoute, Larder, Routed, Shards};

/// One cache, or a set of shards.
pub(crate) type Cache = Routed<AnyRoute>;

/// The cache, if it is only one.
pub(crate) fn only(cache: &Cache) -> Option<&Larder> {
    match cache.route() {
        AnyRoute::One(cache) => Some(cache),
        AnyRoute::Shards(_) => None,
    }
}

/// The set, if there are shards.
pub(crate) fn shards_of(cache: &Cache) -> Option<&Shards> {
    match cache.route() {
        AnyRoute::One(_) => None,
        AnyRoute::Shards(shards) => Some(shards),
    }
}
