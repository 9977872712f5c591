//! The log itself: its segments, the records that are written there, and what they say is cached.
//!
//! This is the lower half of the layout. It knows where data is and how it is written, but neither why, nor which
//! request waits for it.
//!
//! - `room`: room in the open segments.
//! - `batches`: writes of records, with a header or a footer.
//! - `overwriting`: whether a write may overwrite data in place.
//! - `loading`: puts the records that a start has found into the index.
//!
//! *Always:* an extent in the index is at a location of a segment that lists its line. While a device write may still
//! fail, all segments are in use that have what it replaces.

mod batches;
mod loading;
mod overwriting;
mod room;

use larder_device::BufferPool;

use super::appender::Appender;
use super::geometry::Geometry;
use super::grace::{Grace, GracePhase};
use super::index::{Index, MappedExtent};
use super::segments::Segments;
use super::unloaded::UnloadedRecords;
use crate::layout::line::unpack_line;
use crate::layout::{ClassId, CoreId, SECTOR_BYTES, Span, Usage};
pub(super) use overwriting::{OverwriteRun, WritePlacement};
pub(super) use room::entries_bytes;

/// The identity of a cache, and of a start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The UUID of the cache's label.
    pub uuid: [u8; 16],
    /// Grows with each start. It must be durable in the label before the log starts.
    pub epoch: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RecordLog {
    geometry: Geometry,
    identity: LogIdentity,
    /// Dirty data may be overwritten in place if it is aligned to this; `None`: never.
    overwrite_align_bytes: Option<u32>,
    /// Where sectors are. Open to the layout, like the next two, because each of them guards its own invariant.
    pub(super) index: Index,
    /// The life cycles of segments.
    pub(super) segments: Segments,
    /// The order of records and batches.
    pub(super) appender: Appender,
    /// What a start has found and the index does not contain yet.
    unloaded: Option<UnloadedRecords>,
    /// Dirty data that was loaded since it was last queried.
    loaded_dirty: Vec<Span>,
    /// Whether data was loaded since the evictions of classes last searched.
    has_loaded: bool,
    /// Grace periods of overwrites and batches.
    grace: Grace,
    /// Overwrites in place in flight.
    overwrites: usize,
    /// Buffers for headers and footers.
    headers: BufferPool,
    /// Empty: a reusable buffer for look-ups.
    found: Vec<MappedExtent>,
}

impl RecordLog {
    pub(super) fn new(
        geometry: Geometry,
        identity: LogIdentity,
        overwrite_align_bytes: Option<u32>,
    ) -> Self {
        Self {
            geometry,
            identity,
            overwrite_align_bytes,
            index: Index::new(geometry.line_sectors()),
            segments: Segments::new(geometry.segments),
            appender: Appender::new(0),
            unloaded: None,
            loaded_dirty: Vec::new(),
            has_loaded: false,
            grace: Grace::default(),
            overwrites: 0,
            headers: BufferPool::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn line_sectors(&self) -> u32 {
        self.geometry.line_sectors()
    }

    pub(super) fn capacity_sectors(&self) -> u64 {
        self.geometry.capacity_bytes() / SECTOR_BYTES as u64
    }

    /// The segment that contains a location.
    pub(super) fn segment_of(&self, location: u64) -> u32 {
        self.geometry.place_of(location).0
    }

    /// The cached data in a segment.
    pub(super) fn found_in(&self, segment: u32) -> Vec<MappedExtent> {
        let mut found = self.recorded_in(segment, self.segments.get(segment).lines());
        found.retain(|one| !one.extent.is_evicted);
        found
    }

    /// The data in a segment that is in the index, whether evicted or not, among these lines.
    fn recorded_in(&self, segment: u32, lines: &[u64]) -> Vec<MappedExtent> {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines.dedup();
        let mut found = Vec::new();
        for line in lines {
            self.index.find_recorded(unpack_line(line, self.line_sectors()), &mut found);
        }
        found.retain(|one| self.segment_of(one.extent.location) == segment);
        found
    }

    /// Shows `see` the data of a class in a line of a segment, given by its number there. `see` may change the index.
    pub(super) fn see_class_in_line(
        &mut self,
        class: ClassId,
        (segment, line): (u32, usize),
        mut see: impl FnMut(&mut Index, MappedExtent),
    ) {
        let mut found = std::mem::take(&mut self.found);
        let line = self.segments.get(segment).lines()[line];
        self.index.find(unpack_line(line, self.line_sectors()), &mut found);
        for one in found.drain(..) {
            if one.extent.class == class && self.segment_of(one.extent.location) == segment {
                see(&mut self.index, one);
            }
        }
        self.found = found;
    }

    /// Takes the reusable buffer for look-ups, which is empty. It is given back, empty, with
    /// [`give_back`](Self::give_back).
    pub(super) fn take_buffer(&mut self) -> Vec<MappedExtent> {
        std::mem::take(&mut self.found)
    }

    pub(super) fn give_back(&mut self, mut found: Vec<MappedExtent>) {
        found.clear();
        self.found = found;
    }

    /// The value to pass to [`has_passed`](Self::has_passed), which tells whether all device writes now in flight have
    /// ended.
    pub(super) fn ask_grace(&self) -> GracePhase {
        self.grace.ask()
    }

    pub(super) fn has_passed(&mut self, asked: GracePhase) -> bool {
        self.grace.has_passed(asked)
    }

    /// What is cached; for the parts that are not loaded, an upper bound.
    pub(super) fn usage(&self) -> Usage {
        let (valid, dirty) = self.unloaded.as_ref().map_or((0, 0), UnloadedRecords::sectors);
        Usage {
            valid_sectors: self.index.valid_sectors() + valid,
            dirty_sectors: self.index.dirty_sectors().all() + dirty,
        }
    }

    /// The valid cached sectors of a class. What is not loaded is of class 0.
    pub(super) fn occupied_sectors(&self, class: ClassId) -> u64 {
        let unloaded = self.unloaded.as_ref().filter(|_| class == ClassId::UNCLASSIFIED);
        self.index.class_sectors(class) + unloaded.map_or(0, |unloaded| unloaded.sectors().0)
    }

    /// Sectors of a core that a start after an orderly stop takes for dirty.
    pub(super) fn dirty_when_left(&self, core: CoreId) -> u64 {
        let (mut sectors, mut next) = (0, 0);
        while let Some(found) = self.index.first_after(core, next, |extent| extent.looks_dirty()) {
            let is_void = self.segments.is_void(self.segment_of(found.extent.location));
            sectors += if is_void { 0 } else { u64::from(found.span.sectors) };
            next = found.span.end();
        }
        sectors
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let unloaded = self.unloaded.as_ref().map_or(0, UnloadedRecords::memory_bytes);
        self.index.memory_bytes() + self.segments.memory_bytes() + unloaded
    }
}
