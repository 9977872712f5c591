//! Requests about keys: deleting, renaming, copying, and information about a key.

use larder::{Change, SetOptions, Value};

use super::collection::{DAMAGED, is_string};
use super::command::Does;
use super::context::{Context, gone, unknown_subcommand, wrong_arity};
use super::events;
use super::expiry;
use super::key_names;
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, NO_SUCH_KEY, Outcome, Refusal, SYNTAX};
use crate::collections::{self, ItemKind};

/// Longest string that we report as embedded next to its key.
const EMBEDDED_BYTES_MAX: usize = 44;
/// About how many bytes the index and the record header take for an item.
const ITEM_BYTES: usize = 24;

/// `DEL`, `UNLINK`.
pub(super) async fn del(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut removed = 0;
    for key in argv.from(1) {
        removed += usize::from(cx.delete(key).await?);
        cx.rests_behind(key).await;
    }
    cx.out.count(removed);
    Ok(())
}

/// `RENAME`, `RENAMENX`. The caller holds the turns of the tenants.
pub(super) async fn rename(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let (from, to) = (argv.get(1), argv.get(2));
    cx.client.event = events::RENAME_TO;
    let is_polite = does == Does::Renamenx;
    let value = cx.cache(from).get(from).await?.ok_or(NO_SUCH_KEY)?;
    if from == to {
        match is_polite {
            true => cx.out.integer(0),
            false => cx.out.ok(),
        }
        return Ok(());
    }
    if !put(cx, (from, to), &value, !is_polite).await? {
        cx.out.integer(0);
        return Ok(());
    }
    // If another client has replaced the value in between, keep the new one.
    let version = value.version();
    drop(value);
    cx.client.event = events::RENAME_FROM;
    cx.change(from, |current| match current {
        Some(current) if current.version() == version || version == 0 => gone(),
        _ => Change::Keep,
    })
    .await?;
    match is_polite {
        true => cx.out.integer(1),
        false => cx.out.ok(),
    }
    Ok(())
}

/// `COPY`. The caller holds the turns of the tenants.
pub(super) async fn copy(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (from, mut to) = (argv.get(1), argv.get(2));
    cx.client.event = events::COPY_TO;
    let (mut replaces, mut target) = (false, None);
    let mut at = 3;
    while at < argv.len() {
        match &*argv.get(at).to_ascii_uppercase() {
            b"REPLACE" => replaces = true,
            b"DB" if at + 1 < argv.len() => {
                target = Some(key_names::database(argv.get(at + 1), NO_INTEGER)?);
                at += 1;
            }
            _ => return Err(SYNTAX),
        }
        at += 1;
    }
    let in_target = target.map(|target| key_names::name_in(cx, target, to));
    if let Some(name) = &in_target {
        to = name;
    }
    if from == to {
        return Err(key_names::SAME);
    }
    let copied = match cx.cache(from).get(from).await? {
        Some(value) => put(cx, (from, to), &value, replaces).await?,
        None => false,
    };
    cx.out.integer(i64::from(copied));
    Ok(())
}

/// Stores the value, with its flags and its lifetime, under another key.
pub(super) async fn put(
    cx: &mut Context<'_>,
    (from, key): (&[u8], &[u8]),
    value: &Value,
    replaces: bool,
) -> Result<bool, Refusal> {
    let meta = value.meta();
    let now = cx.cache(from).moment(from).now();
    let ttl = match meta.expires_at {
        None => None,
        Some(end) => match expiry::until(expiry::millis_of(end), now) {
            Some(ttl) => Some(ttl),
            // It has just expired, so the copy has too.
            None => return Ok(false),
        },
    };
    let options = SetOptions { ttl, flags: meta.flags, ..SetOptions::default() };
    let mut stored = false;
    cx.change(key, |current| {
        stored = replaces || current.is_none();
        if stored { Change::Store((&**value).into(), options) } else { Change::Keep }
    })
    .await?;
    if stored && !is_string(meta.flags) {
        cx.wakes(key);
    }
    Ok(stored)
}

