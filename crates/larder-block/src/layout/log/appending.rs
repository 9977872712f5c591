//! Writes the pending records, and tells those for whom they were written how that has ended.

use super::LogLayout;
use super::appender::{AppendedRecord, Batch, DIRTY_LANE, LANES, Pending, Source};
use super::index::{Extent, MappedExtent};
use super::segments::RESERVED_SEGMENTS;
use super::write_buffer::BufferedWrite;
use crate::layout::{Data, Span};

/// Most bytes of a batch.
const BATCH_BYTES_MAX: usize = 512 << 10;

impl LogLayout {
    /// Writes the pending records. While a batch is in flight, a small one waits for more records.
    pub(super) fn form_batches(&mut self) {
        for lane in 0..LANES {
            while self.log.is_batch_due(lane) && self.form_batch(lane) {}
        }
        self.send_note_if_due();
    }

    /// Writes a header without records, if writes wait for its statements and no other header is coming.
    fn send_note_if_due(&mut self) {
        let is_due = !self.held_writes.is_empty()
            && self.log.appender.is_idle()
            && self.log.appender.has_unstated();
        if is_due && self.make_room(DIRTY_LANE, false) {
            self.send(DIRTY_LANE, Vec::new());
        }
    }

    /// Whether a batch was sent, or pending records turned out to be outdated.
    fn form_batch(&mut self, lane: usize) -> bool {
        let Some(first) = self.log.appender.first(lane) else { return false };
        let is_kept = first.source.may_use_reserve();
        if !self.make_room(lane, is_kept) {
            let waits = self.log.appender.awaits_note(lane) || self.log.segments.ready() > 0;
            return is_kept && !waits && self.give_up_kept(lane);
        }
        let most = self.log.records_max(lane);
        let (mut taken, mut bytes): (Vec<Pending>, usize) = (Vec::new(), 0);
        while let Some(next) = self.log.appender.first(lane) {
            let more = bytes + next.data.as_ref().map_or(0, Data::len);
            if taken.len() == most
                || !self.log.has_room(lane, taken.len() + 1, more)
                || (more > BATCH_BYTES_MAX && !taken.is_empty())
            {
                break;
            }
            let next = self.log.appender.pop(lane).expect("it was looked at");
            if let Some(attempt) = self.out_of_date(&next) {
                self.kept_ended(attempt);
                continue;
            }
            bytes = more;
            taken.push(next);
        }
        self.ios.note_change();
        if !taken.is_empty() {
            self.send(lane, taken);
        }
        true
    }

    /// Handles a lane without room even in the reserve, which kept data and markers use. Failed batches, or a failing
    /// core that keeps segments from draining, have used it up. Kept data goes to the core instead, or is evicted:
    /// that makes room for markers. If the drain waits for a retry, nothing makes room, and the markers fail with
    /// their flushes. Returns whether something was given up.
    fn give_up_kept(&mut self, lane: usize) -> bool {
        let is_stuck = self.draining.waits_for_retry();
        let is_kept = |one: &Pending| one.source.may_use_reserve();
        let mut markers = Vec::new();
        let mut has_given_up = false;
        while self.log.appender.first(lane).is_some_and(is_kept)
            && let Some(pending) = self.log.appender.pop(lane)
        {
            match pending.source {
                Source::Destaged { .. } if !is_stuck => markers.push(pending),
                source => {
                    self.has_failed(pending.span, source);
                    has_given_up = true;
                }
            }
        }
        for marker in markers.into_iter().rev() {
            self.log.appender.push_first(lane, marker);
        }
        if has_given_up {
            self.ios.note_change();
        }
        has_given_up
    }

    /// The drain attempt of kept data that was overwritten or became void in the meantime; `None` if the data is
    /// current. An outdated copy must not get a younger sequence than the record that replaced it.
    fn out_of_date(&self, pending: &Pending) -> Option<u64> {
        let Source::Kept { location, attempt, .. } = pending.source else { return None };
        let found = self.log.index.found(pending.span);
        let is_it =
            |one: &MappedExtent| one.span == pending.span && one.extent.location == location;
        let is_there = found.len() == 1 && found.iter().all(is_it);
        (!is_there).then_some(attempt)
    }

    fn send(&mut self, lane: usize, taken: Vec<Pending>) {
        self.log.send(lane, taken, &self.cores, &mut self.ios);
    }

