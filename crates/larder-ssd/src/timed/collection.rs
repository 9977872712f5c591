//! Garbage collection, paced by the writes of the host.
//!
//! The firmware collects a whole unit at a time, in no time. A real drive spreads this over the host's writes: the data
//! to move for a free unit is moved while the host fills a unit. So each write is slowed down a little and none waits
//! for a whole collection.

use std::collections::VecDeque;

use crate::managed::MediaOp;
use crate::nand::DieIndex;

/// Operations of garbage collection that are still to be done on the media.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    ops: VecDeque<MediaOp>,
    /// Operations per page of the host.
    per_page: usize,
}

impl Backlog {
    /// Adds operations, to be done within the next `host_pages` pages of the host.
    pub(super) fn add(&mut self, ops: impl IntoIterator<Item = MediaOp>, host_pages: u32) {
        let before = self.ops.len();
        self.ops.extend(ops);
        if self.ops.len() > before {
            self.per_page = self.ops.len().div_ceil(host_pages.max(1) as usize);
        }
    }

    /// The operations due with the next page of the host.
    pub(super) fn due(&mut self) -> impl Iterator<Item = MediaOp> + '_ {
        let due = self.per_page.min(self.ops.len());
        self.ops.drain(..due)
    }
}

/// Erase progress by die, for units that are slices of blocks.
#[derive(Debug)]
pub(super) struct Slices {
    /// Stripes erased since the last whole block.
    stripes: Vec<f64>,
    block_stripes: f64,
}

impl Slices {
    /// Staggered, so that blocks of different dies complete one after the other.
    pub(super) fn new(dies: u32, block_stripes: u32) -> Self {
        let block_stripes = f64::from(block_stripes);
        let begun = |die: u32| block_stripes * f64::from(die) / f64::from(dies);
        Self { stripes: (0..dies).map(begun).collect(), block_stripes }
    }

    /// Erases `stripes` stripes on each of `dies`. Returns the dies that erase blocks for it, with the number of
    /// blocks.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // blocks of a unit
    pub(super) fn erase<'a>(
        &'a mut self,
        dies: &'a [DieIndex],
        stripes: f64,
    ) -> impl Iterator<Item = (DieIndex, u64)> + 'a {
        let block_stripes = self.block_stripes;
        dies.iter().filter_map(move |&die| {
            let erased = &mut self.stripes[die.at()];
            *erased += stripes;
            let blocks = (*erased / block_stripes).floor();
            *erased -= blocks * block_stripes;
            (blocks > 0.0).then_some((die, blocks as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIES: [DieIndex; 2] = [DieIndex(0), DieIndex(1)];

    #[test]
    fn what_is_to_be_done_is_spread_over_the_pages_of_the_host() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.due().count(), 0);
        backlog.add((0..100).map(|ppn| MediaOp::Read { ppn }), 40);
        let done: Vec<usize> = (0..40).map(|_| backlog.due().count()).collect();
        assert_eq!((done[0], done[33], done.iter().sum::<usize>()), (3, 1, 100));
        assert_eq!(backlog.due().count(), 0);
    }

    #[test]
    fn a_block_is_erased_when_all_of_its_slices_were() {
        let mut slices = Slices::new(2, 8);
        let erased: Vec<Vec<_>> = (0..9).map(|_| slices.erase(&DIES, 2.0).collect()).collect();
        let [_, second, _, fourth, ..] = &erased[..] else { panic!("nine") };
        assert_eq!(
            (second.as_slice(), fourth.as_slice()),
            (&[(DIES[1], 1)][..], &[(DIES[0], 1)][..])
        );
        assert_eq!(erased.iter().flatten().count(), 4, "two blocks a die in 18 stripes");
    }

    #[test]
    fn a_unit_of_whole_blocks_erases_each_time() {
        let mut slices = Slices::new(2, 4);
        assert!((0..5).all(|_| slices.erase(&DIES, 4.0).count() == 2));
        assert_eq!(slices.erase(&DIES, 12.0).collect::<Vec<_>>(), [(DIES[0], 3), (DIES[1], 3)]);
        assert_eq!(slices.erase(&DIES[1..], 4.0).collect::<Vec<_>>(), [(DIES[1], 1)]);
    }
}
