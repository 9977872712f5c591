//! Puts the records that a start has found into the index: the parts that a request needs, and the others one by one
//! ([`Layout::load_part`](crate::layout::Layout::load_part)).

use super::super::index::Extent;
use super::super::unloaded::{Late, RecordedState, UnloadedRecords};
use super::RecordLog;
use crate::layout::Span;
use crate::layout::line::{pack_line, unpack_line};

impl RecordLog {
    /// Takes over what a start has found.
    pub(in crate::layout::log) fn adopt(&mut self, unloaded: UnloadedRecords) {
        self.unloaded = Some(unloaded).filter(|unloaded| unloaded.left() > 0);
    }

    /// The number of parts that are not loaded.
    pub(in crate::layout::log) fn unloaded_parts(&self) -> usize {
        self.unloaded.as_ref().map_or(0, UnloadedRecords::left)
    }

    /// The dirty data that was loaded since the last call.
    pub(in crate::layout::log) fn take_loaded_dirty(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.loaded_dirty)
    }

    /// Whether data was loaded since the last call.
    pub(in crate::layout::log) fn take_has_loaded(&mut self) -> bool {
        std::mem::take(&mut self.has_loaded)
    }

    /// Ensures that the index contains everything known of `span`.
    pub(in crate::layout::log) fn load(&mut self, span: Span) {
        while let Some(part) = self.unloaded.as_ref().and_then(|unloaded| unloaded.missing(span)) {
            self.load_number(part);
        }
    }

    /// Loads a part that contains lines of a segment. Returns whether one was missing.
    pub(in crate::layout::log) fn load_one_of(&mut self, segment: u32) -> bool {
        let Some(unloaded) = &self.unloaded else { return false };
        let line_sectors = self.geometry.line_sectors();
        let mut lines = self.segments.get(segment).lines().iter();
        let missing = lines.find_map(|&line| unloaded.missing(unpack_line(line, line_sectors)));
        missing.is_some_and(|part| {
            self.load_number(part);
            true
        })
    }

    /// Loads the next part.
    pub(in crate::layout::log) fn load_next(&mut self) {
        if let Some(part) = self.unloaded.as_mut().and_then(UnloadedRecords::next) {
            self.load_number(part);
        }
    }

    /// Loads all parts.
    pub(in crate::layout::log) fn load_all(&mut self) {
        while self.unloaded.is_some() {
            self.load_next();
        }
    }

    fn load_number(&mut self, part: usize) {
        let Some(unloaded) = &mut self.unloaded else { return };
        let (records, line_shift) = (unloaded.take(part), unloaded.line_shift());
        if unloaded.left() == 0 {
            self.unloaded = None;
        }
        self.has_loaded = true;
        for line in records.chunk_by(|a, b| a.line(line_shift) == b.line(line_shift)) {
            self.load_line(line);
        }
    }

    /// Of records of the same sectors the last one counts. Usually all records of a line are of the same sectors.
    fn load_line(&mut self, records: &[Late]) {
        let Some((span, last)) = records.last().map(|late| late.record()) else { return };
        if last != RecordedState::Destaged && records.iter().all(|late| late.record().0 == span) {
            self.load_record(span, last);
            if let RecordedState::Cached(Extent { is_dirty: true, .. }) = last {
                self.loaded_dirty.push(span);
            }
            return;
        }
        for (span, said) in records.iter().map(|late| late.record()) {
            self.load_record(span, said);
        }
        let line_sectors = self.geometry.line_sectors();
        let line = unpack_line(pack_line(span, line_sectors), line_sectors);
        let mut found = self.take_buffer();
        self.index.find(line, &mut found);
        let dirty = found.iter().filter(|found| found.extent.is_dirty);
        self.loaded_dirty.extend(dirty.map(|found| found.span));
        self.give_back(found);
    }

    fn load_record(&mut self, span: Span, said: RecordedState) {
        let extent = match said {
            RecordedState::Cached(extent) => Some(extent),
            RecordedState::Void => None,
            RecordedState::Destaged => {
                // If it were overwritten in place, a later start would take the new data for clean too.
                return self.index.change(span, |extent| {
                    (extent.is_dirty, extent.is_overwritable) = (false, false);
                });
            }
        };
        self.index.replace(span, extent, &mut self.found);
        self.found.clear();
    }
}
