//! The regions and their lives.
//!
//! ```text
//!  Unknown ──► Free or Sealed, when a rebuild has looked at it
//!
//!   Free ──► Active ──► Sealed ──► Active (with a new sequence number) ──► …
//!    ▲         │           │
//!    │         │           ├── reclaimed together with another region ──► Free
//!    │         │           └── all of it has expired ──► Expired ──► Free
//!    │         └── a write failed ──► Retired ── after a back-off ──► Free
//!    └── at the start
//! ```
//!
//! 1. An Active region is open (objects are added) or closed (its last pieces are on their way). At
//!    most one is open on each shelf. Until it is Sealed all of it is in memory, and is read there.
//! 2. An Active region is written piece by piece as it fills, each place once, several pieces at a
//!    time. Pieces are whole blocks: where one is written before it is full, the next record begins
//!    in the next block. The last piece carries the footer; it sets out when all others are on flash.
//! 3. A Sealed region is on flash whole, with its footer. A region of which a piece failed is never
//!    Sealed.
//! 4. A region gets a new sequence number each time it becomes Active; numbers are never used
//!    twice, not even after a restart.
//! 5. After an opening a region is Unknown until its footer was read and its objects are in the index.
//!    Until then it is not reclaimed.
//! 6. An index entry that points into a region was written in the region's current filling, or the
//!    region is Expired: then it counts as absent. Nothing is appended to an Expired region, and it
//!    is Free only after every part of the index was searched for entries that point into it. So
//!    there are none left when its next filling begins.

use super::footer::RegionIdentity;
use crate::breaker::Backoff;
use crate::config::RegionEviction;
use crate::value::is_expired;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionState {
    Free,
    Active,
    Sealed,
    /// All that was in it has expired; the index may still point to it.
    Expired,
    Retired,
    /// An earlier life has left it.
    Unknown,
}

/// Segments of [`RegionEviction::SegmentedFifo`].
pub(crate) const SEGMENTS: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) state: RegionState,
    pub(crate) sequence: u64,
    /// Tick of the latest hit on an object of the region.
    pub(crate) last_hit: u64,
    /// Number of the filling among those of this life, from 1 on; 0 is an earlier life's.
    filled_at: u64,
    /// In which segment it is reclaimed, and when it came there.
    segment: usize,
    entered: u64,
    /// When the last of its objects expires, a second of the cache's clock; 0 is never.
    latest_expiry_s: u32,
    /// Since a write failed; ends with the next filling that is on flash whole.
    backoff: Backoff,
}

impl Region {
    fn new(state: RegionState, sequence: u64) -> Self {
        Self {
            state,
            sequence,
            last_hit: 0,
            filled_at: 0,
            segment: 0,
            entered: 0,
            latest_expiry_s: 0,
            backoff: Backoff::default(),
        }
    }
}

/// All regions of one engine.
#[derive(Debug)]
pub(crate) struct Regions {
    all: Vec<Region>,
    next_sequence: u64,
    ticks: u64,
    fillings: u64,
}

impl Regions {
    /// `first_sequence` is larger than any that was ever used on the device.
    pub(crate) fn new(count: u32, first_sequence: u64) -> Self {
        let free = Region::new(RegionState::Free, 0);
        let all = vec![free; count as usize];
        Self { all, next_sequence: first_sequence, ticks: 0, fillings: 0 }
    }

    pub(crate) fn get(&self, region: u32) -> &Region {
        &self.all[region as usize]
    }

    #[cfg(test)]
    pub(crate) fn set_state(&mut self, region: u32, state: RegionState) {
        self.all[region as usize].state = state;
    }

    /// An Active region is on flash, whole. `latest_expiry_s` is 0 if something of it never expires.
    pub(crate) fn seal(&mut self, region: u32, segment: usize, latest_expiry_s: u32) {
        self.ticks += 1;
        let sealed = &mut self.all[region as usize];
        sealed.state = RegionState::Sealed;
        (sealed.segment, sealed.entered) = (segment, self.ticks);
        sealed.latest_expiry_s = latest_expiry_s;
        sealed.backoff = Backoff::default();
        self.balance_segments();
    }

    /// Makes a region of an earlier life Sealed again.
    pub(crate) fn restore(&mut self, identity: RegionIdentity, latest_expiry_s: u32) {
        debug_assert!(identity.sequence < self.next_sequence);
        let sealed = Region::new(RegionState::Sealed, identity.sequence);
        self.all[identity.region as usize] = Region { latest_expiry_s, ..sealed };
    }

    /// Moves the oldest region of a segment with more than its share to the end of the one below.
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

    /// How far the log has come round since `region` was filled, in quarters of a round: 0 to 3.
    pub(crate) fn quarter(&self, region: u32) -> u8 {
        let since = self.fillings - self.all[region as usize].filled_at;
        let quarter = since.saturating_mul(4) / self.all.len().max(1) as u64;
        u8::try_from(quarter).unwrap_or(3).min(3)
    }

