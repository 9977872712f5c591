//! Room in the open segments.
//!
//! *Always:* between two batches an open segment has room for another batch of a whole line, and for the footer that
//! lists it. The batch after which it would not is its last one: it goes to the end of the segment, with the footer
//! after it in the same device write. So no segment is filled to its end without a footer.

use super::appender::DIRTY_LANE;
use super::batch::{HEADER_BYTES_MAX, RECORDS_MAX};
use super::footer::footer_bytes;
use super::geometry::Geometry;
use super::segments::RESERVED_SEGMENTS;
use super::state::LogLayout;
use crate::layout::Room;

/// Upper bound of the bytes for `records` records without data: their headers, and a footer that lists them.
pub(super) fn entries_bytes(records: usize, geometry: &Geometry) -> usize {
    let batches = records.div_ceil(RECORDS_MAX);
    batches * (HEADER_BYTES_MAX + geometry.block_bytes as usize)
        + footer_bytes(records, geometry.block_bytes)
}

/// The place of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) position: u32,
    /// No batch follows it in its segment.
    pub(super) is_last: bool,
    /// Whether the footer follows the batch.
    pub(super) has_footer: bool,
}

impl LogLayout {
    /// Ensures that the lane has an open segment, opening one if needed. Returns whether batches can be written there
    /// now, without waiting for a note.
    pub(super) fn make_room(&mut self, lane: usize, for_kept: bool) -> bool {
        let state = &self.appender.lanes[lane];
        if state.open.is_some() && state.listing.reaches(self.appender.next_header().0) {
            return true;
        }
        let reserved = if for_kept { 0 } else { RESERVED_SEGMENTS };
        if self.segments.ready() <= reserved {
            return false;
        }
        if let Some(full) = self.appender.lanes[lane].open.take() {
            self.segments.seal(full);
        }
        // A drained segment that a stop has left may not be loaded: its records would be put into the index after they
        // are gone.
        if let Some(next) = self.segments.next_to_open() {
            while self.load_one_of(next) {}
        }
        let state = &mut self.appender.lanes[lane];
        let opened = self.segments.open(state.class).expect("one was ready");
        // A device that can tear sectors has places for notes, and its fillings begin with one.
        let needs_note = opened.needs_note || self.geometry.tears_sectors();
        (state.open, state.awaits_note) = (Some(opened.segment), needs_note);
        state.listing.clear();
        self.forget_filling(opened.segment, &opened.lines);
        if needs_note {
            self.send(lane, Vec::new());
        }
        !needs_note
    }

    /// Whether the lane's open segment has room for a batch of `records` records and `data_bytes` bytes, and the
    /// footer.
    pub(super) fn has_room(&self, lane: usize, records: usize, data_bytes: usize) -> bool {
        let batch = self.geometry.header_bytes(records, data_bytes) as usize + data_bytes;
        let listed = self.appender.lanes[lane].listing.entries() + records.max(1);
        let end = self.used_bytes(lane) as usize
            + batch
            + footer_bytes(listed, self.geometry.block_bytes);
        end <= self.geometry.segment_bytes as usize
    }

    /// Where a batch of `records` records and `bytes` bytes, header and data, goes.
    pub(super) fn place_for(&self, lane: usize, records: usize, bytes: u32) -> Place {
        let listed = self.appender.lanes[lane].listing.entries() + records.max(1);
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
            return Place { position, is_last: false, has_footer: false };
        }
        if used + bytes + next + footer_bytes(listed + 1) <= size {
            return Place { position: used, is_last: false, has_footer: false };
        }
        // It needs no footer: its own header, which recoveries read first, lists everything.
        if used == 0 {
            return Place { position: 0, is_last: true, has_footer: false };
        }
        let position = size - footer_bytes(listed) - bytes;
        debug_assert!(position >= used, "an open segment has room");
        Place { position, is_last: true, has_footer: true }
    }

    /// Room for client writes in the open segment and the ready ones, minus what is pending.
    pub(super) fn room_of_users(&self) -> Room {
        let segment = u64::from(self.geometry.segment_bytes);
        let open = self.appender.lanes[DIRTY_LANE]
            .open
            .map_or(0, |open| segment - u64::from(self.segments.get(open).used_bytes()));
        let ready = self.segments.ready().saturating_sub(RESERVED_SEGMENTS) as u64 * segment;
        let pending: usize = self.appender.lanes.iter().map(|lane| lane.pending_bytes).sum();
        Room { bytes: (open + ready).saturating_sub(pending as u64), step_bytes: segment }
    }

    /// Where the note of a filling goes: to the place that the note of the previous filling does not use.
    fn note_position(&self, lane: usize) -> Option<u32> {
        let open = self.appender.lanes[lane].open.expect("a segment is open");
        self.geometry.note_position(self.segments.get(open).note_place().other())
    }

    pub(super) fn used_bytes(&self, lane: usize) -> u32 {
        let open = self.appender.lanes[lane].open.expect("a segment is open");
        self.segments.get(open).used_bytes()
    }
}
