//! The regions that are being filled, and those whose last pieces are on their way to flash.
//!
//! Bytes that are not on flash are in memory, and so is every record whose end is not on flash. Bytes that are on flash
//! are read there: a region of any length takes only the memory of the pieces on their way and of the piece that is
//! filling. All regions together have at most `budget_bytes` for which no write has begun; beyond that, the region with
//! the most of them is written before it fills a piece.

use larder_device::{BufferPool, IoBuffer};

use crate::chunks::{Chunks, SpareChunks};
use crate::expiry::later_expiry;
use crate::footer::{Closing, FooterEntry, NewFooter};
use crate::form::RecordForm;
use crate::identity::CacheId;
use crate::in_flight::{InFlight, PIECES_IN_FLIGHT};
use crate::record::{self, NewRecord, RecordIdentity};
use crate::region::{RegionId, RegionIdentity};
use crate::{BLOCK_BYTES, narrow};

/// All Active regions. There are few: one or two for each stream.
#[derive(Debug)]
pub struct ActiveRegions {
    all: Vec<ActiveRegion>,
    spare: SpareChunks,
    /// Bytes of one write.
    piece_bytes: usize,
    /// Bytes that may wait until they fill a piece.
    budget_bytes: usize,
    form: RecordForm,
    /// See [`Closing::horizon`].
    horizon: u64,
}

impl ActiveRegions {
    /// No regions yet. For `piece_bytes` and `budget_bytes` see [`LogPlace`](crate::LogPlace).
    pub(crate) fn new(form: RecordForm, piece_bytes: usize, budget_bytes: usize) -> Self {
        let spare = SpareChunks::new(piece_bytes, budget_bytes.min(PIECES_IN_FLIGHT * piece_bytes));
        Self { all: Vec::new(), spare, piece_bytes, budget_bytes, form, horizon: 0 }
    }

    /// From now on the index on flash knows all records with smaller stamps. The footers of regions that are closed
    /// later say so.
    pub fn set_horizon(&mut self, horizon: u64) {
        debug_assert!(self.horizon <= horizon, "what is known stays known");
        self.horizon = horizon;
    }

    /// From now on this region is filled for a stream.
    pub(crate) fn begin(
        &mut self,
        cache: CacheId,
        identity: RegionIdentity,
        (stream, region_bytes): (usize, usize),
    ) {
        assert!(self.open(stream).is_none(), "a stream has one open region");
        assert!(self.get(identity.region).is_none(), "a region is filled once at a time");
        let lengths = (region_bytes, self.chunk_bytes());
        self.all.push(ActiveRegion::new((cache, self.form), identity, stream, lengths));
    }

    /// The region to which the records of a stream are appended.
    pub fn open(&mut self, stream: usize) -> Option<&mut ActiveRegion> {
        self.all.iter_mut().find(|active| active.stream == stream && !active.closed)
    }

    /// The Active region with this number; `None` if it is not Active.
    pub fn get(&self, region: RegionId) -> Option<&ActiveRegion> {
        self.all.iter().find(|active| active.identity.region == region)
    }

    /// At most `span` bytes of a region from an offset on; `None` if they are not in memory.
    pub fn in_memory(
        &self,
        region: RegionId,
        (offset, span): (u32, u32),
        pool: &BufferPool,
    ) -> Option<IoBuffer> {
        self.get(region)?.in_memory(offset, span, pool)
    }

    pub(crate) fn get_mut(&mut self, region: RegionId) -> Option<&mut ActiveRegion> {
        self.all.iter_mut().find(|active| active.identity.region == region)
    }

