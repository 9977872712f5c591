//! Which clients remember which keys. A key is forgotten when it changes: its clients have dropped their copies then.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::follower::Follower;

/// Parts of a tenant's table, each with a lock of its own.
const PARTS: usize = 16;
/// What is larger is freed on a thread of its own.
const FREED_AT_ONCE: usize = 1024;

/// A key with the clients that remember it; there is at least one.
struct Entry {
    key: Arc<[u8]>,
    followers: Vec<Arc<Follower>>,
}

/// A key that the table has forgotten, and the clients that remembered it.
type DroppedKey = (Arc<[u8]>, Vec<Arc<Follower>>);

/// A part of the table of a tenant.
#[derive(Default)]
pub(super) struct Part {
    entries: Vec<Entry>,
    /// The place of each key among the entries.
    places: HashMap<Arc<[u8]>, usize>,
}

/// The keys of all tenants that clients remember.
pub(super) struct Table {
    tenants: Box<[[Mutex<Part>; PARTS]]>,
    hashes: RandomState,
    keys: AtomicUsize,
    /// Clients of each key, summed.
    items: AtomicUsize,
}

impl Part {
    /// Removes the entry of a key; the last entry takes its place.
    fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let place = self.places.remove(key)?;
        let entry = self.entries.swap_remove(place);
        if let Some(moved) = self.entries.get(place)
            && let Some(at) = self.places.get_mut(&moved.key)
        {
            *at = place;
        }
        Some(entry)
    }
}

impl Table {
    pub(super) fn new(tenants: usize) -> Self {
        Self {
            tenants: (0..tenants).map(|_| Default::default()).collect(),
            hashes: RandomState::new(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }

    /// Keys, and clients of each key, summed.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.keys.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed))
    }

    fn part(&self, tenant: usize, key: &[u8]) -> MutexGuard<'_, Part> {
        let part = usize::try_from(self.hashes.hash_one(key) % PARTS as u64).unwrap_or(0);
        self.tenants[tenant][part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client remembers a key. `false`: there is no memory for it.
    pub(super) fn remember(&self, tenant: usize, key: &[u8], follower: &Arc<Follower>) -> bool {
        let mut part = self.part(tenant, key);
        if let Some(place) = part.places.get(key).copied() {
            let Some(entry) = part.entries.get_mut(place) else { return false };
            if entry.followers.iter().any(|it| it.id() == follower.id()) {
                return true;
            }
            if !follower.keep_key(tenant, &entry.key) {
                return false;
            }
            entry.followers.push(Arc::clone(follower));
        } else {
            let key: Arc<[u8]> = key.into();
            if !follower.keep_key(tenant, &key) {
                return false;
            }
            let place = part.entries.len();
            part.places.insert(Arc::clone(&key), place);
            part.entries.push(Entry { key, followers: vec![Arc::clone(follower)] });
            self.keys.fetch_add(1, Ordering::Relaxed);
        }
        self.items.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Forgets a key, and returns the clients that remembered it.
    pub(super) fn take(&self, tenant: usize, key: &[u8]) -> Vec<Arc<Follower>> {
        let mut part = self.part(tenant, key);
        match part.remove(key) {
            Some(entry) => self.forgotten(tenant, entry),
            None => Vec::new(),
        }
    }

    fn forgotten(&self, tenant: usize, entry: Entry) -> Vec<Arc<Follower>> {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(entry.followers.len(), Ordering::Relaxed);
        for follower in &entry.followers {
            follower.forget_key(tenant, &entry.key);
        }
        entry.followers
    }

    /// One client remembers a key no more.
    pub(super) fn forget(&self, tenant: usize, key: &[u8], id: u64) {
        let mut part = self.part(tenant, key);
        let Some(place) = part.places.get(key).copied() else { return };
        let Some(entry) = part.entries.get_mut(place) else { return };
        let before = entry.followers.len();
        entry.followers.retain(|it| it.id() != id);
        self.items.fetch_sub(before - entry.followers.len(), Ordering::Relaxed);
        if entry.followers.is_empty() {
            part.remove(key);
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets a random key, and returns it with its clients.
    pub(super) fn drop_one(&self) -> Option<DroppedKey> {
        let parts = self.tenants.len() * PARTS;
        let first = fastrand::usize(..parts.max(1));
        for at in (first..parts).chain(0..first) {
            let (tenant, part) = (at / PARTS, at % PARTS);
            let part = &self.tenants[tenant][part];
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            if part.entries.is_empty() {
                continue;
            }
            let key = Arc::clone(&part.entries[fastrand::usize(..part.entries.len())].key);
            let entry = part.remove(&key)?;
            return Some((key, self.forgotten(tenant, entry)));
        }
        None
    }

    /// Takes all keys of a tenant out of the table. The clients count them until they forget them too.
    pub(super) fn take_all(&self, tenant: usize) -> Vec<Part> {
        let take = |part: &Mutex<Part>| {
            let taken = std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner));
            self.keys.fetch_sub(taken.entries.len(), Ordering::Relaxed);
            let items = taken.entries.iter().map(|entry| entry.followers.len()).sum();
            self.items.fetch_sub(items, Ordering::Relaxed);
            taken
        };
        self.tenants[tenant].iter().map(take).collect()
    }
}

/// Frees what was forgotten. Much of it takes long, and the caller serves clients.
pub(super) fn drop_beside(parts: Vec<Part>, keys: Vec<BTreeSet<(usize, Arc<[u8]>)>>) {
    let entries: usize = parts.iter().map(|part| part.entries.len()).sum();
    if entries > FREED_AT_ONCE {
        let thread = std::thread::Builder::new().name("larder-forget".to_owned());
        // Without a thread, the closure is freed here.
        let _ = thread.spawn(move || drop((parts, keys)));
    }
}
