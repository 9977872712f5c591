//! The calls of the cache over a route, for tasks.

use std::future::Future;
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::BufMut;

use super::calls::calls_of_one_key;
use super::many;
use super::route::{Lead, Route, Sealed, route_by};
use crate::base::error::Error;
use crate::base::time::Moment;
#[cfg(doc)]
use crate::cache::Larder;
use crate::cache::look::copy;
use crate::cache::{Cas, Change, Copied, FetchError, Fetched, SetOptions};
use crate::dram::value::{PinnedValue, Value, ValueMeta};
use crate::fleet::shards::calls::OldValue;

/// The calls of [`Larder`] over a route: a cache, shards, or a type that borrows or shares one, with the same
/// meaning. [`Shards`](crate::Shards) are a `Routed`. Generic code makes one from a borrowed [`Route`], which costs
/// nothing.
///
/// ```
/// use larder::{Cas, Change, Error, Larder, Route, Routed, SetOptions, block_on};
///
/// async fn bake(cache: impl Route) -> Result<(), Error> {
///     let cache = Routed::new(cache);
///     let rye = SetOptions { flags: 7, ..SetOptions::default() };
///     cache.set(b"bread", b"rye", None).await?;
///     if !cache.set_at_once(b"bread", b"rye", rye)? {
///         cache.set_with(b"bread", b"rye", rye).await?;
///     }
///     let value = cache.get(b"bread").await?.expect("it was just set");
///     assert_eq!(cache.cas(b"bread", b"oat", value.version(), rye).await?, Cas::Stored);
///     assert!(cache.update_at_once(b"bread", |_| Change::Keep)?.is_some());
///     assert!(cache.replace(b"bread", b"rye", rye).await? && !cache.add(b"bread", b"oat", rye).await?);
///     assert!(cache.append(b"bread", b" loaf").await? && cache.prepend(b"bread", b"dark ").await?);
///     assert!(cache.contains(b"bread").await? && cache.touch(b"bread", None).await?);
///     assert_eq!(cache.get_with(b"bread", |value, _| value.len()).await?, Some(13));
///     assert_eq!(cache.get_at_once_with(b"bread", |value, _| value.len())?, Some(13));
///     assert!(!cache.may_read_flash(b"bread") && !cache.misses_at_once(b"bread")?);
///     assert_eq!(cache.peek_with(b"bread", |value, _| value.len()).await?, Some(13));
///     assert!(cache.draw_version(b"bread") < cache.draw_version(b"bread"));
///     let mut reply = Vec::new();
///     assert!(cache.get_into(b"bread", &mut reply).await?.is_some() && reply == b"dark rye loaf");
///     let plum = async || Ok::<_, String>(b"plum".to_vec());
///     assert_eq!(*cache.get_or_fetch(b"cake", rye, plum).await.unwrap(), *b"plum");
///     assert_eq!(cache.update(b"pie", |_| Change::Keep).await?, None);
///     assert_eq!((cache.incr(b"hits", 1).await?, cache.decr(b"hits", 1).await?), (None, None));
///     assert!(cache.invalidate(b"bread", None).await?, "it is out of date, and who wins brings another");
///     let stale = cache.get(b"bread").await?.map(|value| value.version());
///     assert!(cache.win(b"bread", stale.unwrap())?);
///     assert!(cache.delete(b"bread").await?);
///
///     assert_eq!(cache.get_many(&["bread", "cake"]).await?[0], None);
///     assert_eq!(cache.get_many_with(&["bread", "cake"], |_, _, _| ()).await?, 1);
///     assert_eq!(cache.get_many_into(&["bread", "cake"], &mut reply).await?[0], None);
///     for mut scan in cache.scan() {
///         while let Some(items) = scan.next().await {
///             assert!(items.iter().all(|item| item.key() == b"cake"));
///         }
///     }
///     assert_eq!((cache.scan_from(0, 10).await?.items.len(), cache.estimated_len()), (1, 1));
///     cache.set_memory_bytes(8 << 20);
///     cache.set_dram_bytes(4 << 20);
///     cache.set_admission("freq:2".parse().unwrap())?;
///     cache.set_removal_listener(None);
///     assert_eq!((cache.stats().deletes, cache.unused_bytes()), (1, 0));
///     assert_eq!((cache.rebuild().await, cache.flush().await?.objects), (0, 0), "there is no flash");
///     cache.send_demotions().await;
///     cache.clear().await?;
///     cache.close_within(std::time::Duration::from_secs(5)).await?;
///     cache.close().await.map(|_| ())
/// }
/// block_on(bake(&Larder::in_memory(1 << 20)?))?;
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Routed<R>(R);

