//! Pages of the collision table that have to be written; with a log, lines in their place. Flushes of one page take
//! turns: whoever asks while it is on its way has it written once more, together with all who asked meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::RequestId;

/// Pages of one I/O, at most.
const RUN_PAGES: u32 = 256;

/// Who waits for a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    /// A change of this number.
    Change(usize),
    /// A cleaning of this number.
    Cleaning(usize),
    /// A flush of a user.
    Flush(RequestId),
}

#[derive(Debug, Default)]
struct Wanted {
    waiters: Vec<Waiter>,
    /// A cleaning flushes the device itself.
    durable: bool,
}

/// A page that is on its way.
#[derive(Debug, Default)]
struct UnderWay {
    waiters: Vec<Waiter>,
    /// It has set out before the page became doubtful, so its end does not settle the doubt.
    is_stale: bool,
}

/// Adjacent pages that are to be written in one I/O.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) pages: Range<u32>,
    pub(super) durable: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    wanted: BTreeMap<u32, Wanted>,
    under_way: BTreeMap<u32, UnderWay>,
    /// What they say on the device, nobody knows: a write of them has failed. As long as there are any, nothing ends
    /// that changes anything, for they may say of lines that have changed hands that they are dirty.
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

    /// What may be written now.
    pub(super) fn take_due(&mut self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let under_way = &mut self.under_way;
        self.wanted.retain(|&page, wanted| {
            if under_way.contains_key(&page) {
                return true;
            }
            let waiters = std::mem::take(&mut wanted.waiters);
            under_way.insert(page, UnderWay { waiters, is_stale: false });
            match runs.last_mut() {
                Some(run) if run.pages.end == page && run.pages.len() < RUN_PAGES as usize => {
                    run.pages.end += 1;
                    run.durable |= wanted.durable;
                }
                _ => runs.push(Run { pages: page..page + 1, durable: wanted.durable }),
            }
            false
        });
        runs
    }

    /// What may be written now, at most so many: what is adjacent is no matter.
    pub(super) fn take_some(&mut self, most: usize) -> Vec<u32> {
        let taken: Vec<u32> = self.wanted.keys().copied().take(most).collect();
        for page in &taken {
            let wanted = self.wanted.remove(page).expect("it was found");
            self.under_way.entry(*page).or_default().waiters.extend(wanted.waiters);
        }
        taken
    }

    /// Whether somebody waits.
    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Pages were written, well or not. Who waits for them, once for each.
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

    /// A cleaning fails while a page that calls its lines clean is on its way for something else.
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
