//! The content of a device in memory.

use std::collections::BTreeMap;
use std::ops::Range;

/// The bytes of a device, stored only where it was written, and the metadata of its blocks.
#[derive(Clone, Debug, Default)]
pub struct Image {
    chunks: BTreeMap<u64, Vec<u8>>,
    /// By the offset of the block; all others are zeros.
    metadata: BTreeMap<u64, Vec<u8>>,
}

/// Bytes of an image that are stored together.
const CHUNK_BYTES: u64 = 64 << 10;

impl Image {
    /// Fills `into` with the content at `offset`; zeros where nothing was written.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        each_chunk(offset, into.len(), |chunk, at, range| match self.chunks.get(&chunk) {
            Some(bytes) => into[range.clone()].copy_from_slice(&bytes[at..at + range.len()]),
            None => into[range].fill(0),
        });
    }

    /// Fills `into` with the metadata of the blocks of `block_bytes` from `offset` on, `each` bytes per block.
    pub fn read_metadata(&self, offset: u64, block_bytes: u32, each: usize, into: &mut [u8]) {
        let blocks = (offset..).step_by(block_bytes as usize);
        for (at, into) in blocks.zip(into.chunks_mut(each.max(1))) {
            match self.metadata.get(&at) {
                Some(kept) => into.copy_from_slice(kept),
                None => into.fill(0),
            }
        }
    }

    /// Sets the metadata of a block that was written with it.
    pub(super) fn put_metadata(&mut self, offset: u64, bytes: &[u8]) {
        self.metadata.insert(offset, bytes.to_vec());
    }

    /// The metadata of the blocks that begin in a range.
    pub(super) fn metadata_in(&self, range: Range<u64>) -> Vec<(u64, Vec<u8>)> {
        self.metadata.range(range).map(|(at, bytes)| (*at, bytes.clone())).collect()
    }

    /// Writes `bytes` at `offset`. The metadata of blocks that begin there becomes zeros.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if !self.metadata.is_empty() {
            for (at, _) in self.metadata_in(offset..offset + bytes.len() as u64) {
                self.metadata.remove(&at);
            }
        }
        each_chunk(offset, bytes.len(), |chunk, at, range| {
            let kept = self.chunks.entry(chunk).or_insert_with(|| vec![0; into_usize(CHUNK_BYTES)]);
            kept[at..at + range.len()].copy_from_slice(&bytes[range]);
        });
    }
}

fn each_chunk(offset: u64, bytes: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let within = into_usize(at % CHUNK_BYTES);
        let length = (into_usize(CHUNK_BYTES) - within).min(bytes - done);
        each(at / CHUNK_BYTES, within, done..done + length);
        done += length;
    }
}

fn into_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a length in memory")
}
