//! What a cache does when its device fails.
//!
//! The cache counts the errors of the cache device, and retries a request that hits one. After too many errors it
//! stops writing to the device ([`Health::Failed`]). Clean data is then read from the cores. Dirty data is read from
//! the cache device if possible. For writes this is not enough: a write to a core makes the data on the cache device
//! stale, and the device may come back:
//!
//! - While some data is dirty, or not durable on its core, writes are refused.
//!   [`Request::Clean`](super::Request::Clean) may still save that data.
//! - Once the cores have all data, the owner of the label is asked to write there that the content of the device is
//!   void ([`Cache::wants_mark`]). When it has answered ([`Cache::marked`]), writes go to the cores without the
//!   device.
//!
//! Writes that arrive before this is settled wait.

use super::op::{IoUnderWay, Op, Step};
use super::state::{Cache, Health, Mark, RETRY};
use super::statistics::BypassReason;
use crate::layout::{CoreId, Layout, Span, Target};

impl Cache {
    /// Whether the label must say that the content of the device is void. Returns `true` once; the caller answers with
    /// [`marked`](Self::marked).
    pub fn wants_mark(&mut self) -> bool {
        let wants = self.mark == Mark::Wanted;
        if wants {
            self.mark = Mark::Asked;
        }
        wants
    }

    /// Decides about the parked writes, once no other write in flight can leave dirty data. Returns whether some have
    /// ended.
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

    /// The label says so, or the device has refused that write too and nothing better can be done. Writes go on.
    pub fn marked(&mut self) {
        self.mark = Mark::Done;
        for key in std::mem::take(&mut self.parked) {
            self.go_past_layout(key);
        }
    }

    /// Whether writes go to the cores without the device. Either the label says that the content is void, or the
    /// device has refused that. In the latter case the owner of the label tries again: if the device came back with
    /// the old label, its content would be trusted.
    pub fn has_marked(&self) -> bool {
        self.mark == Mark::Done
    }

    /// Whether the label must say that the content of the device is void, whatever else it says.
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

    /// Whether the cache device has failed since this step of the op began. If so, a retry makes sense.
    pub(super) fn has_cache_failed_since(&self, key: usize) -> bool {
        self.cache_errors > self.ops[key].cache_errors
    }

    /// The dirty ranges of a core, in sectors, joined where they touch; at most `ranges_max`.
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

    /// The reason why all requests bypass the cache, if they do.
    pub(super) fn why_unused(&self) -> Option<BypassReason> {
        match self.health {
            Health::Whole => None,
            Health::Failed => Some(BypassReason::CacheFailed),
            Health::Detached => Some(BypassReason::Detached),
        }
    }

    /// Counts a request that bypasses the cache.
    pub(super) fn passes(&mut self, key: usize, reason: BypassReason) {
        self.statistics.bypassed(reason);
        let op = &self.ops[key];
        self.parts.bypassed((op.span().core, op.class));
    }

    /// Counts writes that the layout itself has sent around the cache. It may decide this long after the submission.
    pub(super) fn count_writes_around(&mut self) {
        let before = std::mem::replace(&mut self.writes_around, self.layout.writes_around());
        (before..self.writes_around).for_each(|_| self.statistics.bypassed(BypassReason::NoRoom));
    }
}

/// The runs of dirty sectors of a core, ascending.
pub(super) fn dirty_runs(layout: &dyn Layout, core: CoreId) -> impl Iterator<Item = Span> + '_ {
    let first = layout.dirty_after(core, 0);
    std::iter::successors(first, move |before| layout.dirty_after(core, before.end()))
}
