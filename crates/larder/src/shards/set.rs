//! Which device is which shard, and which shards were away.
//!
//! Every device says in its partition table which shard of which set it is, so that devices may be
//! given in any order. Who was not there when keys of its own changed still has their old values: before
//! the set serves without it, all others write down that it is out, and when it comes back it
//! starts empty, with all that lies on it, whosever it is. The same holds where another device has
//! taken its number meanwhile.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Claim, Clock, Device};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind};
use crate::key::{KeyHasher, mixed};
use crate::partition::{
    self, Division, Membership, PartitionTable, Roster, ShardMask, ShardNumber,
};

/// A device that may serve as a shard.
pub(super) struct Candidate {
    pub(super) device: Option<Arc<dyn Device>>,
    pub(super) claim: Option<Arc<Claim>>,
    pub(super) table: Option<PartitionTable>,
    /// Of its table, also of one that is to be written.
    uuid: Uuid,
    /// The parts that it is to have.
    pub(super) division: Division,
    /// Why it does not serve.
    pub(super) down: Option<String>,
}

impl Candidate {
    /// Claims the device and reads what it says of itself. A device that cannot be read is down; with
    /// `start_empty`, one whose table cannot be used is blank.
    pub(super) async fn examine(
        device: Option<Arc<dyn Device>>,
        start_empty: bool,
    ) -> Result<Self, Error> {
        let claim = device.as_ref().map(Claim::take).transpose()?.map(Arc::new);
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
        Ok(Self { device, claim, table, uuid, division: Division::default(), down })
    }

    /// The device, if it serves.
    pub(super) fn serving(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref().filter(|_| self.down.is_none())
    }

    /// What its table says of the set; `None` if it has none.
    fn membership(&self) -> Result<Option<Membership>, Error> {
        match &self.table {
            None => Ok(None),
            Some(PartitionTable { membership: Some(member), .. }) => Ok(Some(*member)),
            Some(_) => Err(self.refuse(
                "is divided among tenants and no shard of a set; open it alone, with Tenants::open",
            )),
        }
    }

    fn refuse(&self, complaint: &str) -> Error {
        let name = self.device.as_ref().map_or("?", |device| device.info().name.as_str());
        Error::new(ErrorKind::Foreign, format!("{name} {complaint}, or erase its first 128 KiB"))
    }

    fn generation(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.generation)
    }
}

/// A set in the order of its shards.
pub(super) struct Set {
    id: u64,
    /// Which key belongs to which shard.
    pub(super) hasher: KeyHasher,
    pub(super) candidates: Vec<Candidate>,
    /// Those whose content is not to be believed.
    out: ShardMask,
    /// As the latest table says.
    roster: Roster,
    /// The highest that any of them has written.
    generation: u64,
    start_empty: bool,
}

impl Set {
    /// Puts the devices in the order of their shards. Blank ones take the numbers that are left.
    ///
    /// Keys are divided as the latest table says, or anew if the set begins empty. A table that divides
    /// them otherwise is of a shard that was away when that was decided: its content is not believed. Nor is that of
    /// a device that the latest table does not know as this shard.
    pub(super) fn assemble(
        candidates: Vec<Candidate>,
        clock: &dyn Clock,
        start_empty: bool,
        hash_seed: Option<u64>,
    ) -> Result<Self, Error> {
        let count = candidates.len();
        let mut others = Vec::new();
        let mut members = Members::of(count);
        for candidate in candidates {
            match candidate.membership()? {
                Some(member) => members.take(candidate, member)?,
                None => others.push(candidate),
            }
        }
        let hasher = match members.latest {
            Some(Membership { hasher, .. }) if !start_empty => hasher,
            // Another than those of the shards' caches, which may be given.
            _ => KeyHasher::seeded_or_drawn(hash_seed.map(|seed| mixed(!seed))),
        };
        let roster = members.latest.map_or(Roster::EMPTY, |latest| latest.roster);
        let is_other = |shard, table: &PartitionTable, member: Membership| {
            member.hasher != hasher || !roster.has(shard, table.uuid)
        };
        let out = if start_empty { members.out } else { members.out.and(members.which(is_other)) };
        // Blank ones first: who has nothing has nothing to lose.
        others.sort_by_key(|candidate| candidate.down.is_some());
        let mut others = others.into_iter();
        let ordered = members.ordered.into_iter().map(|found| found.or_else(|| others.next()));
        let candidates: Vec<Candidate> = ordered.flatten().collect();
        assert_eq!((candidates.len(), others.len()), (count, 0), "each has a number of its own");
        let id = members.id.unwrap_or_else(|| new_id(clock, count));
        let generation = members.generation;
        Ok(Self { id, hasher, candidates, out, roster, generation, start_empty })
    }

    /// The numbers of its shards.
    pub(super) fn numbers(&self) -> impl Iterator<Item = ShardNumber> + use<> {
        ShardNumber::all(self.candidates.len())
    }

    pub(super) fn candidate(&self, shard: ShardNumber) -> &Candidate {
        &self.candidates[shard.index()]
    }

    /// The table of a shard whose content is to be believed.
    pub(super) fn believed(&self, shard: ShardNumber) -> Option<&PartitionTable> {
        let starts_empty = self.start_empty || self.out.has(shard);
        self.candidate(shard).table.as_ref().filter(|_| !starts_empty)
    }

