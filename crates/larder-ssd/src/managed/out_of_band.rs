//! The out-of-band data that the firmware writes with each page, and the part of its memory that survives a power loss.
//!
//! Every programmed page carries its logical page (the reverse map) and a *version*: the ordinal of the host page write
//! that it came from. A copy keeps the version. The order within a unit is not enough, because several units are filled
//! at a time. A version costs 8 bytes per page, so it is optional. The version is the medium's word of out-of-band
//! data.
//!
//! A deallocation writes nothing to the pages. It is only in memory until the next checkpoint, which is taken on
//! request and before any erase that follows a deallocation. Without the checkpoint before an erase, an older copy of a
//! deallocated page could outlive the newest one, and come back.

use super::geometry::Geometry;
use super::map::PageMap;
use crate::nand::{Medium, PageIndex};

/// The newest version, and the deallocated pages.
#[derive(Debug)]
pub(crate) struct OutOfBand {
    /// 0 before the first write: no page carries version 0.
    newest: u64,
    /// One bit per logical page: deallocated before the last checkpoint and not written since.
    gone: Vec<u64>,
    /// Pages deallocated since the last checkpoint.
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

    /// Records that the host writes `count` pages from `lpn` on to the places from `first` on.
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

    /// Makes the deallocations so far durable.
    pub(crate) fn checkpoint(&mut self, map: &PageMap) {
        for lpn in self.pending.drain(..) {
            if map.physical(lpn).is_none() {
                self.gone[lpn as usize / 64] |= 1 << (lpn % 64);
            }
        }
    }

    /// Drops what was only in memory.
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
