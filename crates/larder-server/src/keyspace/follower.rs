//! A client that tracks: its options, the keys that it remembers, and where its invalidations go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::account::KeptBytes;
use crate::channels::{Invalidated, Mail, OutputLimit, Post};

/// About how many bytes a remembered key takes besides its bytes, in the table and in the set of its client.
const KEY_BYTES: usize = 192;
/// About how many bytes a prefix takes besides two copies of its bytes.
const PREFIX_BYTES: usize = 192;

/// Another client that gets the invalidations.
#[derive(Clone)]
pub(crate) struct Redirection {
    /// The number of its connection.
    pub(crate) id: u64,
    /// It is gone with the connection.
    pub(crate) post: Weak<Post>,
}

/// How a client tracks.
#[derive(Clone, Default)]
pub(crate) struct FollowerOptions {
    /// Its own changes are not told.
    pub(crate) is_noloop: bool,
    pub(crate) redirection: Option<Redirection>,
}

/// A client that tracks.
pub(crate) struct Follower {
    /// The number of its connection.
    id: u64,
    tenant: usize,
    post: Arc<Post>,
    state: Mutex<State>,
}

struct State {
    options: FollowerOptions,
    /// The client that gets the invalidations was gone when one came.
    is_broken: bool,
    has_ended: bool,
    /// With the number of the tenant. The table has them too, and decides what is told.
    keys: BTreeSet<(usize, Arc<[u8]>)>,
    prefixes: BTreeSet<Box<[u8]>>,
    kept: KeptBytes,
}

impl Follower {
    /// The client of connection `id`; what it remembers is counted in `kept`.
    pub(crate) fn new(id: u64, tenant: usize, post: &Arc<Post>, kept: KeptBytes) -> Self {
        let state = State {
            options: FollowerOptions::default(),
            is_broken: false,
            has_ended: false,
            keys: BTreeSet::new(),
            prefixes: BTreeSet::new(),
            kept,
        };
        Self { id, tenant, post: Arc::clone(post), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of its connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of its tenant.
    pub(crate) fn tenant(&self) -> usize {
        self.tenant
    }

    /// Changes how it tracks.
    pub(crate) fn set_options(&self, options: FollowerOptions) {
        let mut state = self.lock();
        (state.options, state.is_broken) = (options, false);
    }

    /// The number of the connection that gets its invalidations, if it is another.
    pub(crate) fn redirects_to(&self) -> Option<u64> {
        self.lock().options.redirection.as_ref().map(|it| it.id)
    }

    /// Whether its own changes are not told.
    pub(crate) fn is_noloop(&self) -> bool {
        self.lock().options.is_noloop
    }

    /// Whether the client that gets its invalidations was gone when one came.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    /// The prefixes that it follows.
    pub(crate) fn prefixes(&self) -> Vec<Box<[u8]>> {
        self.lock().prefixes.iter().cloned().collect()
    }

    /// Whether it follows prefixes.
    pub(crate) fn has_prefixes(&self) -> bool {
        !self.lock().prefixes.is_empty()
    }

    /// Whether a change by this connection is told to it.
    pub(super) fn hears_of(&self, writer: Option<u64>) -> bool {
        let state = self.lock();
        let is_own = state.options.is_noloop && writer == Some(self.id);
        !(state.has_ended || is_own)
    }

    /// Tells it that these keys have changed; `None`: all.
    pub(super) fn tell(&self, keys: Option<&[Box<[u8]>]>, limit: OutputLimit) {
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        let target = state.options.redirection.as_ref().map(|it| (it.id, it.post.upgrade()));
        state.is_broken |= matches!(target, Some((_, None)));
        drop(state);
        let told = |is_redirected| {
            Mail::Invalidated(Invalidated { keys: keys.map(Into::into), is_redirected })
        };
        match target {
            None => self.post.put(told(false), limit),
            Some((_, Some(post))) => post.put(told(true), limit),
            Some((id, None)) => self.post.put(Mail::RedirectionBroken(id), limit),
        }
    }

    /// It tracks no more.
    pub(super) fn ends(&self) {
        self.lock().has_ended = true;
    }

    /// Counts a key. `false`: there is no memory for it.
    pub(super) fn keep_key(&self, tenant: usize, key: &Arc<[u8]>) -> bool {
        let mut state = self.lock();
        if state.has_ended || !state.kept.grow(key.len() + KEY_BYTES) {
            return false;
        }
        if !state.keys.insert((tenant, Arc::clone(key))) {
            state.kept.shrink(key.len() + KEY_BYTES);
        }
        true
    }

    /// The table has forgotten a key.
    pub(super) fn forget_key(&self, tenant: usize, key: &Arc<[u8]>) {
        let mut state = self.lock();
        if state.keys.remove(&(tenant, Arc::clone(key))) {
            state.kept.shrink(key.len() + KEY_BYTES);
        }
    }

    /// Takes any of its keys.
    pub(super) fn pop_key(&self) -> Option<(usize, Arc<[u8]>)> {
        let mut state = self.lock();
        let (tenant, key) = state.keys.pop_first()?;
        state.kept.shrink(key.len() + KEY_BYTES);
        Some((tenant, key))
    }

    /// Takes all of its keys of a tenant.
    pub(super) fn take_keys(&self, tenant: usize) -> BTreeSet<(usize, Arc<[u8]>)> {
        let mut state = self.lock();
        let first: Arc<[u8]> = [].into();
        let mut taken = state.keys.split_off(&(tenant, Arc::clone(&first)));
        let mut behind = taken.split_off(&(tenant + 1, first));
        state.keys.append(&mut behind);
        let bytes = taken.iter().map(|(_, key)| key.len() + KEY_BYTES).sum();
        state.kept.shrink(bytes);
        taken
    }

    /// Counts a prefix. `false`: there is no memory for it.
    pub(super) fn keep_prefix(&self, prefix: &[u8]) -> bool {
        let mut state = self.lock();
        if state.prefixes.contains(prefix) {
            return true;
        }
        let is_kept = state.kept.grow(2 * prefix.len() + PREFIX_BYTES);
        if is_kept {
            state.prefixes.insert(prefix.into());
        }
        is_kept
    }

    /// Takes all of its prefixes.
    pub(super) fn take_prefixes(&self) -> BTreeSet<Box<[u8]>> {
        let mut state = self.lock();
        let taken = std::mem::take(&mut state.prefixes);
        let bytes = taken.iter().map(|prefix| 2 * prefix.len() + PREFIX_BYTES).sum();
        state.kept.shrink(bytes);
        taken
    }
}
