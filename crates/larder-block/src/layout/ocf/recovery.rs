//! What a cache of lines says of itself after a crash: its collision table, and nothing else. What was dirty is found
//! with its mapping; what was clean, and in which order lines were used, is lost.
//!
//! Like the layout this does no I/O: it says what is to be read. As many reads may go side by side.

use super::geometry::{Geometry, PAGE_BYTES, TABLE_SECTOR_BYTES};
use super::lists::Kind;
use super::state::OcfLayout;
use super::table::{Adopted, CORE_LINE_BITS, Table};
use crate::layout::{CORES_MAX, ClassId};

/// Pages of a read.
const READ_PAGES: u32 = 64;

/// A read that a recovery wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRead {
    first_page: u32,
    /// Where on the cache device, in bytes.
    pub offset: u64,
    /// How many: whole pages of the table.
    pub bytes: usize,
}

/// What a recovery has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Lines with dirty sectors.
    pub dirty_lines: u64,
    /// Sectors of the table that are not what was written there. Dirty data may have been lost.
    pub damaged_sectors: u64,
    /// Lines that say that they have what another has as well, or what no core has. They are given up.
    pub refused_lines: u64,
    /// Reads that the device refused. Dirty data may have been lost.
    pub failed_reads: u64,
}

/// A recovery: reads are taken with [`next_read`](Self::next_read) and answered with [`completed`](Self::completed)
/// until there are none; then [`finish`](Self::finish) makes a layout of it.
#[derive(Debug)]
pub struct OcfRecovery {
    geometry: Geometry,
    table: Table,
    next_page: u32,
    outstanding: usize,
    found: Recovered,
}

impl OcfRecovery {
    /// Of the cache with this UUID.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        Self {
            geometry,
            table: Table::new(&geometry, uuid),
            next_page: 0,
            outstanding: 0,
            found: Recovered::default(),
        }
    }

    /// What is to be read next; `None` when nothing is left.
    pub fn next_read(&mut self) -> Option<RecoveryRead> {
        let first_page = self.next_page;
        let pages = READ_PAGES.min(self.geometry.pages() - first_page);
        self.next_page += pages;
        self.outstanding += usize::from(pages > 0);
        let bytes = (pages * PAGE_BYTES) as usize;
        let offset = self.geometry.page_offset(first_page);
        (pages > 0).then_some(RecoveryRead { first_page, offset, bytes })
    }

    /// What was read; `None` if the device refused.
    pub fn completed(&mut self, read: RecoveryRead, bytes: Option<&[u8]>) {
        self.outstanding -= 1;
        self.found.failed_reads += u64::from(bytes.is_none());
        let first = u64::from(read.first_page * (PAGE_BYTES / 512));
        let sectors = bytes.unwrap_or_default().chunks_exact(TABLE_SECTOR_BYTES);
        for (number, sector) in (first..).zip(sectors) {
            let is_damaged = self.table.adopt(number, sector) == Adopted::Damaged;
            self.found.damaged_sectors += u64::from(is_damaged);
        }
    }

    /// The cache as it was left, and what was found.
    ///
    /// # Panics
    /// If reads are left.
    pub fn finish(mut self) -> (OcfLayout, Recovered) {
        let is_done = self.next_page == self.geometry.pages() && self.outstanding == 0;
        assert!(is_done, "a recovery is finished when all is read");
        let dirty: Vec<u128> =
            (0..self.geometry.lines).map(|line| self.table.dirty(line)).collect();
        (0..self.geometry.lines).for_each(|line| self.table.set_maps(line, 0, 0));
        let mut layout = OcfLayout::with_table(self.geometry, self.table);
        for (line, dirty) in (0..).zip(dirty) {
            if dirty == 0 {
                continue;
            }
            let of = layout.lines.table.core_line(line);
            let is_known = of.core < CORES_MAX && of.number < 1 << CORE_LINE_BITS;
            if !is_known || layout.lines.find(of).is_some() {
                // Its page says that it is dirty: it has to say otherwise before the line is another's.
                layout.pages.doubt(self.geometry.page_of(line));
                self.found.refused_lines += 1;
                continue;
            }
            layout.map(ClassId::UNCLASSIFIED, line, of);
            layout.lines.set(line, dirty, dirty);
            layout.put(Kind::Dirty, line);
            self.found.dirty_lines += 1;
        }
        layout.fill_free_lists();
        (layout, self.found)
    }
}
