//! Commands of the lifetimes of a hash's fields.
//!
//! A field expires by the wall clock. The first request that reads or changes the hash afterwards removes what has
//! expired ([`super::collection`]).

use std::time::Duration;

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, read};
use super::command::Does;
use super::context::{Context, shown};
use super::expiry::{self, Unit};
use super::lifetimes::LifetimeCondition;
use super::number;
use super::parse::Arguments;
use super::write::{Outcome, Refusal, SYNTAX};
use crate::collections::{ExpiryMs, Hash, HashView};

/// The answers for a field.
const NO_FIELD: i64 = -2;
const NO_LIFETIME: i64 = -1;
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// Runs a command of the lifetimes of fields.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Hexpire => expire(cx, argv, (expiry::EX, "hexpire")).await,
        Does::Hpexpire => expire(cx, argv, (expiry::PX, "hpexpire")).await,
        Does::Hexpireat => expire(cx, argv, (expiry::EXAT, "hexpireat")).await,
        Does::Hpexpireat => expire(cx, argv, (expiry::PXAT, "hpexpireat")).await,
        Does::Httl => left(cx, argv, expiry::EX).await,
        Does::Hpttl => left(cx, argv, expiry::PX).await,
        Does::Hexpiretime => left(cx, argv, expiry::EXAT).await,
        Does::Hpexpiretime => left(cx, argv, expiry::PXAT).await,
        Does::Hpersist => persist(cx, argv).await,
        Does::Hgetdel => get_and_remove(cx, argv).await,
        Does::Hgetex => get_and_expire(cx, argv).await,
        _ => set_and_expire(cx, argv).await,
    }
}

/// The arguments behind `FIELDS` and their number, each with `step` words. `FIELDS` is at `at`.
fn fields<'a>(argv: Arguments<'a>, at: usize, step: usize) -> Result<Vec<&'a [u8]>, Refusal> {
    if !argv.get(at).eq_ignore_ascii_case(b"FIELDS") {
        let missing = "ERR Mandatory argument FIELDS is missing or not at the right position";
        return Err(Refusal::Says(missing));
    }
    let count = number::integer(argv.get(at + 1)).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count.filter(|count| *count > 0) else {
        return Err(Refusal::Says("ERR Parameter `numFields` should be greater than 0"));
    };
    let words: Vec<_> = argv.from(at + 2).collect();
    if count.checked_mul(step) != Some(words.len()) {
        let wrong = "ERR The `numfields` parameter must match the number of arguments";
        return Err(Refusal::Says(wrong));
    }
    Ok(words)
}

fn answer(cx: &mut Context<'_>, told: &[i64]) {
    cx.out.array(told.len());
    told.iter().for_each(|told| cx.out.integer(*told));
}

/// `HEXPIRE`, `HPEXPIRE`, `HEXPIREAT`, `HPEXPIREAT`.
async fn expire(cx: &mut Context<'_>, argv: Arguments<'_>, (unit, name): (Unit, &str)) -> Outcome {
    let key = argv.get(1);
    let has_condition = !argv.get(3).eq_ignore_ascii_case(b"FIELDS");
    let condition = argv.from(3).take(usize::from(has_condition));
    let wall = cx.wall(key);
    if number::integer(argv.get(2)).is_some_and(|time| time < 0) {
        return Err(Refusal::Says("ERR invalid expire time, must be >= 0"));
    }
    let at = unit.at(argv.get(2), wall, name)?;
    let fields = fields(argv, 3 + usize::from(has_condition), 1)?;
    let only_if = LifetimeCondition::of(condition)?;
    cx.caller.work.does(fields.len() / LOOKUPS_A_UNIT);
    let told = amend::<Hash, _>(cx, key, |hash| {
        let (mut places, mut told) = (Vec::new(), Vec::with_capacity(fields.len()));
        for field in &fields {
            let Some(place) = hash.place(field) else {
                told.push(NO_FIELD);
                continue;
            };
            let old = hash.expiry(place).and_then(|old| i64::try_from(old).ok());
            let holds = only_if.holds(old, at);
            places.extend(holds.then_some(place));
            told.push(if holds { DONE } else { NOT_MET });
        }
        Ok(match expires(at, wall) {
            _ if places.is_empty() => (Edit::Keep, told),
            Some(at) => {
                let times: Vec<_> = places.into_iter().map(|place| (place, Some(at))).collect();
                (Edit::Store(hash.with_expiries(&times)), told)
            }
            None => {
                told.iter_mut().filter(|told| **told == DONE).for_each(|told| *told = REMOVED);
                (Edit::Store(without(hash, places.into_iter())), told)
            }
        })
    });
    let told = told.await?;
    answer(cx, &told);
    Ok(())
}

