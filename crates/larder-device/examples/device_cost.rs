//! What one 4 KiB request costs on each backend:
//!
//! ```sh
//! cargo run --release -p larder-device --example device_cost [directory]
//! ```
//!
//! The model is measured against the bare memory copy that it cannot avoid; the file, in the given
//! directory (default: the current one), through each engine, with one request under way and with
//! many, for callers that block and for executors. Rounds are interleaved and medians printed.

use std::collections::VecDeque;
use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use larder_device::{
    Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, IoFuture, ModelDevice, Payload,
    PlacementHandle,
};
use larder_ssd::managed::{Geometry, ManagedConfig};

const SEED: u64 = 1;
const BLOCK: usize = 4096;
const ROUNDS: usize = 7;
const CAPACITY: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?;
    println!("4 KiB requests, {CAPACITY} bytes, seed {SEED}, {ROUNDS} rounds, {cores} cores");
    model()?;
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let path = std::path::Path::new(&directory).join("larder-device-cost");
    let outcome = files(&path);
    std::fs::remove_file(&path)?;
    outcome
}

fn model() -> Result<(), Box<dyn Error>> {
    let geometry = Geometry::with_overprovisioning(CAPACITY, 4 << 20, 25.0)?;
    let kept = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?;
    let sizes_only = ModelDevice::new(ManagedConfig::new(geometry), Payload::None)?;
    let mut memory = vec![1u8; usize::try_from(CAPACITY)?];
    let mut names = Vec::new();
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for round in 0..=ROUNDS {
        let figures = [
            ("memory copy, sequential", copy(&mut memory, false)),
            ("memory copy, random", copy(&mut memory, true)),
            ("model write, sequential", requests(&kept, true, false)?),
            ("model write, random", requests(&kept, true, true)?),
            ("model read, random", requests(&kept, false, true)?),
            ("model write, random, no payload", requests(&sizes_only, true, true)?),
            ("model read, random, no payload", requests(&sizes_only, false, true)?),
        ];
        // The first round touches the memory.
        if round > 0 {
            rounds.push(figures.iter().map(|figure| figure.1).collect());
        }
        names = figures.iter().map(|figure| figure.0).collect();
    }
    for (i, name) in names.iter().enumerate() {
        report(name, rounds.iter().map(|round| round[i]).collect(), "ns");
    }
    Ok(())
}

fn report(name: &str, mut values: Vec<f64>, unit: &str) {
    values.sort_by(f64::total_cmp);
    let (low, median) = (values[0], values[values.len() / 2]);
    println!("{name:<36} {median:>9.1} {unit} ({low:.1} to {:.1})", values[values.len() - 1]);
}

#[allow(clippy::cast_precision_loss)]
fn per_request(begun: Instant, requests: u64) -> f64 {
    begun.elapsed().as_nanos() as f64 / requests as f64
}

fn copy(memory: &mut [u8], random: bool) -> f64 {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let blocks = memory.len() / BLOCK;
    let source = IoBuffer::zeroed(BLOCK);
    let begun = Instant::now();
    for i in 0..blocks {
        let block = if random { rng.usize(..blocks) } else { i };
        memory[block * BLOCK..][..BLOCK].copy_from_slice(black_box(source.as_slice()));
    }
    per_request(begun, blocks as u64)
}

fn requests(device: &dyn Device, write: bool, random: bool) -> Result<f64, Box<dyn Error>> {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let blocks = CAPACITY / BLOCK as u64;
    let mut buffer = IoBuffer::zeroed(BLOCK);
    let begun = Instant::now();
    for i in 0..blocks {
        let offset = if random { rng.u64(..blocks) } else { i } * BLOCK as u64;
        let io = if write {
            Io::Write { offset, buffer, handle: PlacementHandle::DEFAULT }
        } else {
            Io::Read { offset, buffer }
        };
        buffer = device.submit(io).wait()?;
    }
    Ok(per_request(begun, blocks))
}

