//! The settings of a server. The command line overrides the file, and the file overrides defaults.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder::{Config, OnChange, Tenant};
use larder_device::{PlacementMode, Target, TargetKind};
use larder_server::{
    DebugClock, Endpoint, ListenerConfig, ProtocolKind, ServerConfig, SocketBackend, User,
};
use larder_workload::Error;
use toml::Spanned;

use super::resp::RespSettings;
use super::sizes;
use super::watching::Watching;
use super::words;
use crate::args::cache_keys::{Change, default_config};
use crate::args::{ListenArg, ServeArgs};
use crate::settings_file::cluster::{self, Cluster};
use crate::settings_file::places::{self, Place, Places};
use crate::settings_file::tls::{self, CheckedTls};
use crate::settings_file::{
    CacheSettings, From, Setting, SettingsFile, Source, TenantSettings, pick, pick_some,
};

/// Most shards of a set.
const SHARDS_MAX: usize = 128;
/// Permissions of Unix sockets: owner and group.
const SOCKET_MODE: u32 = 0o660;

/// The settings of a server.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) memcached: Setting<Vec<ListenArg>>,
    pub(crate) resp: Setting<Vec<ListenArg>>,
    pub(crate) memcached_tls: Setting<Vec<ListenArg>>,
    pub(crate) resp_tls: Setting<Vec<ListenArg>>,
    pub(crate) tls: Setting<Option<CheckedTls>>,
    pub(crate) admin: Setting<Vec<ListenArg>>,
    pub(crate) watching: Watching,
    pub(crate) memory: Setting<u64>,
    /// `None`: the existing size, or one chosen by the free space.
    pub(crate) flash: Setting<Option<u64>>,
    /// The files and drives of the shards, if there is a set.
    pub(crate) files: Setting<Vec<Target>>,
    /// Of the caches of all tenants; a tenant may have others.
    pub(crate) cache: CacheSettings,
    pub(crate) on_change: Setting<OnChange>,
    /// Whether tenants on flash that are no longer configured lose their data.
    pub(crate) drop_other_tenants: Setting<bool>,
    /// Whether channels of isolated tenants are exchanged so that they wear out together.
    pub(crate) levelling: Setting<bool>,
    /// Bytes a second that an exchange copies into each channel.
    pub(crate) levelling_pace: Setting<u64>,
    /// Requests of all tenants that a drive has in flight; 0: as many as come.
    pub(crate) flash_depth: Setting<u32>,
    pub(crate) data_dir: Setting<Option<PathBuf>>,
    pub(crate) workers: Setting<usize>,
    pub(crate) sockets: Setting<SocketBackend>,
    pub(crate) connections: Setting<usize>,
    pub(crate) value_max: Setting<u64>,
    pub(super) resp_clients: RespSettings,
    /// In seconds; 0 is never.
    pub(crate) idle_timeout: Setting<u32>,
    /// In seconds; 0 is never.
    pub(crate) request_timeout: Setting<u32>,
    /// In milliseconds; 0 is never.
    pub(crate) request_deadline: Setting<u32>,
    pub(crate) drain: Setting<u32>,
    pub(crate) close: Setting<u32>,
    pub(crate) allow_unprotected: Setting<bool>,
    /// The clock of caches and server, if clients may move it.
    pub(crate) debug_clock: Option<Arc<DebugClock>>,
    pub(crate) ready_without_flash: Setting<bool>,
    pub(crate) ready_while_indexing: Setting<bool>,
    /// At least one.
    pub(crate) tenants: Vec<TenantSettings>,
    pub(crate) users: Vec<User>,
    pub(crate) cluster: Cluster,
}

/// Default of `flash_depth` where tenants share a drive's time: enough for a fast drive to be busy.
const FLASH_DEPTH: u32 = 64;

/// The default of `flash_depth`.
fn depth_for(tenants: &[TenantSettings]) -> u32 {
    if tenants.iter().any(TenantSettings::shares_time) { FLASH_DEPTH } else { 0 }
}

