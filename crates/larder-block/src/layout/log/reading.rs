//! Client reads: cached data comes from the cache device, the rest from the core.

use super::index::{Found, gaps};
use super::state::{LogLayout, Purpose};
use crate::layout::{ClassId, DeviceIo, RequestId, SECTOR_BYTES, Span, Target};

impl LogLayout {
    /// With a class, clean data also comes from the cache device, and moves to that class. Without one, only dirty
    /// data does.
    pub(super) fn read(&mut self, request: RequestId, span: Span, class: Option<ClassId>) {
        let mut found = std::mem::take(&mut self.found);
        self.index.touch(span, &mut found);
        if let Some(class) = class {
            self.take_over(class, &found);
        }
        found.retain(|one| class.is_some() || one.extent.is_dirty);
        let geometry = self.geometry;
        let segment_of = |one: &Found| geometry.place_of(one.extent.location).0;
        let follows = |a: &Found, b: &Found| {
            a.span.end() == b.span.first
                && a.extent.end() == b.extent.location
                && segment_of(a) == segment_of(b)
        };
        for run in found.chunk_by(follows) {
            let sectors = run.iter().map(|one| one.span.sectors).sum();
            let (location, part) = (run[0].extent.location, Span { sectors, ..run[0].span });
            let segment = segment_of(&run[0]);
            self.segments.pin(segment);
            self.read_part(request, span, part, (Target::Cache, location), Some(segment));
        }
        for absent in gaps(span, &found) {
            self.read_part(request, span, absent, (Target::Core(span.core), absent.offset()), None);
        }
        found.clear();
        self.found = found;
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
        self.issue(io, Purpose::Read { request, segment });
    }

    pub(super) fn read_ended(&mut self, request: RequestId, segment: Option<u32>, is_well: bool) {
        if let Some(segment) = segment {
            self.segments.unpin(segment);
            self.has_changed = true;
        }
        self.requests.end_part(request, is_well);
    }
}
