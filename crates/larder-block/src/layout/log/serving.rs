//! Client requests.
//!
//! - Reads: cached data comes from the cache device, the rest from the core.
//! - Writes: dirty data is overwritten in place, other writes are appended to the log.
//! - Writes around and discards.
//! - Flushes, and an orderly stop.
//!
//! # Writes around
//!
//! A write around must not be reordered with destages of the same sectors. It waits until no destage of them is in
//! flight, and while it is in flight none begins. A record makes the cached data of its sectors void. A crash may
//! interrupt the sequence anywhere, so its order depends on the data:
//!
//! - Clean data becomes void before the core is written. Otherwise a start would find the stale data, and reads would
//!   change when it is evicted later. Before that, the data is made durable on the core.
//! - Dirty data becomes void after the core was written durably, because the dirty data was durable.
//!
//! # An orderly stop
//!
//! It writes what a start after it needs to find all cached data, and to detect damage.
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

use super::LogLayout;
use super::appender::{DIRTY_LANE, Pending, Source};
use super::grace::GracePhase;
use super::index::{HITS_MAX, MappedExtent, gaps};
use super::purpose::LogPurpose;
use super::record_log::{OverwriteRun, WritePlacement, entries_bytes};
use super::segments::{RESERVED_SEGMENTS, SegmentState, checksum};
use super::waiting::{HeldWrite, Waiting};
use crate::layout::line::{by_line, unpack_line};
use crate::layout::{
    ClassId, Data, DeviceIo, LayoutRequest, PlacementClass, RequestId, SECTOR_BYTES, ShutdownState,
    Span, Target,
};
use crate::streams::Direction;

/// Bytes that a run of writes must have before it counts as a stream.
const STREAM_BYTES: u64 = 128 << 10;

impl LogLayout {
    /// With a class, clean data also comes from the cache device, and moves to that class. Without one, only dirty
    /// data does.
    pub(super) fn read(&mut self, request: RequestId, span: Span, class: Option<ClassId>) {
        let mut found = self.log.take_buffer();
        self.log.index.touch(span, &mut found);
        if let Some(class) = class {
            self.classes.take_over(&mut self.log, class, &found);
        }
        found.retain(|one| class.is_some() || one.extent.is_dirty);
        let geometry = *self.log.geometry();
        let segment_of = |one: &MappedExtent| geometry.place_of(one.extent.location).0;
        let follows = |a: &MappedExtent, b: &MappedExtent| {
            a.span.end() == b.span.first
                && a.extent.end() == b.extent.location
                && segment_of(a) == segment_of(b)
        };
        for run in found.chunk_by(follows) {
            let sectors = run.iter().map(|one| one.span.sectors).sum();
            let (location, part) = (run[0].extent.location, Span { sectors, ..run[0].span });
            let segment = segment_of(&run[0]);
            self.log.segments.pin(segment);
            self.read_part(request, span, part, (Target::Cache, location), Some(segment));
        }
        for absent in gaps(span, &found) {
            self.read_part(request, span, absent, (Target::Core(span.core), absent.offset()), None);
        }
        self.log.give_back(found);
    }

    fn read_part(
        &mut self,
        request: RequestId,
        span: Span,
        part: Span,
        (target, offset): (Target, u64),
        segment: Option<u32>,
    ) {
        self.requests.add_part(request);
        let into =
            usize::try_from(part.first - span.first).expect("within a request") * SECTOR_BYTES;
        let bytes = part.bytes();
        let io = DeviceIo::Read { target, offset, bytes, reader: Some((request, into)) };
        self.ios.issue(io, LogPurpose::Read { request, segment });
    }

    pub(super) fn read_ended(&mut self, request: RequestId, segment: Option<u32>, is_well: bool) {
        if let Some(segment) = segment {
            self.log.segments.unpin(segment);
            self.ios.note_change();
        }
        self.requests.end_part(request, is_well);
    }

