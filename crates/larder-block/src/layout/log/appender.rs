//! Records that wait to be appended, and batches in flight.
//!
//! *Always:* batches complete in the order of their sequences, whatever the order of the device completions: a request
//! is acknowledged when its batch and all earlier ones are durable. So a chain of headers that is broken by a crash
//! contains everything that was acknowledged, and a header may state that all batches up to some sequence are complete
//! (its `horizon`).

use std::collections::VecDeque;

use super::batch::RECORDS_MAX;
use super::footer::Listing;
use super::grace::GracePhase;
use super::index::MappedExtent;
use super::record::Record;
use crate::layout::{ClassId, Data, PlacementClass, RequestId, Span};

/// A batch of this many bytes does not wait for others to complete.
const FULL_BATCH_BYTES: usize = 128 << 10;
/// Most batches of a lane in flight.
const IN_FLIGHT_MAX: usize = 8;

/// A record to append: sectors of one line.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) span: Span,
    /// `None` for a record without data.
    pub(super) data: Option<Data>,
    pub(super) source: Source,
    /// The class of the data once it is cached.
    pub(super) class: ClassId,
}

/// The reason for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A client write; `is_eager`: its data is held in memory for the core.
    Write { request: RequestId, is_eager: bool },
    /// Clean data that was read from the core.
    Insert { request: RequestId },
    /// These sectors become void.
    Void { request: RequestId },
    /// Like `Void`, and a write around waits for it.
    VoidBefore { request: RequestId },
    /// The core durably has the data of these sectors at this location, which was dirty.
    Destaged { request: RequestId, location: u64 },
    /// Kept data of a draining segment: its old location, and the attempt to drain the segment.
    Kept { location: u64, is_dirty: bool, attempt: u64 },
}

impl Source {
    /// Whether it may use the reserved segments: it makes room, or a flush waits for it, and that flush must not wait
    /// for a core that fails.
    pub(super) fn may_use_reserve(self) -> bool {
        matches!(self, Self::Kept { .. } | Self::Destaged { .. })
    }
}

impl Pending {
    /// Sectors that will be cached when it is written, and may not have been cached before.
    fn new_sectors(&self) -> u64 {
        match self.source {
            Source::Write { .. } | Source::Insert { .. } => u64::from(self.span.sectors),
            Source::Void { .. }
            | Source::VoidBefore { .. }
            | Source::Destaged { .. }
            | Source::Kept { .. } => 0,
        }
    }
}

/// A record of a batch in flight.
#[derive(Debug)]
pub(super) struct AppendedRecord {
    pub(super) pending: Pending,
    /// 0 for a void.
    pub(super) location: u64,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    /// The horizon in its header.
    pub(super) horizon: u64,
    /// The `void_below` in its header.
    pub(super) void_below: u64,
    pub(super) lane: usize,
    pub(super) segment: u32,
    pub(super) generation: u64,
    /// Its end in the segment.
    pub(super) end: u32,
    /// Whether the footer of its segment is written together with the batch.
    pub(super) has_footer: bool,
    pub(super) records: Vec<AppendedRecord>,
    /// What the index had before; in force again if the batch fails.
    pub(super) displaced: Vec<MappedExtent>,
    pub(super) phase: GracePhase,
    /// An earlier batch of its segment has failed. A start does not find batches after such a hole.
    pub(super) is_behind_hole: bool,
    /// The result of the device write, once it has ended.
    pub(super) ended: Option<bool>,
}

/// Appends of one class. They go to a segment of their own.
#[derive(Debug)]
struct Lane {
    class: PlacementClass,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// Number of client records that were taken out of `pending`.
    taken: u64,
    open: Option<u32>,
    /// What the footer of the open segment will list.
    listing: Listing,
    in_flight: usize,
    /// A header without records is in flight to the open segment; nothing else may be written there before it.
    awaits_note: bool,
    /// Overwrites in place that were in flight when the first pending record arrived, and still are; `None` until the
    /// first call of `has_waited`.
    company: Option<usize>,
}

/// Number of the lane for dirty data and voids.
pub(super) const DIRTY_LANE: usize = 0;
/// Number of the lane for clean data.
pub(super) const CLEAN_LANE: usize = 1;

/// The number of lanes.
pub(super) const LANES: usize = 2;

#[derive(Debug)]
pub(super) struct Appender {
    lanes: [Lane; LANES],
    /// Ordered by sequence.
    in_flight: VecDeque<Batch>,
    next_sequence: u64,
    /// All batches up to this sequence are complete.
    completed: u64,
    /// The highest horizon of a complete batch.
    stated: u64,
    /// Complete batches that no complete header states yet: sequence, segment, generation, end.
    unstated: VecDeque<(u64, u32, u64, u32)>,
    /// A batch has failed. How much of it reached the device is unknown, so no later horizon may include it.
    is_frozen: bool,
    /// Pending sectors of client data, by IO class.
    class_sectors: [u64; ClassId::COUNT],
}

