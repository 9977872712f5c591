//! `larder block start`: opens a cache, serves its cores, and stops it cleanly.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::BinaryBytes;
use larder_block::manage::{self, OpenCache};
use larder_block::running::Handles;
use larder_block::volume::CachedVolume;
use larder_device::{RealClock, block_on};
use larder_export::nbd::{NbdConfig, NbdServer};
use larder_export::ublk::UblkConfig;
use larder_server::MetricsServer;
use larder_workload::Error;

use super::control::{
    Answers, ControlServer, CoreExports, StopRequest, still_dirty, still_missing,
};
use super::cores::{self, failed};
use super::keeping::Keeper;
use super::report::{Destaged, StartFindings, Status, Usage};
use super::serving::{self, say};
use super::settings::Settings;
use super::ublk::Disks;
use super::{known_caches, render, target, ublk};
use crate::args::StartArgs;
use crate::ending::Ending;
use crate::log::Log;

/// How long we wait for the client that asked for the end to get its answer.
const FAREWELL: Duration = Duration::from_secs(5);

pub(super) fn run(arguments: &StartArgs) -> Result<Ending, Error> {
    let mut signals = serving::signals()?;
    let (mut settings, _log) = prepared(arguments)?;
    let device = target::open(&settings.cache)?;
    let (handles, plan) = Handles::plan(&device.info().placement, true);
    settings.open.handles = handles;
    let seen = block_on(manage::look(&device)).map_err(|error| failed(&error))?;
    settings.open.cache.routing = settings.routing(&seen.stored)?;
    let without = &settings.without;
    let cores = cores::of_known(&settings.cache, &seen.stored, &settings.cores, without)?.some()?;
    let opened = block_on(manage::open(&device, &cores, &settings.open));
    let opened = opened.map_err(|error| failed(&error))?;
    is_opened(&opened, &settings);
    // The cache device may be detached later, and then belong to another process.
    drop(device);
    opened.cache.set_clock(Arc::new(RealClock));
    let status = Status::of_opened(&opened);
    let found = StartFindings::of(&opened.started);
    render::warn_of_damage(&found);
    let exports =
        cores.iter().map(|core| cores::export(&opened, core)).collect::<Result<_, _>>()?;
    let server = serving::server(NbdConfig {
        endpoints: serving::endpoints(settings.unix.as_ref(), settings.tcp),
        exports,
        tls: settings.tls.clone(),
        workers: settings.threads.into(),
        sockets: settings.sockets,
        connections_max: usize::try_from(settings.connections).unwrap_or(usize::MAX),
        ..NbdConfig::default()
    })?;
    let (asks, asked) = mpsc::channel();
    let cache = opened.cache.clone();
    let exported = CoreExports {
        nbd: server.as_ref().map(NbdServer::exports),
        has_disks: settings.ublk.is_some(),
    };
    let (answers, opened) = Answers::new(opened, exported, asks.clone());
    let answers = Arc::new(answers);
    let of_metrics = Arc::clone(&answers);
    let metrics = settings.metrics.map(|at| MetricsServer::start(at, move || of_metrics.metrics()));
    let metrics = metrics.transpose().map_err(|error| Error::run(error.to_string()))?;
    let control = settings.control.as_deref();
    let control = control.map(|path| ControlServer::start(path, answers)).transpose()?;
    let keeper = Keeper::start(cache, Arc::clone(&opened));
    let keeper = keeper.map_err(|error| Error::run(format!("a thread: {error}")))?;
    tell(&settings, &status, &found, server.as_ref(), control.as_ref());
    let disks = disks(&settings, &status, &cores, &opened)?;
    // A core may be removed later, and then belong to another process.
    drop(cores);
    say(&format!("placement\n{}", plan.to_string().trim_end()));
    if let Some(metrics) = &metrics {
        say(&format!("metrics    http://{}/metrics", metrics.address()));
    }
    say("ready; SIGTERM or Ctrl-C ends it");
    let handle = signals.handle();
    let flush_on_stop = settings.flush_on_stop;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            told_by_signal(&asks, flush_on_stop);
            serving::end_at_second(signals);
        }
    });
    let ended = end(&asked, (disks, server), control, keeper, &opened);
    drop(metrics);
    handle.close();
    ended
}

