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

/// Adjacent pages that are to be written in one I/O.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) pages: Range<u32>,
    pub(super) durable: bool,
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    wanted: BTreeMap<u32, Wanted>,
    under_way: BTreeMap<u32, Vec<Waiter>>,
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
            under_way.insert(page, std::mem::take(&mut wanted.waiters));
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
            self.under_way.entry(*page).or_default().extend(wanted.waiters);
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
            waiters.extend(self.under_way.remove(&page).expect("it was on its way"));
            if is_well {
                self.doubtful.remove(&page);
            } else {
                self.doubtful.insert(page);
            }
        }
        waiters
    }
}