    /// Sealed regions all of whose objects have expired.
    pub(crate) fn expired(&self, now_s: u32) -> Vec<u32> {
        let numbered = (0..).zip(&self.all);
        let expired = numbered.filter(|(_, region)| {
            region.state == RegionState::Sealed && is_expired(region.latest_expiry_s, now_s)
        });
        expired.map(|(number, _)| number).collect()
    }

    /// All regions in this state.
    pub(crate) fn in_state(&self, state: RegionState) -> Vec<u32> {
        let numbered = (0..).zip(&self.all);
        let found = numbered.filter(|(_, region)| region.state == state);
        found.map(|(number, _)| number).collect()
    }

    /// What was filled before this filling is void. Those given up wait on for their turn.
    pub(crate) fn clear(&mut self, first_sequence: u64) {
        for region in &mut self.all {
            let state = match region.state {
                RegionState::Retired => RegionState::Retired,
                _ => RegionState::Free,
            };
            *region = Region { backoff: region.backoff, ..Region::new(state, first_sequence) };
        }
        // No filling has the number that regions without one have.
        self.next_sequence = first_sequence + 1;
    }

    /// An earlier life has left all of them.
    pub(crate) fn forget_all(&mut self) {
        self.all.iter_mut().for_each(|region| region.state = RegionState::Unknown);
    }

    /// It has left this one.
    pub(crate) fn forget(&mut self, region: u32) {
        self.all[region as usize].state = RegionState::Unknown;
    }

    /// What an Unknown region holds; its objects are not in the index yet.
    pub(crate) fn recognize(&mut self, identity: RegionIdentity) {
        debug_assert!(identity.sequence < self.next_sequence);
        self.all[identity.region as usize].sequence = identity.sequence;
    }

    /// A sequence number for the next filling.
    pub(crate) fn number_filling(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Makes `region` the active one, for this filling.
    pub(crate) fn activate(&mut self, region: u32, sequence: u64) {
        self.ticks += 1;
        self.fillings += 1;
        let (last_hit, filled_at) = (self.ticks, self.fillings);
        let active = Region::new(RegionState::Active, sequence);
        let backoff = self.get(region).backoff;
        self.all[region as usize] = Region { last_hit, filled_at, backoff, ..active };
    }

    /// Empties `region`: nothing before this filling counts any more.
    pub(crate) fn empty(&mut self, region: u32, sequence: u64, state: RegionState) {
        self.all[region as usize] = Region::new(state, sequence);
    }

    /// A write of `region` failed: it is emptied, and not filled again before its back-off is over.
    pub(crate) fn retire(&mut self, region: u32, sequence: u64, now_s: u32) {
        let mut backoff = self.get(region).backoff;
        backoff.failed(now_s);
        let retired = Region::new(RegionState::Retired, sequence);
        self.all[region as usize] = Region { backoff, ..retired };
    }

    /// Retired regions whose back-off is over are Free. Returns how many there were.
    pub(crate) fn revive(&mut self, now_s: u32) -> u64 {
        let mut revived = 0;
        for region in &mut self.all {
            if region.state == RegionState::Retired && region.backoff.is_due(now_s) {
                region.state = RegionState::Free;
                revived += 1;
            }
        }
        revived
    }

    /// What no filling has yet begun of.
    pub(crate) fn unsealed(&self) -> Vec<u32> {
        self.in_state(RegionState::Free)
    }

    /// Notes that an object of `region` was asked for.
    pub(crate) fn touch(&mut self, region: u32) {
        self.ticks += 1;
        self.all[region as usize].last_hit = self.ticks;
    }

    pub(crate) fn sealed(&self) -> impl Iterator<Item = RegionIdentity> {
        let numbered = (0..).zip(&self.all);
        numbered
            .filter(|(_, region)| region.state == RegionState::Sealed)
            .map(|(number, region)| RegionIdentity { region: number, sequence: region.sequence })
    }

    /// What to fill next: the first free region, or else the first of the `together` regions that
    /// are reclaimed as one. `None` if all regions are retired or Active.
    ///
    /// Regions are reclaimed in groups of `together` with neighbouring numbers; a group is as old,
    /// or as long without a hit, as the youngest of its regions. With an Unknown one among them it
    /// stays.
    pub(crate) fn next(&self, eviction: RegionEviction, together: u32) -> Option<Next> {
        let number = |found: usize| u32::try_from(found).expect("regions are counted in 32 bits");
        let free = self.all.iter().position(|region| region.state == RegionState::Free);
        if let Some(free) = free {
            return Some(Next { region: number(free), reclaimed: Vec::new() });
        }
        let age = |region: &Region| match eviction {
            RegionEviction::Fifo => (region.sequence, 0, 0),
            RegionEviction::Lru => (region.last_hit, region.sequence, 0),
            RegionEviction::SegmentedFifo => {
                (region.segment as u64, region.entered, region.sequence)
            }
        };
        let sealed = |region: &&Region| region.state == RegionState::Sealed;
        let groups = (0..).step_by(together as usize).zip(self.all.chunks(together as usize));
        // A unit is deallocated whole: nothing of it may be on its way, or unknown.
        use RegionState::{Active, Unknown};
        let groups = groups.filter(|(_, group)| {
            group.iter().all(|region| !matches!(region.state, Active | Unknown))
        });
        let aged = groups.filter_map(|(first, group)| {
            Some((group.iter().filter(sealed).map(age).max()?, first, group))
        });
        let (_, first, group) = aged.min_by_key(|(age, ..)| *age)?;
        let reclaimed: Vec<RegionIdentity> = (first..)
            .zip(group)
            .filter(|(_, region)| sealed(region))
            .map(|(region, found)| RegionIdentity { region, sequence: found.sequence })
            .collect();
        Some(Next { region: reclaimed.first()?.region, reclaimed })
    }
}

/// What to fill next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) region: u32,
    /// Sealed regions to empty first, `region` among them. None if that is free already.
    pub(crate) reclaimed: Vec<RegionIdentity>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions filled in this order, sealed all.
    fn filled(order: &[u32]) -> Regions {
        let mut regions = Regions::new(6, 100);
        for &region in order {
            let sequence = regions.number_filling();
            regions.activate(region, sequence);
            regions.seal(region, 0, 0);
        }
        regions
    }

