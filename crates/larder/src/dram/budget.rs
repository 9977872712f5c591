//! The budget of the tier, which may become another one at any time.
//!
//! What is made by the size of the budget (length of segments, ghost, number of index shards) is made
//! anew when the budget is more than twice or less than half of what it was made for. Segments of
//! several lengths live side by side until the old ones leave.
//!
//! What is above a smaller budget leaves in steps: some of it at once, the rest with what comes. As long
//! as there is too much, a set lets several times as much go as it brings, so that a pass over
//! as many bytes as the new budget is more than enough; it finds a place above the budget meanwhile.
//! Whoever only looks lets one segment go, if nobody else is at it.

use super::index::SLOTS_MAX;
use super::memory::{self, PAGE_BYTES};
use super::policy;
use super::readers::LockedAlone;
use super::{DramTier, lock};
use crate::config::DramPolicy;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The tier is divided into about so many segments.
const SEGMENTS: usize = 512;
/// At least into so many, where these are pages.
const SEGMENTS_MIN: usize = 64;
pub(super) const SEGMENT_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 20;
/// One index shard for so many bytes of budget, at most [`SHARDS_MAX`]: a shard is small, so that one
/// that grows holds nobody up for long.
const SHARD_BYTES: usize = 512 << 10;
const SHARDS_MAX: usize = 1 << 18;
/// So many times fewer of them in a tier that has grown: they stay when it shrinks, and each keeps a page
/// of the process's heap from being given back.
const LATER_SHARDS_PART: usize = 8;
/// One lane for so many bytes of budget, at most [`LANES_MAX`].
const LANE_BYTES: usize = 64 << 20;
const LANES_MAX: usize = 8;
/// What a shrunk index takes at least is at most this part of the budget.
const INDEX_PART: usize = 8;
/// So many bytes leave in the call that makes the budget smaller: some hundredths of a second.
const LEAVE_AT_ONCE_BYTES: usize = 64 << 20;

/// Of a smaller tier nothing would be left for items.
pub(crate) const BYTES_MIN: u64 = 8 << 10;
/// An index entry cannot name more segments.
pub(crate) const BYTES_MAX: u64 = {
    let named = SLOTS_MAX as u64 * *SEGMENT_BYTES.end() as u64;
    let addressed = usize::MAX as u64 / 2;
    if named < addressed { named } else { addressed }
};

const _: () = {
    assert!(SEGMENTS_MIN < SEGMENTS && SHARDS_MAX.is_power_of_two());
    assert!(
        BYTES_MIN as usize / 4 >= *SEGMENT_BYTES.start(),
        "the least budget has a few segments"
    );
};

/// What follows from the size of the budget.
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
        // Whole pages, but for small tiers.
        let unit = if segment < 4 * PAGE_BYTES { 64 } else { PAGE_BYTES };
        Self {
            segment_bytes: segment / unit * unit,
            ghost_bytes: policy::ghost_bytes(policy, budget),
            shards: (budget / SHARD_BYTES).clamp(1, SHARDS_MAX).next_power_of_two(),
            lanes: (budget / LANE_BYTES).clamp(1, LANES_MAX),
        }
    }

    /// Of a tier that had another one: its segments come from the kernel, and go back there.
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

/// How far a change of the budget is.
#[derive(Debug)]
pub(super) struct Change {
    /// The budget that segments and ghost were made for. Held by the one who changes it.
    shaped_for: Mutex<usize>,
    /// More is there than the budget, which has become smaller.
    shrinking: AtomicBool,
    /// Bytes that leave for each that comes meanwhile.
    leaving: AtomicUsize,
    /// Held by the one who only looked, and lets something go.
    helping: Mutex<()>,
}