/// `OBJECT`.
pub(super) async fn object(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"HELP", 2) => {
            cx.help(
                "OBJECT",
                &[
                    "ENCODING <key>",
                    "    How a value of this kind lies in memory elsewhere: int, embstr, raw, listpack, ...",
                    "FREQ <key>",
                    "    Refused: how often a key was asked for is not kept.",
                    "IDLETIME <key>",
                    "    Seconds since the key was asked for, if that is kept.",
                    "REFCOUNT <key>",
                    "    1: values are not shared.",
                ],
            );
            return Ok(());
        }
        (b"ENCODING" | b"FREQ" | b"IDLETIME" | b"REFCOUNT", 3) => {}
        (b"ENCODING" | b"FREQ" | b"IDLETIME" | b"REFCOUNT", _) => {
            let name = format!("object|{}", String::from_utf8_lossy(&sub).to_lowercase());
            return Err(wrong_arity(&name));
        }
        _ => return Err(unknown_subcommand("OBJECT", argv.get(1))),
    }
    let key = argv.get(2);
    let cache = cx.cache(key);
    let now = cache.moment(key).now();
    let found =
        cache.get_with(key, |value, meta| (encoding(value, meta.flags), meta.since_access(now)));
    let (encoding, idle) = match found.await? {
        Some(found) => found,
        None => {
            cx.out.null();
            return Ok(());
        }
    };
    match (&*sub, idle) {
        (b"ENCODING", _) => cx.out.bulk(encoding?),
        (b"REFCOUNT", _) => cx.out.integer(1),
        (b"IDLETIME", Some(idle)) => {
            cx.out.integer(i64::try_from(idle.as_secs()).unwrap_or(i64::MAX));
        }
        (b"IDLETIME", None) => {
            return Err(Refusal::Says("ERR idle time is not tracked: access times are not kept"));
        }
        _ => {
            return Err(Refusal::Says(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked.",
            ));
        }
    }
    Ok(())
}

fn encoding(value: &[u8], flags: u32) -> Result<&'static str, Refusal> {
    match ItemKind::of(flags) {
        ItemKind::Collection(kind) => return Ok(collections::encoding(kind, value)?),
        ItemKind::Unknown => return Err(DAMAGED),
        ItemKind::String => {}
    }
    Ok(match value.len() {
        _ if number::integer(value).is_some() => "int",
        0..=EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    })
}

/// `MEMORY`.
pub(super) async fn memory(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let sub = argv.get(1).to_ascii_uppercase();
    match (&*sub, argv.len()) {
        (b"USAGE", 3) => {}
        (b"USAGE", 5) if argv.get(3).eq_ignore_ascii_case(b"samples") => {
            number::integer(argv.get(4)).filter(|samples| *samples >= 0).ok_or(NO_INTEGER)?;
        }
        (b"USAGE", _) => return Err(SYNTAX),
        (b"DOCTOR", 2) => {
            cx.out.verbatim("The cache keeps to its budget of memory by itself.\n");
            return Ok(());
        }
        (b"PURGE", 2) => {
            cx.out.ok();
            return Ok(());
        }
        (b"HELP", 2) => {
            cx.help(
                "MEMORY",
                &[
                    "DOCTOR",
                    "    What is wrong with the use of memory: nothing that an operator could mend.",
                    "PURGE",
                    "    Does nothing: memory that is free is used for values.",
                    "USAGE <key> [SAMPLES <count>]",
                    "    Bytes that an item takes in memory, about.",
                ],
            );
            return Ok(());
        }
        _ => return Err(unknown_subcommand("MEMORY", argv.get(1))),
    }
    let key = argv.get(2);
    match cx.cache(key).get_with(key, |value, _| value.len()).await? {
        Some(length) => cx.out.count(length + key.len() + ITEM_BYTES),
        None => cx.out.null(),
    }
    Ok(())
}

/// A flush begins, if the request is right. `ASYNC` and `SYNC` make no difference.
pub(super) fn begin_flush(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let option = argv.get(1).to_ascii_uppercase();
    if argv.len() > 2 || argv.len() == 2 && !matches!(&*option, b"ASYNC" | b"SYNC") {
        return Err(SYNTAX);
    }
    cx.client.guarded = super::queue::WatchedKeys::default();
    cx.caller.worker.counters.cmd_flush.add(1);
    Ok(())
}

/// `FLUSHALL`, and `FLUSHDB` of the only database in use.
pub(super) async fn flush(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    begin_flush(cx, argv)?;
    cx.caller.worker.shared.clear(&cx.caller.tenant).await?;
    cx.out.ok();
    Ok(())
}
