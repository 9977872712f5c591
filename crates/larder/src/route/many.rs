//! Many keys over several caches: each key goes to its cache, the caches look side by side, and answers come in the
//! order of the keys.

use bytes::BufMut;

use super::Route;
use crate::cache::look::copy_many;
use crate::cache::many::Missed;
use crate::cache::{Copied, Larder};
use crate::error::Error;
use crate::key::check_key;
use crate::side_by_side::together;
use crate::value::{Pinned, Value, ValueMeta};

/// The keys of one cache, and where they are among all.
struct Share<'a> {
    cache: &'a Larder,
    keys: Vec<&'a [u8]>,
    places: Vec<usize>,
}

/// What DRAM does not answer for at once, of one cache.
struct Rest<'a> {
    share: Share<'a>,
    missed: Vec<Missed>,
}

impl Rest<'_> {
    /// The answers, and their places among all keys.
    async fn go_on(&self) -> Result<Vec<(usize, Option<Value>)>, Error> {
        let found = self.share.cache.get_missed(&self.share.keys, &self.missed).await?;
        Ok(found.into_iter().map(|(at, value)| (self.share.places[at], value)).collect())
    }
}

/// Divides keys among caches, which get them in the order that they have.
///
/// # Errors
/// For the first key that cannot be one; no cache is asked then.
fn shares<'a, K: AsRef<[u8]>>(
    route: &'a impl Route,
    keys: &'a [K],
) -> Result<Vec<Share<'a>>, Error> {
    keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
    let empty = |cache| Share { cache, keys: Vec::new(), places: Vec::new() };
    let mut shares: Vec<Share<'a>> = route.caches().map(empty).collect();
    for (place, key) in keys.iter().enumerate() {
        let share = &mut shares[route.position(key.as_ref())];
        share.keys.push(key.as_ref());
        share.places.push(place);
    }
    shares.retain(|share| !share.keys.is_empty());
    debug_assert_eq!(shares.iter().map(|share| share.places.len()).sum::<usize>(), keys.len());
    Ok(shares)
}

/// Asks DRAM of all caches and shows `hit` what it has, with its place among all keys; returns the rest.
fn at_once<'a>(
    shares: Vec<Share<'a>>,
    mut hit: impl FnMut(usize, Pinned),
) -> Result<Vec<Rest<'a>>, Error> {
    let mut rests = Vec::new();
    for share in shares {
        let found = |at: usize, value| hit(share.places[at], value);
        let missed = share.cache.get_many_at_once(&share.keys, found)?;
        if !missed.is_empty() {
            rests.push(Rest { share, missed });
        }
    }
    Ok(rests)
}

/// What was missed, from all caches side by side.
async fn below(rests: &[Rest<'_>]) -> Result<Vec<(usize, Option<Value>)>, Error> {
    let answers = together(rests.iter().map(Rest::go_on)).await;
    Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// [`Larder::get_many`] over several caches.
pub(super) async fn look_up<K: AsRef<[u8]>>(
    route: &impl Route,
    keys: &[K],
    look: impl Fn(Pinned) -> Value,
) -> Result<Vec<Option<Value>>, Error> {
    let mut found = vec![None; keys.len()];
    let rests = at_once(shares(route, keys)?, |place, value| found[place] = Some(look(value)))?;
    if rests.is_empty() {
        return Ok(found);
    }
    // Whoever waits keeps what it has found.
    found.iter_mut().for_each(|value| *value = value.take().map(Value::kept));
    for (place, value) in below(&rests).await? {
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
    let rests = at_once(shares(route, keys)?, |place, value| show(place, value.for_now()))?;
    for (place, value) in below(&rests).await? {
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
