//! Checks a device against a shadow of what it must hold:
//!
//! ```sh
//! cargo run --release -p larder-device --example device_check -- TARGET --help
//! ```
//!
//! **What the target holds is lost.** Random writes, reads and deallocations of 1 to 32 blocks, many
//! under way at once, each write with a random handle. What a block must hold follows from its number
//! and the version that the shadow says it has. Prints what was done and the differences; the exit
//! status is 1 if there are any.
//!
//! TARGET is as in [`larder_device::opening`].

mod cost;

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum, value_parser};
use fastrand::Rng;
use larder_device::{
    BufferPool, Device, ErrorKind, FileOptions, Io, IoBuffer, IoEngine, IoFuture, OpenOptions,
    PlacementHandle, PlacementMode, open,
};

const BLOCK: usize = 4096;
const RUN_BLOCKS_MAX: u64 = 32;

type Failure = Box<dyn Error + Send + Sync>;

/// Checks a device against a shadow of what it must hold. What it holds is lost.
#[derive(Debug, Parser)]
#[command(name = "device_check", max_term_width = 100)]
struct Arguments {
    /// What is checked, such as block:/dev/nvme0n1; what it holds is lost
    target: String,
    /// Requests of all threads
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    ops: u64,
    /// What the requests follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// required, preferred or off
    #[arg(long, value_name = "MODE", default_value_t)]
    placement: PlacementMode,
    /// Make a file of this size
    #[arg(long, value_name = "BYTES")]
    capacity: Option<u64>,
    /// Threads, each with a part of the device
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u64).range(1..))]
    threads: u64,
    /// Requests that each has under way
    #[arg(long, value_name = "N", default_value_t = 64)]
    depth: usize,
    /// What a file is used through
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Tell the kernel of no buffers ahead
    #[arg(long)]
    no_registered_buffers: bool,
    /// So many of the threads host a ring (Linux)
    #[arg(long, value_name = "N", default_value_t = 0)]
    hosted: u64,
    /// Length of the blocks that are compared: 512 to 4096, whole blocks of the device
    #[arg(long, value_name = "N", default_value_t = BLOCK, value_parser = block_bytes)]
    block_bytes: usize,
    /// Try to leave the device
    #[arg(long)]
    canary: bool,
    /// Measure processor time and allocations of a request, with and without registered buffers in turn
    #[arg(long)]
    cost: bool,
    /// How often it is measured
    #[arg(long, value_name = "N", default_value_t = 5, requires = "cost", value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Length of a request that is measured, rounded up to whole blocks of 4096
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
        canary(device)?;
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

/// Says whether the device is gone.
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

#[derive(Default)]
struct Counts {
    writes: u64,
    lists: u64,
    reads: u64,
    zeroed: u64,
    deallocations: u64,
    flushes: u64,
    compared: u64,
    /// Blocks that were found with metadata.
    beside: u64,
    different: u64,
}

/// What a part of the device must hold.
struct Shadow<'a> {
    device: &'a dyn Device,
    /// Bytes of a block.
    block: usize,
    seed: u64,
    rng: Rng,
    first: u64,
    /// Version of each block; 0 if its content is unspecified.
    versions: Vec<u32>,
    /// Blocks of requests under way.
    busy: Vec<bool>,
    pool: BufferPool,
    counts: Counts,
}

enum Kind {
    Write,
    Zero,
    Read,
    Other,
}

struct UnderWay {
    kind: Kind,
    first: u64,
    blocks: u64,
    future: IoFuture,
}

impl<'a> Shadow<'a> {
    fn new(device: &'a dyn Device, block: usize, seed: u64, (first, blocks): (u64, u64)) -> Self {
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        Self {
            device,
            block,
            seed,
            rng: Rng::with_seed(seed),
            first,
            versions: vec![0; blocks],
            busy: vec![false; blocks],
            pool: BufferPool::new(),
            counts: Counts::default(),
        }
    }

    fn run(mut self, ops: u64, depth: usize) -> Result<Counts, Failure> {
        let mut under_way = VecDeque::new();
        for _ in 0..ops {
            if under_way.len() >= depth
                && let Some(oldest) = under_way.pop_front()
            {
                self.end(oldest)?;
            }
            let request = self.begin();
            under_way.extend(request);
        }
        for request in under_way {
            self.end(request)?;
        }
        let all = self.versions.len() as u64;
        for first in (0..all).step_by(32) {
            let request = self.read(first, RUN_BLOCKS_MAX.min(all - first));
            self.end(request)?;
        }
        Ok(self.counts)
    }

