//! `SORT`, `SORT_RO`: the members of a list, a set or a sorted set in an order, which other keys may give.

use std::cmp::Ordering;
use std::ops::Range;

use super::collection::{Copied, LongAnswer, WRONG_TYPE, copied, is_string, replace, sorted};
use super::command::Does;
use super::context::{Context, no_room};
use super::parse::Arguments;
use super::turns;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use super::{expiry, number};
use crate::account::KeptBytes;
use crate::collections::{Hash, ItemKind, Kind, List, Set, Shape, SortedSet};

/// A name with a place for a member: `weight_*`, or `object_*->field`.
#[derive(Clone, Copy, Debug)]
struct Pattern<'a> {
    before: &'a [u8],
    behind: &'a [u8],
    field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    /// `None`: there is no place for a member.
    fn of(text: &'a [u8]) -> Option<Self> {
        let star = text.iter().position(|byte| *byte == b'*')?;
        let (before, rest) = (text.get(..star)?, text.get(star + 1..)?);
        let arrow = rest.windows(2).position(|pair| pair == b"->");
        let arrow = arrow.filter(|at| at + 2 < rest.len());
        let (behind, field) = match arrow {
            Some(at) => (rest.get(..at)?, rest.get(at + 2..)),
            None => (rest, None),
        };
        Some(Self { before, behind, field })
    }

    /// The value of its key or field for a member, if there is one.
    async fn value(self, cx: &Context<'_>, member: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let key = cx.name_of(&[self.before, member, self.behind].concat());
        let cache = cx.cache(&key);
        let now = expiry::millis_since_1970(cx.wall(&key));
        let found = cache.get_with(&key, |value, meta| match self.field {
            None => is_string(meta.flags).then(|| value.to_vec()),
            Some(field) => {
                let is_hash = ItemKind::of(meta.flags) == ItemKind::Collection(Kind::Hash);
                let hash = is_hash.then(|| Hash::parse(value).ok()).flatten();
                hash.and_then(|hash| hash.get_alive(field, now)).map(<[u8]>::to_vec)
            }
        });
        let found = found.await?.flatten();
        cx.rests_behind(&key).await;
        Ok(found)
    }
}

/// The words of a request.
struct Words<'a> {
    /// `None`: by the members themselves. `Some(None)`: they stay in their order.
    by: Option<Option<Pattern<'a>>>,
    limit: Option<(i64, i64)>,
    /// What is told of a member; `None`: the member.
    gets: Vec<&'a [u8]>,
    is_reverse: bool,
    by_text: bool,
    store: Option<&'a [u8]>,
}

impl<'a> Words<'a> {
    fn of(does: Does, argv: Arguments<'a>) -> Result<Self, Refusal> {
        let mut words = Self {
            by: None,
            limit: None,
            gets: Vec::new(),
            is_reverse: false,
            by_text: false,
            store: None,
        };
        let mut at = 2;
        while at < argv.len() {
            let left = argv.len() - at - 1;
            match &*argv.get(at).to_ascii_uppercase() {
                b"ASC" => words.is_reverse = false,
                b"DESC" => words.is_reverse = true,
                b"ALPHA" => words.by_text = true,
                b"LIMIT" if left >= 2 => {
                    let of = |at| number::integer(argv.get(at)).ok_or(NO_INTEGER);
                    words.limit = Some((of(at + 1)?, of(at + 2)?));
                    at += 2;
                }
                b"BY" if left >= 1 => {
                    words.by = Some(Pattern::of(argv.get(at + 1)));
                    at += 1;
                }
                b"GET" if left >= 1 => {
                    words.gets.push(argv.get(at + 1));
                    at += 1;
                }
                b"STORE" if left >= 1 && does == Does::Sort => {
                    words.store = Some(argv.get(at + 1));
                    at += 1;
                }
                _ => return Err(SYNTAX),
            }
            at += 1;
        }
        Ok(words)
    }

    /// Whether the members stay in the order in which they are.
    fn keeps_order(&self) -> bool {
        matches!(self.by, Some(None))
    }

    /// The places of the answer among `count` members in order.
    fn page(&self, count: usize) -> Range<usize> {
        let Some((first, most)) = self.limit else { return 0..count };
        let first = usize::try_from(first.max(0)).unwrap_or(usize::MAX).min(count);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        first..first.saturating_add(most).min(count)
    }
}

/// What a member is sorted by.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

