//! Destages on request: a range, whatever segments it is in, and without draining these.
//!
//! Dirty data is marked as busy, so that it is no longer overwritten in place. When the writes then in flight have
//! ended, it is read, written to the core and made durable there. Data that another mover has taken is waited for, and
//! taken over if that mover fails.
//!
//! A request that [settles](crate::layout::Request::Settle) a range also wants the range to be clean after a crash.
//! Destaged data whose record says dirty gets a marker ([`record`](super::record)) once a flush of the core has
//! covered it. From the start of the flush it is not overwritten in place, because the flush would not cover the new
//! data. Markers go in front of all pending records, so that later writes get younger records.
//!
//! The oldest dirty data of a class ([`oldest_dirty`](super::oldest_dirty)) is destaged in the same way, but no
//! request relies on it: it is not waited for, searched again or flushed.

use super::appender::{DIRTY_LANE, Pending, Source};
use super::drain::Drain;
use super::index::{Extent, Found};
use super::range_cleaning::{Aim, Cleaning, Stage};
use super::segments::State;
use super::state::{LogLayout, Mover, Purpose, bytes_between};
use super::written::Place;
use crate::layout::{ClassId, Data, DeviceIo, RequestId, Span, Target};

impl LogLayout {
    /// Begins to destage the dirty data of `span`.
    pub(super) fn clean(&mut self, request: RequestId, span: Span, settles: bool) {
        self.requests.add_part(request);
        let left = self.find(span);
        self.begin_cleaning((request, settles), Aim::Range(span), left, Stage::Looking);
    }

    /// Begins to destage data of a class that was found from `from` on, and is marked as busy.
    pub(super) fn clean_busy(
        &mut self,
        request: RequestId,
        (class, from): (ClassId, Place),
        busy: Vec<Found>,
    ) {
        self.requests.add_part(request);
        let stage = Stage::Waiting(busy, self.grace.ask());
        self.begin_cleaning((request, false), Aim::Oldest(class, from), Vec::new(), stage);
    }

    fn begin_cleaning(
        &mut self,
        (request, settles): (RequestId, bool),
        aim: Aim,
        left: Vec<Found>,
        stage: Stage,
    ) {
        self.cleanings.push(Cleaning::new((request, settles), aim, left, stage));
        self.has_changed = true;
    }

    /// Continues cleanings where possible.
    pub(super) fn go_on_cleaning(&mut self) {
        for mut one in std::mem::take(&mut self.cleanings) {
            while one.outstanding == 0 && self.go_on_with(&mut one) {
                self.has_changed = true;
            }
            if one.outstanding == 0 && matches!(one.stage, Stage::Ended) {
                if let Aim::Oldest(class, from) = one.aim {
                    self.evicting.look_from(class, from);
                }
                self.requests.end_part(one.request, !one.has_failed);
            } else {
                self.cleanings.push(one);
            }
        }
    }

    /// Advances by one stage; returns whether it could. Nothing of it may be in flight.
    fn go_on_with(&mut self, one: &mut Cleaning) -> bool {
        match std::mem::replace(&mut one.stage, Stage::Ended) {
            Stage::Looking => self.look_for_dirty(one),
            Stage::Waiting(busy, asked) => {
                if !self.grace.has_passed(asked) {
                    one.stage = Stage::Waiting(busy, asked);
                    return false;
                }
                self.read_busy(one, &busy);
                true
            }
            Stage::Reading(read) => {
                if one.has_failed {
                    read.iter().for_each(|(found, _)| {
                        self.no_longer_busy(std::slice::from_ref(found));
                    });
                    return false;
                }
                one.outstanding = self.destage(read, Mover::Request(one.request));
                one.stage = Stage::Writing;
                true
            }
            Stage::Writing => {
                let looks_again = !one.has_failed && matches!(one.aim, Aim::Range(_));
                one.stage = if looks_again { Stage::Looking } else { Stage::Ended };
                looks_again
            }
            Stage::Flushing if !one.has_failed => self.mark(one),
            Stage::Voiding(asked) if self.appender.has_taken(asked) => {
                one.stage = Stage::Marking(self.grace.ask());
                true
            }
            Stage::Voiding(asked) => {
                // The voids have no room, and it is unknown when there will be some.
                one.has_failed |= self.drain.as_ref().is_some_and(Drain::waits_for_retry);
                if !one.has_failed {
                    one.stage = Stage::Voiding(asked);
                }
                false
            }
            Stage::Marking(asked)
                if !self.grace.has_passed(asked) || self.markers.are_before(one) =>
            {
                one.stage = Stage::Marking(asked);
                false
            }
            Stage::Flushing | Stage::Marking(_) | Stage::Ended => false,
        }
    }

