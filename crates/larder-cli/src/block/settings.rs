//! The settings of a running cache. The command line overrides the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use larder_block::cache::CacheOptions;
use larder_block::layout::CoreId;
use larder_block::manage::{ChangedCore, OpenOptions, StoredCache};
use larder_block::policy::classes::IoClasses;
use larder_block::policy::routing::RoutingPolicy;
use larder_export::ublk::UblkId;
use larder_net::tls::Tls;
use larder_server::SocketBackend;
use larder_workload::Error;
use tracing::level_filters::LevelFilter;

use super::control;
use super::{serving, ublk};
use crate::args::tls::TlsArgs;
use crate::args::{ChangedCoreArg, CoreArg, RoutingArg, StartArgs, TargetArg};
use crate::settings_file::{BlockEntry, Source};

/// The settings of a running cache.
pub(super) struct Settings {
    pub(super) cache: TargetArg,
    pub(super) cores: Vec<CoreArg>,
    /// Cores to leave out.
    pub(super) without: Vec<CoreId>,
    pub(super) unix: Option<PathBuf>,
    pub(super) tcp: Option<SocketAddr>,
    /// The kernel disk of the first core, if cores are to be disks.
    pub(super) ublk: Option<UblkId>,
    pub(super) ublk_depth: u16,
    /// `None` if there is no path to derive it from.
    pub(super) control: Option<PathBuf>,
    pub(super) open: OpenOptions,
    pub(super) routing: Option<RoutingArg>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) flush_on_stop: bool,
    pub(super) threads: u16,
    pub(super) sockets: SocketBackend,
    pub(super) connections: u32,
    /// Level of events to log.
    pub(super) log: LevelFilter,
    pub(super) tls: Option<Tls>,
}

impl Settings {
    pub(super) fn of(arguments: &StartArgs) -> Result<Self, Error> {
        let entry = entry(arguments)?;
        let file = entry.as_ref();
        let cache = file.map(|file| file.cache.0.clone()).or_else(|| arguments.cache.clone());
        let cache = cache.ok_or_else(|| Error::usage("CACHE: which one?"))?;
        let cores = match file {
            Some(file) if arguments.cores.is_empty() => {
                file.core.iter().map(|core| core.0.clone()).collect()
            }
            _ => arguments.cores.clone(),
        };
        let unix = arguments.unix.clone().or_else(|| file?.unix.clone());
        let tcp = arguments.tcp.or_else(|| file?.tcp);
        let ublk = arguments.ublk.ublk.or_else(|| Some(file?.ublk?.0));
        let ublk_depth = arguments.ublk.ublk_depth.or_else(|| file?.ublk_depth);
        let ublk_depth = ublk::depth(ublk_depth)?;
        if unix.is_none() && tcp.is_none() && ublk.is_none() {
            let message = "no place to listen: --unix PATH, --tcp ADDR or --ublk N must name one";
            return Err(Error::usage(message));
        }
        let control = arguments.control.clone().or_else(|| file?.control.clone());
        let control = control.or_else(|| unix.as_deref().map(control::beside));
        let threads = arguments.threads.or_else(|| file?.threads).unwrap_or(1);
        let connections = arguments.connections.or_else(|| file?.connections).unwrap_or(64);
        if !(1..=256).contains(&threads) || connections == 0 {
            let message = format!(
                "threads = {threads}, connections = {connections}: give 1 to 256 threads, and at least 1 connection"
            );
            return Err(Error::usage(message));
        }
        let flush_on_stop =
            arguments.flush_on_stop || file.and_then(|file| file.flush_on_stop).unwrap_or_default();
        let sockets = arguments.sockets.or_else(|| Some(file?.sockets?.0.0)).unwrap_or_default();
        let log = arguments.log.or_else(|| Some(file?.log?.0)).unwrap_or(LevelFilter::INFO);
        let open = open(arguments, file)?;
        let tls = serving::tls(&tls_files(arguments, file))?;
        Ok(Self {
            cache,
            cores,
            without: arguments.choice.without_core.clone(),
            unix,
            tcp,
            ublk: ublk.map(|ublk| ublk.0),
            ublk_depth,
            control,
            open,
            routing: arguments.routing.or_else(|| Some(file?.routing?.0)),
            metrics: arguments.metrics.or_else(|| file?.metrics),
            flush_on_stop,
            threads,
            sockets,
            connections,
            log,
            tls,
        })
    }

