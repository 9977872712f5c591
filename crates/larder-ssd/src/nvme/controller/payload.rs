//! What was written, by logical block.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use super::BLOCK_BYTES;

/// Contents of the drive. Unwritten and deallocated blocks read as zeros.
#[derive(Debug)]
pub(super) struct Payload {
    blocks: Option<HashMap<u64, Box<[u8]>>>,
}

impl Payload {
    pub(super) fn new(keep: bool) -> Self {
        Self { blocks: keep.then(HashMap::new) }
    }

    pub(super) fn write(&mut self, first: u64, data: &[u8]) {
        if let Some(blocks) = &mut self.blocks {
            let chunks = (first..).zip(data.chunks_exact(BLOCK_BYTES as usize));
            blocks.extend(chunks.map(|(block, bytes)| (block, bytes.into())));
        }
    }

    pub(super) fn read(&self, first: u64, data: &mut [u8]) {
        data.fill(0);
        let Some(blocks) = &self.blocks else { return };
        for (block, room) in (first..).zip(data.chunks_exact_mut(BLOCK_BYTES as usize)) {
            if let Some(bytes) = blocks.get(&block) {
                room.copy_from_slice(bytes);
            }
        }
    }

    pub(super) fn discard(&mut self, first: u64, count: u64) {
        if let Some(blocks) = &mut self.blocks {
            (first..first.saturating_add(count)).for_each(|block| _ = blocks.remove(&block));
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(blocks) = &mut self.blocks {
            blocks.clear();
        }
    }
}
