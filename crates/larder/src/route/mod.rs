//! Which cache a key belongs to, and the calls over whatever says so.
//!
//! [`Larder`] is one cache. A [`Route`] leads each key to one: a cache to itself, [`Shards`](crate::Shards) to that of
//! a device. The calls are written once over a route, for tasks ([`Routed`]) and for threads that block ([`Blocking`]);
//! `calls.rs` lists them. Whoever writes something on top (types, a server) writes it over a route, and never asks
//! how many caches there are.
//!
//! A call of one key goes to the key's cache as it is: no allocation, no `dyn`, and for a plain cache no step more
//! than its own method. A call of many keys is divided among the caches (`many.rs`); one of everything goes to all of
//! them, and its answers are added up.

mod blocking;
mod calls;
mod many;
mod routed;

use std::sync::Arc;

use crate::cache::Larder;
pub use blocking::Blocking;
pub use routed::Routed;

/// Which cache a key belongs to: always the same one, as long as this is open.
///
/// It cannot be implemented outside of this crate.
///
/// ```
/// use larder::{Error, Larder, Route, block_on};
///
/// /// Over one cache, or shards.
/// async fn warm(cache: &impl Route, keys: &[&str]) -> Result<(), Error> {
///     for key in keys {
///         cache.cache_for(key.as_bytes()).get(key.as_bytes()).await?;
///     }
///     Ok(())
/// }
/// let cache = Larder::in_memory(1 << 20)?;
/// block_on(warm(&cache, &["rye", "oat"]))?;
/// assert_eq!(cache.caches().map(|cache| cache.stats().gets).sum::<u64>(), 2);
/// # Ok::<(), larder::Error>(())
/// ```
pub trait Route: sealed::Held + Send + Sync {
    /// The cache that has `key`, if any has it.
    fn cache_for(&self, key: &[u8]) -> &Larder;

    /// All caches, at least one, always in the same order.
    fn caches(&self) -> impl Iterator<Item = &Larder> + Send;

    /// The place of [`Route::cache_for`] among [`Route::caches`].
    fn position(&self, key: &[u8]) -> usize;

    /// The cache, if there is only one.
    fn only(&self) -> Option<&Larder> {
        let mut caches = self.caches();
        caches.next().filter(|_| caches.next().is_none())
    }
}

/// What is no call of users.
pub(crate) mod sealed {
    /// What is held beside the caches.
    pub trait Held {
        /// All caches have been closed: gives back what is held.
        fn release(&self) {}
    }
}

impl sealed::Held for Larder {}

impl Route for Larder {
    #[inline]
    fn cache_for(&self, _: &[u8]) -> &Larder {
        self
    }

    fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
        std::iter::once(self)
    }

    fn position(&self, _: &[u8]) -> usize {
        0
    }

    fn only(&self) -> Option<&Larder> {
        Some(self)
    }
}

/// What leads to a route is one.
macro_rules! route_by {
    ($(#[$note:meta] $leads:ty, $route:ident => $by:expr;)+) => {$(
        impl<R: Route> sealed::Held for $leads {
            fn release(&self) {
                let $route = self;
                sealed::Held::release($by);
            }
        }

        #[$note]
        impl<R: Route> Route for $leads {
            #[inline]
            fn cache_for(&self, key: &[u8]) -> &Larder {
                let $route = self;
                R::cache_for($by, key)
            }

            fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
                let $route = self;
                R::caches($by)
            }

            fn position(&self, key: &[u8]) -> usize {
                let $route = self;
                R::position($by, key)
            }

            fn only(&self) -> Option<&Larder> {
                let $route = self;
                R::only($by)
            }
        }
    )+};
}

route_by! {
    #[doc = "Borrowed."]
    &R, route => *route;
    #[doc = "Shared."]
    Arc<R>, route => &**route;
    #[doc = "With its calls."]
    Routed<R>, route => route.route();
}
