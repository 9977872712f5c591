//! One fetch per key: whoever misses a key that is being fetched waits for that fetch.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::single_flight::Participant;
use super::{Larder, SetOptions, reentry};
use crate::dram::ItemView;
use crate::error::Error;
use crate::item::ItemRef;
use crate::key::check_value;
use crate::latency::Timed;
use crate::removal::RemovalReason;
use crate::tier::Tier;
use crate::value::Value;

/// Why [`Larder::get_or_fetch`] has no value.
///
/// ```
/// # use larder::{Larder, RealClock, FetchError, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let ill = async || Err::<Vec<u8>, _>("the baker is ill");
/// let failed = block_on(cache.get_or_fetch(b"bread", Default::default(), ill));
/// assert!(matches!(failed, Err(FetchError::Fetch(_))));
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum FetchError {
    /// The cache refused key or value.
    Cache(Arc<Error>),
    /// The fetch failed; everybody who waited for it gets the same error.
    Fetch(Arc<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(error) => error.fmt(f),
            Self::Fetch(error) => write!(f, "the fetch failed: {error}"),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cache(error) => Some(&**error),
            Self::Fetch(error) => Some(&**error),
        }
    }
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self::Cache(Arc::new(error))
    }
}

/// What a fetch brings: a value, and how it is to be stored if the source knows better than whoever
/// asked. Bytes alone are stored as [`Larder::get_or_fetch`] was told.
///
/// ```
/// # use larder::{Fetched, Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// use std::time::Duration;
/// let bake = async || {
///     let ttl = Some(Duration::from_secs(3600));
///     let fresh_for = SetOptions { ttl, flags: 7, ..SetOptions::default() };
///     Ok::<_, std::io::Error>(Fetched::with(b"rye".to_vec(), fresh_for))
/// };
/// let bread = block_on(cache.get_or_fetch(b"bread", SetOptions::default(), bake)).unwrap();
/// assert_eq!(bread.flags(), 7);
/// # Ok::<(), larder::Error>(())
/// ```
///
/// Bytes of any kind are a value:
///
/// ```
/// use larder::Fetched;
///
/// let bread = Fetched::from(b"rye".to_vec());
/// assert_eq!(bread, "rye".into());
/// assert_eq!(bread, String::from("rye").into());
/// assert_eq!(bread, (&b"rye"[..]).into());
/// assert_eq!(bread, Box::<[u8]>::from(*b"rye").into());
/// assert_eq!(bread, bytes::Bytes::from_static(b"rye").into());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    value: Vec<u8>,
    options: Option<SetOptions>,
}

impl Fetched {
    /// A value that lives as long as `options` say, and has their flags.
    ///
    /// ```
    /// use larder::{Fetched, SetOptions};
    ///
    /// let forever = Fetched::with(b"honey".to_vec(), SetOptions::default());
    /// assert_ne!(forever, b"honey".to_vec().into(), "bytes alone leave it to whoever asked");
    /// ```
    pub fn with(value: Vec<u8>, options: SetOptions) -> Self {
        Self { value, options: Some(options) }
    }
}

impl From<Vec<u8>> for Fetched {
    fn from(value: Vec<u8>) -> Self {
        Self { value, options: None }
    }
}

/// From other kinds of bytes: those that own their memory give it, where they can, and others are copied.
macro_rules! from_bytes {
    ($($kind:ty),+) => {$(
        impl From<$kind> for Fetched {
            fn from(value: $kind) -> Self {
                Vec::from(value).into()
            }
        }
    )+};
}

from_bytes!(String, &str, bytes::Bytes, Box<[u8]>, &[u8]);

/// What is to be stored for a key that was missed.
enum Brought {
    Fetched(Fetched),
    /// Whatever the value says of itself holds here too.
    Copied(Value),
}

/// There is nothing to copy.
#[derive(Debug)]
struct Absent;

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value to copy")
    }
}

impl std::error::Error for Absent {}

/// Why a call brings a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Errand {
    /// For its user: it counts as a fetch.
    Fetch,
    Copy,
}

/// How a fetch ended, for all who wait for it.
pub(super) type Outcome = Result<Value, FetchError>;

impl Larder {
    /// Looks `key` up; if it is missing, fetches its value, stores it as [`Larder::set_with`] does, with
    /// `options` or what the fetch says instead, and returns it. While a key is being fetched, others
    /// who miss it wait for the same fetch and get its value or its error. If the one who fetches is
    /// dropped, one of them fetches instead.
    ///
    /// A [`Larder::set`] or [`Larder::delete`] of the key in the meantime wins: the fetched value
    /// is returned, but not stored. A value that no tier can hold, or that DRAM has no room for because
    /// values in use pin it, is returned and counted, not stored. So is one that comes when the cache has
    /// been closed. If flash may hold an older value and takes no write that says that this is void, the fetched
    /// one is stored all the same, and the error counted: a crash may bring the older one back, as after a
    /// [`Larder::set`] that fails so.
    ///
    /// # Errors
    /// [`FetchError`]. A fetch that asks for the key that it fetches would wait for itself: that is
    /// [`FetchError::Cache`] where it can be known, on the same thread.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let bake = async || Ok::<_, std::io::Error>(b"rye".to_vec());
    /// let bread = block_on(cache.get_or_fetch(b"bread", SetOptions::default(), bake)).unwrap();
    /// assert_eq!(*bread, *b"rye");
    /// assert!(block_on(cache.contains(b"bread"))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
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

