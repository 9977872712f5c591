//! Runs a cache on a device, prints the counters of the drive below it, and shows what happens if the device goes away:
//!
//! ```sh
//! cargo run --release -p larder-harness --example cache_on -- TARGET --help
//! ```
//!
//! **The content of the target is lost.** The example sets and gets keys, a few of them so frequently that they stay in
//! DRAM, and compares each value that comes back. Then it prints the counters, one on each line. With `--until-gone` it
//! continues until the device is gone, and then makes another 20,000 requests without it: the counters after `gone` are
//! those of this part. TARGET is as in [`larder_device::opening`].

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use larder::{Config, Larder, RealClock, SocConfig, Stats, block_on};
use larder_device::nvme::{DriveReport, event_name};
use larder_device::{FileOptions, OpenOptions, PlacementMode, open_asking};

const OFTEN_ASKED: u32 = 200;
const KEYS: u32 = 60_000;
const VALUE_BYTES: usize = 1500;
/// Requests without the device.
const REQUESTS_AFTERWARDS: u32 = 20_000;

type Failure = Box<dyn Error + Send + Sync>;

/// Runs a cache on a device, prints the counters of the drive below it, and shows what happens if the device goes away.
#[derive(Debug, Parser)]
#[command(name = "cache_on", max_term_width = 100)]
struct Arguments {
    /// Device for the cache, such as block:/dev/nvme0n1; its content is lost
    target: String,
    /// Placement: required, preferred or off
    #[arg(long, value_name = "MODE", default_value_t)]
    placement: PlacementMode,
    /// Bytes of the device that the cache gets
    #[arg(long, value_name = "BYTES")]
    capacity: Option<u64>,
    /// Interval for reading the drive's counters; 0 is never
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 60_000)]
    ask: u64,
    /// Duration in seconds
    #[arg(long, value_name = "N", default_value_t = 2)]
    seconds: u64,
    /// Continue until the device is gone, and then run requests without it
    #[arg(long)]
    until_gone: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cache_on: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let ask = (arguments.ask > 0).then(|| Duration::from_millis(arguments.ask));
    let file = FileOptions { capacity_bytes: arguments.capacity, ..FileOptions::default() };
    let options = OpenOptions { placement: arguments.placement, file };
    let opened = open_asking(&arguments.target, &options, ask)?;
    println!("{}", opened.status);
    let config = Config {
        dram_bytes: 8 << 20,
        soc: SocConfig { percent: Some(30.0), ..SocConfig::default() },
        start_empty: true,
        ..Config::default()
    };
    let device = opened.device;
    let cache = Larder::open(config, Some(Arc::clone(&device)), Arc::new(RealClock));
    let cache = block_on(cache)?;
    let mut load = Load { cache: &cache, rng: fastrand::Rng::with_seed(1), wrong: 0, refused: 0 };
    let begun = Instant::now();
    while begun.elapsed().as_secs() < arguments.seconds || arguments.until_gone {
        load.request(1000);
        if cache.stats().device_errors > 0 {
            break;
        }
    }
    if arguments.until_gone {
        // Requests that were in flight when it went away have ended by then.
        load.request(1000);
        let before = cache.stats();
        load.request(REQUESTS_AFTERWARDS);
        show_recovered(&before, &cache.stats());
    }
    println!("wrong {}\nrefused {}", load.wrong, load.refused);
    show(&cache.stats());
    show_streams(&cache);
    match block_on(cache.close()) {
        Ok(stats) => println!("closed\nclosed_written_bytes {}", stats.flash_written_bytes()),
        Err(error) => eprintln!("closing: {error}"),
    }
    println!("closed_page_cache_bytes {}", device.stats().page_cache_written_bytes);
    if let Some(ask) = ask {
        // Long enough to read the drive's counters once more, after everything was written.
        std::thread::sleep(ask * 3);
        device.stats().drives.iter().for_each(|drive| show_drive("closed_", drive));
    }
    Ok(())
}

struct Load<'a> {
    cache: &'a Larder,
    rng: fastrand::Rng,
    wrong: u64,
    /// Requests that ended with an error.
    refused: u64,
}

impl Load<'_> {
    fn request(&mut self, requests: u32) {
        for _ in 0..requests {
            let often = self.rng.bool();
            let key = self.rng.u32(..if often { OFTEN_ASKED } else { KEYS });
            let name = key.to_le_bytes();
            let found = match block_on(self.cache.get(&name)) {
                Ok(found) => found,
                Err(_) => {
                    self.refused += 1;
                    continue;
                }
            };
            let value = Self::value(key);
            match found {
                Some(found) => self.wrong += u64::from(*found != *value),
                None => self.refused += u64::from(self.set(&name, &value).is_err()),
            }
        }
    }

    fn set(&self, name: &[u8], value: &[u8]) -> Result<(), larder::Error> {
        block_on(self.cache.set(name, value, None))
    }

    fn value(key: u32) -> Vec<u8> {
        key.to_le_bytes().iter().copied().cycle().take(VALUE_BYTES).collect()
    }
}

fn show_recovered(before: &Stats, after: &Stats) {
    println!("gone_gets {}", after.gets - before.gets);
    println!("gone_dram_hits {}", after.dram_hits - before.dram_hits);
    println!(
        "gone_flash_hits {}",
        after.hits() - after.dram_hits + before.dram_hits - before.hits()
    );
    println!("gone_device_errors {}", after.device_errors - before.device_errors);
    println!(
        "gone_lost {}",
        after.lost_to_device_errors_objects - before.lost_to_device_errors_objects
    );
}

fn show(stats: &Stats) {
    println!("gets {}\nhits {}\ndevice_errors {}", stats.gets, stats.hits(), stats.device_errors);
    println!("flash_hits {}", stats.hits() - stats.dram_hits);
    println!("flash_written_bytes {}", stats.flash_written_bytes());
    println!("placement_active {}", stats.placement_active);
    println!("placement_path {}", stats.placement_path);
    println!("drives {}", stats.drives.len());
    stats.drives.iter().for_each(|drive| show_drive("", drive));
    if let Some(error) = &stats.last_device_error {
        eprintln!("device error: {error}");
    }
}

/// Prints the events of each stream's handle.
fn show_streams(cache: &Larder) {
    for stream in cache.stream_reports() {
        let (class, handle) = (stream.assignment.class, stream.assignment.handle);
        for (code, events) in &stream.events.events {
            println!("stream {class} handle {handle} {} {events}", event_name(*code));
        }
    }
}

fn show_drive(when: &str, drive: &DriveReport) {
    println!("{when}drive {}\n{when}looks {}", drive.path, drive.looks);
    if let Some(counters) = drive.counters {
        println!("{when}host_bytes_ever {}", counters.host_bytes);
        println!("{when}media_bytes_ever {}", counters.media_bytes);
    }
    for (name, written) in [("since_open", drive.since_open), ("recent", drive.recent)] {
        let Some(written) = written else { continue };
        println!("{when}{name}_host_bytes {}", written.host_bytes);
        println!("{when}{name}_media_bytes {}", written.media_bytes);
        println!("{when}{name}_dlwa {:?}", written.dlwa());
    }
    println!("{when}used_percent {:?}", drive.used_percent);
    drive.events.iter().for_each(|(code, events)| println!("{when}events {code:02x}h {events}"));
    for unsaid in &drive.unavailable {
        println!("{when}unavailable {}: {}", unsaid.what, unsaid.why);
    }
}
