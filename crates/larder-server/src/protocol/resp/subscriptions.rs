//! What a client has subscribed to.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use crate::account::KeptBytes;
use crate::caller::Caller;
use crate::channels::{Inbox, Kind, PAGE};
use crate::worker::Worker;
use larder_net::sockets::yield_now;

/// About how many bytes a subscription takes beside its two copies of the name.
const SUBSCRIPTION_BYTES: usize = 192;

/// The names that a client has subscribed to, and its inbox. Dropping it ends all of them at once.
pub(super) struct Subscriptions {
    worker: Rc<Worker>,
    tenant: usize,
    inbox: Arc<Inbox>,
    /// By kind.
    names: [BTreeSet<Box<[u8]>>; 3],
    kept: KeptBytes,
}

fn bytes(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_BYTES
}

impl Subscriptions {
    /// None yet.
    pub(super) fn new(caller: &Caller, inbox: &Arc<Inbox>) -> Self {
        Self {
            worker: Rc::clone(&caller.worker),
            tenant: caller.tenant.number,
            inbox: Arc::clone(inbox),
            names: Default::default(),
            kept: caller.keep(),
        }
    }

    /// Number of channels and patterns, or of sharded channels.
    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => {
                self.of(Kind::Channel).len() + self.of(Kind::Pattern).len()
            }
            Kind::Shard => self.of(Kind::Shard).len(),
        }
    }

    /// The names of a kind.
    pub(super) fn of(&self, kind: Kind) -> &BTreeSet<Box<[u8]>> {
        &self.names[kind as usize]
    }

    /// Whether there are any.
    pub(super) fn are_any(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }

    /// Adds a name; again is no change. `false`: there is no memory for it.
    pub(super) fn add(&mut self, kind: Kind, name: &[u8]) -> bool {
        if self.of(kind).contains(name) {
            return true;
        }
        if !self.kept.grow(bytes(name)) {
            return false;
        }
        self.names[kind as usize].insert(name.into());
        self.worker.shared.channels.subscribe(self.tenant, kind, name, &self.inbox);
        true
    }

    /// Ends a subscription, if there is one of this name.
    pub(super) fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.names[kind as usize].remove(name) {
            self.is_removed(kind, name);
        }
    }

    fn is_removed(&mut self, kind: Kind, name: &[u8]) {
        self.kept.shrink(bytes(name));
        let id = self.inbox.id();
        self.worker.shared.channels.unsubscribe(self.tenant, kind, name, id);
    }
}

impl Subscriptions {
    /// Ends all of them, page by page beside the other connections: there may be hundreds of thousands.
    pub(super) async fn end_all(&mut self) {
        while self.end_page() {
            yield_now().await;
        }
    }

    /// Ends up to [`PAGE`] of them. Returns whether there are more.
    fn end_page(&mut self) -> bool {
        for kind in Kind::ALL {
            for _ in 0..PAGE {
                let Some(name) = self.names[kind as usize].pop_first() else { break };
                self.is_removed(kind, &name);
            }
        }
        self.are_any()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        while self.end_page() {}
    }
}
