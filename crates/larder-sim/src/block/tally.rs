//! What has come of the core that comes and goes, in all rounds.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::numbers::Numbers;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Visits {
    pub(super) came: AtomicU64,
    /// By a number that another visit had.
    pub(super) came_again: AtomicU64,
    pub(super) went: AtomicU64,
    /// Changes of files that were no cores.
    pub(super) past: AtomicU64,
    /// Requests that the end of a visit has cut off.
    pub(super) cut_off: AtomicU64,
    /// Commands that the end of a server has cut off: of additions that were not made and that were, and of removals.
    pub(super) halves: [AtomicU64; 4],
    pub(super) numbers: Mutex<Numbers>,
}
