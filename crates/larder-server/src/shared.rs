//! State that all threads of a server share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use larder::LevellingOptions;
use larder_net::sockets::{SocketBackend, SocketRing};
use larder_net::tls::Tls;

use crate::account::Account;
use crate::channels::{Channels, OutputLimit};
use crate::config::ServerConfig;
use crate::counters::{CounterValues, Counters, RingCounters};
use crate::error::Error;
use crate::keyspace::{self, Keyspace};
use crate::mailbox::{Letter, Mailbox};
use crate::policy::{self, TenantPolicy};
use crate::prefixes::Prefixes;
use crate::resp_board::Board;
use crate::scripts::Scripts;
use crate::slow_log::SlowLog;
use crate::steps::Steps;
use crate::tenant::{Caches, Tenant};
use crate::users::Users;
use crate::waiters::Waiters;
use crate::watchers::Watchers;

/// State that all threads of a server share.
pub(crate) struct ServerState {
    pub(crate) config: ServerConfig,
    /// The socket backend in use: as configured, if the kernel allows it.
    pub(crate) sockets: SocketBackend,
    pub(crate) caches: Caches,
    /// At least one.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    /// The memory that clients use.
    pub(crate) account: Arc<Account>,
    /// Most units of work that a connection has done in one turn while others waited.
    pub(crate) longest_turn_units: AtomicUsize,
    /// How often free memory was returned to the system.
    pub(crate) memory_returns: AtomicU64,
    /// The tenant of a key by its prefix, for connections of the first tenant.
    pub(crate) prefixes: Prefixes<Arc<Tenant>>,
    /// The users that may log in. A reload replaces them.
    users: RwLock<Arc<Users>>,
    /// The TLS certificates. A reload replaces them.
    tls: RwLock<Option<Tls>>,
    connections_max: AtomicUsize,
    collection_bytes_max: AtomicUsize,
    drive_levelling: Mutex<LevellingOptions>,
    /// One per worker.
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// One per worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// One per worker.
    pub(crate) rings: Vec<Arc<RingCounters>>,
    /// What RESP connections share.
    pub(crate) resp: Board,
    /// Subscribers, and the messages that wait for them.
    pub(crate) channels: Arc<Channels>,
    /// What is told of changes of keys.
    pub(crate) keyspace: Arc<Keyspace>,
    /// Clients that watch what the server does.
    pub(crate) watchers: Arc<Watchers>,
    /// Whether the caches report what leaves them.
    is_listening: Mutex<bool>,
    /// Clients that wait for something to take.
    pub(crate) waiters: Arc<Waiters>,
    /// Steps of several requests, whose keys others wait for.
    pub(crate) steps: Steps,
    /// Scripts of clients.
    pub(crate) scripts: Scripts,
    pub(crate) started: Instant,
    draining: AtomicBool,
    /// Slow requests.
    pub(crate) slow_log: SlowLog,
    /// The counters at the time when a client reset the statistics.
    counted_before: Mutex<CounterValues>,
    /// Connections refused because there were too many.
    pub(crate) rejected: AtomicU64,
    /// The number of the next connection, counted from the start.
    connections: AtomicU64,
}