    /// Memory is allocated in chunks of this length.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.spare.chunk_bytes()
    }

    /// Number of regions that take no more records but are not completely on flash.
    pub(crate) fn closed(&self) -> usize {
        self.all.iter().filter(|active| active.closed).count()
    }

    /// Memory of the regions, and of the spare chunks for the next ones.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all.iter().map(ActiveRegion::memory_bytes).sum::<usize>() + self.spare.bytes()
    }

    /// Region, offset and length that a record would get in the open region of its stream.
    pub fn next_place(
        &mut self,
        stream: usize,
        new: &NewRecord<'_>,
    ) -> Option<(RegionId, u32, u32)> {
        let active = self.open(stream)?;
        let (offset, length) = active.next_place(new);
        Some((active.identity.region, offset, length))
    }

    /// Appends a record to the open region of a stream, which must have room for it.
    pub(crate) fn append(&mut self, stream: usize, new: &NewRecord<'_>) -> (RegionId, FooterEntry) {
        let Self { all, spare, .. } = self;
        let open = all.iter_mut().find(|active| active.stream == stream && !active.closed);
        let active = open.expect("the caller has made room");
        (active.identity.region, active.append(new, spare))
    }

    /// Notes that a piece was written successfully. Returns whether the region is now completely on flash.
    pub(crate) fn piece_written(&mut self, identity: RegionIdentity, offset: usize) -> bool {
        let Self { all, spare, .. } = self;
        let active = all.iter_mut().find(|active| active.identity == identity);
        active.is_some_and(|active| active.piece_written(offset, spare))
    }

    /// Removes a region that is on flash or was given up.
    pub(crate) fn remove(&mut self, region: RegionId) -> Option<FilledContent> {
        let at = self.all.iter().position(|active| active.identity.region == region)?;
        let active = self.all.swap_remove(at);
        active.chunks.give_back(&mut self.spare);
        let latest_expiry_s = active.latest_expiry_s.unwrap_or(0);
        Some(FilledContent { stream: active.stream, entries: active.entries, latest_expiry_s })
    }

    /// Orders the write of everything that is in memory.
    pub(crate) fn want_rest(&mut self) {
        self.all.iter_mut().for_each(|active| active.want_rest(&mut self.spare));
    }

    /// Closes all regions: what remains to be written of each is its end.
    pub(crate) fn close_all(&mut self) {
        self.all.iter_mut().for_each(|active| active.closed = true);
    }

    /// The next bytes to write. Closed regions come first, so that their memory is free soon.
    pub(crate) fn next_piece(&mut self, pool: &BufferPool, now_s: u32) -> Option<Piece> {
        self.keep_to_budget();
        let (piece_bytes, closing) = (self.piece_bytes, (self.horizon, now_s));
        [true, false].into_iter().find_map(|closed| {
            let regions = self.all.iter_mut().filter(|active| active.closed == closed);
            regions.into_iter().find_map(|active| active.next_piece(piece_bytes, pool, closing))
        })
    }

    /// Whether [`ActiveRegions::next_piece`] can return a piece, now or when the writes under way have ended.
    pub(crate) fn has_pieces(&self) -> bool {
        self.is_over_budget() || self.all.iter().any(|active| active.has_piece(self.piece_bytes))
    }

    /// Whether this region has enough bytes for a write, or all regions together are over the budget.
    pub fn is_due(&self, region: RegionId) -> bool {
        let active = self.get(region);
        active.is_some_and(|active| active.has_piece(self.piece_bytes)) || self.is_over_budget()
    }

    /// Whether more bytes wait to be written than the budget allows.
    pub fn is_over_budget(&self) -> bool {
        self.all.iter().map(ActiveRegion::unsent).sum::<usize>() > self.budget_bytes
    }

    /// Beyond the budget, orders the write of the region that has the most to write.
    fn keep_to_budget(&mut self) {
        if self.is_over_budget()
            && let Some(active) = self.all.iter_mut().max_by_key(|active| active.unsent())
        {
            active.want_rest(&mut self.spare);
        }
    }
}

/// The content of a region that is no longer Active.
#[derive(Debug)]
pub(crate) struct FilledContent {
    /// The stream whose records it took.
    pub(crate) stream: usize,
    /// Its records.
    pub(crate) entries: Vec<FooterEntry>,
    /// When the last of its records expires; 0 if one of them never does.
    pub(crate) latest_expiry_s: u32,
}

/// Bytes of a region on their way to flash.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) identity: RegionIdentity,
    pub(crate) stream: usize,
    /// The offset of the bytes in the region.
    pub(crate) offset: usize,
    pub(crate) buffer: IoBuffer,
}

