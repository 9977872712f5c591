//! Requests that wait until a list or a sorted set has something to take: `BLPOP` and its kin.
//!
//! A client that waits has no request that runs: the connection is idle, and its next requests are not begun. It is
//! woken by a change ([`crate::waiters`]), by its timeout, or by `CLIENT UNBLOCK`. Each attempt holds the turns of the
//! tenants of its keys, so it sees a transaction as a whole.

use std::sync::Arc;
use std::time::Duration;

use larder_device::Clock;

use super::client::{Client, Replies};
use super::collection::{is_wrong_type, read};
use super::command::{Command, Does};
use super::context::{Context, no_room};
use super::lists::{self, Side};
use super::number;
use super::parse::Arguments;
use super::sorted_sets::{self, End};
use super::turns;
use super::waiting::Waiting;
use super::write::{Outcome, Refusal, Writer};
use crate::answers::Answers;
use crate::caller::Caller;
use crate::collections::List;
use crate::waiters::{Place, Unblock};

/// About how many bytes a waiting client takes, and each of its keys beside two copies of its name.
const WAITING_BYTES: usize = 512;
const KEY_BYTES: usize = 128;

/// Why a request tries to take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Asked,
    Woken,
}

/// Whether a request has what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Answered,
    Nothing,
}

/// Runs a request that may wait. `has_turn`: within a transaction, where it does not wait.
pub(super) async fn run(
    cx: &mut Context<'_>,
    command: &'static Command,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let timeout = timeout(argv, command.does)?;
    if has_turn {
        if attempt(cx, command.does, argv, Manner::Asked).await? == Attempt::Nothing {
            nothing(command.does, true, &mut cx.out);
        }
        return Ok(());
    }
    if attempt_in_turn(cx, command, argv, Manner::Asked).await? == Attempt::Answered {
        return Ok(());
    }
    let mut kept = cx.caller.keep();
    let keys = command.keys_of(argv).map(|key| (cx.caller.tenant_of(key).number, key.into()));
    let keys: Vec<(usize, Box<[u8]>)> = keys.collect();
    let of_keys: usize = keys.iter().map(|(_, key)| 2 * key.len() + KEY_BYTES).sum();
    let request = argv.to_owned();
    if !kept.grow(request.bytes() + of_keys + WAITING_BYTES) {
        return Err(no_room(cx.caller));
    }
    let place = Place::new(&cx.caller.worker.shared.waiters, keys);
    // What came between the first attempt and now woke no one.
    if attempt_in_turn(cx, command, argv, Manner::Asked).await? == Attempt::Answered {
        return Ok(());
    }
    let clock = &cx.caller.worker.clock;
    let until = timeout.map(|timeout| clock.monotonic() + timeout);
    let timer = until.map(|until| clock.sleep_until(until));
    if let Some(listed) = &cx.client.listed {
        listed.waits(Some(place.waiter()));
    }
    let is_muted = cx.client.replies != Replies::On;
    let waiting = Waiting { command, request, place, until, timer, is_muted, _kept: kept };
    cx.client.waiting = Some(Box::new(waiting));
    Ok(())
}

/// The time that a request may wait; `None`: for ever.
fn timeout(argv: Arguments<'_>, does: Does) -> Result<Option<Duration>, Refusal> {
    let at = match does {
        Does::Blmpop | Does::Bzmpop => 1,
        _ => argv.len() - 1,
    };
    let wrong = Refusal::Says("ERR timeout is not a float or out of range");
    let seconds = number::fraction(argv.get(at)).ok_or(wrong)?;
    if seconds < 0.0 {
        return Err(Refusal::Says("ERR timeout is negative"));
    }
    let too_long = Refusal::Says("ERR timeout is out of range");
    if seconds > i64::MAX as f64 / 1000.0 {
        return Err(too_long);
    }
    let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| too_long)?;
    // A time that is too short for the clock is not for ever.
    Ok((seconds > 0.0).then_some(timeout.max(Duration::from_millis(1))))
}

async fn attempt_in_turn(
    cx: &mut Context<'_>,
    command: &Command,
    argv: Arguments<'_>,
    manner: Manner,
) -> Result<Attempt, Refusal> {
    let _turns = turns::take(cx.caller, || command.keys_of(argv)).await;
    attempt(cx, command.does, argv, manner).await
}

/// A key that has another kind of value has nothing for a client that waits already.
fn tolerated<T: Default>(taken: Result<T, Refusal>, manner: Manner) -> Result<T, Refusal> {
    match taken {
        Err(refusal) if manner == Manner::Woken && is_wrong_type(&refusal) => Ok(T::default()),
        taken => taken,
    }
}

