//! The blocks of a store as bytes, to be damaged with or without correcting checksums.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_blocks::{BlockId, BlockStore, MemoryBlocks, Stream};
use larder_device::IoBuffer;

const PAGE: usize = 4096;
/// Position of the checksum in a run and in a page of a checkpoint; the covered bytes begin at its end.
const CHECKSUM: std::ops::Range<usize> = 12..16;

/// A block, as a store lists it.
#[derive(Clone)]
pub(crate) struct Block {
    number: u64,
    tag: u64,
    stream: Stream,
    pub(crate) bytes: Vec<u8>,
}

/// All blocks of a store.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) blocks: Vec<Block>,
    block_bytes: u64,
    count: u64,
}

impl Image {
    pub(crate) fn of(store: &MemoryBlocks) -> Self {
        let read = |state: larder_blocks::BlockState| {
            let length = usize::try_from(state.written_bytes).unwrap();
            let mut bytes = vec![0; length];
            if length > 0 {
                let read = store.read(state.block, 0, IoBuffer::zeroed(length)).wait().unwrap();
                read.copy_out(0, &mut bytes);
            }
            let (number, tag, stream) = (state.block.number(), state.tag, state.stream);
            Block { number, tag, stream, bytes }
        };
        let blocks = store.list().into_iter().map(read).collect();
        let info = store.info();
        Self { blocks, block_bytes: info.block_bytes, count: info.blocks }
    }

    /// A store with these blocks, with the same numbers.
    pub(crate) fn store(&self) -> Arc<MemoryBlocks> {
        let store = MemoryBlocks::new(self.count, self.block_bytes, 4096).unwrap();
        for block in &self.blocks {
            while store.ledger().next().number() < block.number {
                let skipped = store.alloc(Stream::DEFAULT, 0).wait().unwrap();
                store.free(skipped).wait().unwrap();
            }
            let made = store.alloc(block.stream, block.tag).wait().unwrap();
            assert_eq!(made, BlockId::new(block.number));
            if !block.bytes.is_empty() {
                let mut buffer = IoBuffer::zeroed(block.bytes.len());
                buffer.copy_in(0, &block.bytes);
                store.append(made, 0, buffer).wait().unwrap();
            }
        }
        Arc::new(store)
    }

    /// All pages, as block and page.
    pub(crate) fn pages(&self) -> Vec<(usize, usize)> {
        let of = |(block, it): (usize, &Block)| {
            (0..it.bytes.len() / PAGE).map(move |page| (block, page)).collect::<Vec<_>>()
        };
        self.blocks.iter().enumerate().flat_map(of).collect()
    }

    pub(crate) fn page_mut(&mut self, (block, page): (usize, usize)) -> &mut [u8] {
        &mut self.blocks[block].bytes[page * PAGE..(page + 1) * PAGE]
    }

    /// Changes a page, and corrects all its checksums: its own, and those in pointers to it.
    pub(crate) fn change_sealed(&mut self, at: (usize, usize), change: impl FnOnce(&mut [u8])) {
        let before = larder_checksum::crc32c(self.page_mut(at));
        change(self.page_mut(at));
        self.seal(at, before, &mut BTreeSet::from([at]));
    }

    fn seal(&mut self, at: (usize, usize), before: u32, seen: &mut BTreeSet<(usize, usize)>) {
        let page = self.page_mut(at);
        if page.starts_with(b"LARDERFR") || page.starts_with(b"LARDERFC") {
            let sum = larder_checksum::crc32c(&page[CHECKSUM.end..]);
            page[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        }
        let after = larder_checksum::crc32c(self.page_mut(at));
        for other in self.pages() {
            let of_other = larder_checksum::crc32c(self.page_mut(other));
            let page = self.page_mut(other);
            let marked = page.starts_with(b"LARDERF");
            let places =
                (16..PAGE - 4).step_by(4).filter(|at| page[*at..at + 4] == before.to_le_bytes());
            let places: Vec<usize> = if marked { places.collect() } else { Vec::new() };
            if places.is_empty() || !seen.insert(other) {
                continue;
            }
            places.iter().for_each(|at| page[*at..at + 4].copy_from_slice(&after.to_le_bytes()));
            self.seal(other, of_other, seen);
        }
    }
}