    fn range(first: u64, blocks: u64) -> std::ops::Range<usize> {
        let index = |block| usize::try_from(block).unwrap_or(usize::MAX);
        index(first)..index(first + blocks)
    }

    /// A random request to blocks that are free. `None` after many that were not.
    fn begin(&mut self) -> Option<UnderWay> {
        let all = self.versions.len() as u64;
        let (first, blocks) = (0..100).find_map(|_| {
            let blocks = self.rng.u64(1..=RUN_BLOCKS_MAX);
            let first = self.rng.u64(..=all - blocks);
            let free = self.busy[Self::range(first, blocks)].iter().all(|busy| !busy);
            free.then_some((first, blocks))
        })?;
        Some(match self.rng.u32(..1000) {
            0..450 => self.write(first, blocks),
            450..500 => self.zero(first, blocks),
            500..900 => self.read(first, blocks),
            900..999 => self.deallocate(first, blocks),
            _ => self.flush(),
        })
    }

    fn start(&mut self, kind: Kind, first: u64, blocks: u64, io: Io) -> UnderWay {
        self.busy[Self::range(first, blocks)].fill(true);
        UnderWay { kind, first, blocks, future: self.device.submit(io) }
    }

    fn offset(&self, first: u64) -> u64 {
        (self.first + first) * self.block as u64
    }

    /// The same with metadata, every second time, where the device keeps some for such blocks.
    fn buffer(&mut self, blocks: u64) -> IoBuffer {
        let buffer = self.bytes(blocks);
        let info = self.device.info();
        if !info.keeps_metadata || info.block_bytes as usize != self.block || self.rng.bool() {
            return buffer;
        }
        let blocks = buffer.len() / self.block;
        buffer.with_metadata(self.pool.take(blocks * usize::from(info.metadata_bytes)))
    }

    /// One buffer, or every fourth time a list, cut anywhere.
    fn bytes(&mut self, blocks: u64) -> IoBuffer {
        let mut left = usize::try_from(blocks).unwrap_or(1);
        if self.rng.u8(..4) > 0 {
            return self.pool.take(left * self.block);
        }
        let mut buffers = Vec::new();
        while left > 0 {
            let part = self.rng.usize(1..=left);
            buffers.push(self.pool.take(part * self.block));
            left -= part;
        }
        IoBuffer::list(buffers)
    }

