//! Several devices as shards, which fail independently.
//!
//! A shard is a whole cache on one device, or on a tenant's part of it. The states of all shards of the set determine
//! which keys it has (`places.rs`). While a shard has failed, others have its keys. When it is back it starts empty,
//! and gets its values from them. `set.rs` and `opening.rs` describe how a set opens, and in which order state is
//! written; `live.rs` and `change.rs` how shards are added and removed while it is open; `calls.rs` how calls behave
//! then. `moving.rs` moves shares of keys between healthy shards, so that drives wear alike; `levelling.rs` decides
//! when, by `wear/`. `detect.rs` detects failed shards, and `awake.rs` pauses of the host; `probe.rs` takes devices
//! back that answer again. `upkeep.rs` does the background work, and `refill.rs` refills shards. The public calls are
//! in `front/`.
//!
//! These shards divide the keys among devices; they are unrelated to the shards of the index in DRAM.

pub(crate) mod alone;
mod awake;
mod away;
pub(crate) mod calls;
mod change;
mod detect;
mod generations;
mod health;
mod levelling;
mod live;
mod log2;
mod many;
mod moving;
pub(crate) mod name;
pub mod offline;
pub(crate) mod opening;
mod options;
mod places;
mod probe;
mod refill;
mod scan;
mod set;
mod set_record;
pub mod status;
mod succession;
mod suspects;
pub(crate) mod tenancy;
mod upkeep;
pub mod wear;

use std::sync::Arc;

use larder_device::Device;

use crate::base::error::Error;
use crate::cache::Larder;
use crate::fleet::partition::{Part, ShardNumber};
use crate::observe::stats::Stats;
use calls::View;
pub(crate) use live::LiveSet;
pub use options::{ShardOptions, Upkeep};
use upkeep::Upkeeper;

/// Maps keys to several caches, one on each device: [`Shards`](crate::Shards) without the calls.
pub struct ShardMap {
    /// First field, so that it is dropped before the rest.
    upkeeper: Option<Arc<Upkeeper>>,
    set: Arc<LiveSet>,
    /// The tenant whose caches these are.
    tenant: usize,
}

/// One shard: its cache, or the reason why it has none.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    number: ShardNumber,
    tenant: usize,
    of: &'a live::ShardNow,
}

impl<'a> Shard<'a> {
    /// Its number in the set, which does not change.
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
    /// Creates a map for each tenant of the set. They share the set.
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

    /// The caches of the live shards.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
        let tenant = self.tenant;
        let caches = self.set.state().shards.iter();
        caches.filter_map(move |shard| shard.caches.as_ref()?.get(tenant).map(|cache| &**cache))
    }

    /// The same, as shared references.
    pub(crate) fn shared_caches(&self) -> Vec<Arc<Larder>> {
        let shards = self.set.state().shards.iter();
        let own = shards.filter_map(|shard| shard.caches.as_ref()?.get(self.tenant));
        own.cloned().collect()
    }

    /// The same, with their numbers.
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

    /// The view for calls.
    pub(crate) fn view(&self) -> View<'_> {
        View { set: &self.set, tenant: self.tenant }
    }

    /// The counters and content of its caches, with the counters of those that have left.
    pub(crate) fn stats(&self) -> Stats {
        self.set.stats(self.tenant)
    }

    /// Adds the counters of caches that have left to those of closed caches.
    pub(crate) fn closed_stats(&self, closed: Stats) -> Stats {
        self.set.with_past(self.tenant, closed)
    }

    /// The cache that is asked first for `key`.
    pub(crate) fn cache_for(&self, key: &[u8]) -> &Larder {
        self.view().cache_for(key)
    }

    /// Called before the caches are closed.
    pub(crate) async fn closing(&self) {
        self.set.close().await;
    }

    /// Called after they were closed.
    pub(crate) fn release(&self) {
        if let Some(upkeeper) = &self.upkeeper {
            upkeeper.stop();
        }
        self.set.release();
    }

    /// Empties all caches at once, with the gate held, so that no value moves between them.
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
            let cleared = crate::base::side_by_side::together(caches).await;
            drop(held);
            let failed = cleared.into_iter().find_map(|(shard, it)| Some((shard, it?.err()?)));
            let Some((shard, error)) = failed else { return Ok(()) };
            let error = error.of(&shard.to_string());
            if error.kind() != crate::base::error::ErrorKind::Device {
                return Err(error);
            }
            // Then its content is void.
            self.set.fail_for_now(shard, &error.to_string()).await.map_err(|_| error)?;
        }
    }
}
