//! The lines that wait for one client.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{BUFFER_BYTES, Streams};
use crate::account::KeptBytes;

/// A client that watches, and the lines that it has not been sent.
pub(crate) struct Watcher {
    streams: Streams,
    state: Mutex<State>,
}

struct State {
    /// Whole lines, but for the first one.
    lines: Vec<u8>,
    /// Lines that were dropped since the last one that fitted.
    skipped: u64,
    waker: Option<Waker>,
    /// The charge for `lines`.
    _kept: KeptBytes,
}

impl Watcher {
    /// A watcher of these streams, whose buffer is charged to `kept`.
    pub(super) fn new(streams: Streams, kept: KeptBytes) -> Self {
        // All of it at once: a vector that grows may take twice its length.
        let lines = Vec::with_capacity(BUFFER_BYTES);
        let state = State { lines, skipped: 0, waker: None, _kept: kept };
        Self { streams, state: Mutex::new(state) }
    }

    pub(super) fn streams(&self) -> Streams {
        self.streams
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line behind the others. `false`: it does not fit, and is dropped.
    pub(super) fn put(&self, line: &str) -> bool {
        let mut state = self.lock();
        let note = match state.skipped {
            0 => String::new(),
            skipped => format!("skipped={skipped}\n"),
        };
        if state.lines.len() + note.len() + line.len() > BUFFER_BYTES {
            state.skipped += 1;
            return false;
        }
        state.skipped = 0;
        state.lines.extend_from_slice(note.as_bytes());
        state.lines.extend_from_slice(line.as_bytes());
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

    /// Moves up to `bytes_max` bytes of lines to `out`. Returns how many there were.
    pub(crate) fn take(&self, bytes_max: usize, out: &mut Vec<u8>) -> usize {
        let mut state = self.lock();
        let bytes = state.lines.len().min(bytes_max);
        out.extend(state.lines.drain(..bytes));
        bytes
    }

    /// Ready when there are lines.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.lines.is_empty() {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
