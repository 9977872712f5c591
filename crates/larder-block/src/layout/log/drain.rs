//! How far a segment has given way.

use std::collections::VecDeque;

use super::index::Found;
use crate::layout::{Data, Span};

/// A segment that gives way.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) segment: u32,
    pub(super) phase: Phase,
    /// Counts how often it was begun: what a failed attempt has under way still is not of this one.
    pub(super) attempt: u64,
    /// I/Os and copies that have not ended, of failed attempts too.
    pub(super) under_way: u32,
    /// Whether what had hits was kept already: what is left the second time goes to the core.
    pub(super) has_kept: bool,
}

impl Drain {
    /// Whether it waits to be tried once more, and nothing of it is under way.
    pub(super) fn waits_for_retry(&self) -> bool {
        matches!(self.phase, Phase::Stuck) && self.under_way == 0
    }
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Waits until no write is under way there, and nothing of it is on its way to the core.
    Waiting,
    /// Reads what has to be destaged or kept.
    Reading { outstanding: usize, read: Vec<(Found, Data)>, kept: Vec<Found> },
    /// Destages, and copies what is kept.
    Moving { destages: usize, copies: usize, queue: Queue },
    /// Waits for flushes of cores.
    Flushing { outstanding: usize },
    /// A device has failed. Waits until it is to be tried once more.
    Stuck,
}

/// What is read and has not set out to its core, in the order of cores and sectors. All of it is marked as busy.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Vec<(Found, Data)>>);

impl Queue {
    pub(super) fn new(runs: Vec<Vec<(Found, Data)>>) -> Self {
        Self(runs.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next run, to be written at once.
    pub(super) fn next_run(&mut self) -> Option<Vec<(Found, Data)>> {
        self.0.pop_front()
    }

    /// Takes out what overlaps `span`.
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

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> Vec<Found> {
        self.0.drain(..).flatten().map(|(one, _)| one).collect()
    }
}
