//! `larder serve`: opens the cache, serves, and ends in order.

mod data;
mod sizes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::BinaryBytes;
use larder::{Config, OnChange, RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_lab::Error;
use larder_server::{Endpoint, ProtocolKind, Server, ServerConfig};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{ListenArg, ServeArgs};
use crate::ending::Ending;
use data::Data;

/// Whoever may use a Unix socket: its user and group.
const SOCKET_MODE: u32 = 0o660;
/// The only tenant, if none are configured.
const TENANT: &str = "default";

pub(crate) fn run(arguments: &ServeArgs) -> Result<Ending, Error> {
    // Before any thread is made, so that none takes a signal that is meant for this one.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Error::run(format!("signals cannot be waited for: {error}")))?;
    let config = server_config(arguments)?;
    let begun = Instant::now();
    let memory = arguments.memory.unwrap_or_else(sizes::memory);
    let data = Data::open(arguments, memory)?;
    let tenants = open(&data, memory)?;
    println!("memory     {}", BinaryBytes(memory));
    println!("flash      {}", data.describe());
    let server = Server::start(config, tenants).map_err(|error| Error::run(error.to_string()))?;
    for (endpoint, protocol) in server.endpoints() {
        println!("{:<10} {endpoint}", name(*protocol));
    }
    println!("ready in {:.1} s; SIGTERM or Ctrl-C ends it", begun.elapsed().as_secs_f64());
    wait(&mut signals);
    println!("ending: connections end what they have begun, then the cache is closed");
    let handle = signals.handle();
    std::thread::spawn(move || {
        for signal in &mut signals {
            if signal != SIGHUP {
                eprintln!("told a second time: ending at once; what only DRAM held is lost");
                std::process::exit(130);
            }
        }
    });
    let ended = server.end(Duration::from_secs(arguments.close.into()));
    handle.close();
    ended.map_err(|error| Error::run(error.to_string()))?;
    println!("closed");
    Ok(Ending::Complete)
}

fn name(protocol: ProtocolKind) -> &'static str {
    match protocol {
        ProtocolKind::Memcached => "memcached",
        ProtocolKind::Resp => "resp",
    }
}

/// Waits until it is told to end.
fn wait(signals: &mut Signals) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        println!("SIGHUP: nothing can be changed while it runs that the command line has said");
    }
}

fn server_config(arguments: &ServeArgs) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::default();
    let memcached = arguments.memcached.iter().map(|at| (at, ProtocolKind::Memcached));
    let resp = arguments.resp.iter().map(|at| (at, ProtocolKind::Resp));
    config.endpoints = memcached.chain(resp).filter_map(|(at, kind)| endpoint(at, kind)).collect();
    if config.endpoints.is_empty() {
        let message = "no protocol has an address: --memcached or --resp must name one";
        return Err(Error::Usage(message.to_owned()));
    }
    if let Some(workers) = arguments.workers {
        config.workers = workers.into();
    }
    config.connections_max = arguments.connections;
    config.value_bytes_max = usize::try_from(arguments.value_max).unwrap_or(usize::MAX);
    config.idle_timeout = arguments.idle_timeout();
    config.drain_time = Duration::from_secs(arguments.drain.into());
    Ok(config)
}

fn endpoint(at: &ListenArg, protocol: ProtocolKind) -> Option<(Endpoint, ProtocolKind)> {
    let endpoint = match at {
        ListenArg::Nowhere => return None,
        ListenArg::Tcp(address) => Endpoint::Tcp(*address),
        ListenArg::Unix(path) => Endpoint::Unix { path: path.clone(), mode: SOCKET_MODE },
    };
    Some((endpoint, protocol))
}

fn open(data: &Data, memory: u64) -> Result<Tenants, Error> {
    // Clients of memcached may ask when an item was used.
    let own = Config { access_times: true, ..Config::default() };
    let config = TenantsConfig {
        memory_bytes: Some(memory),
        tenants: vec![Tenant { config: own, ..Tenant::new(TENANT, 100.0) }],
        on_change: OnChange::Discard,
        ..TenantsConfig::default()
    };
    let opened = block_on(Tenants::open(config, data.device(), Arc::new(RealClock)));
    opened.map_err(|error| Error::run(format!("the cache cannot be opened: {error}")))
}
