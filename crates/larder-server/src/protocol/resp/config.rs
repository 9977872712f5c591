//! `CONFIG`: the settings that clients and tools ask for, under Redis' names.

use std::sync::atomic::Ordering;

use super::context::{Context, shown, unknown_subcommand, wrong_arity};
use super::glob;
use super::number;
use super::parse::Arguments;
use super::write::{Outcome, Refusal};
use crate::resp_board::ENTRIES_MAX;

/// Settings that can be read; [`set`] knows which can be changed.
const NAMES: [&str; 14] = [
    "appendonly",
    "databases",
    "latency-tracking",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "notify-keyspace-events",
    "proto-max-bulk-len",
    "requirepass",
    "save",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "tcp-keepalive",
    "timeout",
];

/// The ones that every client may read, since they concern its own requests. The others concern the process.
const OF_CLIENTS: [&str; 8] = [
    "appendonly",
    "databases",
    "maxmemory",
    "maxmemory-policy",
    "notify-keyspace-events",
    "proto-max-bulk-len",
    "save",
    "timeout",
];

/// `CONFIG`.
pub(super) fn config(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"GET", 3..) => get(cx, argv),
        (b"SET", 4..) => {
            cx.needs_admin("config|set")?;
            set_all(cx, argv)
        }
        (b"RESETSTAT" | b"REWRITE", 2) if !cx.caller.is_admin() => {
            cx.needs_admin(if &*sub == b"REWRITE" { "config|rewrite" } else { "config|resetstat" })
        }
        (b"RESETSTAT", 2) => Err(Refusal::Says(
            "ERR counters are read by more than one: take the difference of two readings",
        )),
        (b"REWRITE", 2) => Err(Refusal::Says("ERR The server is running without a config file")),
        (b"HELP", 2) => {
            cx.help(
                "CONFIG",
                &[
                    "GET <pattern> [<pattern> ...]",
                    "    Settings and their values: those of the process for administrators alone.",
                    "SET <name> <value> [<name> <value> ...]",
                    "    For administrators: changes slowlog-log-slower-than or slowlog-max-len until the server ends.",
                    "RESETSTAT, REWRITE",
                    "    Refused: counters only grow, and the configuration is its owner's.",
                ],
            );
            Ok(())
        }
        (b"GET", _) => Err(wrong_arity("config|get")),
        (b"SET", _) => Err(wrong_arity("config|set")),
        _ => Err(unknown_subcommand("CONFIG", argv.get(1))),
    }
}

fn get(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if argv.from(2).map(<[u8]>::len).sum::<usize>() > glob::PATTERN_BYTES_MAX || argv.len() > 64 {
        return Err(Refusal::Says("ERR too many patterns, or too long ones"));
    }
    let patterns: Vec<Vec<u8>> = argv.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_admin = cx.caller.is_admin();
    let fits = |name: &str| {
        (is_admin || OF_CLIENTS.contains(&name))
            && patterns.iter().any(|it| glob::matches(it, name.as_bytes()))
    };
    let found: Vec<&str> = NAMES.into_iter().filter(|name| fits(name)).collect();
    cx.out.map(found.len());
    for name in found {
        let value = value_of(cx, name);
        cx.out.bulk(name);
        cx.out.bulk(value);
    }
    Ok(())
}

fn value_of(cx: &Context<'_>, name: &str) -> String {
    let config = &cx.caller.worker.shared.config;
    let slow = &cx.board().slow;
    match name {
        "databases" => "1".to_owned(),
        "appendonly" | "latency-tracking" => "no".to_owned(),
        "maxclients" => config.connections_max.to_string(),
        "maxmemory" => cx.caller.tenant.memory_limit_bytes().to_string(),
        // The nearest match.
        "maxmemory-policy" => "allkeys-lru".to_owned(),
        "proto-max-bulk-len" => config.value_bytes_max.to_string(),
        "slowlog-log-slower-than" => slow.threshold_micros.load(Ordering::Relaxed).to_string(),
        "slowlog-max-len" => slow.entries_max.load(Ordering::Relaxed).to_string(),
        "timeout" => config.idle_timeout.map_or(0, |timeout| timeout.as_secs()).to_string(),
        "tcp-keepalive" => "0".to_owned(),
        // notify-keyspace-events and save are empty; requirepass is never disclosed.
        _ => String::new(),
    }
}

/// Changes all of the settings, or none.
fn set_all(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if !argv.len().is_multiple_of(2) {
        return Err(wrong_arity("config|set"));
    }
    for dry in [true, false] {
        for at in (2..argv.len()).step_by(2) {
            set(cx, argv.get(at), argv.get(at + 1), dry)?;
        }
    }
    cx.out.ok();
    Ok(())
}

fn set(cx: &Context<'_>, name: &[u8], value: &[u8], dry: bool) -> Outcome {
    let failed = |why: &str| {
        let name = shown(name);
        let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        Err(Refusal::Said(text))
    };
    let slow = &cx.board().slow;
    let number = number::integer(value);
    let lower = name.to_ascii_lowercase();
    let known = NAMES.into_iter().find(|known| known.as_bytes() == &*lower);
    match (known, number) {
        (Some("slowlog-log-slower-than"), Some(micros)) if micros >= -1 => {
            if !dry {
                slow.threshold_micros.store(micros, Ordering::Relaxed);
            }
            Ok(())
        }
        (Some("slowlog-max-len"), Some(entries)) if (0..=ENTRIES_MAX).contains(&entries) => {
            if !dry {
                let entries = usize::try_from(entries).unwrap_or(0);
                slow.entries_max.store(entries, Ordering::Relaxed);
            }
            Ok(())
        }
        (Some("slowlog-log-slower-than" | "slowlog-max-len"), _) => {
            failed("argument couldn't be parsed into an integer, or is out of range")
        }
        // Setting the current value is no change.
        (Some(known), _) if value_of(cx, known).as_bytes() == value => Ok(()),
        (Some(_), _) => failed("can't set immutable config"),
        (None, _) => {
            let name = shown(name);
            Err(Refusal::Said(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )))
        }
    }
}