    /// Marks the remaining data that no other mover has taken. If nothing is left, flushes the core if needed.
    fn look_for_dirty(&mut self, one: &mut Cleaning) -> bool {
        let Aim::Range(span) = one.aim else { return false };
        one.left = one.left.iter().flat_map(|found| self.still_there(found)).collect();
        one.left.retain(|found| found.extent.is_dirty);
        if one.left.is_empty() {
            if one.settles && !self.look_for_marks(one, span) {
                return false;
            }
            one.stage = Stage::Flushing;
            let covers = *self.core(span.core);
            if covers.destages > covers.destages_flushed {
                let io = DeviceIo::Flush { target: Target::Core(span.core) };
                let (core, request) = (span.core, one.request);
                self.issue(io, Purpose::FlushCleaned { core, covers, request });
                one.outstanding = 1;
            }
            return true;
        }
        let mut free = one.left.clone();
        // Leave out data of a draining segment: the drain may copy it as dirty, so it would become clean too late for
        // the flush.
        free.retain(|found| !self.is_moving(found) && !self.is_draining(found));
        if free.is_empty() {
            one.stage = Stage::Looking;
            return false;
        }
        self.mark_busy(&free);
        one.stage = Stage::Waiting(free, self.grace.ask());
        true
    }

    /// Finds data of `span` that is clean but looks dirty, and prevents overwrites of it. `false`: not possible now.
    fn look_for_marks(&mut self, one: &mut Cleaning, span: Span) -> bool {
        let mut marks = self.find_recorded(span);
        marks.retain(|found| found.extent.was_dirty && !found.extent.is_dirty);
        if marks.iter().any(|found| self.is_draining(found)) {
            // A copy of it that says dirty may be in flight.
            one.stage = Stage::Looking;
            return false;
        }
        for found in &marks {
            let extent = Extent { is_overwritable: false, ..found.extent };
            self.index.replace(found.span, Some(extent), &mut Vec::new());
        }
        one.marks = marks;
        true
    }

    /// The core durably has the data that looks dirty: writes markers for the part that is still in place.
    fn mark(&mut self, one: &mut Cleaning) -> bool {
        if one.settles && !one.left.is_empty() {
            // Some of it was copied in the meantime, and may look dirty at its new place.
            one.stage = Stage::Looking;
            return true;
        }
        let marks = std::mem::take(&mut one.marks);
        let marks: Vec<Found> = marks.iter().flat_map(|found| self.still_clean(found)).collect();
        if marks.iter().any(|found| self.is_draining(found)) {
            // A copy that says dirty may be about to get a younger sequence than the marker.
            one.stage = Stage::Looking;
            return true;
        }
        for Found { span, extent } in marks {
            let marked = Extent { was_dirty: false, ..extent };
            self.index.replace(span, Some(marked), &mut Vec::new());
            let source = Source::Destaged { request: one.request, location: extent.location };
            let marker = Pending { span, data: None, source, class: ClassId::UNCLASSIFIED };
            self.appender.push_first(DIRTY_LANE, marker);
            one.outstanding += 1;
        }
        if let (true, Aim::Range(span)) = (one.settles, one.aim) {
            one.turn = self.markers.set_out(span, one.outstanding > 0);
            one.stage = match self.appender.pending_voids(span) {
                Some(asked) => Stage::Voiding(asked),
                None => Stage::Marking(self.grace.ask()),
            };
        }
        true
    }

