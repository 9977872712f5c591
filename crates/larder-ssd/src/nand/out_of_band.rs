//! What lies beside the pages: a word of the firmware's with each page of mapping.

use super::index::PageIndex;

/// The word of padding and of pages never programmed.
pub(crate) const EMPTY: u64 = 0;

#[derive(Debug)]
pub(crate) struct OutOfBand {
    words: Vec<u64>,
}

impl OutOfBand {
    pub(crate) fn new(pages: usize) -> Self {
        Self { words: vec![EMPTY; pages] }
    }

    pub(crate) fn word(&self, page: PageIndex) -> u64 {
        self.words[page.at()]
    }

    pub(crate) fn write(&mut self, page: PageIndex, word: u64) {
        self.words[page.at()] = word;
    }

    /// `count` pages from `first` on hold nothing.
    pub(crate) fn clear(&mut self, first: PageIndex, count: u32) {
        self.words[first.at()..][..count as usize].fill(EMPTY);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>()) as u64
    }
}