impl ServerState {
    pub(crate) fn new(
        config: ServerConfig,
        caches: Caches,
        tenants: Vec<Arc<Tenant>>,
        users: Users,
        tls: Option<Tls>,
        mailboxes: Vec<Arc<Mailbox>>,
        resp: Board,
    ) -> Self {
        assert_eq!(config.workers, mailboxes.len(), "each worker has one");
        let (started, connections) = (Instant::now(), AtomicU64::new(1));
        let prefixes = prefixes_of(&config.tenants, &tenants, Arc::clone);
        let account = Arc::new(Account::new(config.client_bytes_max, tenants.len()));
        set_policies(&config.tenants, &tenants, &account);
        let channels = Channels::new(tenants.len(), OutputLimit::of(config.pubsub_bytes_max));
        let channels = Arc::new(channels);
        let told = (config.notify_keyspace_events, config.tracking_keys_max);
        let owners = prefixes_of(&config.tenants, &tenants, |tenant| tenant.number);
        let keyspace = Arc::new(Keyspace::new(tenants.len(), Arc::clone(&channels), owners, told));
        let waiters = Arc::new(Waiters::new(tenants.len()));
        let steps = Steps::new(config.workers);
        let scripts = Scripts::new(tenants.len(), &config);
        let draining = AtomicBool::new(false);
        let connections_max = AtomicUsize::new(config.connections_max);
        let collection_bytes_max = AtomicUsize::new(config.collection_bytes_max);
        let drive_levelling = Mutex::new(config.drive_levelling);
        let (users, tls) = (RwLock::new(Arc::new(users)), RwLock::new(tls));
        let counters = mailboxes.iter().map(|_| Arc::default()).collect();
        let rings = mailboxes.iter().map(|_| Arc::default()).collect();
        let counted_before = Mutex::default();
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
            collection_bytes_max,
            drive_levelling,
            mailboxes,
            counters,
            rings,
            resp,
            channels,
            keyspace,
            watchers: Arc::default(),
            is_listening: Mutex::default(),
            waiters,
            steps,
            scripts,
            started,
            draining,
            slow_log,
            counted_before,
            rejected: AtomicU64::new(0),
            connections,
        }
    }

    /// The counters of all workers together.
    pub(crate) fn counted(&self) -> CounterValues {
        self.counters.iter().map(|of_one| of_one.read()).sum()
    }

    /// The users as of now.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The TLS certificates as of now.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Most connections at a time.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Longest collection, in bytes.
    pub(crate) fn collection_bytes_max(&self) -> usize {
        self.collection_bytes_max.load(Ordering::Relaxed)
    }

    /// How the wear of drives is levelled.
    pub(crate) fn drive_levelling(&self) -> LevellingOptions {
        *self.drive_levelling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the settings that can change while the server runs.
    pub(crate) fn reload(&self, config: &ServerConfig) -> Result<(), Error> {
        check_policies(&config.tenants, &self.tenants)?;
        let mut users = Users::new(&config.users, &self.tenants)?;
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        // If the new configuration has no TLS, the old certificates stay in use until the next start.
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
        self.channels.set_limit(OutputLimit::of(config.pubsub_bytes_max));
        self.keyspace.set_keys_max(config.tracking_keys_max);
        self.keyspace.set_events(config.notify_keyspace_events);
        self.listens();
        self.collection_bytes_max.store(config.collection_bytes_max, Ordering::Relaxed);
        self.scripts.set_limits(config);
        self.slow_log.set_threshold(config.slow_threshold);
        let mut levelling = self.drive_levelling.lock().unwrap_or_else(PoisonError::into_inner);
        *levelling = config.drive_levelling;
        Ok(())
    }

    /// The server ends: `/ready` fails from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Why no requests should be sent to this server, if there is a reason.
    pub(crate) fn why_not_ready(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("it is ending".to_owned());
        }
        let needs_flash = !self.config.ready_without_flash;
        let needs_index = !self.config.ready_while_indexing;
        let flash = self.flash_avoided_since().filter(|_| needs_flash).map(flash_not_used);
        flash.or_else(|| self.index_not_known().filter(|_| needs_index))
    }

    /// What a ready server lacks, one line each.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = String> {
        let flash = self.flash_avoided_since().map(flash_not_used);
        flash.into_iter().chain(self.index_not_known())
    }

    /// How many flash regions are not indexed yet, if there are any.
    fn index_not_known(&self) -> Option<String> {
        let of_each = self.tenants.iter().map(|tenant| tenant.stats().loc_unindexed_regions);
        let regions: u64 = of_each.sum();
        (regions > 0).then(|| format!("index: {regions} regions of flash are not known yet"))
    }

    /// Since when a cache does not use its flash, in seconds since 1970; the earliest of all tenants.
    pub(crate) fn flash_avoided_since(&self) -> Option<u64> {
        let of_each = self.tenants.iter().map(|tenant| tenant.stats().flash_avoided_since_seconds);
        of_each.filter(|since| *since > 0).min()
    }

    /// The counters since a client last reset the statistics.
    pub(crate) fn counted_lately(&self) -> CounterValues {
        let before = self.counted_before.lock().unwrap_or_else(PoisonError::into_inner);
        self.counted().since(&before)
    }

    /// Resets the statistics that clients see.
    pub(crate) fn count_anew(&self) {
        let mut before = self.counted_before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = self.counted();
    }

    /// Gives the caches another memory budget, which also covers the memory of clients. Works only with a single
    /// tenant; returns whether it did.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) -> bool {
        let is_alone = self.tenants.len() == 1;
        if is_alone {
            let clients = (self.config.client_bytes_max as u64).min(bytes / 2);
            self.caches.set_memory_bytes(bytes - clients);
        }
        is_alone
    }

    /// Forgets all keys of a tenant, and tells the clients that have copies of values.
    pub(crate) async fn clear(&self, tenant: &Tenant) -> Result<(), larder::Error> {
        let _told = self.keyspace.flushing(tenant.number);
        tenant.clear().await
    }

    /// The caches report what leaves them as long as that is told to clients. Called when clients begin to hear it, and
    /// now and then.
    pub(crate) fn listens(&self) {
        let mut is_listening = self.is_listening.lock().unwrap_or_else(PoisonError::into_inner);
        let wants = self.keyspace.wants_removals() || self.watchers.want_removals();
        if *is_listening == wants {
            return;
        }
        *is_listening = wants;
        for tenant in &self.tenants {
            let listener =
                wants.then(|| keyspace::listener(&self.keyspace, &self.watchers, tenant));
            tenant.set_removal_listener(listener);
        }
    }

    /// The number for a new connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The tenant of clients that have not logged in.
    pub(crate) fn default_tenant(&self) -> &Arc<Tenant> {
        &self.tenants[0]
    }

    /// Open connections.
    pub(crate) fn connections(&self) -> usize {
        larder_net::connections(&self.mailboxes)
    }

    /// Connections since the start, including the open ones.
    pub(crate) fn connections_ever(&self) -> u64 {
        self.connections.load(Ordering::Relaxed) - 1
    }
}

