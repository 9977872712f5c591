//! `larder block export`.

use std::io::{self, Write};
use std::sync::Arc;

use larder_block::export::nbd::{Export, NbdConfig, NbdServer};
use larder_block::volume::DeviceVolume;
use larder_device::sockets::Endpoint;
use larder_lab::Error;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::target;
use crate::args::ExportArgs;
use crate::ending::Ending;

/// Who may open the Unix socket: its owner and the group.
const SOCKET_MODE: u32 = 0o660;

pub(super) fn run(arguments: &ExportArgs) -> Result<Ending, Error> {
    // Before any thread is made, so that none takes a signal that is meant for this one.
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Error::run(format!("signals cannot be waited for: {error}")))?;
    let device = target::open(&arguments.target)?;
    let described = target::describe(&arguments.target, &*device);
    let volume = Arc::new(DeviceVolume::new(device));
    let run = |error: larder_device::Error| Error::run(error.to_string());
    let mut export = Export::new(arguments.name.as_str(), volume)
        .and_then(|export| export.described(described.as_str()))
        .map_err(|error| Error::usage(error.to_string()))?;
    if arguments.read_only {
        export = export.read_only();
    }
    let server = NbdServer::start(NbdConfig {
        endpoints: endpoints(arguments),
        exports: vec![export],
        workers: arguments.threads.into(),
        sockets: arguments.sockets,
        connections_max: usize::try_from(arguments.connections).unwrap_or(usize::MAX),
        ..NbdConfig::default()
    })
    .map_err(run)?;
    tell(arguments, &described, &server);
    signals.forever().next();
    say(&format!("ending: {} connections end what they have begun", server.connections()));
    let handle = signals.handle();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            eprintln!("told a second time: ending at once; what was not flushed may be lost");
            std::process::exit(130);
        }
    });
    let ended = server.end();
    handle.close();
    ended.map_err(run)?;
    say("flushed and closed");
    Ok(Ending::Complete)
}

fn endpoints(arguments: &ExportArgs) -> Vec<Endpoint> {
    let unix =
        arguments.unix.iter().map(|path| Endpoint::Unix { path: path.clone(), mode: SOCKET_MODE });
    unix.chain(arguments.tcp.iter().map(|address| Endpoint::Tcp(*address))).collect()
}

/// Says what is served, where, and by which names clients know it.
fn tell(arguments: &ExportArgs, described: &str, server: &NbdServer) {
    let access = if arguments.read_only { "read-only" } else { "read and written" };
    say(&format!("export     {described}, {access}"));
    let wanted = arguments.sockets;
    let refused = if server.sockets() == wanted { "" } else { " (the kernel refuses io_uring)" };
    say(&format!("threads    {}, sockets by {}{refused}", arguments.threads, server.sockets()));
    let name = &arguments.name;
    if let Some(path) = &arguments.unix {
        say(&format!("unix       nbd+unix:///{name}?socket={}", path.display()));
    }
    for address in server.addresses() {
        say(&format!("tcp        nbd://{address}/{name}"));
    }
    say("ready; SIGTERM or Ctrl-C ends it");
}

/// Tells whoever reads. If nobody does any more, it goes on all the same.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
