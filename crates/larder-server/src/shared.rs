//! What all threads of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::config::ServerConfig;
use crate::tenant::{Caches, Tenant};
use crate::worker::Mailbox;

/// See the module.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) caches: Caches,
    /// At least one.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// Of each worker.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) started: Instant,
    /// Connections since the start: the number of the next one.
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: ServerConfig,
        caches: Caches,
        tenants: Vec<Arc<Tenant>>,
        mailboxes: Vec<Arc<Mailbox>>,
    ) -> Self {
        assert_eq!(config.workers, mailboxes.len(), "each worker has one");
        let (started, connections) = (Instant::now(), AtomicU64::new(1));
        Self { config, caches, tenants, mailboxes, started, connections }
    }

    /// A number for a connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Whose keys they are of a client that has not said who it is.
    pub(crate) fn default_tenant(&self) -> &Arc<Tenant> {
        &self.tenants[0]
    }

    /// Connections that there are.
    pub(crate) fn connections(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| mailbox.load.load(Ordering::Relaxed)).sum()
    }

    /// Connections that there were, with those that there are.
    pub(crate) fn connections_ever(&self) -> u64 {
        self.connections.load(Ordering::Relaxed) - 1
    }
}
