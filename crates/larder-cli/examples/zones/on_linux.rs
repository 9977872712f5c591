//! The commands.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use larder::{Config, Larder, LocConfig, RealClock, SocConfig, block_on};
use larder_blocks::{BlockStore, DeviceOnBlocks, ZonedBlocks};
use larder_device::{Device, ZonedDevice, ZonedFile};

#[path = "kills.rs"]
mod kills;

const OBJECTS: u32 = 3000;
const OBJECT_BYTES: usize = 40_000;

pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// Tests a zoned block device below a cache, and with processes that are killed. Its content is lost.
#[derive(Debug, Parser)]
#[command(name = "zones", max_term_width = 100)]
enum Command {
    /// Fill a cache of large objects, compare what is left of the previous round, and end at once
    Cache {
        device: PathBuf,
        /// Number of the round, from 1 on; the first creates the store
        #[arg(long, default_value_t = 1)]
        round: u32,
    },
    /// Kill a process that works on the zones, TIMES times, and compare what is there
    Kills {
        device: PathBuf,
        #[arg(long, default_value_t = 10)]
        times: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Work on the zones until killed, and print what was acknowledged
    #[command(hide = true)]
    Work { device: PathBuf, seed: u64 },
}

pub(super) fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Cache { device, round } => cache(&device, round),
        Command::Kills { device, times, seed } => kills::kills(&device, times, seed),
        Command::Work { device, seed } => kills::work(&device, seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zones: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(super) fn open(path: &Path, anew: bool) -> Result<Arc<ZonedBlocks>, Failure> {
    let device = Arc::new(ZonedFile::open(path)?) as Arc<dyn ZonedDevice>;
    let store = match anew {
        true => block_on(ZonedBlocks::format(device))?,
        false => block_on(ZonedBlocks::open(device))?,
    };
    Ok(Arc::new(store))
}

fn value(key: u32, round: u32) -> Vec<u8> {
    let word = u64::from(key) << 32 | u64::from(round);
    word.to_le_bytes().into_iter().cycle().take(OBJECT_BYTES).collect()
}

fn cache(path: &Path, round: u32) -> Result<(), Failure> {
    let store = open(path, round == 1)?;
    let limits = store.info().open_blocks_max;
    println!(
        "blocks {} of {} bytes, open {limits:?}",
        store.info().blocks,
        store.info().block_bytes
    );
    let region_bytes = u32::try_from(store.info().block_bytes)?;
    let config = Config {
        dram_bytes: 8 << 20,
        soc: SocConfig { percent: Some(2.0), ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(region_bytes), ..LocConfig::default() },
        ..Config::default()
    };
    let options = config.on_blocks(store.info())?;
    let made = match round {
        1 => block_on(DeviceOnBlocks::format(Arc::clone(&store) as _, &options)),
        _ => block_on(DeviceOnBlocks::open(Arc::clone(&store) as _, &options)),
    };
    let device = Arc::new(made?);
    let shared = Arc::clone(&device) as Arc<dyn Device>;
    let cache = block_on(Larder::open(config, Some(shared), Arc::new(RealClock)))?;
    println!("recovery {:?}", cache.recovery());
    block_on(cache.rebuild());
    let (mut found, mut wrong) = (0, 0);
    for key in 0..OBJECTS {
        if let Some(it) = block_on(cache.get(&key.to_le_bytes()))? {
            found += 1;
            wrong += u32::from(*it != *value(key, round - 1));
        }
    }
    println!("found {found}\nwrong {wrong}");
    if round > 1 && (wrong > 0 || found < OBJECTS / 4) {
        return Err(format!("of {OBJECTS} objects {found} are there, {wrong} of them wrong").into());
    }
    for key in 0..OBJECTS {
        block_on(cache.set(&key.to_le_bytes(), &value(key, round), None))?;
    }
    let flushed = block_on(cache.flush())?;
    println!("flushed {flushed:?}");
    let (stats, counts) = (device.stats(), device.counts());
    println!("host_bytes {}", stats.host_written_bytes);
    println!("media_bytes {}", stats.flash_written_bytes());
    println!("area_bytes {}", counts.page_bytes + counts.header_bytes + counts.moved_bytes);
    println!("padded_bytes {}", store.padded_bytes());
    println!("device_errors {}", cache.stats().device_errors);
    // As if killed: nothing is closed.
    std::process::exit(0)
}
