//! Stores a value, under conditions.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use larder::{Change, Error, ErrorKind, SetOptions, Value};

use super::ending::let_pass;
use crate::caller::Caller;
use crate::collections::ItemKind;
use crate::keyspace::{EXPIRE, Event, SET};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::watched;

const APPEND: Event = Event::string("append");

/// How a new value relates to the existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

impl Mode {
    /// The name of the command, if it `compares` versions or not.
    pub(crate) fn command(self, compares: bool) -> &'static str {
        match self {
            Self::Set if compares => "cas",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
        }
    }
}

/// How a value is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) mode: Mode,
    pub(crate) flags: u32,
    pub(crate) lifetime: Lifetime,
    /// Only over the value with this version.
    pub(crate) compare: Option<u64>,
    /// Also over a newer version, as a stale value.
    pub(crate) invalidate: bool,
    /// The version of the new value.
    pub(crate) version: Option<NonZeroU64>,
    /// If there is no value to append or prepend to: store this one, with this lifetime.
    pub(crate) vivify: Option<Lifetime>,
    /// Whether the caller needs the new version.
    pub(crate) wants_version: bool,
    /// The client sent the key in base64.
    pub(crate) binary_key: bool,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreOutcome {
    /// Stored, with this version; the version is only valid if the caller asked for it.
    Stored(u64),
    NotStored,
    /// The value has another version.
    Exists,
    NotFound,
    /// The combined value is longer than allowed.
    TooLarge,
    /// The flags mark the collections of RESP, of which the value would be none.
    ReservedFlags,
}

impl StoreOutcome {
    /// The word of memcached's logger for it.
    fn status(self) -> &'static str {
        match self {
            Self::Stored(_) => "stored",
            Self::NotStored | Self::ReservedFlags => "not_stored",
            Self::Exists => "exists",
            Self::NotFound => "not_found",
            Self::TooLarge => "too_large",
        }
    }
}

/// The answer to [`StoreOutcome::ReservedFlags`].
pub(crate) fn reserved(flags: u32) -> String {
    format!(
        "CLIENT_ERROR flags = {flags}: 1281454593 to 1281454847 mark collections of RESP clients; use other flags"
    )
}

/// Stores `value` and counts the request, if that needs no wait. `false`: nothing has changed.
pub(crate) fn store_at_once(
    caller: &Caller,
    key: &[u8],
    value: &[u8],
    (flags, lifetime): (u32, Lifetime),
) -> bool {
    if lifetime == Lifetime::Over || ItemKind::of(flags) != ItemKind::String {
        return false; // it has to pass first, or is refused
    }
    let how = Store::new(Mode::Set, flags, lifetime);
    if caller.worker.shared.keyspace.wants_new() {
        return false; // whether it is new is not known here
    }
    let stored = caller.cache_for(key).set_at_once(key, value, how.options());
    let is_stored = matches!(stored, Ok(true));
    if is_stored {
        caller.work.does_bytes(value.len());
        caller.worker.counters.cmd_set.add(1);
        caller.has_changed(key, &[SET]);
        watched::stored(caller, key, ("stored", "set"), lifetime, Some(value.len()));
    }
    is_stored
}

/// Stores `value`, and counts the request.
pub(crate) async fn store(
    caller: &Caller,
    key: &[u8],
    value: &[u8],
    how: Store,
) -> Result<StoreOutcome, Error> {
    caller.worker.counters.cmd_set.add(1);
    if ItemKind::of(how.flags) != ItemKind::String {
        return Ok(StoreOutcome::ReservedFlags);
    }
    let cache = caller.cache_for(key);
    let drawn = || how.wants_version.then(|| cache.draw_version(key));
    let how = Store { version: how.version.or_else(drawn), ..how };
    let touch = caller.touches(key);
    let mut size = value.len();
    let command = how.mode.command(how.compare.is_some());
    let failed = |why: &Error| {
        let is_too_large = why.kind() == ErrorKind::InvalidInput;
        let status = if is_too_large { "too_large" } else { "no_memory" };
        watched::stored(caller, key, (status, command), how.lifetime, None);
    };
    let stored = if how.mode == Mode::Set && how.compare.is_none() {
        let set = caller.watch("set", key, pin!(cache.set_with(key, value, how.options()))).await;
        set.inspect_err(failed)?;
        how.stored()
    } else {
        let mut storing = Storing {
            how,
            value,
            now: cache.moment(key).now(),
            bytes_max: caller.worker.shared.config.value_bytes_max,
            ended: StoreOutcome::NotStored,
        };
        let before = caller
            .watch(
                how.mode.command(true),
                key,
                pin!(cache.update(key, |there| storing.change(there))),
            )
            .await
            .inspect_err(failed)?;
        let before = before.map(|there| there.len());
        watched::fetched(caller, key, before);
        size += before.filter(|_| storing.joins()).unwrap_or(0);
        storing.ended
    };
    watched::stored(caller, key, (stored.status(), command), how.lifetime, Some(size));
    match stored {
        StoreOutcome::Stored(_) => touch.changed(caller.id, how.events()),
        _ => touch.settles(),
    }
    if matches!(stored, StoreOutcome::Stored(_)) {
        let_pass(caller, how.lifetime).await;
    }
    if how.compare.is_some() {
        let counters = &caller.worker.counters;
        match stored {
            StoreOutcome::Stored(_) => counters.cas_hits.add(1),
            StoreOutcome::NotFound => counters.cas_misses.add(1),
            StoreOutcome::Exists => counters.cas_badval.add(1),
            StoreOutcome::NotStored | StoreOutcome::TooLarge | StoreOutcome::ReservedFlags => {}
        }
    }
    Ok(stored)
}

