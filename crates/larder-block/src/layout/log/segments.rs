//! The life cycle of a segment.
//!
//! ```text
//!   free ──► open ──► sealed ──► draining ──► drained ──┐
//!             ▲        overwritten   destaged,   clean   │
//!             │        in place      or kept             │
//!             └──────────────────────────────────────────┘
//! ```
//!
//! A drained segment serves reads until it is filled again.
//!
//! *Always:* segments drain in the order of their generations. A segment is filled again only when all segments are
//! drained that may contain an older record of its data: those that were open before it was sealed (its `barrier`).
//! Before anything else is written there, a header on the device says that they are void. If necessary this is a
//! header without a batch. It is atomic by fitting into one sector, or, where a device can tear sectors, by being
//! written next to the previous one. So no record outlives a younger one of the same sectors.

use std::collections::BTreeMap;

use super::geometry::NotePlace;
use super::written::WrittenLines;
use crate::layout::{ClassId, PlacementClass};

/// Segments that are not opened for clients, so that kept data of a draining one, dirty and clean, finds room.
pub(super) const RESERVED_SEGMENTS: usize = 2;

/// The segment was recovered from an earlier start: no later header states more of it, because statements count within
/// an epoch.
const ADOPTED: u8 = 1;
/// The footer of the segment is durable: a start finds it without the headers of its batches, except the first.
const LISTED: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentState {
    Free,
    Open,
    Sealed,
    Draining,
    Drained,
}

/// The state of a segment: number, generation, batches that count, sequence of the last one.
pub(super) type Standing = (u32, u64, u32, u64);

/// The checksum of all segments, in the order of their numbers.
pub(super) fn checksum(standing: impl IntoIterator<Item = Standing>) -> u32 {
    standing.into_iter().fold(0, |sum, (segment, generation, batches, last)| {
        let parts = [u64::from(segment), generation, u64::from(batches), last];
        parts.iter().fold(sum, |sum, part| larder_checksum::crc32c_append(sum, &part.to_le_bytes()))
    })
}

#[derive(Debug)]
pub(super) struct Segment {
    state: SegmentState,
    class: PlacementClass,
    generation: u64,
    /// The youngest generation that was open before this segment was sealed.
    barrier: u64,
    used_bytes: u32,
    /// Batches that end up to here are stated as complete: dirty data in them may be overwritten in place.
    covered_bytes: u32,
    /// Batches that end up to here are declared clean: data overwritten there would be taken for clean too.
    told_bytes: u32,
    /// [`ADOPTED`], [`LISTED`]: one byte, because there may be many segments.
    marks: u8,
    /// Number of batches that a start finds and that count, and the sequence of the last batch that it finds.
    batches: u32,
    last_sequence: u64,
    /// Device writes in flight.
    writes: u32,
    /// Other users of its content: reads, and batches that may fail and bring it back into force.
    pins: u32,
    /// The place of the last durable note, on a device with two places for it.
    note_place: NotePlace,
    /// Lines that were written here.
    written: WrittenLines,
}

#[derive(Debug)]
pub(super) struct Segments {
    all: Vec<Segment>,
    free: Vec<u32>,
    /// All segments that are not free, by generation.
    order: BTreeMap<u64, u32>,
    next_generation: u64,
    /// Segments of lower generations are drained and void.
    void_below: u64,
    /// The `void_below` that a header on the device states.
    stated_void_below: u64,
}

impl Segments {
    pub(super) fn new(count: u32) -> Self {
        let blank = || Segment {
            state: SegmentState::Free,
            class: PlacementClass::Dirty,
            generation: 0,
            barrier: 0,
            used_bytes: 0,
            covered_bytes: 0,
            told_bytes: 0,
            marks: 0,
            batches: 0,
            last_sequence: 0,
            writes: 0,
            pins: 0,
            note_place: NotePlace::default(),
            written: WrittenLines::default(),
        };
        Self {
            all: (0..count).map(|_| blank()).collect(),
            free: (0..count).rev().collect(),
            order: BTreeMap::new(),
            next_generation: 1,
            void_below: 0,
            stated_void_below: 0,
        }
    }

