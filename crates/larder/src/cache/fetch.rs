//! One fetch per key: whoever misses a key that is being fetched waits for that fetch.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::flights::Passenger;
use super::{Larder, SETTLED_PER_BROUGHT, SetOptions};
use crate::dram::Record;
use crate::error::Error;
use crate::key::{KeyHash, check_value};
use crate::value::{ItemRef, Value};

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

/// What a fetch brings.
pub(super) type Fetched = Result<Value, FetchError>;

impl Larder {
    /// Looks `key` up; if it is missing, fetches its value, stores it with `options`, and returns
    /// it. While a key is being fetched, others who miss it wait for the same fetch and get its
    /// value or its error. If the one who fetches is dropped, one of them fetches instead.
    ///
    /// A [`Larder::set`] or [`Larder::delete`] of the key in the meantime wins: the fetched value
    /// is returned, but not stored.
    ///
    /// # Errors
    /// [`FetchError`].
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
    pub async fn get_or_fetch<F, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<Vec<u8>, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(value) = self.get(key).await? {
            return Ok(value);
        }
        let passenger = self.fetches.board(KeyHash::of(key), Box::from(key));
        let mut landed = passenger.landing().await;
        if let Some(outcome) = &*landed {
            return outcome.clone();
        }
        // An earlier flight may have landed between the look and the boarding.
        if let Some(value) = self.get(key).await? {
            return Ok(value);
        }
        let outcome = match fetch().await {
            Ok(value) => self.land(key, &value, options, &passenger).await,
            Err(error) => Err(FetchError::Fetch(error.into().into())),
        };
        passenger.close();
        *landed = Some(outcome.clone());
        outcome
    }

    /// Stores what was fetched, unless the key was changed since.
    async fn land(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
        passenger: &Passenger<'_, Box<[u8]>, Fetched>,
    ) -> Fetched {
        check_value(value)?;
        let hash = KeyHash::of(key);
        let item = ItemRef {
            flags: options.flags,
            ..ItemRef::new(hash, key, value, self.expiry_s(options.ttl))
        };
        if !self.dram.can_hold(item.object_bytes()) {
            return Ok(Value::alone(&item));
        }
        let kept = {
            let _turn = self.turn(hash).await;
            let is_current =
                |_: Option<&Record<'_>>| !passenger.is_overtaken() && self.supersede(hash, key);
            // Without room it is not stored, nor where flash cannot be told: the next one fetches
            // again.
            match self.outdate(hash).await {
                Ok(()) => self.dram.insert_if(&item, self.now_s(), &is_current).ok().flatten(),
                Err(_) => None,
            }
        };
        self.settle_departures(item.object_bytes() * SETTLED_PER_BROUGHT).await;
        Ok(kept.unwrap_or_else(|| Value::alone(&item)))
    }
}
