//! The regions and their lives.
//!
//! ```text
//!  Unknown ──► Free or Sealed, when a rebuild has looked at it
//!
//!   Free ──► Active ──► Sealed ──► Active (with a new sequence number) ──► …
//!    ▲         │           │
//!    │         │           └── reclaimed together with another region ──► Free
//!    │         └── a write failed ──► Retired
//!    └── at the start
//! ```
//!
//! 1. At most one region is Active. Until it is Sealed all of it is in memory, and is read there.
//! 2. An Active region is written piece by piece as it fills, each place once. Pieces are whole
//!    blocks: where one is written before it is full, the next record begins in the next block.
//!    Once the region is closed nothing is added; the last piece carries the footer.
//! 3. A Sealed region is on flash whole, with its footer.
//! 4. A region gets a new sequence number each time it becomes Active; numbers are never used
//!    twice, not even after a restart.
//! 5. After a crash a region is Unknown until its footer was read and its objects are in the index.
//!    Until then it is not reclaimed.
//! 6. An index entry that points into a region was written in the region's current filling.

use larder_device::{BufferPool, IoBuffer};

use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::{Location, UNIT_BYTES};
use super::record::{self, RecordIdentity};
use crate::config::RegionEviction;
use crate::value::ItemRef;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionState {
    Free,
    Active,
    Sealed,
    Retired,
    /// A crash has left it.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) state: RegionState,
    pub(crate) sequence: u64,
    /// Tick of the latest hit on an object of the region.
    pub(crate) last_hit: u64,
}

/// All regions of one engine.
#[derive(Debug)]
pub(crate) struct Regions {
    all: Vec<Region>,
    next_sequence: u64,
    ticks: u64,
}

impl Regions {
    /// `first_sequence` is larger than any that was ever used on the device.
    pub(crate) fn new(count: u32, first_sequence: u64) -> Self {
        let free = Region { state: RegionState::Free, sequence: 0, last_hit: 0 };
        Self { all: vec![free; count as usize], next_sequence: first_sequence, ticks: 0 }
    }

    pub(crate) fn get(&self, region: u32) -> &Region {
        &self.all[region as usize]
    }

    pub(crate) fn set_state(&mut self, region: u32, state: RegionState) {
        self.all[region as usize].state = state;
    }

    /// Makes a region of an earlier life Sealed again.
    pub(crate) fn restore(&mut self, identity: RegionIdentity) {
        debug_assert!(identity.sequence < self.next_sequence);
        self.all[identity.region as usize] =
            Region { state: RegionState::Sealed, sequence: identity.sequence, last_hit: 0 };
    }

    /// A crash has left all of them.
    pub(crate) fn forget_all(&mut self) {
        self.all.iter_mut().for_each(|region| region.state = RegionState::Unknown);
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
        self.all[region as usize] =
            Region { state: RegionState::Active, sequence, last_hit: self.ticks };
    }

    /// Empties `region`: nothing before this filling counts any more.
    pub(crate) fn empty(&mut self, region: u32, sequence: u64, state: RegionState) {
        self.all[region as usize] = Region { state, sequence, last_hit: 0 };
    }

    /// What no filling has yet begun of.
    pub(crate) fn unsealed(&self) -> Vec<u32> {
        let numbered = (0..).zip(&self.all);
        let free = numbered.filter(|(_, region)| region.state == RegionState::Free);
        free.map(|(number, _)| number).collect()
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
    /// are reclaimed as one. `None` if all regions are retired.
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
            RegionEviction::Fifo => (region.sequence, 0),
            RegionEviction::Lru => (region.last_hit, region.sequence),
        };
        let sealed = |region: &&Region| region.state == RegionState::Sealed;
        let groups = (0..).step_by(together as usize).zip(self.all.chunks(together as usize));
        let unknown = |region: &Region| region.state == RegionState::Unknown;
        let groups = groups.filter(|(_, group)| !group.iter().any(unknown));
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

/// The region that is being filled, in memory.
#[derive(Debug)]
pub(crate) struct ActiveRegion {
    pub(crate) identity: RegionIdentity,
    buffer: IoBuffer,
    entries: Vec<FooterEntry>,
    /// Bytes of records.
    used: usize,
    /// Bytes handed out to be written; whole blocks.
    handed_out: usize,
    closed: bool,
}

/// Bytes of a region on their way to flash.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where in the region they belong.
    pub(crate) offset: u64,
    pub(crate) buffer: IoBuffer,
}