impl Appender {
    /// Continues after `last_sequence`, in a new epoch.
    pub(super) fn new(last_sequence: u64) -> Self {
        let lane = |class| Lane {
            class,
            pending: VecDeque::new(),
            pending_bytes: 0,
            taken: 0,
            open: None,
            listing: Listing::default(),
            in_flight: 0,
            company: None,
            awaits_note: false,
        };
        Self {
            lanes: [lane(PlacementClass::Dirty), lane(PlacementClass::Clean)],
            in_flight: VecDeque::new(),
            next_sequence: last_sequence + 1,
            completed: last_sequence,
            stated: last_sequence,
            unstated: VecDeque::new(),
            is_frozen: false,
            class_sectors: [0; ClassId::COUNT],
        }
    }

    /// Pending sectors of client data of a class.
    pub(super) fn class_sectors(&self, class: ClassId) -> u64 {
        self.class_sectors[class.index()]
    }

    pub(super) fn push(&mut self, lane: usize, pending: Pending) {
        self.class_sectors[pending.class.index()] += pending.new_sectors();
        let lane = &mut self.lanes[lane];
        lane.pending_bytes += pending.data.as_ref().map_or(0, Data::len);
        lane.pending.push_back(pending);
    }

    /// In front of client writes, which may wait for the room that this makes.
    pub(super) fn push_first(&mut self, lane: usize, pending: Pending) {
        let lane = &mut self.lanes[lane];
        lane.pending_bytes += pending.data.as_ref().map_or(0, Data::len);
        lane.pending.push_front(pending);
    }

    pub(super) fn pop(&mut self, lane: usize) -> Option<Pending> {
        let lane = &mut self.lanes[lane];
        let pending = lane.pending.pop_front()?;
        lane.pending_bytes -= pending.data.as_ref().map_or(0, Data::len);
        lane.taken += u64::from(!pending.source.may_use_reserve());
        self.class_sectors[pending.class.index()] -= pending.new_sectors();
        Some(pending)
    }

    /// The next pending record of a lane.
    pub(super) fn first(&self, lane: usize) -> Option<&Pending> {
        self.lanes[lane].pending.front()
    }

