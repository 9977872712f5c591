//! The engine on several drives under a load of clients.

use std::sync::Arc;

use larder::{ArrayConfig, Config, Device, Stats, VirtualClock};
use larder_device::Payload;

use super::many::EngineShards;
use crate::Error;
use crate::experiment::array::clients::{ClientResult, Load, ask};
use crate::experiment::array::shards::drive;
use crate::replay::Monitor;

/// What the clients measured, and the statistics of all shards at the end.
pub(in crate::experiment::array) struct Played {
    pub(in crate::experiment::array) clients: ClientResult,
    pub(in crate::experiment::array) stats: Stats,
}

/// The settings of an engine with this load and `index_bytes` of DRAM for its index: one group for all objects.
pub(in crate::experiment::array) fn array_of(load: Load<'_>, index_bytes: u64) -> ArrayConfig {
    ArrayConfig {
        mean_object_bytes: u32::try_from(load.value_bytes).unwrap_or(u32::MAX),
        index_bytes: Some(index_bytes),
        ttl_groups: false,
        ..ArrayConfig::default()
    }
}

/// Fills a cache of `config` on fresh drives, then runs the clients.
pub(in crate::experiment::array) fn play_engine(
    load: Load<'_>,
    config: Config,
    monitor: &Monitor,
) -> Result<Played, Error> {
    let clock = Arc::new(VirtualClock::default());
    let drive = |_| {
        let drive = drive((load.shard_bytes, load.speed), Payload::Memory, &clock)?;
        Ok(Some(Arc::new(drive) as Arc<dyn Device>))
    };
    let drives = (0..load.shards).map(drive).collect::<Result<_, Error>>()?;
    let record_bytes = usize::try_from(load.value_bytes).unwrap_or(usize::MAX);
    let shards = EngineShards::open(drives, config, record_bytes, &clock)?;
    shards.load(load.records, load.seed, &clock)?;
    let clients = ask(load, &shards, &clock, monitor)?;
    Ok(Played { clients, stats: shards.cache().stats() })
}
