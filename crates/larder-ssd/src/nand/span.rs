//! The dies on which the blocks of a medium lie.
//!
//! The blocks are divided among *spans* in equal parts, in order. A block has a part on each die of its span: with one
//! die per span it is a plain block of that die, with more it is a superblock. All parts are programmed stripe by
//! stripe, round-robin over the dies, and erased together, so one write pointer and one erase count cover all of them.

use super::array::DieArray;
use super::index::{BlockIndex, ChannelIndex, DieIndex};

/// Sets of dies and the blocks on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// The dies of all spans, span after span.
    dies: Vec<DieIndex>,
    dies_per_span: usize,
    blocks_per_span: u32,
}

impl Spans {
    /// One span: each of `blocks` blocks lies on all dies.
    pub(crate) fn over_all(array: DieArray, blocks: u32) -> Self {
        Self::of((0..array.dies()).map(DieIndex).collect(), 1, blocks)
    }

    /// `count` spans of neighbouring dies, on as many channels as possible. The number of dies must be a multiple of
    /// `count`.
    pub(crate) fn of_dies(array: DieArray, count: u32, blocks_per_span: u32) -> Self {
        Self::of((0..array.dies()).map(DieIndex).collect(), count, blocks_per_span)
    }

    /// `count` spans, each with all dies of neighbouring channels. The number of channels must be a multiple of
    /// `count`.
    pub(crate) fn of_channels(array: DieArray, count: u32, blocks_per_span: u32) -> Self {
        assert!(array.channels.is_multiple_of(count), "checked with the configuration");
        let channels_per_span = array.channels / count;
        let dies_of_span = |span: u32| {
            let channels = span * channels_per_span..(span + 1) * channels_per_span;
            // Sort by die number, so that consecutive stripes are on different channels.
            let mut dies: Vec<DieIndex> =
                channels.flat_map(|channel| array.dies_of(ChannelIndex(channel))).collect();
            dies.sort_unstable();
            dies
        };
        Self::of((0..count).flat_map(dies_of_span).collect(), count, blocks_per_span)
    }

    fn of(dies: Vec<DieIndex>, count: u32, blocks_per_span: u32) -> Self {
        let count = count as usize;
        assert!(count > 0 && blocks_per_span > 0, "a medium has blocks");
        assert!(!dies.is_empty() && dies.len().is_multiple_of(count), "spans are equally long");
        Self { dies_per_span: dies.len() / count, dies, blocks_per_span }
    }

    /// Number of spans.
    pub fn count(&self) -> usize {
        self.dies.len() / self.dies_per_span
    }

    /// Number of blocks on all spans together.
    #[allow(clippy::cast_possible_truncation)] // there are at most as many spans as dies
    pub fn blocks(&self) -> u32 {
        self.count() as u32 * self.blocks_per_span
    }

    /// The span that `block` lies on.
    #[inline]
    pub fn of_block(&self, block: BlockIndex) -> usize {
        let span = (block.0 / self.blocks_per_span) as usize;
        debug_assert!(span < self.count(), "{block:?} of {}", self.blocks());
        span
    }

    /// The dies of `span`, in the order in which stripes go round them.
    #[inline]
    pub fn dies(&self, span: usize) -> &[DieIndex] {
        &self.dies[span * self.dies_per_span..][..self.dies_per_span]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: DieArray = DieArray { channels: 4, dies_per_channel: 2 };

    fn numbers(spans: &Spans) -> Vec<Vec<u32>> {
        (0..spans.count()).map(|span| spans.dies(span).iter().map(|die| die.0).collect()).collect()
    }

    #[test]
    fn spans_divide_dies_or_channels() {
        assert_eq!(numbers(&Spans::over_all(ARRAY, 5)), [[0, 1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(numbers(&Spans::of_dies(ARRAY, 2, 5)), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(numbers(&Spans::of_channels(ARRAY, 2, 5)), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        assert_eq!(numbers(&Spans::of_dies(ARRAY, 8, 5))[7], [7]);
    }

    #[test]
    fn blocks_are_divided_in_order() {
        let spans = Spans::of_dies(ARRAY, 2, 5);
        assert_eq!(spans.blocks(), 10);
        assert_eq!((spans.of_block(BlockIndex(4)), spans.of_block(BlockIndex(5))), (0, 1));
    }
}
