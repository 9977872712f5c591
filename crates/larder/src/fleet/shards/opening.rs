//! Opens a set of shards, for any content of its devices: one cache on each, or one for each of several tenants.
//!
//! 1. The table of each device says which shard it is (`set.rs`). Its division into parts is computed.
//! 2. New and given up parts are erased, and devices with a new division write their table.
//! 3. Caches open on all parts. A device that fails takes only its shard away, with the caches of all tenants there.
//! 4. The serving shards record which shards do not serve. Only then does the set serve calls, because a shard that
//!    is away from now on keeps old values of keys that change.
//! 5. Other shards have the keys of shards without a device.

use std::sync::Arc;

use event_listener::Event;
use larder_device::{Clock, Device};

use super::health::DeviceHealth;
use super::live::LiveSet;
use super::options::ShardOptions;
use super::set::{Candidate, ShardSet};
use super::tenancy::{ShardDevice, Tenancy};
use crate::base::error::{Error, ErrorKind};
use crate::cache::Larder;
use crate::fleet::partition::SHARDS_MAX;
use crate::observe::events;

/// Parameters of an opening.
pub(crate) struct Begin {
    pub(crate) start_empty: bool,
    pub(crate) hash_seed: Option<u64>,
    /// Number of tenants with caches on the devices.
    pub(crate) tenants: usize,
    pub(crate) options: ShardOptions,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Checks the number of shards.
///
/// # Errors
/// [`ErrorKind::Config`].
pub(crate) fn check_count(count: usize) -> Result<(), Error> {
    match count {
        1..=SHARDS_MAX => Ok(()),
        _ => Err(Error::config(format!("{count} shards: must be 1 to {SHARDS_MAX}"))),
    }
}

/// Opens a set on `devices`, whose number [`check_count`] has accepted.
pub(crate) async fn open(
    tenancy: Arc<dyn Tenancy>,
    devices: Vec<Option<Arc<dyn Device>>>,
    begin: Begin,
) -> Result<LiveSet, Error> {
    let Begin { start_empty, hash_seed, tenants, options, clock } = begin;
    let alarm = Arc::new(Event::new());
    let mut candidates = Vec::new();
    for device in devices {
        let health = DeviceHealth::new(&alarm);
        candidates.push(Candidate::examine(device, start_empty, &clock, health).await?);
    }
    // Steps 1 and 2. An error up to here has changed nothing.
    let mut set = ShardSet::assemble(candidates, &clock, start_empty, hash_seed)?;
    for shard in set.numbers() {
        let Some(device) = set.serving(shard) else { continue };
        let division = tenancy.divide(device.info(), set.believed(shard));
        let division = division.map_err(|error| error.of(&shard.to_string()))?;
        set.divide(shard, division);
    }
    set.prepare().await;
    let mut opened = open_caches(&*tenancy, &mut set).await?;
    // Step 4: without it, a shard that is away now would be trusted when it is back.
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
    Ok(LiveSet::new(
        set.into_set_record(),
        (opened, down),
        (tenancy, tenants),
        (options, clock, alarm),
    ))
}

/// The caches of each shard that has its device. A shard whose device fails is lost.
async fn open_caches(
    tenancy: &dyn Tenancy,
    set: &mut ShardSet,
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
