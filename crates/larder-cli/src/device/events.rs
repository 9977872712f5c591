//! `larder device events`.

use std::time::Duration;

use larder_device::nvme::fdp::read_events;
use larder_device::nvme::{Asked, Commands, Node, Silence};
use larder_ssd::nvme::event::{EVENTS_MAX, Event, EventType};
use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{Missing, UnavailableFact, deliver, find, group_of, json_target, open, row, survey};
use crate::args::{EventsArgs, NamedRange};
use crate::ending::Ending;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Events {
    /// The block device.
    path: String,
    /// The endurance group.
    endurance_group: Option<u16>,
    /// Number of events by type, sorted by code.
    counts: Vec<Count>,
    /// Events by the ranges of `--range`, and one entry for all other events.
    ranges: Vec<RangeFacts>,
    /// Events of hosts, in the order of the log.
    host: Vec<EventFacts>,
    /// Events of the controller, in the order of the log.
    controller: Vec<EventFacts>,
    /// The facts that could not be found out.
    unavailable: Vec<UnavailableFact>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Count {
    /// Type of the event.
    name: String,
    /// Code of the type.
    code: u8,
    /// Number of such events in the log.
    events: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RangeFacts {
    /// Name of the range, as given; null for all other events.
    name: Option<String>,
    /// First byte of the range, in the device that the command was given.
    start: Option<u64>,
    /// End of the range, exclusive.
    end: Option<u64>,
    /// Events of moved data in the range.
    events: usize,
    /// Logical blocks that these events report as moved.
    blocks_moved: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EventFacts {
    /// Type of the event.
    name: String,
    /// Code of the type.
    code: u8,
    /// Time of the event by the drive's clock: milliseconds since 1970 if a host has set it.
    timestamp_ms: u64,
    /// Namespace.
    nsid: Option<u32>,
    /// Placement identifier.
    placement_id: Option<u16>,
    /// Reclaim group.
    group: Option<u16>,
    /// Reclaim unit handle.
    handle: Option<u16>,
    /// Logical blocks moved; 0 for not reported, 65535 for that number or more.
    blocks_moved: Option<u16>,
    /// Address of one of these blocks.
    lba: Option<u64>,
    /// The range of `--range` that holds the address.
    range: Option<String>,
}

/// A named byte range of the device.
struct Range {
    name: String,
    start: u64,
    end: u64,
}

pub(super) fn run(arguments: &EventsArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.on.output)?;
    let node = find(&arguments.on.device, machine)?;
    let ranges = checked(&arguments.ranges, &node)?;
    let drive = open(&node, machine);
    let events = Events::read(&node, &drive, &ranges);
    let text = events.render(arguments.last, machine.now());
    deliver(machine, json, &text, &events)?;
    Ok(Ending::Complete)
}

/// The ranges, checked against the device, in order of their addresses.
fn checked(asked: &[NamedRange], node: &Node) -> Result<Vec<Range>, Error> {
    let bytes = node.range.end - node.range.start;
    let mut ranges = Vec::new();
    for NamedRange { name, start, end } in asked {
        let end = end.unwrap_or(bytes);
        if *start >= end || end > bytes {
            return Err(Error::usage(format!(
                "--range {name}={start}..{end}: the device ends at {bytes}; end it there or before"
            )));
        }
        if ranges.iter().any(|range: &Range| range.name == *name) {
            let message = format!("--range {name}: is there twice; give each range its own name");
            return Err(Error::usage(message));
        }
        ranges.push(Range { name: name.clone(), start: *start, end });
    }
    ranges.sort_by_key(|range| range.start);
    for (before, after) in ranges.iter().zip(ranges.iter().skip(1)) {
        if before.end > after.start {
            return Err(Error::usage(format!(
                "--range {}: overlaps with {}; let {} end at {} or before",
                after.name, before.name, before.name, after.start
            )));
        }
    }
    Ok(ranges)
}

impl Events {
    fn read(node: &Node, drive: &Asked<Box<dyn Commands>>, ranges: &[Range]) -> Self {
        let mut missing = Missing::default();
        let survey = survey(node, drive);
        let group = group_of(&survey);
        let mut read = |what, host| {
            let asked = group.clone().and_then(|group| {
                let drive = drive.as_ref().map_err(Clone::clone)?;
                read_events(drive.as_ref(), group, host).map_err(Silence::from)
            });
            missing.or_note(what, asked).unwrap_or_default()
        };
        let host = read("host events", true);
        let controller = read("controller events", false);
        let facts = |events: &[Event]| -> Vec<EventFacts> {
            events.iter().map(|event| EventFacts::of(event, node, ranges)).collect()
        };
        let (host, controller) = (facts(&host), facts(&controller));
        Self {
            path: node.block_path.display().to_string(),
            endurance_group: group.ok(),
            counts: counts(host.iter().chain(&controller)),
            ranges: attributed(ranges, &controller),
            host,
            controller,
            unavailable: missing.0,
        }
    }

    fn render(&self, last: usize, now: Duration) -> String {
        let mut text = format!("{:40}{:>8}\n", self.path, "events");
        for count in &self.counts {
            text += &format!(
                "{:40}{:>8}\n",
                format!("{} ({:02x}h)", count.name, count.code),
                count.events
            );
        }
        if self.counts.is_empty() && self.unavailable.is_empty() {
            text += "none. Drives report what a host has asked for, by handle and type: for all \
                     types of handle 0,\n  nvme fdp set-events NAMESPACE --placement-handle=0 \
                     --enable --event-types=0,1,2,3,128,129\n";
        }
        for range in &self.ranges {
            let name =
                range.name.as_deref().map_or("elsewhere".to_owned(), |it| format!("in {it}"));
            let where_to = format!("moved {name}");
            let blocks = format!("{} blocks in {} events", range.blocks_moved, range.events);
            text += &row(&where_to, &blocks);
        }
        for (name, events) in [("host", &self.host), ("controller", &self.controller)] {
            if events.is_empty() || last == 0 {
                continue;
            }
            text += &format!("\nlatest {name} events\n");
            let newest = events.get(events.len().saturating_sub(last)..).unwrap_or_default();
            newest.iter().for_each(|event| text += &event.render(now));
            if events.len() >= EVENTS_MAX {
                text += &format!("  a log holds {EVENTS_MAX}: older ones are gone\n");
            }
        }
        text + &Missing(self.unavailable.clone()).render()
    }
}

impl EventFacts {
    fn of(event: &Event, node: &Node, ranges: &[Range]) -> Self {
        let lba = event.moved.and_then(|(_, lba)| lba);
        Self {
            name: name(event.kind),
            code: event.kind.to_byte(),
            timestamp_ms: event.timestamp_ms,
            nsid: event.nsid,
            placement_id: event.placement_id,
            group: event.location.map(|(group, _)| group),
            handle: event.location.map(|(_, handle)| handle),
            blocks_moved: event.moved.map(|(blocks, _)| blocks),
            lba,
            range: lba.and_then(|lba| owner(lba, event.nsid, node, ranges)),
        }
    }

    fn render(&self, now: Duration) -> String {
        let mut parts = vec![format!("{} ({:02x}h)", self.name, self.code)];
        let mut part = |label: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{label} {value}")));
        };
        part("namespace", self.nsid.map(|it| it.to_string()));
        part("placement id", self.placement_id.map(|it| it.to_string()));
        part("group", self.group.map(|it| it.to_string()));
        part("handle", self.handle.map(|it| it.to_string()));
        part("blocks moved", self.blocks_moved.map(|it| it.to_string()));
        part("at LBA", self.lba.map(|it| it.to_string()));
        part("in", self.range.clone());
        format!("  {:>14}  {}\n", moment(self.timestamp_ms, now), parts.join(", "))
    }
}

/// How long ago it was, if the drive's clock was set; otherwise the raw timestamp.
fn moment(timestamp_ms: u64, now: Duration) -> String {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    match now.checked_sub(Duration::from_millis(timestamp_ms)) {
        Some(ago) if ago < YEAR => format!("{} s ago", ago.as_secs()),
        _ => format!("at {timestamp_ms} ms"),
    }
}

/// The range that holds a logical block of the namespace of `node`.
fn owner(lba: u64, nsid: Option<u32>, node: &Node, ranges: &[Range]) -> Option<String> {
    if nsid.is_some_and(|nsid| nsid != node.nsid) {
        return None;
    }
    let byte = lba.checked_mul(u64::from(node.block_bytes))?;
    let byte = byte.checked_sub(node.range.start)?;
    let found = ranges.iter().find(|range| (range.start..range.end).contains(&byte));
    found.map(|range| range.name.clone())
}

fn counts<'a>(events: impl Iterator<Item = &'a EventFacts>) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::new();
    for event in events {
        match counts.iter_mut().find(|count| count.code == event.code) {
            Some(count) => count.events += 1,
            None => {
                let name = event.name.clone();
                counts.push(Count { name, code: event.code, events: 1 });
            }
        }
    }
    counts.sort_by_key(|count| count.code);
    counts
}

