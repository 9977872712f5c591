//! The persistent state of a set while it is open.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Claim, Device};

use super::generations::Generations;
use super::health::DeviceHealth;
use crate::base::error::{Error, ErrorKind};
use crate::base::key::KeyHasher;
use crate::fleet::partition::{
    self, Membership, MovedKeys, Part, PartitionTable, Role, Seat, ShardNumber, ShardState,
};

/// A device of a set.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) device: Arc<dyn Device>,
    pub(super) claim: Arc<Claim>,
    pub(super) health: Arc<DeviceHealth>,
    /// UUID of its table.
    pub(super) uuid: Uuid,
    /// A part for each cache.
    pub(super) parts: Vec<Part>,
}

/// The set as recorded on its devices.
pub(super) struct SetRecord {
    pub(super) id: u64,
    pub(super) hasher: KeyHasher,
    pub(super) seats: Vec<Seat>,
    /// Shares of keys that are, or have been, at home at other shards than by their hash.
    pub(super) moved: Vec<MovedKeys>,
    pub(super) epoch: u32,
    pub(super) generations: Generations,
    /// The devices of the live shards.
    pub(super) members: Vec<Option<Member>>,
    pub(super) spares: Vec<Member>,
    /// No more changes are allowed.
    pub(super) is_closed: bool,
}

impl SetRecord {
    /// Number of live shards.
    pub(super) fn live(&self) -> usize {
        self.seats.iter().filter(|seat| seat.standing.state.is_live()).count()
    }

    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.is_closed {
            true => Err(Error::new(ErrorKind::Closed, "the set was closed; open it again")),
            false => Ok(()),
        }
    }

    pub(super) fn seat(&self, shard: ShardNumber) -> Option<&Seat> {
        self.seats.get(shard.index())
    }

    /// The next table for a device, newer than all before.
    pub(super) fn table(
        &mut self,
        role: Role,
        (epoch, seats): (u32, Vec<Seat>),
        member: &Member,
    ) -> PartitionTable {
        let generation = self.generations.next();
        let (set, hasher, uuid) = (self.id, self.hasher, member.uuid);
        let moved = self.moved.clone();
        let membership = Some(Membership { set, role, epoch, hasher, seats, moved });
        let parts = member.parts.clone();
        PartitionTable { uuid, generation, membership, parts }
    }

    /// The seats of the next epoch, with one shard changed.
    pub(super) fn with(&self, shard: ShardNumber, seat: Seat) -> Vec<Seat> {
        let mut seats = self.seats.clone();
        match seats.get_mut(shard.index()) {
            Some(there) => *there = seat,
            None => seats.push(seat),
        }
        seats
    }
}

/// Writes the table of a spare, or of a device that is to become a shard but is none yet.
pub(super) async fn write(member: &Member, table: &PartitionTable) -> Result<(), Error> {
    partition::write(&member.device, table).await
}

/// The seat of a shard that is out since this epoch.
pub(super) fn out(seat: &Seat, state: ShardState, since: u32) -> Seat {
    let standing = partition::ShardStanding { state, since, ..seat.standing };
    Seat { standing, ..*seat }
}
