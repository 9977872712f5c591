//! Carries out changes: first the data, then the state of the lines, then the pages of the table that record it.
//!
//! *Always:* the table on the device calls a sector dirty only if the line has all of its data. A line that the table
//! may call dirty gets no new owner before the table durably says otherwise.

use super::change::{Change, ChangeKind, Piece, Stage};
use super::lists::Kind;
use super::pages::Waiter;
use super::state::{OcfLayout, Purpose};
use crate::layout::{Class, DeviceIo, RequestId, Target};

impl OcfLayout {
    /// Begins a change of these lines, which it uses until it ends. The caller issues its I/Os.
    pub(super) fn begin_change(
        &mut self,
        request: RequestId,
        kind: ChangeKind,
        pieces: Vec<Piece>,
        ios: u32,
    ) -> usize {
        pieces.iter().for_each(|piece| self.locks.add_user(piece.line));
        self.requests.add_part(request);
        self.has_changed = true;
        self.changes.insert(Change {
            request,
            kind,
            pieces,
            outstanding: ios,
            has_failed: false,
            stage: Stage::Data,
        })
    }

    /// An I/O of a change has ended, or a page that it waited for was written.
    pub(super) fn change_went_on(&mut self, number: usize, is_well: bool) {
        let change = &mut self.changes[number];
        change.outstanding -= 1;
        change.has_failed |= !is_well;
        self.has_changed = true;
        if change.outstanding == 0 {
            match change.stage {
                Stage::Data => self.data_arrived(number),
                Stage::Pages => self.end_change(number),
            }
        }
    }

    /// The data of a change has been written, or its writes have failed.
    pub(super) fn data_arrived(&mut self, number: usize) {
        let change = &mut self.changes[number];
        change.stage = Stage::Pages;
        let (kind, has_failed) = (change.kind, change.has_failed);
        let pieces = std::mem::take(&mut change.pieces);
        let mut pages: Vec<u32> = Vec::new();
        for piece in &pieces {
            if self.apply(kind, *piece, has_failed) {
                pages.push(self.geometry.unit_of(piece.line));
            }
        }
        self.changes[number].pieces = pieces;
        if kind != ChangeKind::Clean {
            pages.extend(self.pages.doubtful());
        }
        pages.sort_unstable();
        pages.dedup();
        if pages.is_empty() {
            return self.end_change(number);
        }
        self.changes[number].outstanding = u32::try_from(pages.len()).expect("pages of a table");
        for page in pages {
            self.pages.want(page, Some(Waiter::Change(number)), true);
        }
    }

    /// Updates the state of a line. Returns whether its page must record it.
    fn apply(&mut self, kind: ChangeKind, Piece { line, mask }: Piece, has_failed: bool) -> bool {
        let (valid, dirty) = (self.lines.table.valid(line), self.lines.table.dirty(line));
        if has_failed {
            // Keep dirty sectors: only the cache has their data, whichever version it is. Of the others the core has a
            // definite version.
            self.set_sectors(line, valid & !(mask & !dirty), dirty);
            return false;
        }
        match kind {
            ChangeKind::Dirty => {
                self.set_sectors(line, valid | mask, dirty | mask);
                self.put(Kind::Dirty, line);
                mask & !dirty != 0
            }
            ChangeKind::Clean => {
                self.set_sectors(line, valid | mask, dirty);
                let kind = self.lists.kind(line).unwrap_or(Kind::Clean);
                self.put(kind, line);
                false
            }
            ChangeKind::Void => {
                self.set_sectors(line, valid & !mask, dirty & !mask);
                if dirty & !mask == 0 && self.lists.kind(line) == Some(Kind::Dirty) {
                    self.put(Kind::Clean, line);
                }
                mask & dirty != 0
            }
        }
    }

    fn end_change(&mut self, number: usize) {
        let Change { request, pieces, has_failed, .. } = self.changes.remove(number);
        pieces.iter().for_each(|piece| self.release(piece.line));
        self.requests.end_part(request, !has_failed);
    }

    /// Writes the wanted pages that are not in flight, or entries of the log instead.
    pub(super) fn write_pages(&mut self) {
        if self.journal.is_some() {
            return self.write_journal();
        }
        for run in self.pages.take_due() {
            let io = self.page_write(run.pages.clone(), run.durable);
            self.issue(io, Purpose::Pages { pages: run.pages });
        }
    }

    /// A write of these pages of the table, in their current state.
    pub(super) fn page_write(&mut self, pages: std::ops::Range<u32>, durable: bool) -> DeviceIo {
        let offset = self.geometry.page_offset(pages.start);
        let data = self.lines.table.sealed(pages);
        DeviceIo::Write {
            target: Target::Cache,
            offset,
            beside: None,
            metadata_bytes: data.len(),
            parts: vec![data],
            class: Class::Metadata,
            durable,
        }
    }

    pub(super) fn pages_written(&mut self, pages: std::ops::Range<u32>, is_well: bool) {
        self.has_changed = true;
        for waiter in self.pages.ended(pages, is_well) {
            self.hears(waiter, is_well);
        }
    }

    pub(super) fn hears(&mut self, waiter: Waiter, is_well: bool) {
        match waiter {
            Waiter::Change(number) => self.change_went_on(number, is_well),
            Waiter::Cleaning(number) => self.cleaning_went_on(number, is_well),
            Waiter::Flush(request) => self.requests.end_part(request, is_well),
        }
    }
}
