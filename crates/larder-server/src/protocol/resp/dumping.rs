//! `DUMP` and `RESTORE`: a value as bytes that other servers understand, and back ([`crate::dumps`]).

use larder::{Change, SetOptions};

use super::collection::{DAMAGED, bytes_max, copied};
use super::context::{Context, no_room};
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use super::{events, expiry, number};
use crate::collections::ItemKind;
use crate::dumps::{self, Longest, Wrong};

/// `DUMP`.
pub(super) async fn dump(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let copied = copied(cx, argv.get(1)).await?;
    let Some(kind) = copied.kind() else {
        cx.out.null();
        return Ok(());
    };
    // Scores are 8 bytes each both here and there; a short string has a byte more.
    let mut kept = cx.caller.keep();
    if !kept.grow(2 * copied.bytes().len()) {
        return Err(no_room(cx.caller));
    }
    let dump = dumps::dump(kind, copied.bytes()).map_err(|_| DAMAGED)?;
    cx.caller.work.does_bytes(2 * dump.len());
    cx.out.bulk(dump);
    Ok(())
}

/// The words of `RESTORE`.
#[derive(Default)]
struct Words {
    replaces: bool,
    is_absolute: bool,
}

impl Words {
    fn of(argv: Arguments<'_>) -> Result<Self, Refusal> {
        let mut words = Self::default();
        let mut at = 4;
        while at < argv.len() {
            let value = (at + 1 < argv.len()).then(|| number::integer(argv.get(at + 1)));
            match (&*argv.get(at).to_ascii_uppercase(), value) {
                (b"REPLACE", _) => words.replaces = true,
                (b"ABSTTL", _) => words.is_absolute = true,
                // How often it was asked for begins anew.
                (b"IDLETIME", Some(value)) => {
                    let text = "ERR Invalid IDLETIME value, must be >= 0";
                    value.filter(|idle| *idle >= 0).ok_or(Refusal::Says(text))?;
                    at += 1;
                }
                (b"FREQ", Some(value)) => {
                    let text = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    value.filter(|freq| (0..=255).contains(freq)).ok_or(Refusal::Says(text))?;
                    at += 1;
                }
                _ => return Err(SYNTAX),
            }
            at += 1;
        }
        Ok(words)
    }
}

/// `RESTORE`.
pub(super) async fn restore(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (key, dump) = (argv.get(1), argv.get(3));
    let words = Words::of(argv)?;
    let ttl = number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
    if ttl < 0 {
        return Err(Refusal::Says("ERR Invalid TTL value, must be >= 0"));
    }
    if !words.replaces && cx.cache(key).contains(key).await? {
        return Err(BUSY);
    }
    let longest = Longest { string: cx.value_bytes_max(), collection: bytes_max(cx) };
    let mut kept = cx.caller.keep();
    if !kept.grow(longest.memory(dump.len())) {
        return Err(no_room(cx.caller));
    }
    let longer =
        |setting, most| format!("ERR the value would be longer than {setting} ({most} bytes)");
    let (kind, value) = dumps::restore(dump, longest).map_err(|wrong| match wrong {
        Wrong::Version => Refusal::Says("ERR DUMP payload version or checksum are wrong"),
        Wrong::Format => Refusal::Says("ERR Bad data format"),
        Wrong::StringTooLong => Refusal::Said(longer("value_max", longest.string)),
        Wrong::CollectionTooLong => Refusal::Said(longer("collection_max", longest.collection)),
    })?;
    cx.caller.work.does_bytes(2 * value.len());
    let flags = match kind {
        ItemKind::Collection(kind) => kind.flags(),
        _ => 0,
    };
    let wall = cx.wall(key);
    let at = if words.is_absolute { ttl } else { expiry::millis_of(wall).saturating_add(ttl) };
    let lifetime = match ttl {
        0 => None,
        _ => match expiry::until(at, wall) {
            Some(ttl) => Some(ttl),
            None => {
                // It has expired on its way.
                cx.delete(key).await?;
                cx.out.ok();
                return Ok(());
            }
        },
    };
    cx.client.event = events::RESTORE;
    let options = SetOptions { ttl: lifetime, flags, ..SetOptions::default() };
    let mut stored = false;
    cx.change(key, |current| {
        stored = words.replaces || current.is_none();
        if stored { Change::Store((&*value).into(), options) } else { Change::Keep }
    })
    .await?;
    if !stored {
        return Err(BUSY);
    }
    cx.caller.worker.counters.cmd_set.add(1);
    cx.wakes(key);
    cx.out.ok();
    Ok(())
}

const BUSY: Refusal = Refusal::Says("BUSYKEY Target key name already exists.");