/// When a field expires for which `at` was said; `None`: it has already.
fn expires(at: i64, wall: Duration) -> Option<ExpiryMs> {
    ExpiryMs::try_from(at).ok().filter(|_| at > expiry::millis_of(wall))
}

fn without(hash: HashView<'_>, places: impl Iterator<Item = usize>) -> crate::collections::Encoded {
    let gone: Vec<_> = places.map(|place| (hash.at(place).0, None)).collect();
    hash.with(&gone)
}

/// `HTTL`, `HPTTL`, `HEXPIRETIME`, `HPEXPIRETIME`.
async fn left(cx: &mut Context<'_>, argv: Arguments<'_>, unit: Unit) -> Outcome {
    let key = argv.get(1);
    let fields = fields(argv, 2, 1)?;
    let now = expiry::millis_of(cx.wall(key));
    cx.caller.work.does(fields.len() / LOOKUPS_A_UNIT);
    read::<Hash, _>(cx, key, |hash, out| {
        out.array(fields.len());
        for field in &fields {
            let expires = hash.place(field).map(|place| hash.expiry(place));
            out.integer(match expires {
                None => NO_FIELD,
                Some(None) => NO_LIFETIME,
                Some(Some(at)) => {
                    let at = i64::try_from(at).unwrap_or(i64::MAX);
                    let millis = if unit.is_absolute { at } else { at.saturating_sub(now).max(0) };
                    if unit.is_millis { millis } else { millis.saturating_add(999) / 1000 }
                }
            });
        }
    })
    .await
}

/// `HPERSIST`.
async fn persist(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let fields = fields(argv, 2, 1)?;
    cx.caller.work.does(fields.len() / LOOKUPS_A_UNIT);
    let told = amend::<Hash, _>(cx, argv.get(1), |hash| {
        let (mut places, mut told) = (Vec::new(), Vec::with_capacity(fields.len()));
        for field in &fields {
            let place = hash.place(field);
            told.push(match place.map(|place| hash.expiry(place)) {
                None => NO_FIELD,
                Some(None) => NO_LIFETIME,
                Some(Some(_)) => DONE,
            });
            places.extend(place.filter(|place| hash.expiry(*place).is_some()));
        }
        if places.is_empty() {
            return Ok((Edit::Keep, told));
        }
        let times: Vec<_> = places.into_iter().map(|place| (place, None)).collect();
        Ok((Edit::Store(hash.with_expiries(&times)), told))
    });
    let told = told.await?;
    answer(cx, &told);
    Ok(())
}

/// What becomes of the lifetimes of fields, as `HGETEX` and `HSETEX` say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextLifetime {
    Keeps,
    None,
    Until(i64),
}

/// The words before `FIELDS`, which is at the place that is returned.
fn next_lifetime(
    cx: &Context<'_>,
    argv: Arguments<'_>,
    mut at: usize,
    (usual, name): (NextLifetime, &str),
) -> Result<(NextLifetime, usize), Refusal> {
    let mut next = None;
    while at < argv.len() && !argv.get(at).eq_ignore_ascii_case(b"FIELDS") {
        let option = argv.get(at).to_ascii_uppercase();
        let said = match (&*option, Unit::of_option(&option)) {
            (b"PERSIST", _) if name == "hgetex" => NextLifetime::None,
            (b"KEEPTTL", _) if name == "hsetex" => NextLifetime::Keeps,
            (_, Some(unit)) if at + 1 < argv.len() => {
                at += 1;
                NextLifetime::Until(unit.at_later(argv.get(at), cx.wall(argv.get(1)), name)?)
            }
            _ => return Err(Refusal::Said(format!("ERR unknown argument: {}", shown(&option)))),
        };
        if next.replace(said).is_some() {
            return Err(SYNTAX);
        }
        at += 1;
    }
    Ok((next.unwrap_or(usual), at))
}

