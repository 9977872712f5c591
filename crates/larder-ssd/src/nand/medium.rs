//! The whole medium: the effect of each operation on the state of its block, on wear and on out-of-band data.

use super::block::{Block, Health};
use super::failures::{Endurance, Failures};
use super::index::{BlockIndex, PageIndex};
use super::out_of_band::{self, OutOfBand};
use super::power::PowerSupply;
use super::span::Spans;
use super::tags::{Tag, Tags};
use super::wear::WearCounts;

/// How a firmware divides its medium.
#[derive(Debug, Clone)]
pub(crate) struct Division {
    /// The blocks, each erased as a whole, and the dies that they lie on.
    pub(crate) spans: Spans,
    /// Mapping pages in a block.
    pub(crate) block_pages: u32,
}

impl Division {
    fn pages(&self) -> u64 {
        u64::from(self.spans.blocks()) * u64::from(self.block_pages)
    }
}

/// An erase failed, and its block is now bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EraseFailed;

/// A medium.
#[derive(Debug)]
pub(crate) struct Medium {
    division: Division,
    blocks: Vec<Block>,
    wear: WearCounts,
    failures: Failures,
    beside: Option<Box<OutOfBand>>,
    tags: Option<Box<Tags>>,
    power: PowerSupply,
}

impl Medium {
    /// A new medium: all erased, no wear.
    pub(crate) fn new(division: Division, endurance: &Endurance, seed: u64) -> Self {
        assert!(division.block_pages > 0, "a block has pages");
        assert!(division.pages() < u64::from(u32::MAX), "pages are numbered in 32 bits");
        let blocks = division.spans.blocks();
        Self {
            division,
            blocks: vec![Block::FRESH; blocks as usize],
            wear: WearCounts::new(blocks),
            failures: Failures::new(endurance, seed),
            beside: None,
            tags: None,
            power: PowerSupply::new(),
        }
    }

    /// Adds a word of out-of-band data to each page.
    #[allow(clippy::cast_possible_truncation)] // pages are numbered in 32 bits
    pub(crate) fn with_words(self) -> Self {
        assert!(self.beside.is_none(), "a medium is made once");
        let (blocks, pages) = (self.blocks.len(), self.division.pages() as usize);
        Self { beside: Some(Box::new(OutOfBand::new(blocks, pages))), ..self }
    }

    /// Adds a tag of out-of-band data to each block.
    pub(crate) fn with_tags(self) -> Self {
        assert!(self.tags.is_none(), "a medium is made once");
        let tags = Tags::new(self.division.spans.blocks());
        Self { tags: Some(Box::new(tags)), ..self }
    }

    /// Restores the saved state of `block`, which must be untouched so far.
    pub(crate) fn restore(&mut self, block: BlockIndex, state: Block, tag: Option<Tag>) {
        let entry = &mut self.blocks[block.at()];
        assert!(entry.erases == 0 && entry.written == 0, "{block:?} is restored once");
        *entry = state;
        self.wear.restored(state.erases, state.is_retired());
        if let (Some(tags), Some(tag)) = (&mut self.tags, tag) {
            tags.write(block, tag);
        }
    }

    pub(crate) fn spans(&self) -> &Spans {
        &self.division.spans
    }

