//! `stats`: statistics of the server, under memcached's names.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use larder::Stats;

use super::line::Words;
use super::version::VERSION;
use crate::caller::Caller;
use crate::config::{ListenerConfig, ProtocolKind};
use larder_net::sockets::Endpoint;

/// How the answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsOutcome {
    /// Everything has been said.
    All,
    /// The statistics were reset.
    Reset,
    Ok,
    /// The requested detail does not exist.
    Wrong,
    /// The requested statistics do not exist.
    Unknown,
    /// They are of the process, and the client is no administrator.
    Forbidden,
}

/// Passes the requested statistics to `say`.
pub(super) fn answer(
    caller: &Caller,
    mut words: Words<'_>,
    mut say: impl FnMut(&str, &dyn Display),
) -> StatsOutcome {
    match (words.next(), words.next()) {
        (None, _) if !caller.is_admin() => {
            identity(&mut say);
            of_tenant(caller, &mut say);
        }
        (None, _) => general(caller, &mut say),
        (Some(b"settings"), _) => settings(caller, &mut say),
        (Some(b"reset"), _) if !caller.is_admin() => return StatsOutcome::Forbidden,
        (Some(b"reset"), _) => {
            caller.worker.shared.count_anew();
            return StatsOutcome::Reset;
        }
        (Some(b"sizes"), _) => say("sizes_status", &"disabled"),
        (Some(b"conns"), _) => connections(caller, &mut say),
        (Some(b"slabs"), _) => {
            say("active_slabs", &0);
            say("total_malloced", &caller.tenant.stats().dram_used_bytes);
        }
        // Nothing is counted by key prefix.
        (Some(b"detail"), Some(b"on" | b"off")) => return StatsOutcome::Ok,
        (Some(b"detail"), Some(b"dump")) => {}
        (Some(b"detail"), _) => return StatsOutcome::Wrong,
        // There are no slab classes.
        (Some(b"items" | b"cachedump"), _) => {}
        _ => return StatsOutcome::Unknown,
    }
    StatsOutcome::All
}

/// Bits of a pointer.
const POINTER_BITS: u32 = usize::BITS;

fn general(caller: &Caller, say: &mut impl FnMut(&str, &dyn Display)) {
    let shared = &caller.worker.shared;
    let counted = shared.counted_lately();
    let cache = caller.tenant.stats();
    say("pid", &std::process::id());
    say("uptime", &shared.started.elapsed().as_secs());
    identity(say);
    say("max_connections", &shared.config.connections_max);
    say("curr_connections", &shared.connections());
    say("total_connections", &shared.connections_ever());
    say("rejected_connections", &shared.rejected.load(Ordering::Relaxed));
    say("accepting_conns", &1);
    say("threads", &shared.config.workers);
    say("cmd_get", &counted.cmd_get);
    say("cmd_set", &counted.cmd_set);
    say("cmd_flush", &counted.cmd_flush);
    say("cmd_touch", &counted.cmd_touch);
    say("cmd_meta", &counted.cmd_meta);
    say("get_hits", &counted.get_hits);
    say("get_misses", &counted.get_misses);
    say("get_expired", &cache.expired);
    say("delete_misses", &counted.delete_misses);
    say("delete_hits", &counted.delete_hits);
    say("incr_misses", &counted.incr_misses);
    say("incr_hits", &counted.incr_hits);
    say("decr_misses", &counted.decr_misses);
    say("decr_hits", &counted.decr_hits);
    say("cas_misses", &counted.cas_misses);
    say("cas_hits", &counted.cas_hits);
    say("cas_badval", &counted.cas_badval);
    say("touch_hits", &counted.touch_hits);
    say("touch_misses", &counted.touch_misses);
    say("store_too_large", &counted.store_too_large);
    say("store_no_memory", &counted.refused_busy);
    say("auth_cmds", &counted.auth_cmds);
    say("auth_errors", &counted.auth_errors);
    say("bytes_read", &counted.bytes_read);
    say("bytes_written", &counted.bytes_written);
    say("total_items", &counted.cmd_set);
    let (watchers, sent, skipped) = shared.watchers.counts();
    say("log_watcher_skipped", &skipped);
    say("log_watcher_sent", &sent);
    say("log_watchers", &watchers);
    say_of_cache(caller, &cache, say);
}

