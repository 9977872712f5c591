//! Intersections, unions and differences of sets. The caller holds the turns of the tenants.

use super::collection::{Copied, LongAnswer, Pace, copied, replace};
use super::command::Does;
use super::context::{Context, no_room};
use super::number;
use super::parse::Arguments;
use super::write::{Outcome, Refusal, SYNTAX};
use crate::collections::{Kind, Set, SetView, Shape};

/// Runs a command on several sets.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let (operation, first) = match does {
        Does::Sinter | Does::Sintercard => (Operation::Intersection, 1),
        Does::Sunion => (Operation::Union, 1),
        Does::Sdiff => (Operation::Difference, 1),
        Does::Sinterstore => (Operation::Intersection, 2),
        Does::Sunionstore => (Operation::Union, 2),
        _ => (Operation::Difference, 2),
    };
    if does == Does::Sintercard {
        return intersection_count(cx, argv).await;
    }
    let sets = all(cx, argv.from(first)).await?;
    let views = views(&sets)?;
    let members = operation.of(cx, &views).await?;
    if first == 2 {
        let count = members.len();
        let next = Set::empty().with(members);
        replace(cx, argv.get(1), (Kind::Set, next)).await?;
        cx.out.count(count);
        return Ok(());
    }
    cx.out.set(members.len());
    let mut answer = LongAnswer::begin(cx);
    for member in members {
        cx.out.bulk(member);
        answer.goes_on(cx).await?;
    }
    Ok(())
}

/// Copies of all sets.
async fn all<'k>(
    cx: &mut Context<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Vec<Copied>, Refusal> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(copied(cx, key).await?);
    }
    Ok(sets)
}

fn views(sets: &[Copied]) -> Result<Vec<SetView<'_>>, Refusal> {
    sets.iter().map(Copied::view::<Set>).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    /// The members of the result.
    async fn of<'v>(
        self,
        cx: &mut Context<'_>,
        sets: &[SetView<'v>],
    ) -> Result<Vec<&'v [u8]>, Refusal> {
        let (mut found, mut kept) = (Vec::new(), cx.caller.keep());
        let mut pace = Pace::default();
        let first = sets.first().map_or(0, |set| set.len());
        if self != Self::Union && !kept.grow(size_of::<&[u8]>() * first) {
            return Err(no_room(cx.caller));
        }
        match self {
            Self::Union => {
                for set in sets {
                    if !kept.grow(size_of::<&[u8]>() * set.len()) {
                        return Err(no_room(cx.caller));
                    }
                    found = united(cx, &mut pace, found, *set).await;
                }
            }
            Self::Intersection => {
                let Some(smallest) = sets.iter().min_by_key(|set| set.len()) else {
                    return Ok(found);
                };
                for member in smallest.iter() {
                    let mut is_in_all = true;
                    for set in sets {
                        is_in_all = is_in_all && set.has(member);
                        pace.step(cx).await;
                    }
                    found.extend(is_in_all.then_some(member));
                }
            }
            Self::Difference => {
                let Some((first, others)) = sets.split_first() else { return Ok(found) };
                for member in first.iter() {
                    let mut is_in_one = false;
                    for set in others {
                        is_in_one = is_in_one || set.has(member);
                        pace.step(cx).await;
                    }
                    found.extend((!is_in_one).then_some(member));
                }
            }
        }
        Ok(found)
    }
}

/// Sorted members and those of a set together, each once.
async fn united<'v>(
    cx: &Context<'_>,
    pace: &mut Pace,
    found: Vec<&'v [u8]>,
    set: SetView<'v>,
) -> Vec<&'v [u8]> {
    let mut all = Vec::with_capacity(found.len().max(set.len()));
    let (mut found, mut more) = (found.into_iter().peekable(), set.iter().peekable());
    loop {
        let next = match (found.peek(), more.peek()) {
            (Some(one), Some(other)) if one == other => {
                more.next();
                found.next()
            }
            (Some(one), Some(other)) if other < one => more.next(),
            (Some(_), _) => found.next(),
            (None, _) => more.next(),
        };
        let Some(next) = next else { return all };
        all.push(next);
        pace.step(cx).await;
    }
}

/// `SINTERCARD`.
async fn intersection_count(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (keys, mut at) = numbered_keys(argv, 1)?;
    let mut limit = usize::MAX;
    while at < argv.len() {
        if !argv.get(at).eq_ignore_ascii_case(b"LIMIT") || at + 1 >= argv.len() {
            return Err(SYNTAX);
        }
        limit = limit_of(argv.get(at + 1))?;
        at += 2;
    }
    let sets = all(cx, keys.map(|at| argv.get(at))).await?;
    let members = Operation::Intersection.of(cx, &views(&sets)?).await?;
    cx.out.count(members.len().min(limit));
    Ok(())
}

/// The number behind `LIMIT`: 0 is none.
pub(super) fn limit_of(text: &[u8]) -> Result<usize, Refusal> {
    let limit = number::integer(text).filter(|limit| *limit >= 0);
    let limit = limit.ok_or(Refusal::Says("ERR LIMIT can't be negative"))?;
    Ok(if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) })
}

/// The places of keys whose number is the argument at `at`, and the place behind them.
pub(super) fn numbered_keys(
    argv: Arguments<'_>,
    at: usize,
) -> Result<(std::ops::Range<usize>, usize), Refusal> {
    let count = number::integer(argv.get(at)).filter(|count| *count > 0);
    let count = count.ok_or(Refusal::Says("ERR numkeys should be greater than 0"))?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > argv.len().saturating_sub(at + 1) {
        return Err(Refusal::Says("ERR Number of keys can't be greater than number of args"));
    }
    Ok((at + 1..at + 1 + count, at + 1 + count))
}

/// The same, for a command with more words behind the keys: too high a number is a syntax error.
pub(super) fn keys_before_words(
    argv: Arguments<'_>,
    at: usize,
) -> Result<(std::ops::Range<usize>, usize), Refusal> {
    let count = number::integer(argv.get(at)).and_then(|count| usize::try_from(count).ok());
    if count.is_some_and(|count| count >= argv.len().saturating_sub(at + 1)) {
        return Err(SYNTAX);
    }
    numbered_keys(argv, at)
}
