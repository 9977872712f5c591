//! The state of the cache device: how often it has failed, and what is to be written about that in its label.
//!
//! *Always:* the device is whole until it has failed too often, and never whole again before it is replaced. Writes
//! wait only until the label is marked, or is known to need no mark.

use std::time::Duration;

use super::state::Health;
use super::statistics::BypassReason;
use crate::layout::Target;

/// How long after a failed I/O the layout retries it.
const RETRY: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct DeviceHealth {
    health: Health,
    mark: Mark,
    /// Writes that wait for the mark.
    parked: Vec<usize>,
    /// I/Os that the cache device has refused.
    errors: u64,
    /// When refused I/Os are retried.
    retry_at: Option<Duration>,
}

/// Progress of the mark in the label that says that the content of the device is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    Unneeded,
    Wanted,
    Asked,
    Done,
}

impl DeviceHealth {
    /// A device in this state, without errors.
    pub(super) fn new(health: Health) -> Self {
        let (mark, parked) = (Mark::default(), Vec::new());
        Self { health, mark, parked, errors: 0, retry_at: None }
    }

    pub(super) fn get(&self) -> Health {
        self.health
    }

    pub(super) fn is_whole(&self) -> bool {
        self.health == Health::Whole
    }

    pub(super) fn has_failed(&self) -> bool {
        self.health == Health::Failed
    }

    /// The reason why all requests bypass the cache, if they do.
    pub(super) fn why_unused(&self) -> Option<BypassReason> {
        match self.health {
            Health::Whole => None,
            Health::Failed => Some(BypassReason::CacheFailed),
            Health::Detached => Some(BypassReason::Detached),
        }
    }

    /// An I/O has failed. With `errors_max` errors of the cache device, the device has failed.
    pub(super) fn io_failed(&mut self, target: Target, now: Duration, errors_max: u32) {
        self.retry_at.get_or_insert(now + RETRY);
        if target == Target::Cache {
            self.errors += 1;
            if self.errors >= u64::from(errors_max) {
                self.health = Health::Failed;
            }
        }
    }

    /// The number of errors of the cache device.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Whether refused I/Os are to be retried now. If so, they are retried again later: an I/O that a device has
    /// refused may still be in flight now.
    pub(super) fn takes_retry(&mut self, now: Duration) -> bool {
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if is_due {
            self.retry_at = Some(now + RETRY);
        }
        is_due
    }

    /// When refused I/Os are retried.
    pub(super) fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }

    /// Whether a write may go past the device now. If not, it is parked.
    pub(super) fn lets_past(&mut self, key: usize) -> bool {
        let is_marked = self.has_marked();
        if !is_marked {
            self.parked.push(key);
        }
        is_marked
    }

    /// The parked writes, if it is not decided yet what becomes of them.
    pub(super) fn undecided(&self) -> Option<&[usize]> {
        let is_undecided = !self.parked.is_empty() && self.mark == Mark::Unneeded;
        is_undecided.then_some(&self.parked)
    }

    /// Takes out the parked writes.
    pub(super) fn take_parked(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.parked)
    }

    /// The label must say that the content of the device is void.
    pub(super) fn want_mark(&mut self) {
        self.mark = Mark::Wanted;
    }

    /// Whether the label must be marked; `true` once.
    pub(super) fn takes_mark(&mut self) -> bool {
        let wants = self.mark == Mark::Wanted;
        if wants {
            self.mark = Mark::Asked;
        }
        wants
    }

    /// The label is marked, or cannot be.
    pub(super) fn marked(&mut self) {
        self.mark = Mark::Done;
    }

    pub(super) fn has_marked(&self) -> bool {
        self.mark == Mark::Done
    }

    /// Whether the label must say that the content of the device is void, whatever else it says.
    pub(super) fn is_given_up(&self) -> bool {
        self.mark != Mark::Unneeded
    }
}
