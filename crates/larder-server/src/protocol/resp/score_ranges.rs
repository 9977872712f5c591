//! Ranges of a sorted set, by rank, by score or by member.

use std::ops::Range;

use super::collection::{Edit, amend, copied, read, replace};
use super::command::Does;
use super::context::Context;
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX, Writer};
use crate::collections::{Kind, Shape, SortedSet, SortedSetView};

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// The first and the last of a range, both in it unless they say otherwise.
#[derive(Clone, Copy, Debug)]
enum Limits<'a> {
    Ranks(i64, i64),
    Scores(Score, Score),
    Members(Member<'a>, Member<'a>),
}

/// A limit of scores.
#[derive(Clone, Copy, Debug)]
struct Score {
    score: f64,
    is_excluded: bool,
}

/// A limit of members.
#[derive(Clone, Copy, Debug)]
enum Member<'a> {
    Before,
    At(&'a [u8]),
    /// All but this one.
    Beside(&'a [u8]),
    Behind,
}

impl Score {
    fn of(text: &[u8]) -> Result<Self, Refusal> {
        let (is_excluded, digits) = match text {
            [b'(', digits @ ..] => (true, digits),
            _ => (false, text),
        };
        let score =
            number::fraction(digits).ok_or(Refusal::Says("ERR min or max is not a float"))?;
        Ok(Self { score, is_excluded })
    }
}

impl<'a> Member<'a> {
    fn of(text: &'a [u8]) -> Result<Self, Refusal> {
        match text {
            b"-" => Ok(Self::Before),
            b"+" => Ok(Self::Behind),
            [b'[', member @ ..] => Ok(Self::At(member)),
            [b'(', member @ ..] => Ok(Self::Beside(member)),
            _ => Err(Refusal::Says("ERR min or max not valid string range item")),
        }
    }

    /// Whether a member stands at or behind this first limit.
    fn is_at_or_before(self, member: &[u8]) -> bool {
        match self {
            Self::Before => true,
            Self::At(limit) => member >= limit,
            Self::Beside(limit) => member > limit,
            Self::Behind => false,
        }
    }

    /// Whether a member stands behind this last limit.
    fn is_before(self, member: &[u8]) -> bool {
        match self {
            Self::Before => true,
            Self::At(limit) => member > limit,
            Self::Beside(limit) => member >= limit,
            Self::Behind => false,
        }
    }
}

/// The places from `first` to `last` of `length`; negative ones count from the end.
pub(super) fn places(first: i64, last: i64, length: usize) -> Range<usize> {
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = |at: i64| if at < 0 { at.saturating_add(signed) } else { at };
    let first = usize::try_from(from_start(first).max(0)).unwrap_or(0);
    let end = usize::try_from(from_start(last).saturating_add(1).clamp(0, signed)).unwrap_or(0);
    if first >= end { 0..0 } else { first..end }
}

impl<'a> Limits<'a> {
    fn of(by: By, low: &'a [u8], high: &'a [u8]) -> Result<Self, Refusal> {
        Ok(match by {
            By::Rank => {
                let (low, high) = (number::integer(low), number::integer(high));
                Self::Ranks(low.ok_or(NO_INTEGER)?, high.ok_or(NO_INTEGER)?)
            }
            By::Score => Self::Scores(Score::of(low)?, Score::of(high)?),
            By::Member => Self::Members(Member::of(low)?, Member::of(high)?),
        })
    }

    /// The ranks of the range, from the lowest. `is_reverse`: ranks of requests count from the highest.
    fn ranks(self, set: SortedSetView<'_>, is_reverse: bool) -> Range<usize> {
        let (first, end) = match self {
            Self::Ranks(first, last) => {
                let range = places(first, last, set.len());
                return match is_reverse {
                    true => set.len() - range.end..set.len() - range.start,
                    false => range,
                };
            }
            Self::Scores(low, high) => (
                set.first_rank(|(_, score)| {
                    if low.is_excluded { score > low.score } else { score >= low.score }
                }),
                set.first_rank(|(_, score)| {
                    if high.is_excluded { score >= high.score } else { score > high.score }
                }),
            ),
            Self::Members(low, high) => (
                set.first_rank(|(member, _)| low.is_at_or_before(member)),
                set.first_rank(|(member, _)| high.is_before(member)),
            ),
        };
        first..end.max(first)
    }
}

/// A range as a request describes it.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    limits: Limits<'a>,
    is_reverse: bool,
    /// How many to leave out first, and most members then; negative: all.
    page: Option<(i64, i64)>,
    has_scores: bool,
}