impl Weight {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => {
                one.partial_cmp(other).unwrap_or(Ordering::Equal)
            }
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

/// `SORT`, `SORT_RO`. `has_turn`: the caller holds the turns of the tenants.
pub(super) async fn run(
    cx: &mut Context<'_>,
    does: Does,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let mut words = Words::of(does, argv)?;
    let has_patterns = words.by.is_some_and(|by| by.is_some()) || !words.gets.is_empty();
    if has_patterns && cx.caller.worker.shared.config.cluster.is_some() {
        return Err(Refusal::Says("ERR BY and GET options of SORT are denied in cluster mode"));
    }
    let keys = || std::iter::once(argv.get(1)).chain(words.store);
    let _turns = match has_turn {
        true => None,
        false => Some(turns::take(cx.caller, keys).await),
    };
    let source = copied(cx, argv.get(1)).await?;
    let (members, kept) = members_of(cx, &source, &mut words)?;
    let order = in_order(cx, &members, &words, kept).await?;
    let page = order.get(words.page(order.len())).unwrap_or_default();
    let chosen: Vec<&[u8]> = page.iter().filter_map(|at| members.get(*at)).copied().collect();
    match words.store {
        Some(key) => store(cx, key, &chosen, &words).await,
        None => answer(cx, &chosen, &words).await,
    }
}

/// The members of a collection, in its order, and the memory that they and their places take.
fn members_of<'v>(
    cx: &Context<'_>,
    source: &'v Copied,
    words: &mut Words<'_>,
) -> Result<(Vec<&'v [u8]>, KeptBytes), Refusal> {
    /// Bytes for a member, its place twice, and its weight.
    const BYTES: usize = size_of::<&[u8]>() + 2 * size_of::<usize>() + size_of::<Weight>();
    let mut kept = cx.caller.keep();
    let mut room = |members: usize| {
        if kept.grow(BYTES * members) { Ok(()) } else { Err(no_room(cx.caller)) }
    };
    let members: Vec<&[u8]> = match source.kind() {
        None => Vec::new(),
        Some(ItemKind::Collection(Kind::List)) => {
            let list = source.view::<List>()?;
            room(list.len())?;
            list.iter().collect()
        }
        Some(ItemKind::Collection(Kind::Set)) => {
            let set = source.view::<Set>()?;
            room(set.len())?;
            set.iter().collect()
        }
        Some(ItemKind::Collection(Kind::SortedSet)) => {
            let set = source.view::<SortedSet>()?;
            room(set.len())?;
            (0..set.len()).map(|rank| set.ranked(rank).0).collect()
        }
        Some(_) => return Err(WRONG_TYPE),
    };
    let is_set = source.kind() == Some(ItemKind::Collection(Kind::Set));
    if is_set && words.keeps_order() && words.store.is_some() {
        // A set has no order of its own: what is stored is sorted.
        (words.by, words.by_text) = (None, true);
    }
    Ok((members, kept))
}

/// The places of the members in the order that the request asks for.
async fn in_order(
    cx: &Context<'_>,
    members: &[&[u8]],
    words: &Words<'_>,
    mut kept: KeptBytes,
) -> Result<Vec<usize>, Refusal> {
    let mut places: Vec<usize> = (0..members.len()).collect();
    if words.keeps_order() {
        if words.is_reverse {
            places.reverse();
        }
        return Ok(places);
    }
    let mut weights = Vec::with_capacity(members.len());
    for member in members {
        let text = match words.by {
            Some(Some(pattern)) => pattern.value(cx, member).await?,
            _ if words.by_text => None,
            _ => Some(member.to_vec()),
        };
        if !kept.grow(text.as_ref().map_or(0, Vec::len)) {
            return Err(no_room(cx.caller));
        }
        weights.push(match (words.by_text, text) {
            (true, text) => Weight::Text(text),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => {
                let refusal = "ERR One or more scores can't be converted into double";
                Weight::Number(number::fraction(&text).ok_or(Refusal::Says(refusal))?)
            }
        });
        cx.rests_behind(member).await;
    }
    let places = sorted(cx, places, |one, other| {
        let by_weight = weights[*one].cmp(&weights[*other]);
        let order = by_weight.then_with(|| members[*one].cmp(members[*other]));
        if words.is_reverse { order.reverse() } else { order }
    });
    Ok(places.await)
}

/// What is told of a member by a word behind `GET`.
async fn told(cx: &Context<'_>, member: &[u8], get: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    match Pattern::of(get) {
        _ if get == b"#" => Ok(Some(member.to_vec())),
        Some(pattern) => pattern.value(cx, member).await,
        None => Ok(None),
    }
}

async fn answer(cx: &mut Context<'_>, members: &[&[u8]], words: &Words<'_>) -> Outcome {
    cx.out.array(members.len() * words.gets.len().max(1));
    let mut answer = LongAnswer::begin(cx);
    for member in members {
        if words.gets.is_empty() {
            cx.out.bulk(member);
        }
        for get in &words.gets {
            match told(cx, member, get).await? {
                Some(value) => cx.out.bulk(value),
                None => cx.out.null(),
            }
        }
        answer.goes_on(cx).await?;
    }
    Ok(())
}

async fn store(cx: &mut Context<'_>, key: &[u8], members: &[&[u8]], words: &Words<'_>) -> Outcome {
    let (mut values, mut kept) = (Vec::new(), cx.caller.keep());
    for member in members {
        for get in &words.gets {
            let value = told(cx, member, get).await?.unwrap_or_default();
            if !kept.grow(value.len() + size_of::<Vec<u8>>()) {
                return Err(no_room(cx.caller));
            }
            values.push(value);
        }
    }
    let list = match words.gets.is_empty() {
        true => List::empty().with(0..0, members.iter().copied()),
        false => List::empty().with(0..0, values.iter().map(|value| &value[..])),
    };
    let count = list.members();
    replace(cx, key, (Kind::List, list)).await?;
    cx.out.count(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_a_place_and_perhaps_a_field() {
        let of = |text: &'static str| {
            let found = Pattern::of(text.as_bytes())?;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            Some((text(found.before), text(found.behind), found.field.map(text)))
        };
        let pair = |before: &str, behind: &str| (before.to_owned(), behind.to_owned());
        let is = |text, (before, behind): (String, String), field: Option<&str>| {
            assert_eq!(of(text), Some((before, behind, field.map(str::to_owned))), "{text}");
        };
        is("w_*", pair("w_", ""), None);
        is("a*b*", pair("a", "b*"), None);
        is("o:*->f", pair("o:", ""), Some("f"));
        is("o:*x->f", pair("o:", "x"), Some("f"));
        is("o:*->", pair("o:", "->"), None);
        assert_eq!(of("nosort"), None);
    }
}
