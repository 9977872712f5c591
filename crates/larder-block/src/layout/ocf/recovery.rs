//! Recovers a cache of lines after a crash, from its collision table and a log in front of that. Dirty data is found
//! with its mapping; clean data and the order of use are lost. After an orderly stop the table contains everything,
//! including clean data: then all of it is used, and a sector of the table that was never written is damage.
//!
//! Like the layout, this does no I/O: it says what to read. Any number of reads may be in flight.

use std::collections::{BTreeMap, BTreeSet};

use super::OcfLayout;
use super::cache_lines::CacheLines;
use super::geometry::{Geometry, PAGE_BYTES, TABLE_SECTOR_BYTES};
use super::journal::Journal;
use super::table::{CORE_LINE_BITS, SectorCondition, Table};
use super::table_writer::TableWriter;
use crate::layout::CoreId;

/// Pages per read.
const READ_PAGES: u32 = 64;

/// A read that a recovery requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRead {
    what: TableReadPurpose,
    /// Offset on the cache device, in bytes.
    pub offset: u64,
    /// Bytes to read: whole pages of the table, or blocks of the log.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableReadPurpose {
    /// Pages of the table.
    Table { first_page: u32 },
    /// Blocks of the log.
    Journal { first_block: u32 },
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveredLines {
    /// Lines with dirty sectors.
    pub dirty_lines: u64,
    /// Sectors of the table that are not what was written: dirty data may be lost. A device writes sectors atomically,
    /// so a crash leaves no such sectors.
    pub damaged_sectors: u64,
    /// Lines that have the same owner as another line, or an impossible owner. They are given up.
    pub refused_lines: u64,
    /// Reads that the device refused. Dirty data may be lost.
    pub failed_reads: u64,
}

/// A recovery. Take reads with [`next_read`](Self::next_read) and answer them with [`completed`](Self::completed)
/// until there are none; then [`finish`](Self::finish) makes a layout of it.
#[derive(Debug)]
pub struct OcfRecovery {
    geometry: Geometry,
    table: Table,
    next_page: u32,
    journal: Option<Journal>,
    next_block: u32,
    /// Blocks of the log by sequence: their positions and entries.
    entries: BTreeMap<u64, Block>,
    outstanding: usize,
    found: RecoveredLines,
    told_up_to: u64,
    was_left: bool,
    /// The existing cores, if they were given.
    cores: Option<BTreeSet<CoreId>>,
}

#[derive(Debug)]
struct Block {
    number: u32,
    /// Lines and their records.
    entries: Vec<(u32, Vec<u8>)>,
}

