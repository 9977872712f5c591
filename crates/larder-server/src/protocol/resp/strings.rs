//! Requests that store whole values.

use std::collections::HashSet;

use larder::{Change, SetOptions};

use super::collection::{WRONG_TYPE, string};
use super::command::Does;
use super::context::{Context, gone};
use super::expiry::{self, Unit};
use super::parse::Arguments;
use super::write::{Outcome, Refusal, SYNTAX};
use crate::caller::Caller;
use crate::keyspace::SET;

/// The options of `SET`.
#[derive(Debug, Default)]
struct SetWords<'a> {
    only_if: StoreCondition<'a>,
    get: bool,
    keep_ttl: bool,
    /// In milliseconds since 1970.
    expires_at: Option<i64>,
}

/// The condition for storing a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StoreCondition<'a> {
    #[default]
    Always,
    Missing,
    There,
    /// The existing value equals this one.
    Equal(&'a [u8]),
}

impl StoreCondition<'_> {
    fn holds(self, current: Option<&[u8]>) -> bool {
        match self {
            Self::Always => true,
            Self::Missing => current.is_none(),
            Self::There => current.is_some(),
            Self::Equal(value) => current == Some(value),
        }
    }
}

impl<'a> SetWords<'a> {
    fn of(cx: &Context<'_>, argv: Arguments<'a>) -> Result<Self, Refusal> {
        let mut words = Self::default();
        let mut at = 3;
        while at < argv.len() {
            let option = argv.get(at).to_ascii_uppercase();
            let value = (at + 1 < argv.len()).then(|| argv.get(at + 1));
            let is_free = words.only_if == StoreCondition::Always;
            let has_expiry = words.expires_at.is_some() || words.keep_ttl;
            match (&*option, Unit::of_option(&option), value) {
                (b"NX", ..) if is_free => words.only_if = StoreCondition::Missing,
                (b"XX", ..) if is_free => words.only_if = StoreCondition::There,
                (b"IFEQ", _, Some(value)) if is_free => {
                    words.only_if = StoreCondition::Equal(value);
                    at += 1;
                }
                (b"GET", ..) => words.get = true,
                (b"KEEPTTL", ..) if !has_expiry => words.keep_ttl = true,
                (_, Some(unit), Some(value)) if !has_expiry => {
                    words.expires_at = Some(unit.at_later(value, cx.wall(argv.get(1)), "set")?);
                    at += 1;
                }
                _ => return Err(SYNTAX),
            }
            at += 1;
        }
        Ok(words)
    }
}

/// `SET` without options, if it needs no wait. Returns whether it is answered; if not, nothing has changed.
pub(super) fn set_at_once(caller: &Caller, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let keyspace = &caller.worker.shared.keyspace;
    if keyspace.wants_new() {
        return false; // whether it is new is not known here
    }
    let stored = caller.cache_for(key).set_at_once(key, value, SetOptions::default());
    let is_stored = matches!(stored, Ok(true));
    if is_stored {
        caller.work.does_bytes(value.len());
        caller.worker.counters.cmd_set.add(1);
        caller.has_changed(key, &[SET]);
        // The same in both versions of the protocol.
        out.extend_from_slice(b"+OK\r\n");
    }
    is_stored
}

/// `SET`.
pub(super) async fn set(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (key, value) = (argv.get(1), argv.get(2));
    if argv.len() == 3 {
        cx.store(key, value, SetOptions::default()).await?;
        cx.out.ok();
        return Ok(());
    }
    let words = SetWords::of(cx, argv)?;
    if words.only_if == StoreCondition::Always && !words.get && !words.keep_ttl {
        store_until(cx, key, value, words.expires_at).await?;
        cx.out.ok();
        return Ok(());
    }
    let wall = cx.wall(key);
    let mut stored = false;
    let now = cx.cache(key).moment(key).now();
    let needs_string = words.get || matches!(words.only_if, StoreCondition::Equal(_));
    let mut is_wrong = false;
    let before = cx.change(key, |current| {
        is_wrong = needs_string && current.is_some_and(|value| string(value).is_err());
        stored = !is_wrong && words.only_if.holds(current.map(|value| &**value));
        match words.expires_at {
            _ if !stored => Change::Keep,
            None if words.keep_ttl => kept_until(value, current, now),
            None => Change::Store(value.into(), SetOptions::default()),
            Some(at) => stored_until(value, at, wall),
        }
    });
    let before = before.await?;
    if is_wrong {
        return Err(WRONG_TYPE);
    }
    if stored {
        cx.caller.worker.counters.cmd_set.add(1);
    }
    match before {
        Some(before) if words.get => cx.out.bulk(&*before),
        None if words.get => cx.out.null(),
        _ if stored => cx.out.ok(),
        _ => cx.out.null(),
    }
    Ok(())
}

/// `SETEX`, `PSETEX`.
pub(super) async fn setex(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let (unit, name) = match does {
        Does::Setex => (expiry::EX, "setex"),
        _ => (expiry::PX, "psetex"),
    };
    let key = argv.get(1);
    let at = unit.at_later(argv.get(2), cx.wall(key), name)?;
    store_until(cx, key, argv.get(3), Some(at)).await?;
    cx.out.ok();
    Ok(())
}