/// Reads the settings, and starts the log.
fn prepared(arguments: &StartArgs) -> Result<(Settings, Log), Error> {
    let settings = Settings::of(arguments)?;
    if settings.ublk.is_some() {
        ublk::check()?;
    }
    let log = Log::begin(settings.log);
    Ok((settings, log))
}

/// Prints the results of comparing the cores, and records where the cache is.
fn is_opened(opened: &OpenCache, settings: &Settings) {
    cores::tell_checked(opened);
    known_caches::record(opened.uuid, &settings.cache);
}

/// Makes cores kernel disks, if the user wants that. If not, prints which existing disks wait for a server.
fn disks(
    settings: &Settings,
    status: &Status,
    cores: &[manage::Core],
    opened: &Mutex<Option<OpenCache>>,
) -> Result<Disks, Error> {
    let mut disks = Disks::default();
    let Some(first) = settings.ublk else {
        for disk in status.disks_now() {
            eprintln!("note: {}", disk.render());
        }
        return Ok(disks);
    };
    let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.as_ref().ok_or_else(|| Error::run("the cache is ending"))?;
    for core in cores {
        // A missing core keeps the number of its disk.
        let nth = status.cores.iter().position(|known| known.core == core.id.get());
        let nth = nth.expect("it was opened with it");
        let cached = opened.cache.core(core.id).expect("it was opened with it");
        // The name from the label, or as given.
        let target = core.name.parse().map_err(Error::run)?;
        let owner = ublk::owner_of_core(&status.uuid, core.id.get());
        let disk = disks.begin(UblkConfig {
            id: ublk::nth(first, nth),
            queues: settings.threads,
            queue_depth: settings.ublk_depth,
            logical_block_bytes: ublk::logical_block_bytes(&target, &*core.device),
            optimal_bytes: status.line_bytes,
            ..UblkConfig::new(Arc::new(CachedVolume::new(cached)), owner)
        })?;
        Disks::announce(disk, settings.ublk_depth);
    }
    Ok(disks)
}

/// A signal asks for the same as `stop`, without waiting for the answer.
fn told_by_signal(asks: &Sender<StopRequest>, flush: bool) {
    let (answer, _) = mpsc::sync_channel(1);
    let (_, told) = mpsc::channel();
    let _ = asks.send(StopRequest { flush, answer, told });
}

fn tell(
    settings: &Settings,
    status: &Status,
    found: &StartFindings,
    server: Option<&NbdServer>,
    control: Option<&ControlServer>,
) {
    say(render::status(status).trim_end());
    say(&format!("found      {}", render::found(found)));
    if let Some(server) = server {
        serving::tell_threads(settings.threads, settings.sockets, server);
    }
    for core in status.cores.iter().filter(|core| !core.missing) {
        say(&format!("export     {}: {}", core.core, core.path));
        let Some(server) = server else { continue };
        serving::tell_places(
            &core.core.to_string(),
            settings.unix.as_deref(),
            settings.tls.is_some(),
            server,
        );
    }
    match control {
        Some(control) => say(&format!("control    {}", control.path().display())),
        None => say("control    none; --control PATH makes one"),
    }
}

