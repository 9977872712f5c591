//! The state of a cache of lines, and the purposes of its I/Os in flight.

use std::collections::BTreeSet;
use std::ops::Range;

use slab::Slab;

use super::change::Change;
use super::cleaner::Cleaning;
use super::destages::Destage;
use super::geometry::Geometry;
use super::journal::Journal;
use super::lines::Lines;
use super::lists::{Kind, Lists};
use super::locks::Locks;
use super::pages::Pages;
use super::stop::Stopping;
use super::table::CoreLine;
use crate::layout::requests::Requests;
use crate::layout::{ClassId, CoreId, DeviceIo, IoId, Request, RequestId, Shares, Span};

/// A cache of lines like Open CAS: see the [module](super).
#[derive(Debug)]
pub struct OcfLayout {
    pub(super) geometry: Geometry,
    pub(super) lines: Lines,
    pub(super) lists: Lists,
    pub(super) shares: Shares,
    /// The number of lines of each class.
    pub(super) class_lines: [u64; ClassId::COUNT],
    pub(super) locks: Locks,
    pub(super) pages: Pages,
    pub(super) journal: Option<Journal>,
    pub(super) requests: Requests,
    /// Requests that wait until lines may be changed.
    pub(super) waiting: Vec<(ClassId, RequestId, Request)>,
    pub(super) changes: Slab<Change>,
    pub(super) cleanings: Slab<Cleaning>,
    pub(super) destages: Vec<Destage>,
    /// The cleaning for a request that found no clean line.
    pub(super) makes_room: Option<usize>,
    pub(super) wants_room: Option<ClassId>,
    /// The list from which the next request takes lines first; `next_cleaned`: the same for the next cleaning.
    pub(super) next_taken: usize,
    pub(super) next_cleaned: usize,
    /// Writes that found too few lines and went to the core instead.
    pub(super) writes_around: u64,
    /// Cores that were written.
    pub(super) cores: BTreeSet<CoreId>,
    /// The write of the table before a stop.
    pub(super) stopping: Option<Stopping>,
    /// The table on the device is complete.
    pub(super) is_prepared: bool,
    pub(super) ios: Slab<Purpose>,
    pub(super) issued: Vec<(IoId, DeviceIo)>,
    /// Something has changed since the last check for possible work.
    pub(super) has_changed: bool,
}

/// The purpose of an I/O.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A client read, and its lines.
    Read { request: RequestId, lines: Vec<u32> },
    /// A write of the data of a change, to the cache device or to the core.
    Change { number: usize },
    /// A write of pages of the table.
    Pages { pages: Range<u32> },
    /// A write of entries of the log, for these lines.
    Journal { lines: Vec<u32> },
    /// A write of pages that are older than the log, or the flush after it.
    Copy,
    /// Part of a cleaning. `first`: its first line, if it is about lines.
    Cleaning { number: usize, first: usize },
    /// A write of the table before a stop.
    Stop,
    /// A client flush.
    Flush { request: RequestId },
}

impl OcfLayout {
    pub(super) fn issue(&mut self, io: DeviceIo, purpose: Purpose) {
        let id = IoId(self.ios.insert(purpose));
        self.issued.push((id, io));
        self.has_changed = true;
    }

    /// The line of a core in which `span` begins.
    pub(super) fn core_line(&self, span: Span) -> CoreLine {
        let number = span.first / u64::from(self.geometry.line_sectors());
        CoreLine { core: span.core.get(), number }
    }

    /// All sectors of a line of a core.
    pub(super) fn span_of(&self, CoreLine { core, number }: CoreLine) -> Span {
        let sectors = self.geometry.line_sectors();
        let core = CoreId::new(core).expect("it was checked when it was mapped");
        Span { core, first: number * u64::from(sectors), sectors }
    }

    /// The bits of `part`, which lies within a line.
    pub(super) fn mask(&self, part: Span) -> u128 {
        let line = u64::from(self.geometry.line_sectors());
        u128::MAX >> (128 - part.sectors) << (part.first % line)
    }

    /// Assigns a line that is in no list to a line of a core that has none, for a class.
    pub(super) fn map(&mut self, class: ClassId, line: u32, of: CoreLine) {
        self.lines.map(line, of);
        self.lists.set_class(line, class);
        self.class_lines[class.index()] += 1;
    }

    /// Removes the owner of a line.
    pub(super) fn unmap(&mut self, line: u32) {
        let class = self.lists.class(line);
        self.lines.unmap(line, class);
        self.class_lines[class.index()] -= 1;
    }

    /// Sets the valid and the dirty sectors of a line with an owner.
    pub(super) fn set_sectors(&mut self, line: u32, valid: u128, dirty: u128) {
        self.lines.set((line, self.lists.class(line)), valid, dirty);
    }

    /// Moves a line with an owner to another class.
    pub(super) fn reclassify(&mut self, line: u32, class: ClassId) {
        let before = self.lists.class(line);
        let kind = self.lists.kind(line);
        self.take_out(line);
        self.lists.set_class(line, class);
        if let Some(kind) = kind {
            self.put(kind, line);
        }
        self.lines.reclassify(line, before, class);
        self.class_lines[before.index()] -= 1;
        self.class_lines[class.index()] += 1;
    }

    fn list_of(&self, line: u32) -> usize {
        self.geometry.version.list_of(line)
    }

    pub(super) fn put(&mut self, kind: Kind, line: u32) {
        let list = self.list_of(line);
        if self.lists.kind(line) == Some(kind) {
            self.lists.touch(list, line);
        } else {
            self.lists.remove(list, line);
            self.lists.push(kind, list, line);
        }
    }

    pub(super) fn take_out(&mut self, line: u32) {
        self.lists.remove(self.list_of(line), line);
    }

    pub(super) fn touch(&mut self, line: u32) {
        self.lists.touch(self.list_of(line), line);
    }

    /// Ends the use of a line. If it is empty and not used otherwise, it becomes free.
    pub(super) fn release(&mut self, line: u32) {
        self.has_changed = true;
        if self.locks.remove_user(line) && self.lines.table.valid(line) == 0 {
            self.take_out(line);
            self.unmap(line);
            self.put(Kind::Free, line);
        }
    }
}

/// The runs of ones in `bits`, as positions.
pub(super) fn runs(mut bits: u128) -> impl Iterator<Item = Range<u32>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let zeros = bits.trailing_zeros();
        bits >>= zeros;
        let ones = bits.trailing_ones();
        bits = bits.checked_shr(ones).unwrap_or(0);
        let first = done + zeros;
        done = first + ones;
        Some(first..done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ones() {
        let found = |bits: u128| runs(bits).collect::<Vec<_>>();
        assert_eq!(found(0), []);
        assert_eq!(found(u128::MAX), vec![0..128; 1]);
        assert_eq!(found(0b1011 << 120 | 6), [1..3, 120..122, 123..124]);
        assert_eq!(found(1 << 127), vec![127..128; 1]);
    }
}
