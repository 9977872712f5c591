//! How a set of shards opens, whatever lies on its devices: one cache on each, or one for each of several tenants.
//!
//! 1. Each device says which shard it is (`set.rs`), and is divided in thought.
//! 2. What is new or given up there is erased, and who is divided anew writes that down.
//! 3. Caches open on all parts. A device that fails takes its shard away, with all tenants' caches there, and no other.
//! 4. Who serves writes down who does not. Only then is anything served: a shard that is away from now on has old
//!    values of keys that change.
//! 5. Keys of shards without a device are at others.

use std::pin::Pin;
use std::sync::Arc;

use event_listener::Event;
use larder_device::{Claim, Clock, Device, DeviceInfo};

use super::live::LiveSet;
use super::options::ShardOptions;
use super::pulse::Pulse;
use super::set::{Candidate, Set};
use crate::cache::Larder;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::partition::{Division, Part, PartitionTable, SHARDS_MAX, ShardNumber};

/// The caches of a shard, when they are open.
pub(crate) type Opening<'a> = Pin<Box<dyn Future<Output = Result<Vec<Larder>, Error>> + 'a>>;

/// Whose caches lie on the devices of a set.
pub(crate) trait Tenancy: Send + Sync {
    /// Divides a device; `found` is its table, if there is one that is to be believed.
    ///
    /// # Errors
    /// If that cannot be, or would cost somebody content unasked.
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error>;

    /// Opens the caches of a shard, always as many in the same order, on parts of its device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the device fails; then none is open.
    fn open<'a>(&'a self, shard: ShardNumber, on: ShardDevice<'a>) -> Opening<'a>;
}

/// The device of a shard, on parts of which its caches lie.
#[derive(Clone, Copy)]
pub(crate) struct ShardDevice<'a> {
    pub(crate) device: &'a Arc<dyn Device>,
    pub(crate) claim: &'a Arc<Claim>,
    /// A part for each cache.
    pub(crate) parts: &'a [Part],
}

/// What a set is opened with.
pub(crate) struct Begin {
    pub(crate) start_empty: bool,
    pub(crate) hash_seed: Option<u64>,
    /// Tenants that have caches there.
    pub(crate) tenants: usize,
    pub(crate) options: ShardOptions,
    pub(crate) clock: Arc<dyn Clock>,
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
    tenancy: Arc<dyn Tenancy>,
    devices: Vec<Option<Arc<dyn Device>>>,
    begin: Begin,
) -> Result<LiveSet, Error> {
    let Begin { start_empty, hash_seed, tenants, options, clock } = begin;
    let alarm = Arc::new(Event::new());
    let mut candidates = Vec::new();
    for device in devices {
        let pulse = Pulse::new(&alarm);
        candidates.push(Candidate::examine(device, start_empty, &clock, pulse).await?);
    }
    // Steps 1 and 2. Whatever is refused so far is as it was.
    let mut set = Set::assemble(candidates, &clock, start_empty, hash_seed)?;
    for shard in set.numbers() {
        let Some(device) = set.serving(shard) else { continue };
        let division = tenancy.divide(device.info(), set.believed(shard));
        let division = division.map_err(|error| error.of(&shard.to_string()))?;
        set.divide(shard, division);
    }
    set.prepare().await;
    let mut opened = open_caches(&*tenancy, &mut set).await?;
    // Step 4: without it, whoever is away now would be believed when it is back.
    for shard in set.settle().await {
        opened[shard.index()] = None;
    }
    if opened.iter().all(Option::is_none) {
        let mut all = set.candidates.iter().flatten();
        let why = all.find_map(|candidate| candidate.down.clone()).unwrap_or_default();
        return Err(Error::new(ErrorKind::Device, format!("no shard can serve: {why}")));
    }
    let why = |candidate: &Option<Candidate>| {
        candidate.as_ref().and_then(|candidate| candidate.down.as_deref().map(Arc::from))
    };
    let down: Vec<Option<Arc<str>>> = set.candidates.iter().map(why).collect();
    for (shard, reason) in down.iter().enumerate() {
        if let Some(reason) = reason {
            events::shard_down(shard, reason);
        }
    }
    Ok(LiveSet::new(set.into_book(), (opened, down), (tenancy, tenants), (options, clock, alarm)))
}

/// The caches of each shard that has its device. Who fails is lost.
async fn open_caches(
    tenancy: &dyn Tenancy,
    set: &mut Set,
) -> Result<Vec<Option<Vec<Larder>>>, Error> {
    let mut opened = Vec::new();
    for shard in set.numbers() {
        let on = set.candidate(shard).and_then(|candidate| {
            let (device, claim) = candidate.serving().zip(candidate.claim.as_ref())?;
            Some(ShardDevice { device, claim, parts: &candidate.division.parts })
        });
        let caches = match on {
            Some(on) => tenancy.open(shard, on).await.map(Some),
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