/// The tenants of a file, at least one, its users, and the cluster.
fn who(
    file: &SettingsFile,
    source: Option<&Source>,
) -> Result<(Vec<TenantSettings>, Vec<User>, Cluster), Error> {
    let Some(source) = source else {
        return Ok((vec![TenantSettings::alone()], Vec::new(), Cluster::default()));
    };
    let (mut tenants, users) = source.tenants_and_users(file)?;
    if tenants.is_empty() {
        tenants.push(TenantSettings::alone());
    }
    let understood = file.cluster.as_ref().map(|entry| cluster::understand(entry, source));
    Ok((tenants, users, understood.transpose()?.unwrap_or_default()))
}

/// What the command line says of the caches, over what the file says.
fn cache_of(
    arguments: &ServeArgs,
    file: &SettingsFile,
    source: Option<&Source>,
) -> Result<CacheSettings, Error> {
    let written = source.map(|source| file.cache(source)).transpose()?.unwrap_or_default();
    let said = CacheSettings::said(arguments.cache.said(), &arguments.large)?;
    let cache = said.over(&written);
    cache.check().map_err(Error::usage)?;
    Ok(cache)
}

/// The file that the arguments name, if they do.
fn read(arguments: &ServeArgs) -> Result<(Option<Source>, SettingsFile), Error> {
    let Some(path) = &arguments.config else { return Ok((None, SettingsFile::default())) };
    let (source, file) = Source::read(path)?;
    Ok((Some(source), file))
}

/// The files of the shards.
fn files_of(arguments: &ServeArgs, file: &SettingsFile) -> Setting<Vec<Target>> {
    let said = (!arguments.file.is_empty()).then(|| arguments.file.clone());
    let written = file.file.as_ref().map(|files| files.get_ref().0.clone());
    pick(said, written, Vec::new)
}

impl Settings {
    /// The settings from `arguments`, and from the file that they name.
    pub(crate) fn of(arguments: &ServeArgs) -> Result<Self, Error> {
        let (source, file) = read(arguments)?;
        let (tenants, users, cluster) = who(&file, source.as_ref())?;
        let tls = tls::told(arguments, file.tls.as_ref().zip(source.as_ref()))?;
        let resp_clients = RespSettings::of(arguments, &file);
        let listens = Listens::of(arguments, &file);
        places::check(&listens.places(&file), source.as_ref())?;
        let Listens { memcached, memcached_tls, resp, resp_tls, admin } = listens;
        let default = ServerConfig::default();
        let file_span = file.file.as_ref().map(Spanned::span);
        let watching = Watching::of(arguments, &file);
        let (without_flash, indexing) =
            (arguments.ready_without_flash, arguments.ready_while_indexing);
        let settings = Self {
            memcached: memcached.setting(),
            resp: resp.setting(),
            memcached_tls: memcached_tls.setting(),
            resp_tls: resp_tls.setting(),
            tls,
            admin: admin.setting(),
            watching,
            memory: pick(arguments.memory, file.memory.map(|size| size.0), sizes::memory),
            flash: pick_some(arguments.flash, file.flash.map(|size| size.0)),
            files: files_of(arguments, &file),
            cache: cache_of(arguments, &file, source.as_ref())?,
            on_change: pick(arguments.cache.on_change, file.on_change.map(|it| it.0), || {
                OnChange::Refuse
            }),
            drop_other_tenants: pick(None, file.drop_other_tenants, || false),
            levelling: pick(None, file.levelling, || true),
            levelling_pace: pick(None, file.levelling_pace.map(|size| size.0), || 2 << 20),
            flash_depth: pick(arguments.flash_depth, file.flash_depth, || depth_for(&tenants)),
            data_dir: pick_some(arguments.data_dir.clone(), file.data_dir),
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
            resp_clients,
            idle_timeout: pick(arguments.idle_timeout, file.idle_timeout, || {
                seconds_of(default.idle_timeout)
            }),
            request_timeout: pick(arguments.request_timeout, file.request_timeout, || {
                seconds_of(default.request_timeout)
            }),
            request_deadline: pick(arguments.request_deadline, file.request_deadline, || 0),
            drain: pick(arguments.drain, file.drain, || 5),
            close: pick(arguments.close, file.close, || 60),
            allow_unprotected: pick(
                arguments.allow_unprotected.then_some(true),
                file.allow_unprotected,
                || false,
            ),
            ready_without_flash: pick(without_flash, file.ready_without_flash, || true),
            ready_while_indexing: pick(indexing, file.ready_while_indexing, || true),
            debug_clock: arguments.debug_time.then(Arc::default),
            tenants,
            users,
            cluster,
        };
        settings.check_server()?;
        settings.check_caches()?;
        settings.check_files_at(source.as_ref().zip(file_span))?;
        Ok(settings)
    }