/// A region that is being filled, or was closed.
#[derive(Debug)]
pub struct ActiveRegion {
    /// The cache that fills it.
    cache: CacheId,
    /// The form of its records.
    form: RecordForm,
    identity: RegionIdentity,
    /// The stream whose records it takes.
    stream: usize,
    region_bytes: usize,
    /// The records that are not yet on flash.
    chunks: Chunks,
    entries: Vec<FooterEntry>,
    /// When the last of its records expires; 0 if one of them never does.
    latest_expiry_s: Option<u32>,
    in_flight: InFlight,
    /// Where the bytes end that are to be written even if they do not fill a piece.
    wanted: usize,
    closed: bool,
    failed: bool,
}

impl ActiveRegion {
    pub(crate) fn new(
        (cache, form): (CacheId, RecordForm),
        identity: RegionIdentity,
        stream: usize,
        (region_bytes, chunk_bytes): (usize, usize),
    ) -> Self {
        assert!(region_bytes.is_multiple_of(BLOCK_BYTES) && region_bytes > 0);
        Self {
            cache,
            form,
            identity,
            stream,
            region_bytes,
            chunks: Chunks::new(chunk_bytes),
            entries: Vec::new(),
            latest_expiry_s: None,
            in_flight: InFlight::default(),
            wanted: 0,
            closed: false,
            failed: false,
        }
    }

    /// The region and the number of its filling.
    pub fn identity(&self) -> RegionIdentity {
        self.identity
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.memory_bytes()
    }

    /// Bytes of records for which no write has begun; 0 if the region is closed.
    fn unsent(&self) -> usize {
        if self.closed { 0 } else { self.chunks.end().saturating_sub(self.in_flight.sent()) }
    }

    /// At most `span` bytes from `offset` on, as far as there are records; `None` if they are on flash.
    fn in_memory(&self, offset: u32, span: u32, pool: &BufferPool) -> Option<IoBuffer> {
        let (from, to) = self.range_in_memory(offset, span)?;
        let mut buffer = pool.take(to - from);
        self.chunks.copy_to(from, buffer.as_mut_slice());
        Some(buffer)
    }

    fn range_in_memory(&self, offset: u32, span: u32) -> Option<(usize, usize)> {
        let from = offset as usize;
        let to = self.chunks.end().min(from + span as usize);
        (from >= self.memory_from() && from <= to).then_some((from, to))
    }

    /// Records that begin here or later are in memory.
    fn memory_from(&self) -> usize {
        let on_flash = self.in_flight.on_flash();
        let whole = self.entries.partition_point(|entry| self.form.end_of(entry) <= on_flash);
        self.entries.get(whole).map_or(on_flash, |entry| on_flash.min(entry.offset as usize))
    }

    /// Whether exactly this record lies there and is still in memory.
    pub fn holds(&self, offset: u32, span: u32, new: &NewRecord<'_>) -> bool {
        let Some((from, to)) = self.range_in_memory(offset, span) else { return false };
        let bytes = self.chunks.get(from, to);
        record::parse_first(&bytes, self.record_at(offset)).is_some_and(|record| record.is(new))
    }

    fn record_at(&self, offset: u32) -> RecordIdentity {
        RecordIdentity { cache: self.cache, sequence: self.identity.sequence, offset }
    }

    /// Whether there is room for an object with this number of bytes of key and value.
    pub fn has_room_for(&self, object_bytes: usize) -> bool {
        self.form.bytes_in_region(object_bytes) <= self.room()
    }

    /// Bytes of room left, as [`RecordForm::bytes_in_region`] counts them.
    pub fn room(&self) -> usize {
        let taken = self.chunks.end() + self.form.footer_bytes(self.entries.len());
        if self.closed { 0 } else { self.region_bytes.saturating_sub(taken) }
    }

    /// Offset and length that a record would get.
    fn next_place(&self, new: &NewRecord<'_>) -> (u32, u32) {
        (narrow(self.chunks.end()), narrow(new.record_bytes()))
    }