/// Takes what the request asks for, if there is something, and answers. The caller holds the turns of the tenants.
async fn attempt(
    cx: &mut Context<'_>,
    does: Does,
    argv: Arguments<'_>,
    manner: Manner,
) -> Result<Attempt, Refusal> {
    let keys = || (1..argv.len() - 1).map(|at| argv.get(at));
    match does {
        Does::Blpop => from_lists(cx, keys(), (Side::Head, None), manner).await,
        Does::Brpop => from_lists(cx, keys(), (Side::Tail, None), manner).await,
        Does::Blmpop => {
            let (keys, (side, count)) = lists::pop_words(argv, 2)?;
            from_lists(cx, keys.map(|at| argv.get(at)), (side, Some(count)), manner).await
        }
        Does::Bzpopmin => from_sets(cx, keys(), (End::Lowest, None), manner).await,
        Does::Bzpopmax => from_sets(cx, keys(), (End::Highest, None), manner).await,
        Does::Bzmpop => {
            let (keys, (end, count)) = sorted_sets::pop_words(argv, 2)?;
            from_sets(cx, keys.map(|at| argv.get(at)), (end, Some(count)), manner).await
        }
        _ => {
            let sides = match does {
                Does::Brpoplpush => (Side::Tail, Side::Head),
                _ => (Side::of(argv.get(3))?, Side::of(argv.get(4))?),
            };
            // The wrong kind of a target is an error, that of a source is nothing to take.
            let source = read::<List, _>(cx, argv.get(1), |list, _| list.len()).await;
            if tolerated(source, manner)? == 0 {
                return Ok(Attempt::Nothing);
            }
            let moved = lists::transfer(cx, (argv.get(1), argv.get(2)), sides).await?;
            let is_moved = moved.is_some();
            if is_moved {
                lists::told(moved, &mut cx.out);
            }
            Ok(if is_moved { Attempt::Answered } else { Attempt::Nothing })
        }
    }
}

async fn from_lists<'k>(
    cx: &mut Context<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    (side, count): (Side, Option<usize>),
    manner: Manner,
) -> Result<Attempt, Refusal> {
    for key in keys {
        let taken = lists::take(cx, key, (side, count.unwrap_or(1))).await;
        if let Some(elements) = tolerated(taken, manner)? {
            match (count, elements.first()) {
                (None, Some(element)) => {
                    cx.out.array(2);
                    cx.tells_key(key);
                    cx.out.bulk(element);
                }
                _ => lists::tell_popped(key, &elements, &mut cx.out),
            }
            return Ok(Attempt::Answered);
        }
        cx.rests_behind(key).await;
    }
    Ok(Attempt::Nothing)
}

async fn from_sets<'k>(
    cx: &mut Context<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    (end, count): (End, Option<usize>),
    manner: Manner,
) -> Result<Attempt, Refusal> {
    for key in keys {
        let popped = sorted_sets::take(cx, key, (end, count.unwrap_or(1))).await;
        let popped = tolerated(popped, manner)?;
        match (count, popped.first()) {
            (_, None) => {}
            (None, Some((member, score))) => {
                cx.out.array(3);
                cx.tells_key(key);
                cx.out.bulk(member);
                cx.out.double(*score);
                return Ok(Attempt::Answered);
            }
            (Some(_), Some(_)) => {
                sorted_sets::tell_popped(key, popped, &mut cx.out);
                return Ok(Attempt::Answered);
            }
        }
        cx.rests_behind(key).await;
    }
    Ok(Attempt::Nothing)
}

/// The answer when there was nothing to take.
fn nothing(does: Does, is_transaction: bool, out: &mut Writer<'_>) {
    match does {
        Does::Blmove | Does::Brpoplpush if is_transaction => out.null(),
        _ => out.null_array(),
    }
}

/// Continues the request that waits, if it is due: answers it, or lets it wait on.
pub(super) async fn go_on(client: &mut Client, caller: &mut Caller, answers: &mut Answers<'_>) {
    let clock = Arc::clone(&caller.worker.clock);
    let due = client.waiting.take_if(|waiting| waiting.is_due(&*clock));
    let Some(waiting) = due else { return };
    let is_over = waiting.until.is_some_and(|until| clock.monotonic() >= until);
    let told = waiting.place.tries();
    let mut muted = Vec::new();
    let bytes = if waiting.is_muted { &mut muted } else { answers.bytes() };
    let out = Writer::new(bytes, client.is_resp3);
    let mut cx = Context { caller, client, out };
    let does = waiting.command.does;
    match told {
        Some(Unblock::Failed) => {
            cx.out.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        }
        Some(Unblock::TimedOut) => nothing(does, false, &mut cx.out),
        None => {
            let begin = cx.out.len();
            let argv = waiting.request.as_arguments();
            match attempt_in_turn(&mut cx, waiting.command, argv, Manner::Woken).await {
                Ok(Attempt::Answered) => {}
                Ok(Attempt::Nothing) if !is_over => return waits_on(client, waiting),
                Ok(Attempt::Nothing) => nothing(does, false, &mut cx.out),
                Err(refusal) => {
                    cx.out.back_to(begin);
                    cx.out.refusal(&refusal);
                }
            }
        }
    }
    client.changed = None;
    if let Some(listed) = &client.listed {
        listed.waits(None);
    }
}

fn waits_on(client: &mut Client, waiting: Box<Waiting>) {
    waiting.place.passes_on();
    client.waiting = Some(waiting);
}
