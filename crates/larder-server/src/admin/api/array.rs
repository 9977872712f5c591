//! `/api/array`: the shards of the set that the server has open, and what operators have them do.

use larder::{Error, SetStatus, ShardStatus, Shards, block_on};
use serde::Serialize;

use crate::shared::Shared;

#[derive(Serialize)]
pub(super) struct Array {
    epoch: u32,
    /// How much of the refill that is under way has been looked at, in thousandths.
    refilled_permille: u64,
    refilled_bytes: u64,
    late_gets: u64,
    suspected: u64,
    failed: u64,
    shards: Vec<Shard>,
}

#[derive(Serialize)]
struct Shard {
    number: usize,
    state: &'static str,
    since: u32,
    weight: u32,
    suspicion: Option<String>,
    down: Option<String>,
    device: Option<String>,
    capacity_bytes: Option<u64>,
    dlwa: Option<f64>,
    used_percent: Option<u8>,
}

/// `None` if the server has no set.
pub(super) fn of(shared: &Shared) -> Option<Array> {
    let SetStatus {
        epoch,
        shards,
        refilled_permille,
        refilled_bytes,
        late_gets,
        suspected,
        failed,
        ..
    } = set(shared)?.status();
    let shards = shards.into_iter().map(shard).collect();
    Some(Array { epoch, refilled_permille, refilled_bytes, late_gets, suspected, failed, shards })
}

/// The set: that of any tenant is that of all.
pub(in crate::admin) fn set(shared: &Shared) -> Option<&Shards> {
    shared.default_tenant().shards()
}

fn shard(shard: ShardStatus) -> Shard {
    let device = shard.device;
    Shard {
        number: shard.number,
        state: shard.state.name(),
        since: shard.since,
        weight: shard.weight,
        suspicion: shard.suspicion,
        down: shard.down,
        capacity_bytes: device.as_ref().map(|device| device.capacity_bytes),
        dlwa: device.as_ref().and_then(|device| device.dlwa),
        used_percent: device.as_ref().and_then(|device| device.used_percent),
        device: device.map(|device| device.name),
    }
}

/// What an operator has a shard do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admin) enum Order {
    Retire,
    Fail,
}

impl Order {
    /// That of a path.
    pub(in crate::admin) fn of(path: &str) -> Option<Self> {
        match path {
            "/api/array/retire" => Some(Self::Retire),
            "/api/array/fail" => Some(Self::Fail),
            _ => None,
        }
    }

    /// Has it done.
    pub(in crate::admin) fn carry_out(self, shards: &Shards, number: usize) -> Result<(), Error> {
        tracing::warn!(number, order = ?self, "a shard goes: an operator said so");
        match self {
            Self::Retire => block_on(shards.retire_shard(number)),
            Self::Fail => block_on(shards.fail_shard(number)),
        }
    }
}
