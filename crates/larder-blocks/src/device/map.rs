//! The place of each page: four bytes per page of the device, and four per page of the blocks.
//!
//! 1. A page is in at most one place. It keeps its place until another one is durable.
//! 2. The live pages of a block are those whose place is in it: `data` of them have content there, and for the others
//!    the block records that they are zeros. That record must be kept like content, or old content would come back.
//! 3. A block without live pages can be freed.

use std::collections::BTreeSet;

use super::shape::{BATCH_PAGES, Shape};
use crate::info::BlockId;

const UNWRITTEN: u32 = u32::MAX;
const ZEROS: u32 = 1 << 31;
const NOBODY: u32 = u32::MAX;

/// The content of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageContent {
    /// Zeros.
    Zeros,
    /// Page `at` of this block.
    At(BlockId, u32),
}

/// The blocks of pages, each in a frame, and their live pages.
#[derive(Debug)]
pub(super) struct PageMap {
    block_pages: u32,
    places: Vec<u32>,
    frames: Vec<Option<Frame>>,
}

#[derive(Debug)]
struct Frame {
    block: BlockId,
    /// The page of the device that each page of the block holds.
    owners: Vec<u32>,
    /// Live pages with content.
    data: u32,
    /// Pages that this block records as zeros.
    zeros: BTreeSet<u32>,
    /// Its live pages could not be read, so it is not cleaned.
    unreadable: bool,
}

/// A block to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) frame: u32,
    pub(super) block: BlockId,
    /// Pages that the live pages take elsewhere, including headers.
    pub(super) cost: u32,
}

/// The live pages of a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// Page of the block, and page of the device.
    pub(super) data: Vec<(u32, u32)>,
    pub(super) zeros: Vec<u32>,
}

impl PageMap {
    /// The map of a device that was never written.
    pub(super) fn new(shape: &Shape) -> Self {
        Self {
            block_pages: shape.block_pages,
            places: vec![UNWRITTEN; shape.pages as usize],
            frames: Vec::new(),
        }
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        let blocks = self.frames.iter().flatten().count();
        u32::try_from(blocks).expect("the shape was checked")
    }

    /// Adds a block. Returns its frame.
    pub(super) fn add(&mut self, block: BlockId) -> u32 {
        let frame = Frame {
            block,
            owners: vec![NOBODY; self.block_pages as usize],
            data: 0,
            zeros: BTreeSet::new(),
            unreadable: false,
        };
        let room = self.frames.iter().position(Option::is_none);
        let at = room.unwrap_or_else(|| {
            self.frames.push(None);
            self.frames.len() - 1
        });
        self.frames[at] = Some(frame);
        u32::try_from(at).expect("the shape was checked")
    }

    /// Removes a block that was freed.
    pub(super) fn remove(&mut self, frame: u32) {
        let gone = self.frames[frame as usize].take();
        assert!(gone.is_some_and(|it| it.is_dead()), "what is live keeps its place");
    }

    pub(super) fn get(&self, page: u32) -> PageContent {
        match self.places[page as usize] {
            UNWRITTEN => PageContent::Zeros,
            place if place & ZEROS != 0 => PageContent::Zeros,
            place => {
                let frame = self.frame(place / self.block_pages);
                PageContent::At(frame.block, place % self.block_pages)
            }
        }
    }

    /// Whether a block stores content for the page; `false` if the page is zeros.
    pub(super) fn has_content(&self, page: u32) -> bool {
        self.places[page as usize] & ZEROS == 0
    }

    /// The page is at this place from now on.
    pub(super) fn set(&mut self, page: u32, frame: u32, at: u32) {
        self.forget(page);
        self.places[page as usize] = frame * self.block_pages + at;
        let frame = self.frame_mut(frame);
        frame.data += 1;
        frame.owners[at as usize] = page;
    }

    /// The page is zeros from now on, recorded by this block.
    pub(super) fn set_zeros(&mut self, page: u32, frame: u32) {
        self.forget(page);
        self.places[page as usize] = ZEROS | frame;
        self.frame_mut(frame).zeros.insert(page);
    }

    /// The live pages of the block cannot be read.
    pub(super) fn give_up(&mut self, frame: u32) {
        self.frame_mut(frame).unreadable = true;
    }

