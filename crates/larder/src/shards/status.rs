//! What a set of shards says of itself.

use std::sync::atomic::Ordering;

use larder_device::{Device, DeviceStats};

use super::LiveSet;
use crate::partition::ShardState;

/// What a set is: all its shards, and what was counted since it was opened.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Config, Device, RealClock, ShardState, Shards, block_on};
/// use larder_device::MemoryDevice;
///
/// let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) };
/// let devices = vec![Some(device()), Some(device())];
/// let cache = block_on(Shards::open(Config::default(), devices, Arc::new(RealClock)))?;
/// let status = cache.status();
/// assert!(status.shards.iter().all(|shard| shard.state == ShardState::Healthy));
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SetStatus {
    /// Raised whenever a shard fails, comes or goes.
    pub epoch: u32,
    /// In the order of their numbers.
    pub shards: Vec<ShardStatus>,
    /// How much of the refill that is under way has been looked at, in thousandths; 0 if there is none.
    pub refilled_permille: u64,
    /// Bytes of keys and values that refills have copied.
    pub refilled_bytes: u64,
    /// Look-ups that were misses because a device took longer than [`ShardOptions::get_wait`](crate::ShardOptions).
    pub late_gets: u64,
    /// Changes that counted as made and whose values are lost: their shard was taken out meanwhile, or its device could
    /// not keep them.
    pub lost_changes: u64,
    /// How often a shard was suspected.
    pub suspected: u64,
    /// How often one was taken out because it had failed.
    pub failed: u64,
    /// How often one came back by itself: its device answered again.
    pub returned: u64,
    /// How often the host was stopped or slept: what was late for that is no shard's fault.
    pub host_pauses: u64,
}

/// What a shard is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// Its number in the set, which stays.
    pub number: usize,
    /// What it is to the set.
    pub state: ShardState,
    /// The epoch in which it failed or was retired the last time; 0 for never.
    pub since: u32,
    /// Its part of the keys, against those of the others: MiB of the device that it began with.
    pub weight: u32,
    /// Why it is suspected of failing, if it is.
    pub suspicion: Option<String>,
    /// Why others have its keys, if they have.
    pub down: Option<String>,
    /// Its device, if it serves.
    pub device: Option<ShardDeviceStatus>,
}

/// What the device of a shard says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShardDeviceStatus {
    /// What it is called.
    pub name: String,
    /// Its bytes.
    pub capacity_bytes: u64,
    /// Media bytes per host byte since it was opened, where it counts them.
    pub dlwa: Option<f64>,
    /// Percent of its rated life that are used, where the drive says so.
    pub used_percent: Option<u8>,
}

impl ShardDeviceStatus {
    pub(super) fn of(device: &dyn Device, stats: &DeviceStats) -> Self {
        let info = device.info();
        Self {
            name: info.name.clone(),
            capacity_bytes: info.capacity_bytes,
            dlwa: stats.dlwa(),
            used_percent: stats.drives.iter().filter_map(|drive| drive.used_percent).max(),
        }
    }
}

impl LiveSet {
    /// What it is now.
    pub(crate) fn status(&self) -> SetStatus {
        let state = self.state();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let shard = |number: crate::partition::ShardNumber| {
            let (standing, now) = (state.standing(number), state.shard(number));
            let device =
                now.device.as_ref().map(|device| ShardDeviceStatus::of(&**device, &device.stats()));
            ShardStatus {
                number: number.index(),
                state: standing.state,
                since: standing.since,
                weight: standing.weight,
                suspicion: self.suspicion(number).map(|why| why.to_string()),
                down: now.down.as_deref().map(str::to_owned),
                device,
            }
        };
        SetStatus {
            epoch: state.epoch,
            shards: state.numbers().map(shard).collect(),
            refilled_permille: count(&self.refilled_permille),
            refilled_bytes: count(&self.counts.refilled_bytes),
            late_gets: count(&self.counts.late_gets),
            lost_changes: count(&self.counts.lost_changes),
            suspected: count(&self.counts.suspected),
            failed: count(&self.counts.failed),
            returned: count(&self.counts.returned),
            host_pauses: count(&self.counts.host_pauses),
        }
    }
}
