//! The regions that are in memory: those that are being filled, and those whose last pieces are on
//! their way to flash.

use larder_device::{BufferPool, IoBuffer};

use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::{Location, UNIT_BYTES};
use super::record::{self, RecordIdentity};
use crate::identity::CacheId;
use crate::value::ItemRef;

const BLOCK: usize = 4096;

/// All regions in memory. There are few: one or two for each shelf.
#[derive(Debug, Default)]
pub(crate) struct ActiveRegions {
    all: Vec<ActiveRegion>,
    keeps_spare: bool,
    spare: Option<Spare>,
}

impl ActiveRegions {
    pub(crate) fn add(&mut self, active: ActiveRegion) -> &mut ActiveRegion {
        debug_assert!(self.open(active.shelf).is_none(), "a shelf has one open region");
        self.all.push(active);
        self.all.last_mut().expect("just added")
    }

    /// The region that takes the objects of a shelf.
    pub(crate) fn open(&mut self, shelf: usize) -> Option<&mut ActiveRegion> {
        self.all.iter_mut().find(|active| active.shelf == shelf && !active.closed)
    }

    pub(crate) fn get(&self, region: u32) -> Option<&ActiveRegion> {
        self.all.iter().find(|active| active.identity.region == region)
    }

    pub(crate) fn get_mut(&mut self, region: u32) -> Option<&mut ActiveRegion> {
        self.all.iter_mut().find(|active| active.identity.region == region)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ActiveRegion> {
        self.all.iter_mut()
    }

    /// How many take no objects any more and are not on flash whole.
    pub(crate) fn closed(&self) -> usize {
        self.all.iter().filter(|active| active.closed).count()
    }

    pub(crate) fn remove(&mut self, region: u32) -> Option<ActiveRegion> {
        let at = self.all.iter().position(|active| active.identity.region == region)?;
        Some(self.all.swap_remove(at))
    }

    /// A region is on flash. Its memory may be kept for the next one.
    pub(crate) fn written(&mut self, region: u32) {
        let written = self.remove(region);
        if self.keeps_spare {
            self.spare = written.map(Spare::from);
        }
    }

    /// From now on the memory of the region that was written last is kept for the next one, or none is:
    /// of regions that are too long for a pool, each would take new memory from the kernel.
    pub(crate) fn keep_spare(&mut self, keep: bool) {
        self.keeps_spare = keep;
        if !keep {
            self.spare = None;
        }
    }

    /// The memory that was kept.
    pub(crate) fn take_spare(&mut self) -> Option<Spare> {
        self.spare.take()
    }

    /// The next bytes to write, with the filling and the shelf that they belong to: of closed regions
    /// first, so that their memory is free soon.
    pub(crate) fn next_piece(
        &mut self,
        piece_bytes: usize,
        pool: &BufferPool,
    ) -> Option<(RegionIdentity, usize, Piece)> {
        let closed_first = [true, false];
        closed_first.into_iter().find_map(|closed| {
            let regions = self.all.iter_mut().filter(|active| active.closed == closed);
            regions.into_iter().find_map(|active| {
                let piece = active.next_piece(piece_bytes, pool)?;
                Some((active.identity, active.shelf, piece))
            })
        })
    }

    /// Whether [`ActiveRegions::next_piece`] has something to give, or will have when what is under
    /// way has ended.
    pub(crate) fn has_pieces(&self, piece_bytes: usize) -> bool {
        self.all.iter().any(|active| active.has_piece(piece_bytes))
    }
}

/// What an object takes at most, with its line in the footer.
pub(crate) fn bytes_in_region(object_bytes: usize) -> usize {
    let entry_bytes = footer::footer_bytes(1) - footer::footer_bytes(0);
    record::record_bytes_max(object_bytes) + entry_bytes
}

/// A region that is being filled, or was closed, in memory.
#[derive(Debug)]
pub(crate) struct ActiveRegion {
    /// Who fills it.
    cache: CacheId,
    pub(crate) identity: RegionIdentity,
    /// Which objects it takes.
    pub(crate) shelf: usize,
    buffer: IoBuffer,
    entries: Vec<FooterEntry>,
    /// When the last of them expires; 0 is never.
    latest_expiry_s: Option<u32>,
    /// Bytes of records.
    used: usize,
    /// Bytes handed out to be written; whole blocks.
    handed_out: usize,
    /// Bytes that are to be written though they do not fill a piece.
    wanted: usize,
    /// Pieces handed out whose end is not known.
    under_way: usize,
    closed: bool,
    failed: bool,
}

/// Memory of a region that is on flash, for one that is to be filled.
#[derive(Debug)]
pub(crate) struct Spare {
    buffer: IoBuffer,
    entries: Vec<FooterEntry>,
}

impl From<ActiveRegion> for Spare {
    fn from(region: ActiveRegion) -> Self {
        let ActiveRegion { buffer, mut entries, .. } = region;
        entries.clear();
        Self { buffer, entries }
    }
}

impl From<IoBuffer> for Spare {
    fn from(buffer: IoBuffer) -> Self {
        Self { buffer, entries: Vec::new() }
    }
}

/// Bytes of a region on their way to flash.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where in the region they belong.
    pub(crate) offset: u64,
    pub(crate) buffer: IoBuffer,
}

