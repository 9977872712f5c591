//! Events of keys that wait to be published. One task publishes them, in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::config::KeyspaceEvents;

/// Most bytes of events that wait; more are dropped.
const BYTES_MAX: usize = 8 << 20;
/// About how many bytes an event takes besides its key.
const NOTICE_BYTES: usize = 64;

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The number of the tenant.
    pub(crate) tenant: usize,
    /// The index of the database.
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) event: &'static str,
    /// What was to be published when it happened.
    pub(crate) events: KeyspaceEvents,
}

/// Events that wait to be published.
#[derive(Default)]
pub(super) struct Notices {
    state: Mutex<State>,
    dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Notice>,
    bytes: usize,
    waker: Option<Waker>,
}

impl Notice {
    fn bytes(&self) -> usize {
        self.key.len() + NOTICE_BYTES
    }
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events that were dropped because too many waited.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds an event behind the others.
    pub(super) fn put(&self, notice: Notice) {
        let mut state = self.lock();
        if state.bytes + notice.bytes() > BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes += notice.bytes();
        state.waiting.push_back(notice);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The oldest event.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Notice> {
        let mut state = self.lock();
        match state.waiting.pop_front() {
            Some(notice) => {
                state.bytes -= notice.bytes();
                Poll::Ready(notice)
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
