//! IO classes in a log. Segments give way in the order in which they were opened, whatever classes are in them, so
//! shares and priorities hold otherwise than where single lines give way:
//!
//! - A class that has its share gives up what it cached first ([`evicting`](super::evicting)). That frees no segment:
//!   the log goes on as it is written. So it does that only where it takes nothing from others, and gets no more
//!   where it would. What is dirty cannot go: where there is nothing else, the class gets no more either, before
//!   some of it was destaged for the class ([`oldest_dirty`](super::oldest_dirty)).
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
        self.evicting.shares_change(&self.shares, &shares);
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

    /// What a class would have more than it may have, in sectors, with so many more. What is pending counts.
    pub(super) fn too_many_with(&self, class: ClassId, sectors: u32) -> u64 {
        let share = self.shares.get(class);
        if share.percent >= 100 {
            return 0;
        }
        let has = self.index.class_sectors(class) + self.appender.class_sectors(class);
        (has + u64::from(sectors)).saturating_sub(share.of(self.capacity_sectors()))
    }

    /// Why so many more sectors of a class cannot be kept, whatever it gives up.
    pub(super) fn refused(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        let more = u64::from(sectors);
        let capacity = self.capacity_sectors();
        if more > self.shares.get(class).of(capacity) {
            return Some(Refusal::Full);
        }
        let own = self.too_many_with(class, sectors).min(more);
        let is_too_much =
            || self.pinned_sectors() + more - own > capacity * PINNED_PERCENT_MAX / 100;
        (self.is_pinned(class) && is_too_much()).then_some(Refusal::Pinned)
    }

    /// Whether so many more sectors of a class find room without its giving up any.
    fn has_room_for(&self, class: ClassId, sectors: u32) -> bool {
        self.too_many_with(class, sectors) == 0 && self.refused(class, sectors).is_none()
    }

    /// The class of what a write leaves of `span`, where this was found: its own, unless that has no room.
    pub(super) fn class_of_write(
        &mut self,
        class: ClassId,
        span: Span,
        found: &[Found],
    ) -> ClassId {
        match found.iter().find(|one| one.extent.class != class) {
            Some(other) if !self.has_room_for(class, span.sectors) => {
                let other = other.extent.class;
                let cached: u32 = found.iter().map(|one| one.span.sectors).sum();
                // It has no choice: what is too much then goes with what comes next.
                self.make_room_in(other, span.sectors - cached);
                other
            }
            _ => class,
        }
    }

    /// What was hit is of the class that has hit it from now on, as far as that has room.
    pub(super) fn take_over(&mut self, class: ClassId, found: &[Found]) {
        for one in found.iter().filter(|one| one.extent.class != class) {
            if self.has_room_for(class, one.extent.sectors) {
                self.index.reclassify(one.span, class);
                self.has_come_to(self.geometry.place_of(one.extent.location).0, class);
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
        // What is more than a share gives way, whatever it is.
        let mut too_many: [u64; ClassId::COUNT] = [0; ClassId::COUNT];
        ClassId::all().for_each(|class| too_many[class.index()] = self.too_many_with(class, 0));
        let mut kept = found.to_vec();
        kept.retain(|one| {
            let too_many = &mut too_many[one.extent.class.index()];
            let may_stay = *too_many == 0;
            *too_many = too_many.saturating_sub(u64::from(one.span.sectors));
            may_stay
        });
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
