//! How long a cache on a file takes to close and to open again: the time that it adds to a restart.
//!
//! `cargo run --release -p larder-harness --example closing -- --help`. `large` fills a cache with large objects,
//! closes and opens it. Prints the time to the first answer, and how fast the index comes back (`Larder::rebuild`).
//!
//! `small` fills flash with large objects, then DRAM with small ones; closes the cache, opens it again, and looks up at
//! most 200,000 of the earlier keys. For comparison it measures a sequential write of the same number of bytes to
//! another file, 256 KiB at a time, four at once.
//!
//! On a busy machine, the CPU seconds of this process are more reliable.
//!
//! The files are `closing.flash` and `closing.order` and are removed at the end.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use larder::{Config, CrashSafety, Larder, RealClock, Stats, block_on};
use larder_device::{
    Device, FileDevice, FileOptions, Io, IoBuffer, IoFailure, IoFuture, PlacementHandle,
};
use larder_workload::machine;

const LARGE_FLASH_BYTES: u64 = 16 << 30;
const SMALL_VALUE_BYTES: usize = 300;
const FILLER_BYTES: usize = 60_000;
const PIECE_BYTES: usize = 256 << 10;
const PIECES_AT_ONCE: usize = 4;
/// At most this number of keys is looked up, because each may take a read.
const LOOKED_FOR: u64 = 200_000;
/// First key of the objects that only fill flash.
const FILLERS_FROM: u64 = 1 << 60;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures how long a cache on a file takes to close and to open again.
#[derive(Debug, Parser)]
#[command(name = "closing", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Large objects on 16 GiB
    Large {
        /// Number of objects, each of 8 bytes and a value
        #[arg(default_value_t = 7_600_000)]
        objects: u64,
        /// Length of a value
        #[arg(default_value_t = 700)]
        value_bytes: u64,
        /// Threads that rebuild the index
        #[arg(default_value_t = 2)]
        threads: u64,
        /// Directory of the file
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Small objects in DRAM, with full flash below
    Small {
        /// Budget of DRAM
        #[arg(default_value_t = 256)]
        dram_mib: u64,
        /// Sets of 8 and 300 bytes
        #[arg(default_value_t = 1_000_000)]
        sets: u64,
        /// What a crash may leave: process or off
        #[arg(default_value = "process")]
        crash_safety: CrashSafety,
        /// How long the close may take; 0 means no limit
        #[arg(default_value_t = 0.0)]
        seconds: f64,
        /// Size of the file
        #[arg(default_value_t = 2048)]
        flash_mib: u64,
        /// MiB of the file to fill [default: all]
        filled_mib: Option<u64>,
        /// Directory of the files
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
}

fn main() -> Outcome<()> {
    let Arguments { kind } = Arguments::parse();
    let (Kind::Large { dir, .. } | Kind::Small { dir, .. }) = &kind;
    for line in machine::describe(dir) {
        println!("{line}");
    }
    let (path, other) = (dir.join("closing.flash"), dir.join("closing.order"));
    let ended = match kind {
        Kind::Large { objects, value_bytes, threads, .. } => {
            large(&path, objects, value_bytes, threads)
        }
        Kind::Small { dram_mib, sets, crash_safety, seconds, flash_mib, filled_mib, .. } => {
            let run = Small {
                dram_bytes: dram_mib << 20,
                sets,
                crash_safety,
                within: Duration::try_from_secs_f64(seconds)?,
                flash_bytes: flash_mib << 20,
                filled_bytes: filled_mib.unwrap_or(flash_mib) << 20,
            };
            run.run(&path, &other)
        }
    };
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(&other);
    ended
}

fn large(path: &Path, objects: u64, value_bytes: u64, threads: u64) -> Outcome<()> {
    println!("{objects} objects of 8 + {value_bytes} bytes on {LARGE_FLASH_BYTES} bytes");
    let config = Config { dram_bytes: 64 << 20, ..Config::default() };
    let cache = open(&config, path, LARGE_FLASH_BYTES)?;
    let value = vec![0x5a; usize::try_from(value_bytes)?];
    let began = Instant::now();
    for key in 0..objects {
        block_on(cache.set(&key.to_le_bytes(), &value, None))?;
    }
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    timed_close(&cache, Duration::ZERO)?;
    drop(cache);
    for round in 0..3 {
        let began = Instant::now();
        let cache = open(&config, path, LARGE_FLASH_BYTES)?;
        let hit = block_on(cache.get(&7_u64.to_le_bytes()))?.is_some();
        let first = began.elapsed();
        let (began, cpu) = (Instant::now(), machine::cpu_seconds()?);
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| _ = scope.spawn(|| block_on(cache.rebuild())));
        });
        let seconds = began.elapsed().as_secs_f64();
        let found = cache.stats().loc_objects;
        println!(
            "round {round}: first answer after {:.3} s (a hit: {hit}); {found} objects indexed in \
             {seconds:.2} s by {threads} threads: {:.2} million/s, {:.2} million a second of CPU",
            first.as_secs_f64(),
            found as f64 / seconds / 1e6,
            found as f64 / (machine::cpu_seconds()? - cpu) / 1e6,
        );
        timed_close(&cache, Duration::ZERO)?;
    }
    Ok(())
}

struct Small {
    dram_bytes: u64,
    sets: u64,
    crash_safety: CrashSafety,
    within: Duration,
    flash_bytes: u64,
    filled_bytes: u64,
}