    /// Checks the files of the shards; the error names their place in `larder.toml`.
    fn check_files_at(&self, place: Option<(&Source, Range<usize>)>) -> Result<(), Error> {
        let place = place.filter(|_| self.files.1 == From::File);
        self.check_files().map_err(|message| match place {
            Some((source, span)) => source.refuse(Some(span), &message),
            None => Error::usage(message),
        })
    }

    fn check_server(&self) -> Result<(), Error> {
        let told = |error: larder_server::Error| words::of_serve(&error);
        self.watching.check().map_err(Error::usage)?;
        self.server()?.check().map_err(|error| Error::usage(told(error)))
    }

    fn check_caches(&self) -> Result<(), Error> {
        self.tenants.iter().try_for_each(|tenant| {
            let checked = self.tenant(tenant).config.check();
            let refused = |why: String| Error::usage(format!("tenant {:?}: {why}", tenant.name));
            checked.map_err(|error| refused(words::of_serve(&error)))?;
            tenant.cache.over(&self.cache).check().map_err(refused)
        })
    }

    /// Each shard needs its own file; `data_dir` and `flash = 0` contradict files.
    fn check_files(&self) -> Result<(), String> {
        let files = &self.files.0;
        if self.watching.levels_drives() && files.len() < 2 {
            return Err("drive_levelling: it moves keys between the drives of a set; name at least two files"
                .to_owned());
        }
        // Two simulated drives of the same description are two drives.
        let is_model = |at: usize| files[at].kind == Some(TargetKind::Model);
        let twice = (0..files.len()).filter(|at| !is_model(*at));
        let twice = twice.into_iter().find(|at| files[..*at].contains(&files[*at]));
        if let Some(at) = twice {
            return Err(format!(
                "file: {} is there twice; each shard needs a file of its own",
                files[at]
            ));
        }
        if files.is_empty() {
            return Ok(());
        }
        if files.len() > SHARDS_MAX {
            return Err(format!("file: {} of them; a set has at most {SHARDS_MAX}", files.len()));
        }
        if let Some(directory) = &self.data_dir.0 {
            return Err(format!(
                "file and data_dir = {}: files are instead of the one there; leave data_dir out",
                directory.display()
            ));
        }
        if self.flash.0 == Some(0) {
            return Err("file and flash = 0: that is DRAM only; leave one of them out".to_owned());
        }
        Ok(())
    }

    /// The wish for placement.
    pub(crate) fn placement(&self) -> PlacementMode {
        self.cache.placement().unwrap_or_default()
    }

