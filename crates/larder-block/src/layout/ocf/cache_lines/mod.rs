//! The lines of the cache: whose they are, which of their sectors are valid or dirty, in which order they were used,
//! and which are in use.
//!
//! - `allocating`: selects lines for data that is not cached yet, and dirty lines to be cleaned.
//! - `classes`: how many lines IO classes may have.
//!
//! *Always:* a line that is in use keeps its owner. A line is in the list that fits its state, unless it was just taken
//! out to get an owner. No line has dirty sectors that are not valid.

mod allocating;
mod classes;

use std::collections::BTreeSet;
use std::ops::Range;

use super::bits::runs;
use super::change::LinePiece;
use super::geometry::Geometry;
use super::lines::Lines;
use super::lists::{Kind, Lists};
use super::locks::LineLocks;
use super::table::{CoreLine, Table};
use crate::layout::line::by_line;
use crate::layout::{ClassId, CoreId, Data, PieceState, Shares, Span, Usage};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct CacheLines {
    geometry: Geometry,
    lines: Lines,
    lists: Lists,
    shares: Shares,
    /// The number of lines of each class.
    class_lines: [u64; ClassId::COUNT],
    locks: LineLocks,
    /// The list from which the next request takes lines first; `next_cleaned`: the same for the next cleaning.
    next_taken: usize,
    next_cleaned: usize,
}