    pub(super) fn get(&self, segment: u32) -> &Segment {
        &self.all[segment as usize]
    }

    fn at(&mut self, segment: u32) -> &mut Segment {
        &mut self.all[segment as usize]
    }

    /// The value for headers: earlier generations are void.
    pub(super) fn void_below(&self) -> u64 {
        self.void_below
    }

    /// A header on the device states it.
    pub(super) fn is_stated(&mut self, void_below: u64) {
        self.stated_void_below = self.stated_void_below.max(void_below);
    }

    /// Whether a header must still state it.
    pub(super) fn has_unstated(&self) -> bool {
        self.stated_void_below < self.void_below
    }

    /// The number of segments that may be filled.
    pub(super) fn ready(&self) -> usize {
        self.free.len() + self.ready_drained().count()
    }

    /// Drained segments that may be filled, oldest first.
    fn ready_drained(&self) -> impl Iterator<Item = u32> {
        let drained = self
            .order
            .values()
            .copied()
            .take_while(|&segment| self.get(segment).state == SegmentState::Drained);
        drained.filter(move |&segment| {
            let one = self.get(segment);
            one.barrier < self.void_below && one.pins == 0 && one.writes == 0
        })
    }

    /// The next segment to drain, or the draining one.
    pub(super) fn oldest_undrained(&self) -> Option<u32> {
        self.order
            .values()
            .copied()
            .find(|&segment| self.get(segment).state != SegmentState::Drained)
    }

    /// The filling that is overwritten next, and its segment. `None`: there are free segments.
    pub(super) fn next_filled(&self) -> Option<(u64, u32)> {
        self.free.is_empty().then(|| self.filling_from(0)).flatten()
    }

    /// The segment that is opened next.
    pub(super) fn next_to_open(&self) -> Option<u32> {
        self.free.last().copied().or_else(|| self.ready_drained().next())
    }

    /// Opens a segment.
    pub(super) fn open(&mut self, class: PlacementClass) -> Option<OpenSegment> {
        let segment = self.free.pop().or_else(|| self.ready_drained().next())?;
        let generation = self.next_generation;
        self.next_generation += 1;
        let one = &mut self.all[segment as usize];
        let needs_note =
            one.state == SegmentState::Drained && one.barrier >= self.stated_void_below;
        if one.state == SegmentState::Drained {
            self.order.remove(&one.generation);
        }
        assert!(one.pins == 0 && one.writes == 0, "a segment that is filled anew is not in use");
        let lines = std::mem::take(&mut one.written).into_lines();
        (one.state, one.class, one.generation) = (SegmentState::Open, class, generation);
        (one.barrier, one.used_bytes, one.covered_bytes) = (generation, 0, 0);
        (one.told_bytes, one.marks) = (0, 0);
        (one.batches, one.last_sequence) = (0, 0);
        self.order.insert(generation, segment);
        Some(OpenSegment { segment, lines, needs_note })
    }

    /// A batch of this filling is durable, and so are all before it.
    pub(super) fn has_batch(&mut self, segment: u32, generation: u64, sequence: u64) {
        let one = self.at(segment);
        if one.generation == generation {
            (one.batches, one.last_sequence) = (one.batches + 1, sequence);
        }
    }