impl Store {
    /// A store without a condition on the version.
    pub(crate) fn new(mode: Mode, flags: u32, lifetime: Lifetime) -> Self {
        Self {
            mode,
            flags,
            lifetime,
            compare: None,
            invalidate: false,
            version: None,
            vivify: None,
            wants_version: false,
            binary_key: false,
        }
    }

    /// What subscribers of events are told.
    fn events(&self) -> &'static [Event] {
        match self.mode {
            Mode::Append | Mode::Prepend => &[APPEND],
            _ if self.lifetime.ttl().is_some() => &[SET, EXPIRE],
            _ => &[SET],
        }
    }

    fn options(&self) -> SetOptions {
        SetOptions {
            ttl: self.lifetime.ttl(),
            flags: self.flags,
            version: self.version,
            binary_key: self.binary_key,
            ..SetOptions::default()
        }
    }

    fn stored(&self) -> StoreOutcome {
        StoreOutcome::Stored(self.version.map_or(0, NonZeroU64::get))
    }
}

/// A store that depends on the existing value.
struct Storing<'a> {
    how: Store,
    value: &'a [u8],
    now: Duration,
    bytes_max: usize,
    /// Result of the latest attempt.
    ended: StoreOutcome,
}

impl<'a> Storing<'a> {
    /// Whether the new value is the old one and more.
    fn joins(&self) -> bool {
        let is_joined = matches!(self.how.mode, Mode::Append | Mode::Prepend);
        is_joined && matches!(self.ended, StoreOutcome::Stored(_))
    }

    fn change(&mut self, there: Option<&Value>) -> Change<'a> {
        let keep = |ended: &mut StoreOutcome, why| {
            *ended = why;
            Change::Keep
        };
        let how = self.how;
        let is_other =
            |there: &Value| how.compare.is_some_and(|it| it == 0 || it != there.version());
        match (how.mode, there) {
            (Mode::Set | Mode::Replace, None) if how.compare.is_some() => {
                keep(&mut self.ended, StoreOutcome::NotFound)
            }
            (Mode::Replace, None) | (Mode::Add, Some(_)) => {
                keep(&mut self.ended, StoreOutcome::NotStored)
            }
            (Mode::Append | Mode::Prepend, None) => match how.vivify {
                Some(lifetime) => self.store(SetOptions { ttl: lifetime.ttl(), ..how.options() }),
                None => keep(&mut self.ended, StoreOutcome::NotStored),
            },
            (Mode::Set | Mode::Replace, Some(there)) if is_other(there) => self.outdated(there),
            (Mode::Set | Mode::Add | Mode::Replace, _) => self.store(how.options()),
            (Mode::Append | Mode::Prepend, Some(there)) if is_other(there) => {
                keep(&mut self.ended, StoreOutcome::Exists)
            }
            (Mode::Append | Mode::Prepend, Some(there))
                if ItemKind::of(there.flags()) != ItemKind::String =>
            {
                keep(&mut self.ended, StoreOutcome::NotStored)
            }
            (Mode::Append, Some(there)) => self.joined(there, self.value),
            (Mode::Prepend, Some(there)) => self.joined(self.value, there),
        }
    }

    fn store(&mut self, options: SetOptions) -> Change<'a> {
        self.ended = self.how.stored();
        Change::Store(Cow::Borrowed(self.value), options)
    }

    /// The existing value has another version than the one to replace.
    fn outdated(&mut self, there: &Value) -> Change<'a> {
        let is_older = self.how.compare.is_some_and(|it| it != 0 && it < there.version());
        if !self.how.invalidate || !is_older {
            self.ended = StoreOutcome::Exists;
            return Change::Keep;
        }
        let meta = there.meta();
        let ttl = meta.remaining(self.now);
        self.store(SetOptions { ttl, stale: true, won: meta.won, ..self.how.options() })
    }

    fn joined(&mut self, head: &[u8], tail: &[u8]) -> Change<'a> {
        if head.len() + tail.len() > self.bytes_max {
            self.ended = StoreOutcome::TooLarge;
            return Change::Keep;
        }
        self.ended = self.how.stored();
        let joined = Cow::Owned([head, tail].concat());
        match self.how.version {
            Some(version) => Change::StoreKeepingExpiryAs(joined, version),
            None => Change::StoreKeepingExpiry(joined),
        }
    }
}
