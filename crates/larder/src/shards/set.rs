//! Which device is which shard, and which shards were away.
//!
//! Every device says in its partition table which shard of which set it is, so that devices may be
//! given in any order. Who was not there when keys of his changed still has their old values: before
//! the set serves without him, all others write down that he is out, and when he comes back he
//! starts empty.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Claim, Clock, Device};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::key::{KeyHasher, mixed};
use crate::partition::{self, Kind, Membership, Part, Table, grain_bytes};

/// Shards of a set: a bit each.
pub(super) const SHARDS_MAX: usize = 64;
const NAME: &str = "shard";

/// A device that may serve as a shard.
pub(super) struct Candidate {
    pub(super) device: Option<Arc<dyn Device>>,
    pub(super) claim: Option<Arc<Claim>>,
    pub(super) table: Option<Table>,
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
        let Some(device) = device else {
            let down = Some("no device was given for it".to_owned());
            return Ok(Self { device: None, claim: None, table: None, down });
        };
        let claim = Some(Arc::new(Claim::take(&device)?));
        match partition::read(&device, start_empty).await {
            Ok(table) => Ok(Self { device: Some(device), claim, table, down: None }),
            Err(error) if error.kind() == ErrorKind::Device => {
                Ok(Self { device: Some(device), claim, table: None, down: Some(error.to_string()) })
            }
            Err(error) => Err(error),
        }
    }

    fn membership(&self) -> Result<Option<Membership>, Error> {
        match self.table.as_ref().map(|table| table.kind) {
            None => Ok(None),
            Some(Kind::Shard(membership)) => Ok(Some(membership)),
            Some(Kind::Tenants) => Err(self.refuse("is divided among tenants; open it as Tenants")),
        }
    }

    fn refuse(&self, complaint: &str) -> Error {
        let name = self.device.as_ref().map_or("?", |device| device.info().name.as_str());
        Error::new(ErrorKind::Foreign, format!("{name} {complaint}, or erase its first 128 KiB"))
    }
}

/// A set in the order of its shards.
pub(super) struct Set {
    pub(super) id: u64,
    /// Which key belongs to which shard.
    pub(super) hasher: KeyHasher,
    pub(super) candidates: Vec<Candidate>,
    /// A bit for each shard whose content is not to be believed.
    pub(super) out: u64,
    generation: u64,
}

impl Set {
    /// Puts the devices in the order of their shards. Blank ones take the numbers that are left.
    ///
    /// Keys are divided as the latest table says, or anew if the set begins empty. A table that divides
    /// them otherwise is of a shard that was away when that was decided: its content is not believed.
    pub(super) fn assemble(
        candidates: Vec<Candidate>,
        clock: &dyn Clock,
        config: &Config,
    ) -> Result<Self, Error> {
        let count = candidates.len();
        let mut ordered: Vec<Option<Candidate>> = (0..count).map(|_| None).collect();
        let mut others = Vec::new();
        let mut id = None;
        let (mut out, mut generation) = (0, 0);
        let mut hasher = None;
        for candidate in candidates {
            let Some(member) = candidate.membership()? else {
                others.push(candidate);
                continue;
            };
            if usize::from(member.count) != count {
                return Err(candidate.refuse(&format!(
                    "is one of a set of {} shards, and {count} devices were given; give None for \
                     each that is missing",
                    member.count
                )));
            }
            if *id.get_or_insert(member.set) != member.set {
                return Err(candidate.refuse("is a shard of another set; leave it out"));
            }
            out |= member.out;
            let written = candidate.table.as_ref().map_or(0, |it| it.generation);
            if hasher.is_none() || written > generation {
                hasher = Some(member.hasher);
            }
            generation = generation.max(written);
            let place = &mut ordered[usize::from(member.number)];
            if place.is_some() {
                return Err(candidate.refuse("is there twice; leave one out"));
            }
            *place = Some(candidate);
        }
        let hasher = match hasher {
            Some(hasher) if !config.start_empty => hasher,
            // Another than those of the shards' caches, which may be given.
            _ => KeyHasher::seeded_or_drawn(config.hash_seed.map(|seed| mixed(!seed))),
        };
        if !config.start_empty {
            out |= divided_otherwise(&ordered, hasher);
        }
        // Blank ones first: who has nothing has nothing to lose.
        others.sort_by_key(|candidate| candidate.down.is_some());
        let mut others = others.into_iter();
        let candidates = ordered.into_iter().map(|found| found.or_else(|| others.next()));
        let candidates: Vec<Candidate> = candidates.flatten().collect();
        let id = id.unwrap_or_else(|| new_id(clock, count));
        Ok(Self { id, hasher, candidates, out, generation })
    }

