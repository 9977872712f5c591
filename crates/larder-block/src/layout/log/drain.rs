//! How far a segment has given way.

use super::index::Found;
use crate::layout::Data;

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
    /// Whether it waits to be tried once more.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self.phase, Phase::Stuck)
    }
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Waits until no write is under way there, and nothing of it is on its way to the core.
    Waiting,
    /// Reads what has to be destaged or kept.
    Reading { outstanding: usize, read: Vec<(Found, Data)>, kept: Vec<Found> },
    /// Destages, and copies what is kept.
    Moving { destages: usize, copies: usize },
    /// Waits for flushes of cores.
    Flushing { outstanding: usize },
    /// A device has failed. Waits until it is to be tried once more.
    Stuck,
}
