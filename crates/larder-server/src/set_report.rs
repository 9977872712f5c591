//! The report of a set of shards, from an open set in a server or from a look at its devices (`/api/array`,
//! `larder array status --json`).

use larder::{SetStatus, ShardStatus};
use serde::{Deserialize, Serialize};

/// A set of shards.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetReport {
    /// Grows with every change of the set.
    pub epoch: u32,
    /// In the order of their numbers.
    pub shards: Vec<ShardReport>,
    /// Only for an open set.
    #[serde(flatten)]
    pub open: Option<SetCounts>,
}

/// Counters since the set was opened.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetCounts {
    /// Progress of the refill that is running, in thousandths of what it has to look at.
    pub refilled_permille: u64,
    /// Bytes that refills have copied.
    pub refilled_bytes: u64,
    /// Look-ups that stopped waiting for a shard.
    pub late_gets: u64,
    /// Changes lost with their shard.
    pub lost_changes: u64,
    /// How often a shard became suspect.
    pub suspected: u64,
    /// How often a shard was taken out.
    pub failed: u64,
    /// How often a shard came back by itself.
    pub returned: u64,
    /// How often the host was suspended or stopped.
    pub host_pauses: u64,
}

/// A shard of a set.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShardReport {
    /// Counted from 0.
    pub number: usize,
    /// healthy, suspect, failed, refilling or retired.
    pub state: String,
    /// The epoch of the set in which it entered this state.
    pub since: u32,
    /// Its share of the keys, relative to the other shards.
    pub weight: u32,
    /// The name of its device; `None` if it has none.
    pub device: Option<String>,
    /// Capacity of the device in bytes.
    pub capacity_bytes: Option<u64>,
    /// Write amplification of the device, where it is known.
    pub dlwa: Option<f64>,
    /// How much of the drive's life is used, in percent, if the drive reports it.
    pub used_percent: Option<u8>,
    /// Why it may be failing.
    pub suspicion: Option<String>,
    /// Why it does not serve.
    pub down: Option<String>,
}

impl SetReport {
    /// The report of an open set.
    pub fn open(status: SetStatus) -> Self {
        let counts = SetCounts {
            refilled_permille: status.refilled_permille,
            refilled_bytes: status.refilled_bytes,
            late_gets: status.late_gets,
            lost_changes: status.lost_changes,
            suspected: status.suspected,
            failed: status.failed,
            returned: status.returned,
            host_pauses: status.host_pauses,
        };
        Self { open: Some(counts), ..Self::closed(status) }
    }

    /// The report of a set that no process has open: it has no counters.
    pub fn closed(status: SetStatus) -> Self {
        let shards = status.shards.into_iter().map(ShardReport::from).collect();
        Self { epoch: status.epoch, shards, open: None }
    }
}

impl From<ShardStatus> for ShardReport {
    fn from(shard: ShardStatus) -> Self {
        let device = shard.device;
        Self {
            number: shard.number,
            state: shard.state.name().to_owned(),
            since: shard.since,
            weight: shard.weight,
            capacity_bytes: device.as_ref().map(|device| device.capacity_bytes),
            dlwa: device.as_ref().and_then(|device| device.dlwa),
            used_percent: device.as_ref().and_then(|device| device.used_percent),
            device: device.map(|device| device.name),
            suspicion: shard.suspicion,
            down: shard.down,
        }
    }
}
