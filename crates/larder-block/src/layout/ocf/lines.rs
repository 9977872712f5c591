//! Maps lines of the cores to lines of the cache: the table, and a hash index over it.

use super::dirty_lines::DirtyLines;
use super::geometry::Geometry;
use super::table::{CoreLine, Table};
use crate::layout::dirty_sectors::DirtySectors;
use crate::layout::line::scattered;
use crate::layout::{ClassId, CoreId};

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) table: Table,
    /// The first line of each chain of the hash index.
    heads: Vec<u32>,
    /// The next line of the same chain, by line.
    chains: Vec<u32>,
    pub(super) dirty_lines: DirtyLines,
    pub(super) valid_sectors: u64,
    /// Of these, the sectors of each IO class.
    pub(super) class_sectors: [u64; ClassId::COUNT],
    pub(super) dirty_sectors: DirtySectors,
}

impl Lines {
    pub(super) fn new(geometry: &Geometry, table: Table) -> Self {
        let heads = (geometry.lines / 2).next_power_of_two() as usize;
        Self {
            table,
            heads: vec![NONE; heads],
            chains: vec![NONE; geometry.lines as usize],
            dirty_lines: DirtyLines::default(),
            valid_sectors: 0,
            class_sectors: [0; ClassId::COUNT],
            dirty_sectors: DirtySectors::default(),
        }
    }

    /// The line that caches this line of a core.
    pub(super) fn find(&self, of: CoreLine) -> Option<u32> {
        let mut line = self.heads[self.chain_of(of)];
        while line != NONE {
            if self.table.core_line(line) == of {
                return Some(line);
            }
            line = self.chains[line as usize];
        }
        None
    }

    /// Assigns `line` to a line of a core that has none.
    pub(super) fn map(&mut self, line: u32, of: CoreLine) {
        debug_assert_eq!(self.find(of), None, "{of:?} has a line");
        let chain = self.chain_of(of);
        self.table.set_core_line(line, of);
        self.chains[line as usize] = std::mem::replace(&mut self.heads[chain], line);
    }

    /// Moves the valid sectors of a line to another class.
    pub(super) fn reclassify(&mut self, line: u32, from: ClassId, to: ClassId) {
        let sectors = u64::from(self.table.valid(line).count_ones());
        self.class_sectors[from.index()] -= sectors;
        self.class_sectors[to.index()] += sectors;
    }

    /// Removes the owner of a line of this class. The line must not have dirty sectors.
    ///
    /// # Panics
    /// If it has, or if it has no owner.
    pub(super) fn unmap(&mut self, line: u32, class: ClassId) {
        assert_eq!(self.table.dirty(line), 0, "line {line} has dirty sectors");
        self.set((line, class), 0, 0);
        let chain = self.chain_of(self.table.core_line(line));
        let next = self.chains[line as usize];
        if self.heads[chain] == line {
            self.heads[chain] = next;
            return;
        }
        let mut before = self.heads[chain];
        while self.chains[before as usize] != line {
            before = self.chains[before as usize];
        }
        self.chains[before as usize] = next;
    }

    /// Sets the valid and the dirty sectors of a mapped line of this class.
    ///
    /// # Panics
    /// If a sector is dirty but not valid.
    pub(super) fn set(&mut self, (line, class): (u32, ClassId), valid: u128, dirty: u128) {
        assert_eq!(dirty & !valid, 0, "line {line}: what is dirty is valid");
        let (old_valid, old_dirty) = (self.table.valid(line), self.table.dirty(line));
        self.table.set_maps(line, valid, dirty);
        let count = |bits: u128| u64::from(bits.count_ones());
        for sectors in [&mut self.valid_sectors, &mut self.class_sectors[class.index()]] {
            *sectors = *sectors + count(valid) - count(old_valid);
        }
        if dirty != old_dirty {
            let core = CoreId::new(self.table.core_line(line).core);
            let core = core.expect("it was checked when it was mapped");
            self.dirty_sectors.add(core, count(dirty));
            self.dirty_sectors.remove(core, count(old_dirty));
        }
        if (dirty == 0) != (old_dirty == 0) {
            self.dirty_lines.set(self.table.core_line(line), dirty != 0);
        }
    }

    fn chain_of(&self, CoreLine { core, number }: CoreLine) -> usize {
        scattered(core, number) & (self.heads.len() - 1)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + (self.heads.len() + self.chains.len()) * size_of::<u32>()
            + self.dirty_lines.memory_bytes()
    }
}
