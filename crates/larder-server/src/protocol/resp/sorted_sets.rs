//! Commands of one sorted set. Ranges are in `score_ranges.rs`, computations with several in `score_algebra.rs`.

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, copied, read, steps};
use super::command::Does;
use super::context::Context;
use super::events;
use super::number;
use super::parse::Arguments;
use super::random::{self, Wanted};
use super::set_algebra::keys_before_words;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX, Writer};
use super::{score_algebra, score_ranges, scores, walk};
use crate::collections::{Encoded, SortedSet, SortedSetView};
use crate::databases::key_in;

/// Runs a command of sorted sets.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let key = argv.get(1);
    match does {
        Does::Zadd => scores::add(cx, argv).await,
        Does::Zincrby => scores::increment(cx, argv).await,
        Does::Zrem => remove(cx, argv).await,
        Does::Zcard => read::<SortedSet, _>(cx, key, |set, out| out.count(set.len())).await,
        Does::Zscore => {
            read::<SortedSet, _>(cx, key, |set, out| out.score(set.score(argv.get(2)))).await
        }
        Does::Zmscore => scores_of(cx, argv).await,
        Does::Zrank | Does::Zrevrank => rank(cx, argv, does).await,
        Does::Zpopmin | Does::Zpopmax => pop(cx, argv, does).await,
        Does::Zmpop => pop_first(cx, argv).await,
        Does::Zrandmember => random_members(cx, argv).await,
        Does::Zscan => walk::zscan(cx, argv).await,
        Does::Zunion
        | Does::Zinter
        | Does::Zdiff
        | Does::Zunionstore
        | Does::Zinterstore
        | Does::Zdiffstore
        | Does::Zintercard => score_algebra::run(cx, does, argv).await,
        _ => score_ranges::run(cx, does, argv).await,
    }
}

/// `ZREM`.
async fn remove(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut removed = 0;
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        removed += amend::<SortedSet, _>(cx, argv.get(1), |set| {
            let members = step.clone().map(|at| argv.get(at));
            let mut gone: Vec<_> = members.filter(|it| set.score(it).is_some()).collect();
            gone.sort_unstable();
            gone.dedup();
            let count = gone.len();
            if count == 0 {
                return Ok((Edit::Keep, 0));
            }
            let gone = gone.into_iter().map(|member| (member, None)).collect();
            Ok((Edit::Store(set.with(gone)), count))
        })
        .await?;
        cx.caller.rests().await;
    }
    cx.out.count(removed);
    Ok(())
}

/// `ZMSCORE`.
async fn scores_of(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    cx.out.array(argv.len() - 2);
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        read::<SortedSet, _>(cx, argv.get(1), |set, out| {
            step.for_each(|at| out.score(set.score(argv.get(at))));
        })
        .await?;
        cx.caller.rests().await;
    }
    Ok(())
}

/// `ZRANK`, `ZREVRANK`.
async fn rank(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let has_score = match argv.len() {
        3 => false,
        4 if argv.get(3).eq_ignore_ascii_case(b"WITHSCORE") => true,
        _ => return Err(SYNTAX),
    };
    read::<SortedSet, _>(cx, argv.get(1), |set, out| {
        let Some(rank) = set.rank(argv.get(2)) else {
            return if has_score { out.null_array() } else { out.null() };
        };
        let rank = if does == Does::Zrank { rank } else { set.len() - 1 - rank };
        if has_score {
            out.array(2);
        }
        out.count(rank);
        if has_score {
            out.score(set.score(argv.get(2)));
        }
    })
    .await
}

/// Members with their scores, taken out of a set.
pub(super) type Popped = Vec<(Vec<u8>, f64)>;

/// Which members are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

impl End {
    /// The word of a request.
    pub(super) fn of(word: &[u8]) -> Result<Self, Refusal> {
        match &*word.to_ascii_uppercase() {
            b"MIN" => Ok(Self::Lowest),
            b"MAX" => Ok(Self::Highest),
            _ => Err(SYNTAX),
        }
    }
}

/// Takes up to `count` members out of the set of `key`.
pub(super) async fn take(
    cx: &mut Context<'_>,
    key: &[u8],
    (end, count): (End, usize),
) -> Result<Popped, Refusal> {
    cx.client.event = if end == End::Lowest { events::ZPOPMIN } else { events::ZPOPMAX };
    amend::<SortedSet, _>(cx, key, |set| {
        let count = count.min(set.len());
        if count == 0 {
            return Ok((Edit::Keep, Vec::new()));
        }
        let (next, popped) = taken(set, end, count);
        Ok((Edit::Store(next), popped))
    })
    .await
}