impl ActiveRegion {
    pub(crate) fn new(
        cache: CacheId,
        identity: RegionIdentity,
        shelf: usize,
        memory: Spare,
    ) -> Self {
        let Spare { buffer, entries } = memory;
        Self {
            cache,
            identity,
            shelf,
            buffer,
            entries,
            latest_expiry_s: None,
            used: 0,
            handed_out: 0,
            wanted: 0,
            under_way: 0,
            closed: false,
            failed: false,
        }
    }

    pub(crate) fn entries(&self) -> &[FooterEntry] {
        &self.entries
    }

    /// When the last of its objects expires; 0 is never.
    pub(crate) fn latest_expiry_s(&self) -> u32 {
        self.latest_expiry_s.unwrap_or(0)
    }

    /// A piece is on flash. Says whether the region is, whole.
    pub(crate) fn piece_written(&mut self) -> bool {
        self.under_way -= 1;
        self.closed && !self.failed && self.under_way == 0 && self.handed_out == self.buffer.len()
    }

    /// A piece could not be written: nothing is added and nothing is written any more.
    pub(crate) fn fail(&mut self) {
        self.closed = true;
        self.failed = true;
    }

    /// Bytes from `offset` on, as far as there are records, at most `span`.
    pub(crate) fn records_from(&self, offset: u32, span: u32) -> &[u8] {
        let records = &self.buffer.as_slice()[offset as usize..self.used];
        &records[..records.len().min(span as usize)]
    }

    /// Whether this very item lies at `location`.
    pub(crate) fn is_at(&self, location: Location, item: &ItemRef<'_>) -> bool {
        location.region == self.identity.region && {
            let identity = self.record_at(location.offset);
            let bytes = self.records_from(location.offset, location.span);
            record::parse_first(bytes, identity).is_some_and(|record| record.is(item))
        }
    }

    fn record_at(&self, offset: u32) -> RecordIdentity {
        RecordIdentity { cache: self.cache, sequence: self.identity.sequence, offset }
    }

    pub(crate) fn has_room_for(&self, object_bytes: usize) -> bool {
        bytes_in_region(object_bytes) <= self.room()
    }

    /// Bytes that are left, as [`bytes_in_region`] counts them.
    pub(crate) fn room(&self) -> usize {
        let taken = self.used + footer::footer_bytes(self.entries.len());
        if self.closed { 0 } else { self.buffer.len().saturating_sub(taken) }
    }

    /// Where the record of `item` would begin, and how long it would be.
    pub(crate) fn next_place(&self, item: &ItemRef<'_>) -> (u32, u32) {
        (narrow(self.used), narrow(record::record_bytes(item)))
    }