    fn append(&mut self, new: &NewRecord<'_>, spare: &mut SpareChunks) -> FooterEntry {
        assert!(self.has_room_for(new.object_bytes()), "the caller has made room");
        let (offset, length) = self.next_place(new);
        debug_assert!(offset.is_multiple_of(self.form.align_bytes()));
        assert_eq!(self.form.is_stamped(), new.stamp.is_some(), "all records of a log are alike");
        let identity = self.record_at(offset);
        let chunks = &mut self.chunks;
        new.encode(identity, |part| chunks.push(part, spare));
        let entry = FooterEntry { hash: new.hash, offset, length, stamp: new.stamp.unwrap_or(0) };
        chunks.pad(self.form.end_of(&entry), spare);
        self.entries.push(entry);
        self.latest_expiry_s = later_expiry(self.latest_expiry_s, new.expiry_s);
        entry
    }

    /// Whether there is something to write, now or when other pieces are on flash.
    fn has_piece(&self, piece_bytes: usize) -> bool {
        let sent = self.in_flight.sent();
        let due = self.closed || self.wanted > sent || self.unsent() >= piece_bytes;
        !self.failed && due && sent < self.region_bytes
    }

    /// The next bytes to write. The last piece has the footer, and is sent only when all others are on flash: all
    /// records that a footer lists are on flash.
    fn next_piece(
        &mut self,
        piece_bytes: usize,
        pool: &BufferPool,
        closing: (u64, u32),
    ) -> Option<Piece> {
        if !self.has_piece(piece_bytes) {
            return None;
        }
        let (sent, records_end) = (self.in_flight.sent(), self.chunks.end());
        if records_end.saturating_sub(sent) >= piece_bytes {
            return Some(self.send(sent + piece_bytes, pool, closing));
        }
        match self.closed {
            true => self.in_flight.is_empty().then(|| self.send(self.region_bytes, pool, closing)),
            false => Some(self.send(self.wanted, pool, closing)),
        }
    }

    /// The piece from the end of the last one up to `end`.
    fn send(&mut self, end: usize, pool: &BufferPool, (horizon, closed_s): (u64, u32)) -> Piece {
        let (offset, records_end) = (self.in_flight.sent(), self.chunks.end());
        assert!(end.is_multiple_of(BLOCK_BYTES) && offset < end, "pieces are whole blocks");
        let mut buffer = pool.take(end - offset);
        // The buffer was used before, so all of it must be overwritten.
        let bytes = buffer.as_mut_slice();
        let (records, rest) = bytes.split_at_mut(records_end.min(end).saturating_sub(offset));
        self.chunks.copy_to(offset, records);
        rest.fill(0);
        if end == self.region_bytes {
            assert!(self.closed && self.in_flight.is_empty(), "a footer comes last");
            let stream = u16::try_from(self.stream).expect("streams are few");
            let footer = NewFooter {
                identity: self.identity,
                entries: &self.entries,
                used_bytes: narrow(records_end),
                latest_expiry_s: self.latest_expiry_s.unwrap_or(0),
                closing: self.form.is_stamped().then_some(Closing { horizon, closed_s, stream }),
            };
            footer.encode(rest, self.cache);
        }
        self.in_flight.send(end);
        Piece { identity: self.identity, stream: self.stream, offset, buffer }
    }

    /// Notes that a piece is on flash. Returns whether the region is completely on flash.
    fn piece_written(&mut self, offset: usize, spare: &mut SpareChunks) -> bool {
        self.in_flight.ended(offset);
        if self.failed {
            return false;
        }
        if self.in_flight.on_flash() == self.region_bytes {
            return true;
        }
        self.chunks.release(self.memory_from().min(self.chunks.end()), spare);
        false
    }

    /// A piece could not be written: from now on nothing is added to the region and nothing of it is written.
    pub(crate) fn fail(&mut self) {
        self.closed = true;
        self.failed = true;
    }

    /// Orders the write of all present records, up to the end of the last block; the next record begins in the next
    /// block. Closes the region if that leaves no room for the footer.
    fn want_rest(&mut self, spare: &mut SpareChunks) {
        if self.unsent() == 0 {
            return;
        }
        let end = self.chunks.end().next_multiple_of(BLOCK_BYTES);
        if end + self.form.footer_bytes(self.entries.len()) > self.region_bytes {
            self.closed = true;
            return;
        }
        self.chunks.pad(end, spare);
        self.wanted = end;
    }

    /// From now on nothing is added: what remains to be written is the end, with the footer.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}

#[cfg(test)]
mod tests;
