//! Room in the open segments.
//!
//! *Always:* between two batches an open segment has room for another batch of a whole line, and for the footer that
//! lists it. The batch after which it would not is its last one: it goes to the end of the segment, with the footer
//! after it in the same device write. So no segment is filled to its end without a footer.

use super::super::appender::DIRTY_LANE;
use super::super::batch::{HEADER_BYTES_MAX, RECORDS_MAX};
use super::super::footer::footer_bytes;
use super::super::geometry::Geometry;
use super::super::segments::RESERVED_SEGMENTS;
use super::RecordLog;
use crate::layout::{Room, Span};

/// Upper bound of the bytes for `records` records without data: their headers, and a footer that lists them.
pub(in crate::layout::log) fn entries_bytes(records: usize, geometry: &Geometry) -> usize {
    let batches = records.div_ceil(RECORDS_MAX);
    batches * (HEADER_BYTES_MAX + geometry.block_bytes as usize)
        + footer_bytes(records, geometry.block_bytes)
}

/// The place of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchPlace {
    pub(super) position: u32,
    /// No batch follows it in its segment.
    pub(super) is_last: bool,
    /// Whether the footer follows the batch.
    pub(super) has_footer: bool,
}

/// A segment that was opened for a lane.
pub(in crate::layout::log) struct OpenedLane {
    /// The data of the previous filling. It was clean, and is no longer cached.
    pub(in crate::layout::log) lost: Vec<Span>,
    /// A header without records must be written there before anything else.
    pub(in crate::layout::log) needs_note: bool,
}

impl RecordLog {
    /// Whether the lane has an open segment to which its next batch may go.
    pub(in crate::layout::log) fn has_open(&self, lane: usize) -> bool {
        self.appender.open(lane).is_some()
            && self.appender.listing(lane).reaches(self.appender.next_header().0)
    }

    /// Opens another segment for the lane; `None` if only the reserved ones are ready.
    pub(in crate::layout::log) fn open_segment(
        &mut self,
        lane: usize,
        reserved: usize,
    ) -> Option<OpenedLane> {
        if self.segments.ready() <= reserved {
            return None;
        }
        self.seal_open(lane);
        // A drained segment that a stop has left may not be loaded: its records would be put into the index after they
        // are gone.
        if let Some(next) = self.segments.next_to_open() {
            while self.load_one_of(next) {}
        }
        let opened = self.segments.open(self.appender.placement(lane)).expect("one was ready");
        // A device that can tear sectors has places for notes, and its fillings begin with one.
        let needs_note = opened.needs_note || self.geometry.tears_sectors();
        self.appender.set_open(lane, opened.segment, needs_note);
        Some(OpenedLane { lost: self.forget_filling(opened.segment, &opened.lines), needs_note })
    }

    /// Evicts what the index still knows of a segment that is about to be filled again. All of it is clean, because
    /// the segment was drained.
    fn forget_filling(&mut self, segment: u32, lines: &[u64]) -> Vec<Span> {
        let found = self.recorded_in(segment, lines);
        for one in &found {
            assert!(!one.extent.is_dirty, "a drained segment holds nothing dirty");
            self.index.replace(one.span, None, &mut Vec::new());
        }
        found.into_iter().map(|one| one.span).collect()
    }

    /// Seals the open segment of a lane, if it has one.
    pub(super) fn seal_open(&mut self, lane: usize) {
        if let Some(open) = self.appender.take_open(lane) {
            self.segments.seal(open);
        }
    }

    /// Seals an open segment, unless a batch is in flight to it. Returns whether it is sealed.
    pub(in crate::layout::log) fn close(&mut self, segment: u32) -> bool {
        let is_still = self.segments.get(segment).is_still();
        if is_still {
            self.segments.seal(segment);
            self.appender.closes(segment);
        }
        is_still
    }

    /// Uses the lane for dirty data only, from now on.
    pub(in crate::layout::log) fn leave_clean_lane(&mut self) {
        if let Some(open) = self.appender.leave_clean_lane() {
            self.segments.seal(open);
        }
    }

    /// Whether the lane's open segment has room for a batch of `records` records and `data_bytes` bytes, and the
    /// footer.
    pub(in crate::layout::log) fn has_room(
        &self,
        lane: usize,
        records: usize,
        data_bytes: usize,
    ) -> bool {
        let batch = self.geometry.header_bytes(records, data_bytes) as usize + data_bytes;
        let listed = self.appender.listing(lane).entries() + records.max(1);
        let end = self.used_bytes(lane) as usize
            + batch
            + footer_bytes(listed, self.geometry.block_bytes);
        end <= self.geometry.segment_bytes as usize
    }

    /// Most records of the lane's next batch.
    pub(in crate::layout::log) fn records_max(&self, lane: usize) -> usize {
        if self.used_bytes(lane) == 0 { self.geometry.first_records_max() } else { RECORDS_MAX }
    }

    /// Where a batch of `records` records and `bytes` bytes, header and data, goes.
    pub(super) fn place_for(&self, lane: usize, records: usize, bytes: u32) -> BatchPlace {
        let listed = self.appender.listing(lane).entries() + records.max(1);
        let footer_bytes = |entries| {
            u32::try_from(footer_bytes(entries, self.geometry.block_bytes)).expect("in a segment")
        };
        let (used, size) = (self.used_bytes(lane), self.geometry.segment_bytes);
        // A header in a block of its own is no longer than a line.
        let line_bytes = self.geometry.line_bytes;
        let next = self.geometry.header_bytes(1, line_bytes as usize) + line_bytes;
        if used == 0
            && let Some(position) = self.note_position(lane)
        {
            debug_assert!(records == 0, "a filling begins with a note");
            return BatchPlace { position, is_last: false, has_footer: false };
        }
        if used + bytes + next + footer_bytes(listed + 1) <= size {
            return BatchPlace { position: used, is_last: false, has_footer: false };
        }
        // It needs no footer: its own header, which recoveries read first, lists everything.
        if used == 0 {
            return BatchPlace { position: 0, is_last: true, has_footer: false };
        }
        let position = size - footer_bytes(listed) - bytes;
        debug_assert!(position >= used, "an open segment has room");
        BatchPlace { position, is_last: true, has_footer: true }
    }

    /// Room for client writes in the open segment and the ready ones, minus what is pending.
    pub(in crate::layout::log) fn room_of_users(&self) -> Room {
        let segment = u64::from(self.geometry.segment_bytes);
        let open = self
            .appender
            .open(DIRTY_LANE)
            .map_or(0, |open| segment - u64::from(self.segments.get(open).used_bytes()));
        let ready = self.segments.ready().saturating_sub(RESERVED_SEGMENTS) as u64 * segment;
        let pending = self.appender.pending_bytes() as u64;
        Room { bytes: (open + ready).saturating_sub(pending), step_bytes: segment }
    }

    /// Whether client data finds no room.
    pub(in crate::layout::log) fn lacks_room(&self) -> bool {
        self.segments.ready() <= RESERVED_SEGMENTS && self.appender.waits_for_segment()
    }

    /// Where the note of a filling goes: to the place that the note of the previous filling does not use.
    fn note_position(&self, lane: usize) -> Option<u32> {
        let open = self.appender.open(lane).expect("a segment is open");
        self.geometry.note_position(self.segments.get(open).note_place().other())
    }

    pub(super) fn used_bytes(&self, lane: usize) -> u32 {
        let open = self.appender.open(lane).expect("a segment is open");
        self.segments.get(open).used_bytes()
    }
}
