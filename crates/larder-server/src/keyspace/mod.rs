//! What is told of changes of keys: to clients that keep copies of values (`CLIENT TRACKING`), and to subscribers of
//! the events of keys (`notify-keyspace-events`).
//!
//! All that changes a key tells it here: requests of both protocols, the undoing of scripts, flushes, and the removals
//! that the caches report. As long as no client tracks and no event is published, that costs one load.
//!
//! | File | Contents |
//! |---|---|
//! | `mod` | the changes of keys, and the clients that track |
//! | `follower` | a client that tracks, and where its invalidations go |
//! | `leaving` | keys that expire, are evicted or are lost |
//! | `table` | which clients remember which keys |
//! | `prefixes` | the clients that follow all keys of a prefix |
//! | `batch` | keys that one request has changed, told together |
//! | `notices` | events that wait to be published |

mod batch;
mod follower;
mod leaving;
mod notices;
mod prefixes;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::Value;

use crate::channels::Channels;
use crate::config::KeyspaceEvents;
use crate::databases::key_in;
use crate::prefixes::Prefixes;
use crate::tenant::Tenant;

pub(crate) use batch::Batch;
pub(crate) use follower::{Follower, FollowerOptions, Redirection};
pub(crate) use leaving::listener;
pub(crate) use notices::Notice;
use notices::Notices;
use prefixes::FollowedPrefixes;
use table::Table;

/// An event of a key: its class, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) class: KeyspaceEvents,
    pub(crate) name: &'static str,
}

impl Event {
    pub(crate) const fn string(name: &'static str) -> Self {
        Self { class: KeyspaceEvents::STRING, name }
    }

    pub(crate) const fn generic(name: &'static str) -> Self {
        Self { class: KeyspaceEvents::GENERIC, name }
    }
}

pub(crate) const DEL: Event = Event::generic("del");
pub(crate) const EXPIRE: Event = Event::generic("expire");
pub(crate) const SET: Event = Event { class: KeyspaceEvents::STRING, name: "set" };
const NEW: Event = Event { class: KeyspaceEvents::NEW, name: "new" };
const MISS: Event = Event { class: KeyspaceEvents::MISSES, name: "keymiss" };

/// The state word has the events in its lowest bits, and the number of clients that track above.
const EVENT_BITS: u32 = 14;
const EVENTS: u64 = (1 << EVENT_BITS) - 1;
const ONE_FOLLOWER: u64 = 1 << EVENT_BITS;

/// Most clients whose keys are dropped from a table over its limit, at one look-up.
const DROPS_A_LOOK: usize = 32;

/// What is told of changes of keys; see the module.
pub(crate) struct Keyspace {
    /// Zero as long as nothing is told.
    state: AtomicU64,
    channels: Arc<Channels>,
    /// The number of the tenant of a key by its prefix, for clients of the first tenant.
    owners: Prefixes<usize>,
    followers: Mutex<BTreeMap<u64, Arc<Follower>>>,
    table: Table,
    keys_max: AtomicUsize,
    prefixes: FollowedPrefixes,
    notices: Notices,
    /// Names that requests remove now by ending their lifetimes, with the numbers of their tenants.
    removing: Mutex<Vec<(usize, Box<[u8]>)>>,
}

/// A change of a key, as it is told.
#[derive(Clone, Copy)]
pub(crate) struct Changed<'a> {
    pub(crate) tenant: &'a Tenant,
    /// The name of the key in the cache.
    pub(crate) name: &'a [u8],
    /// The connection that has changed it.
    pub(crate) writer: u64,
    pub(crate) events: &'a [Event],
}