    /// Bytes of all pending records.
    pub(super) fn pending_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.pending_bytes).sum()
    }

    /// The segment to which a lane appends.
    pub(super) fn open(&self, lane: usize) -> Option<u32> {
        self.lanes[lane].open
    }

    /// The kind of data of a lane.
    pub(super) fn placement(&self, lane: usize) -> PlacementClass {
        self.lanes[lane].class
    }

    /// What the footer of the lane's open segment will list.
    pub(super) fn listing(&self, lane: usize) -> &Listing {
        &self.lanes[lane].listing
    }

    /// The footer of the lane's open segment will list this batch.
    pub(super) fn list(&mut self, lane: usize, sequence: u64, records: &[Record]) {
        self.lanes[lane].listing.push(sequence, records);
    }

    /// A lane appends to this newly opened segment from now on.
    pub(super) fn set_open(&mut self, lane: usize, segment: u32, awaits_note: bool) {
        let lane = &mut self.lanes[lane];
        (lane.open, lane.awaits_note) = (Some(segment), awaits_note);
        lane.listing.clear();
    }

    /// A lane appends to its segment no longer: returns it, to be sealed.
    pub(super) fn take_open(&mut self, lane: usize) -> Option<u32> {
        self.lanes[lane].open.take()
    }

    /// No lane appends to this segment any longer.
    pub(super) fn closes(&mut self, segment: u32) {
        for lane in &mut self.lanes {
            lane.open = lane.open.filter(|&open| open != segment);
        }
    }

    /// Moves all that is pending to the lane for dirty data. Returns the segment to be sealed.
    pub(super) fn leave_clean_lane(&mut self) -> Option<u32> {
        while let Some(pending) = self.pop(CLEAN_LANE) {
            self.push(DIRTY_LANE, pending);
        }
        self.take_open(CLEAN_LANE)
    }

    /// Whether a header without records is in flight to the lane's open segment.
    pub(super) fn awaits_note(&self, lane: usize) -> bool {
        self.lanes[lane].awaits_note
    }

    /// Whether client data waits for a segment to be opened.
    pub(super) fn waits_for_segment(&self) -> bool {
        let is_of_client = |one: &Pending| !matches!(one.source, Source::Kept { .. });
        let waits =
            |lane: &Lane| lane.open.is_none() && lane.pending.back().is_some_and(is_of_client);
        self.lanes.iter().any(waits)
    }

    /// Whether a batch of a lane should be written now. While a batch is in flight, a small one waits for more records.
    pub(super) fn is_due(&mut self, lane: usize, overwrites: usize) -> bool {
        let state = &self.lanes[lane];
        let is_full = state.pending_bytes >= FULL_BATCH_BYTES || state.pending.len() >= RECORDS_MAX;
        let may_follow = is_full && state.in_flight < IN_FLIGHT_MAX && !state.awaits_note;
        let is_free = state.in_flight == 0 || may_follow;
        !state.pending.is_empty() && is_free && (is_full || self.has_waited(lane, overwrites))
    }

    /// If voids of parts of `span` are pending: the number to pass to [`has_taken`](Self::has_taken), which tells
    /// whether they were taken out.
    pub(super) fn pending_voids(&self, span: Span) -> Option<u64> {
        let Lane { pending, taken, .. } = &self.lanes[DIRTY_LANE];
        let of_users = || pending.iter().filter(|one| !one.source.may_use_reserve());
        let is_void = |one: &Pending| one.data.is_none() && one.span.overlaps(span);
        of_users().any(is_void).then(|| taken + of_users().count() as u64)
    }

    pub(super) fn has_taken(&self, asked: u64) -> bool {
        self.lanes[DIRTY_LANE].taken >= asked
    }

    /// Sequence and horizon of the next batch.
    pub(super) fn next_header(&self) -> (u64, u64) {
        (self.next_sequence, self.completed)
    }

    /// Sequence of the last batch that was issued.
    pub(super) fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    pub(super) fn sets_out(&mut self, batch: Batch) {
        debug_assert_eq!(batch.sequence, self.next_sequence);
        self.next_sequence += 1;
        let lane = &mut self.lanes[batch.lane];
        lane.in_flight += 1;
        lane.company = None;
        self.in_flight.push_back(batch);
    }

    /// Whether the pending records have waited as long as a write takes, so that more records can join the batch.
    /// Otherwise a few records between many overwrites would each get a header, which would take an eighth of the
    /// room. Without overwrites in flight, records do not wait.
    fn has_waited(&mut self, lane: usize, overwrites: usize) -> bool {
        *self.lanes[lane].company.get_or_insert(overwrites) == 0
    }

    pub(super) fn overwrite_ended(&mut self) {
        for lane in &mut self.lanes {
            lane.company = lane.company.map(|count| count.saturating_sub(1));
        }
    }

    /// The device write of a batch has ended. If it has failed, returns its lane and segment: nothing more may be
    /// written there after it.
    pub(super) fn write_ended(&mut self, sequence: u64, is_well: bool) -> Option<(usize, u32)> {
        let found = self.in_flight.iter_mut().find(|batch| batch.sequence == sequence);
        let batch = found.expect("a batch under way");
        batch.ended = Some(is_well && !batch.is_behind_hole);
        if is_well {
            return None;
        }
        self.is_frozen = true;
        let (lane, segment) = (batch.lane, batch.segment);
        for later in &mut self.in_flight {
            if later.segment == segment && later.sequence > sequence {
                later.is_behind_hole = true;
                later.ended = later.ended.map(|_| false);
            }
        }
        Some((lane, segment))
    }

    /// Removes the first batch if it has ended, and counts it.
    pub(super) fn take_ended(&mut self) -> Option<Batch> {
        self.in_flight.front().filter(|batch| batch.ended.is_some())?;
        let batch = self.in_flight.pop_front()?;
        let lane = &mut self.lanes[batch.lane];
        lane.in_flight -= 1;
        lane.awaits_note &= !batch.records.is_empty();
        if batch.ended == Some(true) && !self.is_frozen {
            self.completed = batch.sequence;
            self.stated = self.stated.max(batch.horizon);
            self.unstated.push_back((batch.sequence, batch.segment, batch.generation, batch.end));
        }
        Some(batch)
    }

    /// Segment, generation and end of a batch that a complete header states.
    pub(super) fn next_stated(&mut self) -> Option<(u32, u64, u32)> {
        self.unstated.front().filter(|one| one.0 <= self.stated)?;
        let (_, segment, generation, end) = self.unstated.pop_front()?;
        Some((segment, generation, end))
    }

    /// Whether no batch is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether there are complete batches that only a header without records would state, because nothing is pending.
    pub(super) fn has_unstated(&self) -> bool {
        let is_pending = self.lanes.iter().any(|lane| !lane.pending.is_empty());
        !is_pending && !self.unstated.is_empty() && !self.is_frozen
    }

    /// Whether no more batches will be stated.
    pub(super) fn is_frozen(&self) -> bool {
        self.is_frozen
    }
}
