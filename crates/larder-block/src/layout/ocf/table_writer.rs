//! Writes the state of lines to the device: to pages of the table, or first to the log and later to the pages; and the
//! whole table before a stop.
//!
//! *Always:* the entries of a half of the log are in the table, durably, before the half is overwritten. Until then the
//! state of the table does not matter, because a start applies the entries to it.

use std::collections::BTreeSet;
use std::ops::Range;

use super::cache_lines::CacheLines;
use super::journal::{CopyStep, Journal};
use super::pages::{Pages, Waiter};
use super::purpose::OcfPurpose;
use super::stop::Stopping;
use crate::layout::io_queue::IoQueue;
use crate::layout::{DeviceIo, PlacementClass, RequestId, Target};

/// Most blocks of one write of entries.
const WRITE_BLOCKS: u32 = 64;
/// Most pages of one write to the table.
const RUN_PAGES: u32 = 256;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct TableWriter {
    pages: Pages,
    journal: Option<Journal>,
    /// The write of the table before a stop.
    stopping: Option<Stopping>,
}

impl TableWriter {
    /// Writes to a log first, if there is one.
    pub(super) fn new(journal: Option<Journal>) -> Self {
        Self { pages: Pages::default(), journal, stopping: None }
    }

    /// A page of the table, or with a log a line, is to be written. `durable`: the device is flushed after that.
    pub(super) fn want(&mut self, page: u32, waiter: Option<Waiter>, durable: bool) {
        self.pages.want(page, waiter, durable);
    }

    /// The device may have an old state of this page.
    pub(super) fn doubt(&mut self, page: u32) {
        self.pages.doubt(page);
    }

    /// The pages of which the device may have an old state.
    pub(super) fn doubtful(&self) -> &BTreeSet<u32> {
        self.pages.doubtful()
    }

    /// Writes again what the device has refused.
    pub(super) fn retry(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_stuck = false;
        }
        for page in self.pages.doubtful().clone() {
            self.pages.want(page, None, true);
        }
    }

    /// The sequence of the last block of the log; 0 without a log.
    pub(super) fn last_sequence(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::last_sequence)
    }

    /// Writes the wanted pages that are not in flight, or entries of the log instead. Returns waiters whose writes are
    /// refused: the log is full, and the device has refused the writes that would make room.
    pub(super) fn write_due(
        &mut self,
        lines: &mut CacheLines,
        ios: &mut IoQueue<OcfPurpose>,
    ) -> Vec<Waiter> {
        if self.journal.is_some() {
            return self.write_journal(lines, ios);
        }
        for run in self.pages.take_due() {
            let io = page_write(lines, run.pages.clone(), run.durable);
            ios.issue(io, OcfPurpose::Pages { pages: run.pages });
        }
        Vec::new()
    }

    /// Writes the wanted entries to the log, if no write to it is in flight and it has room.
    fn write_journal(
        &mut self,
        lines: &mut CacheLines,
        ios: &mut IoQueue<OcfPurpose>,
    ) -> Vec<Waiter> {
        let Some(journal) = &mut self.journal else { return Vec::new() };
        if !self.pages.has_wanted() || journal.is_writing {
            return Vec::new();
        }
        if !journal.may_write() {
            let half = journal.half();
            copy(lines, journal.begin_copying(half, RUN_PAGES), ios);
            if !journal.is_stuck {
                return Vec::new();
            }
            let refused = self.pages.take_some(usize::MAX);
            return self.lines_written(&refused, false);
        }
        let written = self.pages.take_some(journal.room(WRITE_BLOCKS));
        let (half, (first, data)) = (journal.half(), journal.encode(lines.table(), &written));
        journal.is_writing = true;
        for line in &written {
            journal.is_of(first, lines.geometry().page_of(*line));
        }
        // Pages of the previous half are written to the table while this half is filled.
        copy(lines, journal.begin_copying(1 - half, RUN_PAGES), ios);
        let io = DeviceIo::Write {
            target: Target::Cache,
            offset: lines.geometry().journal_offset(first),
            beside: None,
            metadata_bytes: data.len(),
            parts: vec![data],
            class: PlacementClass::Metadata,
            durable: true,
        };
        ios.issue(io, OcfPurpose::Journal { lines: written });
        Vec::new()
    }

    /// A write of pages has ended. Returns its waiters.
    pub(super) fn pages_written(&mut self, pages: Range<u32>, is_well: bool) -> Vec<Waiter> {
        self.pages.ended(pages, is_well)
    }

    /// A write of entries of the log has ended. Returns its waiters.
    pub(super) fn journal_written(&mut self, lines: &[u32], is_well: bool) -> Vec<Waiter> {
        if let Some(journal) = &mut self.journal {
            journal.is_writing = false;
        }
        self.lines_written(lines, is_well)
    }

    fn lines_written(&mut self, lines: &[u32], is_well: bool) -> Vec<Waiter> {
        let ended = |line: &u32| self.pages.ended(*line..line + 1, is_well);
        lines.iter().flat_map(ended).collect()
    }

    /// An I/O of a copy from the log to the table has ended.
    pub(super) fn copy_went_on(&mut self, is_well: bool, ios: &mut IoQueue<OcfPurpose>) {
        let Some(journal) = &mut self.journal else { return };
        if journal.copy_went_on(is_well) == CopyStep::Flush {
            ios.issue(DeviceIo::Flush { target: Target::Cache }, OcfPurpose::Copy);
        }
    }

    /// Begins to write the whole table.
    pub(super) fn begin_stopping(
        &mut self,
        request: RequestId,
        lines: &mut CacheLines,
        ios: &mut IoQueue<OcfPurpose>,
    ) -> Option<(RequestId, bool)> {
        self.stopping = Some(Stopping::new(request));
        self.write_table(lines, ios)
    }

    /// A write of the whole table has ended. Writes the next pages. At the end, returns the request and whether all
    /// pages were written.
    pub(super) fn stopping_went_on(
        &mut self,
        is_well: bool,
        lines: &mut CacheLines,
        ios: &mut IoQueue<OcfPurpose>,
    ) -> Option<(RequestId, bool)> {
        if let Some(stopping) = &mut self.stopping {
            stopping.write_ended(is_well);
        }
        self.write_table(lines, ios)
    }

    fn write_table(
        &mut self,
        lines: &mut CacheLines,
        ios: &mut IoQueue<OcfPurpose>,
    ) -> Option<(RequestId, bool)> {
        let stopping = self.stopping.as_mut()?;
        let pages = lines.geometry().pages();
        while let Some(run) = stopping.next_run(pages) {
            ios.issue(page_write(lines, run, true), OcfPurpose::Stop);
        }
        let is_well = stopping.ended()?;
        self.stopping.take().map(|stopping| (stopping.request(), is_well))
    }
}

fn copy(lines: &mut CacheLines, runs: Vec<Range<u32>>, ios: &mut IoQueue<OcfPurpose>) {
    for pages in runs {
        ios.issue(page_write(lines, pages, false), OcfPurpose::Copy);
    }
}

/// A write of these pages of the table, in their current state.
fn page_write(lines: &mut CacheLines, pages: Range<u32>, durable: bool) -> DeviceIo {
    let offset = lines.geometry().page_offset(pages.start);
    let data = lines.sealed(pages);
    DeviceIo::Write {
        target: Target::Cache,
        offset,
        beside: None,
        metadata_bytes: data.len(),
        parts: vec![data],
        class: PlacementClass::Metadata,
        durable,
    }
}
