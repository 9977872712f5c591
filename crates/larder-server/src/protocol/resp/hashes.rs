//! Commands of hashes.

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, copied, read, steps};
use super::command::Does;
use super::context::{Context, wrong_arity};
use super::parse::Arguments;
use super::random::{self, Wanted};
use super::walk;
use super::write::{NO_FLOAT, NO_INTEGER, Outcome, Refusal, SYNTAX};
use super::{field_lifetimes, number};
use crate::collections::{Hash, HashView};

/// Runs a command of hashes.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Hset | Does::Hmset => set(cx, argv, does).await,
        Does::Hsetnx => set_new(cx, argv).await,
        Does::Hget => {
            read::<Hash, _>(cx, argv.get(1), |hash, out| match hash.get(argv.get(2)) {
                Some(value) => out.bulk(value),
                None => out.null(),
            })
            .await
        }
        Does::Hmget => values_of(cx, argv).await,
        Does::Hgetall | Does::Hkeys | Does::Hvals => all(cx, argv.get(1), does).await,
        Does::Hdel => delete(cx, argv).await,
        Does::Hlen => read::<Hash, _>(cx, argv.get(1), |hash, out| out.count(hash.len())).await,
        Does::Hexists => {
            read::<Hash, _>(cx, argv.get(1), |hash, out| {
                out.integer(i64::from(hash.get(argv.get(2)).is_some()));
            })
            .await
        }
        Does::Hstrlen => {
            read::<Hash, _>(cx, argv.get(1), |hash, out| {
                out.count(hash.get(argv.get(2)).map_or(0, <[u8]>::len));
            })
            .await
        }
        Does::Hincrby => count(cx, argv).await,
        Does::Hincrbyfloat => count_fraction(cx, argv).await,
        Does::Hrandfield => random_fields(cx, argv).await,
        Does::Hscan => walk::hscan(cx, argv).await,
        _ => field_lifetimes::run(cx, does, argv).await,
    }
}

/// `HSET`, `HMSET`.
async fn set(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    if !argv.len().is_multiple_of(2) {
        return Err(wrong_arity(if does == Does::Hset { "hset" } else { "hmset" }));
    }
    let mut added = 0;
    for step in steps(argv, 2, 2) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let pairs = step.step_by(2).map(|at| (argv.get(at), Some(argv.get(at + 1))));
        let pairs: Vec<_> = pairs.collect();
        added += amend::<Hash, _>(cx, argv.get(1), |hash| {
            let next = hash.with(&pairs);
            let added = next.members() - hash.len();
            Ok((Edit::Store(next), added))
        })
        .await?;
        cx.caller.rests().await;
    }
    match does {
        Does::Hset => cx.out.count(added),
        _ => cx.out.ok(),
    }
    Ok(())
}

/// `HSETNX`.
async fn set_new(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (field, value) = (argv.get(2), argv.get(3));
    let is_new = amend::<Hash, _>(cx, argv.get(1), |hash| {
        Ok(match hash.get(field) {
            Some(_) => (Edit::Keep, false),
            None => (Edit::Store(hash.with(&[(field, Some(value))])), true),
        })
    });
    let is_new = is_new.await?;
    cx.out.integer(i64::from(is_new));
    Ok(())
}

/// `HMGET`.
async fn values_of(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    cx.out.array(argv.len() - 2);
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        read::<Hash, _>(cx, argv.get(1), |hash, out| {
            for at in step {
                match hash.get(argv.get(at)) {
                    Some(value) => out.bulk(value),
                    None => out.null(),
                }
            }
        })
        .await?;
        cx.caller.rests().await;
    }
    Ok(())
}

/// `HGETALL`, `HKEYS`, `HVALS`.
async fn all(cx: &mut Context<'_>, key: &[u8], does: Does) -> Outcome {
    read::<Hash, _>(cx, key, |hash, out| {
        match does {
            Does::Hgetall => out.map(hash.len()),
            _ => out.array(hash.len()),
        }
        for (field, value) in hash.iter() {
            if does != Does::Hvals {
                out.bulk(field);
            }
            if does != Does::Hkeys {
                out.bulk(value);
            }
        }
    })
    .await
}

/// `HDEL`.
async fn delete(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut removed = 0;
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let fields: Vec<_> = step.map(|at| (argv.get(at), None)).collect();
        removed += amend::<Hash, _>(cx, argv.get(1), |hash| {
            if fields.iter().all(|(field, _)| hash.get(field).is_none()) {
                return Ok((Edit::Keep, 0));
            }
            let next = hash.with(&fields);
            let removed = hash.len() - next.members();
            Ok((Edit::Store(next), removed))
        })
        .await?;
        cx.caller.rests().await;
    }
    cx.out.count(removed);
    Ok(())
}

/// `HINCRBY`.
async fn count(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let field = argv.get(2);
    let delta = number::integer(argv.get(3)).ok_or(NO_INTEGER)?;
    let counted = amend::<Hash, _>(cx, argv.get(1), |hash| {
        let current = hash.get(field).map_or(Some(0), number::integer);
        let current = current.ok_or(Refusal::Says("ERR hash value is not an integer"))?;
        let overflow = Refusal::Says("ERR increment or decrement would overflow");
        let counted = current.checked_add(delta).ok_or(overflow)?;
        Ok((Edit::Store(with(hash, field, counted.to_string().as_bytes())), counted))
    });
    let counted = counted.await?;
    cx.out.integer(counted);
    Ok(())
}

/// `HINCRBYFLOAT`.
async fn count_fraction(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (field, delta) = (argv.get(2), argv.get(3));
    let infinite = || Refusal::Says("ERR value is NaN or Infinity");
    if number::fraction(delta).ok_or(NO_FLOAT)?.is_infinite() {
        return Err(infinite());
    }
    let counted = amend::<Hash, _>(cx, argv.get(1), |hash| {
        let current = hash.get(field).unwrap_or(b"0");
        number::fraction(current).ok_or(Refusal::Says("ERR hash value is not a float"))?;
        let refusal = Refusal::Says("ERR increment would produce NaN or Infinity");
        let counted = number::sum(current, delta).ok_or(refusal)?;
        Ok((Edit::Store(with(hash, field, counted.as_bytes())), counted))
    });
    let counted = counted.await?;
    cx.out.bulk(counted);
    Ok(())
}

/// As it was, with another value of this field.
fn with(hash: HashView<'_>, field: &[u8], value: &[u8]) -> crate::collections::Encoded {
    hash.with_values(std::iter::once((field, value)))
}

/// `HRANDFIELD`.
async fn random_fields(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let has_values = match argv.len() {
        2 | 3 => false,
        4 if argv.get(3).eq_ignore_ascii_case(b"WITHVALUES") => true,
        _ => return Err(SYNTAX),
    };
    if argv.len() == 2 {
        return read::<Hash, _>(cx, argv.get(1), |hash, out| match hash.len() {
            0 => out.null(),
            fields => out.bulk(hash.at(fastrand::usize(..fields)).0),
        })
        .await;
    }
    let wanted = Wanted::of(argv.get(2))?;
    let copied = copied(cx, argv.get(1)).await?;
    let hash = copied.view::<Hash>()?;
    let is_nested = has_values && cx.out.is_resp3;
    let width = if has_values && !is_nested { 2 } else { 1 };
    let count = wanted.count(hash.len());
    cx.out.array(count.saturating_mul(width));
    random::answer(cx, wanted, hash.len(), |at, out| {
        let (field, value) = hash.at(at);
        if is_nested {
            out.array(2);
        }
        out.bulk(field);
        if has_values {
            out.bulk(value);
        }
    })
    .await
}