    fn write(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.writes += 1;
        let mut buffer = self.buffer(blocks);
        self.counts.lists += u64::from(buffer.is_list());
        let pages = buffer.runs_mut().flat_map(|run| run.chunks_exact_mut(self.block));
        for ((index, block), page) in Self::range(first, blocks).zip(first..).zip(pages) {
            self.versions[index] += 1;
            let words = words((self.seed, self.block), block, self.versions[index]);
            for (word, bytes) in words.zip(page.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
        // The first byte says that they were written: without, they are zeros.
        if let Some(metadata) = buffer.metadata_mut() {
            let each = usize::from(self.device.info().metadata_bytes);
            for (index, own) in Self::range(first, blocks).zip(metadata.chunks_exact_mut(each)) {
                own.fill(self.versions[index].to_le_bytes()[0]);
                own[0] = 1;
            }
        }
        let handle = PlacementHandle::new(self.rng.u16(..self.device.info().placement.handles));
        let io = Io::write(self.offset(first), buffer, handle);
        self.start(Kind::Write, first, blocks, io)
    }

    fn read(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.reads += 1;
        let (offset, buffer) = (self.offset(first), self.buffer(blocks));
        let io = Io::Read { offset, buffer };
        self.start(Kind::Read, first, blocks, io)
    }

    fn zero(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.zeroed += 1;
        let (offset, bytes) = (self.offset(first), blocks * self.block as u64);
        let request = self.start(Kind::Zero, first, blocks, Io::WriteZeroes { offset, bytes });
        self.versions[Self::range(first, blocks)].iter_mut().for_each(|it| *it |= ZERO);
        request
    }

    fn deallocate(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.deallocations += 1;
        let io = Io::Deallocate { offset: self.offset(first), bytes: blocks * self.block as u64 };
        let request = self.start(Kind::Other, first, blocks, io);
        // What it reads as is unspecified until it is written again, with a version that it never had.
        self.versions[Self::range(first, blocks)].iter_mut().for_each(|it| *it |= DEAD);
        request
    }

    fn flush(&mut self) -> UnderWay {
        self.counts.flushes += 1;
        self.start(Kind::Other, 0, 0, Io::Flush)
    }

    fn end(&mut self, request: UnderWay) -> Result<(), Failure> {
        let buffer = request.future.wait()?;
        let range = Self::range(request.first, request.blocks);
        self.busy[range.clone()].fill(false);
        match request.kind {
            Kind::Read => {
                if let Some(metadata) = buffer.metadata() {
                    let each = usize::from(self.device.info().metadata_bytes);
                    for (index, own) in range.clone().zip(metadata.chunks_exact(each)) {
                        let version = self.versions[index];
                        let written = own[1..].iter().all(|byte| *byte == version.to_le_bytes()[0]);
                        let is_live = version != 0 && version & (DEAD | ZERO) == 0;
                        let right =
                            if own[0] == 1 { written } else { own.iter().all(|it| *it == 0) };
                        self.counts.beside += u64::from(own[0] == 1);
                        self.counts.different += u64::from(is_live && !right);
                    }
                }
                let pages = buffer.runs().flat_map(|run| run.chunks_exact(self.block));
                let pages: Vec<&[u8]> = pages.collect();
                for ((index, block), page) in range.zip(request.first..).zip(pages) {
                    self.compare(block, self.versions[index], page);
                }
            }
            // A write makes a dead block live.
            Kind::Write => self.versions[range].iter_mut().for_each(|it| *it &= !(DEAD | ZERO)),
            Kind::Zero => self.versions[range].iter_mut().for_each(|it| *it &= !DEAD),
            Kind::Other => {}
        }
        Ok(())
    }

    fn compare(&mut self, block: u64, version: u32, page: &[u8]) {
        if version == 0 || version & DEAD != 0 {
            return;
        }
        self.counts.compared += 1;
        let is_zero = version & ZERO != 0;
        let words = words((self.seed, self.block), block, version);
        let words = words.map(|word| if is_zero { 0 } else { word });
        let same = words.zip(page.chunks_exact(8)).all(|(word, bytes)| bytes == word.to_le_bytes());
        if !same {
            self.counts.different += 1;
            eprintln!("block {} (version {version}) holds something else", self.first + block);
        }
    }
}

/// Marks the version of a block that was deallocated.
const DEAD: u32 = 1 << 31;

/// Marks the version of a block that was made zeros.
const ZERO: u32 = 1 << 30;

/// What a block of so many bytes holds.
fn words((seed, bytes): (u64, usize), block: u64, version: u32) -> impl Iterator<Item = u64> {
    let version = u64::from(version & !(DEAD | ZERO));
    let mut rng = Rng::with_seed(seed ^ block.rotate_left(20) ^ version.rotate_left(44));
    let (start, step) = (rng.u64(..), rng.u64(..) | 1);
    (0..bytes as u64 / 8).map(move |i| start.wrapping_add(i.wrapping_mul(step)))
}

/// Requests that end behind the device must be refused; the last block must not.
fn canary(device: &dyn Device) -> Result<(), Failure> {
    let end = device.info().capacity_bytes;
    let write = |offset: u64, blocks: usize| {
        let buffer = IoBuffer::zeroed(blocks * BLOCK);
        device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait()
    };
    let block = BLOCK as u64;
    write(end - block, 1)?;
    for (offset, blocks) in [(end - block, 2), (end, 1), (end + (1 << 30), 1), (u64::MAX - 4095, 1)]
    {
        match write(offset, blocks) {
            Err(failure) if failure.error.kind() == ErrorKind::InvalidRequest => {
                println!("refused: {failure}");
            }
            Err(failure) => return Err(format!("refused for another reason: {failure}").into()),
            Ok(_) => return Err(format!("{blocks} blocks at {offset} were written").into()),
        }
    }
    let dead = Io::Deallocate { offset: end - block, bytes: 2 * block };
    match device.submit(dead).wait() {
        Err(failure) if failure.error.kind() == ErrorKind::InvalidRequest => Ok(()),
        _ => Err("a deallocation over the end was not refused".into()),
    }
}
