//! `INFO`: state of the server, in the sections and under the names that tools read. A client that is no administrator
//! gets its tenant's numbers, and none of the process.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::connection::REDIS_VERSION;
use super::context::Context;
use super::parse::Arguments;
use super::table::TABLE;
use crate::channels::Kind;
use crate::databases::DatabaseIndex;

/// A section: its name, and the function that writes its lines.
type Section = (&'static str, fn(&Context<'_>, &mut String));

const SECTIONS: [Section; 10] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Modules", |_, _| {}),
    ("Commandstats", commands),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];
/// Sections that are left out unless they are asked for.
const ASKED: [&str; 1] = ["Commandstats"];

/// `INFO`.
pub(super) fn info(cx: &mut Context<'_>, argv: Arguments<'_>) {
    let asked: Vec<Vec<u8>> = argv.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let has = |word: &str| asked.iter().any(|asked| asked == word.as_bytes());
    let (all, default) = (has("all") || has("everything"), has("default") || asked.is_empty());
    let mut text = String::new();
    for (name, lines) in SECTIONS {
        let by_default = default && !ASKED.contains(&name);
        if all || by_default || has(&name.to_ascii_lowercase()) {
            if !text.is_empty() {
                text += "\r\n";
            }
            let _ = write!(text, "# {name}\r\n");
            lines(cx, &mut text);
        }
    }
    cx.out.verbatim(&text);
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(cx: &Context<'_>, text: &mut String) {
    let shared = &cx.caller.worker.shared;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uptime = shared.started.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "larder_version", env!("CARGO_PKG_VERSION"));
    line(text, "larder_tenant", cx.caller.tenant.name());
    let mode = if shared.config.cluster.is_some() { "cluster" } else { "standalone" };
    line(text, "redis_mode", mode);
    line(text, "server_time_usec", now.as_micros());
    if !cx.caller.is_admin() {
        return;
    }
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    line(text, "worker_threads", shared.config.workers);
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
}

fn clients(cx: &Context<'_>, text: &mut String) {
    let shared = &cx.caller.worker.shared;
    if cx.caller.is_admin() {
        line(text, "connected_clients", shared.connections());
        line(text, "maxclients", shared.config.connections_max);
    } else {
        line(text, "connected_clients", cx.board().clients(cx.visible()).len());
    }
    let visible = cx.board().clients(cx.visible());
    line(text, "pubsub_clients", visible.iter().filter(|it| it.hears_messages()).count());
    line(text, "blocked_clients", visible.iter().filter(|it| it.is_waiting()).count());
    let follows = |it: &&std::sync::Arc<crate::resp_board::ClientEntry>| it.follower().is_some();
    line(text, "tracking_clients", visible.iter().filter(follows).count());
}

fn memory(cx: &Context<'_>, text: &mut String) {
    let stats = cx.caller.tenant.stats();
    line(text, "used_memory", stats.dram_used_bytes + stats.flash_memory_bytes);
    line(text, "used_memory_dataset", stats.dram_used_bytes);
    let (scripts, bytes) = cx.caller.worker.shared.scripts.kept(cx.caller.tenant.number);
    line(text, "used_memory_scripts", bytes);
    line(text, "number_of_cached_scripts", scripts);
    line(text, "maxmemory", cx.caller.tenant.memory_limit_bytes());
    let policy = cx.caller.worker.shared.config.maxmemory_policy;
    line(text, "maxmemory_policy", policy.name());
}

fn persistence(_: &Context<'_>, text: &mut String) {
    line(text, "loading", 0);
    line(text, "rdb_bgsave_in_progress", 0);
    line(text, "aof_enabled", 0);
}

fn stats(cx: &Context<'_>, text: &mut String) {
    let stats = cx.caller.tenant.stats();
    line(text, "expired_keys", stats.expired);
    line(text, "evicted_keys", stats.evicted_objects());
    let hits = stats.hits();
    if cx.caller.is_admin() {
        of_process(cx, text);
    } else {
        line(text, "keyspace_hits", hits);
        line(text, "keyspace_misses", stats.gets.saturating_sub(hits));
    }
    let channels = &cx.caller.worker.shared.channels;
    let names = |kind| channels.names(cx.caller.tenant.number, kind);
    line(text, "pubsub_channels", names(Kind::Channel));
    line(text, "pubsub_patterns", names(Kind::Pattern));
    line(text, "pubsubshard_channels", names(Kind::Shard));
    line(text, "larder_flash_hits", hits.saturating_sub(stats.dram_hits));
    line(text, "larder_flash_written_bytes", stats.flash_written_bytes());
}

/// Counters of all tenants together.
fn of_process(cx: &Context<'_>, text: &mut String) {
    let shared = &cx.caller.worker.shared;
    let (keys, items) = shared.keyspace.remembered();
    line(text, "tracking_total_keys", keys);
    line(text, "tracking_total_items", items);
    line(text, "tracking_total_prefixes", shared.keyspace.followed_prefixes());
    let counted = shared.counted();
    line(text, "total_connections_received", shared.connections_ever());
    line(text, "total_commands_processed", counted.resp_commands);
    line(text, "total_net_input_bytes", counted.bytes_read);
    line(text, "total_net_output_bytes", counted.bytes_written);
    line(text, "keyspace_hits", counted.get_hits);
    line(text, "keyspace_misses", counted.get_misses);
    line(text, "acl_access_denied_auth", counted.auth_errors);
    line(text, "refused_busy", counted.refused_busy);
}

fn replication(_: &Context<'_>, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "master_repl_offset", 0);
}

fn commands(cx: &Context<'_>, text: &mut String) {
    if !cx.caller.is_admin() {
        return;
    }
    for (at, command) in TABLE.iter().enumerate() {
        let [calls, micros, rejected, failed] = cx.board().called(at);
        if calls + rejected > 0 {
            let hundredths = micros.saturating_mul(100) / calls.max(1);
            let _ = write!(
                text,
                "cmdstat_{}:calls={calls},usec={micros},usec_per_call={}.{:02},\
                 rejected_calls={rejected},failed_calls={failed}\r\n",
                command.name,
                hundredths / 100,
                hundredths % 100
            );
        }
    }
}

fn cluster(cx: &Context<'_>, text: &mut String) {
    let enabled = cx.caller.worker.shared.config.cluster.is_some();
    line(text, "cluster_enabled", u8::from(enabled));
}

fn keyspace(cx: &Context<'_>, text: &mut String) {
    let items = cx.caller.tenant.estimated_items();
    let (all, lives) = (items.total(), items.with_lifetime);
    let databases = &cx.caller.tenant.databases;
    let are_several = databases.are_others_used(cx.space());
    for index in DatabaseIndex::all() {
        let keys = match are_several {
            true => databases.counted(index),
            false if index == cx.client.database() => all,
            false => 0,
        };
        if keys > 0 {
            // Which keys have lifetimes is counted for all together.
            let expires = u128::from(lives) * u128::from(keys) / u128::from(all.max(1));
            let name = format!("db{}", index.index());
            line(text, &name, format_args!("keys={keys},expires={expires},avg_ttl=0"));
        }
    }
}
