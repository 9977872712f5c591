//! Commands of lists.

use super::collection::{Edit, LOOKUPS_A_UNIT, amend, read, steps};
use super::command::Does;
use super::context::Context;
use super::events;
use super::number;
use super::parse::Arguments;
use super::score_ranges::places;
use super::set_algebra::keys_before_words;
use super::sorted_sets::{count_of, positive};
use super::write::{NO_INTEGER, NO_SUCH_KEY, Outcome, Refusal, SYNTAX, Writer};
use crate::collections::{Encoded, List, ListView};
use crate::databases::key_in;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Head,
    Tail,
}

impl Side {
    /// The word of a request.
    pub(super) fn of(word: &[u8]) -> Result<Self, Refusal> {
        match &*word.to_ascii_uppercase() {
            b"LEFT" => Ok(Self::Head),
            b"RIGHT" => Ok(Self::Tail),
            _ => Err(SYNTAX),
        }
    }
}

/// Runs a command of lists.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let key = argv.get(1);
    match does {
        Does::Lpush | Does::Lpushx => push(cx, argv, Side::Head, does == Does::Lpushx).await,
        Does::Rpush | Does::Rpushx => push(cx, argv, Side::Tail, does == Does::Rpushx).await,
        Does::Lpop => pop(cx, argv, Side::Head).await,
        Does::Rpop => pop(cx, argv, Side::Tail).await,
        Does::Llen => read::<List, _>(cx, key, |list, out| out.count(list.len())).await,
        Does::Lindex => index(cx, argv).await,
        Does::Lrange => range(cx, argv).await,
        Does::Lset => set(cx, argv).await,
        Does::Linsert => insert(cx, argv).await,
        Does::Lrem => remove(cx, argv).await,
        Does::Ltrim => trim(cx, argv).await,
        Does::Lpos => super::list_search::position(cx, argv).await,
        Does::Rpoplpush => {
            let moved = transfer(cx, (key, argv.get(2)), (Side::Tail, Side::Head)).await?;
            told(moved, &mut cx.out);
            Ok(())
        }
        Does::Lmove => {
            let sides = (Side::of(argv.get(3))?, Side::of(argv.get(4))?);
            let moved = transfer(cx, (key, argv.get(2)), sides).await?;
            told(moved, &mut cx.out);
            Ok(())
        }
        _ => pop_first(cx, argv).await,
    }
}

/// Writes an element, or null.
pub(super) fn told(element: Option<Vec<u8>>, out: &mut Writer<'_>) {
    match element {
        Some(element) => out.bulk(element),
        None => out.null(),
    }
}

/// The list with more elements at an end, the last of them outermost.
fn pushed(list: ListView<'_>, side: Side, elements: &[&[u8]]) -> Encoded {
    match side {
        Side::Head => list.with(0..0, elements.iter().rev().copied()),
        Side::Tail => list.with(list.len()..list.len(), elements.iter().copied()),
    }
}

/// `LPUSH`, `RPUSH`, `LPUSHX`, `RPUSHX`.
async fn push(cx: &mut Context<'_>, argv: Arguments<'_>, side: Side, only_there: bool) -> Outcome {
    let mut length = 0;
    for step in steps(argv, 2, 1) {
        cx.caller.work.does(step.len() / LOOKUPS_A_UNIT);
        let elements: Vec<_> = step.map(|at| argv.get(at)).collect();
        length = amend::<List, _>(cx, argv.get(1), |list| {
            if only_there && list.len() == 0 {
                return Ok((Edit::Keep, 0));
            }
            let next = pushed(list, side, &elements);
            let length = next.members();
            Ok((Edit::Store(next), length))
        })
        .await?;
        cx.caller.rests().await;
    }
    cx.out.count(length);
    Ok(())
}

/// Takes up to `count` elements from an end of the list of `key`, the outermost first. `None`: there is no list.
pub(super) async fn take(
    cx: &mut Context<'_>,
    key: &[u8],
    (side, count): (Side, usize),
) -> Result<Option<Vec<Vec<u8>>>, Refusal> {
    cx.client.event = if side == Side::Head { events::LPOP } else { events::RPOP };
    amend::<List, _>(cx, key, |list| {
        let (length, count) = (list.len(), count.min(list.len()));
        if count == 0 {
            return Ok((Edit::Keep, (length > 0).then(Vec::new)));
        }
        let (taken, kept) = match side {
            Side::Head => (0..count, count..length),
            Side::Tail => (length - count..length, 0..length - count),
        };
        let mut elements: Vec<_> = taken.map(|at| list.at(at).to_vec()).collect();
        if side == Side::Tail {
            elements.reverse();
        }
        Ok((Edit::Store(list.part(kept)), Some(elements)))
    })
    .await
}

