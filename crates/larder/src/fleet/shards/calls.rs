//! Calls with one key over the key's places.
//!
//! A look-up asks the first place of the key's chain, and the later places on a miss. A value found there is copied
//! to the first place like the result of a fetch of that cache: so a concurrent change of the key there overtakes it.
//! A change first removes the key at the later places. Both are inside the gate of the set; only a look-up at a
//! single place need not be.
//!
//! Old homes of keys that have moved to level the wear of drives are later places too. But nothing is copied from
//! there for a look-up, which asks them before the first place: the key moves with its next change.
//!
//! If a shard is taken out while a look-up waits for it, the look-up starts again at the key's new places. A change
//! ends instead: whatever it has done there is never seen again, so it counts as made, and as evicted then. A
//! repetition could bring back a value that a caller has already seen and replaced. For the same reason a change that
//! a device could not record is not repeated: the key is removed. So no caller sees an error because one shard fails.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::live::{EpochState, LiveSet};
use super::name::name_of;
use super::places::{Chain, ShardPlace};
use crate::base::error::{Error, ErrorKind};
use crate::base::key::check_key;
use crate::cache::gate::GateEntry;
use crate::cache::{FetchError, Fetched, Larder, SetOptions};
use crate::dram::value::{PinnedValue, Value, ValueMeta};
use crate::fleet::partition::{ShardNumber, ShardStanding, ShardState};

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Number of attempts to remove a key at a shard whose device fails.
const TRIES: u32 = 3;

/// How a change depends on the existing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldValue {
    /// It does not: if it cannot be made, removing the key is just as correct.
    Replaced,
    /// It needs the existing value.
    Needed,
}

/// A key at one of its places.
pub(super) struct PlacedKey<'a> {
    pub(super) shard: ShardNumber,
    pub(super) cache: &'a Arc<Larder>,
    pub(super) name: Cow<'a, [u8]>,
}

/// The place of a change. While this exists, the places of values do not change.
pub(crate) struct ChangePlace<'a> {
    view: View<'a>,
    first: PlacedKey<'a>,
    inside: GateEntry<'a>,
    /// The key was found, and removed, at a later place.
    was_elsewhere: bool,
}

/// A change of a key.
pub(crate) struct KeyChange<'a> {
    view: View<'a>,
    key: &'a [u8],
    old: OldValue,
    failures: u32,
    was_elsewhere: bool,
}

impl ChangePlace<'_> {
    pub(crate) fn cache(&self) -> &Larder {
        self.first.cache
    }

    /// The key's name there.
    pub(crate) fn name(&self) -> &[u8] {
        &self.first.name
    }

    /// Runs the change itself; `None` if the shard was taken out in the meantime.
    pub(crate) async fn done<T>(&self, change: impl Future<Output = T>) -> Option<T> {
        self.view.while_there(&self.first, change).await
    }

    /// Whether the key was removed at a later place.
    pub(crate) fn was_elsewhere(&self) -> bool {
        self.was_elsewhere
    }
}

/// How a change has ended at its place.
enum ChangeOutcome<T> {
    Answer(T),
    /// Whatever it has done is never seen again.
    Lost,
    /// It may have been made in DRAM only.
    Failed(Error),
}

/// Why a change cannot be made yet.
enum Setback {
    /// A shard was taken out in the meantime.
    Moved,
    /// A device failed the request.
    Failed(ShardNumber, Error),
    Refused(Error),
}

/// The caches of a tenant in a set.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(super) set: &'a LiveSet,
    pub(super) tenant: usize,
}

/// How a look-up ended.
enum LookOutcome {
    Found(Value),
    Missed,
    /// The device exceeds the look-up timeout.
    Late,
}

