//! The regions and their states.
//!
//! ```text
//!  Unknown ──► Free or Sealed, when its footer was read
//!
//!   Free ──► Active ──► Sealed ──► Active (with a new sequence number) ──► …
//!    ▲         │           │
//!    │         │           ├── reclaimed together with another region ──► Free
//!    │         │           └── all of it has expired ──► Expired ──► Free
//!    │         └── a write failed ──► Retired ── after a back-off ──► Free
//!    └── at the start
//! ```
//!
//! 1. An Active region is open (records are added) or closed (its last pieces are on their way). At most one is open
//!    for each stream. The parts of it that are on flash are read there, the rest from memory.
//! 2. An Active region is written piece by piece as it fills, each place once, several pieces at a time. Pieces are
//!    whole blocks: if one is written before it is full, the next record begins in the next block. The last piece has
//!    the footer; it is sent when all others are on flash.
//! 3. A Sealed region is completely on flash, with its footer. A region of which a piece failed is never Sealed.
//! 4. A region gets a new sequence number each time it becomes Active; numbers are never used twice, not even after a
//!    restart.
//! 5. After an opening a region is Unknown until its footer was read and its records are in the index. Until then it is
//!    not reclaimed.
//! 6. An index entry that points into a region was written in the region's current filling, or the region is Expired:
//!    then the entry counts as absent. Nothing is appended to an Expired region, and it is Free only after every part
//!    of the index was searched for entries that point into it. So none of these entries is left when its next filling
//!    begins.

use larder_device::PlacementHandle;

use crate::backoff::Backoff;
use crate::eviction::RegionEviction;
use crate::expiry::is_expired;
use crate::region::{Region, RegionId, RegionIdentity, RegionState};

/// Segments of [`RegionEviction::SegmentedFifo`].
pub const SEGMENTS: usize = 3;

/// All regions of one log.
#[derive(Debug)]
pub struct Regions {
    all: Vec<Region>,
    next_sequence: u64,
    ticks: u64,
    fillings: u64,
}

/// The region to fill next.
#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    /// The region to fill.
    pub region: RegionId,
    /// Sealed regions to empty first, among them `region`. Empty if `region` is already free.
    pub reclaimed: Vec<RegionIdentity>,
}

impl Regions {
    /// `count` Free regions. `first_sequence` is larger than any number that was ever used on the device.
    pub fn new(count: u32, first_sequence: u64) -> Self {
        let free = Region::new(RegionState::Free, 0);
        let all = vec![free; count as usize];
        Self { all, next_sequence: first_sequence, ticks: 0, fillings: 0 }
    }

    /// The facts that are remembered about a region.
    pub fn get(&self, region: RegionId) -> &Region {
        &self.all[region.index()]
    }

    fn get_mut(&mut self, region: RegionId) -> &mut Region {
        &mut self.all[region.index()]
    }

    /// All regions, by their numbers.
    pub fn all(&self) -> &[Region] {
        &self.all
    }

    fn numbered(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        (0..).map(RegionId::new).zip(&self.all)
    }

    /// All regions in this state.
    pub fn in_state(&self, state: RegionState) -> Vec<RegionId> {
        self.numbered().filter(|(_, it)| it.state == state).map(|(region, _)| region).collect()
    }

    /// The fillings of Sealed regions.
    pub fn sealed(&self) -> impl Iterator<Item = RegionIdentity> {
        let sealed = self.numbered().filter(|(_, it)| it.state == RegionState::Sealed);
        sealed.map(|(region, it)| RegionIdentity { region, sequence: it.sequence })
    }

    /// Sealed regions all of whose records have expired.
    pub fn expired(&self, now_s: u32) -> Vec<RegionId> {
        let expired = self.numbered().filter(|(_, it)| {
            it.state == RegionState::Sealed && is_expired(it.latest_expiry_s, now_s)
        });
        expired.map(|(region, _)| region).collect()
    }