    pub(super) fn write(&mut self, class: ClassId, request: RequestId, span: Span, data: &Data) {
        let is_stream = self.streams.saw(span, Direction::Write) >= STREAM_BYTES;
        self.destaging.forget(span);
        let write = HeldWrite { id: request, class, span, data: data.clone() };
        if !self.begin_writing(&write, is_stream) {
            self.requests.add_part(request);
            self.held_writes.push(write);
        }
    }

    /// Begins a write. Returns `false` if it has to wait.
    fn begin_writing(&mut self, write: &HeldWrite, is_stream: bool) -> bool {
        let HeldWrite { id: request, span, data, .. } = write;
        let (request, span) = (*request, *span);
        let mut found = self.log.take_buffer();
        self.log.index.find(span, &mut found);
        let (placement, is_new) = (self.log.placement_of(span, &found), found.is_empty());
        let class = self.classes.class_of_write(&mut self.log, write.class, span, &found);
        self.log.give_back(found);
        match placement {
            WritePlacement::InPlace(runs) => self.overwrite(class, write, &runs),
            WritePlacement::InPlaceLater => return false,
            WritePlacement::Append => {
                // Data that was cached before will probably be written again: it stays until its segment is drained.
                let is_eager = is_stream && is_new;
                for part in by_line(span, self.log.line_sectors()) {
                    let source = Source::Write { request, is_eager };
                    self.append_part(class, (span, data), part, source);
                }
            }
        }
        true
    }

    /// Begins the held writes that can continue now.
    pub(super) fn begin_held_writes(&mut self) {
        for write in std::mem::take(&mut self.held_writes) {
            if self.begin_writing(&write, false) {
                self.requests.end_part(write.id, true);
                self.ios.note_change();
            } else {
                self.held_writes.push(write);
            }
        }
    }

    pub(super) fn insert_clean(
        &mut self,
        class: ClassId,
        request: RequestId,
        span: Span,
        data: &Data,
    ) {
        for absent in gaps(span, &self.log.index.found(span)) {
            for part in by_line(absent, self.log.line_sectors()) {
                self.append_part(class, (span, data), part, Source::Insert { request });
            }
        }
    }

    fn append_part(
        &mut self,
        class: ClassId,
        (span, data): (Span, &Data),
        part: Span,
        source: Source,
    ) {
        let lane = self.classes.lane_of(!matches!(source, Source::Insert { .. }));
        let from =
            usize::try_from(part.first - span.first).expect("within a request") * SECTOR_BYTES;
        let data = data.slice(from..from + part.bytes());
        if let Source::Write { request, .. } | Source::Insert { request } = source {
            self.requests.add_part(request);
        }
        self.log.appender.push(lane, Pending { span: part, data: Some(data), source, class });
        self.ios.note_change();
    }

    fn overwrite(&mut self, class: ClassId, write: &HeldWrite, runs: &[OverwriteRun]) {
        let HeldWrite { id: request, span, data, .. } = write;
        let (request, span) = (*request, *span);
        for run in runs {
            let bytes =
                |sectors: u64| usize::try_from(sectors).expect("within a request") * SECTOR_BYTES;
            let from = bytes(run.first - span.first);
            let segment = self.log.segment_of(run.location);
            self.requests.add_part(request);
            let io = DeviceIo::Write {
                target: Target::Cache,
                offset: run.location,
                parts: vec![data.slice(from..from + bytes(run.sectors))],
                class: PlacementClass::Dirty,
                beside: None,
                metadata_bytes: 0,
                durable: true,
            };
            let phase = self.log.begin_overwrite(segment);
            self.ios.issue(io, LogPurpose::Overwrite { request, segment, phase });
        }
        self.log.index.change(span, |extent| {
            extent.is_dirty = true;
            extent.hits = (extent.hits + 1).min(HITS_MAX);
        });
        if self.log.index.reclassify(span, class) {
            for run in runs {
                self.classes.has_come_to(&mut self.log, run.location, class);
            }
        }
    }

    pub(super) fn overwrite_ended(
        &mut self,
        request: RequestId,
        (segment, phase): (u32, GracePhase),
        is_well: bool,
    ) {
        self.log.overwrite_ended(segment, phase);
        self.requests.end_part(request, is_well);
        self.ios.note_change();
    }

