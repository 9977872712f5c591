//! Reads and writes of 4 KiB over a Unix socket, in turns: from this server with each socket backend, from a
//! write-back cache in memory that has all requested data, and from `nbdkit memory` if it is installed. Measures
//! requests per second, and processor time of the server per request.
//!
//! `cargo bench -p larder-block --bench nbd`; `-- quick` only checks that it works. Each server is a process of its
//! own with 64 MiB of memory. The client is the same for all: one thread that sends a request for each reply that it
//! has received, all of them in one write. Medians and spread of five rounds, in which they take turns.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_block::cache::Mode;
use larder_block::layout::CoreId;
use larder_block::layout::log::LogOptions;
use larder_block::manage::{Core, CreateOptions, LayoutOptions, OpenOptions, create, open};
use larder_block::volume::CachedVolume;
use larder_device::{Device, MemoryDevice, RealClock, block_on};
use larder_export::nbd::{Export, NbdConfig, NbdServer};
use larder_export::volume::{DeviceVolume, Volume};
use larder_net::sockets::{Endpoint, SocketBackend};
use larder_workload::{Spread, machine};

type Failed = Box<dyn std::error::Error>;

const BYTES: usize = 64 << 20;
const BLOCK: usize = 4096;
const ROUNDS: usize = 5;
/// Magic, flags and type of a request, up to its cookie.
const READ: [u8; 8] = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
const WRITE: [u8; 8] = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1];

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", path, how] => serve(path.into(), how),
        _ => compare(words.iter().any(|word| word == "quick")),
    }
}

/// Serves until its standard input ends.
fn serve(path: PathBuf, how: &str) -> Result<(), Failed> {
    let device = Arc::new(MemoryDevice::holding(vec![1; BYTES]));
    let volume: Arc<dyn Volume> = match how {
        "cache" => cached(device)?,
        _ => Arc::new(DeviceVolume::new(device)),
    };
    let sockets = if how == "epoll" { SocketBackend::Epoll } else { SocketBackend::IoUring };
    let server = NbdServer::start(NbdConfig {
        endpoints: vec![Endpoint::Unix { path, mode: 0o600 }],
        exports: vec![Export::new("", volume)?],
        sockets,
        ..NbdConfig::default()
    })?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(server.end()?)
}

/// A write-back cache in memory, twice as long as its core.
fn cached(core: Arc<dyn Device>) -> Result<Arc<CachedVolume>, Failed> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![0; 2 * BYTES]));
    let id = CoreId::new(0).ok_or("a number of a core")?;
    let cores = [Core { id, name: "memory".to_owned(), device: core }];
    let layout = LayoutOptions::Log(LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() });
    let options = CreateOptions { layout, mode: Mode::WriteBack, ..CreateOptions::default() };
    block_on(create(&device, &cores, &options))?;
    let opened = block_on(open(&device, &cores, &OpenOptions::default()))?;
    // Requests are timed, as in a server.
    opened.cache.set_clock(Arc::new(RealClock));
    let core = opened.cache.core(id).ok_or("the core")?;
    // Keep it as long as the server runs.
    std::mem::forget(opened);
    Ok(Arc::new(CachedVolume::new(core)))
}

fn compare(is_quick: bool) -> Result<(), Failed> {
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    let (rounds, time) =
        if is_quick { (1, Duration::from_millis(200)) } else { (ROUNDS, Duration::from_secs(2)) };
    println!("{rounds} rounds of {time:?}, 4 KiB at random, one connection");
    println!(
        "{:10} {:6} {:>5}  {:>32}  {:>24}",
        "server", "", "depth", "requests/s", "server CPU, us each"
    );
    for (kind, depth) in [(READ, 1), (READ, 32), (WRITE, 32)] {
        let mut results = Servers::NAMES.map(|_| Vec::new());
        for _ in 0..rounds {
            for (name, results) in Servers::NAMES.iter().zip(&mut results) {
                results.extend(measure(name, kind, depth, time)?);
            }
        }
        for (name, results) in Servers::NAMES.iter().zip(&results) {
            let rate = Spread::of(results.iter().map(|it| it.0));
            let cpu = Spread::of(results.iter().map(|it| it.1));
            let what = if kind == READ { "reads" } else { "writes" };
            match rate.zip(cpu) {
                None => println!("{name:10} {what:6} {depth:5}  not installed"),
                Some((rate, cpu)) => {
                    println!("{name:10} {what:6} {depth:5}  {rate:>32.0}  {cpu:>24}")
                }
            }
        }
    }
    Ok(())
}