impl<'a> KeyChange<'a> {
    /// Prepares the change. `None` if the key is too long for its name at its first place; then it has no value.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn begin(&mut self) -> Result<Option<ChangePlace<'a>>, Error> {
        let view = self.view;
        loop {
            let inside = view.set.gate.enter().await?;
            let state = view.set.state();
            let chain = state.chain(view.set.hasher.hash(self.key), self.key);
            let Some(first) = chain.first.and_then(|place| view.there(state, place, self.key))
            else {
                return Ok(None);
            };
            match self.clear_later(state, &chain, &first).await {
                Ok(()) => {
                    let was_elsewhere = self.was_elsewhere;
                    return Ok(Some(ChangePlace { view, first, inside, was_elsewhere }));
                }
                Err(Setback::Moved) => {}
                Err(Setback::Refused(error)) => return Err(error),
                Err(Setback::Failed(shard, error)) => {
                    drop(inside);
                    self.failed(shard, error, OldValue::Replaced).await?;
                }
            }
        }
    }

    /// Removes the key at the later places of its chain. If the change needs the value, copies it to the first place
    /// before.
    async fn clear_later(
        &mut self,
        state: &'a EpochState,
        chain: &Chain,
        first: &PlacedKey<'a>,
    ) -> Result<(), Setback> {
        if chain.later.is_empty() {
            return Ok(());
        }
        if self.old == OldValue::Needed {
            self.view.look_along(state, chain, first, self.key).await.map_err(Setback::Refused)?;
        }
        for place in &chain.later {
            let Some(there) = self.view.there(state, *place, self.key) else { continue };
            let removed = self.view.while_there(&there, there.cache.forget(&there.name)).await;
            match removed {
                Some(Ok(was_there)) => self.was_elsewhere |= was_there,
                None => return Err(Setback::Moved),
                Some(Err(_)) if !self.view.is_there(&there) => return Err(Setback::Moved),
                Some(Err(error)) if error.kind() == ErrorKind::Device => {
                    return Err(Setback::Failed(there.shard, error));
                }
                Some(Err(error)) => return Err(Setback::Refused(error)),
            }
        }
        Ok(())
    }

    /// The caller's answer; `None` if the change was made and its value is lost.
    ///
    /// # Errors
    /// Those of the change, except device errors, unless the shard is the last live one.
    pub(crate) async fn judge<T>(
        &mut self,
        at: ChangePlace<'a>,
        ended: Option<Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let mut failed = match self.answer_of(&at, ended)? {
            ChangeOutcome::Answer(answer) => return Ok(Some(answer)),
            ChangeOutcome::Lost => None,
            ChangeOutcome::Failed(error) => Some((at.first.shard, error)),
        };
        // Leave the gate: taking the shard out may wait for a task that waits until no call is inside.
        drop(at);
        while let Some((shard, error)) = failed.take() {
            if self.failed(shard, error, self.old).await? {
                break;
            }
            // This may remove a later caller's value, which is allowed: a cache may evict it.
            let Some(at) = self.begin().await? else { break };
            let removed = at.done(at.cache().delete(at.name())).await;
            if let ChangeOutcome::Failed(error) = self.answer_of(&at, removed)? {
                failed = Some((at.first.shard, error));
            }
        }
        self.view.set.counts.lost_changes.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    fn answer_of<T>(
        &self,
        at: &ChangePlace<'a>,
        ended: Option<Result<T, Error>>,
    ) -> Result<ChangeOutcome<T>, Error> {
        Ok(match ended {
            Some(Ok(answer)) => ChangeOutcome::Answer(answer),
            None => ChangeOutcome::Lost,
            Some(Err(_)) if !self.view.is_there(&at.first) => ChangeOutcome::Lost,
            Some(Err(error)) if error.kind() == ErrorKind::Device => ChangeOutcome::Failed(error),
            Some(Err(error)) => return Err(error),
        })
    }

    /// A device could not record what it must. If that goes on, old content might come back after a crash, so the
    /// shard is taken out.
    ///
    /// Returns whether it was taken out. Returns `false` if the change does not need the value, and the removal of
    /// the key can be tried again.
    async fn failed(
        &mut self,
        shard: ShardNumber,
        error: Error,
        old: OldValue,
    ) -> Result<bool, Error> {
        self.failures += 1;
        if old == OldValue::Replaced && self.failures < TRIES {
            return Ok(false);
        }
        // The last live shard stays, and returns its own errors.
        let out = self.view.set.fail_for_now(shard, &error.to_string()).await;
        out.map_err(|why| error.of(&format!("{shard} cannot be taken out: {why}; before that")))?;
        Ok(true)
    }
}