    /// A sequence number for the next filling.
    pub fn number_filling(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Free to Active: a filling of `region` with this number begins.
    pub fn activate(&mut self, region: RegionId, sequence: u64) {
        let Region { state, sequence: last, backoff, .. } = *self.get(region);
        assert_eq!(state, RegionState::Free, "only what is free is filled");
        assert!(last <= sequence && sequence < self.next_sequence, "numbers grow");
        self.ticks += 1;
        self.fillings += 1;
        let (last_hit, filled_at) = (self.ticks, self.fillings);
        let active = Region::new(RegionState::Active, sequence);
        *self.get_mut(region) = Region { last_hit, filled_at, backoff, ..active };
    }

    /// Notes which stream fills an Active region, and since when.
    pub(crate) fn note_filling(
        &mut self,
        region: RegionId,
        (stream, stays, handle): (usize, bool, PlacementHandle),
        now_s: u32,
    ) {
        let active = self.get_mut(region);
        assert_eq!(active.state, RegionState::Active, "only an active region has a writer");
        (active.stream, active.begun_s) = (u16::try_from(stream).ok(), now_s);
        (active.stays, active.handle) = (stays, Some(handle));
    }

    /// Notes which stream has filled a Sealed region that an earlier opening has left.
    pub fn note_filled(&mut self, region: RegionId, (stream, stays): (u16, bool)) {
        let sealed = self.get_mut(region);
        assert_eq!(sealed.state, RegionState::Sealed, "it was restored");
        (sealed.stream, sealed.stays) = (Some(stream), stays);
    }

    /// Active to Sealed: the region is completely on flash. `latest_expiry_s` is 0 if one of its records never expires.
    pub fn seal(&mut self, region: RegionId, segment: usize, latest_expiry_s: u32) {
        assert!(segment < SEGMENTS);
        self.ticks += 1;
        let entered = self.ticks;
        let sealed = self.get_mut(region);
        assert_eq!(sealed.state, RegionState::Active, "only what was filled is sealed");
        sealed.state = RegionState::Sealed;
        (sealed.segment, sealed.entered) = (segment, entered);
        sealed.latest_expiry_s = latest_expiry_s;
        sealed.backoff = Backoff::default();
        self.balance_segments();
    }

    /// Moves the oldest region of a segment that has more than its share to the end of the segment below.
    fn balance_segments(&mut self) {
        let sealed = |region: &&mut Region| region.state == RegionState::Sealed;
        let share = self.all.iter_mut().filter(sealed).count() / SEGMENTS;
        for segment in (1..SEGMENTS).rev() {
            loop {
                let regions = self.all.iter_mut().filter(sealed);
                let mut inside: Vec<_> = regions.filter(|it| it.segment == segment).collect();
                if inside.len() <= share {
                    break;
                }
                self.ticks += 1;
                let oldest = inside.iter_mut().min_by_key(|region| region.entered);
                let Some(oldest) = oldest else { break };
                (oldest.segment, oldest.entered) = (segment - 1, self.ticks);
            }
        }
    }

    /// Sealed, Expired or Unknown to Free or Expired: nothing before this filling counts any more.
    pub fn empty(&mut self, region: RegionId, sequence: u64, state: RegionState) {
        assert!(matches!(state, RegionState::Free | RegionState::Expired));
        let Region { state: was, sequence: last, .. } = *self.get(region);
        assert!(!matches!(was, RegionState::Active | RegionState::Retired), "{was:?} is in use");
        assert!(last <= sequence, "numbers grow");
        *self.get_mut(region) = Region::new(state, sequence);
    }

    /// Active to Retired: a write of the region failed; it is not filled again before its back-off is over.
    pub fn retire(&mut self, region: RegionId, sequence: u64, now_s: u32) {
        let Region { state, mut backoff, .. } = *self.get(region);
        assert_eq!(state, RegionState::Active, "only writes of what is filled fail");
        backoff.failed(now_s);
        let retired = Region::new(RegionState::Retired, sequence);
        *self.get_mut(region) = Region { backoff, ..retired };
    }

    /// Retired to Free, for all regions whose back-off is over. Returns their number.
    pub fn revive(&mut self, now_s: u32) -> u64 {
        let due = |region: &&mut Region| {
            region.state == RegionState::Retired && region.backoff.is_due(now_s)
        };
        let revived = self.all.iter_mut().filter(due);
        revived.map(|region| region.state = RegionState::Free).count() as u64
    }

    /// Makes all regions Unknown: an earlier opening has left them.
    pub fn forget_all(&mut self) {
        self.all.iter_mut().for_each(|region| region.state = RegionState::Unknown);
    }

    /// Makes this region Unknown: an earlier opening has left it.
    pub fn forget(&mut self, region: RegionId) {
        self.get_mut(region).state = RegionState::Unknown;
    }

    /// Notes the filling of an Unknown region; its records are not in the index yet.
    pub fn recognize(&mut self, identity: RegionIdentity) {
        debug_assert!(identity.sequence < self.next_sequence);
        let region = self.get_mut(identity.region);
        debug_assert_eq!(region.state, RegionState::Unknown);
        region.sequence = identity.sequence;
    }

    /// Makes a region that an earlier opening has left Sealed again.
    pub fn restore(&mut self, identity: RegionIdentity, latest_expiry_s: u32) {
        assert!(identity.sequence < self.next_sequence, "numbers grow");
        let region = self.get_mut(identity.region);
        debug_assert!(matches!(region.state, RegionState::Unknown | RegionState::Free));
        let sealed = Region::new(RegionState::Sealed, identity.sequence);
        *region = Region { latest_expiry_s, ..sealed };
    }

    /// Makes everything void that was filled before this filling. Retired regions keep waiting for the end of their
    /// back-off.
    pub fn clear(&mut self, first_sequence: u64) {
        for region in &mut self.all {
            let state = match region.state {
                RegionState::Retired => RegionState::Retired,
                _ => RegionState::Free,
            };
            *region = Region { backoff: region.backoff, ..Region::new(state, first_sequence) };
        }
        // A region without a filling has the number `first_sequence`; no filling may have the same.
        self.next_sequence = first_sequence + 1;
    }

    /// Notes that a record of `region` was requested.
    pub fn touch(&mut self, region: RegionId) {
        self.ticks += 1;
        self.get_mut(region).last_hit = self.ticks;
    }

    /// How far the log has advanced since `region` was filled, in quarters of a full round over all regions: 0 to 3.
    pub fn quarter(&self, region: RegionId) -> u8 {
        let since = self.fillings - self.get(region).filled_at;
        let quarter = since.saturating_mul(4) / self.all.len().max(1) as u64;
        u8::try_from(quarter).unwrap_or(3).min(3)
    }

    /// The region to fill next: the first free region, or else the first of the `together` regions that are reclaimed
    /// as one. `None` if every region is Retired or Active, or stays.
    ///
    /// Regions are reclaimed in groups of `together` with consecutive numbers. A group is as old, or as long without a
    /// hit, as the youngest of its regions. A group with an Unknown region is not reclaimed.
    pub fn next(&self, eviction: RegionEviction, together: u32) -> Option<Next> {
        let free = self.numbered().find(|(_, it)| it.state == RegionState::Free);
        if let Some((region, _)) = free {
            return Some(Next { region, reclaimed: Vec::new() });
        }
        let age = |region: &Region| match eviction {
            RegionEviction::Fifo => (region.sequence, 0, 0),
            RegionEviction::Lru => (region.last_hit, region.sequence, 0),
            RegionEviction::SegmentedFifo => {
                (region.segment as u64, region.entered, region.sequence)
            }
        };
        let sealed = |region: &&Region| region.state == RegionState::Sealed && !region.stays;
        let groups = (0..).step_by(together as usize).zip(self.all.chunks(together as usize));
        // A unit is deallocated whole: none of its regions may be being written, or Unknown.
        use RegionState::{Active, Unknown};
        let groups = groups.filter(|(_, group)| {
            group.iter().all(|region| !matches!(region.state, Active | Unknown))
        });
        let aged = groups.filter_map(|(first, group)| {
            Some((group.iter().filter(sealed).map(age).max()?, first, group))
        });
        let (_, first, group) = aged.min_by_key(|(age, ..)| *age)?;
        let reclaimed: Vec<RegionIdentity> = (first..)
            .map(RegionId::new)
            .zip(group)
            .filter(|(_, region)| sealed(region))
            .map(|(region, found)| RegionIdentity { region, sequence: found.sequence })
            .collect();
        Some(Next { region: reclaimed.first()?.region, reclaimed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions filled in this order, all Sealed.
    fn filled(order: &[u32]) -> Regions {
        let mut regions = Regions::new(6, 100);
        for region in order.iter().copied().map(RegionId::new) {
            let sequence = regions.number_filling();
            regions.activate(region, sequence);
            regions.seal(region, 0, 0);
        }
        regions
    }

    fn reclaimed(regions: &Regions, eviction: RegionEviction, together: u32) -> Vec<u32> {
        let next = regions.next(eviction, together).unwrap();
        assert_eq!(next.reclaimed.first().map(|identity| identity.region), Some(next.region));
        next.reclaimed.iter().map(|identity| identity.region.number()).collect()
    }

    #[test]
    fn one_by_one_the_oldest_or_coldest_goes() {
        let mut regions = filled(&[2, 0, 1, 3, 4, 5]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 1), [2]);
        [2, 0].into_iter().for_each(|region| regions.touch(RegionId::new(region)));
        assert_eq!(reclaimed(&regions, RegionEviction::Lru, 1), [1]);
    }

    #[test]
    fn a_group_is_as_young_as_its_youngest_region() {
        let mut regions = filled(&[0, 2, 3, 4, 5, 1]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 2), [2, 3]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 3), [3, 4, 5]);
        regions.touch(RegionId::new(2));
        assert_eq!(reclaimed(&regions, RegionEviction::Lru, 2), [4, 5]);
    }

    #[test]
    fn a_free_region_comes_first_and_a_retired_one_never() {
        let mut regions = filled(&[0, 1, 2, 3, 4, 5]);
        regions.get_mut(RegionId::new(0)).state = RegionState::Retired;
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 2), [1]);
        regions.get_mut(RegionId::new(4)).state = RegionState::Free;
        let next = regions.next(RegionEviction::Fifo, 2);
        assert_eq!(next, Some(Next { region: RegionId::new(4), reclaimed: Vec::new() }));
        regions.all.iter_mut().for_each(|region| region.state = RegionState::Retired);
        assert_eq!(regions.next(RegionEviction::Fifo, 2), None);
    }

    #[test]
    fn segments_are_emptied_from_below_and_filled_from_above() {
        let mut regions = filled(&[0, 1, 2]);
        // With six regions a segment has room for two: the third one moves down, to the end of the segment below.
        for region in [3, 4, 5].map(RegionId::new) {
            let sequence = regions.number_filling();
            regions.activate(region, sequence);
            regions.seal(region, 2, 0);
        }
        let mut order = Vec::new();
        while let Some(next) = regions.next(RegionEviction::SegmentedFifo, 1) {
            order.push(next.region.number());
            regions.get_mut(next.region).state = RegionState::Retired;
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_region_that_was_moved_down_is_younger_than_what_was_there() {
        let mut regions = Regions::new(6, 100);
        for (region, segment) in [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (5, 0)] {
            let (region, sequence) = (RegionId::new(region), regions.number_filling());
            regions.activate(region, sequence);
            regions.seal(region, segment, 0);
        }
        // 0 and 1 moved down when there was no room for them above; 2 stayed.
        assert_eq!(reclaimed(&regions, RegionEviction::SegmentedFifo, 1), [0]);
        assert_eq!(regions.get(RegionId::new(2)).segment, 1);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 1), [0]);
    }

    #[test]
    fn a_round_has_four_quarters() {
        let mut regions = filled(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(
            [5, 4, 3, 2, 1, 0].map(|region| regions.quarter(RegionId::new(region))),
            [0, 0, 1, 2, 2, 3]
        );
        let region = RegionId::new(0);
        regions.forget(region);
        regions.restore(RegionIdentity { region, sequence: 3 }, 0);
        assert_eq!(regions.quarter(region), 3, "6 fillings ago or more");
    }

    #[test]
    fn only_what_never_lives_longer_expires() {
        let mut regions = Regions::new(3, 1);
        let sequence = regions.number_filling();
        for (region, latest) in [(0, 0), (1, 50), (2, 60)] {
            let region = RegionId::new(region);
            regions.activate(region, sequence);
            regions.seal(region, 0, latest);
        }
        assert_eq!(regions.expired(49), []);
        assert_eq!(regions.expired(50), [1].map(RegionId::new));
        assert_eq!(regions.expired(u32::MAX), [1, 2].map(RegionId::new));
    }
}
