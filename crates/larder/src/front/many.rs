//! Many keys over several caches: each key goes to its cache, the caches look side by side, and answers come in the
//! order of the keys.

use bytes::BufMut;

use super::route::Route;
use crate::cache::look::copy_many;
use crate::cache::many::Missed;
use crate::cache::{Copied, Larder};
use crate::error::Error;
use crate::key::check_key;
use crate::side_by_side::together;
use crate::value::{Pinned, Value, ValueMeta};

/// The keys of one cache, and where they are among all.
struct Group<'a> {
    cache: &'a Larder,
    keys: Vec<&'a [u8]>,
    places: Vec<usize>,
}

/// What DRAM does not answer for at once, of one cache.
struct Unanswered<'a> {
    group: Group<'a>,
    missed: Vec<Missed>,
}

impl Unanswered<'_> {
    /// The answers, and their places among all keys.
    async fn go_on(&self) -> Result<Vec<(usize, Option<Value>)>, Error> {
        let found = self.group.cache.get_missed(&self.group.keys, &self.missed).await?;
        Ok(found.into_iter().map(|(at, value)| (self.group.places[at], value)).collect())
    }
}

/// Divides keys among caches, which get them in the order that they have.
///
/// # Errors
/// For the first key that cannot be one; no cache is asked then.
fn groups<'a, K: AsRef<[u8]>>(
    route: &'a impl Route,
    keys: &'a [K],
) -> Result<Vec<Group<'a>>, Error> {
    keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
    let empty = |cache| Group { cache, keys: Vec::new(), places: Vec::new() };
    let mut groups: Vec<Group<'a>> = route.caches().map(empty).collect();
    for (place, key) in keys.iter().enumerate() {
        let group = &mut groups[route.position(key.as_ref())];
        group.keys.push(key.as_ref());
        group.places.push(place);
    }
    groups.retain(|group| !group.keys.is_empty());
    debug_assert_eq!(groups.iter().map(|group| group.places.len()).sum::<usize>(), keys.len());
    Ok(groups)
}

/// Asks DRAM of all caches and shows `hit` what it has, with its place among all keys; returns the rest.
fn at_once<'a>(
    groups: Vec<Group<'a>>,
    mut hit: impl FnMut(usize, Pinned),
) -> Result<Vec<Unanswered<'a>>, Error> {
    let mut unanswered = Vec::new();
    for group in groups {
        let found = |at: usize, value| hit(group.places[at], value);
        let missed = group.cache.get_many_at_once(&group.keys, found)?;
        if !missed.is_empty() {
            unanswered.push(Unanswered { group, missed });
        }
    }
    Ok(unanswered)
}

/// What was missed, from all caches side by side.
async fn below(unanswered: &[Unanswered<'_>]) -> Result<Vec<(usize, Option<Value>)>, Error> {
    let answers = together(unanswered.iter().map(Unanswered::go_on)).await;
    Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// [`Larder::get_many`] over several caches.
pub(super) async fn look_up<K: AsRef<[u8]>>(
    route: &impl Route,
    keys: &[K],
    look: impl Fn(Pinned) -> Value,
) -> Result<Vec<Option<Value>>, Error> {
    let mut found = vec![None; keys.len()];
    let unanswered =
        at_once(groups(route, keys)?, |place, value| found[place] = Some(look(value)))?;
    if unanswered.is_empty() {
        return Ok(found);
    }
    // Whoever waits keeps what it has found.
    found.iter_mut().for_each(|value| *value = value.take().map(Value::kept));
    for (place, value) in below(&unanswered).await? {
        found[place] = value;
    }
    Ok(found)
}

/// [`Larder::get_many_with`] over several caches.
pub(super) async fn show<K: AsRef<[u8]>>(
    route: &impl Route,
    keys: &[K],
    mut look: impl FnMut(usize, &[u8], ValueMeta),
) -> Result<usize, Error> {
    let mut hits = 0;
    let mut show = |place: usize, value: Value| {
        hits += 1;
        look(place, &value, value.meta());
    };
    let unanswered = at_once(groups(route, keys)?, |place, value| show(place, value.for_now()))?;
    for (place, value) in below(&unanswered).await? {
        if let Some(value) = value {
            show(place, value);
        }
    }
    Ok(hits)
}

/// [`Larder::get_many_into`] over several caches.
pub(super) async fn copy<K: AsRef<[u8]>>(
    route: &impl Route,
    keys: &[K],
    buffer: &mut impl BufMut,
) -> Result<Vec<Option<Copied>>, Error> {
    copy_many(&look_up(route, keys, Pinned::for_now).await?, buffer)
}
