//! Detects calls of the cache from inside itself that would wait for their own thread.
//!
//! A fetch that asks for the key that it fetches waits for itself. The closure of an update runs while its key is
//! locked, and keys share locks: a call from inside it may wait for that lock. Both are detected on the same thread,
//! by a record of what runs on it. A closure that waits for another thread that makes the call, or a fetch that waits
//! for another task, cannot be detected; docs/semantics.md says so.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::LocalKey;

use crate::base::error::{Error, ErrorKind};

type Inside = RefCell<Vec<usize>>;

thread_local! {
    /// Calls whose fetches are being polled on this thread, innermost last.
    static FETCHING: Inside = const { RefCell::new(Vec::new()) };
    /// Caches that run closures of updates on this thread, innermost last.
    static UPDATING: Inside = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as inside a fetch or an update while it lives, also during a panic.
struct ReentryMark {
    what: &'static LocalKey<Inside>,
    id: usize,
}

impl ReentryMark {
    fn new(what: &'static LocalKey<Inside>, id: usize) -> Self {
        // A thread that is ending has no such list any more.
        let _ = what.try_with(|inside| inside.borrow_mut().push(id));
        Self { what, id }
    }
}

impl Drop for ReentryMark {
    fn drop(&mut self) {
        if let Ok(left) = self.what.try_with(|inside| inside.borrow_mut().pop()) {
            debug_assert_eq!(left, Some(self.id), "the innermost is left first");
        }
    }
}

fn is_inside(what: &'static LocalKey<Inside>, id: usize) -> bool {
    what.try_with(|inside| inside.borrow().contains(&id)).unwrap_or(false)
}

/// A fetch that marks its thread while it is polled.
pub(super) struct Fetching<F> {
    call: usize,
    fetch: Pin<Box<F>>,
}

impl<F> Fetching<F> {
    pub(super) fn new(call: usize, fetch: F) -> Self {
        Self { call, fetch: Box::pin(fetch) }
    }
}

impl<F: Future> Future for Fetching<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = ReentryMark::new(&FETCHING, self.call);
        self.fetch.as_mut().poll(context)
    }
}

/// Refuses to wait for a fetch from inside that fetch.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub(super) fn check_fetch(call: usize) -> Result<(), Error> {
    let message = "a fetch asks for the key that it fetches: it would wait for itself";
    refuse_if(is_inside(&FETCHING, call), message)
}

/// Runs the closure of an update of the cache with this address.
pub(super) fn updating<T>(cache: usize, closure: impl FnOnce() -> T) -> T {
    let _inside = ReentryMark::new(&UPDATING, cache);
    closure()
}

/// Refuses a call of the cache with this address from inside the closure of an update.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub(super) fn check_update(cache: usize) -> Result<(), Error> {
    let message = "called from inside the closure of an update, which holds the lock of its key, and \
                   that may be the lock of this key too: call it before or after the update";
    refuse_if(is_inside(&UPDATING, cache), message)
}

fn refuse_if(refused: bool, message: &str) -> Result<(), Error> {
    if refused { Err(Error::new(ErrorKind::InvalidInput, message)) } else { Ok(()) }
}
