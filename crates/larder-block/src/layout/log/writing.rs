//! Client writes: dirty data is overwritten in place, other writes are appended to the log.

use super::appender::{Pending, Source};
use super::grace::Phase;
use super::index::{Found, HITS_MAX, gaps};
use super::state::{LogLayout, Purpose};
use super::waiting::HeldWrite;
use crate::layout::line::by_line;
use crate::layout::{Class, ClassId, Data, DeviceIo, RequestId, SECTOR_BYTES, Span, Target};
use crate::streams::Direction;

/// A write is split into several overwrites only if they have this many bytes on average, because an append is one
/// I/O.
const RUN_BYTES: usize = 16 << 10;

/// Bytes that a run of writes must have before it counts as a stream.
const STREAM_BYTES: u64 = 128 << 10;
/// Number of runs that are remembered.
pub(super) const STREAMS: usize = 128;

/// How a write is handled.
enum Way {
    /// Overwrites the existing data.
    InPlace(Vec<Run>),
    /// The same, as soon as a header states that the existing data is complete. If it were appended instead, a block
    /// that is rewritten again and again would always be in the last batch, and never be overwritten in place.
    InPlaceLater,
    Append,
}

/// Consecutive sectors on the cache device, from sector `first` of the core on.
struct Run {
    /// Offset in bytes.
    location: u64,
    first: u64,
    sectors: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.location + self.sectors * SECTOR_BYTES as u64
    }
}

impl LogLayout {
    pub(super) fn write(&mut self, class: ClassId, request: RequestId, span: Span, data: &Data) {
        let is_stream = self.streams.saw(span, Direction::Write) >= STREAM_BYTES;
        self.buffer.forget(span, self.geometry.line_sectors());
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
        let mut found = std::mem::take(&mut self.found);
        self.index.find(span, &mut found);
        let (way, is_new) = (self.way_of(span, &found), found.is_empty());
        let class = self.class_of_write(write.class, span, &found);
        found.clear();
        self.found = found;
        match way {
            Way::InPlace(runs) => self.overwrite(class, write, &runs),
            Way::InPlaceLater => return false,
            Way::Append => {
                // Data that was cached before will probably be written again: it stays until its segment is drained.
                let is_eager = is_stream && is_new;
                for part in by_line(span, self.geometry.line_sectors()) {
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
                self.has_changed = true;
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
        for absent in gaps(span, &self.find(span)) {
            for part in by_line(absent, self.geometry.line_sectors()) {
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
        let lane = self.lane_of(!matches!(source, Source::Insert { .. }));
        let from =
            usize::try_from(part.first - span.first).expect("within a request") * SECTOR_BYTES;
        let data = data.slice(from..from + part.bytes());
        if let Source::Write { request, .. } | Source::Insert { request } = source {
            self.requests.add_part(request);
        }
        self.appender.push(lane, Pending { span: part, data: Some(data), source, class });
        self.has_changed = true;
    }

    fn way_of(&self, span: Span, found: &[Found]) -> Way {
        let Some(align) = self.policy.overwrite_align_bytes else { return Way::Append };
        let align = u64::from(align);
        let mut runs: Vec<Run> = Vec::new();
        let (mut next, mut is_covered) = (span.first, true);
        for Found { span: part, extent } in found {
            let is_aligned = extent.location.is_multiple_of(align)
                && (part.bytes() as u64).is_multiple_of(align);
            if part.first != next || !extent.is_overwritable || extent.is_busy || !is_aligned {
                return Way::Append;
            }
            let (segment, position) = self.geometry.place_of(extent.location);
            let end = position + part.sectors * 512;
            let one = self.segments.get(segment);
            // An overwrite would destroy the piece of the header in the metadata.
            if self.geometry.has_metadata() && !one.is_listed() {
                return Way::Append;
            }
            if !one.takes_overwrites(end) {
                is_covered = false;
                if !one.will_take_overwrites(end) {
                    return Way::Append;
                }
            }
            next = part.end();
            match runs.last_mut() {
                Some(run) if run.end() == extent.location => run.sectors += u64::from(part.sectors),
                _ => runs.push(Run {
                    location: extent.location,
                    first: part.first,
                    sectors: u64::from(part.sectors),
                }),
            }
        }
        if next != span.end() || runs.len() > (span.bytes() / RUN_BYTES).max(1) {
            return Way::Append;
        }
        if !is_covered {
            return if self.appender.is_frozen() { Way::Append } else { Way::InPlaceLater };
        }
        Way::InPlace(runs)
    }

    fn overwrite(&mut self, class: ClassId, write: &HeldWrite, runs: &[Run]) {
        let HeldWrite { id: request, span, data, .. } = write;
        let (request, span) = (*request, *span);
        for run in runs {
            let bytes =
                |sectors: u64| usize::try_from(sectors).expect("within a request") * SECTOR_BYTES;
            let from = bytes(run.first - span.first);
            let (segment, _) = self.geometry.place_of(run.location);
            self.requests.add_part(request);
            self.segments.begin_write(segment);
            self.overwrites += 1;
            let io = DeviceIo::Write {
                target: Target::Cache,
                offset: run.location,
                parts: vec![data.slice(from..from + bytes(run.sectors))],
                class: Class::Dirty,
                beside: None,
                metadata_bytes: 0,
                durable: true,
            };
            let phase = self.grace.begin();
            self.issue(io, Purpose::Overwrite { request, segment, phase });
        }
        self.index.change(span, |extent| {
            extent.is_dirty = true;
            extent.hits = (extent.hits + 1).min(HITS_MAX);
        });
        if self.index.reclassify(span, class) {
            for run in runs {
                self.has_come_to(self.geometry.place_of(run.location).0, class);
            }
        }
    }

    pub(super) fn overwrite_ended(
        &mut self,
        request: RequestId,
        (segment, phase): (u32, Phase),
        is_well: bool,
    ) {
        self.grace.end(phase);
        self.segments.end_write(segment);
        self.overwrites -= 1;
        self.appender.overwrite_ended();
        self.requests.end_part(request, is_well);
        self.has_changed = true;
    }
}