    /// Begins a write around or a discard, or lets it wait. It counts as a part of its request until it has begun.
    pub(super) fn void_or_wait(&mut self, id: RequestId, request: LayoutRequest) {
        self.requests.add_part(id);
        self.waiting.push(Waiting::new(id, request));
        self.ios.note_change();
    }

    /// Begins all that can begin now.
    pub(super) fn begin_waiting(&mut self) {
        for mut one in std::mem::take(&mut self.waiting) {
            match self.begin_voiding(&mut one) {
                Some(is_well) => {
                    self.requests.end_part(one.id, is_well);
                    self.ios.note_change();
                }
                None => self.waiting.push(one),
            }
        }
    }

    /// Whether it has begun successfully; `None` if it has to wait.
    fn begin_voiding(&mut self, one: &mut Waiting) -> Option<bool> {
        let span = one.request.span()?;
        self.give_way_to(span);
        // Data that a draining segment reads will soon be destaged.
        let is_leaving = self.destaging.is_leaving(span)
            || self.log.index.found(span).iter().any(|found| found.extent.is_busy);
        if is_leaving || one.before.is_some_and(|count| count > 0) {
            return None;
        }
        if one.has_failed {
            return Some(false);
        }
        self.destaging.forget(span);
        let LayoutRequest::Bypass { data, durable, .. } = &one.request else {
            let known: Vec<Span> = if self.may_come_back() {
                vec![span]
            } else {
                self.log.index.recorded(span).iter().map(|found| found.span).collect()
            };
            for part in known {
                self.void(part, Source::Void { request: one.id });
            }
            return Some(true);
        };
        // Dirty data may have been destaged in the meantime, so that it is now clean.
        let may_come_back = one.before.is_none() && self.may_come_back();
        // Evicted data would come back too.
        if may_come_back || self.log.index.recorded(span).iter().any(|found| !found.extent.is_dirty)
        {
            let count = self.prepare(one.id, span);
            one.before = Some(count);
            if count > 0 {
                return None;
            }
        }
        let covers_dirty = self.log.index.found(span).iter().any(|found| found.extent.is_dirty);
        self.write_around(one.id, span, data, *durable || covers_dirty);
        Some(true)
    }

    /// Whether a crash could bring back data that the index no longer knows.
    fn may_come_back(&self) -> bool {
        self.log.appender.is_frozen() || self.log.segments.has_unstated()
    }

    /// Issues a flush if clean data may be lost from the core with its power, and after that the records. Returns the
    /// number of operations to wait for.
    fn prepare(&mut self, id: RequestId, span: Span) -> u32 {
        if let Some(covers) = self.cores.unflushed_destages(span.core) {
            let io = DeviceIo::Flush { target: Target::Core(span.core) };
            self.ios.issue(io, LogPurpose::FlushBefore { core: span.core, covers, request: id });
            return 1;
        }
        let dirty: Vec<_> =
            self.log.index.found(span).into_iter().filter(|found| found.extent.is_dirty).collect();
        let clean = gaps(span, &dirty);
        clean.into_iter().map(|part| self.void(part, Source::VoidBefore { request: id })).sum()
    }

    /// An operation that must end before the core is written has ended.
    pub(super) fn prepared(&mut self, id: RequestId, is_well: bool, is_flush: bool) {
        let one = self.waiting.iter_mut().find(|one| one.id == id).expect("it waits");
        one.prepared(is_well, is_flush);
        self.ios.note_change();
    }

    fn write_around(&mut self, request: RequestId, span: Span, data: &Data, durable: bool) {
        self.requests.add_part(request);
        self.destaging.around_begins(span);
        self.draining.around_begins();
        let io = DeviceIo::core_write(span, data.clone(), PlacementClass::Clean, durable);
        self.ios.issue(io, LogPurpose::Bypass { request, span, durable });
    }