impl<'a> Wanted<'a> {
    /// The range of a command whose limits are the arguments at `at` and behind it.
    fn of(does: Does, argv: Arguments<'a>, at: usize) -> Result<Self, Refusal> {
        let is_general = matches!(does, Does::Zrange | Does::Zrangestore);
        let (mut by, mut is_reverse) = match does {
            Does::Zrevrange => (By::Rank, true),
            Does::Zrangebyscore => (By::Score, false),
            Does::Zrevrangebyscore => (By::Score, true),
            Does::Zrangebylex => (By::Member, false),
            Does::Zrevrangebylex => (By::Member, true),
            _ => (By::Rank, false),
        };
        let (mut page, mut has_scores) = (None, false);
        let mut place = at + 2;
        while place < argv.len() {
            match &*argv.get(place).to_ascii_uppercase() {
                b"WITHSCORES" if does != Does::Zrangestore => has_scores = true,
                b"BYSCORE" if is_general => by = By::Score,
                b"BYLEX" if is_general => by = By::Member,
                b"REV" if is_general => is_reverse = true,
                b"LIMIT" if place + 2 < argv.len() => {
                    let of = |place| number::integer(argv.get(place)).ok_or(NO_INTEGER);
                    page = Some((of(place + 1)?, of(place + 2)?));
                    place += 2;
                }
                _ => return Err(SYNTAX),
            }
            place += 1;
        }
        if page.is_some() && by == By::Rank {
            return Err(Refusal::Says(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if has_scores && by == By::Member {
            return Err(Refusal::Says(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (low, high) = match is_reverse && by != By::Rank {
            true => (argv.get(at + 1), argv.get(at)),
            false => (argv.get(at), argv.get(at + 1)),
        };
        Ok(Self { limits: Limits::of(by, low, high)?, is_reverse, page, has_scores })
    }

    /// Its ranks, from the lowest.
    fn ranks(&self, set: SortedSetView<'_>) -> Range<usize> {
        let ranks = self.limits.ranks(set, self.is_reverse);
        let Some((skipped, most)) = self.page else { return ranks };
        let Ok(skipped) = usize::try_from(skipped) else { return 0..0 };
        let skipped = skipped.min(ranks.len());
        let left = ranks.len() - skipped;
        let count = usize::try_from(most).map_or(left, |most| most.min(left));
        match self.is_reverse {
            true => ranks.end - skipped - count..ranks.end - skipped,
            false => ranks.start + skipped..ranks.start + skipped + count,
        }
    }
}

/// Runs a command of ranges.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let by = match does {
        Does::Zcount | Does::Zremrangebyscore => By::Score,
        Does::Zlexcount | Does::Zremrangebylex => By::Member,
        _ => By::Rank,
    };
    match does {
        Does::Zcount | Does::Zlexcount => {
            let limits = Limits::of(by, argv.get(2), argv.get(3))?;
            read::<SortedSet, _>(cx, argv.get(1), |set, out| {
                out.count(limits.ranks(set, false).len());
            })
            .await
        }
        Does::Zremrangebyrank | Does::Zremrangebyscore | Does::Zremrangebylex => {
            let limits = Limits::of(by, argv.get(2), argv.get(3))?;
            let removed = amend::<SortedSet, _>(cx, argv.get(1), |set| {
                let ranks = limits.ranks(set, false);
                Ok(match ranks.len() {
                    0 => (Edit::Keep, 0),
                    count => (Edit::Store(set.without_ranks(ranks)), count),
                })
            });
            let removed = removed.await?;
            cx.out.count(removed);
            Ok(())
        }
        Does::Zrangestore => store(cx, argv).await,
        _ => {
            let wanted = Wanted::of(does, argv, 2)?;
            read::<SortedSet, _>(cx, argv.get(1), |set, out| answer(set, wanted, out)).await
        }
    }
}

fn answer(set: SortedSetView<'_>, wanted: Wanted<'_>, out: &mut Writer<'_>) {
    let ranks = wanted.ranks(set);
    let is_nested = wanted.has_scores && out.is_resp3;
    out.array(if wanted.has_scores && !is_nested { 2 * ranks.len() } else { ranks.len() });
    let mut tell = |rank| {
        let (member, score) = set.ranked(rank);
        if is_nested {
            out.array(2);
        }
        out.bulk(member);
        if wanted.has_scores {
            out.double(score);
        }
    };
    match wanted.is_reverse {
        true => ranks.rev().for_each(&mut tell),
        false => ranks.for_each(&mut tell),
    }
}

/// `ZRANGESTORE`. The caller holds the turns of the tenants.
async fn store(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let wanted = Wanted::of(Does::Zrangestore, argv, 3)?;
    let copied = copied(cx, argv.get(2)).await?;
    let set = copied.view::<SortedSet>()?;
    let members = wanted.ranks(set).map(|rank| set.ranked(rank));
    let members: Vec<_> = members.map(|(member, score)| (member, Some(score))).collect();
    let count = members.len();
    let next = SortedSet::empty().with(members);
    replace(cx, argv.get(1), (Kind::SortedSet, next)).await?;
    cx.out.count(count);
    Ok(())
}
