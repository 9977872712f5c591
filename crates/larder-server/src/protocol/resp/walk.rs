//! `HSCAN`, `SSCAN`, `ZSCAN`: members of a collection, page by page.
//!
//! A cursor is a place in the order of the members' hashes, so a member that stays during a walk is found, whatever
//! comes and goes meanwhile.

use super::collection;
use super::context::{Context, no_room};
use super::number;
use super::parse::Arguments;
use super::scan;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use crate::collections::{Hash, Set, Shape, SortedSet, place_in_walk};

/// A collection with no more members is answered whole.
const WHOLE_MAX: usize = 128;

/// The words of a request.
struct Words<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: usize,
    has_values: bool,
}

impl<'a> Words<'a> {
    fn of(argv: Arguments<'a>, may_omit_values: bool) -> Result<Self, Refusal> {
        let invalid = Refusal::Says("ERR invalid cursor");
        let cursor = std::str::from_utf8(argv.get(2)).ok().and_then(|text| text.parse().ok());
        let cursor = cursor.ok_or(invalid)?;
        let mut words = Self { cursor, pattern: None, count: 10, has_values: true };
        let mut at = 3;
        while at < argv.len() {
            let value = (at + 1 < argv.len()).then(|| argv.get(at + 1));
            match (&*argv.get(at).to_ascii_uppercase(), value) {
                (b"NOVALUES", _) if may_omit_values => {
                    words.has_values = false;
                    at += 1;
                    continue;
                }
                (b"MATCH", Some(value)) => words.pattern = Some(value),
                (b"COUNT", Some(value)) => {
                    let wanted = number::integer(value).ok_or(NO_INTEGER)?;
                    words.count =
                        usize::try_from(wanted).ok().filter(|it| *it > 0).ok_or(SYNTAX)?;
                }
                _ => return Err(SYNTAX),
            }
            at += 2;
        }
        if let Some(pattern) = words.pattern {
            scan::check_pattern(pattern)?;
        }
        Ok(words)
    }
}

/// The places of the members of the next page, and the next cursor: 0 at the end.
fn page<'a>(
    members: impl Iterator<Item = &'a [u8]>,
    (cursor, count): (u64, usize),
) -> (Vec<usize>, u64) {
    let places = members.enumerate().map(|(at, member)| (place_in_walk(member), at));
    let mut left: Vec<_> = places.filter(|(place, _)| *place >= cursor).collect();
    if left.len() <= count {
        return (left.into_iter().map(|(_, at)| at).collect(), 0);
    }
    let (_, (next, _), _) = left.select_nth_unstable(count);
    let next = *next;
    // Members with the same hash stay together: those of the last hash all belong to the next page, unless there is no
    // other in this one.
    let chosen: Vec<usize> =
        left.iter().filter(|(place, _)| *place < next).map(|(_, at)| *at).collect();
    if !chosen.is_empty() {
        return (chosen, next);
    }
    (left.iter().filter(|(place, _)| *place == next).map(|(_, at)| *at).collect(), next + 1)
}

/// A member, and its value or score.
type Found = (Vec<u8>, Option<Vec<u8>>);

/// `HSCAN`.
pub(super) async fn hscan(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let words = Words::of(argv, true)?;
    let (found, next) = collection::read::<Hash, _>(cx, argv.get(1), |hash, _| {
        let (places, next) = chosen(hash.iter().map(|(field, _)| field), Hash::len(hash), &words);
        let found = places.into_iter().map(|at| hash.at(at));
        let value = |value: &[u8]| words.has_values.then(|| value.to_vec());
        let found: Vec<Found> = found.map(|(field, it)| (field.to_vec(), value(it))).collect();
        (found, next)
    })
    .await?;
    answer(cx, &words, found, next).await
}

/// `SSCAN`.
pub(super) async fn sscan(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let words = Words::of(argv, false)?;
    let (found, next) = collection::read::<Set, _>(cx, argv.get(1), |set, _| {
        let (places, next) = chosen(set.iter(), set.len(), &words);
        let found: Vec<Found> = places.into_iter().map(|at| (set.at(at).to_vec(), None)).collect();
        (found, next)
    })
    .await?;
    answer(cx, &words, found, next).await
}

/// `ZSCAN`.
pub(super) async fn zscan(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let words = Words::of(argv, false)?;
    let (found, next) = collection::read::<SortedSet, _>(cx, argv.get(1), |set, _| {
        let (places, next) = chosen(set.members(), set.len(), &words);
        let found = places.into_iter().map(|at| set.at(at));
        let text = |score| Some(number::shortest(score).into_bytes());
        let found: Vec<Found> =
            found.map(|(member, score)| (member.to_vec(), text(score))).collect();
        (found, next)
    })
    .await?;
    answer(cx, &words, found, next).await
}

fn chosen<'a>(
    members: impl Iterator<Item = &'a [u8]>,
    count: usize,
    words: &Words<'_>,
) -> (Vec<usize>, u64) {
    match count {
        0..=WHOLE_MAX => ((0..count).collect(), 0),
        _ => page(members, (words.cursor, words.count)),
    }
}

async fn answer(cx: &mut Context<'_>, words: &Words<'_>, found: Vec<Found>, next: u64) -> Outcome {
    // Once here and once in the answer.
    let mut kept = cx.caller.keep();
    let bytes_of = |(member, value): &Found| member.len() + value.as_ref().map_or(0, Vec::len);
    let bytes: usize = found.iter().map(|it| bytes_of(it) + size_of::<Found>()).sum();
    if !kept.grow(2 * bytes) {
        return Err(no_room(cx.caller));
    }
    let mut fitting = Vec::with_capacity(found.len());
    for (member, value) in found {
        let fits = match words.pattern {
            Some(pattern) => scan::fits(cx, pattern, &member).await,
            None => true,
        };
        if fits {
            fitting.push((member, value));
        }
        cx.caller.rests().await;
    }
    cx.out.array(2);
    cx.out.bulk(next.to_string());
    let values = fitting.iter().filter(|(_, value)| value.is_some()).count();
    cx.out.array(fitting.len() + values);
    for (member, value) in fitting {
        cx.out.bulk(&member);
        if let Some(value) = value {
            cx.out.bulk(value);
        }
        cx.rests_behind(&member).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_each_member_that_stays() {
        let all: Vec<Vec<u8>> = (0..1000).map(|it| format!("m{it}").into_bytes()).collect();
        for count in [1, 7, 100, 999, 1000, 5000] {
            let (mut cursor, mut seen, mut pages) = (0, std::collections::BTreeSet::new(), 0);
            loop {
                // Half of the members go and come from page to page.
                let there: Vec<&[u8]> = all
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| at % 2 == 0 || pages % 2 == 0)
                    .map(|(_, member)| &member[..])
                    .collect();
                let (places, next) = page(there.iter().copied(), (cursor, count));
                assert!(places.len() <= count.max(1), "no two of them have the same hash");
                seen.extend(places.into_iter().map(|at| there[at].to_vec()));
                (cursor, pages) = (next, pages + 1);
                if cursor == 0 {
                    break;
                }
            }
            assert!(all.iter().step_by(2).all(|member| seen.contains(member)), "{count}");
        }
    }
}
