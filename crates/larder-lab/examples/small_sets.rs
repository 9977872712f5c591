//! How fast small values can be set over DRAM that is full onto flash that is full: what leaves DRAM has to
//! be written as fast as values come.
//!
//! `cargo run --release -p larder-lab --example small_sets -- [SETTING [CLIENTS [SECONDS [DRAM_MIB [FLASH_MIB
//! [DIR [WHO]]]]]]]` (default: all settings, 1 client, 10 s, 256 MiB, 2048 MiB, the current directory, both). A
//! setting is `soc` (buckets on 4 % of flash), `soc-log` (the same behind a log of 5 %) or `loc` (regions only).
//! Each is measured twice, by turns: once with the cache's own thread (WHO is `thread`), once with callers
//! sending what leaves DRAM (`callers`), who need minutes to fill flash.
//!
//! A line says: values set a second, microseconds of CPU of this process for each, the 99th percentile and
//! the maximum of what a set took, bytes written to flash for each byte set, what was refused.
//!
//! The file is `small_sets.flash` and is removed at the end.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder::config::Departures;
use larder::{Config, Larder, RealClock, block_on};
use larder_device::{Device, FileDevice};
use larder_workload::machine;

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 300;
const FILLER_BYTES: usize = 60_000;
/// Keys of what only fills regions begin here.
const FILLERS_FROM: u64 = 1 << 60;
/// Flash counts as full when so much was set of what DRAM and buckets hold.
const FILLED_PERCENT: u64 = 150;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Run {
    setting: String,
    clients: u64,
    length: Duration,
    dram_bytes: u64,
    flash_bytes: u64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize, otherwise: &str| {
        arguments.get(at).cloned().unwrap_or_else(|| otherwise.to_owned())
    };
    let number = |at: usize, otherwise: u64| text(at, &otherwise.to_string()).parse::<u64>();
    let dir = text(5, ".");
    for line in machine::describe(Path::new(&dir)) {
        println!("{line}");
    }
    let who_sends = text(6, "both");
    let path = Path::new(&dir).join("small_sets.flash");
    let settings = match text(0, "all").as_str() {
        "all" => vec!["soc", "soc-log", "loc"],
        "soc" => vec!["soc"],
        "soc-log" => vec!["soc-log"],
        "loc" => vec!["loc"],
        other => return Err(format!("\"{other}\": soc, soc-log or loc").into()),
    };
    for setting in settings {
        let both = [Departures::Thread, Departures::Callers];
        for departures in
            both.into_iter().filter(|who| ["both", &who.to_string()].contains(&&*who_sends))
        {
            let run = Run {
                setting: setting.to_owned(),
                clients: number(1, 1)?.max(1),
                length: Duration::from_secs(number(2, 10)?),
                dram_bytes: number(3, 256)? << 20,
                flash_bytes: number(4, 2048)? << 20,
            };
            let measured = run.measure(&path, departures);
            let _ = std::fs::remove_file(&path);
            measured?;
        }
    }
    Ok(())
}

impl Run {
    fn config(&self, departures: Departures) -> Config {
        let (soc_percent, soc_log_percent) = match self.setting.as_str() {
            "soc" => (4.0, 0.0),
            "soc-log" => (4.0, 5.0),
            _ => (0.0, 0.0),
        };
        let dram_bytes = self.dram_bytes;
        Config {
            dram_bytes,
            soc_percent: Some(soc_percent),
            soc_log_percent,
            departures,
            ..Config::default()
        }
    }

    fn measure(&self, path: &Path, departures: Departures) -> Outcome<()> {
        let device: Arc<dyn Device> = Arc::new(FileDevice::create(path, self.flash_bytes)?);
        let config = self.config(departures);
        let cache = block_on(Larder::open(config, Some(device), Arc::new(RealClock)))?;
        let next = AtomicU64::new(0);
        let began = Instant::now();
        self.fill(&cache, &next)?;
        let filled = began.elapsed();
        let (before, cpu, began) = (cache.stats(), machine::cpu_seconds()?, Instant::now());
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            let client = || {
                let mut taken = Vec::new();
                while began.elapsed() < self.length {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    let asked = Instant::now();
                    block_on(set(&cache, key, VALUE_BYTES)).expect("the device works");
                    taken.push(u32::try_from(asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
                }
                taken
            };
            let clients: Vec<_> = (0..self.clients).map(|_| scope.spawn(client)).collect();
            clients.into_iter().for_each(|client| {
                taken.extend(client.join().expect("a client does not panic"));
            });
        });
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), machine::cpu_seconds()? - cpu);
        let after = cache.stats();
        taken.sort_unstable();
        let at = |percent: usize| f64::from(taken[percent * (taken.len() - 1) / 100]) / 1e3;
        let sets = taken.len() as f64;
        let set_bytes = sets * (KEY_BYTES + VALUE_BYTES) as f64;
        let written = after.flash_written_bytes() - before.flash_written_bytes();
        println!(
            "{:8} {:8} {} clients: {:9.0} sets/s  {:6.1} us of CPU a set  p99 {:9.1} us  max {:9.1} us  \
             {:5.2} bytes written a byte set  {} buckets read and {} written  {} written around  {} refused  \
             (filled in {:.1} s)",
            self.setting,
            departures,
            self.clients,
            sets / seconds,
            cpu * 1e6 / sets,
            at(99),
            at(100),
            written as f64 / set_bytes,
            after.soc_bucket_reads - before.soc_bucket_reads,
            after.soc_bucket_writes - before.soc_bucket_writes,
            after.dram_written_around_objects - before.dram_written_around_objects,
            after.rejected_departures_objects - before.rejected_departures_objects,
            filled.as_secs_f64(),
        );
        Ok(())
    }

    /// Fills regions with what is large, buckets and DRAM with what is measured.
    fn fill(&self, cache: &Larder, next: &AtomicU64) -> Outcome<()> {
        for filler in 0..self.flash_bytes / FILLER_BYTES as u64 {
            block_on(set(cache, FILLERS_FROM + filler, FILLER_BYTES))?;
        }
        let small_bytes = match self.setting.as_str() {
            "soc" => self.flash_bytes / 100 * 4,
            "soc-log" => self.flash_bytes / 100 * 9,
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
