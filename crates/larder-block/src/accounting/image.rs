//! Bytes of a device in memory.

use std::collections::BTreeMap;

/// Bytes of a device, kept sector by sector where it was written.
#[derive(Clone, Debug, Default)]
pub struct Image {
    chunks: BTreeMap<u64, Vec<u8>>,
}

/// Bytes of an image that are kept together.
const CHUNK_BYTES: u64 = 64 << 10;

impl Image {
    /// Fills `into` with what lies at `offset`; zeros where nothing was written.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        each_chunk(offset, into.len(), |chunk, at, range| match self.chunks.get(&chunk) {
            Some(bytes) => into[range.clone()].copy_from_slice(&bytes[at..at + range.len()]),
            None => into[range].fill(0),
        });
    }

    /// Puts `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
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
