//! What a drive says of itself while a cache runs on it: the result of [`super::live`].

use std::time::Duration;

use super::fdp::FdpCounters;
use super::watch::{self, Interval};

/// Events of moved data that a report lists; there may have been more.
pub const MOVES_MAX: usize = 256;

/// What a drive had counted when it was last asked.
///
/// Its counters are those of an endurance group: what others write to it is in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriveReport {
    /// The block device of the namespace.
    pub path: String,
    /// How often the drive was asked.
    pub looks: u64,
    /// Counters since the group was made.
    pub counters: Option<FdpCounters>,
    /// What was written since the device was opened.
    pub since_open: Option<Written>,
    /// What was written in the last five minutes, or since the device was opened if that is less.
    pub recent: Option<Written>,
    /// Bytes that this device had written itself at that moment, since it was opened.
    pub own_written_bytes: u64,
    /// Life that is used up, in percent; may exceed 100.
    pub used_percent: Option<u8>,
    /// FDP events since the device was opened: code of the type, and how many.
    pub events: Vec<(u8, u64)>,
    /// Of the events that moved data, the last [`MOVES_MAX`], oldest first.
    pub moves: Vec<Move>,
    /// How many there have been since the device was opened, those that are not listed among them.
    pub moves_seen: u64,
    /// How often the drive's log had gone round between two looks: events are missing then.
    pub event_gaps: u64,
    /// What the drive did not say when it was last asked. What is known from before stays.
    pub unavailable: Vec<Unsaid>,
}

/// Bytes written to an endurance group in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// By hosts.
    pub host_bytes: u64,
    /// To media.
    pub media_bytes: u64,
    /// How long.
    pub span: Duration,
}

impl Written {
    pub(super) fn of(interval: &Interval) -> Self {
        let clamped = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self {
            host_bytes: clamped(interval.host_bytes),
            media_bytes: clamped(interval.media_bytes),
            span: interval.to.saturating_sub(interval.from),
        }
    }

    /// Media bytes per host byte; `None` if no host wrote.
    pub fn dlwa(&self) -> Option<f64> {
        watch::dlwa(self.host_bytes.into(), self.media_bytes.into())
    }
}

/// Data that the drive moved ("media reallocated").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// How much, as far as the event says; 0 if it does not.
    pub bytes: u64,
    /// Where on the device one of the blocks is; `None` if it is elsewhere on the drive, or the event
    /// does not say.
    pub offset: Option<u64>,
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaid {
    /// What was asked for.
    pub what: &'static str,
    /// Why there is none.
    pub why: String,
}

impl DriveReport {
    /// Bytes that reached the media since the device was opened beyond those that it wrote itself:
    /// what the drive moved, and what others wrote. `None` where the drive does not count in bytes.
    pub fn beyond_own_bytes(&self) -> Option<u64> {
        // Only the FDP statistics know of erased bytes; the other log counts in billions.
        self.counters?.erased_bytes?;
        Some(self.since_open?.media_bytes.saturating_sub(self.own_written_bytes))
    }

    /// The same with moves at other offsets.
    #[must_use]
    pub(crate) fn moved_to(&self, offset: impl Fn(u64) -> Option<u64>) -> Self {
        let mut report = self.clone();
        for one in &mut report.moves {
            one.offset = one.offset.and_then(&offset);
        }
        report
    }
}
