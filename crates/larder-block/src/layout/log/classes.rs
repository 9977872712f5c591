//! IO classes in a log. A log reclaims segments in the order in which they were opened, whatever classes they contain.
//! So shares and priorities work differently from a cache that evicts single lines:
//!
//! - A class that has used up its share evicts its oldest data ([`eviction`](super::eviction)). This frees no segment,
//!   because the log advances with what is written. So the class does it only where this takes nothing from other
//!   classes; elsewhere it gets no more room. Dirty data cannot be evicted. If there is nothing else, the class gets
//!   no more room until some of it was destaged for the class ([`oldest_dirty`](super::oldest_dirty)).
//! - Data of a higher priority than other cached data is kept when its segment is drained, hit or not, and before data
//!   with hits. On average this stays within the budget for hits: the unused budget of segments carries over, because
//!   data of one class is stored together.
//! - With priorities, clean and dirty data go to the same segments ([`Classes::lane_of`]).
//! - Pinned data is kept whatever the budget. A log full of it would copy forever, so pinned classes together may use
//!   [`PINNED_PERCENT_MAX`] of it: at this limit, four bytes are written per client byte.

use std::cmp::Reverse;

use super::appender::{CLEAN_LANE, DIRTY_LANE};
use super::eviction::Eviction;
use super::index::MappedExtent;
use super::record_log::RecordLog;
use super::segments::RESERVED_SEGMENTS;
use super::written::Place;
use crate::layout::{ClassId, Refusal, Share, Shares, Span};

/// Most capacity of all pinned classes together, in percent.
const PINNED_PERCENT_MAX: u64 = 75;
/// Extra ready segments with priorities, because draining several segments in a row may free nothing.
const READY_FOR_RANKS: usize = 2;

/// The shares and priorities of IO classes, and what these allow.
#[derive(Debug)]
pub(super) struct Classes {
    shares: Shares,
    /// How classes evict data to make room.
    eviction: Eviction,
    /// Whether classes have different priorities, or are pinned.
    has_ranks: bool,
    /// Bytes with hits of a draining segment that may be kept.
    kept_bytes: usize,
    /// Bytes of high-priority data that may still be kept; unused allowance carries over, up to `credit_max`.
    credit_bytes: u64,
    credit_max: u64,
}

impl Classes {
    /// No class has a share. `kept_bytes`: how much of a segment with hits is kept when it is drained.
    pub(super) fn new(kept_bytes: usize, segments: u32) -> Self {
        Self {
            shares: Shares::default(),
            eviction: Eviction::default(),
            has_ranks: false,
            kept_bytes,
            credit_bytes: u64::MAX,
            credit_max: u64::from(segments) * kept_bytes as u64,
        }
    }

    fn is_pinned(&self, class: ClassId) -> bool {
        self.shares.get(class).priority.is_none()
    }

    fn pinned_sectors(&self, log: &RecordLog) -> u64 {
        let pinned = ClassId::all().filter(|class| self.is_pinned(*class));
        pinned.map(|class| log.index.class_sectors(class)).sum()
    }

    /// Changes the shares from now on.
    pub(super) fn change_shares(&mut self, log: &mut RecordLog, shares: Shares) {
        let first = shares.get(ClassId::UNCLASSIFIED).priority;
        let is_like_first = |class| shares.get(class).priority == first;
        self.has_ranks = first.is_none() || !ClassId::all().all(is_like_first);
        if self.has_ranks {
            log.leave_clean_lane();
        }
        self.eviction.shares_change(&self.shares, &shares);
        self.shares = shares;
    }

    /// The number of ready segments wanted beyond the usual number.
    pub(super) fn ready_for_ranks(&self) -> usize {
        if self.has_ranks { READY_FOR_RANKS } else { 0 }
    }

    /// Ready segments required before data of a draining segment is kept: one for each lane to which it may go.
    pub(super) fn ready_to_keep(&self) -> usize {
        if self.has_ranks { 1 } else { RESERVED_SEGMENTS }
    }

    /// The lane of data. With priorities all data goes to one lane. With two, segments that were open at the same time
    /// can only be refilled when all of them are drained, so the kept data of many in a row would find no room.
    pub(super) fn lane_of(&self, is_dirty: bool) -> usize {
        if is_dirty || self.has_ranks { DIRTY_LANE } else { CLEAN_LANE }
    }

    /// The sectors by which a class would exceed its share with `sectors` more. Pending data counts.
    fn too_many_with(&self, log: &RecordLog, class: ClassId, sectors: u32) -> u64 {
        let share = self.shares.get(class);
        if share.percent >= 100 {
            return 0;
        }
        let has = log.index.class_sectors(class) + log.appender.class_sectors(class);
        (has + u64::from(sectors)).saturating_sub(share.of(log.capacity_sectors()))
    }

