//! `get_or_set`: of all threads and tasks that miss a key, one makes its value, and the others wait for it.
//!
//! The cache itself has this (`Larder::get_or_fetch`), with its promises: a change of the key beats a value that is
//! being made, and if the caller that makes it gives up, another one makes it. A thread makes the value in the call. An
//! event loop cannot: the call places an [`Order`], the loop runs the coroutine that makes the value, and delivers it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use larder::{FetchError, Fetched, Larder, SetOptions, Value, block_on};
use pyo3::prelude::*;

use crate::codec::Codec;

/// The bytes of a value that was made, with its flags and lifetime.
pub(crate) fn fetched(
    codec: &Codec,
    made: &Bound<'_, PyAny>,
    ttl: Option<Duration>,
) -> PyResult<Fetched> {
    let (value, flags) = codec.encode(made)?;
    Ok(Fetched::with(value.to_vec(), SetOptions { ttl, flags, ..SetOptions::default() }))
}

/// Looks a key up; after a miss, calls `make` or waits for a caller that does.
pub(crate) fn get_or_set(
    py: Python<'_>,
    (cache, codec): (&Larder, &Codec),
    key: &[u8],
    make: &Py<PyAny>,
    ttl: Option<Duration>,
) -> Result<Value, FetchError> {
    let made = || async {
        Python::attach(|py| {
            let make = make.bind(py);
            let value = if make.is_callable() { make.call0()? } else { make.clone() };
            fetched(codec, &value, ttl)
        })
    };
    py.detach(|| block_on(cache.get_or_fetch(key, SetOptions::default(), made)))
}

/// A value that an event loop has to make, if the call asks for it.
#[derive(Default)]
pub(crate) struct Order(Mutex<State>);

#[derive(Default)]
struct State {
    is_placed: bool,
    delivered: Option<PyResult<Fetched>>,
    waker: Option<Waker>,
}

impl Order {
    /// Waits for the value. The order is placed when this is polled first.
    pub(crate) fn value(self: Arc<Self>) -> Delivery {
        Delivery { order: self, has_asked: false }
    }

    /// Whether it was placed since the last time that this was asked.
    pub(crate) fn take_placed(&self) -> bool {
        std::mem::take(&mut self.lock().is_placed)
    }

    /// Delivers the value, or what its maker raised.
    pub(crate) fn deliver(&self, made: PyResult<Fetched>) {
        let mut state = self.lock();
        state.delivered = Some(made);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Order::value`].
pub(crate) struct Delivery {
    order: Arc<Order>,
    has_asked: bool,
}

impl Future for Delivery {
    type Output = PyResult<Fetched>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        let mut state = self.order.lock();
        state.is_placed |= is_first;
        match state.delivered.take() {
            Some(made) => Poll::Ready(made),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