    /// The segments that are not free, by generation.
    pub(super) fn standing_in_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.values().copied()
    }

    /// The segments that are not free, by number, as a start finds them.
    pub(super) fn standing(&self) -> impl Iterator<Item = Standing> + '_ {
        let standing = (0..).zip(&self.all).filter(|(_, one)| one.state != SegmentState::Free);
        standing.map(|(number, one)| (number, one.generation, one.batches, one.last_sequence))
    }

    /// The lowest generation of these.
    pub(super) fn lowest_generation(&self) -> u64 {
        self.order.keys().next().copied().unwrap_or(self.next_generation)
    }

    /// Whether a header on the device says that the segment is void.
    pub(super) fn is_void(&self, segment: u32) -> bool {
        self.get(segment).generation < self.stated_void_below
    }

    /// Takes the room up to `end`.
    pub(super) fn append(&mut self, segment: u32, end: u32) {
        let one = self.at(segment);
        assert_eq!(one.state, SegmentState::Open, "only an open segment grows");
        assert!(one.used_bytes < end, "{end} is not behind {}", one.used_bytes);
        one.used_bytes = end;
    }

    /// Data of a line was written for a class.
    pub(super) fn add_line(&mut self, segment: u32, line: u64, class: ClassId) {
        self.at(segment).written.push(line, class);
    }

    /// A segment has data of a class for which that data was not written there.
    pub(super) fn has_changed_class(&mut self, segment: u32, class: ClassId) {
        self.at(segment).written.has_changed_class(class);
    }

    /// The first filling of this generation or a later one, and its segment.
    pub(super) fn filling_from(&self, generation: u64) -> Option<(u64, u32)> {
        self.order.range(generation..).next().map(|(generation, segment)| (*generation, *segment))
    }

    pub(super) fn seal(&mut self, segment: u32) {
        let youngest = self.next_generation - 1;
        let one = self.at(segment);
        assert_eq!(one.state, SegmentState::Open, "only an open segment is sealed");
        (one.state, one.barrier) = (SegmentState::Sealed, youngest);
        one.written.shrink_to_fit();
    }

    pub(super) fn begin_draining(&mut self, segment: u32) {
        let one = self.at(segment);
        assert_eq!(one.state, SegmentState::Sealed, "a segment drains when it is sealed");
        one.state = SegmentState::Draining;
    }

    pub(super) fn end_draining(&mut self, segment: u32) {
        let one = self.at(segment);
        assert_eq!(one.state, SegmentState::Draining);
        one.state = SegmentState::Drained;
        self.void_below = self.void_below.max(self.voidable_below());
    }

    /// The generations that may be void: drained, and with each segment all that may contain older records of its
    /// data.
    fn voidable_below(&self) -> u64 {
        let (mut below, mut barrier) = (0, 0);
        for &segment in self.order.values() {
            let one = self.get(segment);
            if one.generation > barrier {
                below = barrier + 1;
            }
            if one.state != SegmentState::Drained {
                return below;
            }
            barrier = barrier.max(one.barrier);
        }
        barrier + 1
    }

    /// The note of its filling is durable: the next one goes to the other place. A note that failed may be torn, and
    /// is overwritten.
    pub(super) fn note_is_durable(&mut self, segment: u32) {
        let place = &mut self.at(segment).note_place;
        *place = place.other();
    }

    /// The footer of this filling is durable, and so are all batches before it.
    pub(super) fn footer_is_durable(&mut self, segment: u32, generation: u64) {
        let one = self.at(segment);
        if one.generation == generation {
            one.marks |= LISTED;
        }
    }

    /// Batches that end up to `position` are stated as complete, if this is still the filling of `generation`.
    pub(super) fn cover(&mut self, segment: u32, generation: u64, position: u32) {
        let one = self.at(segment);
        if one.generation == generation {
            one.covered_bytes = one.covered_bytes.max(position);
        }
    }

    /// A label will say that the cores have everything that was written up to now.
    pub(super) fn are_told_clean(&mut self) {
        for one in &mut self.all {
            let is_open = one.state == SegmentState::Open;
            one.told_bytes = if is_open { one.used_bytes } else { u32::MAX };
        }
    }

    pub(super) fn pin(&mut self, segment: u32) {
        self.at(segment).pins += 1;
    }

    pub(super) fn unpin(&mut self, segment: u32) {
        let pins = &mut self.at(segment).pins;
        *pins = pins.checked_sub(1).expect("pinned before");
    }

    pub(super) fn begin_write(&mut self, segment: u32) {
        self.at(segment).writes += 1;
    }

    pub(super) fn end_write(&mut self, segment: u32) {
        let writes = &mut self.at(segment).writes;
        *writes = writes.checked_sub(1).expect("begun before");
    }

    /// Takes over a recovered segment: sealed, or drained.
    pub(super) fn adopt(&mut self, segment: u32, found: RecoveredSegment) {
        let one = self.at(segment);
        let state = if found.is_drained { SegmentState::Drained } else { SegmentState::Sealed };
        (one.state, one.class, one.generation) = (state, PlacementClass::Dirty, found.generation);
        (one.barrier, one.covered_bytes) = (found.barrier, found.covered_bytes);
        (one.batches, one.last_sequence) = (found.batches, found.last_sequence);
        one.written = WrittenLines::of_no_class(found.lines);
        one.marks = if found.is_listed { ADOPTED | LISTED } else { ADOPTED };
        self.order.insert(found.generation, segment);
        self.next_generation = self.next_generation.max(found.generation + 1);
    }

    /// The place of the last note of a segment that a crash has left, whether the segment was taken over or is void.
    pub(super) fn adopt_note(&mut self, segment: u32, place: NotePlace) {
        self.at(segment).note_place = place;
    }

    /// All recovered segments have been taken over.
    pub(super) fn end_adopting(&mut self) {
        let is_free = |(_, one): &(u32, &Segment)| one.state == SegmentState::Free;
        self.free = (0..).zip(&self.all).filter(is_free).map(|(segment, _)| segment).collect();
        self.free.reverse();
    }

    /// Sets what is void, and the youngest generation that was seen, void or not.
    pub(super) fn adopt_bounds(&mut self, void_below: u64, youngest: u64) {
        (self.void_below, self.stated_void_below) = (void_below, void_below);
        self.next_generation = self.next_generation.max(youngest + 1);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lines: usize = self.all.iter().map(|one| one.written.memory_bytes()).sum();
        lines + self.all.capacity() * size_of::<Segment>() + self.order.len() * 24
    }
}

