//! Carries out changes: first the data, then the state of the lines, then the pages of the table that record it.
//!
//! *Always:* the table on the device calls a sector dirty only if the line has all of its data. A line that the table
//! may call dirty gets no new owner before the table durably says otherwise.

use super::OcfLayout;
use super::change::{ChangeKind, ChangeStage, LineChange, LinePiece};
use super::lists::Kind;
use super::pages::Waiter;
use crate::layout::RequestId;

impl OcfLayout {
    /// Begins a change of these lines, which it uses until it ends. The caller issues its I/Os.
    pub(super) fn begin_change(
        &mut self,
        request: RequestId,
        kind: ChangeKind,
        pieces: Vec<LinePiece>,
        ios: u32,
    ) -> usize {
        pieces.iter().for_each(|piece| self.lines.add_user(piece.line));
        self.requests.add_part(request);
        self.ios.note_change();
        self.changes.insert(LineChange {
            request,
            kind,
            pieces,
            outstanding: ios,
            has_failed: false,
            stage: ChangeStage::Data,
        })
    }

    /// An I/O of a change has ended, or a page that it waited for was written.
    pub(super) fn change_went_on(&mut self, number: usize, is_well: bool) {
        let change = &mut self.changes[number];
        change.outstanding -= 1;
        change.has_failed |= !is_well;
        self.ios.note_change();
        if change.outstanding == 0 {
            match change.stage {
                ChangeStage::Data => self.data_arrived(number),
                ChangeStage::Pages => self.end_change(number),
            }
        }
    }

    /// The data of a change has been written, or its writes have failed.
    pub(super) fn data_arrived(&mut self, number: usize) {
        let change = &mut self.changes[number];
        change.stage = ChangeStage::Pages;
        let (kind, has_failed) = (change.kind, change.has_failed);
        let pieces = std::mem::take(&mut change.pieces);
        let mut pages: Vec<u32> = Vec::new();
        for piece in &pieces {
            if self.apply(kind, *piece, has_failed) {
                pages.push(self.lines.geometry().unit_of(piece.line));
            }
        }
        self.changes[number].pieces = pieces;
        if kind != ChangeKind::Clean {
            pages.extend(self.writer.doubtful());
        }
        pages.sort_unstable();
        pages.dedup();
        if pages.is_empty() {
            return self.end_change(number);
        }
        self.changes[number].outstanding = u32::try_from(pages.len()).expect("pages of a table");
        for page in pages {
            self.writer.want(page, Some(Waiter::Change(number)), true);
        }
    }

    /// Updates the state of a line. Returns whether its page must record it.
    fn apply(
        &mut self,
        kind: ChangeKind,
        LinePiece { line, mask }: LinePiece,
        has_failed: bool,
    ) -> bool {
        let (valid, dirty) = (self.lines.table().valid(line), self.lines.table().dirty(line));
        if has_failed {
            // Keep dirty sectors: only the cache has their data, whichever version it is. Of the others the core has a
            // definite version.
            self.lines.set_sectors(line, valid & !(mask & !dirty), dirty);
            return false;
        }
        match kind {
            ChangeKind::Dirty => {
                self.lines.set_sectors(line, valid | mask, dirty | mask);
                self.lines.put(Kind::Dirty, line);
                mask & !dirty != 0
            }
            ChangeKind::Clean => {
                self.lines.set_sectors(line, valid | mask, dirty);
                let kind = self.lines.kind(line).unwrap_or(Kind::Clean);
                self.lines.put(kind, line);
                false
            }
            ChangeKind::Void => {
                self.lines.set_sectors(line, valid & !mask, dirty & !mask);
                if dirty & !mask == 0 && self.lines.kind(line) == Some(Kind::Dirty) {
                    self.lines.put(Kind::Clean, line);
                }
                mask & dirty != 0
            }
        }
    }

    fn end_change(&mut self, number: usize) {
        let LineChange { request, pieces, has_failed, .. } = self.changes.remove(number);
        pieces.iter().for_each(|piece| self.release(piece.line));
        self.requests.end_part(request, !has_failed);
    }

    /// Tells waiters how the write of their pages has ended.
    pub(super) fn hear_all(&mut self, waiters: Vec<Waiter>, is_well: bool) {
        self.ios.note_change();
        for waiter in waiters {
            self.hears(waiter, is_well);
        }
    }

    /// Ends the use of a line.
    pub(super) fn release(&mut self, line: u32) {
        self.lines.release(line);
        self.ios.note_change();
    }

    fn hears(&mut self, waiter: Waiter, is_well: bool) {
        match waiter {
            Waiter::Change(number) => self.change_went_on(number, is_well),
            Waiter::Cleaning(number) => self.cleaning_went_on(number, is_well),
            Waiter::Flush(request) => self.requests.end_part(request, is_well),
        }
    }
}
