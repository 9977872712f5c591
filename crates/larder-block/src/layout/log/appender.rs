//! What waits to be appended, and which batches are on their way.
//!
//! *Always:* batches complete in the order of their sequences, whatever order the device ends them in: a request is
//! acknowledged when its batch and all before it are durable. So a chain of headers that a crash has broken holds all
//! that was acknowledged, and a header may state all batches up to one as complete (its `horizon`).

use std::collections::VecDeque;

use super::footer::Listing;
use super::grace::Phase;
use super::index::Found;
use crate::layout::{Class, ClassId, Data, RequestId, Span};

/// What wants to be appended: sectors of one line.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) span: Span,
    /// None of what is void.
    pub(super) data: Option<Data>,
    pub(super) source: Source,
    /// Of what is cached then.
    pub(super) class: ClassId,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A user's write; `is_eager`: its data are held in memory for the core.
    Write { request: RequestId, is_eager: bool },
    /// Clean data that were read from the core.
    Insert { request: RequestId },
    /// What is known of these sectors is void.
    Void { request: RequestId },
    /// The same, and a write around waits for it.
    VoidBefore { request: RequestId },
    /// What is cached of these sectors at this location, and was dirty, the core has durably.
    Destaged { request: RequestId, location: u64 },
    /// A segment gives way, and this is kept: from where, and in which attempt to drain it.
    Kept { location: u64, is_dirty: bool, attempt: u64 },
}

impl Source {
    /// Whether it may go to the segments that are reserved: it makes room, or a flush waits for it that must not wait
    /// for a core that refuses something.
    pub(super) fn may_use_reserve(self) -> bool {
        matches!(self, Self::Kept { .. } | Self::Destaged { .. })
    }
}

impl Pending {
    /// Sectors that are cached when it is written, and were not before, or may not have been.
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

/// A record of a batch that is on its way.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) pending: Pending,
    /// 0 of what is void.
    pub(super) location: u64,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    /// What its header states as complete.
    pub(super) horizon: u64,
    /// What its header states as void.
    pub(super) void_below: u64,
    pub(super) lane: usize,
    pub(super) segment: u32,
    pub(super) generation: u64,
    /// Where in the segment it ends.
    pub(super) end: u32,
    /// Whether the footer of its segment is written with it.
    pub(super) has_footer: bool,
    pub(super) records: Vec<Appended>,
    /// What the index said before, in force again if the batch fails.
    pub(super) displaced: Vec<Found>,
    pub(super) phase: Phase,
    /// An earlier batch of its segment has failed: what lies behind a hole is not found again.
    pub(super) is_behind_hole: bool,
    /// How the device write ended, once it has.
    pub(super) ended: Option<bool>,
}

/// Appends of a class: they go to a segment of their own.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) class: Class,
    pub(super) pending: VecDeque<Pending>,
    pub(super) pending_bytes: usize,
    /// How many of users' have been taken out of `pending`.
    taken: u64,
    pub(super) open: Option<u32>,
    /// What the footer of the open segment will list.
    pub(super) listing: Listing,
    pub(super) in_flight: usize,
    /// A header without records is on its way to the open segment, and nothing else may go there before.
    pub(super) awaits_note: bool,
    /// Overwrites in place that were under way when the first of the pending came and still are; `None` before that
    /// was asked.
    pub(super) company: Option<usize>,
}

/// Number of the lane of dirty data and voids.
pub(super) const DIRTY_LANE: usize = 0;
/// Number of the lane of clean data.
pub(super) const CLEAN_LANE: usize = 1;

#[derive(Debug)]
pub(super) struct Appender {
    pub(super) lanes: [Lane; 2],
    /// By sequence.
    in_flight: VecDeque<Batch>,
    next_sequence: u64,
    /// All batches up to here are complete.
    completed: u64,
    /// What the horizon of a complete batch says at most.
    stated: u64,
    /// Complete batches that no complete header states yet: sequence, segment, generation, end.
    unstated: VecDeque<(u64, u32, u64, u32)>,
    /// A batch has failed: how much of it lies on the device nobody knows, so no later horizon may cover it.
    is_frozen: bool,
    /// Sectors of users' data that are pending, by IO class.
    class_sectors: [u64; ClassId::COUNT],
}

impl Appender {
    /// Continues behind `last_sequence`, in a new epoch.
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

    /// Sectors of users' data of a class that are pending.
    pub(super) fn class_sectors(&self, class: ClassId) -> u64 {
        self.class_sectors[class.index()]
    }

    pub(super) fn push(&mut self, lane: usize, pending: Pending) {
        self.class_sectors[pending.class.index()] += pending.new_sectors();
        let lane = &mut self.lanes[lane];
        lane.pending_bytes += pending.data.as_ref().map_or(0, Data::len);
        lane.pending.push_back(pending);
    }

    /// In front of users' writes, which may wait for the room that this makes.
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

    /// If voids of parts of `span` are pending: to be asked with [`has_taken`](Self::has_taken) whether they have been
    /// taken out.
    pub(super) fn pending_voids(&self, span: Span) -> Option<u64> {
        let Lane { pending, taken, .. } = &self.lanes[DIRTY_LANE];
        let of_users = || pending.iter().filter(|one| !one.source.may_use_reserve());
        let is_void = |one: &Pending| one.data.is_none() && one.span.overlaps(span);
        of_users().any(is_void).then(|| taken + of_users().count() as u64)
    }

    pub(super) fn has_taken(&self, asked: u64) -> bool {
        self.lanes[DIRTY_LANE].taken >= asked
    }

    /// Sequence and horizon of a batch that sets out now.
    pub(super) fn next_header(&self) -> (u64, u64) {
        (self.next_sequence, self.completed)
    }

    /// Sequence of the batch that set out last.
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

    /// Whether what is pending has waited for company as long as a write takes: a header for each of a few records that
    /// come between many overwrites would take an eighth of the room. With nothing else under way it does not wait.
    pub(super) fn has_waited(&mut self, lane: usize, overwrites: usize) -> bool {
        *self.lanes[lane].company.get_or_insert(overwrites) == 0
    }

    pub(super) fn overwrite_ended(&mut self) {
        for lane in &mut self.lanes {
            lane.company = lane.company.map(|count| count.saturating_sub(1));
        }
    }

    /// The device write of a batch has ended. If it has failed, its lane and segment: nothing may be written behind it
    /// there any more.
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

    /// Takes out the first batch if it has ended, and counts it.
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

    /// Whether a header is under way that states what is complete and void.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether only a header without records would state what is complete: nothing else is about to.
    pub(super) fn has_unstated(&self) -> bool {
        let is_pending = self.lanes.iter().any(|lane| !lane.pending.is_empty());
        !is_pending && !self.unstated.is_empty() && !self.is_frozen
    }

    /// Whether no batch will be stated any more.
    pub(super) fn is_frozen(&self) -> bool {
        self.is_frozen
    }
}