    /// Why `sectors` more sectors of a class cannot be cached, whatever the class evicts.
    pub(super) fn refused(&self, log: &RecordLog, class: ClassId, sectors: u32) -> Option<Refusal> {
        let more = u64::from(sectors);
        let capacity = log.capacity_sectors();
        if more > self.shares.get(class).of(capacity) {
            return Some(Refusal::Full);
        }
        let own = self.too_many_with(log, class, sectors).min(more);
        let is_too_much =
            || self.pinned_sectors(log) + more - own > capacity * PINNED_PERCENT_MAX / 100;
        (self.is_pinned(class) && is_too_much()).then_some(Refusal::Pinned)
    }

    /// Whether `sectors` more sectors of a class find room without an eviction.
    fn has_room_for(&self, log: &RecordLog, class: ClassId, sectors: u32) -> bool {
        self.too_many_with(log, class, sectors) == 0 && self.refused(log, class, sectors).is_none()
    }

    /// Makes room for `sectors` more sectors of a class within its share. Returns whether there is room.
    pub(super) fn make_room(&mut self, log: &mut RecordLog, class: ClassId, sectors: u32) -> bool {
        let too_many = self.too_many_with(log, class, sectors);
        too_many == 0 || self.eviction.make_room(log, class, sectors, too_many)
    }

    /// Evicts a little of what exceeds lowered shares.
    pub(super) fn shrink_lowered(&mut self, log: &mut RecordLog) {
        // Called for each request, and mostly without anything to shrink.
        if !self.eviction.has_lowered() {
            return;
        }
        for class in self.eviction.lowered() {
            let too_many = self.too_many_with(log, class, 0);
            self.eviction.shrink(log, class, too_many);
        }
    }

    /// A class that was refused room because of dirty data since the last call; each is returned once.
    pub(super) fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        self.eviction.take_full_of_dirty()
    }

    /// The data of a class from `place` on is clean now: it is evicted first.
    pub(super) fn look_from(&mut self, class: ClassId, place: Place) {
        self.eviction.look_from(class, place);
    }

    /// Data at a location is now of a class for which it was not written there.
    pub(super) fn has_come_to(&mut self, log: &mut RecordLog, location: u64, class: ClassId) {
        let segment = log.segment_of(location);
        log.segments.has_changed_class(segment, class);
        self.eviction.look_again(class, log.segments.get(segment).generation());
    }

    /// The class of the sectors of `span` after a write, if `found` was cached there: the class of the write, unless
    /// it has no room.
    pub(super) fn class_of_write(
        &mut self,
        log: &mut RecordLog,
        class: ClassId,
        span: Span,
        found: &[MappedExtent],
    ) -> ClassId {
        match found.iter().find(|one| one.extent.class != class) {
            Some(other) if !self.has_room_for(log, class, span.sectors) => {
                let other = other.extent.class;
                let cached: u32 = found.iter().map(|one| one.span.sectors).sum();
                // The write must be accepted. If it exceeds the share, later requests evict the excess.
                self.make_room(log, other, span.sectors - cached);
                other
            }
            _ => class,
        }
    }

    /// Moves hit data to the class of the request, as far as that class has room.
    pub(super) fn take_over(
        &mut self,
        log: &mut RecordLog,
        class: ClassId,
        found: &[MappedExtent],
    ) {
        for one in found.iter().filter(|one| one.extent.class != class) {
            if self.has_room_for(log, class, one.extent.sectors) {
                log.index.reclassify(one.span, class);
                self.has_come_to(log, one.extent.location, class);
            }
        }
    }

    /// The share of the cached data that is evicted first.
    fn lowest_share(&self, log: &RecordLog) -> Share {
        let cached = ClassId::all().filter(|class| log.index.class_sectors(*class) > 0);
        let shares = cached.map(|class| self.shares.get(class));
        let lower = |a: Share, b: Share| if b.gives_way_before(a) { b } else { a };
        shares.reduce(lower).unwrap_or(Share::DEFAULT)
    }

    /// Selects what to keep of a segment that is drained: pinned data; by priority, data of a higher priority than
    /// other cached data, up to the credit; by hits, data with hits, up to the budget of a segment. Sorted by sectors.
    pub(super) fn choose_kept(
        &mut self,
        log: &RecordLog,
        found: &[MappedExtent],
    ) -> Vec<MappedExtent> {
        let budget = self.kept_bytes;
        self.credit_bytes = self.credit_bytes.saturating_add(budget as u64).min(self.credit_max);
        let (lowest, shares) = (self.lowest_share(log), self.shares);
        let share = |one: &MappedExtent| shares.get(one.extent.class);
        // Data beyond a share is not kept, whatever it is.
        let mut too_many: [u64; ClassId::COUNT] = [0; ClassId::COUNT];
        ClassId::all()
            .for_each(|class| too_many[class.index()] = self.too_many_with(log, class, 0));
        let mut kept = found.to_vec();
        kept.retain(|one| {
            let too_many = &mut too_many[one.extent.class.index()];
            let may_stay = *too_many == 0;
            *too_many = too_many.saturating_sub(u64::from(one.span.sectors));
            may_stay
        });
        // `None`, which means pinned, sorts first.
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
