//! Runs rounds of all servers; prints their costs and the machine on which they were measured.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use larder_device::{Device, FileDevice, FileOptions, Io, IoBuffer, PlacementHandle};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clients::{ClientLatency, Clients};
use crate::{epoll, runtime};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a question, which is the number of a block.
pub(crate) const QUESTION: usize = 8;
/// Bytes of an answer, the first of the block.
pub(crate) const ANSWER: usize = 64;
pub(crate) const BLOCK: usize = 4096;

/// Name of the threads whose processor time does not count as the server's.
pub(crate) const CLIENTS: &str = "clients";

/// The cost of answering a request from flash, by the thread that fetches the drive's completions.
#[derive(Debug, Parser)]
#[command(name = "ring_server", max_term_width = 100)]
pub(crate) struct Arguments {
    /// Directory for the file, which is removed at the end
    #[arg(default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds per measurement
    #[arg(long, value_name = "S", default_value_t = 1.2)]
    seconds: f64,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Requests in flight per connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Size of the file in MiB
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u64).range(1..1 << 40))]
    megabytes: u64,
    /// Do not pin threads to cores
    #[arg(long)]
    unpinned: bool,
}

impl Arguments {
    /// Number of blocks in the file.
    pub(crate) fn blocks(&self) -> u64 {
        self.megabytes << 8
    }
}

/// A server: runs on the calling thread until its clients have disconnected.
type Server = fn(TcpListener, Arc<FileDevice>, bool) -> Result<(), Failure>;

/// All servers: name, function, whether its thread hosts a ring.
const SERVERS: [(&str, Server, bool); 4] = [
    ("epoll, ring hosted", epoll::serve, true),
    ("epoll, reaper", epoll::serve, false),
    ("tokio, ring hosted", runtime::serve, true),
    ("tokio, reaper", runtime::serve, false),
];

/// The results of one server in one round.
#[derive(Clone, Copy)]
struct RoundResult {
    cpu_us: f64,
    per_second: f64,
    median_us: f64,
}

pub(crate) fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let time = Duration::try_from_secs_f64(arguments.seconds)?;
    PINNED.store(!arguments.unpinned, Ordering::Relaxed);
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let path = directory.path().join("blocks");
    let engine = fill(&path, arguments.blocks())?;
    println!(
        "{}, {} cores, load {}\n{} connections with {} under way each, file of {} MiB in {}, {engine}; \
         {} rounds of {:?}, threads {}",
        read("/proc/sys/kernel/osrelease"),
        std::thread::available_parallelism()?,
        read("/proc/loadavg"),
        arguments.connections,
        arguments.depth,
        arguments.megabytes,
        arguments.directory.display(),
        arguments.rounds,
        time,
        if arguments.unpinned { "where they like" } else { "pinned" },
    );
    let mut measured = vec![Vec::new(); SERVERS.len()];
    for round in 0..arguments.rounds {
        for turn in 0..SERVERS.len() {
            // Every other round runs in reverse order, so that no server always follows the same one.
            let at = if round % 2 == 0 { turn } else { SERVERS.len() - 1 - turn };
            measured[at].push(run(SERVERS[at], &path, (&arguments, time))?);
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
        let ratios = |of: fn(&RoundResult) -> f64| {
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

/// The median, with the minimum and the maximum.
fn spread(mut of: Vec<f64>, digits: usize) -> String {
    of.sort_unstable_by(f64::total_cmp);
    let (least, most) = (of[0], of[of.len() - 1]);
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", of[of.len() / 2])
}

/// Creates a file of blocks that begin with their numbers. Returns how the file is accessed.
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
    (arguments, time): (&Arguments, Duration),
) -> Result<RoundResult, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let path = path.to_owned();
    let (ready, is_ready) = channel();
    let server = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        pin(0);
        // Opened on this thread, so that the threads that the device starts are pinned as well.
        let device = FileDevice::open(path, &FileOptions::default())?;
        ready.send(())?;
        serve(listener, Arc::new(device), hosted)
    })?;
    is_ready.recv()?;
    let clients = Clients::begin(address, arguments)?;
    // Until the connections exist and the rings are warm.
    std::thread::sleep(Duration::from_millis(200));
    let (begin, asked, cpu) = (Instant::now(), clients.asked(), server_ns()?);
    std::thread::sleep(time);
    let (took, done, spent) = (begin.elapsed(), clients.asked() - asked, server_ns()? - cpu);
    let ClientLatency { median_us } = clients.end()?;
    server.join().map_err(|_| format!("{name} has panicked"))??;
    let requests = f64::from(u32::try_from(done)?).max(1.0);
    Ok(RoundResult {
        cpu_us: f64::from(u32::try_from(spent / 1000)?) / requests,
        per_second: requests / took.as_secs_f64(),
        median_us,
    })
}

static PINNED: AtomicBool = AtomicBool::new(true);

/// Pins this thread to the core `which`, or to the last one if there are fewer cores. Does nothing with `--unpinned`.
pub(crate) fn pin(which: usize) {
    if !PINNED.load(Ordering::Relaxed) {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(which.min(cores - 1));
    let _ = sched_setaffinity(None, &set);
}

/// Nanoseconds of processor time of all threads of this process except the clients'.
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
