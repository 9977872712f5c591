//! What a server listens on, with how many threads, and its limits.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::policy::TenantPolicy;
use crate::protocol::resp::slots::SlotMap;
use crate::users::{PasswordHash, User};

/// What is spoken at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolKind {
    /// memcached's: text, meta and binary.
    Memcached,
    /// Redis' and Valkey's: RESP2 and RESP3.
    Resp,
}

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP address; port 0 takes any that is free.
    Tcp(SocketAddr),
    /// A Unix socket with the permission bits of its file.
    Unix {
        /// Where the file is.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How threads wait for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SocketBackend {
    /// `epoll`, which every kernel and container allows.
    #[default]
    Epoll,
    /// io_uring (Linux 6.1), and `epoll` where it is refused, as by most containers' default profiles.
    IoUring,
}

/// What a server listens on, with how many threads, and its limits. The caches are opened by whoever starts it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where clients come in, and what they speak there.
    pub endpoints: Vec<(Endpoint, ProtocolKind)>,
    /// Where the admin page, `/metrics`, `/live` and `/ready` are asked for, by HTTP; `None` nowhere.
    pub admin: Option<SocketAddr>,
    /// Further names of the admin address, such as `cache.example` or `cache.example:9180`: requests for any other
    /// name are refused, but for `localhost` and the address at which they arrive.
    pub admin_hosts: Vec<String>,
    /// Of the token with which operators may flush tenants; `None`: nothing can be changed at the admin address.
    pub admin_token: Option<PasswordHash>,
    /// Who may come in, and whose keys it has then. If there are none, everybody may, and has those of the first
    /// tenant.
    pub users: Vec<User>,
    /// What tenants may do; those that are not named may do what they can.
    pub tenants: Vec<TenantPolicy>,
    /// Whether other machines may come in though nothing protects the keys and passwords on their way. Without it, only
    /// addresses of this machine (loopback) and Unix sockets are listened on.
    pub allow_unprotected: bool,
    /// Threads that serve, 1 to 1024.
    pub workers: usize,
    /// How they wait for sockets.
    pub sockets: SocketBackend,
    /// Most connections at a time; who comes when there are so many is told so and closed.
    pub connections_max: usize,
    /// A connection that asks nothing for so long is closed; `None` never.
    pub idle_timeout: Option<Duration>,
    /// Longest value in bytes, at most 16 MiB.
    pub value_bytes_max: usize,
    /// Bytes of requests and answers under way, of all connections of a worker together. Beyond them requests are
    /// answered as busy.
    pub under_way_bytes_max: usize,
    /// Requests of a worker that read flash at a time, at least 1; further ones wait, and tenants get turns by their
    /// weights.
    pub flash_turns: usize,
    /// Whether a server whose drive is not used, since it fails or answers nothing, is ready all the same: it goes on
    /// in DRAM.
    pub ready_without_flash: bool,
    /// How long connections may go on with what they have begun when the server is told to end.
    pub drain_time: Duration,
    /// Requests that wait so long or longer, for flash or for others, are kept for operators to look at, with their
    /// keys; `None` none.
    pub slow_threshold: Option<Duration>,
    /// If several servers divide the keys of RESP clients among them: which has what. Clients are sent to the others.
    pub cluster: Option<SlotMap>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            admin: None,
            admin_hosts: Vec::new(),
            admin_token: None,
            users: Vec::new(),
            tenants: Vec::new(),
            allow_unprotected: false,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            sockets: SocketBackend::default(),
            connections_max: 10_000,
            idle_timeout: None,
            value_bytes_max: 1 << 20,
            under_way_bytes_max: 256 << 20,
            flash_turns: 128,
            ready_without_flash: true,
            drain_time: Duration::from_secs(5),
            slow_threshold: Some(Duration::from_millis(10)),
            cluster: None,
        }
    }
}

impl ServerConfig {
    /// Refuses what cannot work anywhere.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the field, its value and what it must be.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if !(1..=1024).contains(&self.workers) {
            return refuse(format!("workers = {}: must be 1 to 1024", self.workers));
        }
        let open = self.endpoints.iter().find_map(|(endpoint, _)| match endpoint {
            Endpoint::Tcp(address) if !address.ip().is_loopback() => Some(address),
            _ => None,
        });
        let open = open.or(self.admin.as_ref().filter(|address| !address.ip().is_loopback()));
        if let Some(address) = open.filter(|_| !self.allow_unprotected) {
            return refuse(format!(
                "address {address}: whoever reaches it could read and change all keys, or listen to passwords; listen \
                 on a loopback address, or set allow_unprotected if the network is trusted"
            ));
        }
        if self.flash_turns == 0 {
            return refuse("flash_turns = 0: must be at least 1".to_owned());
        }
        if self.connections_max == 0 {
            return refuse("connections_max = 0: must be at least 1".to_owned());
        }
        if !(1024..=16 << 20).contains(&self.value_bytes_max) {
            return refuse(format!(
                "value_bytes_max = {}: must be 1024 to 16777216",
                self.value_bytes_max
            ));
        }
        if self.under_way_bytes_max < 2 * self.value_bytes_max {
            return refuse(format!(
                "under_way_bytes_max = {}: must be at least twice value_bytes_max, {}",
                self.under_way_bytes_max,
                2 * self.value_bytes_max
            ));
        }
        if self.idle_timeout == Some(Duration::ZERO) {
            return refuse("idle_timeout = 0s: must be more than 0; None is never".to_owned());
        }
        Ok(())
    }

    /// The settings in which `other` differs, and that a server which runs cannot take over.
    pub(crate) fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let Self { endpoints, admin, allow_unprotected, workers, sockets, .. } = other;
        let Self { idle_timeout, value_bytes_max, under_way_bytes_max, drain_time, .. } = other;
        let Self { flash_turns, ready_without_flash, .. } = other;
        let same = [
            ("endpoints", self.endpoints == *endpoints),
            ("admin", self.admin == *admin),
            ("admin_hosts", self.admin_hosts == other.admin_hosts),
            ("admin_token", self.admin_token == other.admin_token),
            ("allow_unprotected", self.allow_unprotected == *allow_unprotected),
            ("workers", self.workers == *workers),
            ("sockets", self.sockets == *sockets),
            ("idle_timeout", self.idle_timeout == *idle_timeout),
            ("value_bytes_max", self.value_bytes_max == *value_bytes_max),
            ("under_way_bytes_max", self.under_way_bytes_max == *under_way_bytes_max),
            ("flash_turns", self.flash_turns == *flash_turns),
            ("ready_without_flash", self.ready_without_flash == *ready_without_flash),
            ("drain_time", self.drain_time == *drain_time),
            ("prefixes of tenants", prefixes(&self.tenants).eq(prefixes(&other.tenants))),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

/// The prefixes of tenants.
fn prefixes(policies: &[TenantPolicy]) -> impl Iterator<Item = (&str, &[u8])> {
    let all = policies.iter().map(|policy| (&*policy.tenant, &*policy.prefix));
    all.filter(|(_, prefix)| !prefix.is_empty())
}
