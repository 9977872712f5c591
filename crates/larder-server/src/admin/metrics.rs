//! `/metrics`: each tenant's cache as [`OpenMetrics`] writes it, then what only the server knows: connections,
//! requests, placement, rings.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use larder::{OpenMetrics, Stats};

use super::api::own_streams;
use super::placement;
use crate::channels::Kind;
use crate::counters::Counter;
use crate::metrics_text::{self, END};
use crate::shared::ServerState;

/// All metrics, as text.
pub(crate) fn text(shared: &ServerState) -> String {
    let stats: Vec<(&str, Stats)> =
        shared.tenants.iter().map(|tenant| (tenant.name(), tenant.stats())).collect();
    let mut page = OpenMetrics::new();
    for (name, stats) in &stats {
        // Tenants have different names, so none is refused.
        if let Ok(more) = page.clone().cache(&[("tenant", name)], stats) {
            page = more;
        }
    }
    let mut text = page.to_string();
    text.truncate(text.strip_suffix(END).map_or(text.len(), str::len));
    write_server(&mut text, shared);
    super::tenants::append(shared, &mut text);
    write_drive_life(&mut text, shared);
    write_streams(&mut text, shared);
    placement::families::write(&mut text, shared);
    write_found(&mut text, shared);
    write_shards(&mut text, shared);
    write_rings(&mut text, shared);
    if let Some(caches) = &shared.config.block_caches {
        text.push_str(&caches.metrics().families());
    }
    if let Some(wear) = &shared.config.wear {
        text.push_str(&wear.metrics().families());
    }
    text.push_str(END);
    text
}

/// Connections and requests.
fn write_server(text: &mut String, shared: &ServerState) {
    let is_ready = u64::from(shared.why_not_ready().is_none());
    let names = |kind| {
        let of_each = (0..shared.tenants.len()).map(|tenant| shared.channels.names(tenant, kind));
        of_each.sum::<usize>() as u64
    };
    let (watchers, sent, skipped) = shared.watchers.counts();
    let gauges = [
        ("connections", "Connections that there are.", shared.connections() as u64),
        ("connections_max", "Most connections at a time.", shared.connections_max() as u64),
        ("workers", "Threads that serve.", shared.config.workers as u64),
        ("ready", "Whether it takes requests: 1 or 0.", is_ready),
        (
            "client_bytes",
            "Memory that clients cause beside the caches.",
            shared.account.used() as u64,
        ),
        ("client_bytes_max", "Most memory that they may.", shared.account.bytes_max() as u64),
        (
            "longest_turn_units",
            "Most units of work that a connection has done before others had their turns.",
            shared.longest_turn_units.load(Ordering::Relaxed) as u64,
        ),
        ("pubsub_channels", "Channels that have subscribers.", names(Kind::Channel)),
        ("pubsub_patterns", "Patterns of channels that have subscribers.", names(Kind::Pattern)),
        ("pubsub_shard_channels", "Sharded channels that have subscribers.", names(Kind::Shard)),
        ("watchers", "Clients that watch (memcached's `watch`).", watchers as u64),
        ("uptime_seconds", "Time since it was started.", shared.started.elapsed().as_secs()),
    ];
    for (name, help, value) in gauges.into_iter().chain(of_tracking(shared)) {
        family(text, name, "gauge", help);
        sample(text, name, &[], value);
    }
    if let Some(tls) = shared.tls() {
        let name = "certificate_ends_in_seconds";
        family(text, name, "gauge", "Seconds until the TLS certificate ends; 0 when it has.");
        sample(text, name, &[], tls.ends_in().as_secs());
    }
    let slow = shared.slow_log.seen();
    let own = [
        ("accepted_connections", "Connections that there were.", shared.connections_ever()),
        ("slow_requests", "Requests that waited as long as the slow log asks for.", slow),
        (
            "evicted_clients",
            "Half-sent requests and answers not taken that were ended, since others needed the memory.",
            shared.account.evicted() as u64,
        ),
        (
            "notifications_dropped",
            "Events of keys that were not published, since too many waited.",
            shared.keyspace.dropped_notices(),
        ),
        ("watch_lines_sent", "Lines of events given to clients that watch.", sent),
        ("watch_lines_skipped", "Such lines dropped, since a client has too many unread.", skipped),
        (
            "memory_returns",
            "Times that free memory was given back to the system.",
            shared.memory_returns.load(Ordering::Relaxed),
        ),
    ];
    for (name, help, value) in own.into_iter().chain(shared.counted().each()) {
        family(text, name, "counter", help);
        sample(text, &format!("{name}_total"), &[], value);
    }
}

/// What clients track.
fn of_tracking(shared: &ServerState) -> [(&'static str, &'static str, u64); 4] {
    let (keys, items) = shared.keyspace.remembered();
    let prefixes = shared.keyspace.followed_prefixes();
    [
        ("tracking_clients", "Clients that track keys.", shared.keyspace.followers()),
        ("tracking_keys", "Keys that clients track.", keys as u64),
        ("tracking_items", "Clients of each tracked key, summed.", items as u64),
        ("tracking_prefixes", "Prefixes that clients follow.", prefixes as u64),
    ]
}

