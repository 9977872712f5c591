//! `CONFIG`: the settings that clients and tools ask for, under Redis' names.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::context::{Context, shown, unknown_subcommand, wrong_arity};
use super::glob;
use super::number;
use super::parse::Arguments;
use super::write::{Outcome, Refusal};
use crate::channels::OutputLimit;
use crate::config::KeyspaceEvents;
use crate::databases::DATABASES;
use crate::resp_board::ENTRIES_MAX;

/// Settings that can be read; [`set`] knows which can be changed.
const NAMES: [&str; 16] = [
    "appendonly",
    "client-output-buffer-limit",
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
    "tracking-table-max-keys",
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

/// Where other servers change the encoding of a collection. Clients may set them, without effect: there is one
/// encoding. The values are those by which `OBJECT ENCODING` answers.
const OF_ENCODINGS: [(&str, &str); 14] = [
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "512"),
    ("hash-max-ziplist-value", "64"),
    ("hll-sparse-max-bytes", "3000"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
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
                    "    For administrators: changes slowlog-log-slower-than, slowlog-max-len, notify-keyspace-events,",
                    "    tracking-table-max-keys or the class pubsub of client-output-buffer-limit until the server",
                    "    ends. Limits of encodings have no effect.",
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
    let is_asked = |name: &str| patterns.iter().any(|it| glob::matches(it, name.as_bytes()));
    let fits = |name: &str| (is_admin || OF_CLIENTS.contains(&name)) && is_asked(name);
    let found: Vec<&str> = NAMES.into_iter().filter(|name| fits(name)).collect();
    let encodings = OF_ENCODINGS.into_iter().filter(|(name, _)| is_asked(name));
    let encodings: Vec<_> = encodings.collect();
    cx.out.map(found.len() + encodings.len());
    for name in found {
        let value = value_of(cx, name);
        cx.out.bulk(name);
        cx.out.bulk(value);
    }
    for (name, value) in encodings {
        cx.out.bulk(name);
        cx.out.bulk(value);
    }
    Ok(())
}

fn value_of(cx: &Context<'_>, name: &str) -> String {
    let config = &cx.caller.worker.shared.config;
    let slow = &cx.board().slow;
    match name {
        "databases" => DATABASES.to_string(),
        "appendonly" | "latency-tracking" => "no".to_owned(),
        "client-output-buffer-limit" => {
            let OutputLimit { hard_bytes, soft_bytes, soft_time } =
                cx.caller.worker.shared.channels.limit();
            let seconds = soft_time.as_secs();
            format!("normal 0 0 0 slave 0 0 0 pubsub {hard_bytes} {soft_bytes} {seconds}")
        }
        "maxclients" => config.connections_max.to_string(),
        "maxmemory" => cx.caller.tenant.memory_limit_bytes().to_string(),
        "maxmemory-policy" => config.maxmemory_policy.name().to_owned(),
        "proto-max-bulk-len" => config.value_bytes_max.to_string(),
        "slowlog-log-slower-than" => slow.threshold_micros.load(Ordering::Relaxed).to_string(),
        "slowlog-max-len" => slow.entries_max.load(Ordering::Relaxed).to_string(),
        "timeout" => config.idle_timeout.map_or(0, |timeout| timeout.as_secs()).to_string(),
        "tcp-keepalive" => "0".to_owned(),
        "notify-keyspace-events" => cx.caller.worker.shared.keyspace.events().to_string(),
        "tracking-table-max-keys" => cx.caller.worker.shared.keyspace.keys_max().to_string(),
        // save is empty; requirepass is never disclosed.
        _ => String::new(),
    }
}

/// The limit in a text such as `pubsub 32mb 8mb 60`. Other classes have none, so theirs must be 0.
fn pubsub_limit(text: &[u8]) -> Result<OutputLimit, &'static str> {
    const FORM: &str =
        "give a class, a hard limit, a soft limit and its seconds, such as pubsub 32mb 8mb 60";
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').filter(|it| !it.is_empty()).collect();
    let mut found = None;
    for group in words.chunks(4) {
        let [class, hard, soft, seconds] = *group else { return Err(FORM) };
        let limits = (bytes(hard), bytes(soft), number::integer(seconds));
        let (Some(hard_bytes), Some(soft_bytes), Some(seconds @ 0..)) = limits else {
            return Err(FORM);
        };
        match &*class.to_ascii_lowercase() {
            b"pubsub" => {
                let soft_time = Duration::from_secs(seconds.unsigned_abs());
                found = Some(OutputLimit { hard_bytes, soft_bytes, soft_time });
            }
            b"normal" | b"slave" | b"replica" if (hard_bytes, soft_bytes) == (0, 0) => {}
            b"normal" | b"slave" | b"replica" => {
                return Err(
                    "only the class pubsub can have a limit; the others end by the memory of clients",
                );
            }
            _ => return Err(FORM),
        }
    }
    found.ok_or(FORM)
}

/// A number of bytes such as `8mb`.
fn bytes(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let unit = match &*unit.to_ascii_lowercase() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    usize::try_from(number::integer(number)?).ok()?.checked_mul(unit)
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
        Refusal::Said(text)
    };
    let slow = &cx.board().slow;
    let number = number::integer(value);
    let lower = name.to_ascii_lowercase();
    let known = NAMES.into_iter().find(|known| known.as_bytes() == &*lower);
    if OF_ENCODINGS.iter().any(|(known, _)| known.as_bytes() == &*lower) {
        let why = "argument couldn't be parsed into an integer";
        return number.map(drop).ok_or_else(|| failed(why));
    }
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
            Err(failed("argument couldn't be parsed into an integer, or is out of range"))
        }
        (Some("notify-keyspace-events"), _) => {
            let events = String::from_utf8_lossy(value).parse::<KeyspaceEvents>();
            let events = events.map_err(|why| failed(&why))?;
            if !dry {
                cx.caller.worker.shared.keyspace.set_events(events);
                cx.caller.worker.shared.listens();
            }
            Ok(())
        }
        (Some("tracking-table-max-keys"), Some(keys @ 1..)) => {
            if !dry {
                cx.caller
                    .worker
                    .shared
                    .keyspace
                    .set_keys_max(usize::try_from(keys).unwrap_or(usize::MAX));
            }
            Ok(())
        }
        (Some("client-output-buffer-limit"), _) => {
            let limit = pubsub_limit(value).map_err(failed)?;
            if !dry {
                cx.caller.worker.shared.channels.set_limit(limit);
            }
            Ok(())
        }
        // Setting the current value is no change.
        (Some(known), _) if value_of(cx, known).as_bytes() == value => Ok(()),
        (Some(_), _) => Err(failed("can't set immutable config")),
        (None, _) => {
            let name = shown(name);
            Err(Refusal::Said(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_messages() {
        let limit = |hard_bytes, soft_bytes, seconds| OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_time: Duration::from_secs(seconds),
        };
        let of = |text: &str| pubsub_limit(text.as_bytes()).ok();
        assert_eq!(of("pubsub 32mb 8mb 60"), Some(limit(32 << 20, 8 << 20, 60)));
        assert_eq!(of("normal 0 0 0 PUBSUB 1k 0 0"), Some(limit(1000, 0, 0)));
        for wrong in [
            "",
            "pubsub",
            "pubsub 1 1",
            "pubsub 1x 1 1",
            "pubsub 1 1 -1",
            "normal 1 0 0",
            "odd 0 0 0",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
