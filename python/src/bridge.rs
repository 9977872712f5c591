//! The cache for event loops, without a thread for each call.
//!
//! The loop is the executor. A call is polled once where it is made, and what DRAM answers is answered there. A call
//! that has to wait is kept under a number; its waker puts the number into a queue and writes to an eventfd, which the
//! loop watches. The loop then has the woken calls polled ([`Bridge::turn`]), and completes its own futures.
//!
//! ```text
//!   begin ──► polled ──► answered
//!               │  ▲
//!      pending  ▼  │ turn, after a wake       forget: dropped
//!              waiting
//! ```
//!
//! 1. A call is polled outside of the table's lock. A wake during the poll queues its number, so a later turn polls it
//!    again.
//! 2. The eventfd is read before the queue is taken, so a wake after that is seen by the next turn.
//! 3. A call whose task was cancelled is dropped.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use larder::{Larder, SetOptions};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use crate::arguments::{Key, Lifetime};
use crate::calls::{self, Answer, Asked, Call, Failure, told};
use crate::codec::Codec;
use crate::errors;
use crate::filling::{self, Order};
use crate::fork::Birthplace;
use crate::store::{Store, owned_keys};

/// Tells a loop that calls of it were woken.
struct Signal {
    descriptor: OwnedFd,
    woken: Mutex<Woken>,
}

#[derive(Default)]
struct Woken {
    calls: Vec<u64>,
    /// Whether the eventfd was, or is being, written since the queue was taken.
    is_told: bool,
}

impl Signal {
    fn note(&self, call: u64) {
        let mut woken = lock(&self.woken);
        woken.calls.push(call);
        let is_first = !std::mem::replace(&mut woken.is_told, true);
        drop(woken);
        if is_first {
            // Any number wakes the loop. It fails only if the counter is full: then the loop was told.
            let _ = rustix::io::write(&self.descriptor, &[1; 8]);
        }
    }

    fn take(&self) -> Vec<u64> {
        // It fails only if the counter is 0, after a turn that was not asked for.
        let _ = rustix::io::read(&self.descriptor, &mut [0_u8; 8]);
        let mut woken = lock(&self.woken);
        woken.is_told = false;
        std::mem::take(&mut woken.calls)
    }
}

/// Wakes one call.
struct CallWaker {
    signal: Arc<Signal>,
    call: u64,
    is_queued: AtomicBool,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.signal.note(self.call);
        }
    }
}

/// A call that is not answered yet.
struct Waiting {
    call: Call,
    asked: Asked,
    codec: Arc<Codec>,
    /// The value that the loop may have to make.
    order: Option<Arc<Order>>,
    waker: Arc<CallWaker>,
}

/// A place in the table.
enum Place {
    Waiting(Box<Waiting>),
    /// A thread polls the call.
    Polled {
        is_forgotten: bool,
    },
}

/// The outcome of a poll.
enum Step {
    Answered(Asked, Arc<Codec>, Result<Answer, Failure>),
    /// The loop has to make the value.
    Make,
}

/// A call that waits; the loop is told its answer by [`Bridge::turn`].
#[pyclass(frozen, get_all, module = "larder._larder")]
pub(crate) struct Pending {
    /// Its number.
    call: u64,
    /// Whether the loop has to make the value now.
    make: bool,
}

/// The bridge between an event loop and the caches that it uses.
#[pyclass(frozen, module = "larder._larder")]
pub(crate) struct Bridge {
    signal: Arc<Signal>,
    table: Mutex<HashMap<u64, Place>>,
    next: AtomicU64,
    born: Birthplace,
}

impl Bridge {
    /// Makes a call: returns its answer, or [`Pending`].
    fn begin(
        &self,
        py: Python<'_>,
        store: &Store,
        (asked, order): (Asked, Option<Arc<Order>>),
        call: impl Future<Output = Result<Answer, Failure>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        self.born.check(py)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let signal = Arc::clone(&self.signal);
        let waker = Arc::new(CallWaker { signal, call: number, is_queued: AtomicBool::new(false) });
        let codec = Arc::clone(store.codec());
        let waiting = Box::new(Waiting { call: Box::pin(call), asked, codec, order, waker });
        lock(&self.table).insert(number, Place::Polled { is_forgotten: false });
        match py.detach(|| self.poll(number, waiting)) {
            Some(Step::Answered(asked, codec, Ok(answer))) => told(py, &codec, asked, answer),
            Some(Step::Answered(.., Err(failure))) => Err(failure.raised(py)),
            step => {
                let make = matches!(step, Some(Step::Make));
                Ok(Py::new(py, Pending { call: number, make })?.into_any())
            }
        }
    }

