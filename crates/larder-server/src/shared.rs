//! What all threads of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::config::ServerConfig;
use crate::counters::{Counted, Counters};
use crate::protocol::resp::board::Board;
use crate::tenant::{Caches, Tenant};
use crate::users::Users;
use crate::worker::Mailbox;

/// See the module.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) caches: Caches,
    /// At least one.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// Who may come in, if not everybody.
    pub(crate) users: Users,
    /// Of each worker.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// Of each worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// What connections of RESP have in common.
    pub(crate) resp: Board,
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
        let counters = mailboxes.iter().map(|_| Arc::default()).collect();
        let users = Users::default();
        let resp = Board::new(config.workers);
        Self { config, caches, tenants, users, mailboxes, counters, resp, started, connections }
    }

    /// What all workers have counted together.
    pub(crate) fn counted(&self) -> Counted {
        self.counters.iter().map(|of_one| of_one.read()).sum()
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
