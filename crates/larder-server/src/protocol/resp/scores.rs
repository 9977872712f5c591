//! `ZADD` and `ZINCRBY`.

use std::collections::HashMap;

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, steps};
use super::context::Context;
use super::events;
use super::number;
use super::parse::Arguments;
use super::write::{NO_FLOAT, Outcome, Refusal, SYNTAX};
use crate::collections::{SortedSet, SortedSetView};

/// The options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
struct Words {
    only_new: bool,
    only_there: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    increments: bool,
}

/// What came of an addition.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    new: usize,
    changed: usize,
    /// The score of the last member, unless a condition has kept it.
    score: Option<f64>,
}

impl Words {
    /// The options, and where the scores begin.
    fn of(argv: Arguments<'_>) -> Result<(Self, usize), Refusal> {
        let (mut words, mut at) = (Self::default(), 2);
        while at < argv.len() {
            match &*argv.get(at).to_ascii_uppercase() {
                b"NX" => words.only_new = true,
                b"XX" => words.only_there = true,
                b"GT" => words.only_greater = true,
                b"LT" => words.only_less = true,
                b"CH" => words.counts_changed = true,
                b"INCR" => words.increments = true,
                _ => break,
            }
            at += 1;
        }
        let pairs = argv.len() - at;
        if pairs == 0 || !pairs.is_multiple_of(2) {
            return Err(SYNTAX);
        }
        let Self { only_new, only_there, only_greater, only_less, .. } = words;
        if only_new && only_there {
            let text = "ERR XX and NX options at the same time are not compatible";
            return Err(Refusal::Says(text));
        }
        if only_greater && (only_new || only_less) || only_less && only_new {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(Refusal::Says(text));
        }
        if words.increments && pairs > 2 {
            let text = "ERR INCR option supports a single increment-element pair";
            return Err(Refusal::Says(text));
        }
        Ok((words, at))
    }

    /// The new score of a member; `None`: it stays as it is.
    fn next(self, old: Option<f64>, score: f64) -> Result<Option<f64>, Refusal> {
        if self.only_new && old.is_some() || self.only_there && old.is_none() {
            return Ok(None);
        }
        let next = if self.increments { old.unwrap_or(0.0) + score } else { score };
        if next.is_nan() {
            return Err(Refusal::Says("ERR resulting score is not a number (NaN)"));
        }
        let is_kept = old
            .is_some_and(|old| self.only_greater && next <= old || self.only_less && next >= old);
        Ok((!is_kept).then_some(next))
    }

    fn add(self, set: SortedSetView<'_>, pairs: &[(&[u8], f64)]) -> Result<(Edit, Added), Refusal> {
        let (mut added, mut changes) = (Added::default(), HashMap::new());
        for (member, score) in pairs {
            let old = changes.get(member).copied().or_else(|| set.score(member));
            added.score = self.next(old, *score)?;
            let Some(score) = added.score else { continue };
            match old {
                None => added.new += 1,
                Some(old) if old != score => added.changed += 1,
                Some(_) => continue,
            }
            changes.insert(*member, score);
        }
        if changes.is_empty() {
            return Ok((Edit::Keep, added));
        }
        let changes = changes.into_iter().map(|(member, score)| (member, Some(score)));
        Ok((Edit::Store(set.with(changes.collect())), added))
    }
}

/// `ZADD`.
pub(super) async fn add(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (words, first) = Words::of(argv)?;
    for at in (first..argv.len()).step_by(2) {
        number::fraction(argv.get(at)).ok_or(NO_FLOAT)?;
        cx.caller.rests().await;
    }
    let mut all = Added::default();
    for step in steps(argv, first, 2) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let score = |at| number::fraction(argv.get(at)).unwrap_or(0.0);
        let pairs: Vec<_> = step.step_by(2).map(|at| (argv.get(at + 1), score(at))).collect();
        if words.increments {
            cx.client.event = events::ZINCR;
        }
        let added = amend::<SortedSet, _>(cx, argv.get(1), |set| words.add(set, &pairs)).await?;
        all.new += added.new;
        all.changed += added.changed;
        all.score = added.score;
        cx.caller.rests().await;
    }
    match words.increments {
        true => cx.out.score(all.score),
        false if words.counts_changed => cx.out.count(all.new + all.changed),
        false => cx.out.count(all.new),
    }
    Ok(())
}

/// `ZINCRBY`.
pub(super) async fn increment(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let delta = number::fraction(argv.get(2)).ok_or(NO_FLOAT)?;
    let words = Words { increments: true, ..Words::default() };
    let pairs = [(argv.get(3), delta)];
    let added = amend::<SortedSet, _>(cx, argv.get(1), |set| words.add(set, &pairs)).await?;
    cx.out.score(added.score);
    Ok(())
}
