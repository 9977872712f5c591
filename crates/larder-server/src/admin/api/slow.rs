//! `/api/slowlog`: the last slow requests.

use serde::Serialize;

use crate::config::ProtocolKind;
use crate::shared::ServerState;
use crate::slow_log::SlowEntry;

#[derive(Serialize)]
pub(super) struct SlowRequests {
    /// `null`: none are kept.
    threshold_us: Option<u64>,
    seen: u64,
    entries: Vec<SlowRequest>,
}

#[derive(Serialize)]
struct SlowRequest {
    number: u64,
    at_ms: u64,
    took_us: u64,
    protocol: &'static str,
    tenant: String,
    command: &'static str,
    key: String,
    key_bytes: usize,
    peer: String,
}

pub(super) fn of(shared: &ServerState) -> SlowRequests {
    let log = &shared.slow_log;
    SlowRequests {
        threshold_us: log.threshold().map(|it| number(it.as_micros())),
        seen: log.seen(),
        entries: log.entries().into_iter().map(entry).collect(),
    }
}

fn entry(entry: SlowEntry) -> SlowRequest {
    let SlowEntry { number: n, at, took, protocol, tenant, command, key, key_bytes, peer } = entry;
    SlowRequest {
        number: n,
        at_ms: number(at.as_millis()),
        took_us: number(took.as_micros()),
        protocol: match protocol {
            ProtocolKind::Memcached => "memcached",
            ProtocolKind::Resp => "resp",
        },
        tenant,
        command,
        key,
        key_bytes,
        peer,
    }
}

fn number(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
