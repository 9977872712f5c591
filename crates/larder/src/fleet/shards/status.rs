//! Status of a set of shards.

use larder_device::{Device, DeviceStats};

use super::wear::LevellingStatus;
use crate::fleet::partition::{MovedKeys, ShardState};

/// Status of a set: all its shards, and counters since it was opened.
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
    /// Incremented whenever a shard fails, is added or removed.
    pub epoch: u32,
    /// In the order of their numbers.
    pub shards: Vec<ShardStatus>,
    /// Progress of the current refill, in thousandths; 0 if there is none.
    pub refilled_permille: u64,
    /// Bytes of keys and values that refills have copied.
    pub refilled_bytes: u64,
    /// Look-ups that were misses because a device took longer than [`ShardOptions::get_wait`](crate::ShardOptions).
    pub late_gets: u64,
    /// Changes that counted as made and whose values are lost, because their shard was taken out, or its device could
    /// not record them.
    pub lost_changes: u64,
    /// Number of times that a shard was suspected.
    pub suspected: u64,
    /// Number of times that a shard was taken out because it had failed.
    pub failed: u64,
    /// Number of times that a shard came back by itself, because its device answered again.
    pub returned: u64,
    /// Number of times that the host was stopped or slept: that time counts against no shard.
    pub host_pauses: u64,
    /// Keys that have their home at another shard than by their hash, so that the drives wear alike.
    pub moved: Vec<MovedShare>,
    /// Parts of keys that were moved for that, in 10,000 of the keys of a shard.
    pub moved_parts: u64,
    /// Look-ups that found a key where it was before it moved: it moves with its next change.
    pub old_home_gets: u64,
    /// The wear of the drives, and the last step to level it; `None` before the first look at the drives.
    pub levelling: Option<LevellingStatus>,
}

/// Keys of one shard that have their home at another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MovedShare {
    /// The shard that has the keys by their hash.
    pub from: usize,
    /// The shard that has their home, or had it.
    pub to: usize,
    /// How much is at home at the other shard, in parts of 10,000 of the keys of the first one.
    pub parts: u16,
    /// How much was there and is back, likewise.
    pub returned_parts: u16,
    /// When keys were moved the last time, in seconds since 1970.
    pub moved_at_s: u64,
}

impl MovedShare {
    /// An element for each pair of shards.
    pub(super) fn all(entries: &[MovedKeys]) -> Vec<Self> {
        let mut shares: Vec<Self> = Vec::new();
        for entry in entries {
            let (from, to) = (entry.from.index(), entry.to.index());
            let at = shares.iter().position(|it| (it.from, it.to) == (from, to));
            let at = at.unwrap_or_else(|| {
                shares.push(Self { from, to, parts: 0, returned_parts: 0, moved_at_s: 0 });
                shares.len() - 1
            });
            let share = &mut shares[at];
            let parts = if entry.is_back { &mut share.returned_parts } else { &mut share.parts };
            *parts += entry.parts();
            share.moved_at_s = share.moved_at_s.max(entry.moved_at_s);
        }
        shares
    }
}

/// Status of a shard.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// Its number in the set, which does not change.
    pub number: usize,
    /// Its state in the set.
    pub state: ShardState,
    /// The epoch of its last failure or retirement; 0 for never.
    pub since: u32,
    /// Its weight, which determines its share of the keys: MiB of its first device.
    pub weight: u32,
    /// Why it is suspected of failing, if it is.
    pub suspicion: Option<String>,
    /// Why others have its keys, if they have.
    pub down: Option<String>,
    /// Its device, if it serves.
    pub device: Option<ShardDeviceStatus>,
}

/// Status of a shard's device.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShardDeviceStatus {
    /// Its name.
    pub name: String,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Media bytes per host byte since it was opened, if it reports them.
    pub dlwa: Option<f64>,
    /// Percent of its rated life that is used up, if the drive reports it.
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