    #[inline]
    pub(crate) fn block(&self, block: BlockIndex) -> &Block {
        &self.blocks[block.at()]
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    pub(crate) fn wear(&self) -> &WearCounts {
        &self.wear
    }

    pub(crate) fn power(&mut self) -> &mut PowerSupply {
        &mut self.power
    }

    #[inline]
    pub(crate) fn has_power(&self) -> bool {
        self.power.is_on()
    }

    /// Programs the next `count` pages of `block`. Returns the number of its pages that are programmed now.
    #[inline]
    pub(crate) fn program(&mut self, block: BlockIndex, count: u32) -> u32 {
        let entry = &mut self.blocks[block.at()];
        // Checked in debug builds only: this runs for every page that is written.
        debug_assert_eq!(entry.health, Health::Good, "{block:?}");
        debug_assert!(count <= self.division.block_pages - entry.written, "{block:?} has no room");
        entry.written += count;
        let written = entry.written;
        if let Some(beside) = &mut self.beside {
            beside.programmed(block, count);
        }
        written
    }

    /// Pads the next `count` pages of `block`, the first of which is `first`.
    pub(crate) fn pad(&mut self, block: BlockIndex, first: PageIndex, count: u32) {
        assert_eq!(first, self.write_pointer(block), "padding goes on where data ended");
        if let Some(beside) = &mut self.beside {
            beside.clear(first, count);
        }
        let written = self.program(block, count);
        debug_assert_eq!(written, self.division.block_pages, "padding closes a block");
    }

    /// The page of `block` that is programmed next; for a full block, the page after its end.
    pub(crate) fn write_pointer(&self, block: BlockIndex) -> PageIndex {
        PageIndex(block.0 * self.division.block_pages + self.block(block).written)
    }

    /// Erases `block`. If that fails, the block is bad from then on and its content is lost.
    pub(crate) fn erase(&mut self, block: BlockIndex) -> Result<(), EraseFailed> {
        let entry = &mut self.blocks[block.at()];
        assert!(!entry.is_retired(), "{block:?} is {:?}", entry.health);
        let torn = entry.health == Health::Torn;
        assert!(entry.written > 0 || torn, "{block:?} is erased: this is wear for nothing");
        if self.failures.strikes(block, entry.erases + 1) {
            entry.health = Health::Bad;
            self.wear.retired(entry.erases);
            return Err(EraseFailed);
        }
        entry.written = 0;
        entry.health = Health::Good;
        entry.erases += 1;
        self.wear.erased(entry.erases);
        if let Some(tags) = &mut self.tags {
            tags.erase(block);
        }
        debug_assert_eq!(self.block(block).readable(), 0, "nothing outlives an erase");
        debug_assert_eq!(self.tag(block), None, "nothing outlives an erase");
        Ok(())
    }

    /// Marks a failed program of `block`: its content can be read, nothing else is allowed.
    pub(crate) fn fail_program(&mut self, block: BlockIndex) {
        let entry = &mut self.blocks[block.at()];
        assert_eq!(entry.health, Health::Good, "{block:?}");
        entry.health = Health::ReadOnly;
        self.wear.retired(entry.erases);
    }

    /// Marks `block` as bad from the factory.
    pub(crate) fn mark_bad(&mut self, block: BlockIndex) {
        let entry = &mut self.blocks[block.at()];
        assert!(entry.health == Health::Good && entry.written == 0, "{block:?} was in use");
        entry.health = Health::Bad;
        self.wear.retired(entry.erases);
    }

    /// Marks a power failure during a program of `block`: the pages before remain.
    pub(crate) fn tear_program(&mut self, block: BlockIndex) {
        let entry = &mut self.blocks[block.at()];
        assert_eq!(entry.health, Health::Good, "{block:?}");
        entry.health = Health::Torn;
    }

    /// Marks a power failure during an erase of `block`: its content is gone, but it is not erased either.
    pub(crate) fn tear_erase(&mut self, block: BlockIndex) {
        let entry = &mut self.blocks[block.at()];
        assert!(!entry.is_retired(), "{block:?} is {:?}", entry.health);
        let held = entry.written > 0 || entry.health == Health::Torn;
        assert!(held, "{block:?} is erased: this is wear for nothing");
        entry.health = Health::Torn;
        entry.written = 0;
        if let Some(tags) = &mut self.tags {
            tags.erase(block);
        }
    }

    /// The tag of `block`, written with its first program.
    pub(crate) fn tag(&self, block: BlockIndex) -> Option<Tag> {
        self.tags.as_ref()?.get(block)
    }

    /// Writes `tag` with the first page of `block`, which is being programmed.
    pub(crate) fn write_tag(&mut self, block: BlockIndex, tag: Tag) {
        assert_eq!(self.block(block).written, 0, "{block:?}: the tag is beside the first page");
        if let Some(tags) = &mut self.tags {
            tags.write(block, tag);
        }
    }

    /// The word of `page`, which must be programmed; `None` for padding, and on a medium without out-of-band data.
    pub(crate) fn word(&self, page: PageIndex) -> Option<u64> {
        let word = self.beside.as_ref()?.word(page);
        (word != out_of_band::EMPTY).then_some(word)
    }

    /// Writes `word` with `page`, which is being programmed.
    pub(crate) fn write_word(&mut self, page: PageIndex, word: u64) {
        debug_assert_ne!(word, out_of_band::EMPTY, "that is the word of padding");
        if let Some(beside) = &mut self.beside {
            beside.write(page, word);
        }
    }

    /// Copies the word of `from` to `to`, which is being programmed.
    pub(crate) fn copy_word(&mut self, from: PageIndex, to: PageIndex) {
        debug_assert_ne!(from, to, "a copy goes elsewhere");
        if let Some(beside) = &mut self.beside {
            beside.write(to, beside.word(from));
        }
    }

    /// Bytes of memory of the out-of-band data, including the times of the last programs.
    pub(crate) fn out_of_band_bytes(&self) -> u64 {
        self.beside.as_ref().map_or(0, |beside| beside.memory_bytes())
    }

    /// When a page of `block` was last programmed, counted in programs of the medium; 0 on a medium without words of
    /// out-of-band data.
    pub(crate) fn last_program(&self, block: BlockIndex) -> u64 {
        self.beside.as_ref().map_or(0, |beside| beside.last_program(block))
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::DieArray;
    use super::*;

    fn medium(endurance: &Endurance) -> Medium {
        let spans = Spans::over_all(DieArray::ONE, 3);
        Medium::new(Division { spans, block_pages: 4 }, endurance, 0)
    }

    #[test]
    fn a_block_is_programmed_in_order_and_erased_whole() {
        let mut medium = medium(&Endurance::Unlimited).with_words();
        let block = BlockIndex(1);
        medium.write_word(PageIndex(4), 7);
        assert_eq!(medium.program(block, 1), 1);
        medium.copy_word(PageIndex(4), PageIndex(5));
        assert_eq!(medium.program(block, 1), 2);
        assert_eq!(medium.write_pointer(block), PageIndex(6));
        medium.pad(block, PageIndex(6), 2);
        let words = (4..8).map(|page| medium.word(PageIndex(page)));
        assert_eq!(words.collect::<Vec<_>>(), [Some(7), Some(7), None, None]);
        assert_eq!((medium.last_program(block), medium.last_program(BlockIndex(0))), (4, 0));
        assert_eq!(medium.erase(block), Ok(()));
        assert_eq!((medium.block(block).written, medium.block(block).erases), (0, 1));
        assert_eq!((medium.wear().min(), medium.wear().max()), (0, 1));
    }

    #[test]
    fn a_failed_erase_makes_a_block_bad_and_leaves_its_wear_out() {
        let endurance = Endurance::Planned(vec![(2, 2)]);
        let mut medium = medium(&endurance);
        let block = BlockIndex(2);
        medium.program(block, 4);
        assert_eq!(medium.erase(block), Ok(()));
        medium.program(block, 1);
        assert_eq!(medium.erase(block), Err(EraseFailed));
        assert!(medium.block(block).is_retired());
        assert_eq!(medium.wear().max(), 0);
    }

    #[test]
    #[should_panic(expected = "is Bad")]
    fn a_bad_block_is_not_erased_again() {
        let endurance = Endurance::Planned(vec![(0, 1)]);
        let mut medium = medium(&endurance);
        medium.program(BlockIndex(0), 4);
        assert_eq!(medium.erase(BlockIndex(0)), Err(EraseFailed));
        let _ = medium.erase(BlockIndex(0));
    }

    #[test]
    fn blocks_that_fail_leave_wear_however_they_fail() {
        let mut medium = medium(&Endurance::Unlimited);
        for block in (0..3).map(BlockIndex) {
            for _ in 0..=block.0 {
                medium.program(block, 1);
                assert_eq!(medium.erase(block), Ok(()));
            }
        }
        assert_eq!((medium.wear().min(), medium.wear().max()), (1, 3));
        medium.program(BlockIndex(2), 2);
        medium.fail_program(BlockIndex(2));
        assert_eq!((medium.wear().max(), medium.block(BlockIndex(2)).readable()), (2, 2));
        medium.mark_bad(BlockIndex(0));
        assert_eq!((medium.wear().min(), medium.block(BlockIndex(0)).readable()), (2, 0));
    }

    #[test]
    fn a_torn_block_is_good_again_when_it_is_erased() {
        let mut medium = medium(&Endurance::Unlimited).with_tags();
        let block = BlockIndex(0);
        medium.write_tag(block, [7; 16]);
        medium.program(block, 2);
        medium.tear_program(block);
        assert_eq!((medium.block(block).readable(), medium.tag(block)), (2, Some([7; 16])));
        medium.tear_erase(block);
        assert_eq!((medium.block(block).readable(), medium.tag(block)), (0, None));
        assert_eq!(medium.erase(block), Ok(()));
        assert_eq!((medium.block(block).health, medium.block(block).erases), (Health::Good, 1));
    }

    #[test]
    #[should_panic(expected = "goes on where data ended")]
    fn padding_cannot_skip_pages() {
        let mut medium = medium(&Endurance::Unlimited);
        medium.pad(BlockIndex(0), PageIndex(1), 3);
    }
}
