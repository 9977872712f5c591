//! The configuration of a server: listeners, threads and limits.

mod devices;
mod keyspace_events;
mod maxmemory_policy;
mod nodes;
mod otlp;
mod slot_map;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use larder::{LevellingOptions, VALUE_BYTES_MAX};
use larder_net::sockets::{Endpoint, SocketBackend};
use larder_net::tls::TlsFiles;

use crate::block_caches::BlockCaches;
use crate::databases::DATABASES;
use crate::debug_clock::DebugClock;
use crate::error::{Error, ErrorKind};
use crate::policy::TenantPolicy;
use crate::users::{PasswordHash, User};
use crate::vssds::VssdOrders;
use crate::wear::WearReports;

pub use devices::OpenedDevice;
pub use keyspace_events::KeyspaceEvents;
pub use maxmemory_policy::MaxmemoryPolicy;
pub use nodes::NodeList;
pub use otlp::Otlp;
pub(crate) use slot_map::SLOTS;
pub use slot_map::{SlotMap, SlotNode};

/// The account of clients has room for at least 4 of the longest values: a transaction may return half of the account.
pub(crate) const CLIENT_VALUES_MIN: usize = 4;
/// Least memory of a script: an interpreter takes a part of it.
const SCRIPT_BYTES_MIN: usize = 1 << 20;

/// The protocol of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolKind {
    /// memcached's text, meta and binary protocols.
    Memcached,
    /// The protocol of Redis and Valkey: RESP2 and RESP3.
    Resp,
}

/// An endpoint for clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerConfig {
    /// Its address.
    pub endpoint: Endpoint,
    /// Its protocol.
    pub protocol: ProtocolKind,
    /// Whether clients speak TLS there ([`ServerConfig::tls`]).
    pub is_tls: bool,
    /// The tenant of clients that do not log in; they need not log in here. `None`: the first tenant, as long as there
    /// are no users.
    pub tenant: Option<String>,
}

/// The address, if other machines can reach it.
fn reached_from_elsewhere(endpoint: &Endpoint) -> Option<&SocketAddr> {
    match endpoint {
        Endpoint::Tcp(address) => Some(address).filter(is_elsewhere),
        Endpoint::Unix { .. } => None,
    }
}

fn is_elsewhere(address: &&SocketAddr) -> bool {
    !address.ip().is_loopback()
}

impl ListenerConfig {
    /// An endpoint without TLS and without a tenant of its own.
    pub fn new(endpoint: Endpoint, protocol: ProtocolKind) -> Self {
        Self { endpoint, protocol, is_tls: false, tenant: None }
    }
}