fn files(path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let open = |engine| {
        let capacity_bytes = Some(CAPACITY);
        let options = FileOptions { capacity_bytes, create: true, engine, ..Default::default() };
        FileDevice::open(path, &options)
    };
    // Reads of what was only reserved would not reach the disk.
    let device = open(IoEngine::Auto)?;
    for offset in (0..CAPACITY).step_by(1 << 20) {
        let (buffer, handle) = (IoBuffer::zeroed(1 << 20), PlacementHandle::DEFAULT);
        device.submit(Io::Write { offset, buffer, handle }).wait()?;
    }
    device.submit(Io::Flush).wait()?;
    println!("{path:?}: direct {}, {:?}", device.direct(), device.engine_fallback());
    drop(device);
    println!("CPU time of the process and elapsed time per read:");
    for way in [Way::Waiting, Way::Threads, Way::BlockOn, Way::Executor] {
        for in_flight in [1, 2, 16, 64] {
            let mut figures = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (engine, figures) in
                    [IoEngine::Auto, IoEngine::Threads].iter().zip(&mut figures)
                {
                    figures.push(reads(&open(*engine)?, way, in_flight)?);
                }
            }
            for (engine, figures) in ["io_uring", "threads"].iter().zip(figures) {
                let name = format!("{engine}, {way:?}, {in_flight} in flight");
                let (cpu, elapsed) = figures.into_iter().unzip();
                report(&format!("{name}, CPU"), cpu, "us");
                report(&format!("{name}, elapsed"), elapsed, "us");
            }
        }
    }
    Ok(())
}

/// Who waits for the reads that are under way.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// One thread starts many and waits for the oldest.
    Waiting,
    /// Many threads wait for one each.
    Threads,
    /// One thread polls many, and the library's executor waits for any.
    BlockOn,
    /// The same, in an executor that only sleeps and is woken.
    Executor,
}

/// CPU time and elapsed time per read, in microseconds.
#[allow(clippy::cast_precision_loss)]
fn reads(device: &FileDevice, way: Way, in_flight: u64) -> Result<(f64, f64), Box<dyn Error>> {
    const READS: u64 = 8192;
    let (begun, cpu) = (Instant::now(), cpu_time());
    match way {
        Way::Waiting => wait_for_oldest(device, SEED, in_flight, READS),
        Way::Threads => std::thread::scope(|scope| {
            for thread in 0..in_flight {
                scope.spawn(move || wait_for_oldest(device, thread, 1, READS / in_flight));
            }
        }),
        Way::BlockOn => larder_device::block_on(Reader::new(device, in_flight, READS)),
        Way::Executor => sleep_on(Reader::new(device, in_flight, READS)),
    }
    let cpu = (cpu_time() - cpu).as_nanos() as f64 / READS as f64;
    Ok((cpu / 1000.0, per_request(begun, READS) / 1000.0))
}

/// What the whole process has used, in user and kernel.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

fn start(device: &FileDevice, rng: &mut fastrand::Rng, buffer: IoBuffer) -> IoFuture {
    let offset = rng.u64(..CAPACITY / BLOCK as u64) * BLOCK as u64;
    device.submit(Io::Read { offset, buffer })
}

fn wait_for_oldest(device: &FileDevice, seed: u64, in_flight: u64, reads: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut under_way = VecDeque::new();
    for i in 0..reads {
        let oldest = if i < in_flight { None } else { under_way.pop_front() };
        let buffer = oldest.map_or_else(
            || IoBuffer::zeroed(BLOCK),
            |oldest: IoFuture| oldest.wait().expect("reads of a sound file end well"),
        );
        under_way.push_back(start(device, &mut rng, buffer));
    }
    for future in under_way {
        future.wait().expect("reads of a sound file end well");
    }
}

/// Keeps some reads under way and ends when all have ended.
struct Reader<'a> {
    device: &'a FileDevice,
    rng: fastrand::Rng,
    under_way: Vec<IoFuture>,
    left: u64,
}

impl<'a> Reader<'a> {
    fn new(device: &'a FileDevice, in_flight: u64, reads: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let begin = |_| start(device, &mut rng, IoBuffer::zeroed(BLOCK));
        let under_way = (0..in_flight).map(begin).collect();
        Self { device, rng, under_way, left: reads - in_flight }
    }
}

impl Future for Reader<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Reader { device, rng, under_way, left } = self.get_mut();
        let mut at = 0;
        while let Some(future) = under_way.get_mut(at) {
            let Poll::Ready(result) = Pin::new(future).poll(context) else {
                at += 1;
                continue;
            };
            let buffer = result.expect("reads of a sound file end well");
            under_way.swap_remove(at);
            if *left > 0 {
                *left -= 1;
                under_way.push(start(device, rng, buffer));
            }
        }
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What any executor does: poll, sleep, be woken.
fn sleep_on(mut reader: Reader<'_>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while Pin::new(&mut reader).poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}
