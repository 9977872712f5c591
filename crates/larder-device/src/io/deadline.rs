//! The deadline of a request, as its future sees it. The watchdog is behind the [`Overseer`] trait, so that requests
//! know nothing of the device that gives them up.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::future::UnderWay;
use crate::error::Error;

/// What the overseer has to know of a request that was sent to the device.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: &'static str,
    pub(crate) range: Range<u64>,
    /// Whether the request changes the data in the range.
    pub(crate) changes: bool,
    /// How long the request may take.
    pub(crate) allowance: Duration,
}

/// Wakes waiting tasks whose deadline has passed, and keeps track of requests that were given up.
pub(crate) trait Overseer: Send + Sync {
    /// Registers a task that waits until `due`, by the overseer's clock, and wakes it then. Returns its number.
    fn wait(self: Arc<Self>, due: Duration, waker: &Waker) -> usize;

    /// Whether the waiting task's deadline has passed. If not, `waker` is woken when it passes.
    fn is_over(&self, number: usize, waker: &Waker) -> bool;

    /// Removes the waiting task.
    fn forget(&self, number: usize);

    /// The device has ended a request, so it is alive.
    fn answered(&self);

    /// The caller no longer waits for the request. Returns the error that the caller gets.
    fn give_up(self: Arc<Self>, request: &Request, under_way: UnderWay) -> Error;
}

/// The time by which a request must have ended.
pub(crate) struct Deadline {
    overseer: Arc<dyn Overseer>,
    request: Request,
    due: Duration,
    /// Its number at the overseer, from the first poll that found the request pending.
    number: Option<usize>,
}

impl Deadline {
    /// A deadline for `request` at `due`, by the overseer's clock.
    pub(crate) fn new(overseer: Arc<dyn Overseer>, request: Request, due: Duration) -> Self {
        Self { overseer, request, due, number: None }
    }

    /// Called while the request has not ended: ready once the deadline has passed. Before that, registers `context` to
    /// be woken then.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(number) = self.number else {
            let overseer = Arc::clone(&self.overseer);
            self.number = Some(overseer.wait(self.due, context.waker()));
            return Poll::Pending;
        };
        if self.overseer.is_over(number, context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The request has ended in time.
    pub(super) fn met(&self) {
        self.overseer.answered();
    }

    /// The caller no longer waits for the request. Returns the error that the caller gets.
    pub(super) fn give_up(&self, under_way: UnderWay) -> Error {
        Arc::clone(&self.overseer).give_up(&self.request, under_way)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.overseer.forget(number);
        }
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("due", &self.due).finish_non_exhaustive()
    }
}
