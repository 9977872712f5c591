//! The progress of writing the table before a stop.

use std::ops::Range;

use crate::layout::RequestId;

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

impl Stopping {
    pub(super) fn new(request: RequestId) -> Self {
        Self { request, next_page: 0, outstanding: 0, has_failed: false }
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// The pages of the next write of a table of this number of pages, if it may begin now.
    pub(super) fn next_run(&mut self, pages: u32) -> Option<Range<u32>> {
        if self.outstanding >= WRITES_MAX || self.next_page >= pages {
            return None;
        }
        let run = self.next_page..(self.next_page + RUN_PAGES).min(pages);
        self.next_page = run.end;
        self.outstanding += 1;
        Some(run)
    }

    pub(super) fn write_ended(&mut self, is_well: bool) {
        self.outstanding -= 1;
        self.has_failed |= !is_well;
    }

    /// Whether all writes have succeeded; `None` while some are in flight.
    pub(super) fn ended(&self) -> Option<bool> {
        (self.outstanding == 0).then_some(!self.has_failed)
    }
}