    /// Ensures that the lane has an open segment, opening one if needed. Returns whether batches can be written there
    /// now, without waiting for a note.
    fn make_room(&mut self, lane: usize, for_kept: bool) -> bool {
        if self.log.has_open(lane) {
            return true;
        }
        let reserved = if for_kept { 0 } else { RESERVED_SEGMENTS };
        let Some(opened) = self.log.open_segment(lane, reserved) else { return false };
        opened.lost.into_iter().for_each(|span| self.destaging.forget(span));
        if opened.needs_note {
            self.send(lane, Vec::new());
        }
        !opened.needs_note
    }

    /// The device write of a batch has ended. Acknowledges the batches that are now complete, in order.
    pub(super) fn append_ended(&mut self, sequence: u64, is_well: bool) {
        self.log.batch_written(sequence, is_well);
        while let Some((batch, is_durable)) = self.log.next_ended() {
            if is_durable {
                batch.records.into_iter().for_each(|record| self.is_durable(record));
            } else {
                self.take_back(batch);
            }
        }
        self.log.cover_stated();
        self.ios.note_change();
    }

    fn is_durable(&mut self, AppendedRecord { pending, location }: AppendedRecord) {
        let Pending { span, data, source, .. } = pending;
        match source {
            Source::Write { request, is_eager } => {
                self.requests.end_part(request, true);
                if let (true, Some(data)) = (is_eager, data) {
                    self.destaging.hold(BufferedWrite { span, location, data });
                }
            }
            Source::Insert { request } | Source::Void { request } => {
                self.requests.end_part(request, true);
            }
            Source::VoidBefore { request } => self.prepared(request, true, false),
            Source::Destaged { request, .. } => self.cleaning_io_ended(request, true),
            Source::Kept { location: from, is_dirty, attempt } => {
                // Data evicted during the copy is evicted at the new location.
                let found = self.log.index.recorded(span);
                let (_, position) = self.log.geometry().place_of(location);
                let may_overwrite = self.log.may_overwrite(position);
                // A part overwritten during the copy has a younger record.
                for one in found {
                    if !one.is_part_of(span, from) {
                        continue;
                    }
                    let is_overwritable = is_dirty && may_overwrite;
                    let moved = Extent {
                        location: location + (one.span.offset() - span.offset()),
                        is_overwritable,
                        was_dirty: is_dirty && !one.extent.is_dirty,
                        hits: 0,
                        // An earlier attempt may be destaging it from its old location.
                        is_busy: false,
                        ..one.extent
                    };
                    self.log.index.replace(one.span, Some(moved), &mut Vec::new());
                    self.classes.has_come_to(&mut self.log, moved.location, moved.class);
                    self.cleanings.follow(MappedExtent { span: one.span, extent: moved });
                }
                self.kept_ended(attempt);
            }
        }
    }

    /// A batch has failed: what it displaced is in force again.
    fn take_back(&mut self, batch: Batch) {
        // If this was the note at the start of a filling, the records that wait for it fail too. The next segment
        // would also begin with a note, so a device that takes no writes would be tried segment by segment.
        let is_first = self.log.is_first_note(&batch);
        while is_first && let Some(pending) = self.log.appender.pop(batch.lane) {
            self.has_failed(pending.span, pending.source);
        }
        for AppendedRecord { pending, .. } in batch.records {
            if let Source::Write { .. } | Source::Insert { .. } | Source::Void { .. } =
                pending.source
            {
                self.log.index.replace(pending.span, None, &mut Vec::new());
            }
            self.has_failed(pending.span, pending.source);
        }
        for MappedExtent { span, extent } in batch.displaced {
            // A destage may still be in flight; when it completes, it must not be attributed to data that was
            // overwritten in place.
            let extent = Extent { is_busy: false, is_overwritable: false, ..extent };
            self.log.index.replace(span, Some(extent), &mut Vec::new());
            self.classes.has_come_to(&mut self.log, extent.location, extent.class);
            self.cleanings.missed(span);
        }
    }

    /// A record could not be appended.
    fn has_failed(&mut self, span: Span, source: Source) {
        match source {
            Source::Write { request, .. }
            | Source::Insert { request }
            | Source::Void { request } => self.requests.end_part(request, false),
            Source::VoidBefore { request } => self.prepared(request, false, false),
            Source::Destaged { request, location } => {
                self.is_not_marked(span, location);
                self.cleaning_io_ended(request, false);
            }
            Source::Kept { attempt, .. } => self.kept_ended(attempt),
        }
    }
}
