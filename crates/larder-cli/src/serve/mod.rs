//! `larder serve`: opens the cache, serves, and ends cleanly.

mod check;
mod data;
mod descriptors;
mod loans;
mod on_blocks;
mod on_drive;
mod placement;
mod reload;
mod resp;
mod settings;
mod sizes;
mod telling;
mod vssds;
mod watching;
mod wear;
mod words;

use std::time::{Duration, Instant};

use indicatif::BinaryBytes;
use larder::{PlacementPlan, Route, Tenants, TenantsConfig, block_on};
use larder_server::{BoundServer, DebugClock, ListenerConfig, ProtocolKind, Server};
use larder_workload::Error;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ServeArgs;
use crate::ending::Ending;
use crate::log::Log;
use crate::settings_file::array;
pub(crate) use check::{check, password};
use data::Data;
use descriptors::config_that_fits;
use on_blocks::OwnDevice;
use reload::reload;
use settings::Settings;
use telling::{complain, say};
use vssds::Levelled;

pub(crate) fn run(arguments: &ServeArgs) -> Result<Ending, Error> {
    // Before any thread is started, so that no other thread takes the signals.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Error::run(format!("signals cannot be waited for: {error}")))?;
    let settings = Settings::of(arguments)?;
    let _log = Log::begin(settings.watching.log());
    let config = config_that_fits(&settings)?;
    let begun = Instant::now();
    // Bind first: errors of listening are known before a file is created.
    let bound = Server::bind(config).map_err(told)?;
    let (data, made) = Data::open(&settings)?;
    let begin = || {
        let own = data.own_devices(&settings).transpose()?;
        let levelled = data.level(own.as_deref().unwrap_or_default(), &settings)?;
        let wear = levelled.as_ref().map(Levelled::wear);
        let orders = levelled.as_ref().and_then(Levelled::orders);
        let bound = bound.with_wear(wear).with_vssds(orders);
        let bound = bound.with_devices(data.reports(&settings));
        Ok((start(bound, (&data, own), &settings)?, levelled))
    };
    let (server, levelled) = begin().inspect_err(|_: &Error| made.remove())?;
    let clients = BinaryBytes(settings.client_bytes());
    say(format_args!("memory     {}, {clients} of it for clients", BinaryBytes(settings.memory.0)));
    say(format_args!("flash      {}", data.describe()));
    say(format_args!("{}", threads(&server, &settings)));
    for listener in server.listeners() {
        say(format_args!("{}", describe(listener)));
    }
    if let Some(address) = server.admin() {
        say(format_args!("{:<10} http://{address}/", "admin"));
    }
    say(format_args!("ready in {:.1} s; SIGTERM or Ctrl-C ends it", begun.elapsed().as_secs_f64()));
    tell_service_manager(&NotifyState::Ready);
    wait(&mut signals, arguments, &server, &settings);
    tell_service_manager(&NotifyState::Stopping);
    say(format_args!("ending: connections end what they have begun, then the cache is closed"));
    let handle = signals.handle();
    std::thread::spawn(move || {
        for signal in &mut signals {
            if signal != SIGHUP {
                complain(format_args!(
                    "told a second time: ending at once; what only DRAM held is lost"
                ));
                std::process::exit(130);
            }
        }
    });
    let ended = server.end(Duration::from_secs(settings.close.0.into()));
    drop(levelled);
    handle.close();
    ended.map_err(|error| Error::run(error.to_string()))?;
    say(format_args!("closed"));
    Ok(Ending::Complete)
}

/// Prints the memory of each tenant's array engine, if it has one.
fn tell_array_memory(tenants: &Tenants) {
    for (tenant, cache) in tenants.iter() {
        if let Some(memory) = cache.array_memory() {
            let of = if tenant.is_empty() { String::new() } else { format!(" of {tenant}") };
            say(format_args!("{:<10} {}", format!("array{of}"), array::memory(&memory)));
        }
    }
}

/// Prints where the data of all tenants go, by `plan`, and what was found there.
fn tell_about(
    tenants: &Tenants<impl Route>,
    plan: &PlacementPlan,
    (data, settings): (&Data, &Settings),
) {
    tell_what_was_found(tenants);
    let first = tenants.iter().filter_map(|(name, cache)| Some((name, cache.caches().next()?)));
    placement::tell(data, &first.collect::<Vec<_>>(), plan, settings);
}

