//! Who is told how a request ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::IoResult;
use crate::clock::Clock;
use crate::error::Error;

/// What a request asks for, as far as it says how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Bytes.
    Read,
    /// To keep bytes.
    Write,
    /// What may stand for much that was written before: a flush, a deallocation, zeros.
    Other,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// Well.
    Well,
    /// The device could not.
    Failed(&'a Error),
    /// Nobody waits for it any more; it goes on.
    GivenUp,
}

/// Who is told of requests. Calls come from whoever sends them and waits for them, at once: they are to be short.
pub trait Observer: Send + Sync {
    /// One is sent at `now`, by the monotonic time of the device's clock. Returns a number for it.
    fn begins(&self, kind: RequestKind, now: Duration) -> u64;

    /// The one with this number has ended.
    fn ended(&self, number: u64, now: Duration, ending: Ending<'_>);
}

/// A request that somebody observes, until it has ended or nobody waits for it any more.
pub(crate) struct Observed {
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    number: u64,
    has_ended: bool,
}

impl Observed {
    pub(crate) fn new(observer: Arc<dyn Observer>, clock: Arc<dyn Clock>, number: u64) -> Self {
        Self { observer, clock, number, has_ended: false }
    }

    pub(super) fn ended(&mut self, result: &IoResult) {
        self.tell(match result {
            Ok(_) => Ending::Well,
            Err(failure) => Ending::Failed(&failure.error),
        });
    }

    fn tell(&mut self, ending: Ending<'_>) {
        debug_assert!(!self.has_ended, "a request ends once");
        self.has_ended = true;
        self.observer.ended(self.number, self.clock.monotonic(), ending);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tell(Ending::GivenUp);
        }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("number", &self.number).finish_non_exhaustive()
    }
}
