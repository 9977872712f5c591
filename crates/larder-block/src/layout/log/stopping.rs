//! An orderly stop: writes what a start after it needs to find all cached data, and to detect damage.
//!
//! Drained segments serve reads, but after a crash they are void: younger records of their data may have been lost
//! with segments that were filled again. A stop writes such records again, as voids of everything in the lines of
//! drained segments that is not cached. Then their content is valid as long as nothing is written after the stop, and
//! a start uses it. The stop also flushes the cores, so that unsettled data is clean.
//!
//! The label describes the segments by a checksum over their numbers, generations, counts of valid batches, and
//! sequences of the last batch. A start that finds anything else has found damage, because nothing was in flight.
//!
//! *Always:* the label says this only if nothing has failed and everything is durable. A start clears it, durably,
//! before it writes anything else.

use super::appender::{DIRTY_LANE, Pending, Source};
use super::index::gaps;
use super::room::entries_bytes;
use super::segments::{RESERVED_SEGMENTS, Standing, State};
use super::state::{CoreState, LogLayout, Purpose};
use crate::layout::line::unpack_line;
use crate::layout::{ClassId, CoreId, DeviceIo, Layout, Left, RequestId, Span, Target};

/// The checksum of all segments, in the order of their numbers.
pub(super) fn checksum(standing: impl IntoIterator<Item = Standing>) -> u32 {
    standing.into_iter().fold(0, |sum, (segment, generation, batches, last)| {
        let parts = [u64::from(segment), generation, u64::from(batches), last];
        parts.iter().fold(sum, |sum, part| larder_checksum::crc32c_append(sum, &part.to_le_bytes()))
    })
}

impl LogLayout {
    pub(super) fn prepare_stop(&mut self, request: RequestId) {
        self.load_all();
        self.is_prepared = false;
        for number in 0..self.cores.len() {
            let covers: CoreState = self.cores[number];
            if covers != covers.flushed() {
                let core = u16::try_from(number).ok().and_then(CoreId::new).expect("a core");
                self.requests.add_part(request);
                let io = DeviceIo::Flush { target: Target::Core(core) };
                self.issue(io, Purpose::Flush { core, covers, request: Some(request) });
            }
        }
        let stale = self.stale_of_drained();
        if !self.has_room_to_stop(stale.len()) {
            return;
        }
        self.is_prepared = true;
        for span in stale {
            self.requests.add_part(request);
            let (source, class) = (Source::Void { request }, ClassId::UNCLASSIFIED);
            self.appender.push(DIRTY_LANE, Pending { span, data: None, source, class });
        }
        self.has_changed = true;
    }

    /// The sectors in the lines of drained segments that are not cached.
    fn stale_of_drained(&self) -> Vec<Span> {
        let drained = self.segments.standing_in_order();
        let drained = drained.filter(|&number| self.segments.get(number).state() == State::Drained);
        let mut lines: Vec<u64> =
            drained.flat_map(|number| self.segments.get(number).lines()).copied().collect();
        lines.sort_unstable();
        lines.dedup();
        let spans = lines.into_iter().map(|line| unpack_line(line, self.geometry.line_sectors()));
        spans.flat_map(|span| gaps(span, &self.find_recorded(span))).collect()
    }

    /// Whether this number of voids can be written without draining a segment.
    fn has_room_to_stop(&self, voids: usize) -> bool {
        if voids == 0 {
            return true;
        }
        let bytes = entries_bytes(voids, &self.geometry);
        match self.appender.lanes[DIRTY_LANE].open {
            Some(_) => self.has_room(DIRTY_LANE, voids, bytes),
            None => {
                self.segments.ready() > RESERVED_SEGMENTS
                    && bytes < self.geometry.segment_bytes as usize / 2
            }
        }
    }

    /// What the label says of an orderly stop; `None` if it can say nothing.
    pub(super) fn how_left(&self) -> Option<Left> {
        let is_whole = self.is_prepared
            && !self.appender.is_frozen()
            && self.appender.is_idle()
            && self.unloaded.is_none();
        is_whole.then(|| Left {
            last: self.appender.last_sequence(),
            lowest: self.segments.lowest_generation(),
            checksum: checksum(self.segments.standing()),
        })
    }

    /// The sequence up to which unsettled data is clean; `None` if a core has data that is not durable.
    pub(super) fn settled_up_to(&self) -> Option<u64> {
        let is_settled = |core: &CoreState| *core == core.flushed();
        self.cores.iter().all(is_settled).then(|| self.appender.last_sequence())
    }

    /// Sectors of a core that a start after an orderly stop takes for dirty.
    pub(super) fn dirty_when_left(&self, core: CoreId) -> u64 {
        let (mut sectors, mut next) = (0, 0);
        while let Some(found) = self.index.first_after(core, next, |extent| extent.looks_dirty()) {
            let (segment, _) = self.geometry.place_of(found.extent.location);
            let is_void = self.segments.is_void(segment);
            sectors += if is_void { 0 } else { u64::from(found.span.sectors) };
            next = found.span.end();
        }
        sectors
    }
}
