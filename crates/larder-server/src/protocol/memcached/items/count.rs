//! Increments and decrements numbers.

use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use larder::{Change, Error, SetOptions, Value};

use super::ending::let_pass;
use crate::caller::Caller;
use crate::collections::ItemKind;
use crate::keyspace::Event;
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line::number;
use crate::protocol::memcached::watched;

const UP: Event = Event::string("incrby");
const DOWN: Event = Event::string("decrby");

/// How a number changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) up: bool,
    pub(crate) delta: u64,
    /// Only if the value has this version.
    pub(crate) compare: Option<u64>,
    /// The version of the new value.
    pub(crate) version: Option<NonZeroU64>,
    /// A new lifetime for it.
    pub(crate) touch: Option<Lifetime>,
    /// If there is no value: the number to store, and its lifetime.
    pub(crate) vivify: Option<(u64, Lifetime)>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountOutcome {
    /// The new number, its version, and its remaining lifetime.
    Number {
        number: u64,
        version: u64,
        left: Option<Duration>,
    },
    NotNumeric,
    NotFound,
    /// The value has another version.
    Exists,
}

/// Changes a number, and counts the request.
pub(crate) async fn count(caller: &Caller, key: &[u8], how: Count) -> Result<CountOutcome, Error> {
    let cache = caller.cache_for(key);
    let version = how.version.unwrap_or_else(|| cache.draw_version(key));
    let now = cache.moment(key).now();
    let mut counting = Counting { how, version, now, ended: CountOutcome::NotFound };
    let touch = caller.touches(key);
    let before = caller
        .watch(
            if how.up { "incr" } else { "decr" },
            key,
            pin!(cache.update(key, |there| counting.change(there))),
        )
        .await?;
    match counting.ended {
        CountOutcome::Number { .. } => {
            touch.changed(caller.id, if how.up { &[UP] } else { &[DOWN] })
        }
        _ => touch.settles(),
    }
    watched::fetched(caller, key, before.as_ref().map(|value| value.len()));
    if let (CountOutcome::Number { number, .. }, None, Some((_, lifetime))) =
        (counting.ended, &before, how.vivify)
    {
        let digits = number.checked_ilog10().map_or(1, |last| 1 + last as usize);
        watched::stored(caller, key, ("stored", "add"), lifetime, Some(digits));
    }
    let counters = &caller.worker.counters;
    let (hits, misses) = match how.up {
        true => (&counters.incr_hits, &counters.incr_misses),
        false => (&counters.decr_hits, &counters.decr_misses),
    };
    match counting.ended {
        CountOutcome::Number { .. } if before.is_some() => hits.add(1),
        CountOutcome::Number { .. } | CountOutcome::NotFound => misses.add(1),
        CountOutcome::NotNumeric | CountOutcome::Exists => {}
    }
    if matches!(counting.ended, CountOutcome::Number { .. }) {
        let vivified = how.vivify.filter(|_| before.is_none()).map(|(_, lifetime)| lifetime);
        let_pass(caller, how.touch.or(vivified).unwrap_or(Lifetime::Endless)).await;
    }
    Ok(counting.ended)
}

impl Count {
    /// A change without a condition on the version.
    pub(crate) fn new(up: bool, delta: u64) -> Self {
        Self { up, delta, compare: None, version: None, touch: None, vivify: None }
    }
}

struct Counting {
    how: Count,
    version: NonZeroU64,
    now: Duration,
    /// Result of the latest attempt.
    ended: CountOutcome,
}

impl Counting {
    fn change(&mut self, there: Option<&Value>) -> Change<'static> {
        let Some(there) = there else {
            let Some((initial, lifetime)) = self.how.vivify else {
                self.ended = CountOutcome::NotFound;
                return Change::Keep;
            };
            return self
                .store(initial, SetOptions { ttl: lifetime.ttl(), ..SetOptions::default() });
        };
        if self.how.compare.is_some_and(|it| it == 0 || it != there.version()) {
            self.ended = CountOutcome::Exists;
            return Change::Keep;
        }
        // Other servers leave spaces behind a number that has become shorter, and accept spaces before a number.
        let is_string = ItemKind::of(there.flags()) == ItemKind::String;
        let Some(before) = number(there.trim_ascii()).filter(|_| is_string) else {
            self.ended = CountOutcome::NotNumeric;
            return Change::Keep;
        };
        let after = match self.how.up {
            true => before.wrapping_add(self.how.delta),
            false => before.saturating_sub(self.how.delta),
        };
        let meta = there.meta();
        if let Some(lifetime) = self.how.touch {
            let (ttl, flags) = (lifetime.ttl(), meta.flags);
            let (stale, won) = (meta.stale, meta.won);
            return self
                .store(after, SetOptions { ttl, flags, stale, won, ..SetOptions::default() });
        }
        self.ended = self.number(after, meta.remaining(self.now));
        Change::StoreKeepingExpiryAs(after.to_string().into_bytes().into(), self.version)
    }

    fn store(&mut self, number: u64, options: SetOptions) -> Change<'static> {
        self.ended = self.number(number, options.ttl);
        let options = SetOptions { version: Some(self.version), ..options };
        Change::Store(number.to_string().into_bytes().into(), options)
    }

    fn number(&self, number: u64, left: Option<Duration>) -> CountOutcome {
        CountOutcome::Number { number, version: self.version.get(), left }
    }
}
