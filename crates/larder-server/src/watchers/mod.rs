//! Clients that watch what the server does (memcached's `watch`): each gets a line for every event of the streams that
//! it has chosen.
//!
//! An event that no client watches costs one load. A line waits for its watcher in a buffer of [`BUFFER_BYTES`], which
//! is charged when the watcher begins. A line that does not fit is dropped and counted, so no request waits for a
//! watcher.
//!
//! | File | Contents |
//! |---|---|
//! | `mod` | the watchers of the server |
//! | `watcher` | the lines that wait for one client |
//! | `event` | events, as they are written |

mod event;
#[cfg(test)]
mod tests;
mod watcher;

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use event::{
    CloseReason, ConnectionEvent, Deletion, Eviction, Fetch, FetchStatus, Mutation,
};
pub(crate) use watcher::Watcher;

use crate::account::KeptBytes;

/// Most watchers at a time, as in memcached.
const WATCHERS_MAX: usize = 20;
/// Most bytes of lines that wait for a watcher, as in memcached.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// Streams of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams(u8);

impl Streams {
    pub(crate) const FETCHERS: Self = Self(1);
    pub(crate) const MUTATIONS: Self = Self(2);
    pub(crate) const EVICTIONS: Self = Self(4);
    pub(crate) const CONNECTIONS: Self = Self(8);
    pub(crate) const DELETIONS: Self = Self(16);

    /// The streams of both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn share_one(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Why a client cannot watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchRefusal {
    TooMany,
    /// There is no memory for its lines.
    NoMemory,
}

/// The watchers of the server; see the module.
#[derive(Default)]
pub(crate) struct Watchers {
    /// The streams that any client watches.
    watched: AtomicU8,
    all: RwLock<Vec<Arc<Watcher>>>,
    /// Lines so far.
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

thread_local! {
    /// The name of the key that the last look-up of this thread has found expired.
    static EXPIRED: RefCell<Option<Box<[u8]>>> = const { RefCell::new(None) };
}

impl Watchers {
    /// Whether a client watches one of these streams.
    #[inline]
    pub(crate) fn want(&self, streams: Streams) -> bool {
        Streams(self.watched.load(Ordering::Relaxed)).share_one(streams)
    }

    /// Whether the caches must report what leaves them.
    pub(crate) fn want_removals(&self) -> bool {
        self.want(Streams::EVICTIONS.and(Streams::FETCHERS))
    }

    /// A client begins to watch. The buffer of its lines is charged to `kept`.
    pub(crate) fn begin(
        &self,
        streams: Streams,
        mut kept: KeptBytes,
    ) -> Result<Arc<Watcher>, WatchRefusal> {
        let mut all = self.write();
        if all.len() >= WATCHERS_MAX {
            return Err(WatchRefusal::TooMany);
        }
        if !kept.grow(BUFFER_BYTES) {
            return Err(WatchRefusal::NoMemory);
        }
        let watcher = Arc::new(Watcher::new(streams, kept));
        all.push(Arc::clone(&watcher));
        self.count(&all);
        Ok(watcher)
    }

    /// A client watches no more.
    pub(crate) fn end(&self, watcher: &Arc<Watcher>) {
        let mut all = self.write();
        all.retain(|it| !Arc::ptr_eq(it, watcher));
        self.count(&all);
    }

    fn count(&self, all: &[Arc<Watcher>]) {
        let streams = all.iter().fold(Streams::default(), |sum, it| sum.and(it.streams()));
        self.watched.store(streams.0, Ordering::Relaxed);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<Watcher>>> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a line to the watchers of a stream. Call it if [`Watchers::want`] says so.
    #[cold]
    pub(crate) fn tell(&self, stream: Streams, event: &dyn Display) {
        let line = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        // memcached leaves out the zeros in front of the microseconds, which makes another number of them.
        let line = format!("ts={seconds}.{micros:06} gid={line} {event}\n");
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        for watcher in all.iter().filter(|it| it.streams().share_one(stream)) {
            let counter = if watcher.put(&line) { &self.sent } else { &self.skipped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Watchers now, and the lines that they were given or that were dropped, each summed.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let watchers = self.all.read().unwrap_or_else(PoisonError::into_inner).len();
        (watchers, self.sent.load(Ordering::Relaxed), self.skipped.load(Ordering::Relaxed))
    }

    /// A cache has found on this thread that the key of this name has expired.
    pub(crate) fn note_expired(&self, name: &[u8]) {
        if self.want(Streams::FETCHERS) {
            EXPIRED.set(Some(name.into()));
        }
    }

    /// A look-up on this thread has ended: how, if it has found a value of `size` bytes or none.
    pub(crate) fn status_of(&self, name: &[u8], size: Option<usize>) -> FetchStatus {
        let expired = EXPIRED.take();
        match size {
            Some(_) => FetchStatus::Found,
            None if expired.as_deref() == Some(name) => FetchStatus::Expired,
            None => FetchStatus::NotFound,
        }
    }
}
