//! Rounds of `fio` and of the engine.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use futures_util::future::join_all;
use larder::{ArrayConfig, Config, Larder, RealClock, SocConfig, Stats};
use larder_device::ring::{self, HostedRing};
use larder_device::{Device, FileDevice};
use larder_workload::{Spread, machine};

use super::fio;

/// Bytes of an object's key.
const KEY_BYTES: usize = 8;
/// Bytes to erase at the start of the device, which contain its label.
const ERASED_BYTES: usize = 128 << 10;
const MEAN_OBJECT_BYTES: u32 = 32 << 10;

#[derive(Debug, Parser)]
struct Arguments {
    /// File of the cache; it is overwritten, and removed at the end. It should be far larger than caches of the drive
    #[arg(long, default_value = "array_device.larder")]
    file: PathBuf,
    /// Length of the file in MiB
    #[arg(long, default_value_t = 2048)]
    mib: u64,
    /// Lookups, and reads of fio, in flight at a time
    #[arg(long, default_value_t = 16)]
    depth: usize,
    /// DRAM of the cache in MiB: at most one in twenty lookups may be answered there
    #[arg(long, default_value_t = 64)]
    dram_mib: u64,
    /// Tasks that set objects; concurrent ones share a write of the tombstone log
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds of each run of random reads
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The measurements of each round.
#[derive(Default)]
struct Rounds {
    write_mib: [Vec<f64>; 3],
    write_ratio: [Vec<f64>; 2],
    gets: [Vec<f64>; 3],
    get_ratio: [Vec<f64>; 2],
    cpu_us: [Vec<f64>; 3],
    reads_per_get: [Vec<f64>; 2],
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "{} of {} MiB, {} MiB of DRAM, objects of {MEAN_OBJECT_BYTES} bytes, {} look-ups at a time, {} writers, \
         seed {}",
        arguments.file.display(),
        arguments.mib,
        arguments.dram_mib,
        arguments.depth,
        arguments.writers,
        arguments.seed
    );
    let ring = ring::host().map_err(|why| format!("no ring of io_uring: {why}"))?;
    let mut rounds = Rounds::default();
    for _ in 0..arguments.rounds {
        round(&arguments, &ring, &mut rounds)?;
    }
    drop(ring);
    std::fs::remove_file(&arguments.file)?;
    rounds.print();
    Ok(())
}

fn round(
    arguments: &Arguments,
    ring: &HostedRing,
    rounds: &mut Rounds,
) -> Result<(), Box<dyn Error>> {
    let (bytes, file) = (arguments.mib << 20, arguments.file.as_path());
    let block = u64::from(ArrayConfig::default().write_bytes);
    let one = fio::run(file, "write", (block, 1), (bytes, 0))?;
    let four = fio::run(file, "write", (block, 4), (bytes, 0))?;
    // Erase the start of the file: the cache would take the data that fio wrote for another program's.
    OpenOptions::new().write(true).open(file)?.write_all(&[0; ERASED_BYTES])?;
    let whole_index = bytes / u64::from(MEAN_OBJECT_BYTES) * 2 * 16;
    for (at, index_bytes) in [Some(whole_index), None].into_iter().enumerate() {
        let cache = open(arguments, bytes, index_bytes)?;
        let written = fill(&cache, ring, arguments)?;
        if at == 0 {
            rounds.write_mib[0].push(one.mib_per_s);
            rounds.write_mib[1].push(four.mib_per_s);
            rounds.write_mib[2].push(written);
            rounds.write_ratio[0].push(written / one.mib_per_s);
            rounds.write_ratio[1].push(written / four.mib_per_s);
        }
        let read_block = (u64::from(MEAN_OBJECT_BYTES), arguments.depth);
        let peer = fio::run(file, "randread", read_block, (bytes, arguments.seconds))?;
        let found = look_up(&cache, ring, arguments)?;
        if at == 0 {
            rounds.gets[0].push(peer.per_s);
            rounds.cpu_us[0].push(peer.cpu_us);
        }
        rounds.gets[at + 1].push(found.per_s);
        rounds.cpu_us[at + 1].push(found.cpu_us);
        rounds.get_ratio[at].push(found.per_s / peer.per_s);
        rounds.reads_per_get[at].push(found.reads_per_get);
        ring.block_on(cache.close())?;
    }
    Ok(())
}

fn open(
    arguments: &Arguments,
    bytes: u64,
    index_bytes: Option<u64>,
) -> Result<Larder, Box<dyn Error>> {
    let array = ArrayConfig {
        percent: 100.0,
        mean_object_bytes: MEAN_OBJECT_BYTES,
        index_bytes,
        ..ArrayConfig::default()
    };
    let soc = SocConfig { percent: Some(0.0), ..SocConfig::default() };
    let dram_bytes = arguments.dram_mib << 20;
    let config = Config { dram_bytes, array, soc, start_empty: true, ..Config::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(&arguments.file, bytes)?);
    Ok(larder::block_on(Larder::open(config, Some(device), Arc::new(RealClock)))?)
}

