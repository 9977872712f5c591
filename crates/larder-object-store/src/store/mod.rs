//! The cache in front of a store, whatever the version of `object_store`.
//!
//! 1. What is cached of an object is its head (one entry per path) and its parts (one entry per part of a version).
//!    The key of a part has the validator of its version, so parts of two versions never meet.
//! 2. A write changes the head alone. A head that was asked for before a write is not stored after it (`epochs`).
//! 3. Each request to the store is a task of its own (`background`): readers wait for it, none drives it.
//! 4. An error of the cache is counted; the store is asked instead.
//!
//! | file | what it is |
//! |---|---|
//! | `heads` | which version of an object is current |
//! | `fetch` | bytes on their way from the store to readers and into the cache |
//! | `read` | a read: what is cached, what is in flight, what is missing |
//! | `writing` | writes, which invalidate |
//! | `lists` | listings |

pub(crate) mod fetch;
pub(crate) mod heads;
pub(crate) mod lists;
pub(crate) mod read;
pub(crate) mod writing;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_lock::Semaphore;
use futures_util::FutureExt;
use larder::{Change, Route, Routed, SetOptions, Value};

use crate::background::Background;
use crate::epochs::Epochs;
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::key::Keys;
use crate::metrics::Counters;
use crate::options::Options;

/// The cache of one store.
pub(crate) struct Store<R, F> {
    cache: Arc<R>,
    keys: Keys,
    options: Options,
    counters: Counters,
    epochs: &'static Epochs,
    flights: Arc<InFlight<F>>,
    heads: Mutex<heads::HeadTable<F>>,
    /// Limits read requests.
    requests: Arc<Semaphore>,
    /// Limits fetches in memory: each takes at most `request_bytes`.
    fetches: Arc<Semaphore>,
    /// Limits fetches that wait to be stored.
    storing: Arc<Semaphore>,
    background: Background,
}

impl<R, F> fmt::Debug for Store<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("name", &self.keys.name()).finish_non_exhaustive()
    }
}

impl<R: Route, F> Store<R, F> {
    pub(crate) fn new(cache: Arc<R>, name: &str, options: Options) -> Result<Self, Error> {
        options.check()?;
        if name.is_empty() || name.len() > 1024 {
            let fix = "must have 1 to 1024 bytes, and be another for each bucket";
            return Err(Error::new("name", format!("{name:?}"), fix));
        }
        Ok(Self {
            cache,
            keys: Keys::new(name),
            counters: Counters::default(),
            epochs: Epochs::of_process(),
            flights: Arc::new(InFlight::new()),
            heads: Mutex::default(),
            requests: Arc::new(Semaphore::new(options.upstream_requests)),
            fetches: Arc::new(Semaphore::new(options.fetches())),
            storing: Arc::new(Semaphore::new(options.fetches())),
            background: Background::new(options.spawn.clone()),
            options,
        })
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn name(&self) -> &str {
        self.keys.name()
    }

    pub(crate) fn max_object(&self) -> u64 {
        self.options.max_object
    }

    pub(crate) fn merge_gap(&self) -> u64 {
        self.options.merge_gap
    }

    /// Its futures are boxed where they are used: they are long, and the compiler of a user would give up.
    fn routed(&self) -> Routed<&R> {
        Routed::new(&*self.cache)
    }

    /// The time of the cache, which does not go backwards, and goes on over restarts.
    fn now(&self) -> Duration {
        self.routed().moment(b"").now()
    }

    /// Looks one key up.
    async fn look(&self, key: &[u8]) -> Option<Value> {
        match self.routed().get(key).boxed().await {
            Ok(found) => found,
            Err(_) => {
                self.counters.cache_errors.add(1);
                None
            }
        }
    }

    /// Looks keys up together.
    async fn look_all(&self, keys: &[Vec<u8>]) -> Vec<Option<Value>> {
        match self.routed().get_many(keys).boxed().await {
            Ok(found) => found,
            Err(_) => {
                self.counters.cache_errors.add(1);
                Vec::new()
            }
        }
    }

    async fn keep(&self, key: &[u8], value: &[u8]) {
        if self.routed().set(key, value, None).boxed().await.is_err() {
            self.counters.cache_errors.add(1);
        }
    }

    /// Stores a value unless the thing was written since `epoch`.
    async fn keep_unless_written(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        epoch: u64,
    ) {
        let options = SetOptions { ttl, ..SetOptions::default() };
        let change = |_: Option<&Value>| {
            if self.epochs.of(key) == epoch {
                Change::Store(value.into(), options)
            } else {
                Change::Keep
            }
        };
        if self.routed().update(key, change).boxed().await.is_err() {
            self.counters.cache_errors.add(1);
        }
    }

    /// Forgets what is cached under a key, also what is on its way there.
    async fn void(&self, key: &[u8]) {
        // First the count, then the value: a value that is stored in between is deleted.
        self.epochs.advance(key);
        if self.routed().delete(key).boxed().await.is_err() {
            self.counters.cache_errors.add(1);
        }
    }
}