    /// The routing policy for a cache with this label: by default auto if it is calibrated, else off.
    pub(super) fn routing(&self, stored: &StoredCache) -> Result<RoutingPolicy, Error> {
        let known = stored.profile.as_ref();
        match self.routing {
            Some(routing) => routing.policy(known).map_err(Error::usage),
            None => Ok(RoutingArg::Auto.policy(known).unwrap_or_default()),
        }
    }
}

/// TLS files of the command line, or else of the file.
fn tls_files(arguments: &StartArgs, file: Option<&BlockEntry>) -> TlsArgs {
    let TlsArgs { tls_certificate, tls_key, tls_client_ca } = arguments.tls.clone();
    TlsArgs {
        tls_certificate: tls_certificate.or_else(|| file?.tls_certificate.clone()),
        tls_key: tls_key.or_else(|| file?.tls_key.clone()),
        tls_client_ca: tls_client_ca.or_else(|| file?.tls_client_ca.clone()),
    }
}

/// The entry of the file for the chosen cache.
fn entry(arguments: &StartArgs) -> Result<Option<BlockEntry>, Error> {
    let Some(path) = &arguments.config else { return Ok(None) };
    let (source, file) = Source::read(path)?;
    let entries = file.block;
    let known = || {
        let names: Vec<String> =
            entries.iter().map(|entry| entry.get_ref().cache.0.to_string()).collect();
        names.join(", ")
    };
    let found = match (&arguments.cache, entries.as_slice()) {
        (_, []) => {
            let message = "it has no [[block]]: with cache = \"PATH\" and unix = \"PATH\"";
            return Err(source.refuse(None, message));
        }
        (None, [only]) => only,
        (None, _) => {
            let message = format!("CACHE: which one of {}? Name it", known());
            return Err(source.refuse(None, &message));
        }
        (Some(cache), _) => {
            entries.iter().find(|entry| entry.get_ref().cache.0 == *cache).ok_or_else(|| {
                let message =
                    format!("no [[block]] has cache = \"{cache}\": there are {}", known());
                source.refuse(None, &message)
            })?
        }
    };
    Ok(Some(found.get_ref().clone()))
}

fn open(arguments: &StartArgs, file: Option<&BlockEntry>) -> Result<OpenOptions, Error> {
    let mut cache = CacheOptions::default();
    if let Some(cut_off) = arguments.cut_off.or_else(|| Some(file?.cut_off?.0)) {
        (cache.cut_off, cache.cut_off_bytes) = (cut_off.policy, cut_off.threshold_bytes);
    }
    if let Some(read_ahead) = arguments.read_ahead.or_else(|| Some(file?.read_ahead?.0)) {
        cache.read_ahead = read_ahead.0;
    }
    if let Some(promotion) = arguments.promotion.or_else(|| Some(file?.promotion?.0)) {
        cache.promotion = promotion.0;
    }
    if let Some(cleaning) = arguments.cleaning.or_else(|| Some(file?.cleaning?.0)) {
        cache.cleaning = cleaning.0;
    }
    if let Some(bypass) = arguments.bypass.or_else(|| Some(file?.bypass?.0)) {
        cache.bypass = bypass;
    }
    if let Some(errors) = arguments.cache_errors_max.or_else(|| file?.cache_errors_max) {
        cache.cache_errors_max = errors;
    }
    if let Some(seconds) = arguments.load_time.or_else(|| file?.load_time) {
        cache.load_time = Duration::from_secs(seconds.into());
    }
    if let Some(path) = arguments.io_classes.clone().or_else(|| file?.io_classes.clone()) {
        cache.classes = classes(&path)?;
    }
    let changed = arguments.changed_core.or_else(|| Some(file?.changed_core?.0));
    Ok(OpenOptions {
        cache,
        mode: arguments.mode.or_else(|| Some(file?.mode?.0)),
        changed: changed.map(changed_core).unwrap_or_default(),
        accept_loss: arguments.accept_loss
            || file.and_then(|file| file.accept_loss).unwrap_or_default(),
        seed: std::process::id().into(),
        force: arguments.choice.force_core.clone(),
        ..OpenOptions::default()
    })
}

/// What to do with a core that has changed.
pub(super) fn changed_core(argument: ChangedCoreArg) -> ChangedCore {
    match argument {
        ChangedCoreArg::Refuse => ChangedCore::Refuse,
        ChangedCoreArg::DestageAndDrop => ChangedCore::DestageAndDrop,
    }
}

fn classes(path: &std::path::Path) -> Result<IoClasses, Error> {
    let refused =
        |error: &dyn std::fmt::Display| Error::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    text.parse().map_err(|error: larder_block::Error| refused(&error))
}