impl<'a> View<'a> {
    /// A change of `key`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    pub(crate) fn change(self, key: &'a [u8], old: OldValue) -> Result<KeyChange<'a>, Error> {
        check_key(key)?;
        Ok(KeyChange { view: self, key, old, failures: 0, was_elsewhere: false })
    }

    /// The key at one of its places; `None` if it is too long for its name there.
    pub(super) fn there<'k>(
        self,
        state: &'k EpochState,
        place: ShardPlace,
        key: &'k [u8],
    ) -> Option<PlacedKey<'k>> {
        let cache = state.cache(place.shard, self.tenant)?;
        Some(PlacedKey { shard: place.shard, cache, name: name_of(key, place.since)? })
    }

    /// The shard that has the key when no shard is away except retired ones.
    pub(crate) fn home_of(self, key: &[u8]) -> ShardNumber {
        let back = |standing: &ShardStanding| match standing.state {
            ShardState::Retired => *standing,
            _ => ShardStanding { state: ShardState::Healthy, ..*standing },
        };
        let chain = self.set.state().chain_among(back, self.set.hasher.hash(key), key);
        chain.first.expect("a set never loses its last shard").shard
    }

    pub(super) fn chain_of(self, key: &[u8]) -> (&'a EpochState, Chain) {
        let state = self.set.state();
        (state, state.chain(self.set.hasher.hash(key), key))
    }

    /// The chain of a key for a look-up, without old homes that do not have the key now. What they do not have now is
    /// at the first place, or is not there at all, because a key never returns to an old home.
    pub(super) fn chain_to_read(self, key: &[u8]) -> (&'a EpochState, Chain) {
        let (state, mut chain) = self.chain_of(key);
        if !chain.is_refilling {
            chain.later.retain(|place| {
                let there = self.there(state, *place, key);
                there.is_some_and(|there| there.cache.may_hold(&there.name))
            });
        }
        (state, chain)
    }

    /// The key at its current first place.
    pub(super) fn first<'k>(self, key: &'k [u8]) -> Option<PlacedKey<'k>>
    where
        'a: 'k,
    {
        let (state, chain) = self.chain_of(key);
        chain.first.and_then(|place| self.there(state, place, key))
    }

    /// Any of the caches.
    pub(super) fn any(self) -> &'a Larder {
        let mut caches = self.set.state().shards.iter();
        let any = caches.find_map(|shard| shard.caches.as_ref()?.get(self.tenant));
        any.expect("a set never loses its last shard")
    }

    /// The cache that is asked first for `key`.
    pub(super) fn cache_for(self, key: &[u8]) -> &'a Larder {
        let (state, chain) = self.chain_of(key);
        let first = chain.first.and_then(|place| state.cache(place.shard, self.tenant));
        first.map_or_else(|| self.any(), |cache| &**cache)
    }

    pub(super) fn is_there(self, there: &PlacedKey<'_>) -> bool {
        let now = self.set.state().cache(there.shard, self.tenant);
        now.is_some_and(|now| Arc::ptr_eq(now, there.cache))
    }

    pub(super) async fn while_there<T>(
        self,
        there: &PlacedKey<'_>,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.set.while_there((there.shard, self.tenant), there.cache, future).await
    }

    /// [`Larder::get`]. It waits for a device at most for the look-up timeout.
    pub(crate) async fn look_up(
        self,
        key: &[u8],
        look: impl Fn(PinnedValue) -> Value + Copy,
    ) -> Result<Option<Value>, Error> {
        Ok(match self.look(key, look).await? {
            LookOutcome::Found(value) => Some(value),
            LookOutcome::Missed | LookOutcome::Late => None,
        })
    }

    async fn look(
        self,
        key: &[u8],
        look: impl Fn(PinnedValue) -> Value + Copy,
    ) -> Result<LookOutcome, Error> {
        check_key(key)?;
        loop {
            let (state, chain) = self.chain_to_read(key);
            let Some(first) = chain.first.and_then(|place| self.there(state, place, key)) else {
                return Ok(LookOutcome::Missed);
            };
            let found = if chain.later.is_empty() {
                let found = first.cache.look_up(&first.name, look);
                self.set.in_time(self.while_there(&first, found)).await
            } else if chain.is_refilling {
                self.set.in_time(async { Some(self.look_along_now(key).await) }).await
            } else {
                self.set.in_time(self.look_at_old_homes(state, &chain, &first, key)).await
            };
            match found {
                None => return Ok(LookOutcome::Late),
                Some(None) => {}
                Some(Some(Err(_))) if !self.is_there(&first) => {}
                Some(Some(found)) => {
                    return Ok(found?.map_or(LookOutcome::Missed, LookOutcome::Found));
                }
            }
        }
    }

    /// Looks the key up at its old homes, and then at its first place. A value that an old home has is the key's value,
    /// because a change removes it there first. It stays there until the key is changed. `None` if the first place was
    /// taken out in the meantime.
    ///
    /// The old homes come first, since they may have the key: so a hit there is no miss at the first place.
    async fn look_at_old_homes(
        self,
        state: &EpochState,
        chain: &Chain,
        first: &PlacedKey<'_>,
        key: &[u8],
    ) -> Option<Result<Option<Value>, Error>> {
        if let Some(value) = self.look_later(state, chain, key).await {
            self.set.counts.old_home_gets.fetch_add(1, Ordering::Relaxed);
            return Some(Ok(Some(value)));
        }
        let found = first.cache.look_up(&first.name, PinnedValue::keep);
        self.while_there(first, found).await
    }

    /// Looks up along the key's chain, inside the gate, so that the chain does not change.
    async fn look_along_now(self, key: &[u8]) -> Result<Option<Value>, Error> {
        let _inside = self.set.gate.enter().await?;
        let (state, chain) = self.chain_of(key);
        let first = chain.first.and_then(|place| self.there(state, place, key));
        match first {
            Some(first) => self.look_along(state, &chain, &first, key).await,
            None => Ok(None),
        }
    }

    /// Looks the key up at all its places; copies what it finds to the first one. The caller is inside the gate.
    pub(super) async fn look_along(
        self,
        state: &EpochState,
        chain: &Chain,
        first: &PlacedKey<'_>,
        key: &[u8],
    ) -> Result<Option<Value>, Error> {
        let found = async {
            if let Some(value) = first.cache.look_up(&first.name, PinnedValue::keep).await? {
                return Ok(Some(value));
            }
            first.cache.copy_missed(&first.name, || self.look_later(state, chain, key)).await
        };
        match self.while_there(first, found).await {
            // The first place was taken out. The later places have no newer value, but another shard may have one.
            None => Ok(None),
            Some(Err(_)) if !self.is_there(first) => Ok(None),
            Some(found) => found,
        }
    }

    async fn look_later(self, state: &EpochState, chain: &Chain, key: &[u8]) -> Option<Value> {
        for place in &chain.later {
            let Some(there) = self.there(state, *place, key) else { continue };
            let found = there.cache.look_up(&there.name, PinnedValue::keep);
            if let Some(Ok(Some(value))) = self.while_there(&there, found).await {
                return Some(value);
            }
        }
        None
    }

    /// Copies a key that was found at a later place to its first place. Returns whether there was a value to copy.
    /// The caller is inside the gate.
    pub(super) async fn copy_home(self, state: &EpochState, chain: &Chain, key: &[u8]) -> bool {
        let Some(first) = chain.first.and_then(|place| self.there(state, place, key)) else {
            return false;
        };
        let there = self.while_there(&first, first.cache.contains(&first.name)).await;
        if !matches!(there, Some(Ok(false))) {
            return false;
        }
        let find = || async {
            for place in &chain.later {
                let Some(there) = self.there(state, *place, key) else { continue };
                let found = there.cache.peek(&there.name);
                if let Some(Ok(Some(value))) = self.while_there(&there, found).await {
                    return Some(value);
                }
            }
            None
        };
        let copied = self.while_there(&first, first.cache.copy_missed(&first.name, find)).await;
        matches!(copied, Some(Ok(Some(_))))
    }

    /// [`Larder::get_at_once_with`].
    pub(crate) fn get_at_once_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        let (state, chain) = self.chain_of(key);
        let mut look = Some(look);
        let later = chain.later.iter().filter(|_| !chain.is_refilling);
        for place in chain.first.iter().chain(later) {
            let Some(there) = self.there(state, *place, key) else { continue };
            let seen = there.cache.get_at_once_with(&there.name, |value, meta| {
                look.take().map(|look| look(value, meta))
            })?;
            if let Some(seen) = seen {
                return Ok(seen);
            }
        }
        Ok(None)
    }

    /// [`Larder::peek_with`].
    pub(crate) async fn peek_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        let mut look = Some(look);
        let (state, chain) = self.chain_to_read(key);
        for place in chain.first.iter().chain(&chain.later) {
            let Some(there) = self.there(state, *place, key) else { continue };
            let seen = there
                .cache
                .peek_with(&there.name, |value, meta| look.take().map(|look| look(value, meta)));
            match self.set.in_time(self.while_there(&there, seen)).await {
                Some(Some(Err(error))) if self.is_there(&there) => return Err(error),
                Some(Some(Ok(Some(seen)))) => return Ok(seen),
                _ => {}
            }
        }
        Ok(None)
    }

    /// [`Larder::contains`].
    pub(crate) async fn contains(self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.peek_with(key, |_, _| ()).await?.is_some())
    }

    /// [`Larder::may_read_flash`].
    pub(crate) fn may_read_flash(self, key: &[u8]) -> bool {
        let (state, chain) = self.chain_of(key);
        let mut places = chain.first.iter().chain(&chain.later);
        places.any(|place| {
            let there = self.there(state, *place, key);
            there.is_some_and(|there| there.cache.may_read_flash(&there.name))
        })
    }

    /// [`Larder::draw_version`].
    pub(crate) fn draw_version(self, key: &[u8]) -> NonZeroU64 {
        match self.first(key) {
            Some(first) => first.cache.draw_version(&first.name),
            None => self.any().draw_version(key),
        }
    }

    /// [`Larder::win`].
    pub(crate) fn win(self, key: &[u8], version: u64) -> Result<bool, Error> {
        check_key(key)?;
        let (state, chain) = self.chain_of(key);
        for place in chain.first.iter().chain(&chain.later) {
            if let Some(there) = self.there(state, *place, key)
                && there.cache.win(&there.name, version)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// [`Larder::get_or_fetch`]; a value for which `good` is false counts as missing.
    pub(crate) async fn get_or_replace<F, V, E>(
        self,
        key: &[u8],
        options: SetOptions,
        mut good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_late = match self.look(key, PinnedValue::keep).await? {
            LookOutcome::Found(value) if good(&value) => return Ok(value),
            LookOutcome::Found(_) | LookOutcome::Missed => false,
            LookOutcome::Late => true,
        };
        let mut fetch = Some(fetch);
        let has_begun = AtomicBool::new(false);
        loop {
            // A later place has a value older than the one to be fetched now.
            let at = match is_late {
                true => None,
                false => self.change(key, OldValue::Replaced)?.begin().await?,
            };
            let Some(ChangePlace { first, inside, .. }) = at else {
                // Not stored: the device is too slow, or the key is too long for its name there.
                let fetch = fetch.take().expect("it was not called before");
                let fetched = fetch().await.map_err(|error| FetchError::Fetch(error.into().into()));
                return Ok(self.any().unstored(key, &fetched?.into(), options));
            };
            // Leave the gate: a fetch may take long, and may call the cache.
            drop(inside);
            let bring = async || {
                has_begun.store(true, Ordering::Relaxed);
                let fetch = fetch.take().expect("it was not called before");
                fetch().await.map(Into::into).map_err(Into::into)
            };
            let name = &first.name;
            let bring =
                first.cache.fetch_missed::<_, Fetched, BoxedError>(name, options, &mut good, bring);
            let mut bringing = pin!(bring);
            let ended = match self.while_there(&first, bringing.as_mut()).await {
                // A fetch that has begun belongs to the caller, wherever its value is to be stored.
                None if has_begun.load(Ordering::Relaxed) => Some(bringing.await),
                ended => ended,
            };
            match ended {
                Some(Err(FetchError::Cache(_))) if !self.is_there(&first) => {}
                Some(outcome) => {
                    self.forget_if_moved(&first, key).await;
                    return outcome;
                }
                None => {}
            }
        }
    }

    /// After a fetch, which is outside the gate: if the key has got another home in the meantime, its value must not be
    /// left where a change at the new home that has ended already did not remove it.
    async fn forget_if_moved(self, fetched: &PlacedKey<'_>, key: &[u8]) {
        let now = self.first(key);
        let is_home =
            now.is_some_and(|now| (now.shard, &now.name) == (fetched.shard, &fetched.name));
        if !is_home {
            // A device that fails to record it is found failed.
            let _gone = self.while_there(fetched, fetched.cache.forget(&fetched.name)).await;
        }
    }
}
