//! `larder block export`.

use std::sync::Arc;

use larder_export::nbd::{Export, NbdConfig, NbdServer};
use larder_export::ublk::UblkConfig;
use larder_export::volume::{DeviceVolume, Volume};
use larder_workload::Error;

use super::serving::{self, say};
use super::ublk::Disks;
use super::{target, ublk};
use crate::args::ExportArgs;
use crate::ending::Ending;
use crate::log::Log;

pub(super) fn run(arguments: &ExportArgs) -> Result<Ending, Error> {
    let mut signals = serving::signals()?;
    let _log = Log::begin(arguments.log);
    if arguments.ublk.ublk.is_some() {
        ublk::check()?;
    }
    let device = match arguments.read_only {
        true => target::open_read_only(&arguments.target)?,
        false => target::open(&arguments.target)?,
    };
    let described = target::describe(&arguments.target, &*device);
    let volume = Arc::new(DeviceVolume::new(device));
    let run = |error: larder_device::Error| Error::run(error.to_string());
    let mut export = Export::new(arguments.name.as_str(), Arc::clone(&volume) as Arc<dyn Volume>)
        .and_then(|export| export.described(described.as_str()))
        .map_err(|error| Error::usage(error.to_string()))?;
    if arguments.read_only {
        export = export.read_only();
    }
    let tls = serving::tls(&arguments.tls)?;
    let is_tls = tls.is_some();
    let endpoints = serving::endpoints(arguments.unix.as_ref(), arguments.tcp);
    let mut server = serving::server(NbdConfig {
        endpoints,
        exports: vec![export],
        tls,
        workers: arguments.threads.into(),
        sockets: arguments.sockets,
        connections_max: usize::try_from(arguments.connections).unwrap_or(usize::MAX),
        ..NbdConfig::default()
    })?;
    tell(arguments, &described, is_tls, server.as_ref());
    let disks = disk(arguments, volume)?;
    say("ready; SIGTERM or Ctrl-C ends it");
    signals.forever().next();
    serving::tell_ending(server.as_ref());
    let handle = signals.handle();
    serving::end_at_second(signals);
    // Ending a disk flushes the kernel's page cache of it to the device.
    let ended = disks.end();
    let drained = serving::drain(server.as_mut());
    let served = drained.and_then(|()| server.map_or(Ok(()), NbdServer::end));
    handle.close();
    ended?;
    served.map_err(run)?;
    say("flushed and closed");
    Ok(Ending::Complete)
}

/// Makes it a kernel disk, if the user wants one.
fn disk(arguments: &ExportArgs, volume: Arc<DeviceVolume>) -> Result<Disks, Error> {
    let mut disks = Disks::default();
    let Some(id) = arguments.ublk.ublk else { return Ok(disks) };
    let queue_depth = ublk::depth(arguments.ublk.ublk_depth)?;
    let logical_block_bytes = ublk::logical_block_bytes(&arguments.target, &**volume.device());
    let optimal_bytes = volume.info().blocks.preferred;
    let disk = disks.begin(UblkConfig {
        id: id.0,
        queues: arguments.threads,
        queue_depth,
        logical_block_bytes,
        optimal_bytes,
        is_read_only: arguments.read_only,
        ..UblkConfig::new(volume, ublk::owner_of_target(&arguments.target))
    })?;
    Disks::announce(disk, queue_depth);
    Ok(disks)
}

/// Prints what is served, where, and the names for clients.
fn tell(arguments: &ExportArgs, described: &str, is_tls: bool, server: Option<&NbdServer>) {
    let access = if arguments.read_only { "read-only" } else { "read and written" };
    say(&format!("export     {described}, {access}"));
    let Some(server) = server else { return };
    serving::tell_threads(arguments.threads, arguments.sockets, server);
    serving::tell_places(&arguments.name, arguments.unix.as_deref(), is_tls, server);
}
