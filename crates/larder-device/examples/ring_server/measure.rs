//! Rounds of all servers, what they cost, and on what it was measured.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use larder_device::{Device, FileDevice, FileOptions, Io, IoBuffer, PlacementHandle};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clients::{Asked, Clients};
use crate::{epoll, runtime};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a question, the number of a block.
pub(crate) const QUESTION: usize = 8;
/// Bytes of an answer, the first of the block.
pub(crate) const ANSWER: usize = 64;
pub(crate) const BLOCK: usize = 4096;

/// Name of the threads whose processor time is not the server's.
pub(crate) const CLIENTS: &str = "clients";

/// What was asked for.
pub(crate) struct Arguments {
    directory: PathBuf,
    rounds: usize,
    time: Duration,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) blocks: u64,
    pinned: bool,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut parsed = Arguments {
        directory: std::env::temp_dir(),
        rounds: 5,
        time: Duration::from_millis(1200),
        connections: 50,
        depth: 1,
        blocks: 64 << 8,
        pinned: true,
    };
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        let mut value = || given.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--rounds" => parsed.rounds = value()?.parse()?,
            "--seconds" => parsed.time = Duration::from_secs_f64(value()?.parse()?),
            "--connections" => parsed.connections = value()?.parse()?,
            "--depth" => parsed.depth = value()?.parse()?,
            "--megabytes" => parsed.blocks = value()?.parse::<u64>()? << 8,
            "--unpinned" => parsed.pinned = false,
            option if option.starts_with("--") => return Err(format!("unknown {option}").into()),
            directory => parsed.directory = directory.into(),
        }
    }
    if parsed.rounds == 0 || parsed.connections == 0 || parsed.depth == 0 || parsed.blocks == 0 {
        return Err("nothing to do".into());
    }
    Ok(parsed)
}

/// A server: runs on the thread that calls it until its clients have gone.
type Server = fn(TcpListener, Arc<FileDevice>, bool) -> Result<(), Failure>;

/// All servers: name, server, whether its thread hosts a ring.
const SERVERS: [(&str, Server, bool); 4] = [
    ("epoll, ring hosted", epoll::serve, true),
    ("epoll, reaper", epoll::serve, false),
    ("tokio, ring hosted", runtime::serve, true),
    ("tokio, reaper", runtime::serve, false),
];

/// What one server did in one round.
#[derive(Clone, Copy)]
struct Measured {
    cpu_us: f64,
    per_second: f64,
    median_us: f64,
}

pub(crate) fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    PINNED.store(arguments.pinned, Ordering::Relaxed);
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let path = directory.path().join("blocks");
    let engine = fill(&path, arguments.blocks)?;
    println!(
        "{}, {} cores, load {}\n{} connections with {} under way each, file of {} MiB in {}, {engine}; \
         {} rounds of {:?}, threads {}",
        read("/proc/sys/kernel/osrelease"),
        std::thread::available_parallelism()?,
        read("/proc/loadavg"),
        arguments.connections,
        arguments.depth,
        arguments.blocks >> 8,
        arguments.directory.display(),
        arguments.rounds,
        arguments.time,
        if arguments.pinned { "pinned" } else { "where they like" },
    );
    let mut measured = vec![Vec::new(); SERVERS.len()];
    for round in 0..arguments.rounds {
        for turn in 0..SERVERS.len() {
            // Every other round goes backwards: whoever comes after whom changes.
            let at = if round % 2 == 0 { turn } else { SERVERS.len() - 1 - turn };
            measured[at].push(run(SERVERS[at], &path, &arguments)?);
        }
    }
    println!("load {} at the end\n", read("/proc/loadavg"));
    println!("| server | CPU us a request | requests/s | p50 us |\n|---|---|---|---|");
    for ((name, ..), rounds) in SERVERS.iter().zip(&measured) {
        let cpu = spread(rounds.iter().map(|it| it.cpu_us).collect(), 1);
        let rate = spread(rounds.iter().map(|it| it.per_second).collect(), 0);
        let median = spread(rounds.iter().map(|it| it.median_us).collect(), 0);
        println!("| {name} | {cpu} | {rate} | {median} |");
    }
    println!();
    for (hosted, reaper) in [(0, 1), (2, 3)] {
        let ratios = |of: fn(&Measured) -> f64| {
            let pairs = measured[hosted].iter().zip(&measured[reaper]);
            spread(pairs.map(|(hosted, reaper)| of(hosted) / of(reaper)).collect(), 2)
        };
        println!(
            "{} by {}, round by round: CPU {}, requests/s {}",
            SERVERS[hosted].0,
            SERVERS[reaper].0,
            ratios(|it| it.cpu_us),
            ratios(|it| it.per_second)
        );
    }
    Ok(())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Median, and the least and the most.
