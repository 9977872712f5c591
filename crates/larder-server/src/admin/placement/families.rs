//! Placement in `/metrics`.
//!
//! A drive's events are about handles. So they have a sample for each handle of a drive, and not for each stream:
//! streams that share a handle are named together, and sums over all samples count each event once.

use std::fmt::Display;

use larder::HandleReport;
use larder_device::nvme::event_name;

use super::{TenantShard, all, drive_of, handles, predicted, shards};
use crate::metrics_text;
use crate::shared::ServerState;

/// The prefix of names: these families are about the caches, not about the server.
const PREFIX: &str = "larder";

/// Event types that have a sample before the first event: not fully written, media reallocated.
const USUAL_EVENTS: [u8; 2] = [0x00, 0x80];

/// Appends all families of placement.
pub(in crate::admin) fn write(text: &mut String, shared: &ServerState) {
    let on_flash: Vec<_> = all(shared).filter(|it| !it.streams().is_empty()).collect();
    write_obtained(text, &on_flash);
    let handles = handles(shared);
    write_events(text, &handles);
    write_prediction(text, shared);
}

/// The handle, the path and the reason of each stream; by tenant, whether placement was expected.
fn write_obtained(text: &mut String, on_flash: &[TenantShard<'_>]) {
    let help = "A stream: its placement handle, how placement reaches the device, and why it is not better.";
    family(text, "placement", "info", help);
    for one in on_flash {
        for stream in one.streams() {
            let labels = [
                ("tenant", one.tenant),
                ("shard", &*one.shard.to_string()),
                ("stream", &*stream.assignment.class.to_string()),
                ("handle", &*stream.assignment.handle.to_string()),
                ("path", stream.path),
                ("reason", &*one.reason(stream)),
            ];
            sample(text, "placement_info", &labels, 1);
        }
    }
    type Value = fn(&TenantShard<'_>) -> usize;
    let gauges: [(&str, &str, Value); 2] = [
        ("placement_streams", "Placement handles that the tenant writes with.", |it| it.handles()),
        ("placement_expected", "Whether the operator asked for placement: 1 or 0.", |it| {
            usize::from(it.is_expected())
        }),
    ];
    for (name, help, value) in gauges {
        family(text, name, "gauge", help);
        for one in on_flash {
            let labels = [("tenant", one.tenant), ("shard", &*one.shard.to_string())];
            sample(text, name, &labels, value(one));
        }
    }
}

/// The events of each handle.
fn write_events(text: &mut String, handles: &[HandleReport]) {
    let help = "FDP events that drives reported, by the streams that write with the handle.";
    family(text, "fdp_events", "counter", help);
    for handle in handles {
        let mut events: Vec<(u8, u64)> = handle.events.events.clone();
        for code in USUAL_EVENTS {
            if events.iter().all(|(known, _)| *known != code) {
                events.push((code, 0));
            }
        }
        events.sort_unstable();
        for (code, count) in events {
            with_labels(handle, Some(&event_name(code)), |labels| {
                sample(text, "fdp_events_total", labels, count);
            });
        }
    }
    type Value = fn(&HandleReport) -> u64;
    let counters: [(&str, &str, Value); 2] = [
        (
            "fdp_relocated_units",
            "Events that told of moved data: usually one for each reclaim unit.",
            |it| it.events.moves(),
        ),
        ("fdp_relocated_bytes", "Bytes that drives moved, as far as their events say.", |it| {
            it.events.moved_bytes
        }),
    ];
    for (name, help, value) in counters {
        family(text, name, "counter", help);
        for handle in handles {
            with_labels(handle, None, |labels| {
                sample(text, &format!("{name}_total"), labels, value(handle));
            });
        }
    }
    let help = "When the last event about the handle was read, in seconds since 1970.";
    family(text, "fdp_last_event_timestamp_seconds", "gauge", help);
    for handle in handles {
        let Some(at) = handle.events.last_read_at else { continue };
        with_labels(handle, None, |labels| {
            sample(text, "fdp_last_event_timestamp_seconds", labels, at.as_secs());
        });
    }
}

/// Calls `write` with the labels of a handle.
fn with_labels(handle: &HandleReport, event: Option<&str>, write: impl FnOnce(&[(&str, &str)])) {
    let number = handle.events.handle.map_or_else(String::new, |number| number.to_string());
    let (tenants, streams) = (handle.tenant_names(), handle.stream_names());
    let mut labels = vec![
        ("drive", &*handle.drive),
        ("handle", &*number),
        ("tenant", &*tenants),
        ("stream", &*streams),
    ];
    labels.extend(event.map(|event| ("event", event)));
    write(&labels);
}

/// The write amplification that is expected of each drive, to be compared with `larder_drive_dlwa`.
fn write_prediction(text: &mut String, shared: &ServerState) {
    let help = "Bytes that the drive should write for each byte that it is given, by formula.";
    family(text, "predicted_dlwa", "gauge", help);
    for shard in 0..shards(shared) {
        if let Some(dlwa) = predicted(shared, shard) {
            let drive = drive_of(shared, shard).unwrap_or_default();
            let labels = [("drive", &*drive), ("shard", &*shard.to_string())];
            sample(text, "predicted_dlwa", &labels, dlwa);
        }
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    metrics_text::family(text, PREFIX, name, (kind, help));
}

fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    metrics_text::sample(text, PREFIX, name, labels, value);
}