/// Prints what each tenant's caches have found on flash.
fn tell_what_was_found(tenants: &Tenants<impl Route>) {
    let has_several = tenants.iter().count() > 1;
    for (tenant, cache) in tenants.iter() {
        let caches: Vec<_> = cache.caches().collect();
        for (number, found) in caches.iter().enumerate() {
            let Some(found) = found.recovery() else { continue };
            let tenant = has_several.then(|| format!("tenant {tenant}, "));
            let shard = (caches.len() > 1).then(|| format!("shard {number}, "));
            let whose = tenant.into_iter().chain(shard).collect::<String>();
            say(format_args!("{:<10} {whose}{found}", "found"));
        }
    }
}

/// The number of threads, and how they wait for sockets; with the reason if that is not as configured.
fn threads(server: &Server, settings: &Settings) -> String {
    let (sockets, wanted) = (server.sockets(), settings.sockets.0);
    let refused = if sockets == wanted { "" } else { " (the kernel refuses io_uring)" };
    format!("{:<10} {}, sockets by {sockets}{refused}", "threads", settings.workers.0)
}

/// The address of a listener, and its properties.
fn describe(listener: &ListenerConfig) -> String {
    let name = match listener.protocol {
        ProtocolKind::Memcached => "memcached",
        ProtocolKind::Resp => "resp",
    };
    let tls = if listener.is_tls { " with TLS" } else { "" };
    let tenant = listener.tenant.as_ref().map(|name| format!(" of tenant {name}"));
    format!("{name:<10} {}{tls}{}", listener.endpoint, tenant.unwrap_or_default())
}

/// Notifies a service manager such as systemd, if there is one (`NOTIFY_SOCKET`).
fn tell_service_manager(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        complain(format_args!("the service manager cannot be told: {error}"));
    }
}

/// Waits for a signal to end. On SIGHUP it reads the file again.
fn wait(signals: &mut Signals, arguments: &ServeArgs, server: &Server, started: &Settings) {
    let mut applied: Option<Settings> = None;
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        let reloaded = Settings::of(arguments).and_then(|wanted| {
            let before = (started, applied.as_ref().unwrap_or(started));
            Ok((reload(server, before, &wanted)?, wanted))
        });
        match reloaded {
            Ok((done, wanted)) => {
                say(format_args!("SIGHUP: {done}"));
                applied = Some(wanted);
            }
            Err(error) => complain(format_args!("SIGHUP: nothing is changed: {error}")),
        }
    }
}

/// An error of the server, with the names of the command's options.
fn told(error: larder_server::Error) -> Error {
    Error::run(words::of_serve(&error))
}

/// Opens the cache on `data`, or on the devices that tenants have for themselves, and serves it.
fn start(
    bound: BoundServer,
    (data, own): (&Data, Option<Vec<OwnDevice>>),
    settings: &Settings,
) -> Result<Server, Error> {
    let config = TenantsConfig {
        memory_bytes: Some(settings.cache_bytes()),
        tenants: match own {
            Some(_) => Vec::new(),
            None => settings.tenants.iter().map(|tenant| settings.tenant(tenant)).collect(),
        },
        on_change: settings.on_change.0,
        drop_others: settings.drop_other_tenants.0,
        device_depth: data.is_divided().then_some(settings.flash_depth.0).filter(|it| *it > 0),
        endurance: settings.watching.endurance(),
        ..TenantsConfig::default()
    };
    let clock = DebugClock::or_real(settings.debug_clock.as_ref());
    let refused = |error: larder::Error| {
        let mut why = words::of_serve(&error);
        // Of an array's memory, clients take nothing.
        if format!(" {why}").contains(" memory = ") {
            let clients = BinaryBytes(settings.memory.0 - settings.cache_bytes());
            why += &format!("; these numbers are without the {clients} of memory for clients");
        }
        Error::run(format!("the cache cannot be opened: {why}"))
    };
    if let Some(devices) = data.shards() {
        let tenants = block_on(Tenants::open_sharded(config, devices, clock)).map_err(refused)?;
        let mut plans = tenants.placements().iter();
        let plan = plans.find(|plan| !plan.streams().is_empty());
        tell_about(&tenants, plan.unwrap_or(PlacementPlan::NONE), (data, settings));
        return bound.serve_sharded(tenants).map_err(told);
    }
    let tenants = match own {
        Some(tenants) => block_on(Tenants::open_on(config, tenants, clock)),
        None => block_on(Tenants::open(config, data.device(), clock)),
    };
    let tenants = tenants.map_err(refused)?;
    tell_array_memory(&tenants);
    tell_about(&tenants, tenants.placement(), (data, settings));
    bound.serve(tenants).map_err(told)
}