impl Keyspace {
    /// The keys of this number of tenants. `owners` has the number of the tenant of each prefix.
    pub(crate) fn new(
        tenants: usize,
        channels: Arc<Channels>,
        owners: Prefixes<usize>,
        (events, keys_max): (KeyspaceEvents, usize),
    ) -> Self {
        Self {
            state: AtomicU64::new(events.bits().into()),
            channels,
            owners,
            followers: Mutex::default(),
            table: Table::new(tenants),
            keys_max: AtomicUsize::new(keys_max),
            prefixes: FollowedPrefixes::default(),
            notices: Notices::default(),
            removing: Mutex::default(),
        }
    }

    /// Whether nothing is told.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::SeqCst) == 0
    }

    /// The events that are published.
    pub(crate) fn events(&self) -> KeyspaceEvents {
        let bits = self.state.load(Ordering::SeqCst) & EVENTS;
        KeyspaceEvents::of_bits(u16::try_from(bits).unwrap_or(0))
    }

    /// Publishes these events from now on.
    pub(crate) fn set_events(&self, events: KeyspaceEvents) {
        let next = |state| Some(state & !EVENTS | u64::from(events.bits()));
        let _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Most keys that clients remember together.
    pub(crate) fn keys_max(&self) -> usize {
        self.keys_max.load(Ordering::Relaxed)
    }

    /// Changes the limit. A table above it shrinks as keys are remembered.
    pub(crate) fn set_keys_max(&self, keys: usize) {
        self.keys_max.store(keys, Ordering::Relaxed);
    }

    /// Whether keys that leave the caches by themselves are told, so that the caches must report them.
    pub(crate) fn wants_removals(&self) -> bool {
        let events = self.events();
        let is_published = [KeyspaceEvents::EXPIRED, KeyspaceEvents::EVICTED];
        self.followers() > 0 || is_published.into_iter().any(|class| events.publishes(class))
    }

    /// Clients that track.
    pub(crate) fn followers(&self) -> u64 {
        self.state.load(Ordering::SeqCst) >> EVENT_BITS
    }

    /// Keys that are remembered, and how many clients remember each, summed.
    pub(crate) fn remembered(&self) -> (usize, usize) {
        self.table.counts()
    }

    /// Prefixes that clients follow.
    pub(crate) fn followed_prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Events that were dropped because too many waited to be published.
    pub(crate) fn dropped_notices(&self) -> u64 {
        self.notices.dropped()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Follower>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clients that track.
impl Keyspace {
    /// A client begins to track.
    pub(crate) fn begins(&self, follower: &Arc<Follower>) {
        if self.lock().insert(follower.id(), Arc::clone(follower)).is_none() {
            self.state.fetch_add(ONE_FOLLOWER, Ordering::SeqCst);
        }
    }

    /// A client tracks no more. Its keys are forgotten by [`Keyspace::forgets_page`].
    pub(crate) fn ends(&self, follower: &Arc<Follower>) {
        follower.ends();
        for prefix in follower.take_prefixes() {
            self.prefixes.remove(follower, &prefix);
        }
        if self.lock().remove(&follower.id()).is_some() {
            self.state.fetch_sub(ONE_FOLLOWER, Ordering::SeqCst);
        }
    }

    /// Forgets some keys of a client that tracks no more. Returns whether there may be more.
    pub(crate) fn forgets_page(&self, follower: &Follower) -> bool {
        for _ in 0..crate::channels::PAGE {
            let Some((tenant, key)) = follower.pop_key() else { return false };
            self.table.forget(tenant, &key, follower.id());
        }
        true
    }

    /// A client follows all keys of a prefix. `false`: there is no memory for it.
    pub(crate) fn follows(&self, follower: &Arc<Follower>, prefix: &[u8]) -> bool {
        let is_kept = follower.keep_prefix(prefix);
        if is_kept {
            self.prefixes.add(follower, prefix);
        }
        is_kept
    }

    /// A client is about to read a key: its next change is told to it. Call it before the read.
    pub(crate) fn remember(&self, tenant: &Tenant, name: &[u8], follower: &Arc<Follower>) {
        let key = key_in(name);
        if !self.table.remember(tenant.number, key, follower) {
            // Without memory for it, the client must not keep the value.
            follower.tell(Some(&[key.into()]), self.channels.limit());
        }
        for _ in 0..DROPS_A_LOOK {
            if self.table.counts().0 <= self.keys_max() {
                break;
            }
            let Some((key, followers)) = self.table.drop_one() else { break };
            self.tell_each(&followers, &key, None);
        }
    }

    fn tell_each(&self, followers: &[Arc<Follower>], key: &[u8], writer: Option<u64>) {
        let limit = self.channels.limit();
        for follower in followers {
            if follower.hears_of(writer) {
                follower.tell(Some(&[key.into()]), limit);
            }
        }
    }
}

/// Changes of keys.
impl Keyspace {
    /// A key has changed. Keys for clients that follow prefixes are added to `batch`; without one they are told at
    /// once.
    pub(crate) fn changed(
        self: &Arc<Self>,
        changed: Changed<'_>,
        batch: Option<&mut Option<Batch>>,
    ) {
        if self.is_idle() {
            return;
        }
        let Changed { tenant, name, writer, events } = changed;
        self.invalidates(tenant.number, key_in(name), Some(writer), batch);
        for event in events {
            self.notes(tenant, name, *event);
        }
    }

    /// Tells the clients that have copies of the value of `key`.
    fn invalidates(
        self: &Arc<Self>,
        tenant: usize,
        key: &[u8],
        writer: Option<u64>,
        batch: Option<&mut Option<Batch>>,
    ) {
        if self.followers() == 0 {
            return;
        }
        self.tell_each(&self.table.take(tenant, key), key, writer);
        if self.prefixes.len() == 0 {
            return;
        }
        let new = || Batch::new(self, writer);
        match batch {
            Some(batch) => batch.get_or_insert_with(new).add(tenant, key),
            None => new().add(tenant, key),
        }
    }

    /// Tells the clients that follow prefixes of these keys.
    fn tell_prefixes(&self, keys: &[(usize, Box<[u8]>)], writer: Option<u64>) {
        let limit = self.channels.limit();
        let owner = |key: &[u8]| self.owners.tenant_of(key).copied();
        for (followers, keys) in self.prefixes.of(keys, owner) {
            for follower in followers.iter().filter(|it| it.hears_of(writer)) {
                follower.tell(Some(&keys), limit);
            }
        }
    }

    /// A cache reports that a key has left it.
    pub(crate) fn left(self: &Arc<Self>, tenant: &Tenant, name: &[u8], event: Event) {
        let is_removed =
            |(number, key): &(usize, Box<[u8]>)| *number == tenant.number && **key == *name;
        if !self.is_idle() && !self.removing().iter().any(is_removed) {
            self.invalidates(tenant.number, key_in(name), None, None);
            self.notes(tenant, name, event);
        }
    }

    /// All keys of a tenant, or of a database of it, are gone: tells all clients to drop all copies.
    pub(crate) fn flushed(&self, tenant: usize) {
        if self.followers() == 0 {
            return;
        }
        let forgotten = self.table.take_all(tenant);
        let followers: Vec<_> = self.lock().values().cloned().collect();
        let can_see = |it: &&Arc<Follower>| {
            it.tenant() == tenant || it.tenant() == 0 && !self.owners.is_empty()
        };
        for follower in followers.iter().filter(can_see) {
            follower.tell(None, self.channels.limit());
        }
        table::drop_beside(forgotten, followers.iter().map(|it| it.take_keys(tenant)).collect());
    }

    /// The result is told when this is dropped: a flush that ends early has removed keys too.
    pub(crate) fn flushing(self: &Arc<Self>, tenant: usize) -> Flushing {
        Flushing { keyspace: Arc::clone(self), tenant }
    }

    /// A request removes a key by ending its lifetime, while the result lives: that it has expired is not told.
    pub(crate) fn removes(self: &Arc<Self>, tenant: &Tenant, name: &[u8]) -> Option<Removing> {
        let is_told = self.events().publishes(KeyspaceEvents::EXPIRED) || self.followers() > 0;
        is_told.then(|| {
            let key: (usize, Box<[u8]>) = (tenant.number, name.into());
            self.removing().push(key.clone());
            Removing { keyspace: Arc::clone(self), key }
        })
    }

    fn removing(&self) -> MutexGuard<'_, Vec<(usize, Box<[u8]>)>> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of a key begins.
    pub(crate) fn touches<'a>(
        self: &'a Arc<Self>,
        tenant: &'a Tenant,
        name: &'a [u8],
    ) -> Touch<'a> {
        Touch { keyspace: self, tenant, name, is_settled: false }
    }
}