    fn forget(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.places[page as usize], UNWRITTEN);
        if place == UNWRITTEN {
            return;
        }
        if place & ZEROS != 0 {
            let known = self.frame_mut(place & !ZEROS).zeros.remove(&page);
            debug_assert!(known, "page {page} is zeros by a block that knows nothing of it");
            return;
        }
        let at = place % self.block_pages;
        let frame = self.frame_mut(place / self.block_pages);
        debug_assert_eq!(frame.owners[at as usize], page, "place {place}");
        frame.owners[at as usize] = NOBODY;
        frame.data -= 1;
    }

    /// Makes the pages live in their old block again: their copies are abandoned.
    pub(super) fn put_back(&mut self, frame: u32, live: &Live) {
        live.data.iter().for_each(|&(at, page)| self.set(page, frame, at));
        live.zeros.iter().for_each(|&page| self.set_zeros(page, frame));
    }

    /// The block with the fewest live pages, among those that are not being filled.
    pub(super) fn victim(&self, is_filling: impl Fn(u32) -> bool) -> Option<Victim> {
        let frames = (0..).zip(&self.frames).filter(|(number, _)| !is_filling(*number));
        let victims = frames.filter_map(|(number, frame)| {
            let frame = frame.as_ref().filter(|it| it.is_dead() || !it.unreadable)?;
            Some(Victim { frame: number, block: frame.block, cost: frame.cost() })
        });
        victims.min_by_key(|victim| (victim.cost, victim.block))
    }

    /// Frames of blocks without live pages.
    pub(super) fn dead(&self) -> Vec<u32> {
        let frames = (0..).zip(&self.frames);
        let dead = frames.filter(|(_, frame)| frame.as_ref().is_some_and(Frame::is_dead));
        dead.map(|(number, _)| number).collect()
    }

    pub(super) fn block(&self, frame: u32) -> BlockId {
        self.frame(frame).block
    }

    pub(super) fn live(&self, frame: u32) -> Live {
        let frame = self.frame(frame);
        let owners = (0..).zip(&frame.owners).filter(|(_, page)| **page != NOBODY);
        let data: Vec<(u32, u32)> = owners.map(|(at, page)| (at, *page)).collect();
        debug_assert_eq!(data.len(), frame.data as usize, "rule 2");
        Live { data, zeros: frame.zeros.iter().copied().collect() }
    }

    fn frame(&self, frame: u32) -> &Frame {
        self.frames[frame as usize].as_ref().expect("what is live keeps its block")
    }

    fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        self.frames[frame as usize].as_mut().expect("what is live keeps its block")
    }
}

impl Frame {
    fn is_dead(&self) -> bool {
        self.data == 0 && self.zeros.is_empty()
    }

    /// Each zero page counts as an entry, although neighbours share one.
    fn cost(&self) -> u32 {
        let zeros = u32::try_from(self.zeros.len()).expect("the shape was checked");
        self.data + (self.data + zeros).div_ceil(BATCH_PAGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::shape::DeviceOnBlocksOptions;

    fn map() -> PageMap {
        let options = DeviceOnBlocksOptions {
            capacity_bytes: 0,
            front_bytes: 0,
            tail_bytes: 0,
            spare_percent: 0,
            slots_together: 1,
            handles: 1,
        };
        let shape =
            Shape { options, block_bytes: 0, block_pages: 8, slots: 0, pages: 16, page_blocks: 4 };
        PageMap::new(&shape)
    }

    #[test]
    fn a_page_is_in_one_place() {
        let mut map = map();
        let (one, other) = (map.add(BlockId::new(5)), map.add(BlockId::new(6)));
        assert_eq!(map.get(3), PageContent::Zeros);
        map.set(3, one, 1);
        map.set(4, one, 2);
        map.set(3, other, 7);
        assert_eq!(map.get(3), PageContent::At(BlockId::new(6), 7));
        assert_eq!(map.live(one), Live { data: vec![(2, 4)], zeros: vec![] });
        map.set_zeros(4, other);
        assert_eq!(map.live(other), Live { data: vec![(7, 3)], zeros: vec![4] });
        assert_eq!((map.get(4), map.has_content(4)), (PageContent::Zeros, false));
        assert_eq!(map.dead(), [one]);
        assert_eq!(map.victim(|_| false).map(|it| (it.frame, it.cost)), Some((one, 0)));
        map.remove(one);
        assert_eq!(map.victim(|_| false).map(|it| (it.frame, it.cost)), Some((other, 2)));
        assert_eq!((map.blocks(), map.add(BlockId::new(9))), (1, one), "its frame is used again");
    }

    #[test]
    fn what_cannot_be_read_is_not_cleaned_until_it_is_dead() {
        let mut map = map();
        let frame = map.add(BlockId::new(5));
        map.set(3, frame, 1);
        map.give_up(frame);
        assert_eq!(map.victim(|_| false), None);
        let other = map.add(BlockId::new(6));
        map.set(3, other, 1);
        assert_eq!(map.victim(|_| false).map(|it| it.frame), Some(frame));
    }

    #[test]
    fn copies_can_be_given_up() {
        let mut map = map();
        let (one, other) = (map.add(BlockId::new(5)), map.add(BlockId::new(6)));
        map.set(3, one, 1);
        map.set_zeros(4, one);
        let live = map.live(one);
        map.set(3, other, 1);
        map.put_back(one, &live);
        assert_eq!((map.live(one), map.dead()), (live, vec![other]));
    }
}
