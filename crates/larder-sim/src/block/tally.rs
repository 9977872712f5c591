//! Counters of the visitor, for all rounds.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::numbers::Numbers;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Visits {
    pub(super) came: AtomicU64,
    /// Additions with a number that was used before.
    pub(super) came_again: AtomicU64,
    pub(super) went: AtomicU64,
    /// Changes to files while they were not cores.
    pub(super) past: AtomicU64,
    /// Requests that the end of a visit has cut off.
    pub(super) cut_off: AtomicU64,
    /// Commands that the end of a server has interrupted: additions that did not happen and that did, and the same for
    /// removals.
    pub(super) halves: [AtomicU64; 4],
    pub(super) numbers: Mutex<Numbers>,
}
