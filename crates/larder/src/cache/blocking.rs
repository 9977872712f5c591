//! The cache for plain threads: the same calls, which return when they are done.

use std::time::Duration;

use larder_device::block_on;

use super::{Cas, Flushed, Larder, Scanned, SetOptions};
use crate::error::Error;
use crate::key::{KeyHash, check_key};
use crate::value::Value;

/// The calls of [`Larder`] for threads that may block. A hit in DRAM returns at once.
///
/// ```
/// # use std::sync::Arc;
/// # use larder::{Config, Larder, RealClock, block_on};
/// # fn main() -> Result<(), larder::Error> {
/// let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
/// let cache = cache.blocking();
/// cache.set(b"bread", b"rye", None)?;
/// assert_eq!(cache.get(b"bread")?.as_deref(), Some(&b"rye"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Blocking<'a>(&'a Larder);

impl Larder {
    /// The same cache for threads that may block.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.blocking().get(b"bread")?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn blocking(&self) -> Blocking<'_> {
        Blocking(self)
    }
}

impl Blocking<'_> {
    /// See [`Larder::get`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(cache.get(b"bread")?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get(self, key: &[u8]) -> Result<Option<Value>, Error> {
        check_key(key)?;
        let hash = KeyHash::of(key);
        match self.0.get_at_once(hash, key) {
            Some(value) => Ok(Some(value)),
            None => block_on(self.0.get_below_dram(hash, key)),
        }
    }

    /// See [`Larder::get_many`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.get_many(&["rye", "oat"])?, [None, None]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        block_on(self.0.get_many(keys))
    }

    /// See [`Larder::set`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set(b"bread", b"rye", None)?;
    /// assert!(cache.get(b"bread")?.is_some());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set(self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        block_on(self.0.set(key, value, ttl))
    }

    /// See [`Larder::add`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(cache.add(b"bread", b"rye", SetOptions::default())?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn add(self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool, Error> {
        block_on(self.0.add(key, value, options))
    }

    /// See [`Larder::cas`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// let missing = cache.cas(b"bread", b"rye", 1, SetOptions::default())?;
    /// assert_eq!(missing, larder::Cas::NotFound);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn cas(
        self,
        key: &[u8],
        value: &[u8],
        version: u32,
        options: SetOptions,
    ) -> Result<Cas, Error> {
        block_on(self.0.cas(key, value, version, options))
    }

    /// See [`Larder::delete`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.delete(b"bread")?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn delete(self, key: &[u8]) -> Result<bool, Error> {
        block_on(self.0.delete(key))
    }

    /// See [`Larder::flush`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.flush()?.objects, 0, "there is no flash");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn flush(self) -> Result<Flushed, Error> {
        block_on(self.0.flush())
    }
}

impl<'a> Blocking<'a> {
    /// See [`Larder::scan`]: one item after the other.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set(b"bread", b"rye", None)?;
    /// assert!(cache.scan().all(|item| item.key() == b"bread"));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn scan(self) -> impl Iterator<Item = Scanned> + use<'a> {
        let mut scan = self.0.scan();
        std::iter::from_fn(move || block_on(scan.next())).flatten()
    }
}
