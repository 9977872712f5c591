//! What a set says of itself, whether its devices were looked at or a server has it open.

use larder::{SetStatus, ShardStatus};
use serde::{Deserialize, Serialize};

/// A set. A server tells it in the same words (`/api/array`).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) epoch: u32,
    pub(super) shards: Vec<Shard>,
    /// Of a set that is open.
    #[serde(flatten)]
    pub(super) open: Option<Counted>,
}

/// What was counted since the set was opened.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) refilled_permille: u64,
    pub(super) refilled_bytes: u64,
    pub(super) late_gets: u64,
    pub(super) lost_changes: u64,
    pub(super) suspected: u64,
    pub(super) failed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shard {
    pub(super) number: usize,
    pub(super) state: String,
    pub(super) since: u32,
    pub(super) weight: u32,
    pub(super) device: Option<String>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) dlwa: Option<f64>,
    pub(super) used_percent: Option<u8>,
    /// Why it may be failing.
    pub(super) suspicion: Option<String>,
    /// Why it would not serve.
    pub(super) down: Option<String>,
}

impl From<SetStatus> for Report {
    /// Of a set that nobody has open: nothing was counted.
    fn from(status: SetStatus) -> Self {
        let shards = status.shards.into_iter().map(Shard::from).collect();
        Self { epoch: status.epoch, shards, open: None }
    }
}

impl From<ShardStatus> for Shard {
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