impl<R: Route> Routed<R> {
    /// The calls over `route`.
    pub fn new(route: R) -> Self {
        Self(route)
    }

    /// The route.
    pub fn route(&self) -> &R {
        &self.0
    }

    /// The current moment, by the time of `key`'s cache and by the wall clock: see [`Larder::moment`]. Each shard has
    /// its own time.
    pub fn moment(&self, key: &[u8]) -> Moment {
        match self.0.lead() {
            Lead::One(cache) => cache.moment(),
            Lead::Shards(shards) => shards.cache_for(key).moment(),
        }
    }
}

route_by! {
    #[doc = "With its calls."]
    Routed<R>, route => route.route();
}

/// An async method for each call of the list.
macro_rules! waiting {
    ($($old:ident $name:ident($($argument:ident: $type:ty),*) -> $answer:ty => $lost:expr;)+) => {$(
        #[doc = concat!("See [`Larder::", stringify!($name), "`].\n\n# Errors\nThe same.")]
        pub async fn $name(&self, key: &[u8], $($argument: $type),*) -> $answer {
            let shards = match self.0.lead() {
                Lead::One(cache) => return cache.$name(key, $($argument),*).await,
                Lead::Shards(shards) => shards,
            };
            let mut change = shards.view().change(key, OldValue::$old)?;
            let Some(at) = change.begin().await? else { return Ok(Default::default()) };
            let ended = at.done(at.cache().$name(at.name(), $($argument),*)).await;
            Ok(change.judge(at, ended).await?.unwrap_or($lost))
        }
    )+};
}

/// Calls with one key.
impl<R: Route> Routed<R> {
    calls_of_one_key!(waiting);