    /// Writes `item` behind the records that are there; the caller has asked
    /// [`ActiveRegion::has_room_for`] it.
    pub(crate) fn append(&mut self, item: &ItemRef<'_>) -> FooterEntry {
        let (offset, length) = self.next_place(item);
        let identity = self.record_at(offset);
        let end = (self.used + length as usize).next_multiple_of(UNIT_BYTES);
        let room = &mut self.buffer.as_mut_slice()[self.used..end];
        let (room, padding) = room.split_at_mut(length as usize);
        record::encode(room, identity, item);
        padding.fill(0);
        self.used = end;
        let entry = FooterEntry { hash: item.hash.0, offset, length };
        self.entries.push(entry);
        self.latest_expiry_s = footer::later_expiry(self.latest_expiry_s, item.expiry_s);
        entry
    }

    /// Whether something is to be written, now or when other pieces are on flash.
    pub(crate) fn has_piece(&self, piece_bytes: usize) -> bool {
        let due = self.closed
            || self.used - self.handed_out >= piece_bytes
            || self.wanted > self.handed_out;
        !self.failed && due && self.handed_out < self.buffer.len()
    }

    /// The next bytes to write. The last ones carry the footer: what a footer lists is on flash.
    fn next_piece(&mut self, piece_bytes: usize, pool: &BufferPool) -> Option<Piece> {
        if !self.has_piece(piece_bytes) {
            return None;
        }
        if self.used - self.handed_out >= piece_bytes {
            return Some(self.hand_out(self.handed_out + piece_bytes, pool));
        }
        if self.closed {
            return (self.under_way == 0).then(|| self.hand_out(self.buffer.len(), pool));
        }
        Some(self.hand_out(self.wanted, pool))
    }

    /// Has all that is there written, up to the end of its last block; the next record begins in the
    /// next block. Closes the region if that leaves no room for the footer.
    pub(crate) fn want_rest(&mut self) {
        if self.closed || self.used == self.handed_out {
            return;
        }
        let end = self.used.next_multiple_of(BLOCK);
        if end + footer::footer_bytes(self.entries.len()) > self.buffer.len() {
            self.close();
            return;
        }
        self.buffer.as_mut_slice()[self.used..end].fill(0);
        self.used = end;
        self.wanted = end;
    }

    /// Nothing is added any more: what remains to be written is the end, with the footer.
    pub(crate) fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        let end = self.buffer.len() - footer::footer_bytes(self.entries.len());
        let bytes = self.buffer.as_mut_slice();
        // The buffer is a used one: what lies between records and footer must not carry old bytes
        // to flash.
        bytes[self.used..end].fill(0);
        let used = narrow(self.used);
        footer::encode(
            bytes,
            self.cache,
            self.identity,
            &self.entries,
            used,
            self.latest_expiry_s.unwrap_or(0),
        );
    }

    fn hand_out(&mut self, end: usize, pool: &BufferPool) -> Piece {
        let from = std::mem::replace(&mut self.handed_out, end);
        self.under_way += 1;
        let mut buffer = pool.take(end - from);
        buffer.as_mut_slice().copy_from_slice(&self.buffer.as_slice()[from..end]);
        Piece { offset: from as u64, buffer }
    }
}

fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a region is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_regions_are_written_before_open_ones() {
        let region = |region: u32, shelf: usize| {
            let identity = RegionIdentity { region, sequence: 1 + u64::from(region) };
            ActiveRegion::new(CacheId::ZERO, identity, shelf, IoBuffer::zeroed(8 * BLOCK).into())
        };
        let mut regions = ActiveRegions::default();
        for (number, shelf) in [(0, 0), (1, 1), (2, 2)] {
            let active = regions.add(region(number, shelf));
            // Each has a block of records to write; the footer waits until it is written.
            active.used = BLOCK;
        }
        regions.get_mut(1).unwrap().close();
        let pool = BufferPool::new();
        let mut next = || regions.next_piece(BLOCK, &pool).map(|(identity, ..)| identity.region);
        assert_eq!([next(), next(), next(), next()], [Some(1), Some(0), Some(2), None]);
    }
}
