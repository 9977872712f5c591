//! Users' reads: what is cached from the cache device, the rest from the core.

use super::index::{Found, gaps};
use super::state::{LogLayout, Purpose};
use crate::layout::{DeviceIo, RequestId, SECTOR_BYTES, Span, Target};

impl LogLayout {
    /// With `wants_clean`, what is clean comes from the cache device too.
    pub(super) fn read(&mut self, request: RequestId, span: Span, wants_clean: bool) {
        let mut found = self.find(span);
        found.retain(|one| wants_clean || one.extent.is_dirty);
        self.index.touch(span);
        let follows = |a: &Found, b: &Found| {
            a.span.end() == b.span.first
                && a.extent.location + u64::from(a.span.sectors) == b.extent.location
                && self.geometry.place_of(a.extent.location).0
                    == self.geometry.place_of(b.extent.location).0
        };
        let runs: Vec<(u64, Span)> = found
            .chunk_by(follows)
            .map(|run| {
                let sectors = run.iter().map(|one| one.span.sectors).sum();
                (run[0].extent.location, Span { sectors, ..run[0].span })
            })
            .collect();
        for (location, part) in runs {
            let (segment, _) = self.geometry.place_of(location);
            self.segments.pin(segment);
            self.read_part(request, span, part, (Target::Cache, location), Some(segment));
        }
        for absent in gaps(span, &found) {
            self.read_part(request, span, absent, (Target::Core(span.core), absent.first), None);
        }
    }

    fn read_part(
        &mut self,
        request: RequestId,
        span: Span,
        part: Span,
        (target, sector): (Target, u64),
        segment: Option<u32>,
    ) {
        self.requests.add_part(request);
        let into =
            usize::try_from(part.first - span.first).expect("within a request") * SECTOR_BYTES;
        let (offset, bytes) = (sector * SECTOR_BYTES as u64, part.bytes());
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
