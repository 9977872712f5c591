//! What a drive reports of itself while a cache runs on it: the result of [`nvme::live`](crate::nvme::live).

use std::borrow::Cow;
use std::time::Duration;

use larder_ssd::nvme::event::EventType;

use crate::placement::PlacementHandle;

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
    /// Hours that the drive was switched on.
    pub power_on_hours: Option<u64>,
    /// FDP events since the device was opened: code of the type, and count.
    pub events: Vec<(u8, u64)>,
    /// The same events by placement handle, in the order of the handles; those about no single handle come first. A
    /// part of a device lists only its own handles.
    pub handles: Vec<HandleEvents>,
    /// The last [`MOVES_MAX`] events that moved data, oldest first.
    pub moves: Vec<Move>,
    /// Number of events that moved data since the device was opened, including those not listed.
    pub moves_seen: u64,
    /// How often the drive's log was overwritten between two polls, so that events are missing: the counts of events
    /// are then too low. The log has no sequence numbers, so nothing says by how much.
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
    /// The placement handle with which all of the data was written; `None` as in [`HandleEvents::handle`].
    pub handle: Option<PlacementHandle>,
}

/// FDP events about one placement handle since the device was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HandleEvents {
    /// The handle of the device. `None` for events that name none of its handles: about units in which garbage
    /// collection has mixed the data of several, or about other users of the drive.
    pub handle: Option<PlacementHandle>,
    /// Code of the type, and count, in ascending order of the codes.
    pub events: Vec<(u8, u64)>,
    /// Bytes that the drive moved, as far as its events say.
    pub moved_bytes: u64,
    /// Events that moved data, of those read in the last hour.
    pub moves_in_hour: u64,
    /// When the last event was read, since 1970. The drive's own time may be unset.
    pub last_read_at: Option<Duration>,
}

impl HandleEvents {
    /// Number of events that moved data ("media reallocated"): usually one per reclaim unit.
    pub fn moves(&self) -> u64 {
        let code = EventType::MediaReallocated.to_byte();
        self.events.iter().filter(|(known, _)| *known == code).map(|(_, count)| count).sum()
    }

    /// Adds the events of the same handle of another drive.
    pub fn add(&mut self, other: &Self) {
        for &(code, count) in &other.events {
            match self.events.binary_search_by_key(&code, |(known, _)| *known) {
                Ok(at) => self.events[at].1 += count,
                Err(at) => self.events.insert(at, (code, count)),
            }
        }
        self.moved_bytes += other.moved_bytes;
        self.moves_in_hour += other.moves_in_hour;
        self.last_read_at = self.last_read_at.max(other.last_read_at);
    }
}

/// The name of an event type, as in metrics: letters, digits and `_`.
///
/// ```
/// use larder_device::nvme::event_name;
///
/// assert_eq!((&*event_name(0x80), &*event_name(0xf3)), ("media_reallocated", "type_f3h"));
/// ```
pub fn event_name(code: u8) -> Cow<'static, str> {
    Cow::Borrowed(match EventType::from_byte(code) {
        EventType::UnitNotFullyWritten => "unit_not_fully_written",
        EventType::UnitTimeLimitExceeded => "unit_time_limit_exceeded",
        EventType::ControllerReset => "controller_reset",
        EventType::InvalidPlacementId => "invalid_placement_id",
        EventType::MediaReallocated => "media_reallocated",
        EventType::ImplicitlyModified => "implicitly_modified",
        EventType::Other(code) => return Cow::Owned(format!("type_{code:02x}h")),
    })
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

    /// Maps the placement handles by `handle`. Handles that become one have one entry, and those that become none have
    /// none: what is about no single handle stays apart from what is about the handles of others.
    pub(crate) fn rename_handles(
        &mut self,
        handle: impl Fn(PlacementHandle) -> Option<PlacementHandle>,
    ) {
        for one in &mut self.moves {
            one.handle = one.handle.and_then(&handle);
        }
        let mut renamed: Vec<HandleEvents> = Vec::new();
        for mut one in std::mem::take(&mut self.handles) {
            if let Some(old) = one.handle {
                let Some(new) = handle(old) else { continue };
                one.handle = Some(new);
            }
            match renamed.binary_search_by_key(&one.handle, |known| known.handle) {
                Ok(at) => renamed[at].add(&one),
                Err(at) => renamed.insert(at, one),
            }
        }
        self.handles = renamed;
    }
}