    /// The part of a device that is its shard.
    pub(super) fn part(&self, number: usize) -> Option<Part> {
        let candidate = &self.candidates[number];
        if let Some(part) = candidate.table.as_ref().and_then(|table| table.parts.first()) {
            return Some(part.clone());
        }
        let info = candidate.device.as_ref()?.info();
        let grain = grain_bytes(info);
        let bytes = (info.capacity_bytes / grain * grain).checked_sub(grain)?;
        let name = NAME.to_owned();
        (bytes > 0).then_some(Part { name, share_ppm: 1_000_000, start: grain, bytes })
    }

    /// A bit for each shard that does not serve.
    pub(super) fn down(&self) -> u64 {
        let down = |(number, candidate): (usize, &Candidate)| {
            u64::from(candidate.down.is_some()) << number
        };
        self.candidates.iter().enumerate().map(down).sum()
    }

    /// Whether nothing of the content of this shard is to be believed.
    pub(super) fn starts_empty(&self, number: usize) -> bool {
        self.out >> number & 1 == 1 || self.candidates[number].table.is_none()
    }

    /// Has every shard that serves write down who is out. Who cannot, is out too; returns them.
    pub(super) async fn settle(&mut self) -> Vec<usize> {
        let mut failed = Vec::new();
        loop {
            let out = self.down();
            let before = failed.len();
            for number in 0..self.candidates.len() {
                let Some(wanted) = self.wanted(number, out) else { continue };
                let candidate = &mut self.candidates[number];
                let Some(device) = &candidate.device else { continue };
                match partition::write(device, &wanted).await {
                    Ok(()) => candidate.table = Some(wanted),
                    Err(error) => {
                        candidate.down = Some(error.to_string());
                        failed.push(number);
                    }
                }
            }
            if failed.len() == before {
                return failed;
            }
        }
    }

    /// The table that a serving shard should have, if it has another.
    fn wanted(&self, number: usize, out: u64) -> Option<Table> {
        let candidate = &self.candidates[number];
        if candidate.down.is_some() {
            return None;
        }
        let count = u16::try_from(self.candidates.len()).expect("at most 64 shards");
        let number = u16::try_from(number).expect("below their count");
        let kind =
            Kind::Shard(Membership { set: self.id, number, count, out, hasher: self.hasher });
        if candidate.table.as_ref().is_some_and(|table| table.kind == kind) {
            return None;
        }
        let parts = vec![self.part(usize::from(number))?];
        let uuid = candidate.table.as_ref().map_or_else(Uuid::draw, |table| table.uuid);
        Some(Table { uuid, generation: self.generation + 1, kind, parts })
    }
}

/// A bit for each shard that divides keys otherwise.
fn divided_otherwise(ordered: &[Option<Candidate>], hasher: KeyHasher) -> u64 {
    let is_other = |candidate: &Candidate| match candidate.table.as_ref().map(|table| table.kind) {
        Some(Kind::Shard(member)) => member.hasher != hasher,
        _ => false,
    };
    let others = ordered
        .iter()
        .enumerate()
        .map(|(number, candidate)| u64::from(candidate.as_ref().is_some_and(is_other)) << number);
    others.sum()
}

fn new_id(clock: &dyn Clock, count: usize) -> u64 {
    let mut seed = clock.now().as_nanos().to_le_bytes().to_vec();
    seed.extend_from_slice(&count.to_le_bytes());
    xxh3_64(&seed)
}
