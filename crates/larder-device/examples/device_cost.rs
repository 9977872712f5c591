//! What one 4 KiB request costs on each backend:
//!
//! ```sh
//! cargo run --release -p larder-device --example device_cost [directory]
//! ```
//!
//! The model is measured against the bare memory copy that it cannot avoid; the file, in the given
//! directory (default: the current one), through each engine, with one request under way and with
//! many. Rounds are interleaved and medians printed.

use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use larder_device::{
    Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, ModelDevice, Payload, PlacementHandle,
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
    for depth in [1, 32] {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (engine, figures) in [IoEngine::Auto, IoEngine::Threads].iter().zip(&mut figures) {
                figures.push(reads(&open(*engine)?, depth)? / 1000.0);
            }
        }
        for (engine, figures) in ["io_uring", "threads"].iter().zip(figures) {
            report(&format!("file read, random, {engine}, depth {depth}"), figures, "us");
        }
    }
    Ok(())
}

/// Nanoseconds per read with `depth` of them under way.
fn reads(device: &FileDevice, depth: usize) -> Result<f64, Box<dyn Error>> {
    const READS: u64 = 4000;
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut under_way = VecDeque::new();
    let begun = Instant::now();
    for i in 0..READS {
        let buffer = if i < depth as u64 {
            IoBuffer::zeroed(BLOCK)
        } else {
            let oldest: larder_device::IoFuture =
                under_way.pop_front().ok_or("nothing under way")?;
            oldest.wait()?
        };
        let offset = rng.u64(..CAPACITY / BLOCK as u64) * BLOCK as u64;
        under_way.push_back(device.submit(Io::Read { offset, buffer }));
    }
    for future in under_way {
        future.wait()?;
    }
    Ok(per_request(begun, READS))
}
