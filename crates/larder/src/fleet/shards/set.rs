//! Determines which device is which shard when a set opens, and which shards were away.
//!
//! The partition table of every device says which shard of which set it is, so devices may be given in any order. It
//! also contains the state of all shards. The table with the highest generation counts. A shard that was not there
//! when some of its keys changed still has their old values. So before the set serves without it, all others record
//! that it failed. When it comes back it starts empty, for all tenants. The same holds if another device has taken
//! its number in the meantime.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Claim, Clock, Device, ObservedDevice};
use xxhash_rust::xxh3::xxh3_64;

use super::generations::Generations;
use super::health::DeviceHealth;
use super::set_record::{Member, SetRecord};
use crate::base::error::{Error, ErrorKind};
use crate::base::key::{KeyHasher, mixed};
use crate::fleet::partition::{
    self, Division, Membership, MovedKeys, PartitionTable, Role, Seat, ShardNumber, ShardStanding,
    ShardState,
};

/// A shard that never had a device.
pub(super) const NOBODY: Uuid = Uuid::from_bytes([0; 16]);

/// The unit of weights.
const WEIGHT_BYTES: u64 = 1 << 20;

/// A device that may serve as a shard.
pub(super) struct Candidate {
    device: Option<Arc<dyn Device>>,
    pub(super) claim: Option<Arc<Claim>>,
    health: Arc<DeviceHealth>,
    table: Option<PartitionTable>,
    /// UUID of its table, also of one that is still to be written.
    uuid: Uuid,
    /// The intended parts.
    pub(super) division: Division,
    /// Why it does not serve.
    pub(super) down: Option<String>,
}

impl Candidate {
    /// Claims the device and reads its table. A device that cannot be read is down; with `start_empty`, one with an
    /// invalid table is blank.
    pub(super) async fn examine(
        device: Option<Arc<dyn Device>>,
        start_empty: bool,
        clock: &Arc<dyn Clock>,
        health: DeviceHealth,
    ) -> Result<Self, Error> {
        let claim = device.as_ref().map(Claim::take).transpose()?.map(Arc::new);
        let health = Arc::new(health);
        let device = device.map(|device| -> Arc<dyn Device> {
            let observer = Arc::clone(&health) as _;
            Arc::new(ObservedDevice::new(device, observer, Arc::clone(clock)))
        });
        let read = match &device {
            Some(device) => partition::read(device, start_empty).await.map_err(Some),
            None => Err(None),
        };
        let (table, down) = match read {
            Ok(table) => (table, None),
            Err(None) => (None, Some("no device was given for it".to_owned())),
            Err(Some(error)) if error.kind() == ErrorKind::Device => {
                (None, Some(error.to_string()))
            }
            Err(Some(error)) => return Err(error),
        };
        let uuid = table.as_ref().map_or_else(Uuid::draw, |table| table.uuid);
        Ok(Self { device, claim, health, table, uuid, division: Division::default(), down })
    }

    /// The device, if it serves.
    pub(super) fn serving(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref().filter(|_| self.down.is_none())
    }

    /// The set membership in its table; `None` if it has no table.
    pub(super) fn membership(&self) -> Result<Option<&Membership>, Error> {
        match &self.table {
            None => Ok(None),
            Some(PartitionTable { membership: Some(member), .. }) => Ok(Some(member)),
            Some(_) => Err(self.refuse(
                "is divided among tenants and no shard of a set; open it alone, with Tenants::open",
            )),
        }
    }

    pub(super) fn refuse(&self, complaint: &str) -> Error {
        let name = self.device.as_ref().map_or("?", |device| device.info().name.as_str());
        Error::new(ErrorKind::Foreign, format!("{name} {complaint}, or erase its first 128 KiB"))
    }

    pub(super) fn generation(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.generation)
    }

    /// Its table.
    pub(super) fn table(&self) -> Option<&PartitionTable> {
        self.table.as_ref()
    }

    /// The parts in its table.
    pub(super) fn parts(&self) -> Vec<partition::Part> {
        self.table.as_ref().map_or(Vec::new(), |table| table.parts.clone())
    }

    /// The member that it becomes once it serves.
    pub(super) fn into_member(self) -> Option<Member> {
        let (device, claim) = (self.device?, self.claim?);
        let (parts, health, uuid) = (self.division.parts, self.health, self.uuid);
        Some(Member { device, claim, health, uuid, parts })
    }

    /// Its weight in a new set, which determines its share of the keys.
    pub(super) fn weight(&self) -> Option<u32> {
        let bytes = self.device.as_ref()?.info().capacity_bytes;
        Some(u32::try_from(bytes / WEIGHT_BYTES).unwrap_or(u32::MAX).max(1))
    }
}

