//! The exchange in progress: what is known of it in memory.

use larder_ssd::nand::ChannelIndex;
use larder_ssd::timed::Nanoseconds;

use super::load::Noticed;
use crate::levelling::{AdaptivePace, next_due};

/// Why an exchange began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its turn had come.
    Due,
    /// An operator asked for it.
    Asked,
    /// It was in progress when the owner started.
    Resumed,
}

/// An exchange of dies.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) drive: u32,
    pub(super) channels: (ChannelIndex, ChannelIndex),
    pub(super) cause: Cause,
    pub(super) began_at: Nanoseconds,
    pub(super) pace: AdaptivePace,
    pub(super) noticed: Noticed,
    pub(super) copied_bytes: u64,
    /// Erases for moves of the drive when it began.
    pub(super) spent_before: u64,
    pub(super) seconds: u64,
    /// Seconds at less than the rate to begin with.
    pub(super) slowed_seconds: u64,
    /// No part is copied before this time.
    pub(super) copy_at: Nanoseconds,
    /// Since when only open parts are left.
    pub(super) open_since: Option<Nanoseconds>,
}

impl Exchange {
    /// Books a part of `bytes` bytes. The next one may follow when these have taken their time.
    pub(super) fn copied(&mut self, now: Nanoseconds, bytes: u64) {
        // Parts go into both channels in turn.
        let rate = self.pace.bytes_per_s().saturating_mul(2);
        self.copy_at = next_due(self.copy_at, now, bytes, rate);
        self.copied_bytes += bytes;
    }
}