fn spread(mut of: Vec<f64>, digits: usize) -> String {
    of.sort_unstable_by(f64::total_cmp);
    let (least, most) = (of[0], of[of.len() - 1]);
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", of[of.len() / 2])
}

/// A file of blocks that begin with their numbers. Says how it is reached.
fn fill(path: &std::path::Path, blocks: u64) -> Result<String, Failure> {
    let device = FileDevice::create(path, blocks * BLOCK as u64)?;
    let run = 64;
    for first in (0..blocks).step_by(run) {
        let count = run.min(usize::try_from(blocks - first)?);
        let mut buffer = IoBuffer::zeroed(count * BLOCK);
        for (number, block) in (first..).zip(buffer.as_mut_slice().chunks_mut(BLOCK)) {
            block[..QUESTION].copy_from_slice(&number.to_le_bytes());
        }
        let write = Io::write(first * BLOCK as u64, buffer, PlacementHandle::DEFAULT);
        device.submit(write).wait()?;
    }
    device.submit(Io::Flush).wait()?;
    if device.engine_fallback().is_some() {
        return Err("the kernel refuses io_uring here".into());
    }
    Ok(if device.direct() { "direct" } else { "through the page cache" }.to_owned())
}

fn run(
    (name, serve, hosted): (&str, Server, bool),
    path: &std::path::Path,
    arguments: &Arguments,
) -> Result<Measured, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let path = path.to_owned();
    let (ready, is_ready) = channel();
    let server = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        pin(0);
        // Opened here: the threads that the device makes are pinned as well.
        let device = FileDevice::open(path, &FileOptions::default())?;
        ready.send(())?;
        serve(listener, Arc::new(device), hosted)
    })?;
    is_ready.recv()?;
    let clients = Clients::begin(address, arguments)?;
    // Connections are made and rings warm.
    std::thread::sleep(Duration::from_millis(200));
    let (begin, asked, cpu) = (Instant::now(), clients.asked(), server_ns()?);
    std::thread::sleep(arguments.time);
    let (time, done, spent) = (begin.elapsed(), clients.asked() - asked, server_ns()? - cpu);
    let Asked { median_us } = clients.end()?;
    server.join().map_err(|_| format!("{name} has panicked"))??;
    let requests = f64::from(u32::try_from(done)?).max(1.0);
    Ok(Measured {
        cpu_us: f64::from(u32::try_from(spent / 1000)?) / requests,
        per_second: requests / time.as_secs_f64(),
        median_us,
    })
}

static PINNED: AtomicBool = AtomicBool::new(true);

/// Keeps this thread on the first core, or the last, unless threads are to run where they like.
pub(crate) fn pin(which: usize) {
    if !PINNED.load(Ordering::Relaxed) {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(which.min(cores - 1));
    let _ = sched_setaffinity(None, &set);
}

/// Nanoseconds on a core of all threads of this process but the clients'.
fn server_ns() -> Result<u64, Failure> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == CLIENTS {
            continue;
        }
        let stat = std::fs::read_to_string(task.join("schedstat"))?;
        sum += stat.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}