    fn reclaimed(regions: &Regions, eviction: RegionEviction, together: u32) -> Vec<u32> {
        let next = regions.next(eviction, together).unwrap();
        assert_eq!(next.reclaimed.first().map(|identity| identity.region), Some(next.region));
        next.reclaimed.iter().map(|identity| identity.region).collect()
    }

    #[test]
    fn one_by_one_the_oldest_or_coldest_goes() {
        let mut regions = filled(&[2, 0, 1, 3, 4, 5]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 1), [2]);
        [2, 0].into_iter().for_each(|region| regions.touch(region));
        assert_eq!(reclaimed(&regions, RegionEviction::Lru, 1), [1]);
    }

    #[test]
    fn a_group_is_as_young_as_its_youngest_region() {
        let mut regions = filled(&[0, 2, 3, 4, 5, 1]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 2), [2, 3]);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 3), [3, 4, 5]);
        regions.touch(2);
        assert_eq!(reclaimed(&regions, RegionEviction::Lru, 2), [4, 5]);
    }

    #[test]
    fn a_free_region_comes_first_and_a_retired_one_never() {
        let mut regions = filled(&[0, 1, 2, 3, 4, 5]);
        regions.set_state(0, RegionState::Retired);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 2), [1]);
        regions.set_state(4, RegionState::Free);
        let next = regions.next(RegionEviction::Fifo, 2);
        assert_eq!(next, Some(Next { region: 4, reclaimed: Vec::new() }));
        (0..6).for_each(|region| regions.set_state(region, RegionState::Retired));
        assert_eq!(regions.next(RegionEviction::Fifo, 2), None);
    }

    #[test]
    fn segments_are_emptied_from_below_and_filled_from_above() {
        let mut regions = filled(&[0, 1, 2]);
        // With six regions a segment has room for two: the third one moves down, behind the others.
        for region in [3, 4, 5] {
            let sequence = regions.number_filling();
            regions.activate(region, sequence);
            regions.seal(region, 2, 0);
        }
        let mut order = Vec::new();
        while let Some(next) = regions.next(RegionEviction::SegmentedFifo, 1) {
            order.push(next.region);
            regions.empty(next.region, 1, RegionState::Retired);
        }
        let segments = |region: u32| regions.get(region).segment;
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert_eq!([0, 3].map(segments), [0, 0], "emptied");
    }

    #[test]
    fn a_region_that_was_moved_down_is_younger_than_what_was_there() {
        let mut regions = Regions::new(6, 100);
        for (region, segment) in [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (5, 0)] {
            let sequence = regions.number_filling();
            regions.activate(region, sequence);
            regions.seal(region, segment, 0);
        }
        // 0 and 1 moved down when there was no room for them above, 2 stayed.
        assert_eq!(reclaimed(&regions, RegionEviction::SegmentedFifo, 1), [0]);
        assert_eq!(regions.get(2).segment, 1);
        assert_eq!(reclaimed(&regions, RegionEviction::Fifo, 1), [0]);
    }

    #[test]
    fn a_round_has_four_quarters() {
        let mut regions = filled(&[0, 1, 2, 3, 4, 5]);
        assert_eq!([5, 4, 3, 2, 1, 0].map(|region| regions.quarter(region)), [0, 0, 1, 2, 2, 3]);
        regions.restore(RegionIdentity { region: 0, sequence: 3 }, 0);
        assert_eq!(regions.quarter(0), 3, "6 fillings ago or more");
    }

    #[test]
    fn only_what_never_lives_longer_expires() {
        let mut regions = Regions::new(3, 1);
        for (region, latest) in [(0, 0), (1, 50), (2, 60)] {
            regions.activate(region, 1);
            regions.seal(region, 0, latest);
        }
        assert_eq!(regions.expired(49), [0; 0]);
        assert_eq!(regions.expired(50), [1]);
        assert_eq!(regions.expired(u32::MAX), [1, 2]);
    }
}
