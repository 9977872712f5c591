//! Dirty data is overwritten in place if the device writes sectors atomically, and a durable header says that the batch
//! of the data was complete.

use super::super::grace::GracePhase;
use super::super::index::MappedExtent;
use super::RecordLog;
use crate::layout::{SECTOR_BYTES, Span};

/// A write is split into several overwrites only if they have this many bytes on average, because an append is one
/// I/O.
const RUN_BYTES: usize = 16 << 10;

/// Where the data of a write goes.
pub(in crate::layout::log) enum WritePlacement {
    /// Overwrites the existing data.
    InPlace(Vec<OverwriteRun>),
    /// The same, as soon as a header states that the existing data is complete. If it were appended instead, a block
    /// that is rewritten again and again would always be in the last batch, and never be overwritten in place.
    InPlaceLater,
    /// To the end of the log.
    Append,
}

/// Consecutive sectors on the cache device, from sector `first` of the core on.
pub(in crate::layout::log) struct OverwriteRun {
    /// Offset in bytes.
    pub(in crate::layout::log) location: u64,
    pub(in crate::layout::log) first: u64,
    pub(in crate::layout::log) sectors: u64,
}

impl OverwriteRun {
    fn end(&self) -> u64 {
        self.location + self.sectors * SECTOR_BYTES as u64
    }
}

impl RecordLog {
    /// Whether dirty data of a batch at `position` of its segment may ever be overwritten in place. If headers are in
    /// metadata, this excludes the first batch of a segment, whose metadata contains the first header.
    pub(in crate::layout::log) fn may_overwrite(&self, position: u32) -> bool {
        self.overwrite_align_bytes.is_some() && !(self.geometry.has_metadata() && position == 0)
    }

    /// Where the data of a write of `span` goes, if `found` is cached there.
    pub(in crate::layout::log) fn placement_of(
        &self,
        span: Span,
        found: &[MappedExtent],
    ) -> WritePlacement {
        let Some(align) = self.overwrite_align_bytes else { return WritePlacement::Append };
        let align = u64::from(align);
        let mut runs: Vec<OverwriteRun> = Vec::new();
        let (mut next, mut is_covered) = (span.first, true);
        for MappedExtent { span: part, extent } in found {
            let is_aligned = extent.location.is_multiple_of(align)
                && (part.bytes() as u64).is_multiple_of(align);
            if part.first != next || !extent.is_overwritable || extent.is_busy || !is_aligned {
                return WritePlacement::Append;
            }
            let (segment, position) = self.geometry.place_of(extent.location);
            let end = position + part.sectors * 512;
            let one = self.segments.get(segment);
            // An overwrite would destroy the piece of the header in the metadata.
            if self.geometry.has_metadata() && !one.is_listed() {
                return WritePlacement::Append;
            }
            if !one.takes_overwrites(end) {
                is_covered = false;
                if !one.will_take_overwrites(end) {
                    return WritePlacement::Append;
                }
            }
            next = part.end();
            match runs.last_mut() {
                Some(run) if run.end() == extent.location => run.sectors += u64::from(part.sectors),
                _ => runs.push(OverwriteRun {
                    location: extent.location,
                    first: part.first,
                    sectors: u64::from(part.sectors),
                }),
            }
        }
        if next != span.end() || runs.len() > (span.bytes() / RUN_BYTES).max(1) {
            return WritePlacement::Append;
        }
        match (is_covered, self.appender.is_frozen()) {
            (true, _) => WritePlacement::InPlace(runs),
            (false, false) => WritePlacement::InPlaceLater,
            (false, true) => WritePlacement::Append,
        }
    }

    /// An overwrite of data in a segment begins.
    pub(in crate::layout::log) fn begin_overwrite(&mut self, segment: u32) -> GracePhase {
        self.segments.begin_write(segment);
        self.overwrites += 1;
        self.grace.begin()
    }

    pub(in crate::layout::log) fn overwrite_ended(&mut self, segment: u32, phase: GracePhase) {
        self.grace.end(phase);
        self.segments.end_write(segment);
        self.overwrites -= 1;
        self.appender.overwrite_ended();
    }
}
