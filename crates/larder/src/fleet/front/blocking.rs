//! The calls of the cache over a route, for blocking threads.

use std::time::Duration;

use bytes::BufMut;
use larder_device::block_on;

use super::calls::calls_of_one_key;
use super::route::{Lead, Route};
use super::routed::Routed;
use super::walk::Walk;
use crate::base::error::Error;
use crate::cache::{
    Cas, Change, Copied, FetchError, Flushed, Larder, ScanPage, Scanned, SetOptions, look,
};
use crate::dram::value::{PinnedValue, Value, ValueMeta};
use crate::observe::stats::Stats;

/// The calls of [`Larder`] for threads that may block, over one cache or over [`Shards`](crate::Shards), with the
/// same meaning. A hit in DRAM returns at once.
///
/// ```
/// # use std::sync::Arc;
/// # use larder::{Cas, Change, Config, Larder, RealClock, SetOptions, block_on};
/// # fn main() -> Result<(), larder::Error> {
/// let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
/// let cache = cache.blocking();
/// cache.set(b"bread", b"rye", None)?;
/// let bread = cache.get(b"bread")?.expect("it was just set");
/// assert_eq!(*bread, *b"rye");
/// assert_eq!(cache.get_with(b"bread", |value, _| value.len())?, Some(3));
/// let mut reply = Vec::new();
/// assert!(cache.get_into(b"bread", &mut reply)?.is_some() && reply == b"rye");
/// assert_eq!(cache.get_many(&["bread", "cake"])?[1], None);
/// assert_eq!(cache.get_many_with(&["bread", "cake"], |_, _, _| ())?, 1);
/// assert_eq!(cache.get_many_into(&["bread", "cake"], &mut reply)?[1], None);
///
/// let white = SetOptions { flags: 7, ..SetOptions::default() };
/// assert_eq!(cache.cas(b"bread", b"oat", bread.version(), white)?, Cas::Stored);
/// assert!(!cache.add(b"bread", b"rye", white)? && cache.replace(b"bread", b"rye", white)?);
/// cache.set_with(b"bread", b"rye", white)?;
/// assert!(cache.append(b"bread", b" loaf")? && cache.prepend(b"bread", b"dark ")?);
/// assert!(cache.contains(b"bread")? && !cache.invalidate(b"cake", None)? && !cache.win(b"cake", 1)?);
/// assert!(cache.touch(b"bread", None)? && cache.update(b"cake", |_| Change::Keep)?.is_none());
/// cache.set(b"loaves", b"5", None)?;
/// assert_eq!((cache.incr(b"loaves", 2)?, cache.decr(b"loaves", 1)?), (Some(7), Some(6)));
/// assert_eq!(cache.scan().count(), 2);
/// assert_eq!(cache.scan_from(0, 10)?.items.len(), 2);
/// assert_eq!(cache.peek_with(b"bread", |_, meta| meta.flags)?, Some(7));
/// assert!(cache.delete(b"bread")?);
///
/// assert_eq!((cache.rebuild(), cache.flush()?.objects), (0, 0), "there is no flash");
/// cache.send_demotions();
/// cache.clear()?;
/// cache.close_within(std::time::Duration::from_secs(5))?;
/// cache.close()?;
/// assert!(cache.get(b"loaves").is_err());
/// # Ok(())
/// # }
/// ```
pub struct Blocking<'a, R = Larder>(&'a R);

impl<R> Clone for Blocking<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Blocking<'_, R> {}

impl Larder {
    /// The calls of this cache for threads that may block.
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

impl<R: Route> Routed<R> {
    /// The same calls for threads that may block.
    pub fn blocking(&self) -> Blocking<'_, R> {
        Blocking(self.route())
    }
}

impl<'a> Blocking<'a, Larder> {
    /// The cache itself, for calls that do not wait: its statistics, its layout, its budgets.
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
}

/// A blocking method for each call of the list.
macro_rules! blocking {
    ($($old:ident $name:ident($($argument:ident: $type:ty),*) -> $answer:ty => $lost:expr;)+) => {$(
        #[doc = concat!("See [`Larder::", stringify!($name), "`].\n\n# Errors\nThe same.")]
        pub fn $name(self, key: &[u8], $($argument: $type),*) -> $answer {
            match self.0.lead() {
                Lead::One(cache) => block_on(cache.$name(key, $($argument),*)),
                Lead::Shards(_) => block_on(self.waiting().$name(key, $($argument),*)),
            }
        }
    )+};
}

/// Calls with one key.
impl<'a, R: Route> Blocking<'a, R> {
    calls_of_one_key!(blocking);

