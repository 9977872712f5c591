//! Transactions: queued requests that run together if the watched keys have not changed.
//!
//! Guarantees:
//! - `EXEC`, `RENAME`, `RENAMENX`, `COPY` and `MSETNX` that name keys of the same tenant run one after the other,
//!   whichever connections and workers they come from, even if they also name keys of other tenants.
//! - To others a transaction is one step: single requests for its keys wait until it has ended. Requests for other keys
//!   go on ([`crate::steps`]).
//! - A transaction does not begin if a watched key has another version or another lifetime than when it was watched. If
//!   the first request that changes something has one key, and that key is watched, the change checks the key again in
//!   the same atomic step. So watching a key, reading it and setting it in a transaction loses no update, even if other
//!   clients set the key without a transaction.
//! - A value that went to flash and came back has another version, and counts as changed.

use std::sync::atomic::Ordering;

use super::command::Command;
use super::context::{Context, no_room};
use super::parse::{Arguments, OwnedArguments};
use super::queue::{Transaction, WatchedKeys};
use super::turns::{self, Turns};
use super::write::{Outcome, Refusal};

/// `MULTI`.
pub(super) fn multi(cx: &mut Context<'_>) -> Outcome {
    cx.client.transaction = Some(Box::new(Transaction::new(cx.caller.keep())));
    note_queued(cx);
    cx.out.ok();
    Ok(())
}

/// Keeps a request for EXEC.
pub(super) fn queue(
    cx: &mut Context<'_>,
    command: (usize, &'static Command),
    argv: Arguments<'_>,
) -> Outcome {
    let request = argv.to_owned();
    let bytes = request.bytes() + size_of::<(usize, &Command, OwnedArguments)>();
    let Some(transaction) = &mut cx.client.transaction else { return Ok(()) };
    if !transaction.kept.grow(2 * bytes) {
        transaction.is_spoilt = true;
        return Err(no_room(cx.caller));
    }
    transaction.requests.push((command.0, command.1, request));
    note_queued(cx);
    cx.out.simple("QUEUED");
    Ok(())
}

fn note_queued(cx: &Context<'_>) {
    let queued = cx.client.transaction.as_ref().map(|transaction| transaction.requests.len());
    if let Some(listed) = &cx.client.listed {
        let queued = queued.map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX));
        listed.queued.store(queued, Ordering::Relaxed);
    }
}

/// `DISCARD`.
pub(super) fn discard(cx: &mut Context<'_>) -> Outcome {
    if cx.client.transaction.take().is_none() {
        return Err(Refusal::Says("ERR DISCARD without MULTI"));
    }
    cx.client.watched = WatchedKeys::default();
    note_queued(cx);
    cx.out.ok();
    Ok(())
}

/// `WATCH`.
pub(super) async fn watch(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    for key in argv.from(1) {
        if cx.client.watched.has(key) {
            continue;
        }
        let Context { caller, client, .. } = cx;
        if !client.watched.has_room_for(key.len(), || caller.keep()) {
            return Err(no_room(caller));
        }
        let current = cx.cache(key).get_with(key, |_, meta| meta).await?;
        cx.client.watched.add(key, current);
        cx.rests_behind(key).await;
    }
    cx.out.ok();
    Ok(())
}

/// `UNWATCH`.
pub(super) fn unwatch(cx: &mut Context<'_>) {
    cx.client.watched = WatchedKeys::default();
    cx.out.ok();
}

/// The requests of a transaction that may run now.
pub(super) struct ReadyTransaction {
    pub(super) requests: Vec<(usize, &'static Command, OwnedArguments)>,
    /// Held until they have run.
    _turns: Turns,
}

/// Begins what `EXEC` runs. `None` if a watched key has changed, which is answered.
pub(super) async fn begin(cx: &mut Context<'_>) -> Result<Option<ReadyTransaction>, Refusal> {
    let Some(mut transaction) = cx.client.transaction.take() else {
        return Err(Refusal::Says("ERR EXEC without MULTI"));
    };
    note_queued(cx);
    let watched = std::mem::take(&mut cx.client.watched);
    if transaction.is_spoilt {
        return Err(Refusal::Says("EXECABORT Transaction discarded because of previous errors."));
    }
    let requests = &transaction.requests;
    let of_requests =
        requests.iter().flat_map(|(_, command, argv)| command.keys_of(argv.as_arguments()));
    let of_requests = of_requests.map(|key| cx.name_of(key));
    let names: Vec<Vec<u8>> = of_requests.chain(watched.keys().map(<[u8]>::to_vec)).collect();
    let turns = turns::take(cx.caller, || names.iter().map(|name| &name[..])).await;
    for key in watched.keys() {
        let current = cx.cache(key).get_with(key, |_, meta| meta).await?;
        if !watched.is_still(key, current) {
            cx.out.null_array();
            return Ok(None);
        }
        cx.rests_behind(key).await;
    }
    cx.client.guarded = watched;
    Ok(Some(ReadyTransaction {
        requests: std::mem::take(&mut transaction.requests),
        _turns: turns,
    }))
}
