//! What a cache does when its device fails.
//!
//! Errors of the cache device are counted. A request that one has hit is tried again; when there are too many, the
//! device is not written to any more ([`Health::Failed`]). Cores go on: they are read and written without it. What was
//! dirty then is read from the cache device if that can be; it is not written over, for the core would have it and the
//! cache device something older.
//!
//! What is clean on the cache device is out of date as soon as a core is written without it. So before the first such
//! write whoever has the cache's label is asked to say there that clean data must not be believed
//! ([`Cache::wants_mark`]), and writes wait for that ([`Cache::marked`]).

use super::op::IoUnderWay;
use super::{BypassReason, Cache};
use crate::layout::{CoreId, Span, Target};

/// How far the label says that clean data must not be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    Unneeded,
    Wanted,
    Asked,
    Done,
}

/// The state of the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It is used.
    Whole,
    /// It has failed too often and is not written to any more. What is clean there is not read, what is dirty is, and
    /// cannot be written.
    Failed,
}

impl Cache {
    /// The cache device is given up.
    fn fail(&mut self) {
        if self.health == Health::Whole {
            (self.health, self.mark) = (Health::Failed, Mark::Wanted);
        }
    }

    /// Whether the label is to say that clean data must not be believed. Tells it once; answer with
    /// [`marked`](Self::marked).
    pub fn wants_mark(&mut self) -> bool {
        let wants = self.mark == Mark::Wanted;
        if wants {
            self.mark = Mark::Asked;
        }
        wants
    }

    /// The label says so, or the device has refused that too: nothing better can be done. Writes go on.
    pub fn marked(&mut self) {
        self.mark = Mark::Done;
        for key in std::mem::take(&mut self.parked) {
            self.begin(key);
        }
    }

    /// Lets a request wait for the mark, if it is not there yet.
    pub(super) fn waits_for_mark(&mut self, key: usize) -> bool {
        let waits = self.mark != Mark::Done;
        if waits {
            self.parked.push(key);
        }
        waits
    }

    /// An I/O has failed.
    pub(super) fn io_failed(&mut self, io: &IoUnderWay) {
        let (target, reads) = match *io {
            IoUnderWay::Layout { target, reads, .. } => (target, reads),
            IoUnderWay::Own { target, .. } => (target, false),
        };
        self.statistics.errors.count(target, reads);
        if self.retry_at.is_none() {
            self.retry_at = Some(self.now + super::work::RETRY);
        }
        if target == Target::Cache {
            self.cache_errors += 1;
            if self.cache_errors >= u64::from(self.options.cache_errors_max) {
                self.fail();
            }
        }
    }

    /// Whether the cache device has failed since the step of an op began: then it is worth another try.
    pub(super) fn has_cache_failed_since(&self, key: usize) -> bool {
        self.cache_errors > self.ops[key].cache_errors
    }

    /// Whether something of `span` is dirty.
    pub(super) fn is_dirty(&self, span: Span) -> bool {
        self.layout.dirty_after(span.core, span.first).is_some_and(|dirty| dirty.first < span.end())
    }

    /// Ranges of a core that only the cache device has, joined where they touch; at most `ranges_max`.
    pub fn dirty_ranges(&self, core: CoreId, ranges_max: usize) -> Vec<std::ops::Range<u64>> {
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        let mut from = 0;
        while let Some(dirty) = self.layout.dirty_after(core, from) {
            from = dirty.end();
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

    /// Counts a request that passes the cache by.
    pub(super) fn passes(&mut self, reason: BypassReason) {
        self.statistics.bypassed(reason);
    }
}
