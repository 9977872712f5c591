//! The array engine on several drives in virtual time: a set of shards, each a cache with only this engine.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use larder::{Config, Device, SetOptions, ShardOptions, Shards, Upkeep, VirtualClock};
use larder_sim::executor::Executor;
use larder_workload::generate::record_key;

use super::values::Values;
use crate::Error;
use crate::experiment::array::clients::{Store, stalled};

/// Number of tasks that store the records before the clients start.
const LOADERS: usize = 64;

/// A set of shards.
pub(in crate::experiment::array) struct EngineShards {
    cache: Shards,
    values: Values,
}

impl EngineShards {
    /// Opens a cache of `config` on `drives`, for values whose records have `record_bytes` bytes.
    pub(in crate::experiment::array) fn open(
        drives: Vec<Option<Arc<dyn Device>>>,
        config: Config,
        record_bytes: usize,
        clock: &Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let options = ShardOptions { upkeep: Upkeep::Callers, ..ShardOptions::default() };
        let opening = async {
            let clock = Arc::clone(clock) as _;
            Shards::open_with(config, options, drives, clock).await
        };
        let cache =
            in_virtual_time(clock, opening)?.map_err(|error| Error::run(error.to_string()))?;
        Ok(Self { cache, values: Values::of_records(record_bytes) })
    }

    pub(in crate::experiment::array) fn cache(&self) -> &Shards {
        &self.cache
    }

    pub(in crate::experiment::array) fn values(&self) -> Values {
        self.values
    }

    /// Stores `records` records whose keys derive from `seed`.
    pub(in crate::experiment::array) fn load(
        &self,
        records: u64,
        seed: u64,
        clock: &Arc<VirtualClock>,
    ) -> Result<(), Error> {
        let failed = RefCell::new(None);
        let failed = &failed;
        let mut executor = Executor::new(Arc::clone(clock));
        self.serve(&mut executor);
        for loader in 0..LOADERS as u64 {
            executor.spawn(async move {
                let mut own = (loader..records).step_by(LOADERS);
                while let Some(record) = own.next().filter(|_| failed.borrow().is_none()) {
                    if let Err(error) = self.set(record_key(seed, record), 0).await {
                        failed.borrow_mut().get_or_insert(error);
                    }
                }
            });
        }
        executor.run().map_err(stalled)?;
        drop(executor);
        failed.borrow_mut().take().map_or(Ok(()), Err)
    }
}

impl Store for EngineShards {
    async fn get(&self, key: u64) -> Result<bool, Error> {
        let found = self.cache.get(&key.to_le_bytes()).await.map_err(failed)?;
        match found {
            Some(value) => self.values.check(key, &value).map(|()| true),
            None => Ok(false),
        }
    }

    async fn set(&self, key: u64, ttl_s: u32) -> Result<(), Error> {
        let value = self.values.of(key);
        self.cache.set(&key.to_le_bytes(), &value, ttl(ttl_s)).await.map_err(failed)
    }

    /// Clients that miss a key at the same time fetch it once, and a client that finds it by then does not fetch it.
    async fn fill(&self, key: u64, ttl_s: u32) -> Result<(), Error> {
        let bring = async || Ok::<_, Infallible>(self.values.of(key));
        let options = SetOptions { ttl: ttl(ttl_s), ..SetOptions::default() };
        let brought = self.cache.get_or_fetch(&key.to_le_bytes(), options, bring).await;
        let value = brought.map_err(|error| Error::run(format!("the engine: {error}")))?;
        self.values.check(key, &value)
    }

    fn serve<'a>(&'a self, executor: &mut Executor<'a>) {
        executor.spawn_background(self.cache.upkeep());
        executor.spawn_background(self.cache.send_demotions());
    }
}

/// Runs a single future to its end.
pub(in crate::experiment::array) fn in_virtual_time<T>(
    clock: &Arc<VirtualClock>,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    let ended = RefCell::new(None);
    let mut executor = Executor::new(Arc::clone(clock));
    executor.spawn(async { *ended.borrow_mut() = Some(future.await) });
    executor.run().map_err(stalled)?;
    drop(executor);
    ended.into_inner().ok_or_else(|| Error::run("virtual time: it has not ended"))
}

fn ttl(ttl_s: u32) -> Option<Duration> {
    (ttl_s > 0).then(|| Duration::from_secs(ttl_s.into()))
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: larder::Error) -> Error {
    Error::run(format!("the engine: {error}"))
}
