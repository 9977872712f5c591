//! Channels: messages from a client that publishes to the clients that have subscribed.
//!
//! A message goes to the inbox of each subscriber at once, and the worker of the subscriber sends it. A name belongs to
//! a tenant: clients of other tenants do not hear what is published there. Nothing is stored: a message without
//! subscribers is gone, and so is one whose subscriber is over its limit ([`OutputLimit`]).
//!
//! A name has subscribers of three kinds, which do not meet: channels, patterns of channels, and sharded channels,
//! which a cluster keeps on the server of their slot.

mod inbox;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use inbox::{Inbox, Invalidated, Mail, Message, OutputLimit, Post};

/// Names or subscribers that are looked at under one lock.
pub(crate) const PAGE: usize = 128;

/// What a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    /// All channels that a glob pattern describes.
    Pattern,
    /// A channel of `SSUBSCRIBE`.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

/// Subscribers by the number of their connection.
type Subscribers = BTreeMap<u64, Arc<Inbox>>;
/// Subscribers by name.
type Names = BTreeMap<Box<[u8]>, Subscribers>;

/// The names of all tenants, with their subscribers. No name is without subscribers.
pub(crate) struct Channels {
    /// By tenant, and by kind within.
    tenants: Box<[Mutex<[Names; 3]>]>,
    limit: Mutex<OutputLimit>,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Subscribers that were given the message.
    pub(crate) to: usize,
    /// The last one that was looked at, if there are more.
    pub(crate) more_behind: Option<u64>,
}

impl Channels {
    /// Channels of this number of tenants, with this limit of inboxes.
    pub(crate) fn new(tenants: usize, limit: OutputLimit) -> Self {
        Self { tenants: (0..tenants).map(|_| Mutex::default()).collect(), limit: Mutex::new(limit) }
    }

    /// The limit of inboxes.
    pub(crate) fn limit(&self) -> OutputLimit {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the limit for messages to come.
    pub(crate) fn set_limit(&self, limit: OutputLimit) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = limit;
    }

    fn of(&self, tenant: usize) -> MutexGuard<'_, [Names; 3]> {
        self.tenants[tenant].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber; again is no change.
    pub(crate) fn subscribe(&self, tenant: usize, kind: Kind, name: &[u8], inbox: &Arc<Inbox>) {
        let names = &mut self.of(tenant)[kind as usize];
        if !names.contains_key(name) {
            names.insert(name.into(), Subscribers::new());
        }
        if let Some(subscribers) = names.get_mut(name) {
            subscribers.insert(inbox.id(), Arc::clone(inbox));
        }
    }

    /// Removes the subscriber with this number of a connection.
    pub(crate) fn unsubscribe(&self, tenant: usize, kind: Kind, name: &[u8], id: u64) {
        let names = &mut self.of(tenant)[kind as usize];
        let Some(subscribers) = names.get_mut(name) else { return };
        subscribers.remove(&id);
        if subscribers.is_empty() {
            names.remove(name);
        }
    }

    /// Puts a message into the inboxes of the next [`PAGE`] subscribers of a name, those with numbers above `behind`.
    pub(crate) fn deliver(
        &self,
        tenant: usize,
        (kind, name): (Kind, &[u8]),
        behind: Option<u64>,
        message: &Message,
    ) -> Delivered {
        let mut done = Delivered { to: 0, more_behind: None };
        let names = &self.of(tenant)[kind as usize];
        let Some(subscribers) = names.get(name) else { return done };
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = subscribers.range((from, Bound::Unbounded));
        let limit = self.limit();
        for (_, inbox) in left.by_ref().take(PAGE) {
            done.to += usize::from(inbox.put(Mail::Message(message.clone()), limit));
            done.more_behind = Some(inbox.id());
        }
        if left.next().is_none() {
            done.more_behind = None;
        }
        done
    }

    /// The next [`PAGE`] names above `behind`, in their order, each with its number of subscribers.
    pub(crate) fn names_behind(
        &self,
        tenant: usize,
        kind: Kind,
        behind: Option<&[u8]>,
    ) -> Vec<(Box<[u8]>, usize)> {
        let names = &self.of(tenant)[kind as usize];
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let page = names.range::<[u8], _>((from, Bound::Unbounded)).take(PAGE);
        page.map(|(name, subscribers)| (name.clone(), subscribers.len())).collect()
    }

    /// Subscribers of a name.
    pub(crate) fn subscribers(&self, tenant: usize, kind: Kind, name: &[u8]) -> usize {
        self.of(tenant)[kind as usize].get(name).map_or(0, BTreeMap::len)
    }

    /// Whether there are subscribers of channels or patterns.
    pub(crate) fn has_names(&self, tenant: usize) -> bool {
        let names = self.of(tenant);
        !names[Kind::Channel as usize].is_empty() || !names[Kind::Pattern as usize].is_empty()
    }

    /// Names that have subscribers.
    pub(crate) fn names(&self, tenant: usize, kind: Kind) -> usize {
        self.of(tenant)[kind as usize].len()
    }
}
