//! The cache for plain threads: the same calls, which return when they are done.

use std::time::Duration;

use bytes::BufMut;
use larder_device::block_on;

use super::look;
use super::{Cas, Change, Copied, FetchError, Flushed, Larder, Scanned, SetOptions};
use crate::error::Error;
use crate::key::check_key;
use crate::stats::Stats;
use crate::value::{Pinned, Value, ValueMeta};

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
        self.look_up(key, Pinned::keep)
    }

    /// As `Larder::look_up`, without a future where DRAM answers.
    fn look_up(
        self,
        key: &[u8],
        look: impl FnOnce(Pinned) -> Value,
    ) -> Result<Option<Value>, Error> {
        check_key(key)?;
        let hash = self.0.hasher.hash(key);
        let begun = self.0.stopwatch.begin();
        match self.0.get_at_once(hash, key, begun) {
            Some(found) => Ok(Some(look(found))),
            None => block_on(self.0.get_below_dram(hash, key, begun)),
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

    /// See [`Larder::get_many_with`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.get_many_with(&["rye", "oat"], |_, _, _| ())?, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_many_with<K: AsRef<[u8]>>(
        self,
        keys: &[K],
        look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        block_on(self.0.get_many_with(keys, look))
    }

    /// See [`Larder::get_many_into`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// let mut reply = Vec::new();
    /// assert_eq!(cache.get_many_into(&["rye", "oat"], &mut reply)?, [None, None]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_many_into<K: AsRef<[u8]>>(
        self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        block_on(self.0.get_many_into(keys, buffer))
    }

    /// See [`Larder::get_with`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.get_with(b"bread", |value, _| value.len())?, None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let found = self.look_up(key, Pinned::for_now)?;
        Ok(found.map(|value| look(&value, value.meta())))
    }

    /// See [`Larder::get_into`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// let mut reply = Vec::new();
    /// assert!(cache.get_into(b"bread", &mut reply)?.is_none() && reply.is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_into(
        self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        let found = self.look_up(key, Pinned::for_now)?;
        found.map(|value| look::copy(&value, buffer)).transpose()
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
        version: u64,
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

    /// See [`Larder::clear`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set(b"bread", b"rye", None)?;
    /// cache.clear()?;
    /// assert!(cache.get(b"bread")?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn clear(self) -> Result<(), Error> {
        block_on(self.0.clear())
    }

    /// See [`Larder::close`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.close()?;
    /// assert!(cache.get(b"bread").is_err());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn close(self) -> Result<Stats, Error> {
        block_on(self.0.close())
    }

    /// See [`Larder::close_within`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.close_within(std::time::Duration::from_secs(5))?;
    /// assert!(cache.get(b"bread").is_err());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn close_within(self, time: Duration) -> Result<Stats, Error> {
        block_on(self.0.close_within(time))
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
    /// See [`Larder::set_with`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set_with(b"bread", b"rye", SetOptions { flags: 7, ..SetOptions::default() })?;
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_with(self, key: &[u8], value: &[u8], options: SetOptions) -> Result<(), Error> {
        block_on(self.0.set_with(key, value, options))
    }

    /// See [`Larder::replace`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.replace(b"bread", b"rye", SetOptions::default())?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn replace(self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool, Error> {
        block_on(self.0.replace(key, value, options))
    }

    /// See [`Larder::touch`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.touch(b"bread", None)?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn touch(self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        block_on(self.0.touch(key, ttl))
    }

    /// See [`Larder::invalidate`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.invalidate(b"bread", None)?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn invalidate(self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        block_on(self.0.invalidate(key, ttl))
    }

    /// See [`Larder::win`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.win(b"bread", 1)?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn win(self, key: &[u8], version: u64) -> Result<bool, Error> {
        self.0.win(key, version)
    }

    /// See [`Larder::incr`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set(b"loaves", b"5", None)?;
    /// assert_eq!(cache.incr(b"loaves", 2)?, Some(7));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn incr(self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        block_on(self.0.incr(key, delta))
    }

    /// See [`Larder::decr`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// cache.set(b"loaves", b"5", None)?;
    /// assert_eq!(cache.decr(b"loaves", 2)?, Some(3));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn decr(self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        block_on(self.0.decr(key, delta))
    }

    /// See [`Larder::append`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.append(b"bread", b" and butter")?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn append(self, key: &[u8], tail: &[u8]) -> Result<bool, Error> {
        block_on(self.0.append(key, tail))
    }

    /// See [`Larder::prepend`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.prepend(b"bread", b"rye ")?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn prepend(self, key: &[u8], head: &[u8]) -> Result<bool, Error> {
        block_on(self.0.prepend(key, head))
    }

    /// See [`Larder::contains`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert!(!cache.contains(b"bread")?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn contains(self, key: &[u8]) -> Result<bool, Error> {
        block_on(self.0.contains(key))
    }

    /// See [`Larder::rebuild`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.rebuild(), 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn rebuild(self) -> u64 {
        block_on(self.0.rebuild())
    }

    /// See [`Larder::send_departures`]: this thread does nothing else until the cache is closed.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.blocking().send_departures(); // there is no flash
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn send_departures(self) {
        block_on(self.0.send_departures());
    }

    /// See [`Larder::update`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// use larder::Change;
    /// assert!(cache.update(b"bread", |_| Change::Keep)?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn update<'c>(
        self,
        key: &[u8],
        change: impl FnMut(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Value>, Error> {
        block_on(self.0.update(key, change))
    }

    /// See [`Larder::get_or_fetch`]. `fetch` may block this thread, and those that wait for the same key.
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// let bake = || Ok::<_, std::io::Error>(b"rye".to_vec());
    /// let bread = cache.get_or_fetch(b"bread", SetOptions::default(), bake).unwrap();
    /// assert_eq!(*bread, *b"rye");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_or_fetch<E>(
        self,
        key: &[u8],
        options: SetOptions,
        fetch: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Value, FetchError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        block_on(self.0.get_or_fetch(key, options, || std::future::ready(fetch())))
    }

    /// The cache itself, for what does not wait: its statistics, its layout, its budgets.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let cache = cache.blocking();
    /// assert_eq!(cache.larder().stats().gets, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn larder(self) -> &'a Larder {
        self.0
    }

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
