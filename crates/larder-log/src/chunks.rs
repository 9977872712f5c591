//! The bytes of a region that are in memory: a window that grows at its end and shrinks at its start.
//!
//! ```text
//!   0                 start           end            region
//!   ├── on flash ──────┼── in memory ──┤
//!                      └ chunks of equal length, the first of which may begin before it
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;

/// Memory is allocated and freed in chunks of this length, or of the length of a piece if that is shorter.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 10;

/// The window.
#[derive(Debug)]
pub(crate) struct Chunks {
    chunk_bytes: usize,
    /// Number of the first chunk of the window.
    first: usize,
    chunks: VecDeque<Box<[u8]>>,
    end: usize,
}

/// Chunks that are not in use for now: a log fills one region after another.
#[derive(Debug)]
pub(crate) struct SpareChunks {
    chunk_bytes: usize,
    chunks: Vec<Box<[u8]>>,
    most: usize,
}

impl SpareChunks {
    /// Keeps at most `most_bytes`, in chunks for pieces of this length.
    pub(crate) fn new(piece_bytes: usize, most_bytes: usize) -> Self {
        let chunk_bytes = piece_bytes.min(CHUNK_BYTES_MAX);
        Self { chunk_bytes, chunks: Vec::new(), most: most_bytes.div_ceil(chunk_bytes) }
    }

    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * self.chunk_bytes
    }

    fn take(&mut self) -> Box<[u8]> {
        self.chunks.pop().unwrap_or_else(|| vec![0; self.chunk_bytes].into_boxed_slice())
    }

    fn give(&mut self, chunk: Box<[u8]>) {
        debug_assert_eq!(chunk.len(), self.chunk_bytes);
        if self.chunks.len() < self.most {
            self.chunks.push(chunk);
        }
    }
}

impl Chunks {
    /// An empty window at the start of a region.
    pub(crate) fn new(chunk_bytes: usize) -> Self {
        Self { chunk_bytes, first: 0, chunks: VecDeque::new(), end: 0 }
    }

    /// Where the window ends.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Memory of the window.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.len() * self.chunk_bytes
    }

    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, mut bytes: &[u8], spare: &mut SpareChunks) {
        while !bytes.is_empty() {
            let at = self.end % self.chunk_bytes;
            if self.end == (self.first + self.chunks.len()) * self.chunk_bytes {
                self.chunks.push_back(spare.take());
            }
            let (now, rest) = bytes.split_at(bytes.len().min(self.chunk_bytes - at));
            let chunk = self.chunks.back_mut().expect("the one that the end is in");
            chunk[at..at + now.len()].copy_from_slice(now);
            self.end += now.len();
            bytes = rest;
        }
        debug_assert!(self.end <= (self.first + self.chunks.len()) * self.chunk_bytes);
    }

    /// Adds zeros up to `end`.
    pub(crate) fn pad(&mut self, end: usize, spare: &mut SpareChunks) {
        const ZEROS: &[u8] = &[0; 4096];
        while self.end < end {
            self.push(&ZEROS[..ZEROS.len().min(end - self.end)], spare);
        }
    }

    /// Frees the bytes before `start`, which are no longer needed.
    pub(crate) fn release(&mut self, start: usize, spare: &mut SpareChunks) {
        debug_assert!(start <= self.end);
        while (self.first + 1) * self.chunk_bytes <= start {
            let Some(chunk) = self.chunks.pop_front() else { break };
            self.first += 1;
            spare.give(chunk);
        }
    }

    /// Returns all chunks to the spare ones, for other regions.
    pub(crate) fn give_back(self, spare: &mut SpareChunks) {
        self.chunks.into_iter().for_each(|chunk| spare.give(chunk));
    }

    /// The bytes from `from` to `to`, which must be in the window: borrowed if they lie in one chunk, copied otherwise.
    pub(crate) fn get(&self, from: usize, to: usize) -> Cow<'_, [u8]> {
        let parts = self.parts(from, to);
        match parts.as_slice() {
            [] => Cow::Borrowed(&[]),
            [part] => Cow::Borrowed(part),
            parts => Cow::Owned(parts.concat()),
        }
    }

    /// Copies the bytes from `from` on, which must be in the window, to `room`.
    pub(crate) fn copy_to(&self, from: usize, room: &mut [u8]) {
        let mut rest = &mut *room;
        let to = from + rest.len();
        for part in self.parts(from, to) {
            let (now, later) = rest.split_at_mut(part.len());
            now.copy_from_slice(part);
            rest = later;
        }
        debug_assert!(rest.is_empty());
    }

    fn parts(&self, from: usize, to: usize) -> Vec<&[u8]> {
        assert!(
            self.first * self.chunk_bytes <= from && to <= self.end,
            "what is asked for is here"
        );
        let mut parts = Vec::with_capacity((to - from) / self.chunk_bytes + 2);
        let mut at = from;
        while at < to {
            let (chunk, inside) = (at / self.chunk_bytes - self.first, at % self.chunk_bytes);
            let end = self.chunk_bytes.min(inside + to - at);
            parts.push(&self.chunks[chunk][inside..end]);
            at += end - inside;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK_BYTES: usize = 48 << 10;

    proptest! {
        #[test]
        fn a_window_holds_what_was_pushed(
            steps in prop::collection::vec((0..200_000_usize, any::<u8>(), 0..3_u8), 1..30)
        ) {
            let mut spare = SpareChunks::new(CHUNK_BYTES, 4 * CHUNK_BYTES);
            let mut chunks = Chunks::new(CHUNK_BYTES);
            let (mut all, mut start) = (Vec::new(), 0);
            for (bytes, byte, kind) in steps {
                match kind {
                    0 => chunks.push(&vec![byte; bytes], &mut spare),
                    1 => chunks.pad(all.len() + bytes, &mut spare),
                    _ => {
                        start = (start + bytes).min(all.len());
                        chunks.release(start, &mut spare);
                        prop_assert!(chunks.memory_bytes() <= all.len() - start + 2 * CHUNK_BYTES);
                        continue;
                    }
                }
                all.resize(all.len() + bytes, if kind == 0 { byte } else { 0 });
                prop_assert_eq!(chunks.end(), all.len());
            }
            prop_assert!(*chunks.get(start, all.len()) == all[start..]);
            let mut room = vec![1; all.len() - start];
            chunks.copy_to(start, &mut room);
            prop_assert!(room == all[start..]);
            chunks.give_back(&mut spare);
            prop_assert!(spare.bytes() <= 4 * CHUNK_BYTES);
        }
    }
}
