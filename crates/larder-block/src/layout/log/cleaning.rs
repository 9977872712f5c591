//! Destages on request: a range, whatever segments it is in, and without draining these.
//!
//! Dirty data is marked as busy, so that it is no longer overwritten in place. When the writes then in flight have
//! ended, it is read, written to the core and made durable there. Data that another mover has taken is waited for, and
//! taken over if that mover fails.
//!
//! A request that [settles](crate::layout::LayoutRequest::Settle) a range also wants the range to be clean after a
//! crash. Destaged data whose record says dirty gets a marker ([`record`](super::record)) once a flush of the core has
//! covered it. From the start of the flush it is not overwritten in place, because the flush would not cover the new
//! data. Markers go in front of all pending records, so that later writes get younger records.
//!
//! The oldest dirty data of a class ([`oldest_dirty`](super::oldest_dirty)) is destaged in the same way, but no
//! request relies on it: it is not waited for, searched again or flushed.

use super::LogLayout;
use super::appender::{DIRTY_LANE, Pending, Source};
use super::destaging::{read_for_core, split};
use super::index::{Extent, MappedExtent};
use super::purpose::{LogPurpose, Mover};
use super::range_cleaning::{CleaningAim, CleaningStage, RangeCleaning};
use super::segments::SegmentState;
use crate::layout::{ClassId, Data, DeviceIo, RequestId, Span, Target};

impl LogLayout {
    /// Begins to destage the dirty data of `span`.
    pub(super) fn clean(&mut self, request: RequestId, span: Span, settles: bool) {
        self.requests.add_part(request);
        let left = self.log.index.found(span);
        self.begin_cleaning(
            (request, settles),
            CleaningAim::Range(span),
            left,
            CleaningStage::Looking,
        );
    }

    /// Begins to destage about `sectors` sectors of a class. Returns the number of sectors; 0: none were found soon.
    pub(super) fn clean_oldest(&mut self, request: RequestId, class: ClassId, sectors: u64) -> u64 {
        let (from, busy) = self.oldest_dirty.mark(&mut self.log, &self.destaging, class, sectors);
        let taken = busy.iter().map(|one| u64::from(one.span.sectors)).sum();
        if taken > 0 {
            self.requests.begin(request);
            let stage = CleaningStage::Waiting(busy, self.log.ask_grace());
            self.begin_cleaning(
                (request, false),
                CleaningAim::Oldest(class, from),
                Vec::new(),
                stage,
            );
        }
        taken
    }

    fn begin_cleaning(
        &mut self,
        (request, settles): (RequestId, bool),
        aim: CleaningAim,
        left: Vec<MappedExtent>,
        stage: CleaningStage,
    ) {
        self.cleanings.push(RangeCleaning::new((request, settles), aim, left, stage));
        self.ios.note_change();
    }

    /// Continues cleanings where possible.
    pub(super) fn go_on_cleaning(&mut self) {
        for mut one in self.cleanings.take_all() {
            while one.outstanding == 0 && self.go_on_with(&mut one) {
                self.ios.note_change();
            }
            if one.outstanding == 0 && matches!(one.stage, CleaningStage::Ended) {
                if let CleaningAim::Oldest(class, from) = one.aim {
                    self.classes.look_from(class, from);
                }
                self.requests.end_part(one.request, !one.has_failed);
            } else {
                self.cleanings.push(one);
            }
        }
    }

    /// Advances by one stage; returns whether it could. Nothing of it may be in flight.
    fn go_on_with(&mut self, one: &mut RangeCleaning) -> bool {
        match std::mem::replace(&mut one.stage, CleaningStage::Ended) {
            CleaningStage::Looking => self.look_for_dirty(one),
            CleaningStage::Waiting(busy, asked) => {
                if !self.log.has_passed(asked) {
                    one.stage = CleaningStage::Waiting(busy, asked);
                    return false;
                }
                self.read_busy(one, &busy);
                true
            }
            CleaningStage::Reading(read) => {
                if one.has_failed {
                    read.iter().for_each(|(found, _)| {
                        self.no_longer_busy(std::slice::from_ref(found));
                    });
                    return false;
                }
                let mover = Mover::Request(one.request);
                one.outstanding = self.destaging.write(read, mover, &self.log.index, &mut self.ios);
                one.stage = CleaningStage::Writing;
                true
            }
            CleaningStage::Writing => {
                let looks_again = !one.has_failed && matches!(one.aim, CleaningAim::Range(_));
                one.stage = if looks_again { CleaningStage::Looking } else { CleaningStage::Ended };
                looks_again
            }
            CleaningStage::Flushing if !one.has_failed => self.mark(one),
            CleaningStage::Voiding(asked) if self.log.appender.has_taken(asked) => {
                one.stage = CleaningStage::Marking(self.log.ask_grace());
                true
            }
            CleaningStage::Voiding(asked) => {
                // The voids have no room, and it is unknown when there will be some.
                one.has_failed |= self.draining.waits_for_retry();
                if !one.has_failed {
                    one.stage = CleaningStage::Voiding(asked);
                }
                false
            }
            CleaningStage::Marking(asked)
                if !self.log.has_passed(asked) || !self.cleanings.has_turn(one) =>
            {
                one.stage = CleaningStage::Marking(asked);
                false
            }
            CleaningStage::Flushing | CleaningStage::Marking(_) | CleaningStage::Ended => false,
        }
    }

