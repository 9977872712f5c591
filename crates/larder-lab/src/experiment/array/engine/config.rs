//! A cache that is nothing but the array engine: no DRAM for values, no other engine.

use larder::config::Demotions;
use larder::{ArrayConfig, Config, SocConfig};

/// A cache whose device is the engine's, but for metadata. Every object goes to flash, and every look-up to the engine.
pub(in crate::experiment::array) fn engine_alone(array: ArrayConfig, seed: u64) -> Config {
    Config {
        dram_bytes: 0,
        soc: SocConfig { percent: Some(0.0), log_percent: 0.0, ..SocConfig::default() },
        array: ArrayConfig { percent: 100.0, ..array },
        start_empty: true,
        // The same run each time.
        demotions: Demotions::Callers,
        seed,
        hash_seed: Some(seed),
        ..Config::default()
    }
}