/// The identity of the server.
fn identity(say: &mut impl FnMut(&str, &dyn Display)) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    say("time", &now);
    say("version", &VERSION);
    say("pointer_size", &POINTER_BITS);
}

/// The statistics for a client that is no administrator: the counters of its tenant's caches, and none of the process.
fn of_tenant(caller: &Caller, say: &mut impl FnMut(&str, &dyn Display)) {
    let cache = caller.tenant.stats();
    say("cmd_get", &cache.gets);
    say("get_hits", &cache.hits());
    say("get_misses", &cache.gets.saturating_sub(cache.hits()));
    say("get_expired", &cache.expired);
    say_of_cache(caller, &cache, say);
}

fn say_of_cache(caller: &Caller, cache: &Stats, say: &mut impl FnMut(&str, &dyn Display)) {
    say("curr_items", &caller.tenant.estimated_len());
    say("bytes", &cache.dram_used_bytes);
    say("limit_maxbytes", &caller.tenant.memory_limit_bytes());
    say("evictions", &cache.evicted_objects());
    say("tenant", &caller.tenant.name().escape_default());
    say("dram_items", &cache.dram_items);
    say("dram_hits", &cache.dram_hits);
    say("flash_hits", &(cache.soc_hits + cache.loc_hits + cache.array_hits));
}

fn settings(caller: &Caller, say: &mut impl FnMut(&str, &dyn Display)) {
    let config = &caller.worker.shared.config;
    let ours = |it: &&ListenerConfig| it.protocol == ProtocolKind::Memcached;
    let mut endpoints = config.listeners.iter().filter(ours).map(|listener| &listener.endpoint);
    let port = endpoints.clone().find_map(|endpoint| match endpoint {
        Endpoint::Tcp(address) => Some(address.port()),
        Endpoint::Unix { .. } => None,
    });
    let path = endpoints.find_map(|endpoint| match endpoint {
        Endpoint::Unix { path, .. } => Some(path.display().to_string()),
        Endpoint::Tcp(_) => None,
    });
    let needs_users = yes_or_no(!caller.worker.shared.users().is_empty());
    if caller.is_admin() {
        say("maxconns", &config.connections_max);
        say("tcpport", &port.unwrap_or(0));
        say("udpport", &0);
        say("domain_socket", &path.as_deref().unwrap_or("NULL").escape_default());
        say("verbosity", &0);
        say("num_threads", &config.workers);
    }
    say("maxbytes", &caller.tenant.memory_limit_bytes());
    say("evictions", &"on");
    say("item_size_max", &config.value_bytes_max);
    say("cas_enabled", &"yes");
    say("flush_enabled", &"yes");
    say("auth_enabled_sasl", &needs_users);
    say("auth_enabled_ascii", &needs_users);
    say("binding_protocol", &"auto-negotiate");
    say("detail_enabled", &"no");
    say("shutdown_command", &"no");
    say("ssl_enabled", &yes_or_no(config.listeners.iter().any(|listener| listener.is_tls)));
    say("watch_enabled", &"yes");
    say("dump_enabled", &"yes");
    say("idle_timeout", &config.idle_timeout.map_or(0, |time| time.as_secs()));
}

/// The connection of the client that asks; an administrator gets the listeners too. Other clients are never listed.
fn connections(caller: &Caller, say: &mut impl FnMut(&str, &dyn Display)) {
    let all = &caller.worker.shared.config.listeners;
    let shown = if caller.is_admin() { &all[..] } else { &[] };
    for (number, listener) in shown.iter().enumerate() {
        let address = match &listener.endpoint {
            Endpoint::Tcp(address) => format!("tcp:{address}"),
            Endpoint::Unix { path, .. } => format!("unix:{}", path.display()),
        };
        say(&format!("{number}:addr"), &address.escape_default());
        say(&format!("{number}:state"), &"conn_listening");
    }
    let number = all.len() as u64 + caller.id;
    say(&format!("{number}:addr"), &caller.peer);
    say(&format!("{number}:state"), &"conn_parse_cmd");
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
