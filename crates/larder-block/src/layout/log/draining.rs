//! Drains a segment: dirty data is destaged in sorted runs; data with hits or of a higher class is kept, within a
//! budget.

use super::LogLayout;
use super::appender::{Pending, Source};
use super::destaging::{read_for_core, runs_of, split};
use super::drain::{DrainedData, includes};
use super::index::MappedExtent;
use super::purpose::{LogPurpose, Mover};
use super::segments::{RESERVED_SEGMENTS, SegmentState};
use crate::layout::{Data, DeviceIo, Span, Target};

/// Number of segments that should be ready to be filled.
const READY_SEGMENTS: usize = RESERVED_SEGMENTS + 1;

impl LogLayout {
    /// Begins to drain the oldest segment if too few are ready, and continues a drain where possible.
    pub(super) fn go_on_draining(&mut self) {
        if self.draining.is_idle() {
            if self.log.segments.ready() >= READY_SEGMENTS + self.classes.ready_for_ranks() {
                return;
            }
            let Some(segment) = self.log.segments.oldest_undrained() else { return };
            if !self.knows_lines_of(segment) {
                return;
            }
            let is_open = self.log.segments.get(segment).state() == SegmentState::Open;
            if is_open && !self.log.close(segment) {
                return;
            }
            self.log.segments.begin_draining(segment);
            self.draining.begin(segment);
            self.ios.note_change();
        }
        self.collect();
        self.go_on_moving();
    }

    /// Whether the index knows all lines of a segment. If not, loads a part of them; or all, if no I/O is in flight
    /// whose completion would continue this.
    fn knows_lines_of(&mut self, segment: u32) -> bool {
        let mut has_loaded = self.log.load_one_of(segment);
        while has_loaded && self.ios.is_empty() {
            has_loaded = self.log.load_one_of(segment);
        }
        !has_loaded
    }

    fn collect(&mut self) {
        let Some((segment, has_kept)) = self.draining.waiting() else { return };
        if !self.log.segments.get(segment).is_still() {
            return;
        }
        let found = self.log.found_in(segment);
        if found.iter().any(|one| one.extent.is_dirty && self.destaging.is_moving(one)) {
            return;
        }
        // Kept data always finds room, because client writes leave this number of segments.
        let may_keep = !has_kept && self.log.segments.ready() >= self.classes.ready_to_keep();
        let kept = if may_keep { self.classes.choose_kept(&self.log, &found) } else { Vec::new() };
        let attempt = self.draining.next_attempt();
        let dirty: Vec<MappedExtent> =
            found.into_iter().filter(|one| one.extent.is_dirty && !includes(&kept, one)).collect();
        self.log.index.mark_busy(&dirty);
        // Data that is not in memory is read, in device order.
        let (read, unread) =
            self.destaging.take_held(dirty.into_iter().chain(kept.iter().copied()));
        let purpose = |found| LogPurpose::DrainRead { found, attempt };
        let outstanding = read_for_core(unread, &mut self.ios, purpose);
        self.draining.begin_reading(outstanding, read, kept);
        self.ios.note_change();
        self.move_when_read();
    }

    pub(super) fn drain_read_ended(
        &mut self,
        found: Vec<MappedExtent>,
        of: u64,
        data: Option<&Data>,
    ) {
        if !self.draining.is_read_wanted(of) {
            return self.no_longer_busy(&found);
        }
        let Some(data) = data else {
            for (one, _) in self.draining.read_failed() {
                self.log.index.no_longer_busy(&[one]);
            }
            return self.no_longer_busy(&found);
        };
        self.draining.add_read(split(found, data));
        self.move_when_read();
    }

    fn move_when_read(&mut self) {
        let Some(DrainedData { copied, destaged }) = self.draining.take_read() else { return };
        let copies = copied.len();
        for (one, data) in copied {
            // A clean record that replaces a dirty one must be true after a crash too: data that no flush of the core
            // covers yet stays dirty.
            let is_dirty =
                one.extent.is_dirty || (one.extent.was_dirty && !self.is_durable_on_core(&one));
            let lane = self.classes.lane_of(is_dirty);
            let (location, attempt) = (one.extent.location, self.draining.attempt());
            let source = Source::Kept { location, is_dirty, attempt };
            let (span, class, data) = (one.span, one.extent.class, Some(data));
            self.log.appender.push_first(lane, Pending { span, data, source, class });
        }
        self.draining.begin_moving(copies, runs_of(destaged));
        self.ios.note_change();
        self.go_on_moving();
    }

