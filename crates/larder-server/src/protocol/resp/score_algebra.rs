//! Unions, intersections and differences of sorted sets, and of sets, whose members count as if their scores were 1.
//! The caller holds the turns of the tenants.

use super::collection::{Copied, LongAnswer, Pace, copied, replace, sorted};
use super::command::Does;
use super::context::{Context, no_room};
use super::number;
use super::parse::Arguments;
use super::set_algebra::{limit_of, numbered_keys};
use super::write::{Outcome, Refusal, SYNTAX};
use crate::collections::{ItemKind, Kind, Scored, Set, SetView, Shape, SortedSet, SortedSetView};

/// Members of one key, sorted by member.
#[derive(Clone, Copy)]
enum Source<'v> {
    Scored(SortedSetView<'v>),
    Plain(SetView<'v>),
}

impl<'v> Source<'v> {
    fn of(copied: &'v Copied) -> Result<Self, Refusal> {
        Ok(match copied.kind() {
            Some(ItemKind::Collection(Kind::Set)) => Self::Plain(copied.view::<Set>()?),
            _ => Self::Scored(copied.view::<SortedSet>()?),
        })
    }

    fn len(self) -> usize {
        match self {
            Self::Scored(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    fn at(self, at: usize) -> Scored<'v> {
        match self {
            Self::Scored(set) => set.at(at),
            Self::Plain(set) => (set.at(at), 1.0),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Scored(set) => set.score(member),
            Self::Plain(set) => set.has(member).then_some(1.0),
        }
    }
}

/// How the scores of a member become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Least,
    Most,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of two opposite infinities is 0.
            Self::Sum => numeric(one + other),
            Self::Least => one.min(other),
            Self::Most => one.max(other),
        }
    }
}

fn numeric(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The words behind the keys.
struct Words {
    weights: Vec<f64>,
    aggregate: Aggregate,
    has_scores: bool,
    limit: usize,
}

impl Words {
    fn of(
        does: Does,
        argv: Arguments<'_>,
        (keys, mut at): (usize, usize),
    ) -> Result<Self, Refusal> {
        let mut words = Self {
            weights: Vec::new(),
            aggregate: Aggregate::Sum,
            has_scores: false,
            limit: usize::MAX,
        };
        let is_diff = matches!(does, Does::Zdiff | Does::Zdiffstore);
        let is_stored = matches!(does, Does::Zdiffstore | Does::Zunionstore | Does::Zinterstore);
        let is_counted = does == Does::Zintercard;
        while at < argv.len() {
            let left = argv.len() - at - 1;
            match &*argv.get(at).to_ascii_uppercase() {
                b"WEIGHTS" if left >= keys && !is_diff && !is_counted => {
                    let weights = (at + 1..=at + keys).map(|at| number::fraction(argv.get(at)));
                    let weights = weights.collect::<Option<Vec<_>>>();
                    let refusal = Refusal::Says("ERR weight value is not a float");
                    words.weights = weights.ok_or(refusal)?;
                    at += keys;
                }
                b"AGGREGATE" if left >= 1 && !is_diff && !is_counted => {
                    words.aggregate = match &*argv.get(at + 1).to_ascii_uppercase() {
                        b"SUM" => Aggregate::Sum,
                        b"MIN" => Aggregate::Least,
                        b"MAX" => Aggregate::Most,
                        _ => return Err(SYNTAX),
                    };
                    at += 1;
                }
                b"WITHSCORES" if !is_stored && !is_counted => words.has_scores = true,
                b"LIMIT" if is_counted && left >= 1 => {
                    words.limit = limit_of(argv.get(at + 1))?;
                    at += 1;
                }
                _ => return Err(SYNTAX),
            }
            at += 1;
        }
        Ok(words)
    }

    /// A score of the set with this number, by its weight.
    fn weighed(&self, set: usize, score: f64) -> f64 {
        self.weights.get(set).map_or(score, |weight| numeric(weight * score))
    }
}

/// Runs a command on several sorted sets.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let is_stored = matches!(does, Does::Zdiffstore | Does::Zunionstore | Does::Zinterstore);
    let at = if is_stored { 2 } else { 1 };
    let name = argv.get(0).to_ascii_lowercase();
    let (keys, behind) = keys_of(argv, at, &name)?;
    let words = Words::of(does, argv, (keys.len(), behind))?;
    let mut copies = Vec::new();
    for key in keys {
        copies.push(copied(cx, argv.get(key)).await?);
    }
    let sources = copies.iter().map(Source::of).collect::<Result<Vec<_>, _>>()?;
    let most: usize = sources.iter().map(|source| source.len()).sum();
    let mut kept = cx.caller.keep();
    if !kept.grow(2 * most * size_of::<Scored<'_>>()) {
        return Err(no_room(cx.caller));
    }
    let found = match does {
        Does::Zunion | Does::Zunionstore => union(cx, &sources, &words).await,
        Does::Zdiff | Does::Zdiffstore => difference(cx, &sources).await,
        _ => intersection(cx, &sources, &words).await,
    };
    if does == Does::Zintercard {
        cx.out.count(found.len().min(words.limit));
        return Ok(());
    }
    if is_stored {
        let count = found.len();
        let members = found.into_iter().map(|(member, score)| (member, Some(score))).collect();
        let next = SortedSet::empty().with(members);
        replace(cx, argv.get(1), (Kind::SortedSet, next)).await?;
        cx.out.count(count);
        return Ok(());
    }
    answer(cx, found, words.has_scores).await
}

