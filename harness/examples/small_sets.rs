//! How fast small values can be set when both DRAM and flash are full: items that leave DRAM must be written as fast as
//! values arrive.
//!
//! `cargo run --release -p larder-harness --example small_sets -- --help`. Each setting is measured twice, in turn:
//! once with the cache's own thread, and once with callers writing the items that leave DRAM. With callers, filling
//! flash takes minutes.
//!
//! A line shows: values set a second, microseconds of CPU of this process for each, the 99th percentile and the maximum
//! latency of a set, bytes written to flash for each byte set, and refused sets.
//!
//! The file is `small_sets.flash` and is removed at the end.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum, value_parser};
use larder::config::Demotions;
use larder::{Config, Larder, RealClock, SocConfig, block_on};
use larder_device::{Device, FileDevice};
use larder_workload::{Latencies, machine};

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 300;
const FILLER_BYTES: usize = 60_000;
/// First key of the objects that only fill regions.
const FILLERS_FROM: u64 = 1 << 60;
/// Flash counts as full after sets of this percentage of what DRAM and buckets hold.
const FILLED_PERCENT: u64 = 150;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How fast small values can be set when both DRAM and flash are full.
#[derive(Debug, Parser)]
#[command(name = "small_sets", max_term_width = 100)]
struct Arguments {
    /// What to measure
    #[arg(value_enum, default_value_t = SettingChoice::All)]
    setting: SettingChoice,
    /// Threads that set
    #[arg(default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    clients: u64,
    /// Length of the measurement, in seconds
    #[arg(default_value_t = 10)]
    seconds: u64,
    /// Budget of DRAM
    #[arg(default_value_t = 256)]
    dram_mib: u64,
    /// Size of the file
    #[arg(default_value_t = 2048)]
    flash_mib: u64,
    /// Directory of the file
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Which threads write the items that leave DRAM: thread or callers [default: both, in turn]
    who: Option<Demotions>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SettingChoice {
    /// All settings
    All,
    /// Buckets on 4 % of flash
    Soc,
    /// Buckets behind a log of 5 %
    SocLog,
    /// Regions only
    Loc,
}

impl SettingChoice {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Soc => "soc",
            Self::SocLog => "soc-log",
            Self::Loc => "loc",
        }
    }
}

struct Run {
    setting: SettingChoice,
    clients: u64,
    length: Duration,
    dram_bytes: u64,
    flash_bytes: u64,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    for line in machine::describe(&arguments.dir) {
        println!("{line}");
    }
    let path = arguments.dir.join("small_sets.flash");
    let settings = match arguments.setting {
        SettingChoice::All => vec![SettingChoice::Soc, SettingChoice::SocLog, SettingChoice::Loc],
        one => vec![one],
    };
    let senders = match arguments.who {
        None => vec![Demotions::Thread, Demotions::Callers],
        Some(one) => vec![one],
    };
    for setting in settings {
        for &demotions in &senders {
            let run = Run {
                setting,
                clients: arguments.clients,
                length: Duration::from_secs(arguments.seconds),
                dram_bytes: arguments.dram_mib << 20,
                flash_bytes: arguments.flash_mib << 20,
            };
            let measured = run.measure(&path, demotions);
            let _ = std::fs::remove_file(&path);
            measured?;
        }
    }
    Ok(())
}

impl Run {
    fn config(&self, demotions: Demotions) -> Config {
        let (soc_percent, soc_log_percent) = match self.setting {
            SettingChoice::Soc => (4.0, 0.0),
            SettingChoice::SocLog => (4.0, 5.0),
            _ => (0.0, 0.0),
        };
        let dram_bytes = self.dram_bytes;
        Config {
            dram_bytes,
            soc: SocConfig {
                percent: Some(soc_percent),
                log_percent: Some(soc_log_percent),
                ..SocConfig::default()
            },
            demotions,
            ..Config::default()
        }
    }

    fn measure(&self, path: &Path, demotions: Demotions) -> Outcome<()> {
        let device: Arc<dyn Device> = Arc::new(FileDevice::create(path, self.flash_bytes)?);
        let config = self.config(demotions);
        let cache = block_on(Larder::open(config, Some(device), Arc::new(RealClock)))?;
        let next = AtomicU64::new(0);
        let began = Instant::now();
        self.fill(&cache, &next)?;
        let filled = began.elapsed();
        let (before, cpu, began) = (cache.stats(), machine::cpu_seconds()?, Instant::now());
        let mut taken = Latencies::default();
        std::thread::scope(|scope| {
            let client = || {
                let mut taken = Latencies::default();
                while began.elapsed() < self.length {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    let asked = Instant::now();
                    block_on(set(&cache, key, VALUE_BYTES)).expect("the device works");
                    taken.record(asked.elapsed());
                }
                taken
            };
            let clients: Vec<_> = (0..self.clients).map(|_| scope.spawn(client)).collect();
            clients.into_iter().for_each(|client| {
                taken.merge(&client.join().expect("a client does not panic"));
            });
        });
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), machine::cpu_seconds()? - cpu);
        let after = cache.stats();
        let (p99, most) = (taken.quantile_us(0.99), taken.max_us());
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        let sets = taken.count() as f64;
        let set_bytes = sets * (KEY_BYTES + VALUE_BYTES) as f64;
        let written = after.flash_written_bytes() - before.flash_written_bytes();
        println!(
            "{:8} {:8} {} clients: {:9.0} sets/s  {:6.1} us of CPU a set  p99 {:9.1} us  max {:9.1} us  \
             {:5.2} bytes written a byte set  {} buckets read and {} written  {} written around  {} refused  \
             (filled in {:.1} s)",
            self.setting.name(),
            demotions,
            self.clients,
            sets / seconds,
            cpu * 1e6 / sets,
            p99.unwrap_or(f64::NAN),
            most.unwrap_or(f64::NAN),
            written as f64 / set_bytes,
            after.soc_bucket_reads - before.soc_bucket_reads,
            after.soc_bucket_writes - before.soc_bucket_writes,
            after.dram_written_around_objects - before.dram_written_around_objects,
            after.rejected_demotions_objects - before.rejected_demotions_objects,
            filled.as_secs_f64(),
        );
        Ok(())
    }

    /// Fills regions with large objects, and buckets and DRAM with the measured ones.
    fn fill(&self, cache: &Larder, next: &AtomicU64) -> Outcome<()> {
        for filler in 0..self.flash_bytes / FILLER_BYTES as u64 {
            block_on(set(cache, FILLERS_FROM + filler, FILLER_BYTES))?;
        }
        let small_bytes = match self.setting {
            SettingChoice::Soc => self.flash_bytes / 100 * 4,
            SettingChoice::SocLog => self.flash_bytes / 100 * 9,
            _ => 0,
        };
        let filled = (self.dram_bytes + small_bytes) * FILLED_PERCENT / 100;
        for _ in 0..filled / (KEY_BYTES + VALUE_BYTES) as u64 {
            block_on(set(cache, next.fetch_add(1, Ordering::Relaxed), VALUE_BYTES))?;
        }
        Ok(())
    }
}

async fn set(cache: &Larder, key: u64, bytes: usize) -> Result<(), larder::Error> {
    static VALUE: [u8; FILLER_BYTES] = [0x5a; FILLER_BYTES];
    cache.set(&key.to_le_bytes(), &VALUE[..bytes], None).await
}