/// The values of fields, as they are answered.
type Values = Vec<Option<Vec<u8>>>;

fn values_of(hash: HashView<'_>, fields: &[&[u8]]) -> Values {
    fields.iter().map(|field| hash.get(field).map(<[u8]>::to_vec)).collect()
}

fn answer_values(cx: &mut Context<'_>, values: Values) {
    cx.out.array(values.len());
    for value in values {
        match value {
            Some(value) => cx.out.bulk(value),
            None => cx.out.null(),
        }
    }
}

/// `HGETDEL`.
async fn get_and_remove(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let fields = fields(argv, 2, 1)?;
    cx.caller.work.does(fields.len() / LOOKUPS_A_UNIT);
    let values = amend::<Hash, _>(cx, argv.get(1), |hash| {
        let values = values_of(hash, &fields);
        let places: Vec<_> = fields.iter().filter_map(|field| hash.place(field)).collect();
        match places.is_empty() {
            true => Ok((Edit::Keep, values)),
            false => Ok((Edit::Store(without(hash, places.into_iter())), values)),
        }
    });
    let values = values.await?;
    answer_values(cx, values);
    Ok(())
}

/// `HGETEX`.
async fn get_and_expire(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let key = argv.get(1);
    let (next, at) = next_lifetime(cx, argv, 2, (NextLifetime::Keeps, "hgetex"))?;
    let fields = fields(argv, at, 1)?;
    let wall = cx.wall(key);
    cx.caller.work.does(fields.len() / LOOKUPS_A_UNIT);
    let values = amend::<Hash, _>(cx, key, |hash| {
        let values = values_of(hash, &fields);
        let places = fields.iter().filter_map(|field| hash.place(field));
        let expires = match next {
            NextLifetime::Keeps => return Ok((Edit::Keep, values)),
            NextLifetime::None => None,
            NextLifetime::Until(at) => match expires(at, wall) {
                None => return Ok((Edit::Store(without(hash, places)), values)),
                some => some,
            },
        };
        let times: Vec<_> = places.map(|place| (place, expires)).collect();
        if times.is_empty() {
            return Ok((Edit::Keep, values));
        }
        Ok((Edit::Store(hash.with_expiries(&times)), values))
    });
    let values = values.await?;
    answer_values(cx, values);
    Ok(())
}

/// `HSETEX`.
async fn set_and_expire(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let key = argv.get(1);
    // Whether all fields must be there, or none of them.
    let only_if = match &*argv.get(2).to_ascii_uppercase() {
        b"FXX" => Some(true),
        b"FNX" => Some(false),
        _ => None,
    };
    let from = 2 + usize::from(only_if.is_some());
    let (next, at) = next_lifetime(cx, argv, from, (NextLifetime::None, "hsetex"))?;
    let words = fields(argv, at, 2)?;
    let wall = cx.wall(key);
    cx.caller.work.does(words.len() / LOOKUPS_A_UNIT);
    let stored = amend::<Hash, _>(cx, key, |hash| {
        let pairs = words.as_chunks::<2>().0;
        let mut there = pairs.iter().map(|[field, _]| hash.place(field).is_some());
        if only_if.is_some_and(|wanted| there.any(|is_there| is_there != wanted)) {
            return Ok((Edit::Keep, false));
        }
        let pairs = pairs.iter().map(|[field, value]| (*field, *value));
        Ok(match next {
            NextLifetime::Keeps => (Edit::Store(hash.with_values(pairs)), true),
            NextLifetime::None => (Edit::Store(hash.with_expiring(pairs, None)), true),
            NextLifetime::Until(at) => match expires(at, wall) {
                Some(at) => (Edit::Store(hash.with_expiring(pairs, Some(at))), true),
                None => {
                    let gone: Vec<_> = pairs.map(|(field, _)| (field, None)).collect();
                    (Edit::Store(hash.with(&gone)), true)
                }
            },
        })
    });
    let stored = stored.await?;
    cx.out.integer(i64::from(stored));
    Ok(())
}
