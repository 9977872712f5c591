//! A cache of DRAM and flash, called from tokio, that is found again after a restart.
//!
//! `cargo run -p larder --example hybrid`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use larder::{Config, FileDevice, FileOptions, Larder, RealClock};

const FLASH_BYTES: u64 = 256 << 20;

/// Opens the cache on a file of fixed length. On a block device, pass its path.
async fn open(path: &Path) -> Result<Larder, Box<dyn Error>> {
    let flash = match path.exists() {
        true => FileDevice::open(path, &FileOptions::default())?,
        false => FileDevice::create(path, FLASH_BYTES)?,
    };
    let config = Config { dram_bytes: 8 << 20, ..Config::default() };
    Ok(Larder::open(config, Some(Arc::new(flash)), Arc::new(RealClock)).await?)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("cache");

    let cache = open(&path).await?;
    // More than DRAM has room for: what DRAM evicts goes to flash.
    let value = vec![7; 16 << 10];
    for number in 0..2_000_u32 {
        cache.set(&number.to_le_bytes(), &value, None).await?;
    }
    cache.close().await?; // writes what flash lacks, and a snapshot of the indexes
    drop(cache);

    let cache = open(&path).await?;
    println!("after the restart: {:?}", cache.recovery());
    let mut found = 0;
    for number in 0..2_000_u32 {
        found += u32::from(cache.get(&number.to_le_bytes()).await?.is_some());
    }
    println!("{found} of 2,000 items found again, {} on flash", cache.stats().loc_hits);
    assert!(found > 0);
    cache.close().await?;
    Ok(())
}
