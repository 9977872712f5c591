//! The configuration of a cache that has only the array engine: no DRAM for values, no other engine.

use larder::config::Demotions;
use larder::{ArrayConfig, Config, SocConfig};

/// A cache whose whole device, except for metadata, belongs to the array engine. Every object is written to flash, and
/// every lookup goes to the engine.
pub(in crate::experiment::array) fn engine_alone(array: ArrayConfig, seed: u64) -> Config {
    Config {
        dram_bytes: 0,
        soc: SocConfig { percent: Some(0.0), log_percent: Some(0.0), ..SocConfig::default() },
        array: ArrayConfig { percent: 100.0, ..array },
        start_empty: true,
        // Makes every run the same.
        demotions: Demotions::Callers,
        seed,
        hash_seed: Some(seed),
        ..Config::default()
    }
}
