//! Several devices as shards, which fail alone.
//!
//! A shard is a whole cache on one device, or on the part of it that a tenant has. Which keys it has follows from what
//! all shards of the set are (`places.rs`): while one has failed, others stand in for it; when it is back it starts
//! empty, and gets its values from them. `set.rs` and `opening.rs` say how a set opens and in which order what is
//! written down, `live.rs` and `change.rs` how shards come and go while it is open, `calls.rs` what a call is then.
//! `detect.rs` finds out that a shard fails, and `awake.rs` that it was the host; `away.rs` takes devices back that
//! answer again. `upkeep.rs` does what is to be done beside the calls, `refill.rs` fills shards again. `front/` has
//! the calls.
//!
//! This is a shard of the keys, on a device of its own; the index in DRAM has shards too, which are another thing.

pub(crate) mod alone;
mod awake;
mod away;
mod book;
pub(crate) mod calls;
mod change;
mod detect;
mod generations;
mod live;
mod log2;
mod many;
pub(crate) mod name;
pub mod offline;
pub(crate) mod opening;
mod options;
mod places;
mod pulse;
mod refill;
mod scan;
mod set;
pub mod status;
mod succession;
mod upkeep;

use std::sync::Arc;

use larder_device::Device;

use crate::cache::Larder;
use crate::error::Error;
use crate::partition::{Part, ShardNumber};
use crate::stats::Stats;
use calls::View;
pub(crate) use live::LiveSet;
pub use options::{ShardOptions, Upkeep};
use upkeep::Upkeeper;

/// Which key belongs to which of several caches, one on each device: what [`Shards`](crate::Shards) are, without the
/// calls.
pub struct ShardMap {
    /// Ends before the rest does.
    upkeeper: Option<Arc<Upkeeper>>,
    set: Arc<LiveSet>,
    /// Whose caches these are, of all that the set has.
    tenant: usize,
}

/// One shard: a cache, and whether it has lost its device.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    number: ShardNumber,
    tenant: usize,
    of: &'a live::ShardNow,
}

impl<'a> Shard<'a> {
    /// Its number in the set, which stays.
    pub fn number(&self) -> usize {
        self.number.index()
    }

    /// Its cache, with its statistics and its placement plan; `None` if others have its keys.
    pub fn cache(&self) -> Option<&'a Larder> {
        self.of.caches.as_ref()?.get(self.tenant).map(|cache| &**cache)
    }

    /// Its device, and the part of it that its cache has.
    pub(crate) fn device(&self) -> Option<(&'a Arc<dyn Device>, &'a Part)> {
        self.of.device.as_ref().zip(self.of.parts.get(self.tenant))
    }

    /// All parts of its device.
    pub(crate) fn parts(&self) -> &'a [Part] {
        &self.of.parts
    }

    /// Why others have its keys. `None` if it has them.
    pub fn down(&self) -> Option<&'a str> {
        self.of.down.as_deref()
    }
}

impl ShardMap {
    /// A map for each tenant of the set. Whoever has the last of them has the set.
    pub(crate) fn of(set: LiveSet, tenants: usize) -> Result<Vec<Self>, Error> {
        let set = Arc::new(set);
        let upkeeper = Upkeeper::start(&set)?.map(Arc::new);
        let map = |tenant| Self { upkeeper: upkeeper.clone(), set: Arc::clone(&set), tenant };
        Ok((0..tenants).map(map).collect())
    }

    /// All shards, in the order of their numbers, as they are now.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        let state = self.set.state();
        let tenant = self.tenant;
        state.numbers().map(move |number| Shard { number, tenant, of: state.shard(number) })
    }

    pub(crate) fn set(&self) -> &LiveSet {
        &self.set
    }

    /// The caches of the shards that are live.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
        let tenant = self.tenant;
        let caches = self.set.state().shards.iter();
        caches.filter_map(move |shard| shard.caches.as_ref()?.get(tenant).map(|cache| &**cache))
    }

    /// The same, shared.
    pub(crate) fn shared_caches(&self) -> Vec<Arc<Larder>> {
        let shards = self.set.state().shards.iter();
        let own = shards.filter_map(|shard| shard.caches.as_ref()?.get(self.tenant));
        own.cloned().collect()
    }

    /// The same with their numbers.
    pub(crate) fn live(&self) -> impl Iterator<Item = (ShardNumber, &Arc<Larder>)> + Send {
        let (state, tenant) = (self.set.state(), self.tenant);
        state
            .numbers()
            .filter_map(move |number| state.cache(number, tenant).map(|cache| (number, cache)))
    }

    /// The numbers of the caches, in their order.
    pub(crate) fn live_numbers(&self) -> Vec<usize> {
        self.live().map(|(number, _)| number.index()).collect()
    }

    /// The same for calls.
    pub(crate) fn view(&self) -> View<'_> {
        View { set: &self.set, tenant: self.tenant }
    }

    /// What its caches did and hold, together with what those did that have left.
    pub(crate) fn stats(&self) -> Stats {
        self.set.stats(self.tenant)
    }

    /// The same, of what its caches say at their end.
    pub(crate) fn closed_stats(&self, closed: Stats) -> Stats {
        self.set.with_past(self.tenant, closed)
    }

    /// The cache that is asked first for `key`.
    pub(crate) fn cache_for(&self, key: &[u8]) -> &Larder {
        self.view().cache_for(key)
    }

    /// The caches are about to be closed.
    pub(crate) async fn closing(&self) {
        self.set.close().await;
    }

    /// They have been closed.
    pub(crate) fn release(&self) {
        if let Some(upkeeper) = &self.upkeeper {
            upkeeper.stop();
        }
        self.set.release();
    }

    /// Empties all caches at once: nothing moves from one to the other meanwhile.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        loop {
            let held = self.set.gate.hold().await?;
            let state = self.set.state();
            let caches = state.numbers().filter_map(|shard| {
                state.cache(shard, self.tenant).map(|cache| async move {
                    let there = (shard, self.tenant);
                    (shard, self.set.while_there(there, cache, cache.clear()).await)
                })
            });
            let cleared = crate::side_by_side::together(caches).await;
            drop(held);
            let failed = cleared.into_iter().find_map(|(shard, it)| Some((shard, it?.err()?)));
            let Some((shard, error)) = failed else { return Ok(()) };
            let error = error.of(&shard.to_string());
            if error.kind() != crate::error::ErrorKind::Device {
                return Err(error);
            }
            // What it holds is void then.
            self.set.fail_for_now(shard, &error.to_string()).await.map_err(|_| error)?;
        }
    }
}
