//! Changes through the log: entries first, pages of the table later.
//!
//! *Always:* the entries of a half are in the table, durably, before the half is overwritten. Until then the state of
//! the table does not matter, because a start applies the entries to it.

use std::ops::Range;

use super::journal::CopyStep;
use super::pages::Waiter;
use super::state::{OcfLayout, Purpose};
use crate::layout::{Class, DeviceIo, Target};

/// Most blocks of one write of entries.
const WRITE_BLOCKS: u32 = 64;
/// Most pages of one write to the table.
const RUN_PAGES: u32 = 256;

impl OcfLayout {
    /// Writes the wanted entries to the log, if no write to it is in flight and it has room.
    pub(super) fn write_journal(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        if !self.pages.has_wanted() || journal.is_writing {
            return;
        }
        if !journal.may_write() {
            let half = journal.half();
            let runs = journal.begin_copying(half, RUN_PAGES);
            let is_stuck = journal.is_stuck;
            self.copy(runs);
            if is_stuck {
                self.refuse_wanted();
            }
            return;
        }
        let lines = self.pages.take_some(journal.room(WRITE_BLOCKS));
        let (half, (first, data)) = (journal.half(), journal.encode(&self.lines.table, &lines));
        journal.is_writing = true;
        for line in &lines {
            journal.is_of(first, self.geometry.page_of(*line));
        }
        // Pages of the previous half are written to the table while this half is filled.
        let runs = journal.begin_copying(1 - half, RUN_PAGES);
        self.copy(runs);
        let io = DeviceIo::Write {
            target: Target::Cache,
            offset: self.geometry.journal_offset(first),
            beside: None,
            metadata_bytes: data.len(),
            parts: vec![data],
            class: Class::Metadata,
            durable: true,
        };
        self.issue(io, Purpose::Journal { lines });
    }

    pub(super) fn journal_written(&mut self, lines: &[u32], is_well: bool) {
        if let Some(journal) = &mut self.journal {
            journal.is_writing = false;
        }
        self.lines_ended(lines, is_well);
    }

    /// The log is full, and the device has refused the writes that would make room.
    fn refuse_wanted(&mut self) {
        let lines = self.pages.take_some(usize::MAX);
        self.lines_ended(&lines, false);
    }

    fn lines_ended(&mut self, lines: &[u32], is_well: bool) {
        self.has_changed = true;
        let ended = |line: &u32| self.pages.ended(*line..line + 1, is_well);
        let waiters: Vec<Waiter> = lines.iter().flat_map(ended).collect();
        for waiter in waiters {
            self.hears(waiter, is_well);
        }
    }

    fn copy(&mut self, runs: Vec<Range<u32>>) {
        for pages in runs {
            let io = self.page_write(pages, false);
            self.issue(io, Purpose::Copy);
        }
    }

    pub(super) fn copy_went_on(&mut self, is_well: bool) {
        self.has_changed = true;
        let Some(journal) = &mut self.journal else { return };
        if journal.copy_went_on(is_well) == CopyStep::Flush {
            self.issue(DeviceIo::Flush { target: Target::Cache }, Purpose::Copy);
        }
    }
}
