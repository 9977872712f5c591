//! How a set of shards opens, whatever lies on its devices: one cache on each, or one for each of several tenants.
//!
//! 1. Each device says which shard it is (`set.rs`), and is divided in thought.
//! 2. What is new or given up there is erased, and who is divided anew writes that down.
//! 3. Caches open on all parts. A device that fails takes its shard away, with all tenants' caches there, and no other.
//! 4. Who serves writes down who does not. Only then is anything served: a shard that is away from now on has old
//!    values of keys that change.
//! 5. Shards without a device are caches in DRAM.

use std::sync::Arc;

use larder_device::{Claim, Clock, Device, DeviceInfo};

use super::set::{Candidate, Set};
use crate::cache::Larder;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::key::KeyHasher;
use crate::partition::{Division, Part, PartitionTable, SHARDS_MAX, ShardNumber};

/// Whose caches lie on the devices of a set.
pub(crate) trait Tenancy {
    /// Divides a device; `found` is its table, if there is one that is to be believed.
    ///
    /// # Errors
    /// If that cannot be, or would cost somebody content unasked.
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error>;

    /// Opens the caches of a shard, always as many in the same order: on parts of its device, or in DRAM.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the device fails; then none is open.
    async fn open(
        &self,
        shard: ShardNumber,
        on: Option<ShardDevice<'_>>,
    ) -> Result<Vec<Larder>, Error>;
}

/// The device of a shard, on parts of which its caches lie.
#[derive(Clone, Copy)]
pub(crate) struct ShardDevice<'a> {
    pub(crate) device: &'a Arc<dyn Device>,
    pub(crate) claim: &'a Arc<Claim>,
    /// A part for each cache.
    pub(crate) parts: &'a [Part],
}

/// A set that is open.
pub(crate) struct OpenSet {
    /// Which key belongs to which shard.
    pub(crate) hasher: KeyHasher,
    /// Of all devices that were given, also of those that do not serve.
    pub(crate) claims: Vec<Arc<Claim>>,
    /// In the order of their numbers.
    pub(crate) shards: Vec<OpenShard>,
}

/// A shard that is open.
pub(crate) struct OpenShard {
    /// In the order of the tenancy.
    pub(crate) caches: Vec<Larder>,
    /// If it serves: its device, and the parts of its caches there.
    pub(crate) device: Option<(Arc<dyn Device>, Vec<Part>)>,
    /// Why it has no device.
    pub(crate) down: Option<String>,
}

/// How many shards there may be.
///
/// # Errors
/// [`ErrorKind::Config`].
pub(crate) fn check_count(count: usize) -> Result<(), Error> {
    match count {
        1..=SHARDS_MAX => Ok(()),
        _ => Err(Error::config(format!("{count} shards: must be 1 to {SHARDS_MAX}"))),
    }
}

/// Opens a set on `devices`, of which [`check_count`] has said that they may be.
pub(crate) async fn open(
    tenancy: &impl Tenancy,
    devices: Vec<Option<Arc<dyn Device>>>,
    (start_empty, hash_seed): (bool, Option<u64>),
    clock: &dyn Clock,
) -> Result<OpenSet, Error> {
    let mut candidates = Vec::new();
    for device in devices {
        candidates.push(Candidate::examine(device, start_empty).await?);
    }
    // Steps 1 and 2. Whatever is refused so far is as it was.
    let mut set = Set::assemble(candidates, clock, start_empty, hash_seed)?;
    for shard in set.numbers() {
        let Some(device) = set.candidate(shard).serving() else { continue };
        let division = tenancy.divide(device.info(), set.believed(shard));
        let division = division.map_err(|error| error.of(&shard.to_string()))?;
        set.divide(shard, division);
    }
    set.prepare().await;
    let mut opened = open_caches(tenancy, &mut set).await?;
    // Step 4: without it, whoever is away now would be believed when it is back.
    let lost = set.settle().await;
    for (shard, caches) in set.numbers().zip(&mut opened) {
        if lost.has(shard) {
            *caches = None;
        }
    }
    if opened.iter().all(Option::is_none) {
        let why = set.candidates.iter().find_map(|candidate| candidate.down.clone());
        let why = why.unwrap_or_default();
        return Err(Error::new(ErrorKind::Device, format!("no shard can serve: {why}")));
    }
    complete(tenancy, set, opened).await
}

/// The caches of each shard that has its device. Who fails is lost.
async fn open_caches(
    tenancy: &impl Tenancy,
    set: &mut Set,
) -> Result<Vec<Option<Vec<Larder>>>, Error> {
    let mut opened = Vec::new();
    for shard in set.numbers() {
        let candidate = set.candidate(shard);
        let serving = candidate.serving().zip(candidate.claim.as_ref());
        let parts = &candidate.division.parts;
        let on = serving.map(|(device, claim)| ShardDevice { device, claim, parts });
        let caches = match on {
            Some(on) => tenancy.open(shard, Some(on)).await.map(Some),
            None => Ok(None),
        };
        opened.push(match caches.map_err(|error| error.of(&shard.to_string())) {
            Ok(caches) => caches,
            Err(error) if error.kind() == ErrorKind::Device => {
                set.lose(shard, &error);
                None
            }
            Err(error) => return Err(error),
        });
    }
    Ok(opened)
}

/// Shards without a device get caches in DRAM.
async fn complete(
    tenancy: &impl Tenancy,
    set: Set,
    opened: Vec<Option<Vec<Larder>>>,
) -> Result<OpenSet, Error> {
    let claims = set.candidates.iter().filter_map(|candidate| candidate.claim.clone()).collect();
    let (hasher, numbers) = (set.hasher, set.numbers());
    let mut shards = Vec::new();
    for (shard, (caches, candidate)) in numbers.zip(opened.into_iter().zip(set.candidates)) {
        assert_eq!(caches.is_none(), candidate.down.is_some(), "{shard}: who serves has caches");
        if let Some(reason) = &candidate.down {
            events::shard_down(shard.index(), reason);
        }
        let device = candidate.serving().cloned().zip(Some(candidate.division.parts));
        let caches = match caches {
            Some(caches) => caches,
            None => tenancy.open(shard, None).await?,
        };
        shards.push(OpenShard { caches, device, down: candidate.down });
    }
    Ok(OpenSet { hasher, claims, shards })
}