/// What was moved of each range and, if there are ranges, of everything else.
fn attributed(ranges: &[Range], events: &[EventFacts]) -> Vec<RangeFacts> {
    let of = |range: Option<&Range>| {
        let name = range.map(|range| range.name.as_str());
        let moved =
            events.iter().filter(|it| it.blocks_moved.is_some() && it.range.as_deref() == name);
        let blocks = moved.clone().map(|event| u64::from(event.blocks_moved.unwrap_or(0)));
        RangeFacts {
            name: name.map(str::to_owned),
            start: range.map(|range| range.start),
            end: range.map(|range| range.end),
            events: moved.count(),
            blocks_moved: blocks.sum(),
        }
    };
    let elsewhere = (!ranges.is_empty()).then_some(None);
    ranges.iter().map(Some).chain(elsewhere).map(of).collect()
}

fn name(kind: EventType) -> String {
    match kind {
        EventType::UnitNotFullyWritten => "reclaim unit not fully written".to_owned(),
        EventType::UnitTimeLimitExceeded => "reclaim unit time limit exceeded".to_owned(),
        EventType::ControllerReset => "reset modified handles".to_owned(),
        EventType::InvalidPlacementId => "invalid placement identifier".to_owned(),
        EventType::MediaReallocated => "media reallocated".to_owned(),
        EventType::ImplicitlyModified => "handle implicitly modified".to_owned(),
        EventType::Other(_) => "vendor specific or reserved".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_relative_where_the_clock_is_set() {
        let now = Duration::from_secs(1_800_000_000);
        assert_eq!(moment(1_799_999_995_000, now), "5 s ago");
        assert_eq!(moment(77, now), "at 77 ms");
        assert_eq!(moment(1_900_000_000_000, now), "at 1900000000000 ms");
    }
}