    /// The parts of `found` that are still in place, clean, and look dirty.
    fn still_clean(&self, found: &Found) -> Vec<Found> {
        let mut now = self.find_recorded(found.span);
        now.retain(|now| {
            let location = found.extent.location + bytes_between(found.span, now.span);
            now.extent.location == location && now.extent.was_dirty && !now.extent.is_dirty
        });
        now
    }

    /// A marker was not written: its data still looks dirty.
    pub(super) fn is_not_marked(&mut self, span: Span, location: u64) {
        for now in self.find_recorded(span) {
            if now.extent.location == location + bytes_between(span, now.span) {
                let extent = Extent { was_dirty: !now.extent.is_dirty, ..now.extent };
                self.index.replace(now.span, Some(extent), &mut Vec::new());
            }
        }
        // Other settlings of the same range relied on it.
        let relies = |one: &Cleaning| {
            matches!(one.stage, Stage::Voiding(_) | Stage::Marking(_)) && one.wants(span)
        };
        self.cleanings.iter_mut().filter(|one| relies(one)).for_each(|one| one.has_failed = true);
    }

    fn read_busy(&mut self, one: &mut Cleaning, busy: &[Found]) {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for found in busy.iter().flat_map(|found| self.still_there(found)).collect::<Vec<_>>() {
            match self.buffer.take(found.span, found.extent.location) {
                Some(data) => read.push((found, data)),
                None => unread.push(found),
            }
        }
        for found in &unread {
            self.segments.pin(self.geometry.place_of(found.extent.location).0);
        }
        let request = one.request;
        one.outstanding =
            self.read_for_core(unread, |found| Purpose::CleaningRead { found, request });
        one.stage = Stage::Reading(read);
    }

    pub(super) fn cleaning_read_ended(
        &mut self,
        found: Vec<Found>,
        request: RequestId,
        data: Option<&Data>,
    ) {
        for one in &found {
            self.segments.unpin(self.geometry.place_of(one.extent.location).0);
        }
        match data {
            None => self.no_longer_busy(&found),
            Some(data) => {
                let cleaning = self.cleaning_of(request);
                let Stage::Reading(read) = &mut cleaning.stage else {
                    unreachable!("it reads until all reads have ended")
                };
                let mut at = 0;
                for one in found {
                    let end = at + one.span.bytes();
                    read.push((one, data.slice(at..end)));
                    at = end;
                }
            }
        }
        self.cleaning_io_ended(request, data.is_some());
    }

    pub(super) fn cleaning_io_ended(&mut self, request: RequestId, is_well: bool) {
        let cleaning = self.cleaning_of(request);
        cleaning.outstanding -= 1;
        cleaning.has_failed |= !is_well;
        let ended = (cleaning.outstanding == 0).then_some(cleaning.turn);
        ended.into_iter().for_each(|turn| self.markers.ended(turn));
        self.has_changed = true;
    }

    /// A batch has failed, and what it displaced is in force again: cleanings of this range may have missed its dirty
    /// data.
    pub(super) fn cleaning_missed(&mut self, span: Span) {
        for one in &mut self.cleanings {
            one.has_failed |= one.wants(span);
        }
    }

    /// Kept data of a drained segment is at a new place now.
    pub(super) fn cleaning_follows(&mut self, moved: Found) {
        for one in self.cleanings.iter_mut().filter(|one| one.wants(moved.span)) {
            one.left.push(moved);
        }
    }

    /// Whether its segment is about to move it. A segment that waits for a retry is not: a core that has failed must
    /// not block the cleaning of other cores, nor another try of its own.
    fn is_draining(&self, found: &Found) -> bool {
        let (segment, _) = self.geometry.place_of(found.extent.location);
        let waits = self.drain.as_ref().is_some_and(Drain::waits_for_retry);
        self.segments.get(segment).state() == State::Draining && !waits
    }

    fn cleaning_of(&mut self, request: RequestId) -> &mut Cleaning {
        let found = self.cleanings.iter_mut().find(|one| one.request == request);
        found.expect("it lasts as long as anything of it is under way")
    }
}