    /// The settings of caches in which `other` differs, by tenant; those that a changed share concerns too.
    pub(crate) fn changed_caches(&self, other: &Self) -> Vec<(String, Change)> {
        let mut changed = Vec::new();
        for theirs in &other.tenants {
            let Some(ours) = self.tenants.iter().find(|ours| ours.name == theirs.name) else {
                changed.push((format!("tenant {:?}", theirs.name), Change::Start));
                continue;
            };
            let (now, then) = (ours.cache.over(&self.cache), theirs.cache.over(&other.cache));
            let keys = now.changed(&then).into_iter().map(|(key, change)| (key.to_owned(), change));
            let of = |key: String| match self.tenants.len() {
                1 => key,
                _ => format!("{key} of tenant {:?}", theirs.name),
            };
            changed.extend(keys.map(|(key, change)| (of(key), change)));
            if ours.percent != theirs.percent {
                changed.push((of("share".to_owned()), Change::Empties));
            }
            if (&ours.isolated, &ours.file) != (&theirs.isolated, &theirs.file) {
                changed.push((of("isolation".to_owned()), Change::Start));
            }
            if ours.device_share != theirs.device_share {
                changed.push((of("share of the drive's time".to_owned()), Change::Start));
            }
            let memory = |of: &TenantSettings| (of.memory_percent, of.memory_borrow);
            if memory(ours) != memory(theirs) {
                changed.push((of("memory_share".to_owned()), Change::Start));
            }
        }
        let gone = self
            .tenants
            .iter()
            .filter(|ours| other.tenants.iter().all(|theirs| theirs.name != ours.name));
        changed.extend(gone.map(|gone| (format!("tenant {:?}", gone.name), Change::Start)));
        changed
    }

    /// Whether isolated tenants are on an array of virtual SSDs; otherwise they are on a drive that maps pages itself.
    pub(crate) fn is_on_array(&self) -> bool {
        let kind = self.files.0.first().and_then(|target| target.kind);
        matches!(kind, Some(TargetKind::Image | TargetKind::Model))
    }

    /// The part of the memory that is for clients.
    pub(crate) fn client_bytes(&self) -> u64 {
        sizes::clients(self.memory.0, self.value_max.0)
    }

    /// The part of the memory that is for the cache.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.memory.0 - self.client_bytes().min(self.memory.0 / 2)
    }

    /// The configuration of a tenant's cache.
    pub(crate) fn tenant(&self, tenant: &TenantSettings) -> Tenant {
        let mut own = Config { on_change: self.on_change.0, ..default_config() };
        self.cache.put_into(&mut own);
        tenant.tenant(&own)
    }

    /// The configuration of the server, without its cache.
    pub(crate) fn server(&self) -> Result<ServerConfig, Error> {
        let mut config = ServerConfig { listeners: self.listeners(), ..ServerConfig::default() };
        if config.listeners.is_empty() {
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
        self.resp_clients.tell(&mut config);
        config.client_bytes_max = usize::try_from(self.client_bytes()).unwrap_or(usize::MAX);
        config.idle_timeout = time_of(self.idle_timeout.0);
        config.request_timeout = time_of(self.request_timeout.0);
        let deadline = Duration::from_millis(self.request_deadline.0.into());
        config.request_deadline = (!deadline.is_zero()).then_some(deadline);
        config.tls = self.tls.0.as_ref().map(|told| told.files.clone());
        config.cluster.clone_from(&self.cluster.map);
        config.memcached_nodes.clone_from(&self.cluster.nodes);
        config.debug_clock.clone_from(&self.debug_clock);
        config.drain_time = Duration::from_secs(self.drain.0.into());
        config.allow_unprotected = self.allow_unprotected.0;
        config.ready_without_flash = self.ready_without_flash.0;
        config.ready_while_indexing = self.ready_while_indexing.0;
        config.users.clone_from(&self.users);
        config.tenants = self.tenants.iter().map(|tenant| tenant.policy.clone()).collect();
        Ok(config)
    }

    fn listeners(&self) -> Vec<ListenerConfig> {
        let lists = [
            (&self.memcached, ProtocolKind::Memcached, false),
            (&self.memcached_tls, ProtocolKind::Memcached, true),
            (&self.resp, ProtocolKind::Resp, false),
            (&self.resp_tls, ProtocolKind::Resp, true),
        ];
        let common = lists.into_iter().flat_map(|(places, protocol, is_tls)| {
            let listeners = places.0.iter().filter_map(move |at| listener(at, protocol));
            listeners.map(move |listener| ListenerConfig { is_tls, ..listener })
        });
        let own = self.tenants.iter().flat_map(|tenant| {
            let listeners = tenant.listens.iter().filter_map(|(at, kind)| listener(at, *kind));
            let name = Some(tenant.name.clone());
            listeners.map(move |listener| ListenerConfig { tenant: name.clone(), ..listener })
        });
        common.chain(own).collect()
    }

    /// Problems that do not prevent the start.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let tls = self.tls.0.as_ref().and_then(CheckedTls::warning);
        tls.into_iter().chain(self.cluster.warning.clone()).collect()
    }
}

