//! An orderly stop: writes the whole table to the device, including clean lines, so that a start can use it.
//!
//! *Always:* the label says that the table is complete only when the cores durably have what was written around, and
//! the cache device durably has all data and the whole table. A start clears this before it writes anything else.

use super::state::{OcfLayout, Purpose};
use crate::layout::{Left, RequestId};

/// Pages of one write.
const RUN_PAGES: u32 = 256;
/// Most writes in flight.
const WRITES_MAX: u32 = 4;

/// The progress of writing the table.
#[derive(Debug)]
pub(super) struct Stopping {
    request: RequestId,
    next_page: u32,
    outstanding: u32,
    has_failed: bool,
}

impl OcfLayout {
    /// Flushes all devices and concurrently writes the table. The label is written when all of this has ended.
    pub(super) fn prepare_stop(&mut self, request: RequestId) {
        self.flush(request);
        self.is_prepared = false;
        self.requests.add_part(request);
        let (next_page, outstanding, has_failed) = (0, 0, false);
        self.stopping = Some(Stopping { request, next_page, outstanding, has_failed });
        self.write_table();
    }

    /// Writes the next pages, or ends.
    fn write_table(&mut self) {
        let Some(mut stopping) = self.stopping.take() else { return };
        let pages = self.geometry.pages();
        while stopping.outstanding < WRITES_MAX && stopping.next_page < pages {
            let run = stopping.next_page..(stopping.next_page + RUN_PAGES).min(pages);
            stopping.next_page = run.end;
            stopping.outstanding += 1;
            let io = self.page_write(run, true);
            self.issue(io, Purpose::Stop);
        }
        if stopping.outstanding > 0 {
            self.stopping = Some(stopping);
            return;
        }
        self.is_prepared = !stopping.has_failed;
        self.requests.end_part(stopping.request, !stopping.has_failed);
    }

    pub(super) fn stopping_went_on(&mut self, is_well: bool) {
        if let Some(stopping) = &mut self.stopping {
            stopping.outstanding -= 1;
            stopping.has_failed |= !is_well;
        }
        self.has_changed = true;
        self.write_table();
    }

    /// What the label says of an orderly stop; `None` if it can say nothing.
    pub(super) fn how_left(&self) -> Option<Left> {
        let is_whole = self.is_prepared && self.pages.doubtful().is_empty();
        let last = self.journal.as_ref().map_or(0, super::journal::Journal::last_sequence);
        is_whole.then_some(Left { last, lowest: 1, checksum: 0 })
    }
}
