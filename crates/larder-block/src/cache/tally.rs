//! What a cache counts: in total, and by core and IO class.

use super::coverage::Coverage;
use super::parts::{PartCounts, Parts, RequestOwner};
use super::statistics::{BypassReason, Statistics};
use crate::layout::{ClassId, CoreId, DeviceIo, SECTOR_BYTES, Span, Target};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tally {
    statistics: Statistics,
    parts: Parts,
    /// Writes that the layout has sent around the cache and that are already counted.
    writes_around: u64,
}

impl Tally {
    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(super) fn core(&self, core: CoreId) -> PartCounts {
        self.parts.core(core)
    }

    pub(super) fn class(&self, class: ClassId) -> PartCounts {
        self.parts.class(class)
    }

    /// Counts from zero on.
    pub(super) fn reset(&mut self) {
        (self.statistics, self.parts) = (Statistics::default(), Parts::default());
    }

    /// A core was removed.
    pub(super) fn forget(&mut self, core: CoreId) {
        self.parts.forget(core);
    }

    /// Another layout begins, which has sent this number of writes around the cache.
    pub(super) fn start_again(&mut self, writes_around: u64) {
        self.writes_around = writes_around;
    }

    pub(super) fn read(&mut self, of: RequestOwner, span: Span, coverage: Coverage, passes: bool) {
        self.statistics.reads.count(span, coverage, passes);
        self.parts.read(of, span, coverage, passes);
    }

    pub(super) fn write(&mut self, of: RequestOwner, span: Span, coverage: Coverage, passes: bool) {
        self.statistics.writes.count(span, coverage, passes);
        self.parts.write(of, span, coverage, passes);
    }

    /// A request bypasses the cache.
    pub(super) fn bypassed(&mut self, of: RequestOwner, reason: BypassReason) {
        self.statistics.bypassed(reason);
        self.parts.bypassed(of);
    }

    /// The layout itself has sent this number of writes around the cache. It may decide this long after the
    /// submission.
    pub(super) fn writes_around(&mut self, all: u64) {
        let before = std::mem::replace(&mut self.writes_around, all);
        (before..all).for_each(|_| self.statistics.bypassed(BypassReason::NoRoom));
    }

    /// The core serves hits.
    pub(super) fn core_hits(&mut self, hits: u64) {
        self.statistics.core_hits += hits;
    }

    /// Routing has found the cache device saturated.
    pub(super) fn saturated(&mut self) {
        self.statistics.saturations += 1;
    }

    pub(super) fn io(&mut self, io: &DeviceIo) {
        self.statistics.io(io);
    }

    pub(super) fn io_failed(&mut self, target: Target, reads: bool) {
        self.statistics.errors.count(target, reads);
    }

    /// A request is retried after an error of the cache device.
    pub(super) fn tried_again(&mut self) {
        self.statistics.errors.tried_again += 1;
    }

    /// A piece is read ahead.
    pub(super) fn read_ahead(&mut self, piece: Span) {
        self.statistics.read_ahead.requests += 1;
        self.statistics.read_ahead.bytes += piece.bytes() as u64;
    }

    pub(super) fn read_ahead_failed(&mut self) {
        self.statistics.read_ahead.failed += 1;
    }

    /// Sectors were destaged for an IO class that was full of dirty data.
    pub(super) fn destaged_for_classes(&mut self, sectors: u64) {
        self.statistics.destaged_for_classes_bytes += sectors * SECTOR_BYTES as u64;
    }
}
