//! The counters of the drive under a replay.

use indicatif::HumanBytes;
use larder_device::nvme::LiveCounters;
use larder_lab::replay::{DriveFacts, EventCount, Storage, UnavailableFact};

/// A drive whose counters are read before a replay and after it.
pub(crate) struct ReplayDrive(LiveCounters);

impl ReplayDrive {
    /// The drive under a real device, if it is an NVMe drive.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(storage: &Storage) -> Option<Self> {
        let Storage::Device(target, _) = storage else { return None };
        larder_device::opening::drive_counters(&target.to_string()).ok().map(Self)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Storage) -> Option<Self> {
        None
    }

    /// What it has counted since.
    pub(crate) fn facts(&self) -> DriveFacts {
        DriveFacts::of(&self.0.refresh())
    }
}

/// The counters as text for people.
pub(crate) fn render(facts: &DriveFacts) -> String {
    let mut text = format!("\ndrive of {}, by its own counters\n", facts.path);
    let mut line = |name: &str, value: Option<String>| {
        let value = value.unwrap_or_else(|| "-".to_owned());
        text += &format!("{name:24}{value:>16}\n");
    };
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| HumanBytes(bytes).to_string());
    line("host bytes written", bytes(facts.host_bytes));
    line("media bytes written", bytes(facts.media_bytes));
    line("DLWA", facts.dlwa.map(|dlwa| format!("{dlwa:.4}")));
    line("life used", facts.used_percent.map(|percent| format!("{percent} %")));
    for EventCount { code, events } in &facts.events {
        line(&format!("events {code:02x}h"), Some(events.to_string()));
    }
    for UnavailableFact { what, why } in &facts.unavailable {
        text += &format!("note: {what} not available: {why}\n");
    }
    text
}
#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::nvme::{DriveReport, FdpCounters, Unsaid, Written};
    use std::time::Duration;

    #[test]
    fn what_the_drive_does_not_say_has_a_reason() {
        let why = "no permission".to_owned();
        let unavailable = vec![Unsaid { what: "host and media bytes", why }];
        let report = DriveReport { path: "/dev/x".to_owned(), unavailable, ..Default::default() };
        let facts = DriveFacts::of(&report);
        assert_eq!((facts.host_bytes, facts.dlwa, facts.used_percent), (None, None, None));
        let text = render(&facts);
        assert!(text.contains("note: host and media bytes not available: no permission"), "{text}");
    }

    #[test]
    fn counters_are_those_of_the_time_between() {
        let written = Written { host_bytes: 4096, media_bytes: 8192, span: Duration::from_secs(1) };
        let counters =
            FdpCounters { host_bytes: 10_000, media_bytes: u128::MAX, erased_bytes: Some(1) };
        let report = DriveReport {
            since_open: Some(written),
            counters: Some(counters),
            events: vec![(0x80, 3)],
            ..DriveReport::default()
        };
        let facts = DriveFacts::of(&report);
        assert_eq!((facts.dlwa, facts.host_bytes_ever), (Some(2.0), Some(10_000)));
        assert_eq!(facts.media_bytes_ever, Some(u64::MAX));
        let text = render(&facts);
        assert!(text.contains("2.0000") && text.contains("events 80h"), "{text}");
    }
}