/// A set in the order of its shards.
pub(super) struct ShardSet {
    id: u64,
    /// Determines which key belongs to which shard.
    pub(super) hasher: KeyHasher,
    /// For each shard that was not retired.
    pub(super) candidates: Vec<Option<Candidate>>,
    pub(super) spares: Vec<Candidate>,
    /// As in the latest table; the intended seats if the set is new.
    seats: Vec<Seat>,
    /// As in the latest table.
    moved: Vec<MovedKeys>,
    /// The highest epoch in any table.
    epoch: u32,
    generations: Generations,
    /// The content of all shards is dropped, or there is none.
    begins: bool,
    /// For each shard, whether its content is valid.
    believed: Vec<bool>,
}

impl ShardSet {
    /// Puts the devices in the order of their shards. Blank devices take the free numbers.
    ///
    /// Keys are divided as in the latest table, or anew if the set starts empty. A table with another division
    /// belongs to a shard that was away when that was decided: its content is not valid. Neither is that of a device
    /// that the latest table does not list as this shard.
    pub(super) fn assemble(
        candidates: Vec<Candidate>,
        clock: &Arc<dyn Clock>,
        start_empty: bool,
        hash_seed: Option<u64>,
    ) -> Result<Self, Error> {
        let latest = latest(&candidates)?;
        // Different from the seeds of the shards' caches, which may be given.
        let drawn = || KeyHasher::seeded_or_drawn(hash_seed.map(|seed| mixed(!seed)));
        let Some((latest, generation, epoch)) = latest else {
            return Self::new(candidates, clock, drawn());
        };
        let mut set = Self {
            id: latest.set,
            hasher: if start_empty { drawn() } else { latest.hasher },
            candidates: latest.seats.iter().map(|_| None).collect(),
            spares: Vec::new(),
            seats: latest.seats,
            // A set that starts empty divides its keys anew.
            moved: if start_empty { Vec::new() } else { latest.moved },
            epoch,
            generations: Generations::behind(generation, clock),
            begins: start_empty,
            believed: Vec::new(),
        };
        set.seat_all(candidates)?;
        set.believed = set.numbers().map(|shard| set.is_believed(shard)).collect();
        Ok(set)
    }

    /// A set that is not recorded on any device yet.
    fn new(
        mut candidates: Vec<Candidate>,
        clock: &Arc<dyn Clock>,
        hasher: KeyHasher,
    ) -> Result<Self, Error> {
        // Serving devices first, because the size of the others is not known.
        candidates.sort_by_key(|candidate| candidate.down.is_some());
        let usual = candidates.iter().find_map(Candidate::weight).unwrap_or(1);
        let seat = |candidate: &Candidate| {
            let weight = candidate.weight().unwrap_or(usual);
            let standing = ShardStanding { state: ShardState::Healthy, weight, since: 0 };
            Seat { device: NOBODY, standing }
        };
        let believed = vec![false; candidates.len()];
        let seats = candidates.iter().map(seat).collect();
        let id = new_id(&**clock, candidates.len());
        let candidates = candidates.into_iter().map(Some).collect();
        let (spares, epoch) = (Vec::new(), 0);
        Ok(Self {
            id,
            hasher,
            candidates,
            spares,
            seats,
            moved: Vec::new(),
            epoch,
            generations: Generations::behind(0, clock),
            begins: true,
            believed,
        })
    }

