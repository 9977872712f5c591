//! The bytes of a simulated drive, by logical address, in memory that is allocated when something other than zeros is
//! first written there.

use crate::buffer::IoBuffer;
use crate::error::{Error, ErrorKind};

/// Unit of allocation. The allocator hands out memory of this size zeroed and untouched, so a chunk costs only the
/// pages that were written.
const CHUNK_BYTES: usize = 1 << 20;
/// Page size of the operating system's memory.
const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;

/// What a simulated drive keeps of the bytes written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Payload {
    /// Everything, in memory.
    #[default]
    Memory,
    /// Nothing: every read returns zeros. For runs that count writes on drives larger than memory.
    None,
}

/// Contents by logical address. Ranges that were never written, or were deallocated, read as zeros.
pub(super) struct Contents {
    /// `None` means all zeros. Each chunk is `CHUNK_BYTES` long. With `Payload::None` there are no chunks.
    chunks: Vec<Option<Box<[u8]>>>,
}

impl Contents {
    /// Like [`Contents::new`], for a drive of `capacity_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if they do not fit the address space.
    pub(super) fn checked(payload: Payload, capacity_bytes: u64) -> Result<Self, Error> {
        if payload == Payload::Memory && usize::try_from(capacity_bytes).is_err() {
            let context = format!(
                "simulated drive of {capacity_bytes} bytes: more than this machine can address; use no payload"
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        Ok(Self::new(payload, capacity_bytes))
    }

    pub(super) fn new(payload: Payload, capacity_bytes: u64) -> Self {
        let count = match payload {
            Payload::Memory => capacity_bytes.div_ceil(CHUNK_BYTES as u64),
            Payload::None => 0,
        };
        let mut chunks = Vec::new();
        chunks.resize_with(index(count), || None);
        Self { chunks }
    }

    /// Fills `into` from `offset` on.
    pub(super) fn read(&self, offset: u64, mut into: &mut [u8]) {
        let mut offset = index(offset);
        while !into.is_empty() {
            let (chunk, start) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
            let count = into.len().min(CHUNK_BYTES - start);
            let (part, rest) = into.split_at_mut(count);
            match self.chunks.get(chunk) {
                Some(Some(chunk)) => part.copy_from_slice(&chunk[start..start + count]),
                _ => part.fill(0),
            }
            offset += count;
            into = rest;
        }
    }

    /// Keeps `bytes` at `offset`.
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        if self.chunks.is_empty() {
            return;
        }
        let mut offset = index(offset);
        while !bytes.is_empty() {
            let (chunk, start) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
            let count = bytes.len().min(CHUNK_BYTES - start);
            let (part, rest) = bytes.split_at(count);
            let chunk = self.chunks[chunk].get_or_insert_with(|| vec![0; CHUNK_BYTES].into());
            write_page_by_page(&mut chunk[start..start + count], part);
            offset += count;
            bytes = rest;
        }
    }

    /// Fills `buffer`, which may be a list, from `offset` on.
    pub(super) fn read_into(&self, mut offset: u64, buffer: &mut IoBuffer) {
        for run in buffer.runs_mut() {
            let bytes = run.len() as u64;
            self.read(offset, run);
            offset += bytes;
        }
    }

    /// Keeps the content of `buffer`, which may be a list, at `offset`.
    pub(super) fn write_from(&mut self, mut offset: u64, buffer: &IoBuffer) {
        for run in buffer.runs() {
            self.write(offset, run);
            offset += run.len() as u64;
        }
    }

    /// Drops `bytes` bytes from `offset` on; the memory of whole chunks is freed.
    pub(super) fn clear(&mut self, offset: u64, bytes: u64) {
        if self.chunks.is_empty() {
            return;
        }
        let (mut offset, end) = (index(offset), index(offset + bytes));
        while offset < end {
            let (chunk, start) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
            let count = (end - offset).min(CHUNK_BYTES - start);
            if count == CHUNK_BYTES {
                self.chunks[chunk] = None;
            } else if let Some(chunk) = &mut self.chunks[chunk] {
                chunk[start..start + count].fill(0);
            }
            offset += count;
        }
    }

    /// Bytes of address space that have memory behind them.
    pub(super) fn held_bytes(&self) -> u64 {
        self.chunks.iter().flatten().map(|chunk| chunk.len() as u64).sum()
    }
}

/// Does not write zeros over zeros, so that they take no memory.
fn write_page_by_page(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(PAGE_BYTES).zip(from.chunks(PAGE_BYTES)) {
        // Compared by lines: comparing by bytes would take longer than copying.
        let is_zeros = |page: &[u8]| {
            page.chunks(LINE_BYTES).all(|line| line == &[0; LINE_BYTES][..line.len()])
        };
        if !(is_zeros(from) && is_zeros(to)) {
            to.copy_from_slice(from);
        }
    }
}

/// Addresses in memory fit the address space; a drive that does not fit is refused when it is made.
fn index(n: u64) -> usize {
    usize::try_from(n).expect("a drive in memory fits the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_when_written_and_given_back_when_cleared() {
        let chunk = CHUNK_BYTES as u64;
        let mut contents = Contents::new(Payload::Memory, 8 * chunk);
        assert_eq!(contents.held_bytes(), 0);
        contents.write(chunk - 4096, &[7; 8192]);
        assert_eq!(contents.held_bytes(), 2 * chunk);
        let mut bytes = [1; 8192];
        contents.read(chunk - 4096, &mut bytes);
        assert!(bytes.iter().all(|&b| b == 7));
        contents.clear(0, chunk);
        assert_eq!(contents.held_bytes(), chunk);
        contents.read(chunk - 4096, &mut bytes);
        assert!(bytes[..4096].iter().all(|&b| b == 0) && bytes[4096..].iter().all(|&b| b == 7));
        contents.clear(chunk, 4096);
        contents.read(chunk, &mut bytes);
        assert!(bytes.iter().all(|&b| b == 0));
    }

    #[test]
    fn zeros_replace_what_is_there() {
        let mut contents = Contents::new(Payload::Memory, 1 << 20);
        contents.write(0, &[7; 16_384]);
        contents.write(4096, &[0; 8192]);
        contents.write(10_000, &[0; 100]);
        let mut bytes = [1; 16_384];
        contents.read(0, &mut bytes);
        let is_kept = |at: usize| !(4096..12_288).contains(&at);
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == 7 * u8::from(is_kept(at))));
    }

    #[test]
    fn without_payload_everything_is_zero_and_nothing_is_held() {
        let mut contents = Contents::new(Payload::None, 1 << 40);
        contents.write(4096, &[7; 4096]);
        contents.clear(0, 1 << 40);
        let mut bytes = [1; 4096];
        contents.read(4096, &mut bytes);
        assert_eq!((bytes, contents.held_bytes()), ([0; 4096], 0));
    }
}
