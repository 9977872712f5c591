//! Out-of-band data: one word of the firmware per mapping page, and when a page of each block was last programmed,
//! counted in programs of the medium. A medium that is never recovered runs without it, because it adds a cost to each
//! program.

use super::index::{BlockIndex, PageIndex};

/// The word of padding and of pages that were never programmed.
pub(crate) const EMPTY: u64 = 0;

#[derive(Debug)]
pub(crate) struct OutOfBand {
    words: Vec<u64>,
    last_program: Vec<u64>,
    programs: u64,
}

impl OutOfBand {
    pub(crate) fn new(blocks: usize, pages: usize) -> Self {
        Self { words: vec![EMPTY; pages], last_program: vec![0; blocks], programs: 0 }
    }

    /// Records that `count` pages of `block` were programmed.
    #[inline]
    pub(crate) fn programmed(&mut self, block: BlockIndex, count: u32) {
        self.programs += u64::from(count);
        self.last_program[block.at()] = self.programs;
    }

    pub(crate) fn last_program(&self, block: BlockIndex) -> u64 {
        self.last_program[block.at()]
    }

    pub(crate) fn word(&self, page: PageIndex) -> u64 {
        self.words[page.at()]
    }

    pub(crate) fn write(&mut self, page: PageIndex, word: u64) {
        self.words[page.at()] = word;
    }

    /// Clears the words of `count` pages from `first` on.
    pub(crate) fn clear(&mut self, first: PageIndex, count: u32) {
        self.words[first.at()..][..count as usize].fill(EMPTY);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.words.len() + self.last_program.len()) * size_of::<u64>()) as u64
    }
}
