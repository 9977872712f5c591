//! The clients that follow all keys of a prefix (`BCAST`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::follower::Follower;

/// A prefix, and the number of the tenant of its clients.
type Prefix = (usize, Box<[u8]>);
type Followers = Vec<Arc<Follower>>;
/// The clients of a prefix, and the keys that have changed below it.
type Told = (Followers, ChangedKeys);
type ChangedKeys = Vec<Box<[u8]>>;

/// The prefixes of all clients.
#[derive(Default)]
pub(super) struct FollowedPrefixes {
    state: Mutex<State>,
    /// Prefixes, so that a change knows without a lock that there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    followers: BTreeMap<Prefix, Followers>,
    /// How many prefixes have each length, so that a key is looked up once for each.
    lengths: BTreeMap<usize, usize>,
}

impl FollowedPrefixes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of prefixes; two tenants may have the same.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// A client follows a prefix; again is no change.
    pub(super) fn add(&self, follower: &Arc<Follower>, prefix: &[u8]) {
        let state = &mut *self.lock();
        let followers = state.followers.entry((follower.tenant(), prefix.into())).or_default();
        if followers.is_empty() {
            *state.lengths.entry(prefix.len()).or_default() += 1;
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        if !followers.iter().any(|it| it.id() == follower.id()) {
            followers.push(Arc::clone(follower));
        }
    }

    /// A client follows a prefix no more.
    pub(super) fn remove(&self, follower: &Follower, prefix: &[u8]) {
        let state = &mut *self.lock();
        let key = (follower.tenant(), prefix.into());
        let Some(followers) = state.followers.get_mut(&key) else { return };
        followers.retain(|it| it.id() != follower.id());
        if followers.is_empty() {
            state.followers.remove(&key);
            self.count.fetch_sub(1, Ordering::SeqCst);
            if let Some(count) = state.lengths.get_mut(&prefix.len()) {
                *count -= 1;
                if *count == 0 {
                    state.lengths.remove(&prefix.len());
                }
            }
        }
    }

    /// The clients of each prefix of these keys, with its keys in their order, each once. `owner` tells the tenant of a
    /// key of clients of the first tenant.
    pub(super) fn of(
        &self,
        keys: &[(usize, Box<[u8]>)],
        owner: impl Fn(&[u8]) -> Option<usize>,
    ) -> Vec<Told> {
        let state = self.lock();
        let mut found: BTreeMap<&Prefix, (&Followers, ChangedKeys)> = BTreeMap::new();
        for (tenant, key) in keys {
            let is_reached = *tenant != 0 && owner(key) == Some(*tenant);
            let readers = std::iter::once(*tenant).chain(is_reached.then_some(0));
            for reader in readers {
                for length in state.lengths.range(..=key.len()).map(|(length, _)| *length) {
                    let prefix: Box<[u8]> = key.get(..length).unwrap_or_default().into();
                    if let Some((prefix, followers)) =
                        state.followers.get_key_value(&(reader, prefix))
                    {
                        found.entry(prefix).or_insert((followers, Vec::new())).1.push(key.clone());
                    }
                }
            }
        }
        let told = |(followers, mut keys): (&Followers, ChangedKeys)| {
            keys.sort_unstable();
            keys.dedup();
            (followers.clone(), keys)
        };
        found.into_values().map(told).collect()
    }
}
