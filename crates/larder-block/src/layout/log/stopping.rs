//! An orderly stop: what a start after it needs to find all that is cached, and to see what is damaged.
//!
//! Segments that are drained serve reads, and after a crash are void: younger records of what they hold may be gone
//! with segments that were filled anew. A stop writes such records again, voids of all that is not cached of the lines
//! of drained segments. Then what lies there is true as long as nothing was written behind the stop, and a start takes
//! it. The stop flushes the cores too, so that what is unsettled is clean.
//!
//! The label says what segments there are, by a checksum: of each its number, its generation, how many batches count
//! there and the sequence of the last one. A start that finds something else has found damage, for nothing was under
//! way.
//!
//! *Always:* the label says that only if nothing has failed and all of it is durable; a start takes it back, durably,
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

    /// What is not cached of the lines of drained segments.
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

    /// Whether this number of voids can be written without anything giving way for them.
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

    /// What the label says of an orderly stop; `None` if nothing can be said.
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

    /// The sequence up to which what is unsettled is clean; `None` if a core has something that is not durable.
    pub(super) fn settled_up_to(&self) -> Option<u64> {
        let is_settled = |core: &CoreState| *core == core.flushed();
        self.cores.iter().all(is_settled).then(|| self.appender.last_sequence())
    }

    /// Sectors of a core that a start takes for dirty after an orderly stop.
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