    /// See [`Larder::delete`].
    ///
    /// # Errors
    /// The same.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let shards = match self.0.lead() {
            Lead::One(cache) => return cache.delete(key).await,
            Lead::Shards(shards) => shards,
        };
        let mut change = shards.view().change(key, OldValue::Replaced)?;
        let Some(at) = change.begin().await? else { return Ok(false) };
        let was_elsewhere = at.was_elsewhere();
        let ended = at.done(at.cache().delete(at.name())).await;
        let was_there = change.judge(at, ended).await?;
        Ok(was_there.unwrap_or(false) || was_elsewhere)
    }

    /// See [`Larder::update`].
    ///
    /// # Errors
    /// The same.
    pub async fn update<'c>(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Value>, Error> {
        let shards = match self.0.lead() {
            Lead::One(cache) => return cache.update(key, change).await,
            Lead::Shards(shards) => shards,
        };
        let mut trying = shards.view().change(key, OldValue::Needed)?;
        let Some(at) = trying.begin().await? else { return Ok(None) };
        let ended = at.done(at.cache().update(at.name(), change)).await;
        Ok(trying.judge(at, ended).await?.flatten())
    }

    /// See [`Larder::contains`].
    ///
    /// # Errors
    /// The same.
    pub async fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.contains(key).await,
            Lead::Shards(shards) => shards.view().contains(key).await,
        }
    }

    /// See [`Larder::get`].
    ///
    /// # Errors
    /// The same.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.look_up(key, PinnedValue::keep).await
    }

    /// See [`Larder::get_with`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        Ok(found.map(|value| value.look_with(look)))
    }

    async fn look_up(
        &self,
        key: &[u8],
        look: impl Fn(PinnedValue) -> Value + Copy,
    ) -> Result<Option<Value>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.look_up(key, look).await,
            Lead::Shards(shards) => shards.view().look_up(key, look).await,
        }
    }

    /// See [`Larder::misses_at_once`]. Always `false` for a key of several shards.
    ///
    /// # Errors
    /// The same.
    pub fn misses_at_once(&self, key: &[u8]) -> Result<bool, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.misses_at_once(key),
            Lead::Shards(_) => Ok(false),
        }
    }

    /// See [`Larder::set_at_once`]. Always `false` for a key of several shards.
    ///
    /// # Errors
    /// The same.
    pub fn set_at_once(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.set_at_once(key, value, options),
            Lead::Shards(_) => Ok(false),
        }
    }

    /// See [`Larder::update_at_once`]. Always `None` for a key of several shards.
    ///
    /// # Errors
    /// The same.
    #[allow(clippy::option_option)] // as there
    pub fn update_at_once<'c>(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Option<Value>>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.update_at_once(key, change),
            Lead::Shards(_) => Ok(None),
        }
    }

    /// See [`Larder::get_at_once_with`].
    ///
    /// # Errors
    /// The same.
    pub fn get_at_once_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.get_at_once_with(key, look),
            Lead::Shards(shards) => shards.view().get_at_once_with(key, look),
        }
    }

    /// See [`Larder::get_into`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        found.map(|value| copy(&value, buffer)).transpose()
    }

    /// See [`Larder::get_or_fetch`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_or_fetch<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.get_or_replace(key, options, |_| true, fetch).await
    }

    /// As [`Routed::get_or_fetch`]; a value for which `good` is false counts as missing.
    pub(crate) async fn get_or_replace<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match self.0.lead() {
            Lead::One(cache) => cache.get_or_replace(key, options, good, fetch).await,
            Lead::Shards(shards) => shards.view().get_or_replace(key, options, good, fetch).await,
        }
    }

    /// See [`Larder::peek_with`].
    ///
    /// # Errors
    /// The same.
    pub async fn peek_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.peek_with(key, look).await,
            Lead::Shards(shards) => shards.view().peek_with(key, look).await,
        }
    }

    /// See [`Larder::may_read_flash`].
    pub fn may_read_flash(&self, key: &[u8]) -> bool {
        match self.0.lead() {
            Lead::One(cache) => cache.may_read_flash(key),
            Lead::Shards(shards) => shards.view().may_read_flash(key),
        }
    }

    /// See [`Larder::draw_version`].
    pub fn draw_version(&self, key: &[u8]) -> NonZeroU64 {
        match self.0.lead() {
            Lead::One(cache) => cache.draw_version(key),
            Lead::Shards(shards) => shards.view().draw_version(key),
        }
    }

    /// See [`Larder::win`].
    ///
    /// # Errors
    /// The same.
    pub fn win(&self, key: &[u8], version: u64) -> Result<bool, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.win(key, version),
            Lead::Shards(shards) => shards.view().win(key, version),
        }
    }
}

/// Calls with many keys: each cache answers for its own, concurrently.
impl<R: Route> Routed<R> {
    /// See [`Larder::get_many`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.get_many(keys).await,
            Lead::Shards(shards) => many::look_up(shards, keys, PinnedValue::keep).await,
        }
    }

    /// See [`Larder::get_many_with`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.get_many_with(keys, look).await,
            Lead::Shards(shards) => many::show(shards, keys, look).await,
        }
    }

    /// See [`Larder::get_many_into`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_many_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        match self.0.lead() {
            Lead::One(cache) => cache.get_many_into(keys, buffer).await,
            Lead::Shards(shards) => many::copy(shards, keys, buffer).await,
        }
    }
}