fn taken(set: SortedSetView<'_>, end: End, count: usize) -> (Encoded, Popped) {
    let ranks = match end {
        End::Lowest => 0..count,
        End::Highest => set.len() - count..set.len(),
    };
    let popped = ranks.clone().map(|rank| set.ranked(rank));
    let mut popped: Popped = popped.map(|(member, score)| (member.to_vec(), score)).collect();
    if end == End::Highest {
        popped.reverse();
    }
    (set.without_ranks(ranks), popped)
}

/// A count of members to take, which must not be negative.
pub(super) fn positive(text: &[u8]) -> Result<usize, Refusal> {
    let refusal = || Refusal::Says("ERR value is out of range, must be positive");
    let count = number::integer(text).ok_or_else(refusal)?;
    usize::try_from(count).map_err(|_| refusal())
}

/// `ZPOPMIN`, `ZPOPMAX`.
async fn pop(cx: &mut Context<'_>, argv: Arguments<'_>, does: Does) -> Outcome {
    let count = match argv.len() {
        2 => None,
        3 => Some(positive(argv.get(2))?),
        _ => return Err(SYNTAX),
    };
    let end = if does == Does::Zpopmin { End::Lowest } else { End::Highest };
    let popped = take(cx, argv.get(1), (end, count.unwrap_or(1))).await?;
    let is_nested = cx.out.is_resp3 && count.is_some();
    cx.out.array(if is_nested { popped.len() } else { 2 * popped.len() });
    for (member, score) in popped {
        if is_nested {
            cx.out.array(2);
        }
        cx.out.bulk(member);
        cx.out.double(score);
    }
    Ok(())
}

/// What `ZMPOP` and `BZMPOP` ask: the places of the keys, and what is taken.
pub(super) fn pop_words(
    argv: Arguments<'_>,
    at: usize,
) -> Result<(std::ops::Range<usize>, (End, usize)), Refusal> {
    let (keys, at) = keys_before_words(argv, at)?;
    if at >= argv.len() {
        return Err(SYNTAX);
    }
    let end = End::of(argv.get(at))?;
    Ok((keys, (end, count_of(argv, at + 1)?)))
}

/// The count behind `COUNT`, the only word that may stand at `at`.
pub(super) fn count_of(argv: Arguments<'_>, at: usize) -> Result<usize, Refusal> {
    match argv.len() - at {
        0 => Ok(1),
        2 if argv.get(at).eq_ignore_ascii_case(b"COUNT") => {
            let count = number::integer(argv.get(at + 1)).filter(|count| *count > 0);
            let count = count.ok_or(Refusal::Says("ERR count should be greater than 0"))?;
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        }
        _ => Err(SYNTAX),
    }
}

/// `ZMPOP`. The caller holds the turns of the tenants.
async fn pop_first(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (keys, what) = pop_words(argv, 1)?;
    for at in keys {
        let key = argv.get(at);
        let popped = take(cx, key, what).await?;
        if !popped.is_empty() {
            tell_popped(key, popped, &mut cx.out);
            return Ok(());
        }
        cx.rests_behind(key).await;
    }
    cx.out.null_array();
    Ok(())
}

/// Writes the answer of `ZMPOP` and `BZMPOP`.
pub(super) fn tell_popped(key: &[u8], popped: Popped, out: &mut Writer<'_>) {
    out.array(2);
    out.bulk(key_in(key));
    out.array(popped.len());
    for (member, score) in popped {
        out.array(2);
        out.bulk(member);
        out.double(score);
    }
}

/// `ZRANDMEMBER`.
async fn random_members(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let has_scores = match argv.len() {
        2 | 3 => false,
        4 if argv.get(3).eq_ignore_ascii_case(b"WITHSCORES") => true,
        _ => return Err(SYNTAX),
    };
    if argv.len() == 2 {
        return read::<SortedSet, _>(cx, argv.get(1), |set, out| match set.len() {
            0 => out.null(),
            members => out.bulk(set.at(fastrand::usize(..members)).0),
        })
        .await;
    }
    number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
    let wanted = Wanted::of(argv.get(2))?;
    let copied = copied(cx, argv.get(1)).await?;
    let set = copied.view::<SortedSet>()?;
    let is_nested = has_scores && cx.out.is_resp3;
    let width = if has_scores && !is_nested { 2 } else { 1 };
    cx.out.array(wanted.count(set.len()).saturating_mul(width));
    random::answer(cx, wanted, set.len(), |at, out| {
        let (member, score) = set.at(at);
        if is_nested {
            out.array(2);
        }
        out.bulk(member);
        if has_scores {
            out.double(score);
        }
    })
    .await
}