impl ActiveRegion {
    pub(crate) fn new(identity: RegionIdentity, buffer: IoBuffer) -> Self {
        let entries = Vec::new();
        Self { identity, buffer, entries, used: 0, handed_out: 0, closed: false }
    }

    pub(crate) fn entries(&self) -> &[FooterEntry] {
        &self.entries
    }

    /// Whether nothing is added any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Bytes from `offset` on, as far as there are records, at most `span`.
    pub(crate) fn records_from(&self, offset: u32, span: u32) -> &[u8] {
        let records = &self.buffer.as_slice()[offset as usize..self.used];
        &records[..records.len().min(span as usize)]
    }

    /// Whether this very item lies at `location`.
    pub(crate) fn is_at(&self, location: Location, item: &ItemRef<'_>) -> bool {
        location.region == self.identity.region && {
            let identity =
                RecordIdentity { sequence: self.identity.sequence, offset: location.offset };
            let bytes = self.records_from(location.offset, location.span);
            record::parse_first(bytes, identity).is_some_and(|record| record.is(item))
        }
    }

    pub(crate) fn has_room_for(&self, object_bytes: usize) -> bool {
        let footer = footer::footer_bytes(self.entries.len() + 1);
        let needed = record::record_bytes_max(object_bytes) + footer;
        !self.closed && self.used + needed <= self.buffer.len()
    }

    /// Writes `item` behind the records that are there; the caller has asked
    /// [`ActiveRegion::has_room_for`] it.
    pub(crate) fn append(&mut self, item: &ItemRef<'_>) -> FooterEntry {
        let length = record::record_bytes(item);
        let narrow = |n: usize| u32::try_from(n).expect("a region is shorter than 4 GiB");
        let offset = narrow(self.used);
        let identity = RecordIdentity { sequence: self.identity.sequence, offset };
        let end = (self.used + length).next_multiple_of(UNIT_BYTES);
        let (room, padding) = self.buffer.as_mut_slice()[self.used..end].split_at_mut(length);
        record::encode(room, identity, item);
        padding.fill(0);
        self.used = end;
        let entry = FooterEntry { hash: item.hash.0, offset, length: narrow(length) };
        self.entries.push(entry);
        entry
    }

    /// Whether [`ActiveRegion::next_piece`] has something to give.
    pub(crate) fn has_piece(&self, piece_bytes: usize) -> bool {
        !self.closed && self.used - self.handed_out >= piece_bytes
    }

    /// The next bytes to write, if there are enough for a piece.
    pub(crate) fn next_piece(&mut self, piece_bytes: usize, pool: &BufferPool) -> Option<Piece> {
        self.has_piece(piece_bytes).then(|| self.hand_out(self.handed_out + piece_bytes, pool))
    }

    /// What is not handed out yet, up to the end of its last block; the next record begins in the
    /// next block. Closes the region if that leaves no room for the footer. `None` if all is handed
    /// out.
    pub(crate) fn rest(&mut self, block: usize, pool: &BufferPool) -> Option<Piece> {
        if self.closed || self.used == self.handed_out {
            return None;
        }
        let end = self.used.next_multiple_of(block);
        if end + footer::footer_bytes(self.entries.len()) > self.buffer.len() {
            return Some(self.close(pool));
        }
        self.buffer.as_mut_slice()[self.used..end].fill(0);
        self.used = end;
        Some(self.hand_out(end, pool))
    }

    /// Closes the region and gives the last bytes to write, the footer among them.
    pub(crate) fn close(&mut self, pool: &BufferPool) -> Piece {
        assert!(!self.closed, "a region is closed once");
        self.closed = true;
        let end = self.buffer.len() - footer::footer_bytes(self.entries.len());
        let bytes = self.buffer.as_mut_slice();
        // The buffer is a used one: what lies between records and footer must not carry old bytes
        // to flash.
        bytes[self.used..end].fill(0);
        let used = u32::try_from(self.used).expect("a region is shorter than 4 GiB");
        footer::encode(bytes, self.identity, &self.entries, used);
        self.hand_out(self.buffer.len(), pool)
    }

    fn hand_out(&mut self, end: usize, pool: &BufferPool) -> Piece {
        let from = std::mem::replace(&mut self.handed_out, end);
        let mut buffer = pool.take(end - from);
        buffer.as_mut_slice().copy_from_slice(&self.buffer.as_slice()[from..end]);
        Piece { offset: from as u64, buffer }
    }
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
            regions.set_state(region, RegionState::Sealed);
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
}