/// Events.
impl Keyspace {
    /// A request has read a key that has no value.
    pub(crate) fn misses(&self, tenant: &Tenant, name: &[u8]) {
        if self.events().publishes(KeyspaceEvents::MISSES) {
            self.notes(tenant, name, MISS);
        }
    }

    /// A request is about to store the first value of a key.
    pub(crate) fn is_new(&self, tenant: &Tenant, name: &[u8]) {
        self.notes(tenant, name, NEW);
    }

    /// Whether the creation of keys is published.
    pub(crate) fn wants_new(&self) -> bool {
        self.events().publishes(KeyspaceEvents::NEW)
    }

    fn notes(&self, tenant: &Tenant, name: &[u8], event: Event) {
        let events = self.events();
        if events.publishes(event.class) && self.channels.has_names(tenant.number) {
            self.notices.put(Notice {
                tenant: tenant.number,
                database: tenant.databases.index_of(name),
                key: key_in(name).into(),
                event: event.name,
                events,
            });
        }
    }

    /// The next event to publish.
    pub(crate) fn poll_notice(&self, cx: &std::task::Context<'_>) -> std::task::Poll<Notice> {
        self.notices.poll(cx)
    }
}

/// A flush on its way.
pub(crate) struct Flushing {
    keyspace: Arc<Keyspace>,
    tenant: usize,
}

