//! The written data, by page of the drive.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use crate::managed;

const PAGE_BYTES: usize = 4096;
const _: () = assert!(PAGE_BYTES as u64 == managed::PAGE_BYTES);

/// Contents of the drive. Unwritten or deallocated pages read as zeros.
#[derive(Debug)]
pub(super) struct Payload {
    pages: Option<HashMap<u64, Box<[u8; PAGE_BYTES]>>>,
}

impl Payload {
    pub(super) fn new(keep: bool) -> Self {
        Self { pages: keep.then(HashMap::new) }
    }

    /// Writes `data` from byte `start` of the drive on. Partly covered pages keep the rest of their content.
    pub(super) fn write(&mut self, start: u64, data: &[u8]) {
        let Some(pages) = &mut self.pages else { return };
        let mut data = data;
        for (page, at, bytes) in pieces(start, data.len()) {
            let (piece, rest) = data.split_at(bytes);
            let content = pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            if let Some(room) = content.get_mut(at..at + bytes) {
                room.copy_from_slice(piece);
            }
            data = rest;
        }
    }

    /// Reads from byte `start` of the drive on.
    pub(super) fn read(&self, start: u64, data: &mut [u8]) {
        data.fill(0);
        let Some(pages) = &self.pages else { return };
        let mut data = data;
        for (page, at, bytes) in pieces(start, data.len()) {
            let (room, rest) = data.split_at_mut(bytes);
            if let Some(piece) = pages.get(&page).and_then(|content| content.get(at..at + bytes)) {
                room.copy_from_slice(piece);
            }
            data = rest;
        }
    }

    pub(super) fn discard(&mut self, first_page: u64, count: u64) {
        if let Some(pages) = &mut self.pages {
            (first_page..first_page.saturating_add(count)).for_each(|page| _ = pages.remove(&page));
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.clear();
        }
    }
}

/// The pages of `bytes` bytes from byte `start` of the drive on: for each the page, the first byte in it, and how many.
fn pieces(start: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut page, mut left) = (start / managed::PAGE_BYTES, bytes);
    let mut at = usize::try_from(start % managed::PAGE_BYTES).unwrap_or(0);
    std::iter::from_fn(move || {
        let count = left.min(PAGE_BYTES - at);
        let piece = (count > 0).then_some((page, at, count));
        (page, at, left) = (page + 1, 0, left - count);
        piece
    })
}
