//! Metrics: counters by name, as OpenMetrics text for Prometheus, and latencies.
//!
//! `cargo run -p larder --example metrics`

use std::error::Error;
use std::sync::Arc;

use larder::{Config, FileDevice, Larder, OpenMetrics, RealClock, block_on};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let flash = FileDevice::create(directory.path().join("cache"), 64 << 20)?;
    let config = Config { dram_bytes: 8 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, Some(Arc::new(flash)), Arc::new(RealClock)))?;
    for number in 0..1_000_u32 {
        block_on(cache.set(&number.to_le_bytes(), &[0; 1000], None))?;
        block_on(cache.get(&(number / 2).to_le_bytes()))?;
    }

    // Fields, for code that decides something.
    let stats = cache.stats();
    println!("{} gets, {} hits, {} in DRAM", stats.gets, stats.hits(), stats.dram_hits);

    // Every number with its name, unit and help, for tables and exporters.
    for metric in stats.metrics().filter(|metric| metric.value > 0).take(5) {
        println!("{:<28} {:>10}  {}", metric.name, metric.value, metric.help);
    }

    // The text that Prometheus scrapes. Several caches go into one page, told apart by labels.
    let text = OpenMetrics::new().cache(&[("cache", "bakery")], &stats)?.to_string();
    assert!(text.contains("larder_gets_total{cache=\"bakery\"} 1000"));
    println!("{} lines of OpenMetrics", text.lines().count());
    block_on(cache.close())?;
    Ok(())
}
