//! What all threads of a server share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use larder_device::sockets::{SocketBackend, SocketRing};
use larder_tls::Tls;

use crate::account::Account;
use crate::config::ServerConfig;
use crate::counters::{Counted, Counters, RingCounters};
use crate::error::Error;
use crate::policy::{self, TenantPolicy};
use crate::prefixes::Prefixes;
use crate::protocol::resp::board::Board;
use crate::slow_log::SlowLog;
use crate::tenant::{Caches, Tenant};
use crate::users::Users;
use crate::worker::{Letter, Mailbox};

/// See the module.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    /// What threads wait for sockets with: as the configuration says, as far as the kernel allows it.
    pub(crate) sockets: SocketBackend,
    pub(crate) caches: Caches,
    /// At least one.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// What clients cause in memory.
    pub(crate) account: Arc<Account>,
    /// Most units of work that a connection has done while others waited.
    pub(crate) longest_turn_units: AtomicUsize,
    /// How often free memory was given back to the system.
    pub(crate) memory_returns: AtomicU64,
    /// Whose keys those of the first tenant's connections are, by their beginning.
    pub(crate) prefixes: Prefixes<Arc<Tenant>>,
    /// Who may come in, if not everybody. Changes when the configuration is read again.
    users: RwLock<Arc<Users>>,
    /// What is shown where TLS is spoken. Changes likewise.
    tls: RwLock<Option<Tls>>,
    connections_max: AtomicUsize,
    /// Of each worker.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// Of each worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Of each worker.
    pub(crate) rings: Vec<Arc<RingCounters>>,
    /// What connections of RESP have in common.
    pub(crate) resp: Board,
    pub(crate) started: Instant,
    draining: AtomicBool,
    /// What took long.
    pub(crate) slow_log: SlowLog,
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
        let prefixes = prefixes_of(&config.tenants, &tenants);
        let account = Arc::new(Account::new(config.client_bytes_max, tenants.len()));
        set_policies(&config.tenants, &tenants, &account);
        let draining = AtomicBool::new(false);
        let connections_max = AtomicUsize::new(config.connections_max);
        let (users, tls) = (RwLock::new(Arc::new(users)), RwLock::new(tls));
        let counters = mailboxes.iter().map(|_| Arc::default()).collect();
        let rings = mailboxes.iter().map(|_| Arc::default()).collect();
        let counted_before = Mutex::default();
        let resp = Board::new(config.workers, tenants.len());
        let slow_log = SlowLog::new(config.slow_threshold);
        let sockets = allowed(config.sockets);
        Self {
            config,
            sockets,
            caches,
            tenants,
            account,
            longest_turn_units: AtomicUsize::new(0),
            memory_returns: AtomicU64::new(0),
            prefixes,
            users,
            tls,
            connections_max,
            mailboxes,
            counters,
            rings,
            resp,
            started,
            draining,
            slow_log,
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
        check_policies(&config.tenants, &self.tenants)?;
        let mut users = Users::new(&config.users, &self.tenants)?;
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        // Where it is spoken no more from the next start on, there is a certificate until then.
        if tls.is_some() {
            *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        }
        set_policies(&config.tenants, &self.tenants, &self.account);
        users.take_over(&self.users());
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        for mailbox in &self.mailboxes {
            mailbox.send(Letter::UsersChanged);
        }
        self.connections_max.store(config.connections_max, Ordering::Relaxed);
        self.slow_log.set_threshold(config.slow_threshold);
        Ok(())
    }

    /// The server ends: nothing new is taken in.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why no requests should be sent here, if that is so.
    pub(crate) fn why_not_ready(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("it is ending".to_owned());
        }
        let needs_flash = !self.config.ready_without_flash;
        let needs_index = !self.config.ready_while_indexing;
        let flash = self.flash_avoided_since().filter(|_| needs_flash).map(flash_not_used);
        flash.or_else(|| self.index_not_known().filter(|_| needs_index))
    }

    /// What a server that is ready lacks, a line each.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = String> {
        let flash = self.flash_avoided_since().map(flash_not_used);
        flash.into_iter().chain(self.index_not_known())
    }

    /// How much of flash is not known yet, if some is.
    fn index_not_known(&self) -> Option<String> {
        let of_each = self.tenants.iter().map(|tenant| tenant.stats().loc_unindexed_regions);
        let regions: u64 = of_each.sum();
        (regions > 0).then(|| format!("index: {regions} regions of flash are not known yet"))
    }

    /// Since when some cache does not use its flash, in seconds since 1970.
    pub(crate) fn flash_avoided_since(&self) -> Option<u64> {
        let of_each = self.tenants.iter().map(|tenant| tenant.stats().flash_avoided_since_seconds);
        of_each.filter(|since| *since > 0).min()
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

    /// Gives the caches another budget of memory, which holds what clients may cause too, if they are one tenant's.
    /// Says whether.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) -> bool {
        let is_alone = self.tenants.len() == 1;
        if is_alone {
            let clients = (self.config.client_bytes_max as u64).min(bytes / 2);
            self.caches.set_memory_bytes(bytes - clients);
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

/// Refuses policies that cannot be.
pub(crate) fn check_policies(
    policies: &[TenantPolicy],
    tenants: &[Arc<Tenant>],
) -> Result<(), Error> {
    let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name()).collect();
    policy::check(policies, &names)
}

/// Each tenant has its policy from now on.
fn set_policies(policies: &[TenantPolicy], tenants: &[Arc<Tenant>], account: &Account) {
    for tenant in tenants {
        match policies.iter().find(|policy| policy.tenant == tenant.name()) {
            Some(policy) => tenant.set_policy(policy),
            None => tenant.set_policy(&TenantPolicy::new(tenant.name())),
        }
        account.set_weight(tenant.number, tenant.weight());
    }
}

/// What the kernel allows: rings are refused by most containers, and by kernels before 6.1.
fn allowed(wanted: SocketBackend) -> SocketBackend {
    if wanted == SocketBackend::Epoll {
        return wanted;
    }
    // On a thread of its own: a ring that closes interrupts the system calls of the thread that made it for a while.
    let probe = std::thread::Builder::new().spawn(|| SocketRing::new().map(drop));
    // Where no thread can be had, the start will say so of those that serve.
    let probed =
        probe.and_then(|probe| probe.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
    let refused = |error| {
        tracing::info!(%error, "the kernel refuses io_uring for sockets; they are served by epoll");
    };
    match probed.map_err(refused) {
        Ok(()) => SocketBackend::IoUring,
        Err(()) => SocketBackend::Epoll,
    }
}

fn prefixes_of(policies: &[TenantPolicy], tenants: &[Arc<Tenant>]) -> Prefixes<Arc<Tenant>> {
    let with_prefix = policies.iter().filter(|policy| !policy.prefix.is_empty());
    let all = with_prefix.filter_map(|policy| {
        let tenant = tenants.iter().find(|tenant| tenant.name() == policy.tenant)?;
        Some((policy.prefix.clone(), Arc::clone(tenant)))
    });
    Prefixes::new(all.collect())
}

/// What an operator is told of flash that is not used.
fn flash_not_used(since: u64) -> String {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
    let for_seconds = moment.elapsed().unwrap_or_default().as_secs();
    format!("flash: not used since {since} (Unix time), for {for_seconds} s")
}
