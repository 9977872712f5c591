//! What all threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use crate::config::ServerConfig;
use crate::counters::{Counted, Counters};
use crate::error::Error;
use crate::protocol::resp::board::Board;
use crate::tenant::{Caches, Tenant};
use crate::tls::Tls;
use crate::users::Users;
use crate::worker::Mailbox;

/// See the module.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) caches: Caches,
    /// At least one.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// Who may come in, if not everybody. Changes when the configuration is read again.
    users: RwLock<Arc<Users>>,
    /// What is shown where TLS is spoken. Changes likewise.
    tls: RwLock<Option<Tls>>,
    connections_max: AtomicUsize,
    /// Of each worker.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// Of each worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// What connections of RESP have in common.
    pub(crate) resp: Board,
    pub(crate) started: Instant,
    draining: AtomicBool,
    /// What was counted when a client began to count anew.
    counted_before: Mutex<Counted>,
    /// Connections that were turned away.
    pub(crate) rejected: AtomicU64,
    /// Connections since the start: the number of the next one.
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: ServerConfig,
        caches: Caches,
        tenants: Vec<Arc<Tenant>>,
        users: Users,
        tls: Option<Tls>,
        mailboxes: Vec<Arc<Mailbox>>,
    ) -> Self {
        assert_eq!(config.workers, mailboxes.len(), "each worker has one");
        let (started, connections) = (Instant::now(), AtomicU64::new(1));
        let draining = AtomicBool::new(false);
        let connections_max = AtomicUsize::new(config.connections_max);
        let (users, tls) = (RwLock::new(Arc::new(users)), RwLock::new(tls));
        let counters = mailboxes.iter().map(|_| Arc::default()).collect();
        let counted_before = Mutex::default();
        let resp = Board::new(config.workers);
        Self {
            config,
            caches,
            tenants,
            users,
            tls,
            connections_max,
            mailboxes,
            counters,
            resp,
            started,
            draining,
            counted_before,
            rejected: AtomicU64::new(0),
            connections,
        }
    }

    /// What all workers have counted together.
    pub(crate) fn counted(&self) -> Counted {
        self.counters.iter().map(|of_one| of_one.read()).sum()
    }

    /// Who may come in from now on.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is shown from now on where TLS is spoken.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Most connections at a time.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Takes over what can be changed while it runs.
    pub(crate) fn reload(&self, config: &ServerConfig) -> Result<(), Error> {
        let users = Users::new(&config.users, &self.tenants)?;
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        // Where it is spoken no more from the next start on, there is a certificate until then.
        if tls.is_some() {
            *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        }
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        self.connections_max.store(config.connections_max, Ordering::Relaxed);
        Ok(())
    }

    /// The server ends: nothing new is taken in.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why no requests should be sent here, if that is so.
    pub(crate) fn why_not_ready(&self) -> Option<&'static str> {
        self.draining.load(Ordering::Relaxed).then_some("it is ending")
    }

    /// The same, since a client has begun to count anew.
    pub(crate) fn counted_lately(&self) -> Counted {
        let before = self.counted_before.lock().unwrap_or_else(PoisonError::into_inner);
        self.counted().since(&before)
    }

    /// Begins to count anew, for clients.
    pub(crate) fn count_anew(&self) {
        let mut before = self.counted_before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = self.counted();
    }

    /// Gives the caches another budget of memory, if they are one tenant's. Says whether.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) -> bool {
        let is_alone = self.tenants.len() == 1;
        if is_alone {
            self.caches.set_memory_bytes(bytes);
        }
        is_alone
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
