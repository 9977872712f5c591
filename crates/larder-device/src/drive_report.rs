//! What a drive reports of itself while a cache runs on it: the result of [`nvme::live`](crate::nvme::live).

use std::time::Duration;

/// Most events of moved data that a report lists; there may have been more.
pub const MOVES_MAX: usize = 256;

/// Counters of an endurance group, in bytes since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdpCounters {
    /// Bytes written by hosts (HBMW, or data units written).
    pub host_bytes: u128,
    /// Bytes written to media (MBMW, or media units written).
    pub media_bytes: u128,
    /// Bytes of media erased (MBE), where the drive reports them.
    pub erased_bytes: Option<u128>,
}

impl FdpCounters {
    /// Device-level write amplification: media bytes per host byte since the group was made; `None` if no host has
    /// written.
    pub fn dlwa(&self) -> Option<f64> {
        dlwa(self.host_bytes, self.media_bytes)
    }
}

/// Media bytes per host byte; `None` without host bytes.
#[allow(clippy::cast_precision_loss)] // a ratio
pub(crate) fn dlwa(host_bytes: u128, media_bytes: u128) -> Option<f64> {
    (host_bytes > 0).then(|| media_bytes as f64 / host_bytes as f64)
}

/// Counters of a drive when it was last polled.
///
/// The counters are those of an endurance group, so they include what other users of the group write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriveReport {
    /// The block device of the namespace.
    pub path: String,
    /// How often the drive was polled.
    pub looks: u64,
    /// Counters since the group was made.
    pub counters: Option<FdpCounters>,
    /// What was written since the device was opened.
    pub since_open: Option<Written>,
    /// What was written in the last five minutes, or since the device was opened if that is less.
    pub recent: Option<Written>,
    /// Bytes that this device had written itself at that moment, since it was opened.
    pub own_written_bytes: u64,
    /// Used part of the drive's life, in percent; may exceed 100.
    pub used_percent: Option<u8>,
    /// FDP events since the device was opened: code of the type, and count.
    pub events: Vec<(u8, u64)>,
    /// The last [`MOVES_MAX`] events that moved data, oldest first.
    pub moves: Vec<Move>,
    /// Number of events that moved data since the device was opened, including those not listed.
    pub moves_seen: u64,
    /// How often the drive's log was overwritten between two polls, so that events are missing.
    pub event_gaps: u64,
    /// What the drive did not report at the last poll. Earlier values stay.
    pub unavailable: Vec<Unsaid>,
}

/// Bytes written to an endurance group during a time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// By hosts.
    pub host_bytes: u64,
    /// To media.
    pub media_bytes: u64,
    /// Length of the span.
    pub span: Duration,
}

impl Written {
    /// Media bytes per host byte; `None` if no host wrote.
    pub fn dlwa(&self) -> Option<f64> {
        dlwa(self.host_bytes.into(), self.media_bytes.into())
    }
}

/// Data that the drive moved ("media reallocated").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Bytes moved, if the event reports them; else 0.
    pub bytes: u64,
    /// Offset on the device of one of the blocks; `None` if it is elsewhere on the drive, or the event does not say.
    pub offset: Option<u64>,
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaid {
    /// What was asked for.
    pub what: &'static str,
    /// Why there is no answer.
    pub why: String,
}

impl DriveReport {
    /// Bytes written to the media since the device was opened, minus those that the device wrote itself: what the drive
    /// moved, and what others wrote. `None` where the drive does not count in bytes.
    pub fn beyond_own_bytes(&self) -> Option<u64> {
        // Only the FDP statistics have erased bytes; the other log counts in billions.
        self.counters?.erased_bytes?;
        Some(self.since_open?.media_bytes.saturating_sub(self.own_written_bytes))
    }

    /// The same report with the offsets of moves mapped by `offset`.
    #[must_use]
    pub(crate) fn moved_to(&self, offset: impl Fn(u64) -> Option<u64>) -> Self {
        let mut report = self.clone();
        for one in &mut report.moves {
            one.offset = one.offset.and_then(&offset);
        }
        report
    }
}
