//! Which shard of which set a device is, and what is known of all shards of the set.

use larder_device::label::Uuid;

use super::moved::{MovedKeys, are_possible};
use super::shard_number::{SHARDS_MAX, ShardNumber};
use crate::base::key::KeyHasher;

/// State of a shard in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardState {
    /// It serves its keys.
    Healthy,
    /// It has failed, or is missing: its keys are on other shards.
    Failed,
    /// It serves its keys, again or for the first time, but does not have all of their values yet.
    Refilling,
    /// It was removed for good: its keys are on other shards.
    Retired,
}

impl ShardState {
    /// All states.
    pub(crate) const ALL: [Self; 4] = [Self::Healthy, Self::Failed, Self::Refilling, Self::Retired];

    /// Whether it serves keys.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Healthy | Self::Refilling)
    }

    /// A name for display and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Failed => "failed",
            Self::Refilling => "refilling",
            Self::Retired => "retired",
        }
    }
}

impl std::fmt::Display for ShardState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The data that determine a shard's part of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardStanding {
    pub(crate) state: ShardState,
    /// Its part of the keys relative to the other shards; constant while the shard is in the set.
    pub(crate) weight: u32,
    /// The epoch in which it last failed or was retired; 0 if it never was.
    pub(crate) since: u32,
}

/// A shard of a set, as all shards of the set record it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The UUID of the table of the device that served as this shard last, or zeros if there was none.
    ///
    /// A blank device may replace a missing one. When the missing one comes back, it has the right number but old
    /// values.
    pub(crate) device: Uuid,
    pub(crate) standing: ShardStanding,
}

/// The role of a device in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Shard(ShardNumber),
    /// It holds nothing, and replaces a shard that fails.
    Spare,
}

/// Which shard of which set a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Identifies the set.
    pub(crate) set: u64,
    pub(crate) role: Role,
    /// Raised before the first answer after a shard has failed, was added or was removed.
    pub(crate) epoch: u32,
    /// Assigns keys to shards. All shards of a set have the same hasher.
    pub(crate) hasher: KeyHasher,
    /// In the order of their numbers, from 0.
    pub(crate) seats: Vec<Seat>,
    /// Keys that are, or have been, at home at other shards than their hash says.
    pub(crate) moved: Vec<MovedKeys>,
}

impl Membership {
    /// Whether such a set is possible.
    pub(super) fn is_possible(&self) -> bool {
        let number_is = match self.role {
            Role::Shard(number) => number.index() < self.seats.len(),
            Role::Spare => true,
        };
        let is_seat = |seat: &Seat| {
            seat.standing.weight > 0
                && seat.standing.since <= self.epoch
                && (seat.standing.state.is_live() || seat.standing.since > 0)
        };
        number_is
            && self.epoch > 0
            && (1..=SHARDS_MAX).contains(&self.seats.len())
            && self.seats.iter().all(is_seat)
            && are_possible(&self.moved, self.seats.len(), self.epoch)
    }
}
