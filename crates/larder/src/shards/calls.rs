//! The calls of one key over its places.
//!
//! A look-up asks the first place of the key's chain, and those behind it on a miss; what is found there is copied to
//! the first one as a fetch of its cache brings a value: so whoever changes the key there meanwhile overtakes it. A
//! change removes the key at the later places first. Both are inside the gate of the set; only a look-up at a single
//! place needs not be.
//!
//! Where a shard is taken out while a look-up waits for it, that begins anew at the places that the key has then. A
//! change is over: whatever it has done there is never seen again, so it counts as made, and as evicted then. Made once
//! more it could bring back what somebody has seen of it and replaced since. For the same reason a change that a device
//! could not keep is not tried again: the key is removed. So no caller sees an error because one shard fails.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::live::{LiveSet, State};
use super::name::name_of;
use super::places::{Chain, Place, chain};
use crate::cache::gate::Inside;
use crate::cache::{FetchError, Fetched, Larder, SetOptions};
use crate::error::{Error, ErrorKind};
use crate::key::check_key;
use crate::partition::{ShardNumber, ShardState, Standing};
use crate::value::{Pinned, Value, ValueMeta};

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// A key is tried to be removed so many times at a shard whose device fails.
const TRIES: u32 = 3;

/// What a change is to the value that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Old {
    /// Nothing: removing the key is as good where it cannot be made.
    Replaced,
    /// It goes by it.
    Needed,
}

/// A key at one of its places.
pub(super) struct There<'a> {
    pub(super) shard: ShardNumber,
    pub(super) cache: &'a Arc<Larder>,
    pub(super) name: Cow<'a, [u8]>,
}

/// Where a change is made. Nobody changes where values are meanwhile.
pub(crate) struct At<'a> {
    view: View<'a>,
    first: There<'a>,
    inside: Inside<'a>,
    /// The key was somewhere else.
    was_elsewhere: bool,
}

/// A change of a key.
pub(crate) struct Change<'a> {
    view: View<'a>,
    key: &'a [u8],
    old: Old,
    failures: u32,
    was_elsewhere: bool,
}

impl At<'_> {
    pub(crate) fn cache(&self) -> &Larder {
        self.first.cache
    }

    /// What the key is called there.
    pub(crate) fn name(&self) -> &[u8] {
        &self.first.name
    }

    /// The change itself; `None` if the shard was taken out meanwhile.
    pub(crate) async fn done<T>(&self, change: impl Future<Output = T>) -> Option<T> {
        self.view.while_there(&self.first, change).await
    }

    /// Whether the key was removed somewhere else.
    pub(crate) fn was_elsewhere(&self) -> bool {
        self.was_elsewhere
    }
}

/// How a change has ended at its place.
enum Judged<T> {
    Answer(T),
    /// Whatever it has done is never seen again.
    Lost,
    /// It may have been made in DRAM alone.
    Failed(Error),
}

/// Why a change cannot be made yet.
enum Setback {
    /// A shard was taken out meanwhile.
    Moved,
    /// A device could not.
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
enum Looked {
    Found(Value),
    Missed,
    /// The device takes longer than it may.
    Late,
}

impl<'a> Change<'a> {
    /// Prepares the change. `None` if the key cannot be where it would have to be: it is too long for that. Then
    /// there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn begin(&mut self) -> Result<Option<At<'a>>, Error> {
        let view = self.view;
        loop {
            let inside = view.set.gate.enter().await?;
            let state = view.set.state();
            let chain = state.chain(view.set.hasher.hash(self.key).0);
            let Some(first) = chain.first.and_then(|place| view.there(state, place, self.key))
            else {
                return Ok(None);
            };
            match self.clear_later(state, &chain, &first).await {
                Ok(()) => {
                    let was_elsewhere = self.was_elsewhere;
                    return Ok(Some(At { view, first, inside, was_elsewhere }));
                }
                Err(Setback::Moved) => {}
                Err(Setback::Refused(error)) => return Err(error),
                Err(Setback::Failed(shard, error)) => {
                    drop(inside);
                    self.failed(shard, error, Old::Replaced).await?;
                }
            }
        }
    }

