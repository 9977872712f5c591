//! One fetch per key: a caller that misses a key that is being fetched waits for that fetch.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::single_flight::Participant;
use super::{Larder, SetOptions, reentry};
use crate::base::error::Error;
use crate::base::item::ItemRef;
use crate::base::key::check_value;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::dram::ItemView;
use crate::dram::value::Value;
use crate::observe::latency::TimedCall;

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
    /// The cache refused the key or the value.
    Cache(Arc<Error>),
    /// The fetch failed; every caller that waited for it gets the same error.
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

/// The result of a fetch: a value, and storage options if the source knows better than the caller. Plain bytes are
/// stored with the options given to [`Larder::get_or_fetch`].
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
/// Bytes of many types are accepted as a value:
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
    /// A value with its own options, for example lifetime and flags.
    ///
    /// ```
    /// use larder::{Fetched, SetOptions};
    ///
    /// let forever = Fetched::with(b"honey".to_vec(), SetOptions::default());
    /// assert_ne!(forever, b"honey".to_vec().into(), "bytes alone leave it to the caller");
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

/// Conversions from other types of bytes: without a copy where the type gives its memory away, else by copy.
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

/// The value to store for a key that was missed.
enum Brought {
    Fetched(Fetched),
    /// A value from another cache, stored with its own metadata.
    Copied(Value),
}

/// There is no value to copy.
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
    /// For its caller: it counts as a fetch.
    Fetch,
    Copy,
}

/// Outcome of a fetch, for all callers that wait for it.
pub(super) type Outcome = Result<Value, FetchError>;

impl Larder {
    /// Looks `key` up. If it is missing, fetches its value, stores it as [`Larder::set_with`] does, with `options` or
    /// those that the fetch returns, and returns it. While a key is being fetched, other callers that miss it wait
    /// for the same fetch and get its value or its error. If the fetching caller's future is dropped, one of the
    /// waiting callers fetches instead.
    ///
    /// A concurrent [`Larder::set`] or [`Larder::delete`] of the key wins: the fetched value is returned, but not
    /// stored. A value that no tier can hold, or that DRAM has no room for because values in use pin it, is returned
    /// and counted, but not stored. A value that arrives after the cache was closed is returned, but not stored. If
    /// flash may hold an older value and cannot record that it is void, the fetched value is stored all the same, and
    /// the error is counted: a crash may bring the older value back, as after a [`Larder::set`] that fails in this
    /// way.
    ///
    /// # Errors
    /// [`FetchError`]. A fetch that asks for the key that it is fetching would wait for itself: that is
    /// [`FetchError::Cache`] if it can be detected, on the same thread.
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

    /// As [`Larder::get_or_fetch`]; a value for which `good` is false counts as missing.
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
        // A caller that joined a copy that found nothing must fetch after all.
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

    /// The fetched value of a key that is not stored anywhere.
    pub(crate) fn unstored(&self, key: &[u8], fetched: &Fetched, options: SetOptions) -> Value {
        let Fetched { value, options: own } = fetched;
        Value::alone(&self.item(self.hasher.hash(key), key, value, own.unwrap_or(options)))
    }

    /// After a look-up that missed: stores what `copy` brings from elsewhere, and returns it. The value keeps its
    /// flags, its version and its expiry. Other callers that miss the key wait for it. A change of the key overtakes
    /// it, as with a fetch.
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

    /// Brings a value, or waits for another caller that does.
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
        // An earlier call may have ended between the look-up and the join. The miss was counted already.
        let inside = self.enter().await?;
        if let Some(found) = self.find(hash, key).await
            && good(&found.value)
        {
            return Ok(found.value);
        }
        // Leave the gate: a fetch may take long, and may call the cache.
        drop(inside);
        let begun = (errand == Errand::Fetch).then(|| {
            self.core.counters.fetches.add(1);
            self.stopwatch.begin()
        });
        let brought = reentry::Fetching::new(participant.id(), bring()).await;
        if let Some(begun) = begun {
            self.stopwatch.end(begun, TimedCall::Fetch);
        }
        let outcome = match brought {
            Ok(brought) => self.store_brought(key, &brought, options, &participant).await,
            Err(error) => {
                self.core.counters.failed_fetches.add(u64::from(errand == Errand::Fetch));
                Err(FetchError::Fetch(error.into()))
            }
        };
        participant.close();
        debug_assert!(shared.is_none(), "a call has one leader, which brings its outcome");
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
        // If flash cannot record that its older value is void, that counts as a device error, and the value is stored
        // all the same, as by a set: flash has no live value.
        let _counted = self.place(&item, &is_current, Some(&mut kept)).await;
        Ok(kept.unwrap_or_else(|| Value::alone(&item)))
    }
}