/// Stores a value that expires at `at`, if given.
async fn store_until(
    cx: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    at: Option<i64>,
) -> Result<(), Refusal> {
    let Some(at) = at else { return cx.store(key, value, SetOptions::default()).await };
    match expiry::until(at, cx.wall(key)) {
        Some(ttl) => {
            cx.store(key, value, SetOptions { ttl: Some(ttl), ..SetOptions::default() }).await
        }
        None => cx.delete(key).await.map(|_| ()),
    }
}

fn stored_until(value: &[u8], at: i64, wall: std::time::Duration) -> Change<'_> {
    match expiry::until(at, wall) {
        Some(ttl) => {
            Change::Store(value.into(), SetOptions { ttl: Some(ttl), ..SetOptions::default() })
        }
        None => gone(),
    }
}

/// A string with the lifetime of the value that it replaces, which may be a collection.
fn kept_until<'v>(
    value: &'v [u8],
    current: Option<&larder::Value>,
    now: std::time::Duration,
) -> Change<'v> {
    match current {
        Some(current) if string(current).is_err() => {
            let ttl = current.meta().remaining(now);
            Change::Store(value.into(), SetOptions { ttl, ..SetOptions::default() })
        }
        _ => Change::StoreKeepingExpiry(value.into()),
    }
}

/// `SETNX`.
pub(super) async fn setnx(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let stored = add(cx, argv.get(1), argv.get(2)).await?;
    cx.out.integer(i64::from(stored));
    Ok(())
}

async fn add(cx: &mut Context<'_>, key: &[u8], value: &[u8]) -> Result<bool, Refusal> {
    let before = cx.change(key, |current| match current {
        None => Change::Store(value.into(), SetOptions::default()),
        Some(_) => Change::Keep,
    });
    let stored = before.await?.is_none();
    if stored {
        cx.caller.worker.counters.cmd_set.add(1);
    }
    Ok(stored)
}

/// `GETSET`, `GETDEL`.
pub(super) async fn exchange(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let key = argv.get(1);
    let before = cx.change(key, |current| match (does, current) {
        (_, Some(value)) if string(value).is_err() => Change::Keep,
        (Does::Getset, _) => Change::Store(argv.get(2).into(), SetOptions::default()),
        (_, Some(_)) => gone(),
        (_, None) => Change::Keep,
    });
    let before = before.await?;
    cx.caller.worker.counters.count_get(before.is_some());
    match before {
        Some(before) => cx.out.bulk(string(&before)?),
        None => cx.out.null(),
    }
    Ok(())
}

/// `GETEX`.
pub(super) async fn getex(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let key = argv.get(1);
    let wall = cx.wall(key);
    let option = argv.get(2).to_ascii_uppercase();
    let touch = match (argv.len(), Unit::of_option(&option)) {
        (2, _) => Change::Keep,
        (3, _) if *option == *b"PERSIST" => Change::Touch(None),
        (4, Some(unit)) => {
            let at = unit.at_later(argv.get(3), wall, "getex")?;
            expiry::until(at, wall).map_or_else(gone, |ttl| Change::Touch(Some(ttl)))
        }
        _ => return Err(SYNTAX),
    };
    if touch == Change::Keep {
        return super::read::run(cx, super::read::ValueRead::Get, key).await;
    }
    let change = |current: Option<&larder::Value>| match current {
        Some(value) if string(value).is_ok() => touch.clone(),
        _ => Change::Keep,
    };
    let before = cx.change(key, change).await?;
    cx.caller.worker.counters.count_get(before.is_some());
    match before {
        Some(before) => cx.out.bulk(string(&before)?),
        None => cx.out.null(),
    }
    Ok(())
}

/// `MSET`.
pub(super) async fn mset(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if argv.len().is_multiple_of(2) {
        return Err(super::context::wrong_arity("mset"));
    }
    for at in (1..argv.len()).step_by(2) {
        cx.store(argv.get(at), argv.get(at + 1), SetOptions::default()).await?;
        cx.rests_behind(argv.get(at)).await;
    }
    cx.out.ok();
    Ok(())
}

/// `MSETNX`: stores nothing over an existing value. The caller holds the turn of the tenant, so that two of them do not
/// mix.
pub(super) async fn msetnx(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if argv.len().is_multiple_of(2) {
        return Err(super::context::wrong_arity("msetnx"));
    }
    let keys = || (1..argv.len()).step_by(2);
    for at in keys() {
        let key = argv.get(at);
        if cx.cache(key).contains(key).await? {
            cx.out.integer(0);
            return Ok(());
        }
        cx.rests_behind(key).await;
    }
    let mut stored_here = HashSet::new();
    for at in keys() {
        let key = argv.get(at);
        cx.rests_behind(key).await;
        let stored = if !stored_here.insert(key) {
            cx.store(key, argv.get(at + 1), SetOptions::default()).await.map(|()| true)
        } else {
            add(cx, key, argv.get(at + 1)).await
        };
        if !matches!(stored, Ok(true)) {
            // Another client was faster: delete what was stored.
            for earlier in keys().take_while(|earlier| *earlier < at) {
                cx.delete(argv.get(earlier)).await?;
                cx.rests_behind(argv.get(earlier)).await;
            }
            stored?;
            cx.out.integer(0);
            return Ok(());
        }
    }
    cx.out.integer(1);
    Ok(())
}
