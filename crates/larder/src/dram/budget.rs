//! The budget of the tier, which may change at any time.
//!
//! Segment length, ghost size and the number of index shards depend on the budget. They are recomputed when the
//! budget is more than twice or less than half of the one that they were made for. Segments of several lengths
//! coexist until the old ones leave.
//!
//! After a reduction, the excess leaves in steps: some of it at once, the rest with new items. While there is excess,
//! a set evicts several times as much as it brings, so the excess is gone well before as many bytes as the new budget
//! have been set. Until then new items may be placed above the budget. A look-up evicts one segment, if no other
//! caller is doing so.

use super::index::SLOTS_MAX;
use super::memory::{self, PAGE_BYTES};
use super::policy;
use super::readers::LockProofAlone;
use super::{DramTier, lock};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::config::{DRAM_BYTES_MAX, DRAM_BYTES_MIN, DramPolicy};

/// Approximate number of segments of the tier.
const SEGMENTS: usize = 512;
/// Minimum number of segments, if they are pages.
const SEGMENTS_MIN: usize = 64;
pub(super) const SEGMENT_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 20;
/// One index shard for this number of bytes of budget, at most [`SHARDS_MAX`]. Shards are small, so that a growing
/// shard blocks others only briefly.
const SHARD_BYTES: usize = 512 << 10;
const SHARDS_MAX: usize = 1 << 18;
/// A tier that has grown gets fewer shards by this factor: they remain when it shrinks, and each prevents a page of
/// the heap from being returned to the system.
const LATER_SHARDS_PART: usize = 8;
/// One lane for this number of bytes of budget, at most [`LANES_MAX`].
const LANE_BYTES: usize = 64 << 20;
const LANES_MAX: usize = 8;
/// The minimum memory of a shrunk index is at most this fraction of the budget (reciprocal).
const INDEX_PART: usize = 8;
/// Bytes evicted in the call that reduces the budget: some hundredths of a second.
const LEAVE_AT_ONCE_BYTES: usize = 64 << 20;

const _: () = {
    assert!(SEGMENTS_MIN < SEGMENTS && SHARDS_MAX.is_power_of_two());
    assert!(
        DRAM_BYTES_MIN / 4 >= *SEGMENT_BYTES.start() as u64,
        "the least budget has a few segments"
    );
    assert!(
        DRAM_BYTES_MAX <= SLOTS_MAX as u64 * *SEGMENT_BYTES.end() as u64,
        "index entries can address all segments"
    );
};

/// Parameters derived from the budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) segment_bytes: usize,
    pub(super) ghost_bytes: usize,
    pub(super) shards: usize,
    pub(super) lanes: usize,
}

impl Shape {
    pub(super) fn of(budget: usize, policy: DramPolicy) -> Self {
        let segment = (budget / SEGMENTS).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        // Whole pages, except for small tiers.
        let unit = if segment < 4 * PAGE_BYTES { 64 } else { PAGE_BYTES };
        Self {
            segment_bytes: segment / unit * unit,
            ghost_bytes: policy::ghost_bytes(policy, budget),
            shards: (budget / SHARD_BYTES).clamp(1, SHARDS_MAX).next_power_of_two(),
            lanes: (budget / LANE_BYTES).clamp(1, LANES_MAX),
        }
    }

    /// The shape of a tier whose budget has changed: its segments come from the kernel, and return there.
    fn later(budget: usize, policy: DramPolicy) -> Self {
        let pages = (budget / SEGMENTS_MIN / PAGE_BYTES).min(4);
        let shape = Self::of(budget, policy);
        Self {
            segment_bytes: shape.segment_bytes.max(pages * PAGE_BYTES),
            shards: (shape.shards / LATER_SHARDS_PART).max(1),
            ..shape
        }
    }
}

/// State of a change of the budget.
#[derive(Debug)]
pub(super) struct BudgetChange {
    /// The budget that segments and ghost were made for. Locked during a change.
    shaped_for: Mutex<usize>,
    /// The tier exceeds its budget, which has become smaller.
    shrinking: AtomicBool,
    /// Bytes to evict for each new byte in that case.
    leaving: AtomicUsize,
    /// Locked by the look-up that is evicting.
    helping: Mutex<()>,
}

impl BudgetChange {
    pub(super) fn none_yet(budget: usize) -> Self {
        Self {
            shaped_for: Mutex::new(budget),
            shrinking: AtomicBool::new(false),
            leaving: AtomicUsize::new(1),
            helping: Mutex::default(),
        }
    }
}