/// The configuration of a server: listeners, threads and limits. The caller opens the caches.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Endpoints for clients, with their protocols.
    pub listeners: Vec<ListenerConfig>,
    /// The certificate that the server shows to TLS clients, and what it asks of them.
    pub tls: Option<TlsFiles>,
    /// HTTP address of the admin page, `/metrics`, `/live` and `/ready`; `None`: no such address.
    pub admin: Option<SocketAddr>,
    /// Further names of the admin address, such as `cache.example` or `cache.example:9180`. Requests for any other name
    /// are refused, except `localhost` and the address at which they arrive.
    pub admin_hosts: Vec<String>,
    /// Where to push metrics; `None`: nowhere. Needs the feature `otlp`.
    pub otlp: Option<Otlp>,
    /// Hash of the token with which operators may flush tenants; `None`: nothing can be changed at the admin address.
    pub admin_token: Option<PasswordHash>,
    /// Block caches of this machine that the admin page, `/metrics` and `/api/block` report too.
    pub block_caches: Option<Arc<dyn BlockCaches>>,
    /// The wear of the drives under the tenants, which `/metrics` reports too.
    pub wear: Option<Arc<dyn WearReports>>,
    /// The virtual SSDs under the tenants, which operators list and change at the admin address.
    pub vssds: Option<Arc<dyn VssdOrders>>,
    /// What is known of the opening of each device below the caches, in the order of the shards; may be empty.
    pub devices: Vec<OpenedDevice>,
    /// The users and their tenants. If empty, every client may connect and uses the first tenant.
    pub users: Vec<User>,
    /// Policies of tenants. A tenant without a policy has no limits.
    pub tenants: Vec<TenantPolicy>,
    /// Whether other machines may connect although the traffic is not encrypted, or clients do not authenticate. If
    /// `false`, addresses other than loopback and Unix sockets need both: TLS, and users or client certificates.
    pub allow_unprotected: bool,
    /// Worker threads, 1 to 1024.
    pub workers: usize,
    /// How the workers wait for sockets.
    pub sockets: SocketBackend,
    /// Most connections at a time. A connection beyond that gets an error and is closed.
    pub connections_max: usize,
    /// A connection that sends no request, or takes nothing of its answers, for this long is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// A connection whose request is not complete this long after its first byte is closed; `None`: never. The request
    /// gets one more second for each 64 KiB that have come.
    pub request_timeout: Option<Duration>,
    /// A read-only request that waits longer than this for flash is answered with an error; `None`: it waits. A request
    /// that changes something is never given up: the client could not know whether it was done.
    pub request_deadline: Option<Duration>,
    /// Longest value in bytes, from 1 KiB to 128 MiB ([`larder::VALUE_BYTES_MAX`]).
    pub value_bytes_max: usize,
    /// What `INFO` and `CONFIG GET` of RESP say the server evicts. It changes nothing else: see [`MaxmemoryPolicy`].
    pub maxmemory_policy: MaxmemoryPolicy,
    /// Bytes of messages that may wait for a subscriber that does not read them, 1 or more: above it, or above a
    /// quarter of it for a minute, its connection is closed. The messages are part of `client_bytes_max`.
    pub pubsub_bytes_max: usize,
    /// Keys that RESP clients may track together (`CLIENT TRACKING`), 1 or more: of more, random ones are dropped, and
    /// their clients are told so. The memory is part of `client_bytes_max`.
    pub tracking_keys_max: usize,
    /// Which events of keys RESP clients can subscribe to; see [`KeyspaceEvents`].
    pub notify_keyspace_events: KeyspaceEvents,
    /// The database of RESP clients, 0 to 15, that has the keys of memcached's clients. It must stay the same while the
    /// keys on flash are to be found.
    pub memcached_database: u8,
    /// Longest collection (hash, set, sorted set, list) of RESP clients as it is stored, in bytes, 1 to 128 MiB
    /// ([`larder::VALUE_BYTES_MAX`]). A change that would make a longer one is refused. Each change of a collection
    /// copies it once.
    pub collection_bytes_max: usize,
    /// How long a script of RESP may run, more than 0. One that runs longer is stopped, and what it has written is
    /// undone.
    pub script_time_limit: Duration,
    /// Bytes of memory that a script may use, at least 1 MiB: its values, its requests, and what must be kept to undo
    /// its writes. A script without memory is stopped as one without time. They are part of `client_bytes_max`.
    pub script_bytes_max: usize,
    /// Bytes of memory that all clients together may use besides the caches: incomplete requests, answers that are not
    /// taken, transactions and watched keys, subscriptions and their messages, waiting requests. Tenants share them by
    /// weight. Beyond that the slowest uploads end, and requests are answered as busy.
    pub client_bytes_max: usize,
    /// Flash reads that a worker runs at a time, at least 1. Further requests wait; tenants get turns by weight.
    pub flash_turns: usize,
    /// Whether the server is ready while its drive is not used because it fails or does not answer. It then serves from
    /// DRAM.
    pub ready_without_flash: bool,
    /// Whether the server is ready while it still rebuilds the index of flash. Until then reads of keys that it does
    /// not know yet are misses after a crash, and wait after a clean stop.
    pub ready_while_indexing: bool,
    /// How long connections may take to finish what they have begun when the server is told to end.
    pub drain_time: Duration,
    /// Requests that wait at least this long, for flash or for others, are kept with their keys for operators to look
    /// at; `None`: none.
    pub slow_threshold: Option<Duration>,
    /// The map of slots to servers, if several servers divide the keys of RESP clients. Clients are redirected to the
    /// others.
    pub cluster: Option<SlotMap>,
    /// The list of servers, if memcached clients divide their keys among several. Clients ask for it with
    /// `config get cluster`.
    pub memcached_nodes: Option<NodeList>,
    /// Whether keys of a set of shards move so that the drives wear alike, and what is known of the drives. Without a
    /// set it has no effect.
    pub drive_levelling: LevellingOptions,
    /// The clock of the caches, if clients may move it with memcached's `debugtime`. For tests only, since all tenants
    /// share it; all listeners must be local then. `None`: the command does not exist.
    pub debug_clock: Option<Arc<DebugClock>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            tls: None,
            admin: None,
            admin_hosts: Vec::new(),
            admin_token: None,
            otlp: None,
            block_caches: None,
            wear: None,
            vssds: None,
            devices: Vec::new(),
            users: Vec::new(),
            tenants: Vec::new(),
            allow_unprotected: false,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            sockets: SocketBackend::default(),
            connections_max: 10_000,
            idle_timeout: Some(Duration::from_secs(3600)),
            request_timeout: Some(Duration::from_secs(30)),
            request_deadline: None,
            value_bytes_max: 1 << 20,
            maxmemory_policy: MaxmemoryPolicy::default(),
            pubsub_bytes_max: 32 << 20,
            tracking_keys_max: 1_000_000,
            notify_keyspace_events: KeyspaceEvents::default(),
            memcached_database: 0,
            collection_bytes_max: 1 << 20,
            script_time_limit: Duration::from_secs(5),
            script_bytes_max: 16 << 20,
            client_bytes_max: 256 << 20,
            flash_turns: 128,
            ready_without_flash: true,
            ready_while_indexing: true,
            drain_time: Duration::from_secs(5),
            slow_threshold: Some(Duration::from_millis(10)),
            cluster: None,
            memcached_nodes: None,
            drive_levelling: LevellingOptions::default(),
            debug_clock: None,
        }
    }
}

