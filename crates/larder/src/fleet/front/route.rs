//! Routes from keys to caches.

use std::sync::Arc;

use crate::cache::Larder;
use crate::fleet::shards::ShardMap;

/// Leads keys to caches: to one, or to those of several shards.
///
/// It cannot be implemented outside of this crate. To call the cache with keys use a [`Routed`](crate::Routed) over
/// it.
///
/// ```
/// use larder::{Error, Larder, Route, Routed, block_on};
///
/// /// Over one cache, or shards.
/// async fn warm(cache: &impl Route, keys: &[&str]) -> Result<(), Error> {
///     for key in keys {
///         Routed::new(cache).get(key.as_bytes()).await?;
///     }
///     Ok(())
/// }
/// let cache = Larder::in_memory(1 << 20)?;
/// block_on(warm(&cache, &["rye", "oat"]))?;
/// assert_eq!(cache.caches().map(|cache| cache.stats().gets).sum::<u64>(), 2);
/// # Ok::<(), larder::Error>(())
/// ```
pub trait Route: Sealed + Send + Sync {
    /// One cache, or shards.
    fn lead(&self) -> Lead<'_>;

    /// The cache that is asked first for `key`, to read its properties. Over shards, calls of that cache are not
    /// calls of the set, and another cache may be the first one a moment later.
    fn cache_for(&self, key: &[u8]) -> &Larder {
        match self.lead() {
            Lead::One(cache) => cache,
            Lead::Shards(shards) => shards.cache_for(key),
        }
    }

    /// All caches that are in use now, at least one, in a fixed order.
    fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
        let (one, shards) = match self.lead() {
            Lead::One(cache) => (Some(cache), None),
            Lead::Shards(shards) => (None, Some(shards)),
        };
        one.into_iter().chain(shards.into_iter().flat_map(ShardMap::caches))
    }
}

/// Where a [`Route`] leads.
#[derive(Clone, Copy)]
pub enum Lead<'a> {
    /// All keys lead to one cache.
    One(&'a Larder),
    /// Each key leads to the cache of a shard.
    Shards(&'a ShardMap),
}

/// Prevents implementations of [`Route`] outside of this crate.
pub trait Sealed {}

impl Sealed for Larder {}

impl Route for Larder {
    #[inline]
    fn lead(&self) -> Lead<'_> {
        Lead::One(self)
    }
}

impl Sealed for ShardMap {}

impl Route for ShardMap {
    #[inline]
    fn lead(&self) -> Lead<'_> {
        Lead::Shards(self)
    }
}

/// A type that leads to a route is a route.
macro_rules! route_by {
    ($(#[$note:meta] $leads:ty, $route:ident => $by:expr;)+) => {$(
        impl<R: Route> Sealed for $leads {}

        #[$note]
        impl<R: Route> Route for $leads {
            #[inline]
            fn lead(&self) -> Lead<'_> {
                let $route = self;
                R::lead($by)
            }
        }
    )+};
}

pub(super) use route_by;

route_by! {
    #[doc = "Borrowed."]
    &R, route => *route;
    #[doc = "Shared."]
    Arc<R>, route => &**route;
}