/// Number of objects that fill nine tenths of the file, so that none is reclaimed.
fn objects(arguments: &Arguments) -> u64 {
    (arguments.mib << 20) / 10 * 9 / u64::from(MEAN_OBJECT_BYTES)
}

/// Sets all objects. Returns the MiB that reached the device each second.
fn fill(cache: &Larder, ring: &HostedRing, arguments: &Arguments) -> Result<f64, Box<dyn Error>> {
    let mut value = vec![0; MEAN_OBJECT_BYTES as usize - KEY_BYTES - 64];
    fastrand::Rng::with_seed(arguments.seed).fill(&mut value);
    let objects = objects(arguments);
    let written_before = cache.stats().flash_written_bytes();
    let began = Instant::now();
    let set_some = async |first: u64| {
        for key in (first..objects).step_by(arguments.writers) {
            cache.set(&key.to_le_bytes(), &value, None).await?;
        }
        Ok::<(), larder::Error>(())
    };
    let flushed = ring.block_on(async {
        let tasks = (0..arguments.writers).map(|first| set_some(first as u64));
        join_all(tasks).await.into_iter().collect::<Result<(), _>>()?;
        cache.flush().await
    })?;
    if flushed.refused + flushed.lost > 0 {
        return Err(format!("not all of it is on flash: {flushed:?}").into());
    }
    let seconds = began.elapsed().as_secs_f64();
    let written = cache.stats().flash_written_bytes() - written_before;
    Ok(mib(written) / seconds)
}

/// The results of lookups.
struct Found {
    per_s: f64,
    cpu_us: f64,
    reads_per_get: f64,
}

fn look_up(
    cache: &Larder,
    ring: &HostedRing,
    arguments: &Arguments,
) -> Result<Found, Box<dyn Error>> {
    let objects = objects(arguments);
    let before = cache.stats();
    let (began, cpu) = (Instant::now(), machine::cpu_seconds()?);
    let look_at_some = async |task: usize| {
        let mut rng = fastrand::Rng::with_seed(arguments.seed + task as u64);
        while began.elapsed().as_secs() < arguments.seconds {
            cache.get(&rng.u64(..objects).to_le_bytes()).await?;
        }
        Ok::<(), larder::Error>(())
    };
    ring.block_on(async {
        let tasks = (0..arguments.depth).map(look_at_some);
        join_all(tasks).await.into_iter().collect::<Result<(), _>>()
    })?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), machine::cpu_seconds()? - cpu);
    let after = cache.stats();
    let count = |of: fn(&Stats) -> u64| number(of(&after) - of(&before));
    let gets = count(|stats| stats.gets);
    let hits = count(|stats| stats.array_hits);
    if hits < gets * 0.95 {
        return Err(format!("{hits} of {gets} look-ups were answered from flash").into());
    }
    let reads = count(|stats| stats.array_record_reads) + count(|stats| stats.array_table_reads);
    Ok(Found { per_s: hits / seconds, cpu_us: cpu / gets * 1e6, reads_per_get: reads / gets })
}

impl Rounds {
    fn print(self) {
        let [one, four, engine] = self.write_mib.map(spread);
        let [to_one, to_four] = self.write_ratio.map(spread);
        println!("sequential writes, MiB/s: fio {one}, four at a time {four}; larder {engine}");
        println!("  larder to fio: {to_one}; to four at a time: {to_four}");
        let [peer, whole, part] = self.gets.map(spread);
        let [peer_cpu, whole_cpu, part_cpu] = self.cpu_us.map(spread);
        let [whole_ratio, part_ratio] = self.get_ratio.map(spread);
        let [whole_reads, part_reads] = self.reads_per_get.map(spread);
        println!("random reads a second: fio {peer}, {peer_cpu} us of processor each");
        for (name, gets, cpu, ratio, reads) in [
            ("an entry in DRAM for each object", whole, whole_cpu, whole_ratio, whole_reads),
            ("the default, for one in eight", part, part_cpu, part_ratio, part_reads),
        ] {
            println!("look-ups a second, {name}: {gets}, {cpu} us of processor each");
            println!("  to fio: {ratio}; device reads a look-up {reads}");
        }
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^52
fn number(count: u64) -> f64 {
    count as f64
}

fn mib(bytes: u64) -> f64 {
    number(bytes) / f64::from(1 << 20)
}

/// Median, minimum and maximum.
fn spread(rounds: Vec<f64>) -> Spread {
    Spread::of(rounds).expect("there are rounds")
}
