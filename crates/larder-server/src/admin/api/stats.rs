//! `/api/stats`: counters of the server and of each tenant since the start. To get what happened in an interval,
//! subtract two answers.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use larder::{DriveLife, Latency, Stats};
use serde::Serialize;

use crate::admin::placement;
use crate::shared::ServerState;
use crate::tenant::Tenant;

#[derive(Serialize)]
pub(super) struct Counts {
    server: ServerCounts,
    /// By their names in `/metrics`.
    requests: BTreeMap<&'static str, u64>,
    tenants: Vec<TenantCounts>,
    drives: Vec<Drive>,
    drive_life: Option<Life>,
    rings: Vec<Ring>,
}

#[derive(Serialize)]
struct ServerCounts {
    version: &'static str,
    time_ms: u64,
    uptime_ms: u64,
    not_ready: Option<String>,
    workers: usize,
    connections: usize,
    connections_max: usize,
    slow_requests: u64,
    /// Whether an admin token is configured, so that operators can change something.
    may_change: bool,
}

#[derive(Serialize)]
struct TenantCounts {
    name: String,
    gets: u64,
    dram_hits: u64,
    soc_hits: u64,
    loc_hits: u64,
    array_hits: u64,
    misses: u64,
    sets: u64,
    deletes: u64,
    expired: u64,
    /// Keys on flash plus keys in DRAM only.
    items: u64,
    flash_items: u64,
    dram_only_items: u64,
    expiring_items: u64,
    dram_items: u64,
    dram_used_bytes: u64,
    flash_memory_bytes: u64,
    flash_bytes: u64,
    admitted_bytes: u64,
    flash_written_bytes: u64,
    alwa: Option<f64>,
    /// Evicted objects, by place.
    evicted: BTreeMap<&'static str, u64>,
    /// Objects that were not stored, or lost, by reason.
    dropped: BTreeMap<&'static str, u64>,
    latencies: Vec<OperationLatency>,
    crash_safe: bool,
    last_device_error: Option<String>,
}

#[derive(Serialize)]
struct OperationLatency {
    operation: &'static str,
    tier: Option<&'static str>,
    count: u64,
    sum_ns: u64,
    /// The upper bound of each bucket in nanoseconds, and the number of calls in it; ascending.
    buckets: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct Drive {
    path: String,
    host_written_bytes: Option<u64>,
    media_written_bytes: Option<u64>,
    dlwa: Option<f64>,
    recent_dlwa: Option<f64>,
    /// By formula, for this division of flash and these writes.
    predicted_dlwa: Option<f64>,
    used_percent: Option<u8>,
    /// What the drive does not report, and why.
    unavailable: Vec<String>,
}

#[derive(Serialize)]
struct Life {
    written_bytes: u64,
    left_bytes: u64,
    bytes_per_day: Option<u64>,
    days_left: Option<u64>,
}

#[derive(Serialize)]
struct Ring {
    pending_pieces: u64,
    ended_pieces: u64,
    enters: u64,
    sleeps: u64,
}

pub(super) fn of(shared: &ServerState, may_change: bool) -> Counts {
    let stats: Vec<(&Tenant, Stats)> =
        shared.tenants.iter().map(|tenant| (&**tenant, tenant.stats())).collect();
    let ring = |ring: &std::sync::Arc<crate::counters::RingCounters>| Ring {
        pending_pieces: ring.pending_pieces.read(),
        ended_pieces: ring.ended_pieces.read(),
        enters: ring.enters.read(),
        sleeps: ring.sleeps.read(),
    };
    Counts {
        server: server(shared, may_change),
        requests: shared.counted().each().map(|(name, _, value)| (name, value)).collect(),
        drives: drives(stats.iter().map(|(_, stats)| stats), &predictions(shared)),
        drive_life: shared.caches.drive_life().map(life),
        tenants: stats.into_iter().map(|(tenant, stats)| of_tenant(tenant, stats)).collect(),
        rings: shared.rings.iter().map(ring).collect(),
    }
}

fn server(shared: &ServerState, may_change: bool) -> ServerCounts {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ServerCounts {
        version: env!("CARGO_PKG_VERSION"),
        time_ms: ms(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        uptime_ms: ms(shared.started.elapsed()),
        not_ready: shared.why_not_ready(),
        workers: shared.config.workers,
        connections: shared.connections(),
        connections_max: shared.connections_max(),
        slow_requests: shared.slow_log.seen(),
        may_change,
    }
}

fn of_tenant(tenant: &Tenant, stats: Stats) -> TenantCounts {
    let flash = tenant.caches().into_iter().filter_map(|cache| cache.layout());
    let items = tenant.estimated_items();
    TenantCounts {
        name: tenant.name().to_owned(),
        gets: stats.gets,
        dram_hits: stats.dram_hits,
        soc_hits: stats.soc_hits,
        loc_hits: stats.loc_hits,
        array_hits: stats.array_hits,
        // A look-up without a result yet is no miss; a hit may be counted before its look-up, hence the saturation.
        misses: stats.gets.saturating_sub(stats.hits()),
        sets: stats.sets,
        deletes: stats.deletes,
        expired: stats.expired,
        items: items.total(),
        flash_items: items.on_flash,
        dram_only_items: items.in_dram_alone,
        expiring_items: items.with_lifetime,
        dram_items: stats.dram_items,
        dram_used_bytes: stats.dram_used_bytes,
        flash_memory_bytes: stats.flash_memory_bytes,
        flash_bytes: flash.map(|layout| layout.usable_bytes).sum(),
        admitted_bytes: stats.admitted_bytes,
        flash_written_bytes: stats.flash_written_bytes(),
        alwa: stats.alwa(),
        evicted: evicted(&stats),
        dropped: dropped(&stats),
        crash_safe: stats.crash_safe > 0,
        last_device_error: stats.last_device_error,
        latencies: stats.latencies.iter().map(timed).collect(),
    }
}

fn evicted(stats: &Stats) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("dram", stats.dram_evicted_objects),
        ("soc", stats.soc_evicted_objects),
        ("soc_log", stats.soc_log_dropped_objects),
        ("loc", stats.loc_evicted_objects),
        ("array", stats.array_evicted_objects),
    ])
}

