//! Which cache a key belongs to.

use std::sync::Arc;

use crate::cache::Larder;

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
pub trait Route: Held + Send + Sync {
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

/// What is held beside the caches, which is no call of users.
pub trait Held {
    /// All caches have been closed: gives back what is held.
    fn release(&self) {}
}

impl Held for Larder {}

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
        impl<R: Route> Held for $leads {
            fn release(&self) {
                let $route = self;
                Held::release($by);
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

pub(super) use route_by;

route_by! {
    #[doc = "Borrowed."]
    &R, route => *route;
    #[doc = "Shared."]
    Arc<R>, route => &**route;
}
