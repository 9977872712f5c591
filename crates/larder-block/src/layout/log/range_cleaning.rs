//! The cleanings under way, their stages, and their markers in flight. [`cleaning`](super::cleaning) carries them on.

use std::collections::BTreeMap;

use super::grace::GracePhase;
use super::index::MappedExtent;
use super::written::Place;
use crate::layout::{ClassId, Data, RequestId, Span};

/// What is to become clean.
#[derive(Clone, Copy, Debug)]
pub(super) enum CleaningAim {
    Range(Span),
    /// Some data of a class, from this place on.
    Oldest(ClassId, Place),
}

/// A cleaning: of a range, or of some data of a class.
#[derive(Debug)]
pub(super) struct RangeCleaning {
    pub(super) request: RequestId,
    pub(super) aim: CleaningAim,
    /// What was dirty when it was requested, and may still be.
    pub(super) left: Vec<MappedExtent>,
    pub(super) stage: CleaningStage,
    /// For a settling: data that was clean but looked dirty when the flush was issued.
    pub(super) marks: Vec<MappedExtent>,
    pub(super) settles: bool,
    /// The turn of its own markers. Markers with an earlier turn may be of the same range, and are waited for.
    pub(super) turn: u64,
    /// I/Os and markers in flight.
    pub(super) outstanding: usize,
    pub(super) has_failed: bool,
}

#[derive(Debug)]
pub(super) enum CleaningStage {
    /// Searches for what is left.
    Looking,
    /// These are busy; writes that may overwrite them are in flight.
    Waiting(Vec<MappedExtent>, GracePhase),
    /// Reads of data that is not in memory are in flight.
    Reading(Vec<(MappedExtent, Data)>),
    /// Writes to the core are in flight.
    Writing,
    /// Waits for the flush of the core.
    Flushing,
    /// Waits until pending voids were issued: because of them the index may already have removed data that looks
    /// dirty.
    Voiding(u64),
    /// Waits for the markers, and for the writes in flight at that time: they may have displaced data that looks
    /// dirty, which a start after a crash would find until they are durable.
    Marking(GracePhase),
    Ended,
}

/// Markers that are not durable yet. Their data no longer looks dirty, so another settling of the same range finds
/// nothing to mark, and waits for them.
#[derive(Debug, Default)]
struct Markers {
    last_turn: u64,
    /// The range of the settling, by turn.
    under_way: BTreeMap<u64, Span>,
}

impl Markers {
    /// A new turn for a settling of `span`, with or without markers.
    fn set_out(&mut self, span: Span, has_some: bool) -> u64 {
        self.last_turn += 1;
        if has_some {
            self.under_way.insert(self.last_turn, span);
        }
        self.last_turn
    }

    /// Whether there are earlier markers for the range that `one` settles.
    fn are_before(&self, one: &RangeCleaning) -> bool {
        self.under_way.range(..one.turn).any(|(_, span)| one.wants(*span))
    }

    fn ended(&mut self, turn: u64) {
        self.under_way.remove(&turn);
    }
}

/// All cleanings under way.
#[derive(Debug, Default)]
pub(super) struct Cleanings {
    all: Vec<RangeCleaning>,
    markers: Markers,
}

impl Cleanings {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn push(&mut self, one: RangeCleaning) {
        self.all.push(one);
    }

    /// Takes out all cleanings. Those that have not ended are put back with [`push`](Self::push).
    pub(super) fn take_all(&mut self) -> Vec<RangeCleaning> {
        std::mem::take(&mut self.all)
    }

    /// Whether the markers of earlier settlings of its range are durable.
    pub(super) fn has_turn(&self, one: &RangeCleaning) -> bool {
        !self.markers.are_before(one)
    }

    /// The markers of a settling of `span`, if there are some, are about to be written.
    pub(super) fn set_out(&mut self, one: &mut RangeCleaning, span: Span) {
        one.turn = self.markers.set_out(span, one.outstanding > 0);
    }

    /// A read for a cleaning has succeeded.
    pub(super) fn add_read(
        &mut self,
        request: RequestId,
        data: impl Iterator<Item = (MappedExtent, Data)>,
    ) {
        let CleaningStage::Reading(read) = &mut self.of(request).stage else {
            unreachable!("it reads until all reads have ended")
        };
        read.extend(data);
    }

    /// An I/O or a marker of a cleaning has ended.
    pub(super) fn io_ended(&mut self, request: RequestId, is_well: bool) {
        let cleaning = self.of(request);
        cleaning.outstanding -= 1;
        cleaning.has_failed |= !is_well;
        if cleaning.outstanding == 0 {
            let turn = cleaning.turn;
            self.markers.ended(turn);
        }
    }

    /// A batch has failed, and what it displaced is in force again: cleanings of this range may have missed its dirty
    /// data.
    pub(super) fn missed(&mut self, span: Span) {
        for one in &mut self.all {
            one.has_failed |= one.wants(span);
        }
    }

    /// Kept data of a drained segment is at a new place now.
    pub(super) fn follow(&mut self, moved: MappedExtent) {
        for one in self.all.iter_mut().filter(|one| one.wants(moved.span)) {
            one.left.push(moved);
        }
    }

    /// A marker of `span` was not written: settlings that rely on it fail.
    pub(super) fn not_marked(&mut self, span: Span) {
        let relies = |one: &RangeCleaning| {
            matches!(one.stage, CleaningStage::Voiding(_) | CleaningStage::Marking(_))
                && one.wants(span)
        };
        self.all.iter_mut().filter(|one| relies(one)).for_each(|one| one.has_failed = true);
    }

    fn of(&mut self, request: RequestId) -> &mut RangeCleaning {
        let found = self.all.iter_mut().find(|one| one.request == request);
        found.expect("it lasts as long as anything of it is under way")
    }
}

impl RangeCleaning {
    pub(super) fn new(
        (request, settles): (RequestId, bool),
        aim: CleaningAim,
        left: Vec<MappedExtent>,
        stage: CleaningStage,
    ) -> Self {
        let (outstanding, has_failed, marks, turn) = (0, false, Vec::new(), 0);
        Self { request, aim, left, stage, marks, settles, turn, outstanding, has_failed }
    }

    /// Whether it destages all dirty data of a range that overlaps `span`.
    pub(super) fn wants(&self, span: Span) -> bool {
        matches!(self.aim, CleaningAim::Range(range) if range.overlaps(span))
    }
}
