//! A request that waits for something to take, between its attempts.

use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::{Clock, Sleep};

use super::command::Command;
use super::parse::OwnedArguments;
use crate::account::KeptBytes;
use crate::waiters::Place;

/// A request that waits.
pub(super) struct Waiting {
    pub(super) command: &'static Command,
    pub(super) request: OwnedArguments,
    pub(super) place: Place,
    /// The end of its time, by the clock of the worker.
    pub(super) until: Option<Duration>,
    pub(super) timer: Option<Sleep>,
    /// Answers were suppressed when it began.
    pub(super) is_muted: bool,
    /// The memory of clients that it takes.
    pub(super) _kept: KeptBytes,
}

impl Waiting {
    /// Whether it has something to do.
    pub(super) fn is_due(&self, clock: &dyn Clock) -> bool {
        self.place.waiter().is_woken() || self.until.is_some_and(|until| clock.monotonic() >= until)
    }

    /// Ready when it has something to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            return Poll::Ready(());
        }
        self.place.waiter().poll(cx)
    }
}
