//! Which objects share a region.
//!
//! ```text
//!   shelf 0                  what fits no other
//!   shelf 1 ..               a class of times to live each
//!   behind these             the upper segments of a segmented FIFO: what was kept at a reclaim
//! ```
//!
//! With several shelves, sequence numbers of fillings say no more which of two records is the newer
//! one: a region of one shelf may be filled long after one of another shelf was begun. So there every
//! record that is forgotten needs a tombstone, an expired one too: a crash then finds at most one of
//! each key. With one shelf the newest is the one that counts.

use super::LocPlace;
use super::regions::SEGMENTS;
use crate::config::RegionEviction;

impl LocPlace {
    pub(super) fn shelves(&self) -> usize {
        shelves(self.ttl_classes.len(), self.eviction)
    }

    /// The shelf of an object that expires then.
    pub(super) fn shelf_of(&self, expiry_s: u32, now_s: u32) -> usize {
        if expiry_s == 0 {
            return 0;
        }
        let left = expiry_s.saturating_sub(now_s);
        let class = self.ttl_classes.iter().position(|&bound| left <= bound);
        class.map_or(0, |class| class + 1)
    }

    /// The shelf of an object that is kept at a reclaim, after so many hits.
    pub(super) fn shelf_of_kept(&self, expiry_s: u32, now_s: u32, hits: u8) -> usize {
        let segment = usize::from(hits).min(SEGMENTS - 1);
        match self.shelf_of(expiry_s, now_s) {
            0 if segment > 0 && self.eviction == RegionEviction::SegmentedFifo => {
                self.ttl_classes.len() + segment
            }
            shelf => shelf,
        }
    }

    /// Whether the device is to keep shelves apart.
    pub(super) fn separates_shelves(&self) -> bool {
        self.handles.iter().any(|handle| Some(handle) != self.handles.first())
    }

    /// The segment that regions of a shelf come to.
    pub(super) fn segment_of(&self, shelf: usize) -> usize {
        shelf.saturating_sub(self.ttl_classes.len())
    }
}

/// How many regions are open at a time.
pub(crate) fn shelves(ttl_classes: usize, eviction: RegionEviction) -> usize {
    let upper = if eviction == RegionEviction::SegmentedFifo { SEGMENTS - 1 } else { 0 };
    1 + ttl_classes + upper
}
