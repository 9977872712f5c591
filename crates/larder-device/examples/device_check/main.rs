//! Checks a device against a shadow of its expected content:
//!
//! ```sh
//! cargo run --release -p larder-device --example device_check -- TARGET --help
//! ```
//!
//! **The content of the target is lost.** Sends random writes, reads and deallocations of 1 to 32 blocks, many in
//! flight at the same time, each write with a random handle. The expected content of a block is derived from its number
//! and its version in the shadow. Prints counts of the operations and the differences; the exit status is 1 if there
//! are any differences.
//!
//! TARGET is as in [`larder_device::opening`].

mod canary;
mod cost;
mod shadow;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum, value_parser};
use larder_device::{
    Device, ErrorKind, FileOptions, Io, IoBuffer, IoEngine, OpenOptions, PlacementMode, open,
};

use self::shadow::{Counts, Shadow};

const BLOCK: usize = 4096;
const RUN_BLOCKS_MAX: u64 = 32;

type Failure = Box<dyn Error + Send + Sync>;

/// Checks a device against a shadow of its expected content. The content of the device is lost.
#[derive(Debug, Parser)]
#[command(name = "device_check", max_term_width = 100)]
struct Arguments {
    /// The device to check, such as block:/dev/nvme0n1; its content is lost
    target: String,
    /// Requests of all threads together
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    ops: u64,
    /// Seed of the random requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// required, preferred or off
    #[arg(long, value_name = "MODE", default_value_t)]
    placement: PlacementMode,
    /// Create a file of this size
    #[arg(long, value_name = "BYTES")]
    capacity: Option<u64>,
    /// Threads, each with a part of the device
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u64).range(1..))]
    threads: u64,
    /// Requests in flight per thread
    #[arg(long, value_name = "N", default_value_t = 64)]
    depth: usize,
    /// I/O engine for a file
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Register no buffers with the kernel
    #[arg(long)]
    no_registered_buffers: bool,
    /// Number of threads that host a ring (Linux)
    #[arg(long, value_name = "N", default_value_t = 0)]
    hosted: u64,
    /// Length of the compared blocks: 512 to 4096, whole blocks of the device
    #[arg(long, value_name = "N", default_value_t = BLOCK, value_parser = block_bytes)]
    block_bytes: usize,
    /// Check that requests beyond the end are refused
    #[arg(long)]
    canary: bool,
    /// Measure processor time and allocations of a request, with and without registered buffers in turn
    #[arg(long)]
    cost: bool,
    /// Number of measured rounds
    #[arg(long, value_name = "N", default_value_t = 5, requires = "cost", value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Length of a measured request, rounded up to whole blocks of 4096
    #[arg(long, value_name = "N", default_value_t = BLOCK, requires = "cost", value_parser = whole_blocks)]
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    IoUring,
    Threads,
}

impl Arguments {
    fn options(&self) -> OpenOptions {
        let engine = match self.engine {
            Engine::Auto => IoEngine::Auto,
            Engine::IoUring => IoEngine::IoUring,
            Engine::Threads => IoEngine::Threads,
        };
        let file = FileOptions {
            capacity_bytes: self.capacity,
            create: self.capacity.is_some(),
            engine,
            registered_buffers: !self.no_registered_buffers,
            ..FileOptions::default()
        };
        OpenOptions { placement: self.placement, file }
    }
}

fn whole_blocks(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "not a number")?;
    bytes.checked_next_multiple_of(BLOCK).ok_or_else(|| "too many".to_owned())
}

fn block_bytes(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|_| "not a number")?;
    let fits = bytes.is_power_of_two() && (512..=BLOCK).contains(&bytes);
    if fits { Ok(bytes) } else { Err("must be a power of two from 512 to 4096".to_owned()) }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("device_check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Failure> {
    let arguments = Arguments::parse();
    let opened = open(&arguments.target, &arguments.options())?;
    println!("{}", opened.status);
    opened.missed.iter().for_each(|missed| println!("not {missed}"));
    if let Some(notice) = &opened.notice {
        eprintln!("notice: {notice}");
    }
    let device = &*opened.device;
    if arguments.canary {
        canary::check(device)?;
    }
    if arguments.cost {
        cost::measure(device, &arguments)?;
    }
    if arguments.canary || arguments.cost {
        return Ok(true);
    }
    check(device, &arguments)
}

fn check(device: &dyn Device, arguments: &Arguments) -> Result<bool, Failure> {
    let begun = Instant::now();
    let block = arguments.block_bytes;
    println!("block {} bytes, compared by {block}", device.info().block_bytes);
    let blocks = device.info().capacity_bytes / block as u64 / arguments.threads;
    if blocks < RUN_BLOCKS_MAX * 4 {
        return Err(format!("{blocks} blocks a thread are too few for a check").into());
    }
    let counts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads)
            .map(|number| {
                let seed = arguments.seed + number;
                let shadow = Shadow::new(device, block, seed, (number * blocks, blocks));
                let ops = arguments.ops / arguments.threads;
                let hosts = number < arguments.hosted;
                scope.spawn(move || match hosts {
                    true => hosted(|| shadow.run(ops, arguments.depth)),
                    false => shadow.run(ops, arguments.depth),
                })
            })
            .collect();
        let ended = workers.into_iter().map(|it| it.join().unwrap_or(Err("a panic".into())));
        ended.collect::<Result<Vec<_>, Failure>>()
    });
    let counts = counts.inspect_err(|_| look_after_failure(device))?;
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
    let stats = device.stats();
    let info = device.info();
    let keeps_metadata = info.keeps_metadata && info.block_bytes as usize == block;
    println!(
        "{} writes, {} of them of lists, {} reads, {} of zeros, {} deallocations, {} flushes in {:.1} s, seed {}",
        sum(|it| it.writes),
        sum(|it| it.lists),
        sum(|it| it.reads),
        sum(|it| it.zeroed),
        sum(|it| it.deallocations),
        sum(|it| it.flushes),
        begun.elapsed().as_secs_f64(),
        arguments.seed
    );
    println!("bytes written by handle: {:?}", stats.host_written_bytes_by_handle);
    println!("made zeros: {}, written so: {}", stats.zeroed_bytes, stats.zeroes_written_bytes);
    println!("pieces with a registered buffer: {}", stats.fixed_buffer_pieces);
    println!("blocks with metadata: {}", sum(|it| it.beside));
    println!("blocks compared: {}, differences: {}", sum(|it| it.compared), sum(|it| it.different));
    Ok(sum(|it| it.different) == 0 && (sum(|it| it.beside) > 0 || !keeps_metadata))
}

/// Does `work` on a ring that this thread hosts.
#[cfg(target_os = "linux")]
fn hosted<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let ring = larder_device::ring::host()?;
    let done = work()?;
    let stats = ring.stats();
    println!("hosted: {} pieces, {} calls of the kernel", stats.ended_pieces, stats.enters);
    if stats.ended_pieces > 0 { Ok(done) } else { Err("the hosted ring served nothing".into()) }
}

#[cfg(not(target_os = "linux"))]
fn hosted<T>(_: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    Err("rings are hosted on Linux only".into())
}

/// After a failure, prints whether the device is gone.
fn look_after_failure(device: &dyn Device) {
    for reads in 1..=200 {
        match device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) }).wait() {
            Err(failure) if failure.error.kind() == ErrorKind::Gone => {
                return eprintln!("gone, by {reads} further reads: {failure}");
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    eprintln!("not gone: further reads succeed, or fail one by one");
}