fn keys_of(
    argv: Arguments<'_>,
    at: usize,
    name: &[u8],
) -> Result<(std::ops::Range<usize>, usize), Refusal> {
    let count = number::integer(argv.get(at)).ok_or(super::write::NO_INTEGER)?;
    if count < 1 {
        return Err(Refusal::Said(format!(
            "ERR at least 1 input key is needed for '{}' command",
            String::from_utf8_lossy(name)
        )));
    }
    numbered_keys(argv, at).map_err(|_| SYNTAX)
}

async fn answer(cx: &mut Context<'_>, found: Vec<Scored<'_>>, has_scores: bool) -> Outcome {
    let found =
        sorted(cx, found, |one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(other.0)))
            .await;
    let is_nested = has_scores && cx.out.is_resp3;
    cx.out.array(if has_scores && !is_nested { 2 * found.len() } else { found.len() });
    let mut answer = LongAnswer::begin(cx);
    for (member, score) in found {
        if is_nested {
            cx.out.array(2);
        }
        cx.out.bulk(member);
        if has_scores {
            cx.out.double(score);
        }
        answer.goes_on(cx).await?;
    }
    Ok(())
}

async fn union<'v>(cx: &Context<'_>, sources: &[Source<'v>], words: &Words) -> Vec<Scored<'v>> {
    let (mut found, mut pace): (Vec<Scored<'v>>, _) = (Vec::new(), Pace::default());
    for (number, source) in sources.iter().enumerate() {
        let mut all: Vec<Scored<'v>> = Vec::with_capacity(found.len().max(source.len()));
        let (mut before, mut at) = (found.into_iter().peekable(), 0);
        loop {
            let more = (at < source.len()).then(|| source.at(at));
            let more = more.map(|(member, score)| (member, words.weighed(number, score)));
            let next = match (before.peek(), more) {
                (Some(one), Some(other)) if one.0 == other.0 => {
                    let score = words.aggregate.of(one.1, other.1);
                    before.next();
                    at += 1;
                    Some((other.0, score))
                }
                (Some(one), Some(other)) if other.0 < one.0 => {
                    at += 1;
                    Some(other)
                }
                (Some(_), _) => before.next(),
                (None, other) => {
                    at += 1;
                    other
                }
            };
            let Some(next) = next else { break };
            all.push(next);
            pace.step(cx).await;
        }
        found = all;
    }
    found
}

async fn intersection<'v>(
    cx: &Context<'_>,
    sources: &[Source<'v>],
    words: &Words,
) -> Vec<Scored<'v>> {
    let (mut found, mut pace) = (Vec::new(), Pace::default());
    let smallest = sources.iter().enumerate().min_by_key(|(_, source)| source.len());
    let Some((first, smallest)) = smallest else { return found };
    'members: for at in 0..smallest.len() {
        let (member, score) = smallest.at(at);
        let mut score = words.weighed(first, score);
        for (number, source) in sources.iter().enumerate() {
            if number == first {
                continue;
            }
            pace.step(cx).await;
            let Some(other) = source.score(member) else { continue 'members };
            score = words.aggregate.of(score, words.weighed(number, other));
        }
        found.push((member, score));
    }
    found
}

async fn difference<'v>(cx: &Context<'_>, sources: &[Source<'v>]) -> Vec<Scored<'v>> {
    let (mut found, mut pace) = (Vec::new(), Pace::default());
    let Some((first, others)) = sources.split_first() else { return found };
    'members: for at in 0..first.len() {
        let (member, score) = first.at(at);
        for other in others {
            pace.step(cx).await;
            if other.score(member).is_some() {
                continue 'members;
            }
        }
        found.push((member, score));
    }
    found
}
