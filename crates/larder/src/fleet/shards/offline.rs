//! A set that is not open: what its devices say, and changes that need no cache.

use std::sync::Arc;

use larder_device::{Clock, Device};

use super::generations::Generations;
use super::health::DeviceHealth;
use super::set::{Candidate, NOBODY, latest};
use super::set_record::out;
use super::status::{MovedShare, SetStatus, ShardDeviceStatus, ShardStatus};
use crate::base::error::{Error, ErrorKind};
use crate::fleet::partition::{
    self, Membership, PartitionTable, Role, SHARDS_MAX, Seat, ShardNumber, ShardStanding,
    ShardState,
};

/// A change of a set that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetOrder {
    /// Adds a shard on a blank device of this size, which must be given from the next opening on.
    Add {
        /// Capacity of the device.
        capacity_bytes: u64,
    },
    /// Takes the shard with this number out for good; its device must not be given any more.
    Retire(usize),
    /// Marks the shard with this number as failed: it starts empty when it is back, on its device or on a blank one.
    Fail(usize),
}

/// The devices of a set that is not open. They are locked against other users while this exists.
///
/// ```
/// use std::sync::Arc;
/// use larder::{ClosedSet, Config, Device, RealClock, SetOrder, ShardState, Shards, block_on};
/// use larder_device::MemoryDevice;
///
/// let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) };
/// let devices = vec![device(), device()];
/// let given = devices.iter().cloned().map(Some).collect();
/// let cache = block_on(Shards::open(Config::default(), given, Arc::new(RealClock)))?;
/// block_on(cache.close())?;
/// drop(cache);
/// let mut set = block_on(ClosedSet::look(devices, Arc::new(RealClock)))?;
/// block_on(set.change(SetOrder::Fail(1)))?;
/// assert_eq!(set.status().shards[1].state, ShardState::Failed);
/// # Ok::<(), larder::Error>(())
/// ```
pub struct ClosedSet {
    candidates: Vec<Candidate>,
    /// As recorded in the newest table.
    newest: Membership,
    generations: Generations,
    epoch: u32,
}

impl ClosedSet {
    /// Reads the tables of the devices. Writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if one of them is in use, [`ErrorKind::Foreign`] if they belong to different sets, or to
    /// none.
    pub async fn look(devices: Vec<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let alarm = Arc::default();
        let mut candidates = Vec::new();
        for device in devices {
            let health = DeviceHealth::new(&alarm);
            candidates.push(Candidate::examine(Some(device), false, &clock, health).await?);
        }
        let Some((newest, generation, epoch)) = latest(&candidates)? else {
            let message = "none of these devices is a shard of a set";
            return Err(Error::new(ErrorKind::Foreign, message));
        };
        let generations = Generations::behind(generation, &clock);
        Ok(Self { candidates, newest, generations, epoch })
    }

    /// The state recorded in the newest table.
    pub fn status(&self) -> SetStatus {
        let shard = |(number, seat): (ShardNumber, &Seat)| {
            let candidate = self.candidate(number);
            let device = candidate.and_then(Candidate::serving).map(|device| {
                let stats = device.stats();
                ShardDeviceStatus::of(&**device, &stats)
            });
            let is_missing = candidate.is_none() && seat.standing.state != ShardState::Retired;
            ShardStatus {
                number: number.index(),
                state: seat.standing.state,
                since: seat.standing.since,
                weight: seat.standing.weight,
                suspicion: None,
                down: is_missing.then(|| "no device was given for it".to_owned()),
                device,
            }
        };
        let shards = ShardNumber::all(self.newest.seats.len()).zip(&self.newest.seats);
        SetStatus {
            epoch: self.epoch,
            shards: shards.map(shard).collect(),
            moved: MovedShare::all(&self.newest.moved),
            ..SetStatus::default()
        }
    }

    fn candidate(&self, number: ShardNumber) -> Option<&Candidate> {
        let device = self.newest.seats[number.index()].device;
        let is_it = |candidate: &&Candidate| {
            let table = candidate.table();
            table.is_some_and(|table| {
                table.uuid == device && role_of(table) == Some(Role::Shard(number))
            })
        };
        self.candidates.iter().find(is_it)
    }

    /// Changes the set. All live shards must be present, because each must record the change.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the change is impossible; then nothing was written. [`ErrorKind::Device`] if a
    /// device fails.
    pub async fn change(&mut self, order: SetOrder) -> Result<(), Error> {
        let epoch = self.epoch + 1;
        let seats = self.ordered(order, epoch)?;
        let numbers = ShardNumber::all(seats.len());
        let live = numbers.filter(|number| {
            let seat = seats[number.index()];
            seat.standing.state.is_live() && seat.device != NOBODY
        });
        let live: Vec<ShardNumber> = live.collect();
        if let Some(missing) = live.iter().find(|number| self.candidate(**number).is_none()) {
            let message =
                format!("{missing} is live, and its device was not given: name all devices");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        for number in live {
            let Some(candidate) = self.candidate(number) else { continue };
            let (Some(device), Some(table)) = (candidate.serving(), candidate.table()) else {
                continue;
            };
            let device = Arc::clone(device);
            let (set, hasher, seats) = (self.newest.set, self.newest.hasher, seats.clone());
            let (role, moved) = (Role::Shard(number), self.newest.moved.clone());
            let membership = Membership { set, role, epoch, hasher, seats, moved };
            let (uuid, parts) = (table.uuid, table.parts.clone());
            let generation = self.generations.next();
            let table = PartitionTable { uuid, generation, membership: Some(membership), parts };
            partition::write(&device, &table)
                .await
                .map_err(|error| error.of(&number.to_string()))?;
        }
        (self.newest.seats, self.epoch) = (seats, epoch);
        Ok(())
    }

    /// The seats of all shards after the change.
    fn ordered(&self, order: SetOrder, epoch: u32) -> Result<Vec<Seat>, Error> {
        let mut seats = self.newest.seats.clone();
        let (number, state) = match order {
            SetOrder::Add { capacity_bytes } => {
                if seats.len() == SHARDS_MAX {
                    return Err(Error::config(format!("a set has at most {SHARDS_MAX} shards")));
                }
                let weight = u32::try_from(capacity_bytes >> 20).unwrap_or(u32::MAX).max(1);
                let standing = ShardStanding { state: ShardState::Refilling, weight, since: 0 };
                seats.push(Seat { device: NOBODY, standing });
                return Ok(seats);
            }
            SetOrder::Retire(number) => (number, ShardState::Retired),
            SetOrder::Fail(number) => (number, ShardState::Failed),
        };
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        let count = seats.len();
        let Some(seat) = seats.get_mut(number) else {
            return refuse(format!("there is no shard {number}; there are {count}"));
        };
        if seat.standing.state == ShardState::Retired {
            return refuse(format!("shard {number} has been retired"));
        }
        *seat = out(seat, state, epoch);
        if !seats.iter().any(|seat| seat.standing.state.is_live()) {
            return refuse(format!(
                "shard {number} is the last one that is live: add another one first"
            ));
        }
        Ok(seats)
    }
}

fn role_of(table: &PartitionTable) -> Option<Role> {
    table.membership.as_ref().map(|member| member.role)
}
