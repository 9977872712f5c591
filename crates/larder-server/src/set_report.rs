//! The report of a set of shards, from an open set in a server or from a look at its devices (`/api/array`,
//! `larder array status --json`).

use larder::{DriveWear, LevellingStatus, MovedShare, SetStatus, ShardStatus};
use serde::{Deserialize, Serialize};

/// A set of shards.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetReport {
    /// Grows with every change of the set.
    pub epoch: u32,
    /// In the order of their numbers.
    pub shards: Vec<ShardReport>,
    /// Keys that have their home at another shard than by their hash, so that the drives wear alike.
    #[serde(default)]
    pub moved: Vec<MovedReport>,
    /// Only for an open set whose drives were looked at.
    #[serde(default)]
    pub levelling: Option<LevellingReport>,
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
    /// Parts of keys, of 10,000 of a shard's, that were moved to level the wear of drives.
    #[serde(default)]
    pub moved_parts: u64,
    /// Look-ups that found a key where it was before it moved.
    #[serde(default)]
    pub old_home_gets: u64,
}

/// Keys of one shard that have their home at another one.
#[derive(Debug, Serialize, Deserialize)]
pub struct MovedReport {
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

/// What was seen and done at the last look at the drives.
#[derive(Debug, Serialize, Deserialize)]
pub struct LevellingReport {
    /// When the drives were looked at, in seconds since 1970.
    pub looked_at_s: u64,
    /// Why no keys were moved at that look.
    pub pause: Option<String>,
    /// The last step since the start.
    pub last_step: Option<StepReport>,
}

/// Keys that were moved to level the wear of drives.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepReport {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// The shard that gave keys.
    pub from: usize,
    /// The shard that got them.
    pub to: usize,
    /// How much, in parts of 10,000 of the keys of the giving shard.
    pub parts: u16,
    /// The forecast wear of the one by that of the other.
    pub ratio: f64,
}

/// How the drive of a shard wears. A part of 1 is its whole rated life.
#[derive(Debug, Serialize, Deserialize)]
pub struct WearReport {
    /// The part that is used.
    pub used: f64,
    /// The part that it uses a day; `None` in the first day, or if it is not known.
    pub per_day: Option<f64>,
    /// Days in service, if the drive reports them.
    pub age_days: Option<f64>,
    /// The part that it will have used at the end of its planned service.
    pub forecast: Option<f64>,
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
    /// The same after keys were moved to level the wear of drives.
    #[serde(default)]
    pub levelled_weight: u64,
    /// How its drive wears, if the drives were looked at and it is known.
    #[serde(default)]
    pub wear: Option<WearReport>,
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
            moved_parts: status.moved_parts,
            old_home_gets: status.old_home_gets,
        };
        Self { open: Some(counts), ..Self::closed(status) }
    }

    /// The report of a set that no process has open: it has no counters.
    pub fn closed(status: SetStatus) -> Self {
        let weights = levelled_weights(&status);
        let levelling = status.levelling;
        let wear = |at: usize| {
            let drive = levelling.as_ref()?.drives.get(at).copied().flatten()?;
            let DriveWear { used, per_day, age_days } = drive.wear;
            Some(WearReport { used, per_day, age_days, forecast: drive.forecast })
        };
        let shards = status.shards.into_iter().zip(weights).enumerate();
        let shards = shards.map(|(at, (shard, levelled_weight))| ShardReport {
            levelled_weight,
            wear: wear(at),
            ..ShardReport::from(shard)
        });
        let shards = shards.collect();
        let moved = status.moved.iter().map(MovedReport::of).collect();
        let levelling = levelling.map(LevellingReport::from);
        Self { epoch: status.epoch, shards, moved, levelling, open: None }
    }
}

/// The weights of all shards, less that of keys that they have given, and with that of keys that they have got.
pub(crate) fn levelled_weights(status: &SetStatus) -> Vec<u64> {
    let weight = |shard: usize| status.shards.get(shard).map_or(0, |it| u64::from(it.weight));
    let mut weights: Vec<u64> = (0..status.shards.len()).map(weight).collect();
    for share in &status.moved {
        let part = weight(share.from) * u64::from(share.parts) / 10_000;
        if let Some(from) = weights.get_mut(share.from) {
            *from = from.saturating_sub(part);
        }
        if let Some(to) = weights.get_mut(share.to) {
            *to += part;
        }
    }
    weights
}

impl MovedReport {
    fn of(share: &MovedShare) -> Self {
        let MovedShare { from, to, parts, returned_parts, moved_at_s, .. } = *share;
        Self { from, to, parts, returned_parts, moved_at_s }
    }
}

impl From<LevellingStatus> for LevellingReport {
    fn from(status: LevellingStatus) -> Self {
        let last_step = status.last_step.map(|step| StepReport {
            at_s: step.at_s,
            from: step.from,
            to: step.to,
            parts: step.parts,
            ratio: step.ratio,
        });
        Self { looked_at_s: status.looked_at_s, pause: status.pause, last_step }
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
            levelled_weight: shard.weight.into(),
            wear: None,
            capacity_bytes: device.as_ref().map(|device| device.capacity_bytes),
            dlwa: device.as_ref().and_then(|device| device.dlwa),
            used_percent: device.as_ref().and_then(|device| device.used_percent),
            device: device.map(|device| device.name),
            suspicion: shard.suspicion,
            down: shard.down,
        }
    }
}
