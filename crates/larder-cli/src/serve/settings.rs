//! What a server is told: options of the command line before those of the file, before what is chosen for it.

use std::path::PathBuf;
use std::time::Duration;

use larder_lab::Error;
use larder_server::{Endpoint, ProtocolKind, ServerConfig, SocketBackend, User};

use super::file::{SettingsFile, Source};
use super::sizes;
use super::tenants::TenantSettings;
use super::watching::Watching;
use crate::args::{ListenArg, ServeArgs};

/// Whoever may use a Unix socket: its user and group.
const SOCKET_MODE: u32 = 0o660;

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    CommandLine,
    File,
    Default,
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CommandLine => "command line",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// A setting, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T>(pub(crate) T, pub(crate) From);

/// See the module.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) memcached: Setting<Vec<ListenArg>>,
    pub(crate) resp: Setting<Vec<ListenArg>>,
    pub(crate) admin: Setting<Vec<ListenArg>>,
    pub(crate) watching: Watching,
    pub(crate) memory: Setting<u64>,
    /// `None`: as it is, or by the space that is free.
    pub(crate) flash: Setting<Option<u64>>,
    pub(crate) data_dir: Setting<Option<PathBuf>>,
    pub(crate) workers: Setting<usize>,
    pub(crate) sockets: Setting<SocketBackend>,
    pub(crate) connections: Setting<usize>,
    pub(crate) value_max: Setting<u64>,
    pub(crate) idle_timeout: Setting<u32>,
    pub(crate) drain: Setting<u32>,
    pub(crate) close: Setting<u32>,
    pub(crate) allow_unprotected: Setting<bool>,
    pub(crate) ready_without_flash: Setting<bool>,
    /// At least one.
    pub(crate) tenants: Vec<TenantSettings>,
    pub(crate) users: Vec<User>,
}

/// The first that says something.
pub(super) fn pick<T>(said: Option<T>, file: Option<T>, default: impl FnOnce() -> T) -> Setting<T> {
    match (said, file) {
        (Some(said), _) => Setting(said, From::CommandLine),
        (None, Some(file)) => Setting(file, From::File),
        (None, None) => Setting(default(), From::Default),
    }
}

impl Settings {
    /// What `arguments` say, and the file that they name.
    pub(crate) fn of(arguments: &ServeArgs) -> Result<Self, Error> {
        let (file, mut tenants, users) = match &arguments.config {
            None => (SettingsFile::default(), Vec::new(), Vec::new()),
            Some(path) => {
                let (source, file) = Source::read(path)?;
                let (tenants, users) = source.tenants_and_users(&file)?;
                (file, tenants, users)
            }
        };
        if tenants.is_empty() {
            tenants.push(TenantSettings::alone());
        }
        let local = |port| move || vec![ListenArg::Tcp(([127, 0, 0, 1], port).into())];
        let default = ServerConfig::default();
        let watching = Watching::of(arguments, &file);
        let settings = Self {
            memcached: pick(
                arguments.memcached.clone(),
                file.memcached.map(|places| places.0),
                local(11211),
            ),
            resp: pick(arguments.resp.clone(), file.resp.map(|places| places.0), local(6379)),
            admin: pick(
                arguments.admin.clone().map(|at| vec![at]),
                file.admin.map(|places| places.0),
                local(9180),
            ),
            watching,
            memory: pick(arguments.memory, file.memory.map(|size| size.0), sizes::memory),
            flash: pick(
                arguments.flash.map(Some),
                file.flash.map(|size| Some(size.0)),
                Option::default,
            ),
            data_dir: pick(
                arguments.data_dir.clone().map(Some),
                file.data_dir.map(Some),
                Option::default,
            ),
            workers: pick(
                arguments.workers.map(usize::from),
                file.workers.map(usize::from),
                || default.workers,
            ),
            sockets: pick(arguments.sockets, file.sockets.map(|how| how.0), || default.sockets),
            connections: pick(arguments.connections, file.connections, || default.connections_max),
            value_max: pick(arguments.value_max, file.value_max.map(|size| size.0), || {
                default.value_bytes_max as u64
            }),
            idle_timeout: pick(arguments.idle_timeout, file.idle_timeout, || 0),
            drain: pick(arguments.drain, file.drain, || 5),
            close: pick(arguments.close, file.close, || 60),
            allow_unprotected: pick(
                arguments.allow_unprotected.then_some(true),
                file.allow_unprotected,
                || false,
            ),
            ready_without_flash: pick(
                arguments.ready_without_flash,
                file.ready_without_flash,
                || default.ready_without_flash,
            ),
            tenants,
            users,
        };
        settings.server()?.check().map_err(|error| Error::usage(error.to_string()))?;
        Ok(settings)
    }

    /// What of it concerns the server, and not its cache.
    pub(crate) fn server(&self) -> Result<ServerConfig, Error> {
        let mut config = ServerConfig::default();
        let memcached = self.memcached.0.iter().map(|at| (at, ProtocolKind::Memcached));
        let resp = self.resp.0.iter().map(|at| (at, ProtocolKind::Resp));
        config.endpoints =
            memcached.chain(resp).filter_map(|(at, kind)| endpoint(at, kind)).collect();
        if config.endpoints.is_empty() {
            let message = "no protocol has an address: --memcached or --resp must name one";
            return Err(Error::usage(message));
        }
        config.admin = match self.admin.0.as_slice() {
            [ListenArg::Nowhere] => None,
            [ListenArg::Tcp(address)] => Some(*address),
            _ => {
                let message = "admin: must be one address such as 127.0.0.1:9180, or none";
                return Err(Error::usage(message));
            }
        };
        self.watching.tell(&mut config);
        config.workers = self.workers.0;
        config.sockets = self.sockets.0;
        config.connections_max = self.connections.0;
        config.value_bytes_max = usize::try_from(self.value_max.0).unwrap_or(usize::MAX);
        config.idle_timeout =
            (self.idle_timeout.0 > 0).then(|| Duration::from_secs(self.idle_timeout.0.into()));
        config.drain_time = Duration::from_secs(self.drain.0.into());
        config.allow_unprotected = self.allow_unprotected.0;
        config.ready_without_flash = self.ready_without_flash.0;
        config.users.clone_from(&self.users);
        config.tenants = self.tenants.iter().map(|tenant| tenant.policy.clone()).collect();
        Ok(config)
    }
}

fn endpoint(at: &ListenArg, protocol: ProtocolKind) -> Option<(Endpoint, ProtocolKind)> {
    let endpoint = match at {
        ListenArg::Nowhere => return None,
        ListenArg::Tcp(address) => Endpoint::Tcp(*address),
        ListenArg::Unix(path) => Endpoint::Unix { path: path.clone(), mode: SOCKET_MODE },
    };
    Some((endpoint, protocol))
}