/// Waits for a request to end, and ends the cache.
fn end(
    asked: &Receiver<StopRequest>,
    (disks, mut server): (Disks, Option<NbdServer>),
    control: Option<ControlServer>,
    keeper: Keeper,
    opened: &Mutex<Option<OpenCache>>,
) -> Result<Ending, Error> {
    let asked = asked.recv().map_err(|error| Error::run(error.to_string()))?;
    serving::tell_ending(server.as_ref());
    // Ending a disk flushes the kernel's page cache of it to the cache.
    let ended = disks.end();
    let drained = serving::drain(server.as_mut());
    // A removal of a core that is running holds this lock: it finishes first, and ends the core's export itself.
    let opened = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    let served = drained.and_then(|()| server.map_or(Ok(()), NbdServer::end));
    drop((control, keeper));
    let stopped = opened.map(|opened| stop(opened, &asked)).unwrap_or(Ok(Destaged::default()));
    let _ = asked.answer.send(stopped.clone());
    let _ = asked.told.recv_timeout(FAREWELL);
    let Destaged { dirty_bytes, .. } = stopped.map_err(Error::run)?;
    ended?;
    served.map_err(|error| Error::run(error.to_string()))?;
    match dirty_bytes {
        0 => say("stopped; nothing is dirty"),
        bytes => say(&format!(
            "stopped; {} stay dirty on the cache device: `larder block start` or `recover` takes them up",
            BinaryBytes(bytes)
        )),
    }
    Ok(Ending::Complete)
}

fn stop(opened: OpenCache, asked: &StopRequest) -> Result<Destaged, String> {
    let cache = opened.cache.clone();
    let dirty_before_bytes = Usage::of(&cache).dirty_bytes;
    let stored = opened.stored().clone();
    block_on(opened.stop(asked.flush))
        .map_err(|error| format!("{error}; {}", still_dirty(&cache)))?;
    if let Some(left) = still_missing(&cache, &stored).filter(|_| asked.flush) {
        return Err(format!("stopped; {left}"));
    }
    Ok(Destaged { dirty_before_bytes, dirty_bytes: Usage::of(&cache).dirty_bytes })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use larder_block::cache::Mode;
    use larder_block::layout::CoreId;
    use larder_block::layout::log::LogOptions;
    use larder_block::manage::{Core, CreateOptions, LayoutOptions, OpenOptions};
    use larder_device::{Device, MemoryDevice};
    use larder_net::sockets::Endpoint;

    use super::*;

    const MIB: usize = 1 << 20;

    fn opened(cores: &[Core]) -> OpenCache {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![0; 4 * MIB]));
        let log = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let (layout, mode) = (LayoutOptions::Log(log), Mode::WriteBack);
        let options = CreateOptions { layout, mode, ..CreateOptions::default() };
        block_on(manage::create(&device, cores, &options)).unwrap();
        block_on(manage::open(&device, cores, &OpenOptions::default())).unwrap()
    }

    /// A core is removed, but its export still exists, when the cache is told to end.
    #[test]
    fn a_core_that_is_just_taken_away_is_in_nobodys_way_when_the_cache_ends() {
        let cores = [0, 1].map(|number| Core {
            id: CoreId::new(number).unwrap(),
            name: format!("core-{number}"),
            device: Arc::new(MemoryDevice::holding(vec![0; MIB])),
        });
        let opened = opened(&cores);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let endpoints = vec![Endpoint::Unix { path: path.clone(), mode: 0o600 }];
        let exports = cores.iter().map(|core| cores::export(&opened, core).unwrap()).collect();
        let config = NbdConfig { endpoints, exports, ..NbdConfig::default() };
        let server = NbdServer::start(config).unwrap();
        let exported = server.exports();
        let cache = opened.cache.clone();
        let opened = Arc::new(Mutex::new(Some(opened)));
        let keeper = Keeper::start(cache, Arc::clone(&opened)).unwrap();
        let (asks, asked) = mpsc::channel();
        told_by_signal(&asks, false);
        thread::scope(|scope| {
            let mut held = opened.lock().unwrap();
            block_on(held.as_mut().unwrap().remove_core(cores[1].id)).unwrap();
            let of_server = (Disks::default(), Some(server));
            let shared = &opened;
            let ending = scope.spawn(move || end(&asked, of_server, None, keeper, shared));
            while UnixStream::connect(&path).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
            // Time for `end` to fail if it did not wait for the removal.
            thread::sleep(Duration::from_millis(200));
            assert!(exported.remove("1").is_some());
            drop(held);
            ending.join().unwrap().unwrap();
        });
    }
}
