//! Pages of the collision table to be written; with a log, lines instead. Writes of the same page take turns: waiters
//! that arrive while the page is in flight share the next write of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::RequestId;

/// Most pages of one I/O.
const RUN_PAGES: u32 = 256;

/// A waiter for a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    /// The change of this number.
    Change(usize),
    /// The cleaning of this number.
    Cleaning(usize),
    /// A client flush.
    Flush(RequestId),
}

#[derive(Debug, Default)]
struct PendingPage {
    waiters: Vec<Waiter>,
    /// Whether the device is flushed after the write. A cleaning flushes the device itself.
    durable: bool,
}

/// A page in flight.
#[derive(Debug, Default)]
struct PageUnderWay {
    waiters: Vec<Waiter>,
    /// The write began before the page became doubtful, so its success does not settle the doubt.
    is_stale: bool,
}

/// Adjacent pages that are to be written in one I/O.
#[derive(Debug)]
pub(super) struct PageRun {
    pub(super) pages: Range<u32>,
    pub(super) durable: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    wanted: BTreeMap<u32, PendingPage>,
    under_way: BTreeMap<u32, PageUnderWay>,
    /// Pages whose content on the device is unknown because a write of them has failed. They may call lines dirty that
    /// have changed owner since. So each change writes them again before it ends.
    doubtful: BTreeSet<u32>,
}

impl Pages {
    pub(super) fn want(&mut self, page: u32, waiter: Option<Waiter>, durable: bool) {
        let wanted = self.wanted.entry(page).or_default();
        wanted.waiters.extend(waiter);
        wanted.durable |= durable;
    }

    pub(super) fn doubt(&mut self, page: u32) {
        self.doubtful.insert(page);
        if let Some(under_way) = self.under_way.get_mut(&page) {
            under_way.is_stale = true;
        }
    }

    pub(super) fn doubtful(&self) -> &BTreeSet<u32> {
        &self.doubtful
    }

    /// Takes the pages that may be written now.
    pub(super) fn take_due(&mut self) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        let under_way = &mut self.under_way;
        self.wanted.retain(|&page, wanted| {
            if under_way.contains_key(&page) {
                return true;
            }
            let waiters = std::mem::take(&mut wanted.waiters);
            under_way.insert(page, PageUnderWay { waiters, is_stale: false });
            match runs.last_mut() {
                Some(run) if run.pages.end == page && run.pages.len() < RUN_PAGES as usize => {
                    run.pages.end += 1;
                    run.durable |= wanted.durable;
                }
                _ => runs.push(PageRun { pages: page..page + 1, durable: wanted.durable }),
            }
            false
        });
        runs
    }

    /// Takes the pages that may be written now, at most `most`, adjacent or not.
    pub(super) fn take_some(&mut self, most: usize) -> Vec<u32> {
        let taken: Vec<u32> = self.wanted.keys().copied().take(most).collect();
        for page in &taken {
            let wanted = self.wanted.remove(page).expect("it was found");
            self.under_way.entry(*page).or_default().waiters.extend(wanted.waiters);
        }
        taken
    }

    /// Whether pages are wanted.
    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The writes of these pages have ended. Returns the waiters, once for each page.
    pub(super) fn ended(&mut self, pages: Range<u32>, is_well: bool) -> Vec<Waiter> {
        let mut waiters = Vec::new();
        for page in pages {
            let ended = self.under_way.remove(&page).expect("it was on its way");
            waiters.extend(ended.waiters);
            if !is_well {
                self.doubtful.insert(page);
            } else if !ended.is_stale {
                self.doubtful.remove(&page);
            }
        }
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cleaning fails while another write of a page that calls its lines clean is in flight.
    #[test]
    fn a_write_that_set_out_before_a_doubt_does_not_settle_it() {
        let mut pages = Pages::default();
        let writes_once = |pages: &mut Pages| {
            pages.want(7, None, true);
            assert_eq!(pages.take_due().len(), 1);
        };
        writes_once(&mut pages);
        pages.doubt(7);
        pages.ended(7..8, true);
        assert!(pages.doubtful().contains(&7), "what it says was known before");
        writes_once(&mut pages);
        pages.ended(7..8, true);
        assert!(pages.doubtful().is_empty(), "this one set out behind the doubt");
    }
}