    /// Removes the key at the later places of its chain; what is needed of it there comes to the first one before.
    async fn clear_later(
        &mut self,
        state: &'a State,
        chain: &Chain,
        first: &There<'a>,
    ) -> Result<(), Setback> {
        if chain.later.is_empty() {
            return Ok(());
        }
        if self.old == Old::Needed {
            self.view.look_along(state, chain, first, self.key).await.map_err(Setback::Refused)?;
        }
        for place in &chain.later {
            let Some(there) = self.view.there(state, *place, self.key) else { continue };
            let removed = self.view.while_there(&there, there.cache.delete(&there.name)).await;
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

    /// What the caller is told; `None` if the change was made and what it stored is lost.
    ///
    /// # Errors
    /// Those of the change, but for those of a device, unless the shard is the last one that is live.
    pub(crate) async fn judge<T>(
        &mut self,
        at: At<'a>,
        ended: Option<Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let mut failed = match self.answer_of(&at, ended)? {
            Judged::Answer(answer) => return Ok(Some(answer)),
            Judged::Lost => None,
            Judged::Failed(error) => Some((at.first.shard, error)),
        };
        // Who takes the shard out may have to wait for somebody who waits until nobody is inside.
        drop(at);
        while let Some((shard, error)) = failed.take() {
            if self.failed(shard, error, self.old).await? {
                break;
            }
            // It may be somebody's who came later: a cache may evict that.
            let Some(at) = self.begin().await? else { break };
            let removed = at.done(at.cache().delete(at.name())).await;
            if let Judged::Failed(error) = self.answer_of(&at, removed)? {
                failed = Some((at.first.shard, error));
            }
        }
        self.view.set.counts.lost_changes.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    fn answer_of<T>(
        &self,
        at: &At<'a>,
        ended: Option<Result<T, Error>>,
    ) -> Result<Judged<T>, Error> {
        Ok(match ended {
            Some(Ok(answer)) => Judged::Answer(answer),
            None => Judged::Lost,
            Some(Err(_)) if !self.view.is_there(&at.first) => Judged::Lost,
            Some(Err(error)) if error.kind() == ErrorKind::Device => Judged::Failed(error),
            Some(Err(error)) => return Err(error),
        })
    }

    /// A device could not keep what it must: if it goes on so, what is there might come back after a crash. The shard
    /// is taken out then.
    ///
    /// Says whether it was. Not yet if nothing is needed of the value, and it can be tried once more to remove it.
    async fn failed(&mut self, shard: ShardNumber, error: Error, old: Old) -> Result<bool, Error> {
        self.failures += 1;
        if old == Old::Replaced && self.failures < TRIES {
            return Ok(false);
        }
        // The last one that is live stays, and says itself what it cannot do.
        let out = self.view.set.fail_for_now(shard, &error.to_string()).await;
        out.map_err(|why| error.of(&format!("{shard} cannot be taken out: {why}; before that")))?;
        Ok(true)
    }
}

impl<'a> View<'a> {
    /// A change of `key`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an impossible key.
    pub(crate) fn change(self, key: &'a [u8], old: Old) -> Result<Change<'a>, Error> {
        check_key(key)?;
        Ok(Change { view: self, key, old, failures: 0, was_elsewhere: false })
    }

    /// The key at one of its places; `None` if it is too long for its name there.
    pub(super) fn there<'k>(
        self,
        state: &'k State,
        place: Place,
        key: &'k [u8],
    ) -> Option<There<'k>> {
        let cache = state.cache(place.shard, self.tenant)?;
        Some(There { shard: place.shard, cache, name: name_of(key, place.since)? })
    }

    /// The shard that has the key when none is away but those that were retired.
    pub(crate) fn home_of(self, key: &[u8]) -> ShardNumber {
        let back = |standing: &Standing| match standing.state {
            ShardState::Retired => *standing,
            _ => Standing { state: ShardState::Healthy, ..*standing },
        };
        let shards: Vec<Standing> = self.set.state().standings.iter().map(back).collect();
        let first = chain(&shards, self.set.hasher.hash(key).0).first;
        first.expect("a set never loses its last shard").shard
    }

    pub(super) fn chain_of(self, key: &[u8]) -> (&'a State, Chain) {
        let state = self.set.state();
        (state, state.chain(self.set.hasher.hash(key).0))
    }

    /// The key at the first of its places, as things are now.
    pub(super) fn first<'k>(self, key: &'k [u8]) -> Option<There<'k>>
    where
        'a: 'k,
    {
        let (state, chain) = self.chain_of(key);
        chain.first.and_then(|place| self.there(state, place, key))
    }

    /// One of the caches.
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

    pub(super) fn is_there(self, there: &There<'_>) -> bool {
        let now = self.set.state().cache(there.shard, self.tenant);
        now.is_some_and(|now| Arc::ptr_eq(now, there.cache))
    }

    pub(super) async fn while_there<T>(
        self,
        there: &There<'_>,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.set.while_there((there.shard, self.tenant), there.cache, future).await
    }

    /// [`Larder::get`]. It waits no longer for a device than it may.
    pub(crate) async fn look_up(
        self,
        key: &[u8],
        look: impl Fn(Pinned) -> Value + Copy,
    ) -> Result<Option<Value>, Error> {
        Ok(match self.look(key, look).await? {
            Looked::Found(value) => Some(value),
            Looked::Missed | Looked::Late => None,
        })
    }

    async fn look(
        self,
        key: &[u8],
        look: impl Fn(Pinned) -> Value + Copy,
    ) -> Result<Looked, Error> {
        check_key(key)?;
        loop {
            let (state, chain) = self.chain_of(key);
            let Some(first) = chain.first.and_then(|place| self.there(state, place, key)) else {
                return Ok(Looked::Missed);
            };
            let found = if chain.later.is_empty() {
                let found = first.cache.look_up(&first.name, look);
                self.set.in_time(self.while_there(&first, found)).await
            } else {
                self.set.in_time(async { Some(self.look_along_now(key).await) }).await
            };
            match found {
                None => return Ok(Looked::Late),
                Some(None) => {}
                Some(Some(Err(_))) if !self.is_there(&first) => {}
                Some(Some(found)) => return Ok(found?.map_or(Looked::Missed, Looked::Found)),
            }
        }
    }

    /// A look-up along the chain that the key has once nobody changes it.
    async fn look_along_now(self, key: &[u8]) -> Result<Option<Value>, Error> {
        let _inside = self.set.gate.enter().await?;
        let (state, chain) = self.chain_of(key);
        let first = chain.first.and_then(|place| self.there(state, place, key));
        match first {
            Some(first) => self.look_along(state, &chain, &first, key).await,
            None => Ok(None),
        }
    }

    /// Looks the key up at all its places; what is found comes to the first one. The caller is inside.
    pub(super) async fn look_along(
        self,
        state: &State,
        chain: &Chain,
        first: &There<'_>,
        key: &[u8],
    ) -> Result<Option<Value>, Error> {
        let found = async {
            if let Some(value) = first.cache.look_up(&first.name, Pinned::keep).await? {
                return Ok(Some(value));
            }
            first.cache.copy_missed(&first.name, || self.look_later(state, chain, key)).await
        };
        match self.while_there(first, found).await {
            // It was taken out: what is left of the chain has no newer value, but others may have one.
            None => Ok(None),
            Some(Err(_)) if !self.is_there(first) => Ok(None),
            Some(found) => found,
        }
    }

    async fn look_later(self, state: &State, chain: &Chain, key: &[u8]) -> Option<Value> {
        for place in &chain.later {
            let Some(there) = self.there(state, *place, key) else { continue };
            let found = there.cache.look_up(&there.name, Pinned::keep);
            if let Some(Ok(Some(value))) = self.while_there(&there, found).await {
                return Some(value);
            }
        }
        None
    }

    /// Copies a key to its first place that was found at a later one. Says whether there was one to copy. The caller
    /// is inside.
    pub(super) async fn copy_home(self, state: &State, chain: &Chain, key: &[u8]) -> bool {
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
        let Some(first) = self.first(key) else { return Ok(None) };
        first.cache.get_at_once_with(&first.name, look)
    }

    /// [`Larder::peek_with`].
    pub(crate) async fn peek_with<T>(
        self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        let mut look = Some(look);
        let (state, chain) = self.chain_of(key);
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
        self.first(key).map_or(Ok(false), |first| first.cache.win(&first.name, version))
    }

    /// [`Larder::get_or_fetch`]; a value that is not `good` is as good as missing.
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
        let is_late = match self.look(key, Pinned::keep).await? {
            Looked::Found(value) if good(&value) => return Ok(value),
            Looked::Found(_) | Looked::Missed => false,
            Looked::Late => true,
        };
        let mut fetch = Some(fetch);
        let has_begun = AtomicBool::new(false);
        loop {
            // What a later place has is older than what is fetched now.
            let at = match is_late {
                true => None,
                false => self.change(key, Old::Replaced)?.begin().await?,
            };
            let Some(At { first, inside, .. }) = at else {
                // It would wait for the device where it is to be stored.
                let fetch = fetch.take().expect("nobody has called it");
                let fetched = fetch().await.map_err(|error| FetchError::Fetch(error.into().into()));
                return Ok(self.any().unstored(key, &fetched?.into(), options));
            };
            // A fetch may take its time, and may call the cache.
            drop(inside);
            let bring = async || {
                has_begun.store(true, Ordering::Relaxed);
                let fetch = fetch.take().expect("nobody has called it");
                fetch().await.map(Into::into).map_err(Into::into)
            };
            let name = &first.name;
            let bring =
                first.cache.fetch_missed::<_, Fetched, BoxedError>(name, options, &mut good, bring);
            let mut bringing = pin!(bring);
            let ended = match self.while_there(&first, bringing.as_mut()).await {
                // What is being fetched is the caller's, wherever it is to be stored.
                None if has_begun.load(Ordering::Relaxed) => Some(bringing.await),
                ended => ended,
            };
            match ended {
                Some(Err(FetchError::Cache(_))) if !self.is_there(&first) => {}
                Some(outcome) => return outcome,
                None => {}
            }
        }
    }
}