/// Refuses invalid policies.
pub(crate) fn check_policies(
    policies: &[TenantPolicy],
    tenants: &[Arc<Tenant>],
) -> Result<(), Error> {
    let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name()).collect();
    policy::check(policies, &names)
}

/// Gives each tenant its policy from now on.
fn set_policies(policies: &[TenantPolicy], tenants: &[Arc<Tenant>], account: &Account) {
    for tenant in tenants {
        match policies.iter().find(|policy| policy.tenant == tenant.name()) {
            Some(policy) => tenant.set_policy(policy),
            None => tenant.set_policy(&TenantPolicy::new(tenant.name())),
        }
        account.set_weight(tenant.number, tenant.weight());
    }
}

/// The backend that the kernel allows: most containers, and kernels before 6.1, refuse rings.
fn allowed(wanted: SocketBackend) -> SocketBackend {
    if wanted == SocketBackend::Epoll {
        return wanted;
    }
    // We probe on a separate thread: for a while after a ring closes, system calls of the thread that made it are
    // interrupted.
    let probe = std::thread::Builder::new().spawn(|| SocketRing::new().map(drop));
    // If no thread can be started, starting the workers reports it.
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

fn prefixes_of<T>(
    policies: &[TenantPolicy],
    tenants: &[Arc<Tenant>],
    shown: impl Fn(&Arc<Tenant>) -> T,
) -> Prefixes<T> {
    let with_prefix = policies.iter().filter(|policy| !policy.prefix.is_empty());
    let all = with_prefix.filter_map(|policy| {
        let tenant = tenants.iter().find(|tenant| tenant.name() == policy.tenant)?;
        Some((policy.prefix.clone(), shown(tenant)))
    });
    Prefixes::new(all.collect())
}

/// The message to operators about flash that is not used.
fn flash_not_used(since: u64) -> String {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
    let for_seconds = moment.elapsed().unwrap_or_default().as_secs();
    format!("flash: not used since {since} (Unix time), for {for_seconds} s")
}
