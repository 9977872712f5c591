//! IO classes in a log. Segments give way in the order in which they were opened, whatever classes are in them, so
//! shares and priorities hold otherwise than where single lines give way:
//!
//! - A class that has its share gets no more until segments that hold some of it have been filled anew. To make room in
//!   it by voiding its oldest data would not free a segment: the log would go on all the same, and take from others as
//!   much as the class writes.
//! - What is of a higher priority than something else that is cached is kept where its segment gives way, hit or not,
//!   in front of what had hits. On average that is no more than the budget for hits: what segments have not used of
//!   theirs is saved, for what is of one class lies together.
//! - Then data of both kinds go to the same segments, clean and dirty ([`LogLayout::lane_of`]).
//! - What is pinned is kept whatever the budget says. A log that is full of it would copy for ever, so pinned classes
//!   together have [`PINNED_PERCENT_MAX`] of it: with so much, four bytes are written for one of a user.

use std::cmp::Reverse;

use super::appender::{CLEAN_LANE, DIRTY_LANE};
use super::index::Found;
use super::segments::RESERVED_SEGMENTS;
use super::state::LogLayout;
use crate::layout::{ClassId, Refusal, SECTOR_BYTES, Share, Shares, Span};

/// What pinned classes may have together.
const PINNED_PERCENT_MAX: u64 = 75;
/// Segments that should be ready beyond those of a log without priorities: several in a row may free nothing.
const READY_FOR_RANKS: usize = 2;

impl LogLayout {
    fn capacity_sectors(&self) -> u64 {
        self.geometry.capacity_bytes() / SECTOR_BYTES as u64
    }

    fn is_pinned(&self, class: ClassId) -> bool {
        self.shares.get(class).priority.is_none()
    }

    fn pinned_sectors(&self) -> u64 {
        let pinned = ClassId::all().filter(|class| self.is_pinned(*class));
        pinned.map(|class| self.index.class_sectors(class)).sum()
    }

    /// Has other shares from now on.
    pub(super) fn change_shares(&mut self, shares: Shares) {
        let first = shares.get(ClassId::UNCLASSIFIED).priority;
        let is_like_first = |class| shares.get(class).priority == first;
        self.has_ranks = first.is_none() || !ClassId::all().all(is_like_first);
        if self.has_ranks {
            self.leave_clean_lane();
        }
        self.shares = shares;
    }

    /// Segments that should be ready beyond the usual ones.
    pub(super) fn ready_for_ranks(&self) -> usize {
        if self.has_ranks { READY_FOR_RANKS } else { 0 }
    }

    /// Segments that have to be ready for something of a draining one to be kept: one for each lane that it may go to.
    pub(super) fn ready_to_keep(&self) -> usize {
        if self.has_ranks { 1 } else { RESERVED_SEGMENTS }
    }

    /// The lane of data. Where there are priorities all go to one: of segments that were open at the same time none is
    /// filled anew before all are drained, and what is kept of many in a row would find no room.
    pub(super) fn lane_of(&self, is_dirty: bool) -> usize {
        if is_dirty || self.has_ranks { DIRTY_LANE } else { CLEAN_LANE }
    }

    /// Has one lane from now on.
    fn leave_clean_lane(&mut self) {
        while let Some(pending) = self.appender.pop(CLEAN_LANE) {
            self.appender.push(DIRTY_LANE, pending);
        }
        if let Some(open) = self.appender.lanes[CLEAN_LANE].open.take() {
            self.segments.seal(open);
        }
        self.has_changed = true;
    }

    /// Whether a class has more than it may have: what that is was changed.
    fn has_too_much(&self, class: ClassId) -> bool {
        self.index.class_sectors(class) > self.shares.get(class).of(self.capacity_sectors())
    }

    /// Why so many more sectors of a class cannot be kept.
    pub(super) fn refused(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        let (share, more) = (self.shares.get(class), u64::from(sectors));
        let capacity = self.capacity_sectors();
        if share.percent < 100 && self.index.class_sectors(class) + more > share.of(capacity) {
            return Some(Refusal::Full);
        }
        let is_too_much = || self.pinned_sectors() + more > capacity * PINNED_PERCENT_MAX / 100;
        (self.is_pinned(class) && is_too_much()).then_some(Refusal::Pinned)
    }

    /// The class of what a write leaves of `span`, where this was found: its own, unless that has no room.
    pub(super) fn class_of_write(&self, class: ClassId, span: Span, found: &[Found]) -> ClassId {
        match found.iter().find(|one| one.extent.class != class) {
            Some(other) if self.refused(class, span.sectors).is_some() => other.extent.class,
            _ => class,
        }
    }

    /// What was hit is of the class that has hit it from now on, as far as that has room.
    pub(super) fn take_over(&mut self, class: ClassId, found: &[Found]) {
        for one in found.iter().filter(|one| one.extent.class != class) {
            if self.refused(class, one.extent.sectors).is_none() {
                self.index.reclassify(one.span, class);
            }
        }
    }

    /// The share of what is cached and gives way first.
    fn lowest_share(&self) -> Share {
        let cached = ClassId::all().filter(|class| self.index.class_sectors(*class) > 0);
        let shares = cached.map(|class| self.shares.get(class));
        let lower = |a: Share, b: Share| if b.gives_way_before(a) { b } else { a };
        shares.reduce(lower).unwrap_or(Share::DEFAULT)
    }

    /// Of what is in a segment that gives way: what is pinned; by priority what is of a higher one than something else,
    /// as far as the credit goes; by hits what had some, up to the budget of a segment. By sectors.
    pub(super) fn choose_kept(&mut self, found: &[Found]) -> Vec<Found> {
        let budget = self.policy.reinsert_bytes;
        let most = u64::from(self.geometry.segments) * budget as u64;
        self.credit_bytes = self.credit_bytes.saturating_add(budget as u64).min(most);
        let (lowest, shares) = (self.lowest_share(), self.shares);
        let share = |one: &Found| shares.get(one.extent.class);
        let may_stay =
            |one: &&Found| share(one).priority.is_none() || !self.has_too_much(one.extent.class);
        let mut kept: Vec<Found> = found.iter().filter(may_stay).copied().collect();
        // `None`, which is pinned, comes first.
        kept.sort_by_key(|one| (share(one).priority, Reverse(one.extent.hits)));
        let (mut room, mut credit) = (budget, self.credit_bytes);
        kept.retain(|one| {
            let bytes = one.span.bytes();
            let is_pinned = share(one).priority.is_none();
            let is_higher = lowest.gives_way_before(share(one)) && bytes as u64 <= credit;
            let fits = is_pinned || is_higher || (one.extent.hits > 0 && bytes <= room);
            if fits {
                room = room.saturating_sub(bytes);
                credit = credit.saturating_sub(bytes as u64);
            }
            fits
        });
        self.credit_bytes = credit;
        kept.sort_by_key(|one| one.span);
        kept
    }
}