impl OcfRecovery {
    /// A recovery of the cache with this UUID.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        Self {
            geometry,
            table: Table::new(&geometry, uuid),
            next_page: 0,
            journal: geometry.version.has_journal().then(|| Journal::new(&geometry, uuid)),
            next_block: 0,
            entries: BTreeMap::new(),
            outstanding: 0,
            found: RecoveredLines::default(),
            told_up_to: 0,
            was_left: false,
            cores: None,
        }
    }

    /// Sets the state of the table that the label records: [`OcfSuperblock`](super::OcfSuperblock).
    #[must_use]
    pub fn left(self, told_up_to: u64, was_left: bool) -> Self {
        Self { told_up_to, was_left, ..self }
    }

    /// Only these cores exist. Lines of any other core are of a removed core, which had all its data by then: they are
    /// given up.
    #[must_use]
    pub fn of_cores(self, cores: impl IntoIterator<Item = CoreId>) -> Self {
        Self { cores: Some(cores.into_iter().collect()), ..self }
    }

    /// The next read; `None` when nothing is left.
    pub fn next_read(&mut self) -> Option<RecoveryRead> {
        let read = self.next_of_table().or_else(|| self.next_of_journal())?;
        self.outstanding += 1;
        Some(read)
    }

    fn next_of_table(&mut self) -> Option<RecoveryRead> {
        let first_page = self.next_page;
        let pages = READ_PAGES.min(self.geometry.pages() - first_page);
        self.next_page += pages;
        let bytes = (pages * PAGE_BYTES) as usize;
        let offset = self.geometry.page_offset(first_page);
        (pages > 0).then_some(RecoveryRead {
            what: TableReadPurpose::Table { first_page },
            offset,
            bytes,
        })
    }

    fn next_of_journal(&mut self) -> Option<RecoveryRead> {
        let first_block = self.next_block;
        let block_bytes = self.geometry.block_bytes;
        let most = READ_PAGES * PAGE_BYTES / block_bytes;
        let blocks = most.min(self.geometry.journal_blocks() - first_block);
        self.next_block += blocks;
        let bytes = (blocks * block_bytes) as usize;
        let offset = self.geometry.journal_offset(first_block);
        (blocks > 0).then_some(RecoveryRead {
            what: TableReadPurpose::Journal { first_block },
            offset,
            bytes,
        })
    }

    /// Answers a read; `None` if the device refused it.
    pub fn completed(&mut self, read: RecoveryRead, bytes: Option<&[u8]>) {
        self.outstanding -= 1;
        self.found.failed_reads += u64::from(bytes.is_none());
        let bytes = bytes.unwrap_or_default();
        match read.what {
            TableReadPurpose::Table { first_page } => {
                let first = u64::from(first_page * (PAGE_BYTES / 512));
                for (number, sector) in (first..).zip(bytes.chunks_exact(TABLE_SECTOR_BYTES)) {
                    let is_damaged = match self.table.adopt(number, sector) {
                        SectorCondition::Whole => false,
                        SectorCondition::Blank => self.was_left,
                        SectorCondition::Damaged => true,
                    };
                    self.found.damaged_sectors += u64::from(is_damaged);
                }
            }
            TableReadPurpose::Journal { first_block } => {
                let Some(journal) = &self.journal else { return };
                let blocks = bytes.chunks_exact(self.geometry.block_bytes as usize);
                for (number, block) in (first_block..).zip(blocks) {
                    let Some((sequence, entries)) = journal.parse(number, block) else { continue };
                    let entries = entries.map(|(line, record)| (line, record.to_vec())).collect();
                    self.entries.insert(sequence, Block { number, entries });
                }
            }
        }
    }

    /// Applies the entries of the log to the table, in order. The log continues after them.
    fn tell_table(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let Some((&last, _)) = self.entries.last_key_value() else { return };
        for (sequence, Block { number, entries }) in std::mem::take(&mut self.entries) {
            if journal.is_left_over(sequence, last) {
                continue;
            }
            journal.goes_on_behind(number, sequence);
            if sequence <= self.told_up_to {
                continue;
            }
            for (line, record) in entries {
                self.table.adopt_record(line, &record);
                if line < self.geometry.lines {
                    journal.is_of(number, self.geometry.page_of(line));
                }
            }
        }
    }

    /// Makes a layout of the recovered cache. Returns it, and what was found.
    ///
    /// # Panics
    /// If there are reads left.
    pub fn finish(mut self) -> (OcfLayout, RecoveredLines) {
        let is_read = self.next_page == self.geometry.pages()
            && self.next_block == self.geometry.journal_blocks();
        let is_done = is_read && self.outstanding == 0;
        assert!(is_done, "a recovery is finished when all is read");
        self.tell_table();
        let cores = self.cores;
        let was_left = self.was_left;
        let said = |line: u32| {
            let dirty = self.table.dirty(line);
            (if was_left { self.table.valid(line) | dirty } else { dirty }, dirty)
        };
        let said: Vec<(u128, u128)> = (0..self.geometry.lines).map(said).collect();
        (0..self.geometry.lines).for_each(|line| self.table.set_maps(line, 0, 0));
        let mut lines = CacheLines::new(self.geometry, self.table);
        let mut writer = TableWriter::new(self.journal);
        for (line, (valid, dirty)) in (0..).zip(said) {
            if valid == 0 {
                continue;
            }
            let of = lines.table().core_line(line);
            let is_there = |core: &CoreId| cores.as_ref().is_none_or(|all| all.contains(core));
            let is_known = CoreId::new(of.core).as_ref().is_some_and(is_there)
                && of.number < 1 << CORE_LINE_BITS;
            if !is_known || lines.find(of).is_some() {
                if dirty != 0 {
                    // Its page says dirty: it must say otherwise before the line gets another owner.
                    writer.doubt(self.geometry.unit_of(line));
                    // Lines of a removed core are not damage.
                    let is_of_gone = CoreId::new(of.core).is_some_and(|core| !is_there(&core));
                    self.found.refused_lines += u64::from(!is_of_gone);
                }
                continue;
            }
            lines.adopt(line, of, valid, dirty);
            self.found.dirty_lines += u64::from(dirty != 0);
        }
        lines.fill_free_lists();
        (OcfLayout::of(lines, writer), self.found)
    }
}
