//! The progress of draining a segment.

use std::collections::VecDeque;

use super::index::Found;
use crate::layout::{Data, Span};

/// A segment that is being drained.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) segment: u32,
    pub(super) phase: Phase,
    /// Number of the attempt: I/Os of a failed attempt that are still in flight do not count for this one.
    pub(super) attempt: u64,
    /// I/Os and copies in flight, including those of failed attempts.
    pub(super) under_way: u32,
    /// Whether data with hits was already kept: in a second pass the rest is destaged.
    pub(super) has_kept: bool,
}

impl Drain {
    /// Whether it waits for a retry, with nothing in flight.
    pub(super) fn waits_for_retry(&self) -> bool {
        matches!(self.phase, Phase::Stuck) && self.under_way == 0
    }
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Waits until no write to the segment and no destage from it is in flight.
    Waiting,
    /// Reads the data to destage or to keep.
    Reading { outstanding: usize, read: Vec<(Found, Data)>, kept: Vec<Found> },
    /// Destages, and copies kept data.
    Moving { destages: usize, copies: usize, queue: Queue },
    /// Waits for flushes of cores.
    Flushing { outstanding: usize },
    /// A device has failed. Waits for a retry.
    Stuck,
}

/// Data that was read but not yet sent to its core, ordered by core and sector. All of it is marked as busy.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Vec<(Found, Data)>>);

impl Queue {
    pub(super) fn new(runs: Vec<Vec<(Found, Data)>>) -> Self {
        Self(runs.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out the next run, to be written at once.
    pub(super) fn next_run(&mut self) -> Option<Vec<(Found, Data)>> {
        self.0.pop_front()
    }

    /// Removes and returns the queued data that overlaps `span`.
    pub(super) fn take(&mut self, span: Span) -> Vec<Found> {
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
    pub(super) fn take_all(&mut self) -> Vec<Found> {
        self.0.drain(..).flatten().map(|(one, _)| one).collect()
    }
}
