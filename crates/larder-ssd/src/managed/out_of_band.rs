//! What the firmware writes beside each page, and what of its memory survives a power loss.
//!
//! Every programmed page carries its logical page (the reverse map) and a *version*: the ordinal of
//! the host page write that it came from. A copy keeps the version. Order within a unit is not
//! enough, because several units are filled at a time; hence 8 bytes a page, and hence optional.
//! The version is the medium's word of out-of-band data.
//!
//! A deallocation leaves no trace on the pages. It is in memory until the next checkpoint, which is
//! taken on request and before any erase that follows a deallocation. Without the second rule an
//! older copy of a deallocated page could outlive the newest one, and come back.

use super::geometry::Geometry;
use super::map::PageMap;
use crate::nand::{Medium, PageIndex};

/// The newest version, and what was deallocated.
#[derive(Debug)]
pub(crate) struct OutOfBand {
    /// 0 before the first write: no page carries that.
    newest: u64,
    /// One bit a logical page: deallocated before the last checkpoint and not written since.
    gone: Vec<u64>,
    /// Deallocated since the last checkpoint.
    pending: Vec<u32>,
}

impl OutOfBand {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let size = |pages: u64| usize::try_from(pages).expect("page counts fit 32 bits");
        Self {
            newest: 0,
            gone: vec![0; size(geometry.logical_pages.div_ceil(64))],
            pending: Vec::new(),
        }
    }

    /// The host writes `count` pages from `lpn` on to `first` and the places after it.
    pub(crate) fn host_writes(&mut self, medium: &mut Medium, lpn: u32, first: u32, count: u32) {
        for i in 0..count {
            self.newest += 1;
            medium.write_word(PageIndex(first + i), self.newest);
            self.gone[(lpn + i) as usize / 64] &= !(1 << ((lpn + i) % 64));
        }
    }

    pub(crate) fn deallocated(&mut self, lpn: u32, count: u32) {
        self.pending.extend(lpn..lpn + count);
    }

    pub(crate) fn before_erase(&mut self, map: &PageMap) {
        if !self.pending.is_empty() {
            self.checkpoint(map);
        }
    }

    /// Makes the deallocations so far last.
    pub(crate) fn checkpoint(&mut self, map: &PageMap) {
        for lpn in self.pending.drain(..) {
            if map.physical(lpn).is_none() {
                self.gone[lpn as usize / 64] |= 1 << (lpn % 64);
            }
        }
    }

    /// What was only in memory is lost.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    pub(crate) fn is_gone(&self, lpn: u32) -> bool {
        self.gone[lpn as usize / 64] >> (lpn % 64) & 1 == 1
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.gone.len() * size_of::<u64>()) as u64
    }
}
