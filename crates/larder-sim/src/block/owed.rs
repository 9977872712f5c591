//! What may be dirty of each sector after a start: only what was written in a mode that leaves data dirty, and was
//! covered by no flush since.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::history::Moment;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// By sector: when the last such change of it had ended.
    ended: HashMap<usize, Moment>,
    /// Such changes under way, by when they were sent.
    under_way: BTreeMap<Moment, Range<usize>>,
    /// Whether a change may leave something dirty now.
    may_be_dirty: bool,
}

impl Owed {
    /// The cache has a mode that leaves data dirty, or may have one.
    pub(super) fn set_may_be_dirty(&mut self, may_be: bool) {
        self.may_be_dirty = may_be;
    }

    /// A change is about to be sent.
    pub(super) fn sent(&mut self, sectors: Range<usize>, at: Moment) {
        if self.may_be_dirty {
            self.under_way.insert(at, sectors);
        }
    }

    /// The change that was sent at `sent` is answered.
    pub(super) fn answered(&mut self, sent: Moment, now: Moment) {
        if let Some(sectors) = self.under_way.remove(&sent) {
            self.ended.extend(sectors.map(|sector| (sector, now)));
        }
    }

    /// Each change under way was made, or was not.
    pub(super) fn server_gone(&mut self, now: Moment) {
        for sectors in std::mem::take(&mut self.under_way).into_values() {
            self.ended.extend(sectors.map(|sector| (sector, now)));
        }
    }

    /// The cores have what had ended at `asked`.
    pub(super) fn flushed(&mut self, sectors: &Range<usize>, asked: Moment) {
        self.ended.retain(|sector, at| !sectors.contains(sector) || *at > asked);
    }

    /// The cache has nothing of these any more.
    pub(super) fn left(&mut self, sectors: &Range<usize>) {
        self.under_way.retain(|_, change| !sectors.contains(&change.start));
        self.flushed(sectors, Moment::MAX);
    }

    /// Whether a start may find it dirty.
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