    fn seat_all(&mut self, candidates: Vec<Candidate>) -> Result<(), Error> {
        let is_spare = |candidate: &Candidate| {
            let member = candidate.table.as_ref().and_then(|table| table.membership.as_ref());
            member.is_some_and(|member| member.role == Role::Spare)
        };
        let (spares, candidates): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_spare);
        self.spares = spares;
        let is_kept = |seat: &&Seat| seat.standing.state != ShardState::Retired;
        let (kept, given) = (self.seats.iter().filter(is_kept).count(), candidates.len());
        let mut others = Vec::new();
        for candidate in candidates {
            let Some(member) = candidate.membership()? else {
                others.push(candidate);
                continue;
            };
            let Role::Shard(number) = member.role else { unreachable!("spares are apart") };
            if kept != given {
                return Err(candidate.refuse(&format!(
                    "is one of a set of {kept} shards, and {given} devices were given; give None for each that \
                     is missing"
                )));
            }
            match self.seats.get(number.index()) {
                Some(seat) if seat.standing.state != ShardState::Retired => {}
                Some(_) => {
                    return Err(candidate
                        .refuse(&format!("was {number}, which has been retired; leave it out")));
                }
                None => {
                    return Err(candidate.refuse(&format!(
                        "is {number}, of which the others know nothing; leave it out"
                    )));
                }
            }
            let place = &mut self.candidates[number.index()];
            if place.is_some() {
                return Err(candidate.refuse("is there twice; leave one out"));
            }
            *place = Some(candidate);
        }
        // Blank devices first: they have nothing to lose.
        others.sort_by_key(|candidate| candidate.down.is_some());
        let mut others = others.into_iter();
        for (place, seat) in self.candidates.iter_mut().zip(&self.seats) {
            if place.is_none() && is_kept(&seat) {
                *place = others.next();
            }
        }
        assert_eq!(others.len(), 0, "each has a number of its own");
        Ok(())
    }

    /// The numbers of its shards.
    pub(super) fn numbers(&self) -> impl Iterator<Item = ShardNumber> + use<> {
        ShardNumber::all(self.seats.len())
    }

    pub(super) fn candidate(&self, shard: ShardNumber) -> Option<&Candidate> {
        self.candidates[shard.index()].as_ref()
    }

    pub(super) fn serving(&self, shard: ShardNumber) -> Option<&Arc<dyn Device>> {
        self.candidate(shard)?.serving()
    }

    /// The table of a shard with valid content.
    pub(super) fn believed(&self, shard: ShardNumber) -> Option<&PartitionTable> {
        let table = self.candidate(shard)?.table.as_ref()?;
        self.believed[shard.index()].then_some(table)
    }

    fn is_believed(&self, shard: ShardNumber) -> bool {
        let seat = self.seats[shard.index()];
        let table = self.candidate(shard).and_then(|candidate| candidate.table.as_ref());
        let is_it = table.is_some_and(|table| {
            let hasher = table.membership.as_ref().map(|member| member.hasher);
            seat.device == table.uuid && hasher == Some(self.hasher)
        });
        is_it && seat.standing.state.is_live() && !self.begins
    }

    /// Sets the intended parts of a shard.
    pub(super) fn divide(&mut self, shard: ShardNumber, division: Division) {
        let had = self.candidate(shard).map_or(Vec::new(), Candidate::parts);
        // Invalid content is given up, and erased with it.
        let division = match self.believed(shard) {
            None => Division { given_up: had, is_changed: true, ..division },
            Some(_) => division,
        };
        if let Some(candidate) = &mut self.candidates[shard.index()] {
            candidate.division = division;
        }
    }

    /// Marks a shard as not serving; the first reason is kept.
    pub(super) fn lose(&mut self, shard: ShardNumber, why: &Error) {
        if let Some(candidate) = &mut self.candidates[shard.index()] {
            candidate.down.get_or_insert_with(|| why.to_string());
        }
    }

    /// For each shard, whether it serves.
    fn serving_all(&self) -> Vec<bool> {
        self.numbers().map(|shard| self.serving(shard).is_some()).collect()
    }

    /// Erases new and given up parts on the devices. Devices with a new division write their table, so that their
    /// parts can be found from then on. For the set, that table contains the previous state, and says that the device
    /// itself is not valid. Devices that fail are lost.
    pub(super) async fn prepare(&mut self) {
        for shard in self.numbers() {
            let Some(candidate) = self.candidate(shard) else { continue };
            let Some(device) = candidate.serving().cloned() else { continue };
            let mut done = partition::erase(&device, &candidate.division).await;
            if done.is_ok() && candidate.division.is_changed {
                let mut seats = self.seats.clone();
                let seat = &mut seats[shard.index()];
                seat.device = candidate.uuid;
                let standing = &mut seat.standing;
                if !self.begins && self.believed(shard).is_none() && standing.state.is_live() {
                    (standing.state, standing.since) = (ShardState::Failed, self.epoch + 1);
                }
                done = self.write(shard, &device, seats).await;
            }
            if let Err(error) = done {
                self.lose(shard, &error);
            }
        }
    }

    /// The new seats of all shards.
    fn settled(&self) -> Vec<Seat> {
        use ShardState::{Failed, Healthy, Refilling, Retired};
        let epoch = self.epoch + 1;
        let anew = self.begins || self.numbers().all(|shard| self.believed(shard).is_none());
        let settle = |(shard, seat): (ShardNumber, &Seat)| {
            let ShardStanding { state, weight, since } = seat.standing;
            let of = |state, since| ShardStanding { state, weight, since };
            let serves = self.candidate(shard).filter(|candidate| candidate.serving().is_some());
            let device = serves.map_or(seat.device, |candidate| candidate.uuid);
            let standing = match (state, serves) {
                (Retired | Failed, None) | (Retired, Some(_)) => seat.standing,
                // Names from before contain an earlier epoch.
                (Healthy | Refilling, None) => of(Failed, epoch),
                (_, Some(_)) if self.believed(shard).is_some() => seat.standing,
                (Failed, Some(_)) => of(if anew { Healthy } else { Refilling }, since),
                (Healthy | Refilling, Some(_)) if self.begins => of(Healthy, since),
                // It was added while the set was closed, and is here for the first time.
                (Refilling, Some(_)) if seat.device == NOBODY => of(Refilling, since),
                (Healthy | Refilling, Some(_)) => of(if anew { Healthy } else { Refilling }, epoch),
            };
            Seat { device, standing }
        };
        self.numbers().zip(&self.seats).map(settle).collect()
    }

    /// Makes every serving shard write the new state. Shards that cannot are lost too, and returned.
    pub(super) async fn settle(&mut self) -> Vec<ShardNumber> {
        let before = self.serving_all();
        loop {
            let (seats, serving) = (self.settled(), self.serving_all());
            for shard in self.numbers() {
                let Some(device) = self.serving(shard).cloned() else { continue };
                let table = self.candidate(shard).and_then(|candidate| candidate.table.as_ref());
                let is_told = |table: &PartitionTable| {
                    table.membership.as_ref().is_some_and(|member| {
                        let Membership { seats: said, hasher, role, moved, .. } = member;
                        (said, *hasher, *role) == (&seats, self.hasher, Role::Shard(shard))
                            && *moved == self.moved
                    })
                };
                if table.is_some_and(is_told) {
                    continue;
                }
                if let Err(error) = self.write(shard, &device, seats.clone()).await {
                    self.lose(shard, &error);
                }
            }
            if self.serving_all() == serving {
                self.epoch += 1;
                self.seats = seats;
                let lost = self.numbers().zip(before.iter().zip(serving));
                let lost = lost.filter(|(_, (before, now))| **before && !now);
                return lost.map(|(shard, _)| shard).collect();
            }
        }
    }

    async fn write(
        &mut self,
        shard: ShardNumber,
        device: &Arc<dyn Device>,
        seats: Vec<Seat>,
    ) -> Result<(), Error> {
        let candidate = self.candidates[shard.index()].as_mut().expect("it serves");
        let (set, hasher, epoch) = (self.id, self.hasher, self.epoch + 1);
        let role = Role::Shard(shard);
        let moved = self.moved.clone();
        let membership = Some(Membership { set, role, epoch, hasher, seats, moved });
        let (uuid, generation) = (candidate.uuid, self.generations.next());
        let parts = candidate.division.parts.clone();
        let table = PartitionTable { uuid, generation, membership, parts };
        partition::write(device, &table).await?;
        candidate.table = Some(table);
        Ok(())
    }

    /// The persistent state while the set is open.
    pub(super) fn into_set_record(self) -> SetRecord {
        let Self { id, hasher, seats, moved, epoch, generations, .. } = self;
        let member = |candidate: Option<Candidate>| {
            candidate.filter(|it| it.down.is_none()).and_then(Candidate::into_member)
        };
        let members = self.candidates.into_iter().map(member).collect();
        let spares = self.spares.into_iter().filter_map(|spare| member(Some(spare))).collect();
        let is_closed = false;
        SetRecord { id, hasher, seats, moved, epoch, generations, members, spares, is_closed }
    }
}

/// The latest of their tables, the highest generation, and the highest epoch.
pub(super) fn latest(candidates: &[Candidate]) -> Result<Option<(Membership, u64, u32)>, Error> {
    let mut latest: Option<(&Membership, u64, u32)> = None;
    for candidate in candidates {
        let Some(member) = candidate.membership()? else { continue };
        let generation = candidate.generation();
        latest = Some(match latest {
            Some((known, ..)) if known.set != member.set => {
                return Err(candidate.refuse("is a shard of another set; leave it out"));
            }
            Some((known, highest, epoch)) if generation <= highest => {
                (known, highest, epoch.max(member.epoch))
            }
            Some((.., epoch)) => (member, generation, epoch.max(member.epoch)),
            None => (member, generation, member.epoch),
        });
    }
    Ok(latest.map(|(member, generation, epoch)| (member.clone(), generation, epoch)))
}

fn new_id(clock: &dyn Clock, count: usize) -> u64 {
    let mut seed = clock.now().as_nanos().to_le_bytes().to_vec();
    seed.extend_from_slice(&count.to_le_bytes());
    xxh3_64(&seed).max(1)
}