impl ServerConfig {
    /// Refuses settings that cannot work on any machine.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the field, its value and what it must be.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if !(1..=1024).contains(&self.workers) {
            return refuse(format!("workers = {}: must be 1 to 1024", self.workers));
        }
        self.check_openness(self)?;
        self.check_debug_clock()?;
        self.check_tls()?;
        self.otlp.as_ref().map_or(Ok(()), Otlp::check)?;
        let checked = self.drive_levelling.check();
        checked.or_else(|error| refuse(format!("drive_levelling: {error}")))?;
        if self.flash_turns == 0 {
            return refuse("flash_turns = 0: must be at least 1".to_owned());
        }
        if self.connections_max == 0 {
            return refuse("connections_max = 0: must be at least 1".to_owned());
        }
        if !(1024..=VALUE_BYTES_MAX).contains(&self.value_bytes_max) {
            return refuse(format!(
                "value_bytes_max = {}: must be 1024 to {VALUE_BYTES_MAX}",
                self.value_bytes_max
            ));
        }
        if self.pubsub_bytes_max == 0 {
            return refuse("pubsub_bytes_max = 0: must be at least 1".to_owned());
        }
        if self.tracking_keys_max == 0 {
            return refuse("tracking_keys_max = 0: must be at least 1".to_owned());
        }
        if self.memcached_database >= DATABASES {
            return refuse(format!(
                "memcached_database = {}: must be 0 to {}",
                self.memcached_database,
                DATABASES - 1
            ));
        }
        if !(1..=VALUE_BYTES_MAX).contains(&self.collection_bytes_max) {
            return refuse(format!(
                "collection_bytes_max = {}: must be 1 to {VALUE_BYTES_MAX}",
                self.collection_bytes_max
            ));
        }
        self.check_scripts()?;
        if self.client_bytes_max < CLIENT_VALUES_MIN * self.value_bytes_max {
            return refuse(format!(
                "client_bytes_max = {}: must be at least {CLIENT_VALUES_MIN} times value_bytes_max, {}",
                self.client_bytes_max,
                CLIENT_VALUES_MIN * self.value_bytes_max
            ));
        }
        if self.request_timeout == Some(Duration::ZERO) {
            return refuse("request_timeout = 0s: must be more than 0; None is never".to_owned());
        }
        if self.idle_timeout == Some(Duration::ZERO) {
            return refuse("idle_timeout = 0s: must be more than 0; None is never".to_owned());
        }
        if self.request_deadline == Some(Duration::ZERO) {
            return refuse("request_deadline = 0s: must be more than 0; None is never".to_owned());
        }
        Ok(())
    }

    fn check_scripts(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if self.script_time_limit.is_zero() {
            return refuse("script_time_limit = 0ns: must be more than 0".to_owned());
        }
        if self.script_bytes_max < SCRIPT_BYTES_MIN {
            return refuse(format!(
                "script_bytes_max = {}: must be at least {SCRIPT_BYTES_MIN}",
                self.script_bytes_max
            ));
        }
        Ok(())
    }

    /// Any client may move the time of all tenants, so no listener may be reachable from other machines.
    fn check_debug_clock(&self) -> Result<(), Error> {
        let elsewhere =
            self.listeners.iter().find_map(|listener| reached_from_elsewhere(&listener.endpoint));
        match elsewhere.filter(|_| self.debug_clock.is_some()) {
            None => Ok(()),
            Some(address) => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "address {address}: with debug_clock clients move the time of all tenants: listen on loopback \
                     addresses and Unix sockets alone"
                ),
            )),
        }
    }

    fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|files| files.client_ca.is_some())
    }

    /// Refuses users and TLS settings that would let anyone in where `running` listens and other machines reach it.
    pub(crate) fn check_openness(&self, running: &Self) -> Result<(), Error> {
        let asks = self.asks_for_certificates() || !self.users.is_empty();
        let is_protected = |it: &ListenerConfig| it.is_tls && it.tenant.is_none() && asks;
        let listeners = running.listeners.iter().filter(|listener| !is_protected(listener));
        let mut open = listeners.filter_map(|listener| reached_from_elsewhere(&listener.endpoint));
        let open = open.next().or(running.admin.as_ref().filter(is_elsewhere));
        match open.filter(|_| !running.allow_unprotected) {
            None => Ok(()),
            Some(address) => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "address {address}: any client that reaches it could read and change all keys, or listen to \
                     passwords; listen on a loopback address, or with TLS and users, or set allow_unprotected if the \
                     network is trusted"
                ),
            )),
        }
    }

    fn check_tls(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        let is_spoken = self.listeners.iter().any(|listener| listener.is_tls);
        if is_spoken && self.tls.is_none() {
            return refuse("tls: an address speaks it, and there is no certificate".to_owned());
        }
        if !is_spoken && self.tls.is_some() {
            return refuse("tls: there is a certificate, and no address speaks it".to_owned());
        }
        let certified = self.users.iter().find(|user| user.certificate.is_some());
        if let Some(user) = certified.filter(|_| !self.asks_for_certificates()) {
            return refuse(format!(
                "user {:?}: has a certificate, but no client is asked for one: tls needs client_ca",
                user.name
            ));
        }
        Ok(())
    }

    /// The settings in which `other` differs and that a running server cannot take over.
    pub(crate) fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let Self { listeners, admin, allow_unprotected, workers, sockets, .. } = other;
        let Self { request_deadline, cluster, memcached_nodes, .. } = other;
        let Self { idle_timeout, request_timeout, value_bytes_max, drain_time, .. } = other;
        let Self { flash_turns, ready_without_flash, ready_while_indexing, .. } = other;
        let same = [
            ("listeners", self.listeners == *listeners),
            ("admin", self.admin == *admin),
            ("admin_hosts", self.admin_hosts == other.admin_hosts),
            ("otlp", self.otlp == other.otlp),
            ("block", self.block_caches == other.block_caches),
            ("admin_token", self.admin_token == other.admin_token),
            ("allow_unprotected", self.allow_unprotected == *allow_unprotected),
            ("workers", self.workers == *workers),
            ("sockets", self.sockets == *sockets),
            ("idle_timeout", self.idle_timeout == *idle_timeout),
            ("request_timeout", self.request_timeout == *request_timeout),
            ("request_deadline", self.request_deadline == *request_deadline),
            ("cluster", self.cluster == *cluster),
            ("memcached_nodes", self.memcached_nodes == *memcached_nodes),
            ("value_bytes_max", self.value_bytes_max == *value_bytes_max),
            ("maxmemory_policy", self.maxmemory_policy == other.maxmemory_policy),
            ("client_bytes_max", self.client_bytes_max == other.client_bytes_max),
            ("flash_turns", self.flash_turns == *flash_turns),
            ("ready_without_flash", self.ready_without_flash == *ready_without_flash),
            ("ready_while_indexing", self.ready_while_indexing == *ready_while_indexing),
            ("drain_time", self.drain_time == *drain_time),
            ("prefixes of tenants", prefixes(&self.tenants).eq(prefixes(&other.tenants))),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

/// The prefixes of tenants, without the empty ones.
fn prefixes(policies: &[TenantPolicy]) -> impl Iterator<Item = (&str, &[u8])> {
    let all = policies.iter().map(|policy| (&*policy.tenant, &*policy.prefix));
    all.filter(|(_, prefix)| !prefix.is_empty())
}
