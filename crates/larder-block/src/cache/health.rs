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

use super::Cache;
use crate::layout::{CoreId, Layout, Span};

impl Cache {
    /// Whether the label must say that the content of the device is void. Returns `true` once; the caller answers with
    /// [`marked`](Self::marked).
    pub fn wants_mark(&mut self) -> bool {
        self.health.takes_mark()
    }

    /// Decides about the parked writes, once no other write in flight can leave dirty data. Returns whether some have
    /// ended.
    pub(super) fn settle_parked(&mut self) -> bool {
        let Some(parked) = self.health.undecided() else { return false };
        if self.ops.writes_besides(parked) {
            return false;
        }
        self.layout.load_all();
        if self.layout.is_on_cores() {
            self.health.want_mark();
            return false;
        }
        self.health.take_parked().into_iter().for_each(|key| self.end(key, false));
        true
    }

    /// The label says so, or the device has refused that write too and nothing better can be done. Writes go on.
    pub fn marked(&mut self) {
        self.health.marked();
        for key in self.health.take_parked() {
            self.go_past_layout(key);
        }
    }

    /// Whether writes go to the cores without the device. Either the label says that the content is void, or the
    /// device has refused that. In the latter case the owner of the label tries again: if the device came back with
    /// the old label, its content would be trusted.
    pub fn has_marked(&self) -> bool {
        self.health.has_marked()
    }

    /// Whether the label must say that the content of the device is void, whatever else it says.
    pub fn is_given_up(&self) -> bool {
        self.health.is_given_up()
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
}

/// The runs of dirty sectors of a core, ascending.
pub(super) fn dirty_runs(layout: &dyn Layout, core: CoreId) -> impl Iterator<Item = Span> + '_ {
    let first = layout.dirty_after(core, 0);
    std::iter::successors(first, move |before| layout.dirty_after(core, before.end()))
}
