//! Until when a request must have ended, as its future knows it: who watches over that is behind a trait, so that
//! requests know nothing of the device that gives them up.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::future::UnderWay;
use crate::error::Error;

/// What is known of a request when its device has it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: &'static str,
    pub(crate) range: Range<u64>,
    /// It changes what is in the range.
    pub(crate) changes: bool,
    /// How long it may take.
    pub(crate) allowance: Duration,
}

/// Who wakes those who wait for too long, and sees to what was given up.
pub(crate) trait Overseer: Send + Sync {
    /// Somebody waits until `due`, by the overseer's clock, and is woken then. Returns its number.
    fn wait(self: Arc<Self>, due: Duration, waker: &Waker) -> usize;

    /// Whether the time of the one who waits is over; if not, it is woken when it is.
    fn is_over(&self, number: usize, waker: &Waker) -> bool;

    /// It waits no more.
    fn forget(&self, number: usize);

    /// The device has ended a request: it is alive.
    fn answered(&self);

    /// Nobody waits for the request any more. Returns what its caller is told.
    fn give_up(self: Arc<Self>, request: &Request, under_way: UnderWay) -> Error;
}

/// Until when a request must have ended.
pub(crate) struct Deadline {
    overseer: Arc<dyn Overseer>,
    request: Request,
    due: Duration,
    /// In the list of those who wait, from the first time that it had to be waited for.
    number: Option<usize>,
}

impl Deadline {
    /// For `request`, which must have ended at `due` by the overseer's clock.
    pub(crate) fn new(overseer: Arc<dyn Overseer>, request: Request, due: Duration) -> Self {
        Self { overseer, request, due, number: None }
    }

    /// The request has not ended: is it too late now? If not, `context` will be woken when it is.
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

    /// Nobody waits for the request any more. Returns what its caller is told.
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
