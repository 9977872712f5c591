//! What the serving commands share: endpoints, messages, and how they end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use larder_export::nbd::{NbdConfig, NbdServer};
use larder_net::sockets::{Endpoint, SocketBackend};
use larder_net::tls::{Tls, TlsFault, TlsFiles};
use larder_workload::Error;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::tls::{TlsArgs, incomplete, name_of};

/// The owner and the group may open the Unix socket.
const SOCKET_MODE: u32 = 0o660;

/// Must be called before any thread is started, so that no other thread takes the signals.
pub(super) fn signals() -> Result<Signals, Error> {
    Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Error::run(format!("signals cannot be waited for: {error}")))
}

/// A second signal ends the process at once.
pub(super) fn end_at_second(mut signals: Signals) {
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            eprintln!("told a second time: ending at once; what was not flushed may be lost");
            std::process::exit(130);
        }
    });
}

pub(super) fn endpoints(unix: Option<&PathBuf>, tcp: Option<SocketAddr>) -> Vec<Endpoint> {
    let unix = unix.map(|path| Endpoint::Unix { path: path.clone(), mode: SOCKET_MODE });
    unix.into_iter().chain(tcp.map(Endpoint::Tcp)).collect()
}

/// Serves by NBD, if there is an endpoint.
pub(super) fn server(config: NbdConfig) -> Result<Option<NbdServer>, Error> {
    if config.endpoints.is_empty() {
        return Ok(None);
    }
    NbdServer::start(config).map(Some).map_err(|error| Error::run(error.to_string()))
}

/// Prints that the command ends.
pub(super) fn tell_ending(server: Option<&NbdServer>) {
    match server {
        Some(server) => {
            say(&format!("ending: {} connections end what they have begun", server.connections()));
        }
        None => say("ending"),
    }
}

/// Ends the connections; if that takes long, prints how many it waits for.
pub(super) fn drain(server: Option<&mut NbdServer>) -> Result<(), larder_device::Error> {
    let waits = |connections| {
        say(&format!(
            "ending: waiting for {connections} connections, whose requests are under way, or whose clients do not take \
             their last replies (5 s, then they are closed)"
        ));
    };
    server.map_or(Ok(()), |server| server.drain(waits))
}

/// The TLS certificate, if clients have to use TLS.
pub(super) fn tls(told: &TlsArgs) -> Result<Option<Tls>, Error> {
    let files = match (&told.tls_certificate, &told.tls_key, &told.tls_client_ca) {
        (None, None, None) => return Ok(None),
        (Some(certificate), Some(key), client_ca) => TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
        },
        _ => return Err(incomplete()),
    };
    let refused = |fault: TlsFault| Error::usage(format!("--tls-{} {fault}", name_of(fault.file)));
    Tls::load(&files).map(Some).map_err(refused)
}

/// Prints the number of threads, and how they wait for sockets.
pub(super) fn tell_threads(threads: u16, wanted: SocketBackend, server: &NbdServer) {
    let refused = if server.sockets() == wanted { "" } else { " (the kernel refuses io_uring)" };
    say(&format!("threads    {threads}, sockets by {}{refused}", server.sockets()));
}

/// Prints the addresses of an export for clients.
pub(super) fn tell_places(name: &str, unix: Option<&Path>, is_tls: bool, server: &NbdServer) {
    let scheme = if is_tls { "nbds" } else { "nbd" };
    if let Some(path) = unix {
        say(&format!("unix       {scheme}+unix:///{name}?socket={}", path.display()));
    }
    for address in server.addresses() {
        say(&format!("tcp        {scheme}://{address}/{name}"));
    }
}

/// Prints a line. If standard output is closed, the command goes on all the same.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