/// A running server.
struct Servers(Child);

impl Servers {
    const NAMES: [&'static str; 4] = ["io_uring", "epoll", "cache", "nbdkit"];

    /// `None` if the server is not installed.
    fn start(name: &str, socket: &Path) -> Result<Option<Self>, Failed> {
        let mut command = match name {
            "nbdkit" => {
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(socket);
                command.args(["memory", &BYTES.to_string()]);
                command
            }
            how => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("serve").arg(socket).arg(how);
                command
            }
        };
        match command.stdin(Stdio::piped()).spawn() {
            Ok(child) => Ok(Some(Self(child))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests per second, and microseconds of the server per request. `None`: there is no such server.
fn measure(
    name: &str,
    kind: [u8; 8],
    depth: usize,
    time: Duration,
) -> Result<Option<(f64, f64)>, Failed> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("s");
    let Some(server) = Servers::start(name, &socket)? else { return Ok(None) };
    let begin = Instant::now();
    let stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) if begin.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let mut client = Client::open(stream)?;
    // A server that stores only written data must have something to read.
    client.fill()?;
    client.run(kind, depth, time / 10)?;
    let cpu = || machine::threads_cpu(format!("/proc/{}", server.0.id()));
    let before = cpu()?;
    let begin = Instant::now();
    let requests = client.run(kind, depth, time)?;
    let (elapsed, used) = (begin.elapsed(), cpu()? - before);
    let requests = f64::from(requests);
    Ok(Some((requests / elapsed.as_secs_f64(), used.as_secs_f64() * 1e6 / requests)))
}

/// A connection with requests of one kind in flight.
struct Client {
    stream: UnixStream,
    chance: fastrand::Rng,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    /// Selects the default export with the oldest option, whose replies are simple ones.
    fn open(mut stream: UnixStream) -> Result<Self, Failed> {
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        stream.read_exact(&mut [0; 10])?;
        let chance = fastrand::Rng::with_seed(1);
        Ok(Self { stream, chance, input: vec![0; 1 << 20], output: Vec::new() })
    }

    /// Writes the whole export.
    fn fill(&mut self) -> Result<(), Failed> {
        for block in 0..BYTES / BLOCK {
            self.push(WRITE, block);
            self.stream.write_all(&self.output)?;
            self.output.clear();
            self.stream.read_exact(&mut [0; 16])?;
        }
        Ok(())
    }

    /// Keeps `depth` requests in flight for `time`. Returns the number of answers.
    fn run(&mut self, kind: [u8; 8], depth: usize, time: Duration) -> Result<u32, Failed> {
        let reply_bytes = if kind == READ { 16 + BLOCK } else { 16 };
        let (begin, mut answered, mut under_way) = (Instant::now(), 0, 0);
        let (mut have, mut wanted) = (0, depth);
        loop {
            for _ in 0..wanted {
                let block = self.chance.usize(..BYTES / BLOCK);
                self.push(kind, block);
            }
            self.stream.write_all(&self.output)?;
            self.output.clear();
            under_way += wanted;
            if under_way == 0 {
                return Ok(answered);
            }
            have += self.stream.read(&mut self.input[have..])?;
            let replies = have / reply_bytes;
            for reply in 0..replies {
                let head = &self.input[reply * reply_bytes..][..8];
                if head != [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0] {
                    return Err("a request has failed".into());
                }
            }
            self.input.copy_within(replies * reply_bytes..have, 0);
            have -= replies * reply_bytes;
            under_way -= replies;
            answered += u32::try_from(replies)?;
            wanted = if begin.elapsed() < time { replies } else { 0 };
        }
    }

    #[allow(clippy::big_endian_bytes, reason = "the protocol's order")]
    fn push(&mut self, kind: [u8; 8], block: usize) {
        self.output.extend_from_slice(&kind);
        self.output.extend_from_slice(&[0; 8]);
        self.output.extend_from_slice(&((block * BLOCK) as u64).to_be_bytes());
        self.output.extend_from_slice(&4096_u32.to_be_bytes());
        if kind == WRITE {
            self.output.extend_from_slice(&[7; BLOCK]);
        }
    }
}
