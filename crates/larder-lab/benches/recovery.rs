//! Recovery after a crash: the time to the first answer, and the speed of rebuilding the index of large objects
//! (`Larder::rebuild`), in entries per second, on a device in memory. Then the first answer of a cache of 2 TiB with a
//! tombstone log of 64 MiB.
//!
//! `cargo bench -p larder-lab --bench recovery`. Objects are short, so that there are many entries and reading costs
//! little: the cache itself is measured. Prints medians and spread of several openings of the same device; before each,
//! the previous cache was dropped without a close, as in a crash. The large device only stores what was written to it,
//! and most of its regions are blank: an opening does not read them.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use larder::{Config, Larder, LocConfig, RealClock, Recovery, SocConfig, block_on};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, ModelDevice, Payload,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_workload::{Spread, machine};

const FLASH_BYTES: u64 = 1 << 30;
const UNIT_BYTES: u64 = 16 << 20;
const OVERPROVISIONING_PERCENT: f64 = 20.0;
const REGION_BYTES: u32 = 16 << 20;
const VALUE_BYTES: usize = 100;
const OBJECTS: u64 = 6_000_000;
const ROUNDS: usize = 5;

const LARGE_FLASH_BYTES: u64 = 2 << 40;
const LARGE_REGION_BYTES: u32 = 32 << 20;
const LARGE_OBJECTS: u64 = 2_000_000;
const BLOCK: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "flash {FLASH_BYTES} bytes, regions of {REGION_BYTES}, {OBJECTS} objects of 8 + {VALUE_BYTES} bytes"
    );
    let geometry =
        Geometry::with_overprovisioning(FLASH_BYTES, UNIT_BYTES, OVERPROVISIONING_PERCENT)?;
    let model = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?;
    let device: Arc<dyn Device> = Arc::new(model);
    let config = Config {
        dram_bytes: 16 << 20,
        soc: SocConfig { percent: Some(0.0), ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(REGION_BYTES), ..LocConfig::default() },
        ..Config::default()
    };
    let cache = open(&config, &device)?;
    fill(&cache, OBJECTS)?;
    measure(&config, &device, cache, "nothing dead")?;
    let cache = open(&config, &device)?;
    block_on(cache.rebuild());
    delete(&cache, OBJECTS, 20)?;
    measure(&config, &device, cache, "one in 20 dead")?;

    println!("flash {LARGE_FLASH_BYTES} bytes, regions of {LARGE_REGION_BYTES}");
    let device: Arc<dyn Device> = Arc::new(SparseDevice::new(LARGE_FLASH_BYTES));
    let config = Config {
        soc: SocConfig { max_object_bytes: 64, ..SocConfig::default() },
        loc: LocConfig { region_bytes: Some(LARGE_REGION_BYTES), ..LocConfig::default() },
        dram_bytes: 16 << 20,
        ..Config::default()
    };
    let cache = open(&config, &device)?;
    fill(&cache, LARGE_OBJECTS)?;
    delete(&cache, LARGE_OBJECTS, 2)?;
    // Rebuilding the 20 million buckets of this device takes minutes and shows nothing, so skip it.
    measure_first(&config, &device, cache, "half of the written dead")
}

fn fill(cache: &Larder, objects: u64) -> Result<(), larder::Error> {
    let began = Instant::now();
    for key in 0..objects {
        block_on(cache.set(&key.to_le_bytes(), &[0x5a; VALUE_BYTES], None))?;
    }
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn delete(cache: &Larder, objects: u64, one_in: usize) -> Result<(), larder::Error> {
    let began = Instant::now();
    let mut dead = 0_u64;
    for key in (0..objects).step_by(one_in) {
        dead += u64::from(block_on(cache.delete(&key.to_le_bytes()))?);
    }
    println!("{dead} deleted in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn measure(
    config: &Config,
    device: &Arc<dyn Device>,
    cache: Larder,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let mut left = cache;
    let (mut firsts, mut rates) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    let mut entries = 0;
    for _ in 0..ROUNDS {
        left = crash(config, device, left, &mut firsts)?;
        let began = Instant::now();
        // Large objects come first. Without buckets, nothing else is rebuilt.
        block_on(left.rebuild());
        let seconds = began.elapsed().as_secs_f64();
        let Some(Recovery::Crashed { large_objects, .. }) = left.recovery() else {
            return Err(format!("{:?}", left.recovery()).into());
        };
        entries = large_objects;
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        rates.push(entries as f64 / seconds / 1e6);
    }
    println!(
        "{name}: first answer after {} ms; {entries} entries, {} M entries/s",
        spread(firsts),
        spread(rates)
    );
    Ok(())
}

fn measure_first(
    config: &Config,
    device: &Arc<dyn Device>,
    cache: Larder,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let mut left = cache;
    let mut firsts = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        left = crash(config, device, left, &mut firsts)?;
    }
    let left = left.stats().loc_unindexed_regions;
    println!("{name}: first answer after {} ms; {left} regions left to look at", spread(firsts));
    Ok(())
}

/// Drops the cache as a crash does, opens the next one, and records the milliseconds to its first answer.
fn crash(
    config: &Config,
    device: &Arc<dyn Device>,
    left: Larder,
    firsts: &mut Vec<f64>,
) -> Result<Larder, larder::Error> {
    drop(left);
    let began = Instant::now();
    let cache = open(config, device)?;
    let _answer = block_on(cache.get(&OBJECTS.to_le_bytes()))?;
    firsts.push(began.elapsed().as_secs_f64() * 1e3);
    Ok(cache)
}

/// Median, minimum and maximum.
fn spread(rounds: Vec<f64>) -> Spread {
    Spread::of(rounds).expect("there are rounds")
}

fn open(config: &Config, device: &Arc<dyn Device>) -> Result<Larder, larder::Error> {
    block_on(Larder::open(config.clone(), Some(Arc::clone(device)), Arc::new(RealClock)))
}

/// A large device that only stores nonzero blocks.
struct SparseDevice {
    info: DeviceInfo,
    blocks: Mutex<HashMap<u64, Box<[u8]>>>,
}

impl SparseDevice {
    fn new(capacity_bytes: u64) -> Self {
        let info = DeviceInfo::new("sparse", capacity_bytes, 4096, 1 << 20);
        Self { info, blocks: Mutex::default() }
    }
}

impl Device for SparseDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut io {
            Io::Read { offset, buffer } => {
                let places = (*offset..).step_by(BLOCK);
                for (at, room) in places.zip(buffer.as_mut_slice().chunks_exact_mut(BLOCK)) {
                    match blocks.get(&at) {
                        Some(block) => room.copy_from_slice(block),
                        None => room.fill(0),
                    }
                }
            }
            Io::Write { offset, buffer, .. } => {
                let places = (*offset..).step_by(BLOCK);
                for (at, bytes) in places.zip(buffer.as_slice().chunks_exact(BLOCK)) {
                    if bytes.iter().any(|&byte| byte != 0) {
                        blocks.insert(at, bytes.into());
                    } else {
                        blocks.remove(&at);
                    }
                }
            }
            _ => {}
        }
        drop(blocks);
        IoFuture::ready(Ok(io.into_buffer()))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }

    /// This device never loses anything.
    fn boot(&self) -> Option<u64> {
        Some(0)
    }
}