    /// The route, for calls that do not wait.
    pub fn route(self) -> &'a R {
        self.0
    }

    /// See [`Larder::delete`].
    ///
    /// # Errors
    /// The same.
    pub fn delete(self, key: &[u8]) -> Result<bool, Error> {
        block_on(self.waiting().delete(key))
    }

    /// See [`Larder::contains`].
    ///
    /// # Errors
    /// The same.
    pub fn contains(self, key: &[u8]) -> Result<bool, Error> {
        block_on(self.waiting().contains(key))
    }

    /// See [`Larder::update`].
    ///
    /// # Errors
    /// The same.
    pub fn update<'c>(
        self,
        key: &[u8],
        change: impl FnMut(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Value>, Error> {
        block_on(self.waiting().update(key, change))
    }

    /// See [`Larder::get`].
    ///
    /// # Errors
    /// The same.
    pub fn get(self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.look_up(key, PinnedValue::keep)
    }

    fn look_up(
        self,
        key: &[u8],
        look: impl Fn(PinnedValue) -> Value + Copy,
    ) -> Result<Option<Value>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.look_up_blocking(key, look),
            Lead::Shards(shards) => block_on(shards.view().look_up(key, look)),
        }
    }

    /// See [`Larder::get_with`].
    ///
    /// # Errors
    /// The same.
    pub fn get_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let found = self.look_up(key, PinnedValue::for_now)?;
        Ok(found.map(|value| value.look_with(look)))
    }

    /// See [`Larder::get_into`].
    ///
    /// # Errors
    /// The same.
    pub fn get_into(
        self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        let found = self.look_up(key, PinnedValue::for_now)?;
        found.map(|value| look::copy(&value, buffer)).transpose()
    }

    /// See [`Larder::get_or_fetch`]. `fetch` may block this thread, and all that wait for the same key.
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
        block_on(self.waiting().get_or_fetch(key, options, || std::future::ready(fetch())))
    }

    /// See [`Larder::peek_with`].
    ///
    /// # Errors
    /// The same.
    pub fn peek_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        block_on(self.waiting().peek_with(key, look))
    }

    /// See [`Larder::win`].
    ///
    /// # Errors
    /// The same.
    pub fn win(self, key: &[u8], version: u64) -> Result<bool, Error> {
        self.waiting().win(key, version)
    }
}

/// Calls with many keys, and calls that concern the whole cache.
impl<'a, R: Route> Blocking<'a, R> {
    /// See [`Larder::get_many`].
    ///
    /// # Errors
    /// The same.
    pub fn get_many<K: AsRef<[u8]>>(self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        block_on(self.waiting().get_many(keys))
    }

    /// See [`Larder::get_many_with`].
    ///
    /// # Errors
    /// The same.
    pub fn get_many_with<K: AsRef<[u8]>>(
        self,
        keys: &[K],
        look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        block_on(self.waiting().get_many_with(keys, look))
    }

    /// See [`Larder::get_many_into`].
    ///
    /// # Errors
    /// The same.
    pub fn get_many_into<K: AsRef<[u8]>>(
        self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        block_on(self.waiting().get_many_into(keys, buffer))
    }

    /// See [`Larder::scan`]; returns one item after the other.
    pub fn scan(self) -> impl Iterator<Item = Scanned> + use<'a, R> {
        let walk = |mut walk: Walk<'a>| std::iter::from_fn(move || block_on(walk.next())).flatten();
        Walk::over(self.0.lead()).flat_map(walk)
    }

    /// See [`Larder::scan_from`].
    ///
    /// # Errors
    /// The same.
    pub fn scan_from(self, cursor: u64, count: usize) -> Result<ScanPage, Error> {
        block_on(self.waiting().scan_from(cursor, count))
    }

    /// See [`Larder::rebuild`].
    pub fn rebuild(self) -> u64 {
        block_on(self.waiting().rebuild())
    }

    /// See [`Larder::send_demotions`]: this thread does nothing else until the cache is closed.
    pub fn send_demotions(self) {
        block_on(self.waiting().send_demotions());
    }

    /// See [`Larder::flush`].
    ///
    /// # Errors
    /// The same.
    pub fn flush(self) -> Result<Flushed, Error> {
        block_on(self.waiting().flush())
    }

    /// See [`Larder::clear`].
    ///
    /// # Errors
    /// The same.
    pub fn clear(self) -> Result<(), Error> {
        block_on(self.waiting().clear())
    }

    /// See [`Larder::close`].
    ///
    /// # Errors
    /// The same.
    pub fn close(self) -> Result<Stats, Error> {
        block_on(self.waiting().close())
    }

    /// See [`Larder::close_within`].
    ///
    /// # Errors
    /// The same.
    pub fn close_within(self, time: Duration) -> Result<Stats, Error> {
        block_on(self.waiting().close_within(time))
    }

    fn waiting(self) -> Routed<&'a R> {
        Routed::new(self.0)
    }
}