    /// As [`Larder::get_or_fetch`]; a value that is not `good` is as good as missing.
    pub(crate) async fn get_or_replace<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        mut good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(value) = self.get(key).await?.filter(&mut good) {
            return Ok(value);
        }
        self.fetch_missed(key, options, good, fetch).await
    }

    /// As [`Larder::get_or_replace`], after a look-up that missed.
    pub(crate) async fn fetch_missed<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        mut good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Whoever joined a copy that found nothing fetches after all.
        let mut fetch = Some(fetch);
        loop {
            let bring = async || match fetch.take() {
                Some(fetch) => Ok(Brought::Fetched(fetch().await.map_err(Into::into)?.into())),
                None => Err(Absent.into()),
            };
            let outcome = self.bring_together(key, options, &mut good, Errand::Fetch, bring).await;
            self.core.counters.removals.tell();
            match outcome {
                Err(FetchError::Fetch(error)) if fetch.is_some() && error.is::<Absent>() => {}
                outcome => return outcome,
            }
        }
    }

    /// What was fetched for a key that is stored nowhere.
    pub(crate) fn unstored(&self, key: &[u8], fetched: &Fetched, options: SetOptions) -> Value {
        let Fetched { value, options: own } = fetched;
        Value::alone(&self.item(self.hasher.hash(key), key, value, own.unwrap_or(options)))
    }

    /// After a look-up that missed: stores what `copy` brings from elsewhere, and returns it. It keeps its flags, its
    /// version and the end of its life. Whoever misses the key meanwhile waits for it; whoever changes the key
    /// overtakes it, as a fetch.
    pub(crate) async fn copy_missed<F>(
        &self,
        key: &[u8],
        copy: impl FnOnce() -> F,
    ) -> Result<Option<Value>, Error>
    where
        F: Future<Output = Option<Value>>,
    {
        let bring = async || copy().await.map(Brought::Copied).ok_or_else(|| Absent.into());
        let (options, any) = (SetOptions::default(), &mut |_: &Value| true);
        let outcome = self.bring_together(key, options, any, Errand::Copy, bring).await;
        self.core.counters.removals.tell();
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(FetchError::Fetch(_)) => Ok(None),
            Err(FetchError::Cache(error)) => Err(Error::new(error.kind(), error.to_string())),
        }
    }

    /// Brings a value, or waits for somebody who does.
    async fn bring_together<F>(
        &self,
        key: &[u8],
        options: SetOptions,
        good: &mut impl FnMut(&Value) -> bool,
        errand: Errand,
        bring: impl FnOnce() -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<Brought, Box<dyn std::error::Error + Send + Sync>>>,
    {
        let hash = self.hasher.hash(key);
        let participant = self.fetches.join(hash, Box::from(key));
        reentry::check_fetch(participant.id())?;
        let mut shared = participant.outcome().await;
        if let Some(outcome) = &*shared {
            self.core.counters.fetch_waits.add(u64::from(errand == Errand::Fetch));
            return outcome.clone();
        }
        // An earlier call may have ended between the look and the joining. The miss was counted.
        let inside = self.enter().await?;
        if let Some(found) = self.find(hash, key).await
            && good(&found.value)
        {
            return Ok(found.value);
        }
        // A fetch may take its time, and may call the cache.
        drop(inside);
        let begun = (errand == Errand::Fetch).then(|| {
            self.core.counters.fetches.add(1);
            self.stopwatch.begin()
        });
        let brought = reentry::Fetching::new(participant.id(), bring()).await;
        if let Some(begun) = begun {
            self.stopwatch.end(begun, Timed::Fetch);
        }
        let outcome = match brought {
            Ok(brought) => self.store_brought(key, &brought, options, &participant).await,
            Err(error) => {
                self.core.counters.failed_fetches.add(u64::from(errand == Errand::Fetch));
                Err(FetchError::Fetch(error.into()))
            }
        };
        participant.close();
        debug_assert!(shared.is_none(), "a call has one leader, who brings its outcome");
        *shared = Some(outcome.clone());
        outcome
    }

    /// Stores what was brought, unless the key was changed since.
    async fn store_brought(
        &self,
        key: &[u8],
        brought: &Brought,
        options: SetOptions,
        participant: &Participant<'_, Box<[u8]>, Outcome>,
    ) -> Outcome {
        let hash = self.hasher.hash(key);
        let item = match brought {
            Brought::Fetched(Fetched { value, options: own }) => {
                check_value(value)?;
                self.item(hash, key, value, own.unwrap_or(options))
            }
            Brought::Copied(value) => ItemRef { key, ..value.item(hash) },
        };
        let Ok(_inside) = self.enter().await else { return Ok(Value::alone(&item)) };
        let is_current = |there: Option<&ItemView<'_>>| {
            !participant.is_overtaken() && self.supersede(hash, key, there)
        };
        let mut kept = None;
        if !self.can_hold(&item) {
            self.core.counters.rejected_too_large_objects.add(1);
            let reason = RemovalReason::RejectedTooLarge;
            let bytes = item.object_bytes();
            self.core.counters.removals.key(reason, Tier::Dram, key, bytes);
            return Ok(Value::alone(&item));
        }
        // Where flash cannot be told that what it has is void, that is counted as the device's error, and it is
        // stored all the same, as by a set: nothing alive is there.
        let _counted = self.place(&item, &is_current, Some(&mut kept)).await;
        Ok(kept.unwrap_or_else(|| Value::alone(&item)))
    }
}
