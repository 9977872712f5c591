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
    /// Its value, and its options or else these.
    pub(super) fn parts(&self, options: SetOptions) -> (&[u8], SetOptions) {
        (&self.value, self.options.unwrap_or(options))
    }

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
pub(super) enum Brought {
    Fetched(Fetched),
    /// A value from another cache, stored with its own metadata.
    Copied(Value),
}

/// There is no value to copy.
#[derive(Debug)]
pub(super) struct Absent;

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value to copy")
    }
}

impl std::error::Error for Absent {}

/// Why a call brings a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// For its caller: it counts as a fetch.
    Fetch,
    Copy,
}

/// Outcome of a fetch, for all callers that wait for it.
pub(super) type Outcome = Result<Value, FetchError>;

/// A call that brings the value of a key that was missed.
pub(super) struct Bringing<'a> {
    pub(super) cache: &'a Larder,
    pub(super) key: &'a [u8],
    /// For a value that comes without its own.
    pub(super) options: SetOptions,
    pub(super) errand: Errand,
}

impl Bringing<'_> {
    /// Brings a value, or waits for another caller that does.
    pub(super) async fn together<F>(
        &self,
        good: &mut impl FnMut(&Value) -> bool,
        bring: impl FnOnce() -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<Brought, Box<dyn std::error::Error + Send + Sync>>>,
    {
        let Self { cache, key, errand, .. } = *self;
        let hash = cache.hasher.hash(key);
        let participant = cache.fetches.join(hash, Box::from(key));
        reentry::check_fetch(participant.id())?;
        let mut shared = participant.outcome().await;
        if let Some(outcome) = &*shared {
            cache.core.counters.fetch_waits.add(u64::from(errand == Errand::Fetch));
            return outcome.clone();
        }
        // An earlier call may have ended between the look-up and the join. The miss was counted already.
        let inside = cache.core.enter().await?;
        if let Some(found) = cache.find(hash, key).await
            && good(&found.value)
        {
            return Ok(found.value);
        }
        // Leave the gate: a fetch may take long, and may call the cache.
        drop(inside);
        let begun = (errand == Errand::Fetch).then(|| {
            cache.core.counters.fetches.add(1);
            cache.stopwatch.begin()
        });
        let brought = reentry::Fetching::new(participant.id(), bring()).await;
        if let Some(begun) = begun {
            cache.stopwatch.end(begun, TimedCall::Fetch);
        }
        let outcome = match brought {
            Ok(brought) => self.store(&brought, &participant).await,
            Err(error) => {
                cache.core.counters.failed_fetches.add(u64::from(errand == Errand::Fetch));
                Err(FetchError::Fetch(error.into()))
            }
        };
        participant.close();
        debug_assert!(shared.is_none(), "a call has one leader, which brings its outcome");
        *shared = Some(outcome.clone());
        outcome
    }

    /// Stores what was brought, unless the key was changed since.
    async fn store(
        &self,
        brought: &Brought,
        participant: &Participant<'_, Box<[u8]>, Outcome>,
    ) -> Outcome {
        let Self { cache, key, options, .. } = *self;
        let hash = cache.hasher.hash(key);
        let item = match brought {
            Brought::Fetched(Fetched { value, options: own }) => {
                check_value(value)?;
                cache.items.item(hash, key, value, own.unwrap_or(options))
            }
            Brought::Copied(value) => ItemRef { key, ..value.item(hash) },
        };
        let Ok(_inside) = cache.core.enter().await else { return Ok(Value::alone(&item)) };
        let is_current = |there: Option<&ItemView<'_>>| {
            !participant.is_overtaken() && cache.supersede(hash, key, there)
        };
        let mut kept = None;
        if !cache.core.can_hold(&item) {
            cache.core.counters.rejected_too_large_objects.add(1);
            let reason = RemovalReason::RejectedTooLarge;
            let bytes = item.object_bytes();
            cache.core.counters.removals.key(reason, Tier::Dram, key, bytes);
            return Ok(Value::alone(&item));
        }
        // If flash cannot record that its older value is void, that counts as a device error, and the value is stored
        // all the same, as by a set: flash has no live value.
        let _counted = cache.placing(&item, &is_current).run(Some(&mut kept)).await;
        Ok(kept.unwrap_or_else(|| Value::alone(&item)))
    }
}