    /// Polls a call whose place says so. `None`: it waits, or was forgotten.
    fn poll(&self, number: u64, mut waiting: Box<Waiting>) -> Option<Step> {
        waiting.waker.is_queued.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&waiting.waker));
        let polled = waiting.call.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(outcome) = polled {
            lock(&self.table).remove(&number);
            let Waiting { asked, codec, .. } = *waiting;
            return Some(Step::Answered(asked, codec, outcome));
        }
        let is_placed = waiting.order.as_ref().is_some_and(|order| order.take_placed());
        let mut table = lock(&self.table);
        match table.get_mut(&number) {
            Some(place @ Place::Polled { is_forgotten: false }) => *place = Place::Waiting(waiting),
            // Forgotten during the poll. The call is dropped without the lock.
            _ => {
                table.remove(&number);
                drop(table);
                return None;
            }
        }
        is_placed.then_some(Step::Make)
    }

    /// Takes a call out of its place, to be polled. `None` if it was answered, or is polled by another thread: then its
    /// number stays for the next turn.
    fn take_waiting(&self, number: u64) -> Option<Box<Waiting>> {
        let mut table = lock(&self.table);
        let place = table.get_mut(&number)?;
        match std::mem::replace(place, Place::Polled { is_forgotten: false }) {
            Place::Waiting(waiting) => Some(waiting),
            polled @ Place::Polled { .. } => {
                *place = polled;
                drop(table);
                self.signal.note(number);
                None
            }
        }
    }

    fn order_of(&self, number: u64) -> Option<Arc<Order>> {
        match lock(&self.table).get(&number) {
            Some(Place::Waiting(waiting)) => waiting.order.clone(),
            _ => None,
        }
    }

    /// Makes a call with a copy of the key.
    fn with_key<F>(
        &self,
        py: Python<'_>,
        store: &Store,
        asked: Asked,
        key: Key<'_>,
        call: impl FnOnce(Arc<Larder>, Vec<u8>) -> F,
    ) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Answer, Failure>> + Send + 'static,
    {
        let call = call(store.cache(py)?, key.0.to_vec());
        self.begin(py, store, (asked, None), call)
    }
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| PyOSError::new_err(format!("an eventfd: {error}")))?;
        Ok(Self {
            signal: Arc::new(Signal { descriptor, woken: Mutex::default() }),
            table: Mutex::default(),
            next: AtomicU64::new(1),
            born: Birthplace::here(),
        })
    }

    /// The descriptor that the loop watches.
    fn fileno(&self) -> i32 {
        self.signal.descriptor.as_raw_fd()
    }

    /// Number of calls that wait.
    fn __len__(&self) -> usize {
        lock(&self.table).len()
    }

    /// Polls the calls that were woken. Returns for each that has something to tell: its number; 0 and its answer, 1
    /// and its exception, or 2 if the loop has to make the value.
    fn turn(&self, py: Python<'_>) -> PyResult<Vec<(u64, u8, Py<PyAny>)>> {
        self.born.check(py)?;
        let steps: Vec<(u64, Step)> = py.detach(|| {
            let woken = self.signal.take().into_iter();
            woken
                .filter_map(|number| Some((number, self.poll(number, self.take_waiting(number)?)?)))
                .collect()
        });
        let tell = |(number, step)| match step {
            Step::Make => (number, 2, py.None()),
            Step::Answered(asked, codec, outcome) => {
                let outcome = match outcome {
                    Ok(answer) => told(py, &codec, asked, answer),
                    Err(failure) => Err(failure.raised(py)),
                };
                match outcome {
                    Ok(answer) => (number, 0, answer),
                    Err(error) => (number, 1, error.into_value(py).into_any()),
                }
            }
        };
        Ok(steps.into_iter().map(tell).collect())
    }

    /// Drops a call that is of no use any more.
    fn forget(&self, call: u64) {
        let mut table = lock(&self.table);
        if let Some(Place::Polled { is_forgotten }) = table.get_mut(&call) {
            *is_forgotten = true;
            return;
        }
        let forgotten = table.remove(&call);
        drop(table);
        drop(forgotten);
    }

    /// Delivers the value that a call has asked for.
    #[pyo3(signature = (call, store, value, ttl))]
    fn deliver(
        &self,
        call: u64,
        store: &Store,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<()> {
        let made = filling::fetched(store.codec(), value, store.ttl(ttl))?;
        self.order_of(call).into_iter().for_each(|order| order.deliver(Ok(made.clone())));
        Ok(())
    }

    /// Tells why the value that a call has asked for was not made: every caller that waits for it gets the exception.
    fn fail(&self, call: u64, error: Bound<'_, PyAny>) {
        if let Some(order) = self.order_of(call) {
            order.deliver(Err(PyErr::from_value(error)));
        }
    }

    fn get(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Key<'_>,
        default: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let cache = store.cache(py)?;
        if let Some(found) = store.find_at_once(py, &cache, key.0)? {
            return Ok(found.map_or(default, Bound::unbind));
        }
        self.with_key(py, store, Asked::Or(default), key, async |cache, key| {
            Ok(Answer::Value(cache.get(&key).await?))
        })
    }

    fn get_item(&self, py: Python<'_>, store: &Store, key: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let bound = key.clone_ref(py).into_bound(py);
        let of: Key<'_> = bound.extract()?;
        self.with_key(py, store, Asked::Key(key), of, async |cache, key| {
            Ok(Answer::Value(cache.get(&key).await?))
        })
    }

    fn get_view(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Key<'_>,
        default: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        self.with_key(py, store, Asked::Or(default), key, async |cache, key| {
            Ok(Answer::Seen(cache.get(&key).await?))
        })
    }

    fn set(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<Py<PyAny>> {
        let (value, flags) = store.codec().encode(value)?;
        let options = SetOptions { ttl: store.ttl(ttl), flags, ..SetOptions::default() };
        let cache = store.cache(py)?;
        if cache.set_at_once(key.0, &value, options).map_err(|e| errors::of_cache(py, &e))? {
            return Ok(py.None());
        }
        self.with_key(py, store, Asked::Plainly, key, async move |cache, key| {
            cache.set_with(&key, &value, options).await?;
            Ok(Answer::Nothing)
        })
    }

    fn add(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Key<'_>,
        value: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<Py<PyAny>> {
        let (value, flags) = store.codec().encode(value)?;
        let options = SetOptions { ttl: store.ttl(ttl), flags, ..SetOptions::default() };
        self.with_key(py, store, Asked::Plainly, key, async move |cache, key| {
            Ok(Answer::Flag(cache.add(&key, &value, options).await?))
        })
    }

    fn get_or_set(&self, py: Python<'_>, store: &Store, key: Key<'_>) -> PyResult<Py<PyAny>> {
        let cache = store.cache(py)?;
        if let Some(Some(found)) = store.find_at_once(py, &cache, key.0)? {
            return Ok(found.unbind());
        }
        let (key, order) = (key.0.to_vec(), Arc::new(Order::default()));
        let placed = Arc::clone(&order);
        let call = async move {
            let made = cache.get_or_fetch(&key, SetOptions::default(), move || placed.value());
            Ok(Answer::Value(Some(made.await.map_err(Failure::Fetch)?)))
        };
        self.begin(py, store, (Asked::Plainly, Some(order)), call)
    }

    fn delete(&self, py: Python<'_>, store: &Store, key: Key<'_>) -> PyResult<Py<PyAny>> {
        self.with_key(py, store, Asked::Plainly, key, async |cache, key| {
            Ok(Answer::Flag(cache.delete(&key).await?))
        })
    }

    fn pop(&self, py: Python<'_>, store: &Store, key: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let bound = key.clone_ref(py).into_bound(py);
        let of: Key<'_> = bound.extract()?;
        self.with_key(py, store, Asked::Key(key), of, async |cache, key| {
            Ok(Answer::Value(calls::pop(&cache, &key).await?))
        })
    }

    fn touch(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Key<'_>,
        ttl: Lifetime,
    ) -> PyResult<Py<PyAny>> {
        let ttl = store.ttl(ttl);
        self.with_key(py, store, Asked::Plainly, key, async move |cache, key| {
            Ok(Answer::Flag(cache.touch(&key, ttl).await?))
        })
    }

    fn incr(
        &self,
        py: Python<'_>,
        store: &Store,
        key: Py<PyAny>,
        delta: i64,
        default: Option<i64>,
        ttl: Lifetime,
    ) -> PyResult<Py<PyAny>> {
        let bound = key.clone_ref(py).into_bound(py);
        let of: Key<'_> = bound.extract()?;
        let ttl = store.ttl(ttl);
        self.with_key(py, store, Asked::Key(key), of, async move |cache, key| {
            let counted = calls::count(&cache, &key, (delta, default), ttl).await?;
            Ok(Answer::Counted(counted))
        })
    }

    fn has_key(&self, py: Python<'_>, store: &Store, key: Key<'_>) -> PyResult<Py<PyAny>> {
        self.with_key(py, store, Asked::Plainly, key, async |cache, key| {
            Ok(Answer::Flag(cache.contains(&key).await?))
        })
    }

    fn get_many(&self, py: Python<'_>, store: &Store, keys: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let cache = store.cache(py)?;
        let key = |key: &Py<PyAny>| Ok(key.bind(py).extract::<Key<'_>>()?.0.to_vec());
        let of: Vec<Vec<u8>> = keys.iter().map(key).collect::<PyResult<_>>()?;
        self.begin(py, store, (Asked::Keys(keys), None), async move {
            Ok(Answer::Values(cache.get_many(&of).await?))
        })
    }

    fn set_many(
        &self,
        py: Python<'_>,
        store: &Store,
        items: &Bound<'_, PyAny>,
        ttl: Lifetime,
    ) -> PyResult<Py<PyAny>> {
        let (cache, ttl) = (store.cache(py)?, store.ttl(ttl));
        let mut encoded = Vec::new();
        for item in items.call_method0("items")?.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
            let (value, flags) = store.codec().encode(&value)?;
            encoded.push((key.extract::<Key<'_>>()?.0.to_vec(), value, flags));
        }
        self.begin(py, store, (Asked::Plainly, None), async move {
            calls::set_many(&cache, &encoded, ttl).await?;
            Ok(Answer::Nothing)
        })
    }

    fn delete_many(
        &self,
        py: Python<'_>,
        store: &Store,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (cache, keys) = (store.cache(py)?, owned_keys(keys)?);
        self.begin(py, store, (Asked::Plainly, None), async move {
            Ok(Answer::Number(calls::delete_many(&cache, &keys).await?))
        })
    }

    fn clear(&self, py: Python<'_>, store: &Store) -> PyResult<Py<PyAny>> {
        let cache = store.cache(py)?;
        self.begin(py, store, (Asked::Plainly, None), async move {
            cache.clear().await?;
            Ok(Answer::Nothing)
        })
    }

    fn flush(&self, py: Python<'_>, store: &Store) -> PyResult<Py<PyAny>> {
        let cache = store.cache(py)?;
        self.begin(py, store, (Asked::Plainly, None), async move {
            Ok(Answer::Flushed(cache.flush().await?))
        })
    }

    fn close(&self, py: Python<'_>, store: &Store) -> PyResult<Py<PyAny>> {
        store.born().check(py)?;
        let Some(cache) = store.take() else { return Ok(py.None()) };
        self.begin(py, store, (Asked::Plainly, None), async move {
            cache.close().await?;
            Ok(Answer::Nothing)
        })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if !self.born.is_here() {
            // The calls are of the parent; see `fork`.
            std::mem::forget(std::mem::take(&mut *lock(&self.table)));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