/// A segment that is about to be filled.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) segment: u32,
    /// The lines of its previous filling, which must be removed from the index.
    pub(super) lines: Vec<u64>,
    /// No header says yet that its older neighbours are void.
    pub(super) needs_note: bool,
}

/// What a recovery knows of a segment.
#[derive(Debug)]
pub(super) struct RecoveredSegment {
    pub(super) generation: u64,
    pub(super) barrier: u64,
    pub(super) covered_bytes: u32,
    /// The number of batches that count, and the sequence of the last one.
    pub(super) batches: u32,
    pub(super) last_sequence: u64,
    /// Whether the cores have its data, and a stop has said that it may be used nevertheless.
    pub(super) is_drained: bool,
    /// Whether this is from its footer.
    pub(super) is_listed: bool,
    pub(super) lines: Vec<u64>,
}

impl Segment {
    /// Whether a start finds it without the headers of its batches, except the first.
    pub(super) fn is_listed(&self) -> bool {
        self.marks & LISTED != 0
    }

    /// The place of the last durable note.
    pub(super) fn note_place(&self) -> NotePlace {
        self.note_place
    }

    pub(super) fn state(&self) -> SegmentState {
        self.state
    }

    pub(super) fn class(&self) -> PlacementClass {
        self.class
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn used_bytes(&self) -> u32 {
        self.used_bytes
    }

    pub(super) fn lines(&self) -> &[u64] {
        self.written.lines()
    }

    pub(super) fn written(&self) -> &WrittenLines {
        &self.written
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == SegmentState::Open
    }

    /// Whether no write to it is in flight.
    pub(super) fn is_still(&self) -> bool {
        self.writes == 0
    }

    /// Whether the cores durably had the data at `position` at the last call of `are_told_clean`. It was not
    /// overwritten since.
    pub(super) fn is_told(&self, position: u32) -> bool {
        position < self.told_bytes
    }

    /// Whether dirty data that ends at `position` can be overwritten in place as soon as a header states more.
    pub(super) fn will_take_overwrites(&self, position: u32) -> bool {
        let is_there = matches!(self.state, SegmentState::Open | SegmentState::Sealed);
        is_there && position > self.told_bytes && self.marks & ADOPTED == 0
    }

    /// Whether dirty data that ends at `position` may be overwritten in place.
    pub(super) fn takes_overwrites(&self, position: u32) -> bool {
        let is_there = matches!(self.state, SegmentState::Open | SegmentState::Sealed);
        is_there && position > self.told_bytes && position <= self.covered_bytes
    }
}
