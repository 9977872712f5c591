//! What a cache does when its device fails.
//!
//! Errors of the cache device are counted. A request that one has hit is tried again; when there are too many, the
//! device is not written to any more ([`Health::Failed`]). Cores are read without it, but for what is dirty, which is
//! read from the cache device if that can be. Writes are another matter, for what the cache device has is out of date
//! as soon as a core is written without it, and it may come back:
//!
//! - as long as something is dirty, or not durable on its core, writes are refused.
//!   [`Request::Clean`](super::Request::Clean) may still save it;
//! - with all on the cores, whoever has the cache's label is asked to say there that nothing on the device must be
//!   believed ([`Cache::wants_mark`]). When it does ([`Cache::marked`]), cores are written without the device.
//!
//! Writes that come before that is settled wait.

use super::op::{IoUnderWay, Op, Step};
use super::state::{Cache, Health, Mark, RETRY};
use super::statistics::BypassReason;
use crate::layout::{CoreId, Layout, Span, Target};

impl Cache {
    /// Whether the label is to say that nothing on the device must be believed. Tells it once; answer with
    /// [`marked`](Self::marked).
    pub fn wants_mark(&mut self) -> bool {
        let wants = self.mark == Mark::Wanted;
        if wants {
            self.mark = Mark::Asked;
        }
        wants
    }

    /// Decides what becomes of those who wait, as soon as nothing is under way that could be dirty when it has ended.
    /// Whether some have ended.
    pub(super) fn settle_parked(&mut self) -> bool {
        if self.parked.is_empty() || self.mark != Mark::Unneeded {
            return false;
        }
        let writes =
            |op: &Op| matches!(op.step, Step::WriteBack | Step::Bypass { .. } | Step::Discard);
        if self.ops.iter().any(|(key, op)| writes(op) && !self.parked.contains(&key)) {
            return false;
        }
        self.layout.load_all();
        if self.layout.is_on_cores() {
            self.mark = Mark::Wanted;
            return false;
        }
        std::mem::take(&mut self.parked).into_iter().for_each(|key| self.end(key, false));
        true
    }

    /// The label says so, or the device has refused that too: nothing better can be done. Writes go on.
    pub fn marked(&mut self) {
        self.mark = Mark::Done;
        for key in std::mem::take(&mut self.parked) {
            self.go_past_layout(key);
        }
    }

    /// Whether cores are written past the device: the label says so, or has refused it. Whoever has it tries again
    /// then, for a device that comes back with an old label would be believed.
    pub fn has_marked(&self) -> bool {
        self.mark == Mark::Done
    }

    /// Whether the label is to say that nothing on the device must be believed, whatever else it says.
    pub fn is_given_up(&self) -> bool {
        self.mark != Mark::Unneeded
    }

    /// An I/O has failed.
    pub(super) fn io_failed(&mut self, io: &IoUnderWay) {
        let (IoUnderWay::Layout { target, reads, .. } | IoUnderWay::Own { target, reads, .. }) =
            *io;
        self.statistics.errors.count(target, reads);
        if self.retry_at.is_none() {
            self.retry_at = Some(self.now + RETRY);
        }
        if target == Target::Cache {
            self.cache_errors += 1;
            if self.cache_errors >= u64::from(self.options.cache_errors_max) {
                self.health = Health::Failed;
            }
        }
    }

    /// Whether the cache device has failed since the step of an op began: then it is worth another try.
    pub(super) fn has_cache_failed_since(&self, key: usize) -> bool {
        self.cache_errors > self.ops[key].cache_errors
    }

    /// Ranges of a core that only the cache device has, joined where they touch; at most `ranges_max`.
    pub fn dirty_ranges(&mut self, core: CoreId, ranges_max: usize) -> Vec<std::ops::Range<u64>> {
        self.layout.load_all();
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        for dirty in dirty_runs(&*self.layout, core) {
            let goes_on = ranges.last().is_some_and(|last| last.end == dirty.first);
            if goes_on && let Some(last) = ranges.last_mut() {
                last.end = dirty.end();
            } else if ranges.len() < ranges_max {
                ranges.push(dirty.first..dirty.end());
            } else {
                break;
            }
        }
        ranges
    }

    /// Why everything passes the cache by, if it does.
    pub(super) fn why_unused(&self) -> Option<BypassReason> {
        match self.health {
            Health::Whole => None,
            Health::Failed => Some(BypassReason::CacheFailed),
            Health::Detached => Some(BypassReason::Detached),
        }
    }

    /// Counts a request that passes the cache by.
    pub(super) fn passes(&mut self, key: usize, reason: BypassReason) {
        self.statistics.bypassed(reason);
        let op = &self.ops[key];
        self.parts.bypassed((op.span().core, op.class));
    }

    /// What the layout itself has taken around, which it may decide long after it was asked.
    pub(super) fn count_writes_around(&mut self) {
        let before = std::mem::replace(&mut self.writes_around, self.layout.writes_around());
        (before..self.writes_around).for_each(|_| self.statistics.bypassed(BypassReason::NoRoom));
    }
}

/// The runs of dirty sectors of a core, in their order.
pub(super) fn dirty_runs(layout: &dyn Layout, core: CoreId) -> impl Iterator<Item = Span> + '_ {
    let first = layout.dirty_after(core, 0);
    std::iter::successors(first, move |before| layout.dirty_after(core, before.end()))
}
