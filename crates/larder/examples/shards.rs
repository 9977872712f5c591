//! Several drives as shards that fail one by one: a drive that is lost costs its keys, not the cache.
//!
//! `cargo run -p larder --example shards`

use std::error::Error;
use std::sync::Arc;

use larder::{Config, Device, FileDevice, FileOptions, RealClock, Shards, block_on};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let drive = |name: &str| -> Result<Option<Arc<dyn Device>>, Box<dyn Error>> {
        let path = directory.path().join(name);
        let drive = match path.exists() {
            true => FileDevice::open(path, &FileOptions::default())?,
            false => FileDevice::create(path, 64 << 20)?,
        };
        Ok(Some(Arc::new(drive)))
    };
    let config = Config { dram_bytes: 16 << 20, ..Config::default() };

    let drives = vec![drive("a")?, drive("b")?, drive("c")?];
    let cache = block_on(Shards::open(config.clone(), drives, Arc::new(RealClock)))?;
    for number in 0..1_000_u32 {
        block_on(cache.set(&number.to_le_bytes(), b"rye", None))?;
    }
    block_on(cache.close())?;
    drop(cache);

    // The third drive is being replaced: the other two take its keys, which miss until they are set again.
    let drives = vec![drive("a")?, drive("b")?, None];
    let cache = block_on(Shards::open(config, drives, Arc::new(RealClock)))?;
    let mut found = 0;
    for number in 0..1_000_u32 {
        found += u32::from(block_on(cache.get(&number.to_le_bytes()))?.is_some());
    }
    println!("{found} of 1,000 items found without the third drive");
    assert!((500..900).contains(&found), "{found}");
    block_on(cache.set(b"a new key", b"goes to a drive that is there", None))?;
    block_on(cache.close())?;
    Ok(())
}