    /// Whether the core is known to have the destaged data of `found` durably.
    fn is_durable_on_core(&self, found: &MappedExtent) -> bool {
        let (segment, position) = self.log.geometry().place_of(found.extent.location);
        self.cores.unflushed_destages(found.span.core).is_none()
            || self.log.segments.get(segment).is_told(position)
    }

    /// Destages as much as may be in flight at a time.
    fn go_on_moving(&mut self) {
        // Called in each turn, and mostly without anything to move.
        if !self.draining.is_moving() {
            return;
        }
        let (is_wanted, mover) = (self.is_drain_wanted(), Mover::Drain(self.draining.attempt()));
        while let Some(run) = self.draining.next_run(is_wanted) {
            let begun = self.destaging.write(run, mover, &self.log.index, &mut self.ios);
            self.draining.destages_begun(begun);
        }
        self.flush_when_moved();
    }

    /// Removes queued data of `span` from the drain, so that it stays dirty: it is being written around, or becomes
    /// void.
    pub(super) fn give_way_to(&mut self, span: Span) {
        let taken = self.draining.give_way_to(span);
        if !taken.is_empty() {
            self.no_longer_busy(&taken);
        }
    }

    /// A write to a core has ended.
    pub(super) fn destage_ended(&mut self, found: &[MappedExtent], mover: Mover, is_well: bool) {
        self.destaging.ended(found, mover, is_well, &mut self.log.index);
        self.cores.destaged(found[0].span.core);
        self.ios.note_change();
        match mover {
            Mover::Streams => {}
            Mover::Drain(attempt) if is_well => {
                if self.draining.destage_ended(attempt) {
                    self.go_on_moving();
                }
            }
            Mover::Drain(attempt) => {
                if let Some(left) = self.draining.destage_failed(attempt) {
                    self.no_longer_busy(&left);
                }
            }
            Mover::Request(request) => self.cleaning_io_ended(request, is_well),
        }
    }

    /// A copy of kept data has ended, successfully or not.
    pub(super) fn kept_ended(&mut self, of: u64) {
        if self.draining.copy_ended(of) {
            self.flush_when_moved();
        }
    }

    /// Makes destaged data durable on the cores, of this segment and of others.
    fn flush_when_moved(&mut self) {
        if !self.draining.has_moved() {
            return;
        }
        let mut outstanding = 0;
        for (core, covers) in self.cores.with_destages() {
            let io = DeviceIo::Flush { target: Target::Core(core) };
            self.ios.issue(io, LogPurpose::Flush { core, covers, request: None });
            outstanding += 1;
        }
        self.draining.begin_flushing(outstanding);
        self.ios.note_change();
        self.end_when_flushed();
    }

    pub(super) fn drain_flush_ended(&mut self, is_well: bool) {
        if self.draining.flush_ended(is_well) {
            self.end_when_flushed();
        } else {
            self.ios.note_change();
        }
    }

    fn end_when_flushed(&mut self) {
        let Some(segment) = self.draining.flushed() else { return };
        let found = self.log.found_in(segment);
        let is_still = self.log.segments.get(segment).is_still();
        self.ios.note_change();
        if !is_still || found.iter().any(|one| one.extent.is_dirty || one.extent.is_busy) {
            // A copy has failed, or a batch in flight may still fail and bring data back into force.
            return self.draining.start_again();
        }
        self.log.segments.end_draining(segment);
        self.draining.end();
    }

    /// Retries as soon as nothing of the failed attempt is in flight.
    pub(super) fn retry_draining(&mut self) {
        if self.draining.waits_for_retry() {
            self.draining.start_again();
            self.ios.note_change();
        }
    }

    /// Whether a request waits for the end of a drain.
    fn is_drain_wanted(&self) -> bool {
        !self.cleanings.is_empty() || !self.held_writes.is_empty() || self.log.lacks_room()
    }

    /// This data does not go to its core after all.
    pub(super) fn no_longer_busy(&mut self, found: &[MappedExtent]) {
        self.log.index.no_longer_busy(found);
        self.ios.note_change();
    }
}
