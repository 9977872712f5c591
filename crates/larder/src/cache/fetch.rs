//! One fetch per key: whoever misses a key that is being fetched waits for that fetch.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Larder, SETTLED_PER_BROUGHT, SetOptions};
use crate::dram::Record;
use crate::error::Error;
use crate::key::{KeyHash, check_value};
use crate::value::{ItemRef, Value};

/// Why [`Larder::get_or_fetch`] has no value.
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

/// The keys that are being fetched.
#[derive(Debug, Default)]
pub(super) struct Flights {
    by_key: Mutex<HashMap<Box<[u8]>, Arc<Flight>>>,
    /// How many there are, to ask without the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Flight {
    /// Held by the one who fetches. If he gives up, the next one fetches.
    landed: async_lock::Mutex<Option<Result<Value, FetchError>>>,
    /// Somebody has set or deleted the key since: what is fetched is not stored.
    overtaken: AtomicBool,
}

impl Flights {
    /// The key is being changed: a fetch that is under way must not be stored afterwards.
    pub(super) fn overtake(&self, key: &[u8]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(flight) = self.lock().get(key) {
            flight.overtaken.store(true, Ordering::SeqCst);
        }
    }

    fn board(&self, key: &[u8]) -> Passenger<'_> {
        let mut flights = self.lock();
        let flight = flights.entry(key.into()).or_default();
        let flight = Arc::clone(flight);
        self.count.store(flights.len(), Ordering::SeqCst);
        Passenger { flights: self, key: key.into(), flight }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<Flight>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for a fetch, or makes it. The last one to leave takes the flight away.
struct Passenger<'a> {
    flights: &'a Flights,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

impl Passenger<'_> {
    /// Nobody boards this flight any more.
    fn close(&self) {
        let mut flights = self.flights.lock();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
            self.flights.count.store(flights.len(), Ordering::SeqCst);
        }
    }
}

impl Drop for Passenger<'_> {
    fn drop(&mut self) {
        let alone = {
            let _flights = self.flights.lock();
            Arc::strong_count(&self.flight) == 2 // the table's and ours
        };
        if alone {
            self.close();
        }
    }
}

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
        let passenger = self.flights.board(key);
        let mut landed = passenger.flight.landed.lock().await;
        if let Some(outcome) = &*landed {
            return outcome.clone();
        }
        // An earlier flight may have landed between the look and the boarding.
        if let Some(value) = self.get(key).await? {
            return Ok(value);
        }
        let outcome = match fetch().await {
            Ok(value) => self.land(key, &value, options, &passenger.flight).await,
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
        flight: &Flight,
    ) -> Result<Value, FetchError> {
        check_value(value)?;
        let hash = KeyHash::of(key);
        let item = ItemRef {
            flags: options.flags,
            ..ItemRef::new(hash, key, value, self.expiry_s(options.ttl))
        };
        let fetched = Value::alone(&item);
        if !self.dram.can_hold(item.object_bytes()) {
            return Ok(fetched);
        }
        {
            let _turn = self.turn(hash).await;
            let is_current = |_: Option<&Record<'_>>| !flight.overtaken.load(Ordering::SeqCst);
            // Without room it is not stored: the next one fetches again.
            let _ = self.dram.insert_if(&item, self.now_s(), &is_current);
        }
        self.settle_departures(item.object_bytes() * SETTLED_PER_BROUGHT).await;
        Ok(fetched)
    }
}
