//! `/api/placement`: which stream of which tenant writes with which placement handle, why, and what the drives report
//! about the handle.

use std::borrow::Cow;
use std::collections::BTreeMap;

use larder::plan::{Assignment, Class};
use larder::{HandleReport, Larder, StreamReport};
use larder_device::nvme::{HandleEvents, event_name};
use serde::Serialize;

use crate::admin::placement::{self, TenantShard};
use crate::shared::ServerState;
use crate::tenant::Tenant;

#[derive(Serialize)]
pub(super) struct Placement {
    tenants: Vec<TenantPlacement>,
    /// The handles of the drives that report events, each once.
    handles: Vec<Handle>,
    /// Sentences for operators.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct TenantPlacement {
    name: String,
    /// One for each device.
    shards: Vec<ShardPlacement>,
}

#[derive(Serialize)]
struct ShardPlacement {
    /// The placement mechanism of the device: "none" if it has none; `null` without flash.
    path: Option<String>,
    /// Whether the operator asked for placement.
    expected: bool,
    /// The better placement paths, and why they are unavailable.
    missed: Vec<String>,
    flash_bytes: u64,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Stream {
    stream: String,
    handle: u16,
    /// Streams that write with the same handle, each after the name of its tenant.
    shared_with: Vec<String>,
    why: String,
    /// `why`, and why there is no better placement path.
    reason: String,
    write_share: f64,
    lifetime_s: Option<f64>,
    /// By this tenant with the handle.
    handle_written_bytes: Option<u64>,
    /// About the handle.
    events: Events,
}

#[derive(Serialize)]
struct Handle {
    drive: String,
    /// `null` for events that name no handle.
    handle: Option<u16>,
    /// Each after the name of its tenant.
    streams: Vec<String>,
    events: Events,
}

/// What drives report about a handle since the start.
#[derive(Serialize)]
struct Events {
    /// By type.
    counts: BTreeMap<Cow<'static, str>, u64>,
    relocated_units: u64,
    relocated_bytes: u64,
    relocated_units_in_hour: u64,
    last_read_ms: Option<u64>,
}

pub(super) fn of(shared: &ServerState) -> Placement {
    let of_tenant = |tenant: &Tenant| TenantPlacement {
        name: tenant.name().to_owned(),
        shards: placement::of_tenant(tenant, shared).map(|it| shard(&it)).collect(),
    };
    Placement {
        tenants: shared.tenants.iter().map(|tenant| of_tenant(tenant)).collect(),
        handles: placement::handles(shared).iter().map(handle).collect(),
        warnings: placement::warnings(shared),
    }
}

fn shard(it: &TenantShard<'_>) -> ShardPlacement {
    let layout = it.cache.layout();
    ShardPlacement {
        path: layout.map(|_| it.cache.stats().placement_path.to_owned()),
        expected: it.is_expected(),
        missed: it.missed().to_vec(),
        flash_bytes: layout.map_or(0, |layout| layout.usable_bytes),
        streams: it.streams().iter().map(|stream| report(it, stream)).collect(),
    }
}

/// The streams of one tenant, from a plan that may include other tenants' streams.
pub(in crate::admin) fn own_streams<'a>(
    cache: &'a Larder,
    tenant: &'a str,
) -> impl Iterator<Item = &'a Assignment> {
    let all = cache.placement().streams().iter();
    all.filter(move |stream| stream.tenant.is_empty() || stream.tenant == tenant)
}

fn report(of: &TenantShard<'_>, stream: &StreamReport) -> Stream {
    let assignment = &stream.assignment;
    Stream {
        stream: assignment.class.to_string(),
        handle: assignment.handle.index(),
        shared_with: assignment.shared_with.iter().map(named).collect(),
        why: assignment.why.to_string(),
        reason: of.reason(stream),
        write_share: assignment.write_share,
        lifetime_s: assignment.lifetime.map(|lifetime| lifetime.as_secs_f64()),
        handle_written_bytes: stream.handle_written_bytes,
        events: events(&stream.events),
    }
}

fn named((tenant, class): &(String, Class)) -> String {
    format!("{tenant} {class}")
}

fn handle(report: &HandleReport) -> Handle {
    Handle {
        drive: report.drive.clone(),
        handle: report.events.handle.map(|handle| handle.index()),
        streams: report.streams.iter().map(named).collect(),
        events: events(&report.events),
    }
}

fn events(events: &HandleEvents) -> Events {
    let ms = |at: std::time::Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
    Events {
        counts: events.events.iter().map(|(code, count)| (event_name(*code), *count)).collect(),
        relocated_units: events.moves(),
        relocated_bytes: events.moved_bytes,
        relocated_units_in_hour: events.moves_in_hour,
        last_read_ms: events.last_read_at.map(ms),
    }
}
