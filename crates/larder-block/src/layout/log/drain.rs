//! The progress of draining a segment, and the data that it sends.
//!
//! *Always:* one segment drains at a time. I/Os of a failed attempt may still be in flight while the next attempt
//! waits, and count for no later attempt.

use std::collections::VecDeque;

use super::index::MappedExtent;
use super::yielding::Yielding;
use crate::layout::{Data, Span};

/// The segment that is being drained, if one is, and how fast.
#[derive(Debug, Default)]
pub(super) struct Draining {
    drain: Option<Drain>,
    /// Number of attempts to drain a segment.
    attempts: u64,
    /// Writes held back by writes around.
    yielding: Yielding,
}

/// A segment that is being drained.
#[derive(Debug)]
struct Drain {
    segment: u32,
    phase: DrainPhase,
    /// Number of the attempt: I/Os of a failed attempt that are still in flight do not count for this one.
    attempt: u64,
    /// I/Os and copies in flight, including those of failed attempts.
    under_way: u32,
    /// Whether data with hits was already kept: in a second pass the rest is destaged.
    has_kept: bool,
}

#[derive(Debug)]
enum DrainPhase {
    /// Waits until no write to the segment and no destage from it is in flight.
    Waiting,
    /// Reads the data to destage or to keep.
    Reading { outstanding: usize, read: Vec<(MappedExtent, Data)>, kept: Vec<MappedExtent> },
    /// Destages, and copies kept data.
    Moving { destages: usize, copies: usize, queue: Queue },
    /// Waits for flushes of cores.
    Flushing { outstanding: usize },
    /// A device has failed. Waits for a retry.
    Stuck,
}

/// The data of a segment, all of it read: what is copied within the log, and what goes to the cores.
#[derive(Debug)]
pub(super) struct DrainedData {
    pub(super) copied: Vec<(MappedExtent, Data)>,
    pub(super) destaged: Vec<(MappedExtent, Data)>,
}

impl Draining {
    /// Whether no segment drains.
    pub(super) fn is_idle(&self) -> bool {
        self.drain.is_none()
    }

    /// Begins to drain a segment.
    pub(super) fn begin(&mut self, segment: u32) {
        let attempt = self.attempts;
        let phase = DrainPhase::Waiting;
        self.drain = Some(Drain { segment, phase, attempt, under_way: 0, has_kept: false });
    }

    /// The segment whose data is to be collected as soon as that is possible, and whether some was kept before.
    pub(super) fn waiting(&self) -> Option<(u32, bool)> {
        match &self.drain {
            Some(Drain { segment, phase: DrainPhase::Waiting, has_kept, .. }) => {
                Some((*segment, *has_kept))
            }
            _ => None,
        }
    }

