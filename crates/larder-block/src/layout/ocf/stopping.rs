//! An orderly stop: writes the whole table to the device, including clean lines, so that a start can use it.
//!
//! *Always:* the label says that the table is complete only when the cores durably have what was written around, and
//! the cache device durably has all data and the whole table. A start clears this before it writes anything else.

use super::state::{OcfLayout, Purpose};
use super::stop::Stopping;
use crate::layout::{Left, RequestId};

impl OcfLayout {
    /// Flushes all devices and concurrently writes the table. The label is written when all of this has ended.
    pub(super) fn prepare_stop(&mut self, request: RequestId) {
        self.flush(request);
        self.is_prepared = false;
        self.requests.add_part(request);
        self.stopping = Some(Stopping::new(request));
        self.write_table();
    }

    /// Writes the next pages, or ends.
    fn write_table(&mut self) {
        let Some(mut stopping) = self.stopping.take() else { return };
        let pages = self.geometry.pages();
        while let Some(run) = stopping.next_run(pages) {
            let io = self.page_write(run, true);
            self.issue(io, Purpose::Stop);
        }
        match stopping.ended() {
            None => self.stopping = Some(stopping),
            Some(is_well) => {
                self.is_prepared = is_well;
                self.requests.end_part(stopping.request(), is_well);
            }
        }
    }

    pub(super) fn stopping_went_on(&mut self, is_well: bool) {
        if let Some(stopping) = &mut self.stopping {
            stopping.write_ended(is_well);
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
