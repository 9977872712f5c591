//! What the drive under a replay counted during it, for people and as JSON.

use indicatif::HumanBytes;
use larder_device::nvme::{DriveReport, LiveCounters};
use larder_lab::replay::{Outcome, Run, Storage};
use serde::Serialize;

/// A drive whose counters are read before a replay and after it.
pub(crate) struct Drive(LiveCounters);

impl Drive {
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

/// The result of a replay, with the counters of the drive.
#[derive(Debug, Serialize)]
pub(crate) struct Told<'a> {
    command: &'static str,
    parameters: &'a serde_json::Map<String, serde_json::Value>,
    seed: u64,
    runs: Vec<ToldRun<'a>>,
    drive: Option<&'a DriveFacts>,
}

#[derive(Debug, Serialize)]
struct ToldRun<'a> {
    #[serde(flatten)]
    run: &'a Run,
    placement_active: bool,
}

impl<'a> Told<'a> {
    pub(crate) fn of(outcome: &'a Outcome, drive: Option<&'a DriveFacts>) -> Self {
        let told = |run: &'a Run| ToldRun { run, placement_active: is_placing(run) };
        Self {
            command: outcome.command,
            parameters: &outcome.parameters,
            seed: outcome.seed,
            runs: outcome.runs.iter().map(told).collect(),
            drive,
        }
    }
}

/// Whether any stream had its own handle.
pub(crate) fn is_placing(run: &Run) -> bool {
    run.streams.iter().any(|stream| stream.handle != 0)
}

/// The drive's own counters, of its endurance group.
#[derive(Debug, Serialize)]
pub(crate) struct DriveFacts {
    path: String,
    host_bytes: Option<u64>,
    media_bytes: Option<u64>,
    dlwa: Option<f64>,
    host_bytes_ever: Option<u64>,
    media_bytes_ever: Option<u64>,
    erased_bytes_ever: Option<u64>,
    used_percent: Option<u8>,
    events: Vec<EventCount>,
    unavailable: Vec<Unavailable>,
}

#[derive(Debug, Serialize)]
struct EventCount {
    code: u8,
    events: u64,
}

#[derive(Debug, Serialize)]
struct Unavailable {
    what: &'static str,
    why: String,
}

impl DriveFacts {
    fn of(report: &DriveReport) -> Self {
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
                .map(|unsaid| Unavailable { what: unsaid.what, why: unsaid.why.clone() })
                .collect(),
        }
    }

    pub(crate) fn render(&self) -> String {
        let mut text = format!("\ndrive of {}, by its own counters\n", self.path);
        let mut line = |name: &str, value: Option<String>| {
            let value = value.unwrap_or_else(|| "-".to_owned());
            text += &format!("{name:24}{value:>16}\n");
        };
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| HumanBytes(bytes).to_string());
        line("host bytes written", bytes(self.host_bytes));
        line("media bytes written", bytes(self.media_bytes));
        line("DLWA", self.dlwa.map(|dlwa| format!("{dlwa:.4}")));
        line("life used", self.used_percent.map(|percent| format!("{percent} %")));
        for EventCount { code, events } in &self.events {
            line(&format!("events {code:02x}h"), Some(events.to_string()));
        }
        for Unavailable { what, why } in &self.unavailable {
            text += &format!("note: {what} not available: {why}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::nvme::{FdpCounters, Unsaid, Written};
    use std::time::Duration;

    #[test]
    fn what_the_drive_does_not_say_has_a_reason() {
        let why = "no permission".to_owned();
        let unavailable = vec![Unsaid { what: "host and media bytes", why }];
        let report = DriveReport { path: "/dev/x".to_owned(), unavailable, ..Default::default() };
        let facts = DriveFacts::of(&report);
        assert_eq!((facts.host_bytes, facts.dlwa, facts.used_percent), (None, None, None));
        let text = facts.render();
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
        let text = facts.render();
        assert!(text.contains("2.0000") && text.contains("events 80h"), "{text}");
    }

    #[test]
    fn the_page_names_each_key() {
        let page = include_str!("../../../docs/replay-json.md");
        let (_, section) = page.split_once("### Drive\n").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: Vec<_> = rows.filter_map(|row| Some(row.split_once('`')?.0)).collect();
        let facts = serde_json::to_value(DriveFacts::of(&DriveReport::default())).unwrap();
        let mut keys: Vec<_> = facts.as_object().unwrap().keys().collect();
        let mut sorted = named.clone();
        sorted.sort_unstable();
        keys.sort();
        assert_eq!(sorted, keys);
    }
}
