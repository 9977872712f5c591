//! The cache under test: one cache, or several shards, through the same calls.

use larder::{AnyRoute, Larder, Routed, Shards};

/// One cache, or a set of shards.
pub(crate) type Cache = Routed<AnyRoute>;

/// The cache, if there is only one.
pub(crate) fn only(cache: &Cache) -> Option<&Larder> {
    match cache.route() {
        AnyRoute::One(cache) => Some(cache),
        AnyRoute::Shards(_) => None,
    }
}

/// The shards, if there are several.
pub(crate) fn shards_of(cache: &Cache) -> Option<&Shards> {
    match cache.route() {
        AnyRoute::One(_) => None,
        AnyRoute::Shards(shards) => Some(shards),
    }
}