impl Change {
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
    /// Changes the budget. It is taken to be so much at least that what the index needs for nothing is a
    /// small part of it, which depends on the largest budget that there was.
    pub(crate) fn set_budget(&self, bytes: u64, now_s: u32) {
        let mut shaped_for = lock(&self.change.shaped_for);
        let least = self.index.memory_bytes_min() * INDEX_PART;
        let budget = usize::try_from(bytes.min(BYTES_MAX)).unwrap_or(usize::MAX).max(least);
        // Before longer segments are opened, which a smaller one would have no room for.
        if budget > self.pool.budget_bytes() {
            self.pool.set_budget(budget);
        }
        if budget / 2 > *shaped_for || budget < *shaped_for / 2 {
            self.reshape(budget);
            *shaped_for = budget;
        }
        debug_assert!(
            self.pool.segment_bytes() <= *SEGMENT_BYTES.end(),
            "an entry can name all places in it"
        );
        self.pool.set_budget(budget);
        self.pool.permits().follow(budget, self.pool.segment_bytes());
        drop(shaped_for);
        let is_above = self.pool.shrink(self.other_bytes());
        if is_above {
            let above = (self.pool.kept_bytes() + self.other_bytes()).saturating_sub(budget);
            let leaving = above.saturating_mul(2) / budget.max(1) + 2;
            self.change.leaving.store(leaving, Ordering::Relaxed);
        }
        self.change.shrinking.store(is_above, Ordering::Relaxed);
        if is_above {
            self.let_go(LEAVE_AT_ONCE_BYTES, now_s);
        }
    }

    /// Whether the tier could hold an item of `object_bytes` beside a few others.
    pub(crate) fn can_hold(&self, object_bytes: usize) -> bool {
        if self.has_room_for(object_bytes) {
            return true;
        }
        if object_bytes >= self.pool.budget_bytes() {
            return false;
        }
        // What was looked at while it changed may not belong together.
        let _as_it_is = lock(&self.change.shaped_for);
        self.has_room_for(object_bytes)
    }

    fn has_room_for(&self, object_bytes: usize) -> bool {
        // The index gives way when items leave, but for a little.
        let budget = self.pool.budget_bytes();
        let others = self.index.memory_bytes_min() + self.ghost.memory_bytes() + budget / 32;
        let others = others + self.pool.segment_bytes() * 4;
        object_bytes.saturating_add(64 + others) <= budget
    }

    /// Makes what follows from the budget anew. One at a time does so.
    fn reshape(&self, budget: usize) {
        let shape = Shape::later(budget, self.policy);
        assert!(SEGMENT_BYTES.contains(&shape.segment_bytes), "{shape:?}");
        assert!(shape.shards.is_power_of_two(), "hashes are divided by their bits: {shape:?}");
        let are_too_long = shape.segment_bytes < self.pool.segment_bytes();
        self.pool.set_segment_bytes(shape.segment_bytes);
        self.index.want_shards(shape.shards);
        // The ghost knows no lock but the one that we hold.
        self.ghost.resize(shape.ghost_bytes, self.index.readers(), &mut LockedAlone::new());
        if are_too_long {
            self.seal_all(&mut self.evictors.all());
        }
        self.reclaim();
    }

    /// Whether more is there than the budget, since it has become smaller.
    #[inline]
    pub(crate) fn is_shrinking(&self) -> bool {
        self.change.shrinking.load(Ordering::Relaxed)
    }

    /// How many bytes leave for so many that come, as long as the tier shrinks.
    pub(crate) fn leaving_for(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.change.leaving.load(Ordering::Relaxed))
    }

    /// The same for somebody who brings nothing: one segment, if nobody else is at it.
    #[cold]
    pub(crate) fn let_go_a_little(&self, now_s: u32) {
        if let Ok(_alone) = self.change.helping.try_lock() {
            self.let_go(1, now_s);
        }
    }

    /// Lets at least so many bytes go, unless the tier is within its budget before, or records must
    /// be demoted first.
    pub(super) fn let_go(&self, bytes: usize, now_s: u32) {
        let before = self.pool.kept_bytes();
        while self.pool.shrink(self.other_bytes()) {
            if before.saturating_sub(self.pool.kept_bytes()) >= bytes {
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

    /// Makes the index ready for a larger budget, a step at a time.
    pub(super) fn divide_a_shard(&self) {
        self.index.divide(self);
        self.reclaim();
    }
}