/// A time in seconds; 0 means never.
fn time_of(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

fn seconds_of(time: Option<Duration>) -> u32 {
    time.map_or(0, |time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX))
}

fn listener(at: &ListenArg, protocol: ProtocolKind) -> Option<ListenerConfig> {
    let endpoint = match at {
        ListenArg::Nowhere => return None,
        ListenArg::Tcp(address) => Endpoint::Tcp(*address),
        ListenArg::Unix(path) => Endpoint::Unix { path: path.clone(), mode: SOCKET_MODE },
    };
    Some(ListenerConfig::new(endpoint, protocol))
}

/// The addresses to listen on, without the tenants' own.
struct Listens {
    memcached: Listen,
    memcached_tls: Listen,
    resp: Listen,
    resp_tls: Listen,
    admin: Listen,
}

/// The addresses of one kind of listener.
struct Listen {
    places: Vec<Place>,
    from: From,
}

impl Listens {
    fn of(arguments: &ServeArgs, file: &SettingsFile) -> Self {
        let local = |port| Some(ListenArg::Tcp(([127, 0, 0, 1], port).into()));
        let of = Listen::of;
        let memcached_tls =
            of("memcached_tls", &arguments.memcached_tls, file.memcached_tls.as_ref(), None);
        let resp_tls = of("resp_tls", &arguments.resp_tls, file.resp_tls.as_ref(), None);
        // With TLS addresses there is no default address without TLS.
        let unless = |tls: &Listen, port| if tls.places.is_empty() { local(port) } else { None };
        let (memcached, resp) = (unless(&memcached_tls, 11211), unless(&resp_tls, 6379));
        let admin = arguments.admin.clone().map(|at| vec![at]);
        Self {
            memcached: of("memcached", &arguments.memcached, file.memcached.as_ref(), memcached),
            memcached_tls,
            resp: of("resp", &arguments.resp, file.resp.as_ref(), resp),
            resp_tls,
            admin: of("admin", &admin, file.admin.as_ref(), local(9180)),
        }
    }

    /// All addresses, including the tenants'.
    fn places(&self, file: &SettingsFile) -> Vec<Place> {
        let Self { memcached, memcached_tls, resp, resp_tls, admin } = self;
        let common = [memcached, memcached_tls, resp, resp_tls, admin];
        let common = common.into_iter().flat_map(|listen| listen.places.iter().cloned());
        common.chain(file.places_of_tenants()).collect()
    }
}

impl Listen {
    /// The addresses on the command line, or of the file, or the default.
    fn of(
        name: &str,
        said: &Option<Vec<ListenArg>>,
        file: Option<&Spanned<Places>>,
        default: Option<ListenArg>,
    ) -> Self {
        let place = |at| Place { at, name: name.to_owned(), span: None };
        match (said, file) {
            (Some(said), _) => {
                Self { places: said.iter().cloned().map(place).collect(), from: From::CommandLine }
            }
            (None, Some(_)) => Self { places: Place::all(name, file), from: From::File },
            (None, None) => {
                Self { places: default.map(place).into_iter().collect(), from: From::Default }
            }
        }
    }

    fn setting(self) -> Setting<Vec<ListenArg>> {
        Setting(self.places.into_iter().map(|place| place.at).collect(), self.from)
    }
}