impl Small {
    fn run(&self, path: &Path, other: &Path) -> Outcome<()> {
        let Self { dram_bytes, sets, crash_safety, flash_bytes, .. } = *self;
        println!(
            "DRAM {dram_bytes} bytes, flash {flash_bytes} bytes, {sets} sets of 8 + \
             {SMALL_VALUE_BYTES} bytes, crash safety {crash_safety}"
        );
        let config = Config { dram_bytes, crash_safety, ..Config::default() };
        let cache = open(&config, path, flash_bytes)?;
        self.fill(&cache)?;
        let stats = cache.stats();
        let before = which_are_there(&cache, sets)?;
        let in_order = write_in_order(other, stats.dram_used_bytes)?;
        std::fs::remove_file(other)?;
        let (closed, seconds) = timed_close(&cache, self.within)?;
        println!(
            "in order: {:.2} s, so the bound is {:.2} s and this {seconds:.2} s: {} in order, {} left \
             out, {} buckets emptied, {} bucket writes",
            in_order.as_secs_f64(),
            2.0 * in_order.as_secs_f64() + 1.0,
            closed.closed_in_order_objects,
            closed.left_out_objects,
            closed.left_out_buckets,
            closed.soc_bucket_writes - stats.soc_bucket_writes,
        );
        drop(cache);
        let (began, cpu) = (Instant::now(), machine::cpu_seconds()?);
        let cache = open(&config, path, flash_bytes)?;
        let opened = began.elapsed().as_secs_f64();
        block_on(cache.rebuild());
        let indexed = began.elapsed().as_secs_f64();
        let cpu = machine::cpu_seconds()? - cpu;
        println!("opened in {opened:.3} s, indexed after {indexed:.2} s ({cpu:.2} s of CPU)");
        let after = which_are_there(&cache, sets)?;
        let missing = before.iter().zip(&after).filter(|(before, after)| **before && !**after);
        let (missing, there) = (missing.count(), before.iter().filter(|there| **there).count());
        println!(
            "{there} of {} keys were there before, {missing} of them are missing",
            after.len()
        );
        Ok(())
    }

    fn fill(&self, cache: &Larder) -> Outcome<()> {
        let filler = vec![0xa5; FILLER_BYTES];
        for key in 0..self.filled_bytes / FILLER_BYTES as u64 {
            block_on(cache.set(&(FILLERS_FROM + key).to_le_bytes(), &filler, None))?;
        }
        let (value, began) = (vec![0x5a; SMALL_VALUE_BYTES], Instant::now());
        for key in 0..self.sets {
            block_on(cache.set(&key.to_le_bytes(), &value, None))?;
        }
        let (seconds, stats) = (began.elapsed().as_secs_f64(), cache.stats());
        let (items, bytes) = (stats.dram_items, stats.dram_used_bytes);
        println!("set in {seconds:.1} s; {items} items in {bytes} bytes of DRAM");
        Ok(())
    }
}

fn which_are_there(cache: &Larder, keys: u64) -> Outcome<Vec<bool>> {
    let step = usize::try_from(keys.div_ceil(LOOKED_FOR).max(1))?;
    let looked_for = (0..keys).step_by(step);
    let contains = looked_for.map(|key| block_on(cache.contains(&key.to_le_bytes())));
    Ok(contains.collect::<Result<_, _>>()?)
}

fn timed_close(cache: &Larder, within: Duration) -> Outcome<(Stats, f64)> {
    let (began, cpu) = (Instant::now(), machine::cpu_seconds()?);
    let stats = if within.is_zero() {
        block_on(cache.close())?
    } else {
        block_on(cache.close_within(within))?
    };
    let seconds = began.elapsed().as_secs_f64();
    println!("closed in {seconds:.2} s ({:.2} s of CPU)", machine::cpu_seconds()? - cpu);
    Ok((stats, seconds))
}

fn open(config: &Config, path: &Path, bytes: u64) -> Outcome<Larder> {
    // Blocks that are never written take no room.
    let options = FileOptions {
        capacity_bytes: Some(bytes),
        create: true,
        preallocate: false,
        ..FileOptions::default()
    };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path, &options)?);
    Ok(block_on(Larder::open(config.clone(), Some(device), Arc::new(RealClock)))?)
}

/// Writes `bytes` bytes sequentially and flushes them. Returns how long that took.
fn write_in_order(path: &Path, bytes: u64) -> Outcome<Duration> {
    let piece = PIECE_BYTES as u64;
    let device = FileDevice::create(path, bytes.next_multiple_of(piece))?;
    let mut under_way: VecDeque<IoFuture> = VecDeque::with_capacity(PIECES_AT_ONCE);
    let began = Instant::now();
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        if under_way.len() == PIECES_AT_ONCE
            && let Some(oldest) = under_way.pop_front()
        {
            block_on(oldest).map_err(|failure: IoFailure| failure.error)?;
        }
        let (buffer, handle) = (IoBuffer::zeroed(PIECE_BYTES), PlacementHandle::DEFAULT);
        under_way.push_back(device.submit(Io::write(offset, buffer, handle)));
    }
    for write in under_way {
        block_on(write).map_err(|failure: IoFailure| failure.error)?;
    }
    block_on(device.submit(Io::Flush)).map_err(|failure: IoFailure| failure.error)?;
    Ok(began.elapsed())
}