    /// Marks the remaining data that no other mover has taken. If nothing is left, flushes the core if needed.
    fn look_for_dirty(&mut self, one: &mut RangeCleaning) -> bool {
        let CleaningAim::Range(span) = one.aim else { return false };
        one.left = one.left.iter().flat_map(|found| self.log.index.still_there(found)).collect();
        one.left.retain(|found| found.extent.is_dirty);
        if one.left.is_empty() {
            if one.settles && !self.look_for_marks(one, span) {
                return false;
            }
            one.stage = CleaningStage::Flushing;
            if let Some(covers) = self.cores.unflushed_destages(span.core) {
                let io = DeviceIo::Flush { target: Target::Core(span.core) };
                let (core, request) = (span.core, one.request);
                self.ios.issue(io, LogPurpose::FlushCleaned { core, covers, request });
                one.outstanding = 1;
            }
            return true;
        }
        let mut free = one.left.clone();
        // Leave out data of a draining segment: the drain may copy it as dirty, so it would become clean too late for
        // the flush.
        free.retain(|found| !self.destaging.is_moving(found) && !self.is_draining(found));
        if free.is_empty() {
            one.stage = CleaningStage::Looking;
            return false;
        }
        self.log.index.mark_busy(&free);
        one.stage = CleaningStage::Waiting(free, self.log.ask_grace());
        true
    }

    /// Finds data of `span` that is clean but looks dirty, and prevents overwrites of it. `false`: not possible now.
    fn look_for_marks(&mut self, one: &mut RangeCleaning, span: Span) -> bool {
        let mut marks = self.log.index.recorded(span);
        marks.retain(|found| found.extent.was_dirty && !found.extent.is_dirty);
        if marks.iter().any(|found| self.is_draining(found)) {
            // A copy of it that says dirty may be in flight.
            one.stage = CleaningStage::Looking;
            return false;
        }
        for found in &marks {
            let extent = Extent { is_overwritable: false, ..found.extent };
            self.log.index.replace(found.span, Some(extent), &mut Vec::new());
        }
        one.marks = marks;
        true
    }

    /// The core durably has the data that looks dirty: writes markers for the part that is still in place.
    fn mark(&mut self, one: &mut RangeCleaning) -> bool {
        if one.settles && !one.left.is_empty() {
            // Some of it was copied in the meantime, and may look dirty at its new place.
            one.stage = CleaningStage::Looking;
            return true;
        }
        let marks = std::mem::take(&mut one.marks);
        let marks: Vec<MappedExtent> =
            marks.iter().flat_map(|found| self.still_clean(found)).collect();
        if marks.iter().any(|found| self.is_draining(found)) {
            // A copy that says dirty may be about to get a younger sequence than the marker.
            one.stage = CleaningStage::Looking;
            return true;
        }
        for MappedExtent { span, extent } in marks {
            let marked = Extent { was_dirty: false, ..extent };
            self.log.index.replace(span, Some(marked), &mut Vec::new());
            let source = Source::Destaged { request: one.request, location: extent.location };
            let marker = Pending { span, data: None, source, class: ClassId::UNCLASSIFIED };
            self.log.appender.push_first(DIRTY_LANE, marker);
            one.outstanding += 1;
        }
        if let (true, CleaningAim::Range(span)) = (one.settles, one.aim) {
            self.cleanings.set_out(one, span);
            one.stage = match self.log.appender.pending_voids(span) {
                Some(asked) => CleaningStage::Voiding(asked),
                None => CleaningStage::Marking(self.log.ask_grace()),
            };
        }
        true
    }

    /// The parts of `found` that are still in place, clean, and look dirty.
    fn still_clean(&self, found: &MappedExtent) -> Vec<MappedExtent> {
        let mut now = self.log.index.still_recorded(found);
        now.retain(|now| now.extent.was_dirty && !now.extent.is_dirty);
        now
    }

    /// A marker was not written: its data still looks dirty.
    pub(super) fn is_not_marked(&mut self, span: Span, location: u64) {
        for now in self.log.index.recorded(span) {
            if now.is_part_of(span, location) {
                let extent = Extent { was_dirty: !now.extent.is_dirty, ..now.extent };
                self.log.index.replace(now.span, Some(extent), &mut Vec::new());
            }
        }
        self.cleanings.not_marked(span);
    }

    fn read_busy(&mut self, one: &mut RangeCleaning, busy: &[MappedExtent]) {
        let index = &self.log.index;
        let still_there = busy.iter().flat_map(|found| index.still_there(found));
        let (read, unread) = self.destaging.take_held(still_there);
        for found in &unread {
            self.log.segments.pin(self.log.segment_of(found.extent.location));
        }
        let request = one.request;
        let purpose = |found| LogPurpose::CleaningRead { found, request };
        one.outstanding = read_for_core(unread, &mut self.ios, purpose);
        one.stage = CleaningStage::Reading(read);
    }

    pub(super) fn cleaning_read_ended(
        &mut self,
        found: Vec<MappedExtent>,
        request: RequestId,
        data: Option<&Data>,
    ) {
        for one in &found {
            self.log.segments.unpin(self.log.segment_of(one.extent.location));
        }
        match data {
            None => self.no_longer_busy(&found),
            Some(data) => self.cleanings.add_read(request, split(found, data)),
        }
        self.cleaning_io_ended(request, data.is_some());
    }

    pub(super) fn cleaning_io_ended(&mut self, request: RequestId, is_well: bool) {
        self.cleanings.io_ended(request, is_well);
        self.ios.note_change();
    }

    /// Whether its segment is about to move it. A segment that waits for a retry is not: a core that has failed must
    /// not block the cleaning of other cores, nor another try of its own.
    fn is_draining(&self, found: &MappedExtent) -> bool {
        let segment = self.log.segment_of(found.extent.location);
        let waits = self.draining.waits_for_retry();
        self.log.segments.get(segment).state() == SegmentState::Draining && !waits
    }
}
