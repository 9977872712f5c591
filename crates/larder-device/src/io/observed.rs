//! Observers that are told how a request ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::IoResult;
use crate::clock::Clock;
use crate::error::Error;

/// Kind of a request, as far as it says how long the request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A request whose cost may depend on much that was written before: a flush, a deallocation or a write of zeros.
    Other,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// It succeeded.
    Well,
    /// The device failed it.
    Failed(&'a Error),
    /// The caller no longer waits for it. The device may still carry it out.
    GivenUp,
}

/// Gets told of requests. The tasks that send and wait for requests call it directly, so the calls must be short.
pub trait Observer: Send + Sync {
    /// A request is sent at `now`, in monotonic time of the device's clock. Returns a number for it.
    fn begins(&self, kind: RequestKind, now: Duration) -> u64;

    /// The request with this number has ended.
    fn ended(&self, number: u64, now: Duration, ending: Ending<'_>);
}

/// A request with an observer, until it has ended or its caller no longer waits for it.
pub(crate) struct ObservedRequest {
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    number: u64,
    has_ended: bool,
}

impl ObservedRequest {
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

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tell(Ending::GivenUp);
        }
    }
}

impl fmt::Debug for ObservedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("number", &self.number).finish_non_exhaustive()
    }
}