impl DramTier {
    /// Changes the budget. The minimum is such that the fixed memory of the index is a small part of it; that memory
    /// depends on the largest budget that there was.
    pub(crate) fn set_budget(&self, bytes: u64, now_s: u32) {
        let mut shaped_for = lock(&self.change.shaped_for);
        let least = self.index.memory_bytes_min() * INDEX_PART;
        let budget = usize::try_from(bytes.min(DRAM_BYTES_MAX)).unwrap_or(usize::MAX).max(least);
        // Raise the budget before longer segments are opened, for which the old one would have no room.
        if budget > self.segments.pool().budget_bytes() {
            self.segments.pool().set_budget(budget);
        }
        if budget / 2 > *shaped_for || budget < *shaped_for / 2 {
            self.reshape(budget);
            *shaped_for = budget;
        }
        debug_assert!(
            self.segments.pool().segment_bytes() <= *SEGMENT_BYTES.end(),
            "an entry can name all places in it"
        );
        self.segments.pool().set_budget(budget);
        self.segments.pool().permits().follow(budget, self.segments.pool().segment_bytes());
        drop(shaped_for);
        let is_above = self.segments.pool().shrink(self.other_bytes());
        if is_above {
            let above =
                (self.segments.pool().kept_bytes() + self.other_bytes()).saturating_sub(budget);
            let leaving = above.saturating_mul(2) / budget.max(1) + 2;
            self.change.leaving.store(leaving, Ordering::Relaxed);
        }
        self.change.shrinking.store(is_above, Ordering::Relaxed);
        if is_above {
            self.shrink_by(LEAVE_AT_ONCE_BYTES, now_s);
        }
    }

    /// Whether the tier could hold an item of `object_bytes` next to a few others.
    pub(crate) fn can_hold(&self, object_bytes: usize) -> bool {
        if self.has_room_for(object_bytes) {
            return true;
        }
        if object_bytes >= self.segments.pool().budget_bytes() {
            return false;
        }
        // The values read during a change may be inconsistent: check again under the lock.
        let _as_it_is = lock(&self.change.shaped_for);
        self.has_room_for(object_bytes)
    }

    fn has_room_for(&self, object_bytes: usize) -> bool {
        // The index shrinks when items leave, except for its minimum.
        let budget = self.segments.pool().budget_bytes();
        let others = self.index.memory_bytes_min() + self.ghost.memory_bytes() + budget / 32;
        let others = others + self.segments.pool().segment_bytes() * 4;
        object_bytes.saturating_add(64 + others) <= budget
    }

    /// Recomputes what depends on the budget. The caller holds `shaped_for`.
    fn reshape(&self, budget: usize) {
        let shape = Shape::later(budget, self.policy);
        assert!(SEGMENT_BYTES.contains(&shape.segment_bytes), "{shape:?}");
        assert!(shape.shards.is_power_of_two(), "hashes are divided by their bits: {shape:?}");
        let are_too_long = shape.segment_bytes < self.segments.pool().segment_bytes();
        self.segments.pool().set_segment_bytes(shape.segment_bytes);
        self.index.want_shards(shape.shards);
        // The caller's lock is the only lock of the ghost.
        self.ghost.resize(shape.ghost_bytes, self.index.readers(), &mut LockProofAlone::new());
        if are_too_long {
            self.seal_all(&mut self.evictors.all());
        }
        self.reclaim();
    }

    /// Whether the tier exceeds its budget since that became smaller.
    #[inline]
    pub(crate) fn is_shrinking(&self) -> bool {
        self.change.shrinking.load(Ordering::Relaxed)
    }

    /// Bytes to evict for `bytes` new ones while the tier shrinks.
    pub(crate) fn leaving_for(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.change.leaving.load(Ordering::Relaxed))
    }

    /// Evicts a segment for a caller that brings nothing, if no other such caller is doing so.
    #[cold]
    pub(crate) fn shrink_by_segment(&self, now_s: u32) {
        if let Ok(_alone) = self.change.helping.try_lock() {
            self.shrink_by(1, now_s);
        }
    }

    /// Evicts at least `bytes` bytes, unless the tier is within its budget before that, or records must be demoted
    /// first.
    pub(super) fn shrink_by(&self, bytes: usize, now_s: u32) {
        let before = self.segments.pool().kept_bytes();
        while self.segments.pool().shrink(self.other_bytes()) {
            if before.saturating_sub(self.segments.pool().kept_bytes()) >= bytes {
                return;
            }
            if !self.make_room(now_s) {
                if self.demotions.will_make_room() {
                    return;
                }
                break; // the rest is pinned
            }
        }
        if self.change.shrinking.swap(false, Ordering::Relaxed) {
            memory::trim();
        }
    }

    /// Divides one more shard of the index, as preparation for a larger budget.
    pub(super) fn divide_a_shard(&self) {
        self.index.divide(self);
        self.reclaim();
    }
}