    /// Begins another attempt. Returns its number.
    pub(super) fn next_attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.drain.as_mut().expect("it waits").attempt = self.attempts;
        self.attempts
    }

    /// The number of the last attempt.
    pub(super) fn attempt(&self) -> u64 {
        self.attempts
    }

    /// This data was in memory, and `outstanding` reads of the rest were issued. `kept`, sorted, stays in the log.
    pub(super) fn begin_reading(
        &mut self,
        outstanding: usize,
        read: Vec<(MappedExtent, Data)>,
        kept: Vec<MappedExtent>,
    ) {
        self.begun(outstanding);
        self.set_phase(DrainPhase::Reading { outstanding, read, kept });
    }

    /// The phase of the drain, if `attempt` is its current one.
    fn phase_of(&mut self, attempt: u64) -> Option<&mut DrainPhase> {
        let drain = self.drain.as_mut().filter(|drain| drain.attempt == attempt);
        drain.map(|drain| &mut drain.phase)
    }

    /// A read of an attempt has ended. `false`: another read of the attempt has failed, so its data is not wanted.
    pub(super) fn is_read_wanted(&mut self, of: u64) -> bool {
        self.ended_one();
        match self.phase_of(of) {
            Some(DrainPhase::Reading { outstanding, .. }) => {
                *outstanding -= 1;
                true
            }
            _ => false,
        }
    }

    /// A wanted read has succeeded.
    pub(super) fn add_read(&mut self, data: impl Iterator<Item = (MappedExtent, Data)>) {
        if let Some(Drain { phase: DrainPhase::Reading { read, .. }, .. }) = &mut self.drain {
            read.extend(data);
        }
    }

    /// A wanted read has failed, and so has the attempt. Returns what was read.
    pub(super) fn read_failed(&mut self) -> Vec<(MappedExtent, Data)> {
        let read = match &mut self.drain {
            Some(Drain { phase: DrainPhase::Reading { read, .. }, .. }) => std::mem::take(read),
            _ => Vec::new(),
        };
        self.set_phase(DrainPhase::Stuck);
        read
    }

    /// All data, once everything is read.
    pub(super) fn take_read(&mut self) -> Option<DrainedData> {
        let Some(Drain {
            phase: DrainPhase::Reading { outstanding: 0, read, kept }, has_kept, ..
        }) = &mut self.drain
        else {
            return None;
        };
        let (read, kept) = (std::mem::take(read), std::mem::take(kept));
        *has_kept = true;
        let (copied, destaged) = read.into_iter().partition(|(one, _)| includes(&kept, one));
        Some(DrainedData { copied, destaged })
    }

    /// This number of copies was requested, and these runs are to go to the cores.
    pub(super) fn begin_moving(&mut self, copies: usize, runs: Vec<Vec<(MappedExtent, Data)>>) {
        self.begun(copies);
        let queue = Queue(runs.into());
        self.set_phase(DrainPhase::Moving { destages: 0, copies, queue });
    }

    pub(super) fn is_moving(&self) -> bool {
        matches!(self.drain, Some(Drain { phase: DrainPhase::Moving { .. }, .. }))
    }

    /// The next run for the cores, if one more may be in flight. `is_wanted`: a request waits for the end of the drain.
    pub(super) fn next_run(&mut self, is_wanted: bool) -> Option<Vec<(MappedExtent, Data)>> {
        let allowed = self.yielding.allowed(is_wanted);
        match &mut self.drain {
            Some(Drain { phase: DrainPhase::Moving { destages, queue, .. }, .. })
                if *destages < allowed =>
            {
                queue.0.pop_front()
            }
            _ => None,
        }
    }

    /// Destaging writes of a run were issued.
    pub(super) fn destages_begun(&mut self, begun: usize) {
        if let Some(Drain { phase: DrainPhase::Moving { destages, .. }, .. }) = &mut self.drain {
            *destages += begun;
        }
        self.begun(begun);
    }

    /// Removes and returns queued data of `span`: it is being written around, or becomes void.
    pub(super) fn give_way_to(&mut self, span: Span) -> Vec<MappedExtent> {
        match &mut self.drain {
            Some(Drain { phase: DrainPhase::Moving { queue, .. }, .. }) => queue.take(span),
            _ => Vec::new(),
        }
    }

    /// A destaging write of an attempt has succeeded. Returns whether the attempt goes on.
    pub(super) fn destage_ended(&mut self, of: u64) -> bool {
        self.ended_one();
        let counts = self.counts_destage(of);
        if counts {
            self.yielding.destage_ends();
        }
        counts
    }

    /// A destaging write of an attempt has failed. Returns the data that was queued; completed and running destages of
    /// the attempt still count. `None`: the attempt had failed before.
    pub(super) fn destage_failed(&mut self, of: u64) -> Option<Vec<MappedExtent>> {
        self.ended_one();
        if !self.counts_destage(of) {
            return None;
        }
        let left = match &mut self.drain {
            Some(Drain { phase: DrainPhase::Moving { queue, .. }, .. }) => queue.take_all(),
            _ => Vec::new(),
        };
        self.set_phase(DrainPhase::Stuck);
        Some(left)
    }

    fn counts_destage(&mut self, of: u64) -> bool {
        match &mut self.drain {
            Some(Drain { phase: DrainPhase::Moving { destages, .. }, attempt, .. })
                if *attempt == of =>
            {
                *destages -= 1;
                true
            }
            _ => false,
        }
    }

    /// A copy of kept data of an attempt has ended, successfully or not. Returns whether the attempt goes on.
    pub(super) fn copy_ended(&mut self, of: u64) -> bool {
        self.ended_one();
        match self.phase_of(of) {
            Some(DrainPhase::Moving { copies, .. }) => {
                *copies -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether all data was moved, so that the cores are to be flushed.
    pub(super) fn has_moved(&self) -> bool {
        matches!(
            &self.drain,
            Some(Drain { phase: DrainPhase::Moving { destages: 0, copies: 0, queue }, .. })
                if queue.0.is_empty()
        )
    }

    /// Flushes of cores were issued.
    pub(super) fn begin_flushing(&mut self, outstanding: usize) {
        self.begun(outstanding);
        self.set_phase(DrainPhase::Flushing { outstanding });
    }

    /// A flush of a core has ended. Returns whether the attempt goes on.
    pub(super) fn flush_ended(&mut self, is_well: bool) -> bool {
        self.ended_one();
        let Some(Drain { phase: DrainPhase::Flushing { outstanding }, .. }) = &mut self.drain
        else {
            return false;
        };
        *outstanding -= 1;
        if !is_well {
            self.set_phase(DrainPhase::Stuck);
        }
        is_well
    }

    /// The segment, once all flushes have ended.
    pub(super) fn flushed(&self) -> Option<u32> {
        match &self.drain {
            Some(Drain { segment, phase: DrainPhase::Flushing { outstanding: 0 }, .. }) => {
                Some(*segment)
            }
            _ => None,
        }
    }

    /// Collects the data of the segment once more.
    pub(super) fn start_again(&mut self) {
        self.set_phase(DrainPhase::Waiting);
    }

    /// The segment is drained.
    pub(super) fn end(&mut self) {
        self.drain = None;
    }

    /// Whether it waits for a retry, with nothing in flight.
    pub(super) fn waits_for_retry(&self) -> bool {
        let is_stuck = |drain: &Drain| matches!(drain.phase, DrainPhase::Stuck);
        self.drain.as_ref().is_some_and(|drain| is_stuck(drain) && drain.under_way == 0)
    }

    /// A write around to a core begins: destages yield to it.
    pub(super) fn around_begins(&mut self) {
        self.yielding.around_begins();
    }

    pub(super) fn around_ends(&mut self) {
        self.yielding.around_ends();
    }

    fn begun(&mut self, more: usize) {
        let more = u32::try_from(more).expect("I/Os of a segment");
        self.drain.as_mut().expect("a segment drains").under_way += more;
    }

    fn ended_one(&mut self) {
        let drain = self.drain.as_mut().expect("it lasts as long as anything of it is under way");
        drain.under_way = drain.under_way.checked_sub(1).expect("begun before");
    }

    fn set_phase(&mut self, phase: DrainPhase) {
        self.drain.as_mut().expect("a segment drains").phase = phase;
    }
}

/// Whether sorted data includes the sectors of `one`.
pub(super) fn includes(sorted: &[MappedExtent], one: &MappedExtent) -> bool {
    sorted.binary_search_by_key(&one.span, |kept| kept.span).is_ok()
}

/// Data that was read but not yet sent to its core, ordered by core and sector. All of it is marked as busy.
#[derive(Debug, Default)]
struct Queue(VecDeque<Vec<(MappedExtent, Data)>>);

impl Queue {
    /// Removes and returns the queued data that overlaps `span`.
    fn take(&mut self, span: Span) -> Vec<MappedExtent> {
        let mut taken = Vec::new();
        for run in &mut self.0 {
            run.retain(|(one, _)| {
                let overlaps = one.span.overlaps(span);
                if overlaps {
                    taken.push(*one);
                }
                !overlaps
            });
        }
        self.0.retain(|run| !run.is_empty());
        taken
    }

    /// Takes out everything.
    fn take_all(&mut self) -> Vec<MappedExtent> {
        self.0.drain(..).flatten().map(|(one, _)| one).collect()
    }
}