/// `LPOP`, `RPOP`.
async fn pop(cx: &mut Context<'_>, argv: Arguments<'_>, side: Side) -> Outcome {
    let count = match argv.len() {
        2 => None,
        3 => Some(positive(argv.get(2))?),
        _ => {
            let name = if side == Side::Head { "lpop" } else { "rpop" };
            return Err(super::context::wrong_arity(name));
        }
    };
    let taken = take(cx, argv.get(1), (side, count.unwrap_or(1))).await?;
    match (count, taken) {
        (None, taken) => told(taken.and_then(|mut taken| taken.pop()), &mut cx.out),
        (Some(_), None) => cx.out.null_array(),
        (Some(_), Some(elements)) => {
            cx.out.array(elements.len());
            elements.iter().for_each(|element| cx.out.bulk(element));
        }
    }
    Ok(())
}

/// The place of the element at `at`, which counts from the end if it is negative.
fn place(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 { at.checked_add(i64::try_from(length).ok()?)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// `LINDEX`.
async fn index(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let at = number::integer(argv.get(2));
    // A wrong number is told only if there is a list.
    read::<List, _>(cx, argv.get(1), |list, out| {
        match at {
            None if list.len() > 0 => return Err(NO_INTEGER),
            at => match at.and_then(|at| place(at, list.len())) {
                Some(at) => out.bulk(list.at(at)),
                None => out.null(),
            },
        }
        Ok(())
    })
    .await?
}

/// The range of a request.
fn range_of(argv: Arguments<'_>) -> Result<(i64, i64), Refusal> {
    let ends = (number::integer(argv.get(2)), number::integer(argv.get(3)));
    let (Some(first), Some(last)) = ends else { return Err(NO_INTEGER) };
    Ok((first, last))
}

/// `LRANGE`.
async fn range(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (first, last) = range_of(argv)?;
    read::<List, _>(cx, argv.get(1), |list, out| {
        let places = places(first, last, list.len());
        out.array(places.len());
        places.for_each(|at| out.bulk(list.at(at)));
    })
    .await
}

/// `LSET`.
async fn set(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (key, element) = (argv.get(1), argv.get(3));
    let at = number::integer(argv.get(2)).ok_or(NO_INTEGER);
    let mut at = Some(at);
    // A wrong number is told only if there is a list.
    let is_there = read::<List, _>(cx, key, |list, _| list.len() > 0).await?;
    let at = match at.take() {
        Some(at) if is_there => at?,
        _ => return Err(NO_SUCH_KEY),
    };
    amend::<List, _>(cx, key, |list| {
        if list.len() == 0 {
            return Err(NO_SUCH_KEY);
        }
        let refusal = Refusal::Says("ERR index out of range");
        let at = place(at, list.len()).ok_or(refusal)?;
        Ok((Edit::Store(list.with(at..at + 1, std::iter::once(element))), ()))
    })
    .await?;
    cx.out.ok();
    Ok(())
}

/// `LINSERT`.
async fn insert(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let behind = match &*argv.get(2).to_ascii_uppercase() {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return Err(SYNTAX),
    };
    let (pivot, element) = (argv.get(3), argv.get(4));
    let length = amend::<List, _>(cx, argv.get(1), |list| {
        let Some(at) = list.iter().position(|it| it == pivot) else {
            return Ok((Edit::Keep, if list.len() == 0 { 0 } else { -1 }));
        };
        let at = at + behind;
        let next = list.with(at..at, std::iter::once(element));
        let length = i64::try_from(next.members()).unwrap_or(i64::MAX);
        Ok((Edit::Store(next), length))
    });
    let length = length.await?;
    cx.out.integer(length);
    Ok(())
}

/// `LREM`.
async fn remove(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let count = number::integer(argv.get(2)).ok_or(NO_INTEGER)?;
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let most = if most == 0 { usize::MAX } else { most };
    let element = argv.get(3);
    let removed = amend::<List, _>(cx, argv.get(1), |list| {
        let found = list.iter().enumerate().filter(|(_, it)| *it == element).map(|(at, _)| at);
        let places: Vec<_> = if count < 0 {
            let mut last: Vec<_> = found.rev().take(most).collect();
            last.reverse();
            last
        } else {
            found.take(most).collect()
        };
        Ok(match places.len() {
            0 => (Edit::Keep, 0),
            removed => (Edit::Store(list.without(&places)), removed),
        })
    });
    let removed = removed.await?;
    cx.out.count(removed);
    Ok(())
}

/// `LTRIM`.
async fn trim(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (first, last) = range_of(argv)?;
    amend::<List, _>(cx, argv.get(1), |list| {
        let kept = places(first, last, list.len());
        if kept.len() == list.len() {
            return Ok((Edit::Keep, ()));
        }
        Ok((Edit::Store(list.part(kept)), ()))
    })
    .await?;
    cx.out.ok();
    Ok(())
}

/// Takes an element from an end of a list and puts it at an end of another, or of the same. `None`: there is no list
/// to take it from. The caller holds the turns of the tenants.
pub(super) async fn transfer(
    cx: &mut Context<'_>,
    (from, to): (&[u8], &[u8]),
    (taken, put): (Side, Side),
) -> Result<Option<Vec<u8>>, Refusal> {
    let put_event = if put == Side::Head { events::LPUSH } else { events::RPUSH };
    cx.client.event = put_event;
    if from == to {
        return amend::<List, _>(cx, from, |list| {
            let at = match taken {
                Side::Head => 0,
                Side::Tail => list.len().saturating_sub(1),
            };
            if list.len() == 0 {
                return Ok((Edit::Keep, None));
            }
            let element = list.at(at);
            let all = (0..list.len()).filter(|other| *other != at).map(|other| list.at(other));
            let next = match put {
                Side::Head => list.with(0..list.len(), std::iter::once(element).chain(all)),
                Side::Tail => list.with(0..list.len(), all.chain(std::iter::once(element))),
            };
            Ok((Edit::Store(next), Some(element.to_vec())))
        })
        .await;
    }
    let first = read::<List, _>(cx, from, |list, _| {
        let at = if taken == Side::Head { Some(0) } else { list.len().checked_sub(1) };
        at.filter(|at| *at < list.len()).map(|at| list.at(at).to_vec())
    });
    let Some(first) = first.await? else { return Ok(None) };
    // A wrong type, and a list without room for one more element, are found before the element is taken.
    amend::<List, _>(cx, to, |list| Ok((Edit::Store(pushed(list, put, &[&first])), ()))).await?;
    let moved = take(cx, from, (taken, 1)).await?.and_then(|mut taken| taken.pop());
    if moved.as_ref() == Some(&first) {
        return Ok(moved);
    }
    cx.client.event = put_event;
    // Another client was faster: the element that was put is replaced by the one that was taken, if there was one.
    amend::<List, _>(cx, to, |list| {
        let at = match put {
            Side::Head => list.iter().position(|it| it == first),
            Side::Tail => list.iter().rposition(|it| it == first),
        };
        let Some(at) = at else { return Ok((Edit::Keep, ())) };
        Ok((Edit::Store(list.with(at..at + 1, moved.as_deref().into_iter())), ()))
    })
    .await?;
    Ok(moved)
}

/// What `LMPOP` and `BLMPOP` ask: the places of the keys, and what is taken.
pub(super) fn pop_words(
    argv: Arguments<'_>,
    at: usize,
) -> Result<(std::ops::Range<usize>, (Side, usize)), Refusal> {
    let (keys, at) = keys_before_words(argv, at)?;
    if at >= argv.len() {
        return Err(SYNTAX);
    }
    let side = Side::of(argv.get(at))?;
    Ok((keys, (side, count_of(argv, at + 1)?)))
}

/// `LMPOP`. The caller holds the turns of the tenants.
async fn pop_first(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let (keys, what) = pop_words(argv, 1)?;
    for at in keys {
        let key = argv.get(at);
        if let Some(elements) = take(cx, key, what).await? {
            tell_popped(key, &elements, &mut cx.out);
            return Ok(());
        }
        cx.rests_behind(key).await;
    }
    cx.out.null_array();
    Ok(())
}

/// Writes the answer of `LMPOP` and `BLMPOP`.
pub(super) fn tell_popped(key: &[u8], elements: &[Vec<u8>], out: &mut Writer<'_>) {
    out.array(2);
    out.bulk(key_in(key));
    out.array(elements.len());
    elements.iter().for_each(|element| out.bulk(element));
}