    /// What the parts of a shard are to be.
    pub(super) fn divide(&mut self, shard: ShardNumber, division: Division) {
        let had = self.candidate(shard).table.as_ref().map_or(&[][..], |table| &table.parts);
        // What is not believed is nobody's, and what lies there is erased with what is given up.
        let dropped = self.believed(shard).is_none().then(|| had.to_vec());
        let division = match dropped {
            Some(given_up) => Division { given_up, is_changed: true, ..division },
            None => division,
        };
        self.candidates[shard.index()].division = division;
    }

    /// It does not serve, or not any more; the first reason counts.
    pub(super) fn lose(&mut self, shard: ShardNumber, why: &Error) {
        self.candidates[shard.index()].down.get_or_insert_with(|| why.to_string());
    }

    /// Those that do not serve.
    fn down(&self) -> ShardMask {
        let down = |shard: &ShardNumber| self.candidate(*shard).down.is_some();
        self.numbers().filter(down).collect()
    }

    /// Erases what is new or given up on the devices, and has those that are divided anew write that down: from then
    /// on their parts can be found. Of the others they say what was known before. Whoever fails is lost.
    pub(super) async fn prepare(&mut self) {
        for shard in self.numbers() {
            let candidate = self.candidate(shard);
            let Some(device) = candidate.serving().cloned() else { continue };
            let mut done = partition::erase(&device, &candidate.division).await;
            if done.is_ok() && candidate.division.is_changed {
                done = self.write(shard, &device, self.out).await;
            }
            if let Err(error) = done {
                self.lose(shard, &error);
            }
        }
    }

    /// Has every shard that serves write down who is out. Who cannot, is lost too; returns those.
    pub(super) async fn settle(&mut self) -> ShardMask {
        let before = self.down();
        loop {
            let out = self.down();
            for shard in self.numbers() {
                let Some(device) = self.candidate(shard).serving().cloned() else { continue };
                let wanted = Some(self.membership(shard, out));
                let table = self.candidate(shard).table.as_ref();
                if table.is_some_and(|table| table.membership == wanted) {
                    continue;
                }
                if let Err(error) = self.write(shard, &device, out).await {
                    self.lose(shard, &error);
                }
            }
            if self.down() == out {
                return self
                    .numbers()
                    .filter(|&shard| out.has(shard) && !before.has(shard))
                    .collect();
            }
        }
    }

    fn membership(&self, number: ShardNumber, out: ShardMask) -> Membership {
        let count = u16::try_from(self.candidates.len()).expect("at most 64 shards");
        // Who does not serve stays what it was: whether it is to be believed is another question.
        let roster =
            self.numbers().fold(self.roster, |roster, shard| match self.candidate(shard) {
                candidate if candidate.serving().is_some() => roster.with(shard, candidate.uuid),
                _ => roster,
            });
        Membership { set: self.id, number, count, out, roster, hasher: self.hasher }
    }

    async fn write(
        &mut self,
        shard: ShardNumber,
        device: &Arc<dyn Device>,
        out: ShardMask,
    ) -> Result<(), Error> {
        let candidate = self.candidate(shard);
        let membership = Some(self.membership(shard, out));
        let uuid = candidate.uuid;
        let generation = self.generation.max(candidate.generation()) + 1;
        let parts = candidate.division.parts.clone();
        let table = PartitionTable { uuid, generation, membership, parts };
        partition::write(device, &table).await?;
        self.candidates[shard.index()].table = Some(table);
        Ok(())
    }
}

/// The devices that say which shard they are.
struct Members {
    ordered: Vec<Option<Candidate>>,
    id: Option<u64>,
    out: ShardMask,
    generation: u64,
    /// What the latest table says.
    latest: Option<Membership>,
}

impl Members {
    fn of(count: usize) -> Self {
        let ordered = (0..count).map(|_| None).collect();
        Self { ordered, id: None, out: ShardMask::NONE, generation: 0, latest: None }
    }

    fn take(&mut self, candidate: Candidate, member: Membership) -> Result<(), Error> {
        let count = self.ordered.len();
        if usize::from(member.count) != count {
            return Err(candidate.refuse(&format!(
                "is one of a set of {} shards, and {count} devices were given; give None for each that is \
                 missing",
                member.count
            )));
        }
        if *self.id.get_or_insert(member.set) != member.set {
            return Err(candidate.refuse("is a shard of another set; leave it out"));
        }
        self.out = self.out.and(member.out);
        if self.latest.is_none() || candidate.generation() > self.generation {
            self.latest = Some(member);
        }
        self.generation = self.generation.max(candidate.generation());
        let place = &mut self.ordered[member.number.index()];
        if place.is_some() {
            return Err(candidate.refuse("is there twice; leave one out"));
        }
        *place = Some(candidate);
        Ok(())
    }

    /// Those of whose tables this holds.
    fn which(&self, holds: impl Fn(ShardNumber, &PartitionTable, Membership) -> bool) -> ShardMask {
        let all = ShardNumber::all(self.ordered.len()).zip(&self.ordered);
        let tables = all.filter_map(|(shard, candidate)| {
            let table = candidate.as_ref()?.table.as_ref()?;
            holds(shard, table, table.membership?).then_some(shard)
        });
        tables.collect()
    }
}

fn new_id(clock: &dyn Clock, count: usize) -> u64 {
    let mut seed = clock.now().as_nanos().to_le_bytes().to_vec();
    seed.extend_from_slice(&count.to_le_bytes());
    xxh3_64(&seed)
}