/// The forecast for the drive that all tenants share, if its rating is known.
fn write_drive_life(text: &mut String, shared: &ServerState) {
    let Some(life) = shared.caches.drive_life() else { return };
    let gauges = [
        ("drive_written_bytes", "Bytes ever written to the drive.", Some(life.written_bytes)),
        ("drive_left_bytes", "Bytes that the rating of the drive leaves.", Some(life.left_bytes)),
        ("drive_daily_bytes", "Bytes a day at the rate of the last day.", life.bytes_per_day),
        ("drive_left_days", "Days until the rating is used up at that rate.", life.days_left),
    ];
    for (name, help, value) in gauges {
        family(text, name, "gauge", help);
        if let Some(value) = value {
            sample(text, name, &[], value);
        }
    }
}

/// The shards of the set, if there is one.
fn write_shards(text: &mut String, shared: &ServerState) {
    let Some(set) = super::api::set(shared).map(larder::Shards::status) else { return };
    let gauges: [(&str, &str, u64); 2] = [
        ("set_epoch", "Raised whenever a shard fails, comes or goes.", set.epoch.into()),
        ("set_refill_permille", "Looked at by the refill under way.", set.refilled_permille),
    ];
    for (name, help, value) in gauges {
        family(text, name, "gauge", help);
        sample(text, name, &[], value);
    }
    let counters: [(&str, &str, u64); 9] = [
        ("set_refilled_bytes", "Bytes that refills have copied.", set.refilled_bytes),
        ("set_late_gets", "Misses because a device took too long.", set.late_gets),
        ("set_lost_changes", "Changes lost with their shard.", set.lost_changes),
        ("set_suspected", "Times that a shard was suspected.", set.suspected),
        ("set_failed", "Times that a shard was taken out as failed.", set.failed),
        ("set_returned", "Times that a shard came back by itself.", set.returned),
        ("set_host_pauses", "Times that the host was stopped or slept.", set.host_pauses),
        (
            "set_moved_parts",
            "Parts of 10,000 of a shard's keys that were moved to level wear.",
            set.moved_parts,
        ),
        ("set_old_home_gets", "Hits where a key was before it moved.", set.old_home_gets),
    ];
    for (name, help, value) in counters {
        family(text, name, "counter", help);
        sample(text, &format!("{name}_total"), &[], value);
    }
    family(
        text,
        "shard",
        "info",
        "A shard of the set, its state, and since which epoch it was away.",
    );
    for shard in &set.shards {
        let is_suspect = if shard.suspicion.is_some() { "yes" } else { "no" };
        let labels = [
            ("shard", &*shard.number.to_string()),
            ("state", shard.state.name()),
            ("suspected", is_suspect),
            ("since", &*shard.since.to_string()),
        ];
        sample(text, "shard_info", &labels, 1);
    }
    super::levelling::write(text, set);
}

/// Which stream of which tenant writes with which placement handle.
fn write_streams(text: &mut String, shared: &ServerState) {
    family(text, "stream", "info", "A stream, and the placement handle that it writes with.");
    for tenant in &shared.tenants {
        for (shard, cache) in tenant.caches().into_iter().enumerate() {
            for stream in own_streams(cache, tenant.name()) {
                let labels = [
                    ("tenant", tenant.name()),
                    ("shard", &shard.to_string()),
                    ("stream", &stream.class.to_string()),
                    ("handle", &stream.handle.to_string()),
                    ("shared", if stream.shared_with.is_empty() { "no" } else { "yes" }),
                ];
                sample(text, "stream_info", &labels, 1);
            }
        }
    }
}

/// What the start has found on flash.
fn write_found(text: &mut String, shared: &ServerState) {
    let help = "What the start has found on flash: new, clean (it was closed in order), crash, or empty for a reason.";
    family(text, "start", "info", help);
    for tenant in &shared.tenants {
        for (shard, cache) in tenant.caches().into_iter().enumerate() {
            let Some(recovery) = cache.recovery() else { continue };
            let reason = match &recovery {
                larder::Recovery::Discarded { reason } => reason,
                _ => "",
            };
            let labels = [
                ("tenant", tenant.name()),
                ("shard", &shard.to_string()),
                ("found", recovery.name()),
                ("reason", reason),
            ];
            sample(text, "start_info", &labels, 1);
        }
    }
}

/// The flash ring of each worker.
fn write_rings(text: &mut String, shared: &ServerState) {
    type Of = fn(&crate::counters::RingCounters) -> &Counter;
    let families: [(&str, &str, &str, Of); 4] = [
        ("ring_pending_pieces", "gauge", "Pieces of flash requests under way.", |it| {
            &it.pending_pieces
        }),
        ("ring_ended_pieces", "counter", "Pieces of flash requests that have ended.", |it| {
            &it.ended_pieces
        }),
        ("ring_enters", "counter", "Calls of the kernel for the ring.", |it| &it.enters),
        ("ring_sleeps", "counter", "Those of them that slept.", |it| &it.sleeps),
    ];
    for (name, kind, help, of) in families {
        family(text, name, kind, help);
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (worker, ring) in shared.rings.iter().enumerate() {
            let worker = worker.to_string();
            sample(text, &format!("{name}{suffix}"), &[("worker", &worker)], of(ring).read());
        }
    }
}

// Writing to a `String` does not fail.

/// The prefix of the server's families.
const PREFIX: &str = "larder_server";

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    metrics_text::family(text, PREFIX, name, (kind, help));
}

fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    metrics_text::sample(text, PREFIX, name, labels, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_do_not_end_them() {
        let mut text = String::new();
        sample(&mut text, "stream_info", &[("tenant", "a\"} 1\n#\\"), ("handle", "2")], 1);
        let escaped = r#"larder_server_stream_info{tenant="a\"} 1\n#\\",handle="2"} 1"#;
        assert_eq!(text, format!("{escaped}\n"));
    }
}