fn dropped(stats: &Stats) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("admission", stats.rejected_by_admission_objects),
        ("too_large", stats.rejected_too_large_objects),
        ("dram_pinned", stats.rejected_dram_pinned_objects),
        ("too_much_on_its_way", stats.rejected_demotions_objects),
        ("outage", stats.rejected_in_outage_objects),
        ("device_errors", stats.lost_to_device_errors_objects),
        ("full_tables", stats.array_table_overflows),
    ])
}

fn timed(latency: &Latency) -> OperationLatency {
    OperationLatency {
        operation: latency.operation,
        tier: latency.tier,
        count: latency.histogram.count(),
        sum_ns: u64::try_from(latency.histogram.sum().as_nanos()).unwrap_or(u64::MAX),
        buckets: latency.histogram.buckets().collect(),
    }
}

/// The predicted write amplification of each drive, where it is known.
fn predictions(shared: &ServerState) -> Vec<(String, f64)> {
    let of_shard = |shard| {
        let dlwa = placement::predicted(shared, shard)?;
        Some((placement::drive_of(shared, shard)?, dlwa))
    };
    (0..placement::shards(shared)).filter_map(of_shard).collect()
}

/// The drives of all tenants; a drive that several share is listed once.
fn drives<'a>(all: impl Iterator<Item = &'a Stats>, predictions: &[(String, f64)]) -> Vec<Drive> {
    let mut drives: Vec<Drive> = Vec::new();
    for report in all.flat_map(|stats| &stats.drives) {
        if drives.iter().any(|known| known.path == report.path) {
            continue;
        }
        let unsaid = report.unavailable.iter().map(|it| format!("{}: {}", it.what, it.why));
        drives.push(Drive {
            path: report.path.clone(),
            host_written_bytes: report.since_open.map(|written| written.host_bytes),
            media_written_bytes: report.since_open.map(|written| written.media_bytes),
            dlwa: report.since_open.and_then(|written| written.dlwa()),
            recent_dlwa: report.recent.and_then(|written| written.dlwa()),
            predicted_dlwa: predictions
                .iter()
                .find(|(path, _)| *path == report.path)
                .map(|(_, dlwa)| *dlwa),
            used_percent: report.used_percent,
            unavailable: unsaid.collect(),
        });
    }
    drives
}

fn life(life: DriveLife) -> Life {
    Life {
        written_bytes: life.written_bytes,
        left_bytes: life.left_bytes,
        bytes_per_day: life.bytes_per_day,
        days_left: life.days_left,
    }
}
