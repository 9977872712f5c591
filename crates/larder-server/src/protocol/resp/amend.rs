//! Requests that make a new value from the existing one: counting numbers, growing strings.

use larder::Change;

use super::collection::string;
use super::command::Does;
use super::context::Context;
use super::number;
use super::parse::Arguments;
use super::write::{NO_FLOAT, NO_INTEGER, Outcome, Refusal, TOO_LONG};

const OVERFLOW: Refusal = Refusal::Says("ERR increment or decrement would overflow");

/// The new value, or why the old one stays.
type Next = Result<Vec<u8>, Refusal>;

/// Replaces the value of `key` with what `next` makes of it; `next` gets `None` if there is no value. The lifetime
/// stays.
pub(super) async fn amend(
    cx: &mut Context<'_>,
    key: &[u8],
    mut next: impl FnMut(Option<&[u8]>) -> Next,
) -> Result<bool, Refusal> {
    let mut refused = None;
    let before =
        cx.change(key, |current| match current.map(string).transpose().and_then(&mut next) {
            Ok(next) => {
                refused = None;
                Change::StoreKeepingExpiry(next.into())
            }
            Err(refusal) => {
                refused = Some(refusal);
                Change::Keep
            }
        });
    let before = before.await?;
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(before.is_some()),
    }
}

/// `INCR`, `DECR`, `INCRBY`, `DECRBY`.
pub(super) async fn count(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let delta = match does {
        Does::Incr => 1,
        Does::Decr => -1,
        Does::Incrby => number::integer(argv.get(2)).ok_or(NO_INTEGER)?,
        _ => {
            let delta = number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
            delta.checked_neg().ok_or(Refusal::Says("ERR decrement would overflow"))?
        }
    };
    let mut counted = 0;
    let hit = amend(cx, argv.get(1), |current| {
        let current = current.map_or(Some(0), number::integer).ok_or(NO_INTEGER)?;
        counted = current.checked_add(delta).ok_or(OVERFLOW)?;
        Ok(counted.to_string().into_bytes())
    });
    let hit = hit.await?;
    let counters = &cx.caller.worker.counters;
    match (does, hit) {
        (Does::Incr | Does::Incrby, true) => counters.incr_hits.add(1),
        (Does::Incr | Does::Incrby, false) => counters.incr_misses.add(1),
        (_, true) => counters.decr_hits.add(1),
        (_, false) => counters.decr_misses.add(1),
    }
    cx.out.integer(counted);
    Ok(())
}

/// `INCRBYFLOAT`.
pub(super) async fn incrbyfloat(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let delta = argv.get(2);
    number::fraction(delta).ok_or(NO_FLOAT)?;
    let mut counted = String::new();
    amend(cx, argv.get(1), |current| {
        let current = current.unwrap_or(b"0");
        number::fraction(current).ok_or(NO_FLOAT)?;
        let infinite = Refusal::Says("ERR increment would produce NaN or Infinity");
        counted = number::sum(current, delta).ok_or(infinite)?;
        Ok(counted.clone().into_bytes())
    })
    .await?;
    cx.out.bulk(&counted);
    Ok(())
}

/// `APPEND`.
pub(super) async fn append(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (tail, longest) = (argv.get(2), cx.value_bytes_max());
    let mut length = 0;
    amend(cx, argv.get(1), |current| {
        let current = current.unwrap_or_default();
        length = current.len() + tail.len();
        if length > longest { Err(TOO_LONG) } else { Ok([current, tail].concat()) }
    })
    .await?;
    cx.caller.worker.counters.cmd_set.add(1);
    cx.out.count(length);
    Ok(())
}

/// `SETRANGE`.
pub(super) async fn setrange(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (key, part, longest) = (argv.get(1), argv.get(3), cx.value_bytes_max());
    let offset = number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
    let offset =
        usize::try_from(offset).map_err(|_| Refusal::Says("ERR offset is out of range"))?;
    if part.is_empty() {
        // Nothing to write: do not create a value.
        return super::read::run(cx, super::read::ValueRead::Strlen, key).await;
    }
    let end = offset.checked_add(part.len()).filter(|end| *end <= longest).ok_or(TOO_LONG)?;
    let mut length = 0;
    amend(cx, key, |current| {
        let mut next = current.unwrap_or_default().to_vec();
        next.resize(next.len().max(end), 0);
        if let Some(place) = next.get_mut(offset..end) {
            place.copy_from_slice(part);
        }
        length = next.len();
        Ok(next)
    })
    .await?;
    cx.caller.worker.counters.cmd_set.add(1);
    cx.out.count(length);
    Ok(())
}
