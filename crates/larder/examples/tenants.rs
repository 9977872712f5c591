//! Tenants: several caches on one drive, each with its own flash, DRAM, keys and statistics.
//!
//! `cargo run -p larder --example tenants`

use std::error::Error;
use std::sync::Arc;

use larder::{FileDevice, RealClock, Tenant, Tenants, TenantsConfig, block_on};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let drive = FileDevice::create(directory.path().join("drive"), 256 << 20)?;

    // Shares of flash in percent; DRAM is divided in the same way unless `dram_percent` says otherwise.
    let config = TenantsConfig {
        dram_bytes: 16 << 20,
        tenants: vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)],
        ..TenantsConfig::default()
    };
    let tenants = block_on(Tenants::open(config, Some(Arc::new(drive)), Arc::new(RealClock)))?;

    let (photos, pages) = (tenants.tenant("photos")?, tenants.tenant("pages")?);
    block_on(photos.set(b"42", b"jpeg", None))?;
    assert!(
        block_on(pages.get(b"42"))?.is_none(),
        "the same key is a different item in each tenant"
    );
    assert!(tenants.tenant("audio").is_err(), "an unknown tenant is an error");

    // One plan gives the drive's placement handles to the write streams of all tenants.
    println!("{}", tenants.placement());
    println!("photos: {} items set; pages: {}", photos.stats().sets, pages.stats().sets);
    block_on(tenants.close())?;
    Ok(())
}