    pub(super) fn bypass_ended(
        &mut self,
        request: RequestId,
        span: Span,
        durable: bool,
        is_well: bool,
    ) {
        self.destaging.around_ends(span);
        self.draining.around_ends();
        // What a failed write has left on the core is unknown.
        if !(durable && is_well) {
            self.cores.bypassed(span.core);
        }
        self.ios.note_change();
        if is_well {
            let dirty =
                self.log.index.found(span).into_iter().filter(|found| found.extent.is_dirty);
            for found in dirty.collect::<Vec<_>>() {
                self.void(found.span, Source::Void { request });
            }
        }
        self.requests.end_part(request, is_well);
    }

    /// Appends records that make `span` void. From now on none of it may be destaged. Returns the number of records.
    fn void(&mut self, span: Span, source: Source) -> u32 {
        let mut records = 0;
        for part in by_line(span, self.log.line_sectors()) {
            self.log.index.replace(part, None, &mut Vec::new());
            if let Source::Void { request } = source {
                self.requests.add_part(request);
            }
            let class = ClassId::UNCLASSIFIED;
            self.log.appender.push(DIRTY_LANE, Pending { span: part, data: None, source, class });
            records += 1;
        }
        self.ios.note_change();
        records
    }

    /// Flushes cores with non-durable writes around. All other completed requests are durable already.
    pub(super) fn flush(&mut self, request: RequestId) {
        for (core, covers) in self.cores.with_bypasses() {
            self.requests.add_part(request);
            let io = DeviceIo::Flush { target: Target::Core(core) };
            self.ios.issue(io, LogPurpose::Flush { core, covers, request: Some(request) });
        }
    }

    pub(super) fn prepare_stop(&mut self, request: RequestId) {
        self.log.load_all();
        self.is_prepared = false;
        for (core, covers) in self.cores.unsettled() {
            self.requests.add_part(request);
            let io = DeviceIo::Flush { target: Target::Core(core) };
            self.ios.issue(io, LogPurpose::Flush { core, covers, request: Some(request) });
        }
        let stale = self.stale_of_drained();
        if !self.has_room_to_stop(stale.len()) {
            return;
        }
        self.is_prepared = true;
        for span in stale {
            self.requests.add_part(request);
            let (source, class) = (Source::Void { request }, ClassId::UNCLASSIFIED);
            self.log.appender.push(DIRTY_LANE, Pending { span, data: None, source, class });
        }
        self.ios.note_change();
    }

    /// The sectors in the lines of drained segments that are not cached.
    fn stale_of_drained(&self) -> Vec<Span> {
        let drained = self.log.segments.standing_in_order();
        let drained = drained
            .filter(|&number| self.log.segments.get(number).state() == SegmentState::Drained);
        let mut lines: Vec<u64> =
            drained.flat_map(|number| self.log.segments.get(number).lines()).copied().collect();
        lines.sort_unstable();
        lines.dedup();
        let spans = lines.into_iter().map(|line| unpack_line(line, self.log.line_sectors()));
        spans.flat_map(|span| gaps(span, &self.log.index.recorded(span))).collect()
    }

    /// Whether this number of voids can be written without draining a segment.
    fn has_room_to_stop(&self, voids: usize) -> bool {
        if voids == 0 {
            return true;
        }
        let bytes = entries_bytes(voids, self.log.geometry());
        match self.log.appender.open(DIRTY_LANE) {
            Some(_) => self.log.has_room(DIRTY_LANE, voids, bytes),
            None => {
                self.log.segments.ready() > RESERVED_SEGMENTS
                    && bytes < self.log.geometry().segment_bytes as usize / 2
            }
        }
    }

    /// What the label says of an orderly stop; `None` if it can say nothing.
    pub(super) fn how_left(&self) -> Option<ShutdownState> {
        let is_whole = self.is_prepared
            && !self.log.appender.is_frozen()
            && self.log.appender.is_idle()
            && self.log.unloaded_parts() == 0;
        is_whole.then(|| ShutdownState {
            last: self.log.appender.last_sequence(),
            lowest: self.log.segments.lowest_generation(),
            checksum: checksum(self.log.segments.standing()),
        })
    }
}
