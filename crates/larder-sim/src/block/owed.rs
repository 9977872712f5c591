//! Which sectors may be dirty at a start: only those written in a mode that leaves data dirty, and not flushed since.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::history::Moment;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// By sector: when its last such change ended.
    ended: HashMap<usize, Moment>,
    /// Such changes in flight, by when they were sent.
    under_way: BTreeMap<Moment, Range<usize>>,
    /// Whether a change may leave dirty data now.
    may_be_dirty: bool,
}

impl Owed {
    /// Sets whether the cache has, or may have, a mode that leaves data dirty.
    pub(super) fn set_may_be_dirty(&mut self, may_be: bool) {
        self.may_be_dirty = may_be;
    }

    /// Records a change that is about to be sent.
    pub(super) fn sent(&mut self, sectors: Range<usize>, at: Moment) {
        if self.may_be_dirty {
            self.under_way.insert(at, sectors);
        }
    }

    /// Records the reply to the change that was sent at `sent`.
    pub(super) fn answered(&mut self, sent: Moment, now: Moment) {
        if let Some(sectors) = self.under_way.remove(&sent) {
            self.ended.extend(sectors.map(|sector| (sector, now)));
        }
    }

    /// Records that the server is gone: each change in flight may have happened.
    pub(super) fn server_gone(&mut self, now: Moment) {
        for sectors in std::mem::take(&mut self.under_way).into_values() {
            self.ended.extend(sectors.map(|sector| (sector, now)));
        }
    }

    /// Records that the cores have all changes that had ended at `asked`.
    pub(super) fn flushed(&mut self, sectors: &Range<usize>, asked: Moment) {
        self.ended.retain(|sector, at| !sectors.contains(sector) || *at > asked);
    }

    /// Records that the cache has nothing of these sectors any more.
    pub(super) fn left(&mut self, sectors: &Range<usize>) {
        self.under_way.retain(|_, change| !sectors.contains(&change.start));
        self.flushed(sectors, Moment::MAX);
    }

    /// Whether the sector may be dirty at a start.
    pub(super) fn has(&self, sector: usize) -> bool {
        self.ended.contains_key(&sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_is_what_was_written_so_and_flushed_by_nothing_that_came_later() {
        let mut owed = Owed::default();
        owed.sent(0..2, 1);
        owed.answered(1, 2);
        assert!(!owed.has(0), "in a mode that leaves nothing dirty");
        owed.set_may_be_dirty(true);
        owed.sent(0..2, 3);
        owed.sent(1..3, 4);
        owed.answered(3, 5);
        owed.flushed(&(0..8), 5);
        assert!(!owed.has(0) && !owed.has(1));
        owed.answered(4, 6);
        owed.flushed(&(0..8), 5);
        assert!(owed.has(1) && owed.has(2), "it was under way when the flush came");
        owed.flushed(&(0..2), 6);
        assert!(!owed.has(1) && owed.has(2), "of one core");
        owed.sent(5..6, 7);
        owed.sent(6..7, 8);
        owed.left(&(6..8));
        owed.server_gone(9);
        assert!(owed.has(5) && !owed.has(6));
    }
}
