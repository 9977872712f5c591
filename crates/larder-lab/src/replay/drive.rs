//! What the NVMe drive under a replay counted during it.

use larder_device::nvme::DriveReport;
use serde::Serialize;

/// The drive's own counters, of its endurance group. They include what others wrote, and the writes that set the cache
/// up, so `dlwa` may differ from that of a [`Run`](super::Run).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DriveFacts {
    /// Block device of the namespace.
    pub path: String,
    /// Bytes that hosts wrote during the replay; null, as the rest, if the drive may not be queried.
    pub host_bytes: Option<u64>,
    /// Bytes that the drive wrote to its media during the replay.
    pub media_bytes: Option<u64>,
    /// `media_bytes / host_bytes`; null also if no host wrote.
    pub dlwa: Option<f64>,
    /// Bytes that hosts wrote since the endurance group was made (HBMW).
    pub host_bytes_ever: Option<u64>,
    /// Bytes written to media since then (MBMW).
    pub media_bytes_ever: Option<u64>,
    /// Bytes of media erased since then (MBE); null also without FDP.
    pub erased_bytes_ever: Option<u64>,
    /// Life that is used up; may exceed 100.
    pub used_percent: Option<u8>,
    /// FDP events during the replay, by type.
    pub events: Vec<EventCount>,
    /// The facts that the drive did not report.
    pub unavailable: Vec<UnavailableFact>,
}

/// Events of one type.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventCount {
    /// Type of the event; 128 is "media reallocated".
    pub code: u8,
    /// Number of these events.
    pub events: u64,
}

/// A fact that the drive did not report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnavailableFact {
    /// The fact.
    pub what: &'static str,
    /// The reason why there is none.
    pub why: String,
}

impl DriveFacts {
    /// The counters in a report of the drive.
    pub fn of(report: &DriveReport) -> Self {
        let clamp = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        let (written, ever) = (report.since_open, report.counters);
        let events = report.events.iter();
        let unsaid = report.unavailable.iter();
        Self {
            path: report.path.clone(),
            host_bytes: written.map(|it| it.host_bytes),
            media_bytes: written.map(|it| it.media_bytes),
            dlwa: written.and_then(|it| it.dlwa()),
            host_bytes_ever: ever.map(|it| clamp(it.host_bytes)),
            media_bytes_ever: ever.map(|it| clamp(it.media_bytes)),
            erased_bytes_ever: ever.and_then(|it| it.erased_bytes).map(clamp),
            used_percent: report.used_percent,
            events: events.map(|&(code, events)| EventCount { code, events }).collect(),
            unavailable: unsaid
                .map(|unsaid| UnavailableFact { what: unsaid.what, why: unsaid.why.clone() })
                .collect(),
        }
    }
}
