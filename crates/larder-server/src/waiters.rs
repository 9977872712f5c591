//! Clients that wait for a member of a list or of a sorted set.
//!
//! A client that waits stands in the queue of each of its keys. A change that makes a collection longer wakes the first
//! of the key's queue, which tries again. A client that has taken something, or has found nothing that it may take,
//! wakes the next. So nothing polls, and clients are served in the order in which they came.
//!
//! A client stands in the queues before it tries: a change after its attempt finds it there.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Clients that wait for a key, by the order in which they came.
type Queue = BTreeMap<u64, Arc<Waiter>>;
type Queues = BTreeMap<Box<[u8]>, Queue>;

/// The queues of all tenants. No queue is empty.
pub(crate) struct Waiters {
    tenants: Box<[Mutex<Queues>]>,
    /// Clients that wait, so that a change knows without a lock that there is none.
    count: AtomicUsize,
    next: AtomicU64,
}

/// What another client has told a waiting one to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unblock {
    /// Answer as if the time were over.
    TimedOut,
    /// Answer with an error.
    Failed,
}

/// A client that waits.
#[derive(Default)]
pub(crate) struct Waiter(Mutex<State>);

#[derive(Default)]
struct State {
    is_woken: bool,
    unblock: Option<Unblock>,
    waker: Option<Waker>,
}

impl Waiter {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let mut state = self.lock();
        state.is_woken = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Tells the client to wait no longer. `false`: it was told already.
    pub(crate) fn unblock(&self, how: Unblock) -> bool {
        let is_first = self.lock().unblock.is_none();
        self.lock().unblock.get_or_insert(how);
        self.wake();
        is_first
    }

    /// Ready when it was woken.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.is_woken {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether it was woken since the last [`Waiter::tries`].
    pub(crate) fn is_woken(&self) -> bool {
        self.lock().is_woken
    }

    /// It is about to try again. Returns what another client has told it.
    fn tries(&self) -> Option<Unblock> {
        let mut state = self.lock();
        state.is_woken = false;
        state.unblock
    }
}

impl Waiters {
    /// No clients, of this number of tenants.
    pub(crate) fn new(tenants: usize) -> Self {
        Self {
            tenants: (0..tenants).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            next: AtomicU64::new(0),
        }
    }

    fn of(&self, tenant: usize) -> MutexGuard<'_, Queues> {
        self.tenants[tenant].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection of `key` has become longer: wakes the first client that waits for it.
    pub(crate) fn wake(&self, tenant: usize, key: &[u8]) {
        self.wake_behind(tenant, key, None);
    }

    fn wake_behind(&self, tenant: usize, key: &[u8], behind: Option<u64>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let queues = self.of(tenant);
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let queue = queues.get(key);
        if let Some((_, waiter)) = queue.and_then(|it| it.range((from, Bound::Unbounded)).next()) {
            waiter.wake();
        }
    }
}

/// The place of a client in the queues of its keys, until it is dropped.
pub(crate) struct Place {
    waiters: Arc<Waiters>,
    waiter: Arc<Waiter>,
    number: u64,
    /// The keys, each with the number of its tenant.
    keys: Vec<(usize, Box<[u8]>)>,
}

impl Place {
    /// Stands behind the others that wait for these keys.
    pub(crate) fn new(waiters: &Arc<Waiters>, keys: Vec<(usize, Box<[u8]>)>) -> Self {
        let place = Self {
            waiters: Arc::clone(waiters),
            waiter: Arc::default(),
            number: waiters.next.fetch_add(1, Ordering::Relaxed),
            keys,
        };
        waiters.count.fetch_add(1, Ordering::SeqCst);
        for (tenant, key) in &place.keys {
            let mut queues = waiters.of(*tenant);
            let queue = match queues.get_mut(key) {
                Some(queue) => queue,
                None => queues.entry(key.clone()).or_default(),
            };
            queue.insert(place.number, Arc::clone(&place.waiter));
        }
        place
    }

    pub(crate) fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// It is about to try again. Returns what another client has told it.
    pub(crate) fn tries(&self) -> Option<Unblock> {
        self.waiter.tries()
    }

    /// It has found nothing that it may take: another client may.
    pub(crate) fn passes_on(&self) {
        for (tenant, key) in &self.keys {
            self.waiters.wake_behind(*tenant, key, Some(self.number));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for (tenant, key) in &self.keys {
            let mut queues = self.waiters.of(*tenant);
            if let Some(queue) = queues.get_mut(key) {
                queue.remove(&self.number);
                if queue.is_empty() {
                    queues.remove(key);
                }
            }
            drop(queues);
            // It may have been woken for what it has not taken, and there may be more than it has taken.
            self.waiters.wake(*tenant, key);
        }
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(waiters: &Arc<Waiters>, keys: &[&str]) -> Place {
        Place::new(waiters, keys.iter().map(|key| (0, key.as_bytes().into())).collect())
    }

    #[test]
    fn the_first_is_woken_and_wakes_the_next() {
        let waiters = Arc::new(Waiters::new(2));
        let (one, two) = (place(&waiters, &["a", "b"]), place(&waiters, &["b"]));
        waiters.wake(0, b"c");
        waiters.wake(1, b"a");
        assert!(!one.waiter.is_woken(), "another key, another tenant");
        waiters.wake(0, b"b");
        assert!(one.waiter.is_woken() && !two.waiter.is_woken());
        assert_eq!(one.tries(), None);
        assert!(!one.waiter.is_woken());
        one.passes_on();
        assert!(two.waiter.is_woken(), "what the first may not take");
        two.tries();
        drop(one);
        assert!(two.waiter.is_woken(), "what the first has left");
        drop(two);
        assert!(waiters.of(0).is_empty(), "no queue is empty");
        assert_eq!(waiters.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_client_is_told_once_to_wait_no_longer() {
        let waiters = Arc::new(Waiters::new(1));
        let place = place(&waiters, &["a", "a"]);
        assert!(place.waiter().poll(&Context::from_waker(Waker::noop())).is_pending());
        assert!(
            place.waiter().unblock(Unblock::Failed) && !place.waiter().unblock(Unblock::TimedOut)
        );
        assert!(place.waiter().poll(&Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(place.tries(), Some(Unblock::Failed));
    }
}