impl Drop for Flushing {
    fn drop(&mut self) {
        self.keyspace.flushed(self.tenant);
    }
}

/// A key that a request removes.
pub(crate) struct Removing {
    keyspace: Arc<Keyspace>,
    key: (usize, Box<[u8]>),
}

impl Drop for Removing {
    fn drop(&mut self) {
        let mut all = self.keyspace.removing();
        if let Some(at) = all.iter().position(|key| *key == self.key) {
            all.swap_remove(at);
        }
    }
}

/// A change of a key on its way. If it fails, or its connection ends in the middle, the key may have changed: copies of
/// its value are invalid then.
pub(crate) struct Touch<'a> {
    keyspace: &'a Arc<Keyspace>,
    tenant: &'a Tenant,
    name: &'a [u8],
    is_settled: bool,
}

impl Touch<'_> {
    /// It is known what came of it, and the caller tells it.
    pub(crate) fn settles(mut self) {
        self.is_settled = true;
    }

    /// The lifetime of the value that was found, if there was one, was changed.
    pub(crate) fn ends(self, writer: u64, found: &Result<Option<Value>, larder::Error>) {
        match found {
            Ok(Some(_)) => self.changed(writer, &[EXPIRE]),
            Ok(None) => self.settles(),
            Err(_) => {}
        }
    }

    /// The key has changed, for the connection `writer`.
    pub(crate) fn changed(self, writer: u64, events: &[Event]) {
        let Self { keyspace, tenant, name, .. } = self;
        keyspace.changed(Changed { tenant, name, writer, events }, None);
        self.settles();
    }
}

impl Drop for Touch<'_> {
    fn drop(&mut self) {
        if !self.is_settled && !self.keyspace.is_idle() {
            self.keyspace.invalidates(self.tenant.number, key_in(self.name), None, None);
        }
    }
}
