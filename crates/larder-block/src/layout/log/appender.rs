//! Records that wait to be appended, and batches in flight.
//!
//! *Always:* batches complete in the order of their sequences, whatever the order of the device completions: a request
//! is acknowledged when its batch and all earlier ones are durable. So a chain of headers that is broken by a crash
//! contains everything that was acknowledged, and a header may state that all batches up to some sequence are complete
//! (its `horizon`).

use std::collections::VecDeque;

use super::footer::Listing;
use super::grace::Phase;
use super::index::Found;
use crate::layout::{Class, ClassId, Data, RequestId, Span};

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
pub(super) struct Appended {
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
    pub(super) records: Vec<Appended>,
    /// What the index had before; in force again if the batch fails.
    pub(super) displaced: Vec<Found>,
    pub(super) phase: Phase,
    /// An earlier batch of its segment has failed. A start does not find batches after such a hole.
    pub(super) is_behind_hole: bool,
    /// The result of the device write, once it has ended.
    pub(super) ended: Option<bool>,
}

/// Appends of one class. They go to a segment of their own.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) class: Class,
    pub(super) pending: VecDeque<Pending>,
    pub(super) pending_bytes: usize,
    /// Number of client records that were taken out of `pending`.
    taken: u64,
    pub(super) open: Option<u32>,
    /// What the footer of the open segment will list.
    pub(super) listing: Listing,
    pub(super) in_flight: usize,
    /// A header without records is in flight to the open segment; nothing else may be written there before it.
    pub(super) awaits_note: bool,
    /// Overwrites in place that were in flight when the first pending record arrived, and still are; `None` until the
    /// first call of [`Appender::has_waited`].
    pub(super) company: Option<usize>,
}

/// Number of the lane for dirty data and voids.
pub(super) const DIRTY_LANE: usize = 0;
/// Number of the lane for clean data.
pub(super) const CLEAN_LANE: usize = 1;

#[derive(Debug)]
pub(super) struct Appender {
    pub(super) lanes: [Lane; 2],
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
            lanes: [lane(Class::Dirty), lane(Class::Clean)],
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
    pub(super) fn has_waited(&mut self, lane: usize, overwrites: usize) -> bool {
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
