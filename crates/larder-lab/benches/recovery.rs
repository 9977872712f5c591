//! How fast the index of large objects comes back after a crash: entries per second of
//! `Larder::open` on a device in memory.
//!
//! `cargo bench -p larder-lab --bench recovery`. Objects are short, so that entries are many and
//! reading costs little: what is measured is the cache. Medians and spread of several openings of
//! the same device, each after the cache before was dropped as a crash drops it.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use larder::{Config, Larder, RealClock, Recovery, block_on};
use larder_device::{Device, ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

const FLASH_BYTES: u64 = 1 << 30;
const UNIT_BYTES: u64 = 16 << 20;
const OVERPROVISIONING_PERCENT: f64 = 20.0;
const REGION_BYTES: u32 = 16 << 20;
const VALUE_BYTES: usize = 100;
const OBJECTS: u64 = 6_000_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "flash {FLASH_BYTES} bytes, regions of {REGION_BYTES}, {OBJECTS} objects of 8 + {VALUE_BYTES} bytes"
    );
    let geometry =
        Geometry::with_overprovisioning(FLASH_BYTES, UNIT_BYTES, OVERPROVISIONING_PERCENT)?;
    let model = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?;
    let device: Arc<dyn Device> = Arc::new(model);
    let cache = open(&device)?;
    let began = Instant::now();
    for key in 0..OBJECTS {
        block_on(cache.set(&key.to_le_bytes(), &[0x5a; VALUE_BYTES], None))?;
    }
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    measure(&device, cache, "nothing dead")?;
    let cache = open(&device)?;
    let began = Instant::now();
    let mut dead = 0_u64;
    for key in (0..OBJECTS).step_by(20) {
        dead += u64::from(block_on(cache.delete(&key.to_le_bytes()))?);
    }
    println!("{dead} deleted in {:.1} s", began.elapsed().as_secs_f64());
    measure(&device, cache, "one in 20 dead")
}

fn measure(device: &Arc<dyn Device>, cache: Larder, name: &str) -> Result<(), Box<dyn Error>> {
    let mut left = cache;
    let mut rates = Vec::with_capacity(ROUNDS);
    let mut entries = 0;
    for _ in 0..ROUNDS {
        drop(left);
        let began = Instant::now();
        left = open(device)?;
        let seconds = began.elapsed().as_secs_f64();
        let Some(Recovery::Crashed { large_objects }) = left.recovery() else {
            return Err(format!("{:?}", left.recovery()).into());
        };
        entries = *large_objects;
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        rates.push(entries as f64 / seconds / 1e6);
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{name}: {entries} entries, {:.2} M entries/s ({:.2} to {:.2})",
        rates[ROUNDS / 2],
        rates[0],
        rates[ROUNDS - 1]
    );
    Ok(())
}

fn open(device: &Arc<dyn Device>) -> Result<Larder, larder::Error> {
    let config = Config {
        dram_bytes: 16 << 20,
        soc_percent: 0.0,
        region_bytes: Some(REGION_BYTES),
        ..Config::default()
    };
    block_on(Larder::open(config, Some(Arc::clone(device)), Arc::new(RealClock)))
}