impl CacheLines {
    /// Lines that are in no list yet.
    pub(super) fn new(geometry: Geometry, table: Table) -> Self {
        Self {
            geometry,
            lines: Lines::new(&geometry, table),
            lists: Lists::new(geometry.lines),
            shares: Shares::default(),
            class_lines: [0; ClassId::COUNT],
            locks: LineLocks::default(),
            next_taken: 0,
            next_cleaned: 0,
        }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn set_shares(&mut self, shares: Shares) {
        self.shares = shares;
    }

    /// Puts all lines that are in no list into the free lists.
    pub(super) fn fill_free_lists(&mut self) {
        for line in self.geometry.version.lines_in_order(self.geometry.lines) {
            if self.lists.kind(line).is_none() {
                self.put(Kind::Free, line);
            }
        }
    }

    /// Takes over a line that a start has found, for no class.
    pub(super) fn adopt(&mut self, line: u32, of: CoreLine, valid: u128, dirty: u128) {
        self.map(ClassId::UNCLASSIFIED, line, of);
        self.set_sectors(line, valid, dirty);
        self.put(if dirty == 0 { Kind::Clean } else { Kind::Dirty }, line);
    }

    /// The state of the lines, as the device has it.
    pub(super) fn table(&self) -> &Table {
        &self.lines.table
    }

    /// Pages of the table in their current state, to be written.
    pub(super) fn sealed(&mut self, pages: Range<u32>) -> Data {
        self.lines.table.sealed(pages)
    }

    /// The line that caches this line of a core.
    pub(super) fn find(&self, of: CoreLine) -> Option<u32> {
        self.lines.find(of)
    }

    /// The first dirty line of a core from `from` on.
    pub(super) fn next_dirty(&self, from: CoreLine) -> Option<CoreLine> {
        self.lines.dirty_lines.next(from)
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
    fn map(&mut self, class: ClassId, line: u32, of: CoreLine) {
        self.lines.map(line, of);
        self.lists.set_class(line, class);
        self.class_lines[class.index()] += 1;
    }

    /// Removes the owner of a line.
    fn unmap(&mut self, line: u32) {
        let class = self.lists.class(line);
        self.lines.unmap(line, class);
        self.class_lines[class.index()] -= 1;
    }

    /// Sets the valid and the dirty sectors of a line with an owner.
    pub(super) fn set_sectors(&mut self, line: u32, valid: u128, dirty: u128) {
        self.lines.set((line, self.lists.class(line)), valid, dirty);
    }

    /// Moves a line with an owner to another class.
    fn reclassify(&mut self, line: u32, class: ClassId) {
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

    /// The list that a line is in.
    pub(super) fn kind(&self, line: u32) -> Option<Kind> {
        self.lists.kind(line)
    }

    /// Puts a line into the list that fits its state, as the one that was used last.
    pub(super) fn put(&mut self, kind: Kind, line: u32) {
        let list = self.list_of(line);
        if self.lists.kind(line) == Some(kind) {
            self.lists.touch(list, line);
        } else {
            self.lists.remove(list, line);
            self.lists.push(kind, list, line);
        }
    }

    fn take_out(&mut self, line: u32) {
        self.lists.remove(self.list_of(line), line);
    }

    /// A line was used.
    pub(super) fn touch(&mut self, line: u32) {
        self.lists.touch(self.list_of(line), line);
    }

    /// A request uses a line from now on.
    pub(super) fn add_user(&mut self, line: u32) {
        self.locks.add_user(line);
    }

    /// Ends the use of a line. If it is empty and not used otherwise, it becomes free.
    pub(super) fn release(&mut self, line: u32) {
        if self.locks.remove_user(line) && self.lines.table.valid(line) == 0 {
            self.take_out(line);
            self.unmap(line);
            self.put(Kind::Free, line);
        }
    }

    /// Whether a line is not in use.
    pub(super) fn is_idle(&self, line: u32) -> bool {
        self.locks.is_idle(line)
    }

    /// A line is being cleaned from now on; it must be idle. Returns its owner and its dirty sectors.
    pub(super) fn begin_cleaning(&mut self, line: u32) -> (CoreLine, u128) {
        self.locks.begin_cleaning(line);
        (self.lines.table.core_line(line), self.lines.table.dirty(line))
    }

    pub(super) fn end_cleaning(&mut self, line: u32) {
        self.locks.end_cleaning(line);
    }

    /// A destage waits until it may clean a line.
    pub(super) fn claim(&mut self, line: u32) {
        self.locks.claim(line);
    }

    pub(super) fn end_claim(&mut self, line: u32) {
        self.locks.end_claim(line);
    }

    /// Whether no line of it is being cleaned, or about to be.
    pub(super) fn may_change(&self, span: Span) -> bool {
        by_line(span, self.geometry.line_sectors()).all(|part| {
            let line = self.lines.find(self.core_line(part));
            line.is_none_or(|line| self.locks.may_change(line))
        })
    }

    /// The lines for `span`: existing and new ones; `None` if there are too few. No line on a page of `doubtful` gets a
    /// new owner.
    pub(super) fn place(
        &mut self,
        class: ClassId,
        span: Span,
        doubtful: &BTreeSet<u32>,
    ) -> Option<Vec<LinePiece>> {
        let parts: Vec<Span> = by_line(span, self.geometry.line_sectors()).collect();
        let mut lines: Vec<Option<u32>> =
            parts.iter().map(|part| self.lines.find(self.core_line(*part))).collect();
        let has: Vec<u32> = lines.iter().flatten().copied().collect();
        // Lock the existing lines, so that they are not evicted for the missing ones.
        has.iter().for_each(|line| self.locks.add_user(*line));
        let taken = self.take_lines(class, lines.len() - has.len(), doubtful);
        for line in &has {
            self.locks.remove_user(*line);
        }
        let mut taken = taken?.into_iter();
        has.into_iter().for_each(|line| self.take_over(class, line));
        for (line, part) in lines.iter_mut().zip(&parts) {
            if line.is_none() {
                *line = taken.next();
                self.map(class, line.expect("one for each"), self.core_line(*part));
            }
        }
        let piece = |(line, part): (Option<u32>, &Span)| {
            Some(LinePiece { line: line?, mask: self.mask(*part) })
        };
        lines.into_iter().zip(&parts).map(piece).collect()
    }

    /// The lines that cache parts of `span`.
    pub(super) fn cached(&self, span: Span) -> Vec<LinePiece> {
        let piece = |part: Span| {
            let line = self.lines.find(self.core_line(part))?;
            Some(LinePiece { line, mask: self.mask(part) })
        };
        by_line(span, self.geometry.line_sectors()).filter_map(piece).collect()
    }

    /// The state of `span` with the lines, in order.
    pub(super) fn pieces(&self, span: Span) -> Vec<(Span, Option<u32>, PieceState)> {
        let mut pieces = Vec::new();
        for part in by_line(span, self.geometry.line_sectors()) {
            let line = self.lines.find(self.core_line(part));
            let Some(line) = line else {
                pieces.push((part, None, PieceState::Absent));
                continue;
            };
            let (valid, dirty) = (self.lines.table.valid(line), self.lines.table.dirty(line));
            let mask = self.mask(part);
            let begins = part.first - part.first % u64::from(self.geometry.line_sectors());
            let before = pieces.len();
            for (bits, state) in [
                (!valid, PieceState::Absent),
                (valid & !dirty, PieceState::Clean),
                (dirty, PieceState::Dirty),
            ] {
                pieces.extend(runs(bits & mask).map(|run| {
                    let first = begins + u64::from(run.start);
                    let own = Span { first, sectors: run.end - run.start, ..part };
                    (own, Some(line), state)
                }));
            }
            pieces[before..].sort_unstable_by_key(|(own, ..)| own.first);
        }
        pieces
    }

    /// The first run of dirty sectors of a core from `sector` on.
    pub(super) fn dirty_run(&self, core: CoreId, sector: u64) -> Option<Span> {
        let line_sectors = u64::from(self.geometry.line_sectors());
        let mut from = CoreLine { core: core.get(), number: sector / line_sectors };
        loop {
            let of = self.lines.dirty_lines.next(from)?;
            let line = self.lines.find(of).expect("it is dirty");
            let begins = of.number * line_sectors;
            let first = sector.saturating_sub(begins).min(line_sectors);
            let left = u128::MAX.checked_shl(u32::try_from(first).expect("within a line"));
            if let Some(run) = runs(self.lines.table.dirty(line) & left.unwrap_or(0)).next() {
                let first = begins + u64::from(run.start);
                return Some(Span { core, first, sectors: run.end - run.start });
            }
            from.number = of.number + 1;
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let dirty_sectors = self.lines.dirty_sectors.all();
        Usage { valid_sectors: self.lines.valid_sectors, dirty_sectors }
    }

    pub(super) fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.lines.dirty_sectors.of(core)
    }

    /// The valid sectors of a class.
    pub(super) fn class_sectors(&self, class: ClassId) -> u64 {
        self.lines.class_sectors[class.index()]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.lists.memory_bytes()
    }
}
