//! `larder block export`.

use std::sync::Arc;

use larder_block::export::nbd::{Export, NbdConfig, NbdServer};
use larder_block::volume::DeviceVolume;
use larder_lab::Error;

use super::serving::{self, say};
use super::target;
use crate::args::ExportArgs;
use crate::ending::Ending;

pub(super) fn run(arguments: &ExportArgs) -> Result<Ending, Error> {
    let mut signals = serving::signals()?;
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
    let tls = serving::tls(&arguments.tls)?;
    let is_tls = tls.is_some();
    let server = NbdServer::start(NbdConfig {
        endpoints: serving::endpoints(arguments.unix.as_ref(), arguments.tcp),
        exports: vec![export],
        tls,
        workers: arguments.threads.into(),
        sockets: arguments.sockets,
        connections_max: usize::try_from(arguments.connections).unwrap_or(usize::MAX),
        ..NbdConfig::default()
    })
    .map_err(run)?;
    tell(arguments, &described, is_tls, &server);
    signals.forever().next();
    say(&format!("ending: {} connections end what they have begun", server.connections()));
    let handle = signals.handle();
    serving::end_at_second(signals);
    let ended = server.end();
    handle.close();
    ended.map_err(run)?;
    say("flushed and closed");
    Ok(Ending::Complete)
}

/// Says what is served, where, and by which names clients know it.
fn tell(arguments: &ExportArgs, described: &str, is_tls: bool, server: &NbdServer) {
    let access = if arguments.read_only { "read-only" } else { "read and written" };
    say(&format!("export     {described}, {access}"));
    serving::tell_threads(arguments.threads, arguments.sockets, server);
    serving::tell_places(&arguments.name, arguments.unix.as_deref(), is_tls, server);
    say("ready; SIGTERM or Ctrl-C ends it");
}
