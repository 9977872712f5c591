//! Several devices as independent shards.
//!
//! Each key belongs to one shard, by rendezvous hashing: of all shards the one whose number mixed
//! with the key's hash gives the most. A shard is a whole cache on one device. When a device is gone
//! its shard is a cache in DRAM; the keys of all others stay where they are.

mod set;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BufMut;
use larder_device::{Claim, Clock, Device, PlacementHandle, SliceDevice};

use crate::cache::look::copy_many;
use crate::cache::{Cas, Change, Copied, FetchError, Fetched, Flushed, Larder, Scan, SetOptions};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::key::{KeyHasher, mixed};
use crate::partition::{self, Part};
use crate::side_by_side::together;
use crate::stats::Stats;
use crate::value::{Value, ValueMeta};
use set::{Candidate, SHARDS_MAX, Set};

/// A cache over several devices, which fail one by one.
///
/// The calls are those of [`Larder`], and mean the same. [`Shards::shards`] leads to what each shard says
/// of itself: layout, placement, recovery.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Cas, Config, RealClock, SetOptions, Shards, block_on};
/// use larder_device::{Device, ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let drive = || -> Arc<dyn Device> {
///     let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
///     Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap())
/// };
/// let devices = vec![Some(drive()), Some(drive()), None];
/// let config = Config { dram_bytes: 8 << 20, ..Config::default() };
/// # block_on(async {
/// let cache = Shards::open(config, devices, Arc::new(RealClock)).await?;
/// assert!(cache.shards().any(|shard| shard.down().is_some()), "one has no device");
///
/// let rye = SetOptions { flags: 7, ..SetOptions::default() };
/// cache.set(b"bread", b"rye", None).await?;
/// cache.set_with(b"bread", b"rye", rye).await?;
/// let value = cache.get(b"bread").await?.expect("it was just set");
/// assert_eq!(cache.cas(b"bread", b"oat", value.version(), rye).await?, Cas::Stored);
/// assert!(cache.contains(b"bread").await? && cache.touch(b"bread", None).await?);
/// assert_eq!(cache.get_many(&["bread", "cake"]).await?[1], None);
/// let fetched = cache.get_or_fetch(b"cake", rye, async || Ok::<_, String>(b"plum".to_vec())).await;
/// assert_eq!(fetched.unwrap().as_ref(), b"plum");
/// assert_eq!(cache.of(b"hits").incr(b"hits", 1).await?, None);
/// assert!(cache.delete(b"bread").await?);
///
/// assert_eq!(cache.stats().deletes, 1);
/// let _ = cache.flush().await?;
/// cache.close().await?;
/// # Ok::<(), larder::Error>(())
/// # })?;
/// # Ok::<(), larder::Error>(())
/// ```
pub struct Shards {
    /// Given back before the devices are, and by a close.
    claims: Mutex<Vec<Option<Arc<Claim>>>>,
    shards: Vec<(Larder, Option<String>)>,
    /// Which key belongs to which of them. Within a shard keys are hashed under a seed of its own.
    hasher: KeyHasher,
}

/// One shard: a cache, and whether it has lost its device.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    number: usize,
    cache: &'a Larder,
    down: Option<&'a str>,
}

impl<'a> Shard<'a> {
    /// Its number in the set, which stays.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its cache, with its statistics and its placement plan.
    pub fn cache(&self) -> &'a Larder {
        self.cache
    }

    /// Why it was opened in DRAM alone. `None` if it has its device; one that fails later shows in
    /// [`Stats::device_errors`] of its cache.
    pub fn down(&self) -> Option<&'a str> {
        self.down
    }
}

impl Shards {
    /// Opens a cache on each of `devices`, at most 64, in any order. `None` stands for one that is
    /// missing: its shard is a cache in DRAM, as is that of a device that cannot be read or written.
    /// When it is back it starts empty, for its keys may have changed meanwhile. A blank device takes
    /// the place of one that is missing.
    ///
    /// Of [`Config::dram_bytes`] or [`Config::memory_bytes`], and of [`Config::departing_bytes_max`], each
    /// shard gets an equal part. Everything
    /// else in `config` holds for each of them, a budget of writes and the endurance of a drive too.
    /// Devices of different sizes get as many keys each.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work or do not fit a device,
    /// [`ErrorKind::InUse`] if a device is given twice or another cache has it or a part of it,
    /// [`ErrorKind::Foreign`] if a device holds something else or belongs to another set,
    /// [`ErrorKind::Device`] if no device can serve.
    pub async fn open(
        config: Config,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        Self::open_all(config, devices, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_all(
        config: Config,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let count = devices.len();
        if count == 0 || count > SHARDS_MAX {
            return Err(Error::config(format!("{count} shards: must be 1 to {SHARDS_MAX}")));
        }
        let dram_bytes = config.dram_bytes / count as u64;
        let memory_bytes = config.memory_bytes.map(|bytes| bytes / count as u64);
        let departing_bytes_max = config.departing_bytes_max.map(|bytes| bytes / count as u64);
        let config = Config { dram_bytes, memory_bytes, departing_bytes_max, ..config };
        let mut candidates = Vec::new();
        for device in devices {
            candidates.push(Candidate::examine(device, config.start_empty).await?);
        }
        let mut set = Set::assemble(candidates, &*clock, &config)?;
        let hasher = set.hasher;
        let mut caches = Vec::new();
        for number in 0..count {
            let opened = open_one(&config, &set, number, &clock).await;
            let cache = match opened.map_err(|error| error.of(&format!("shard {number}"))) {
                Ok(cache) => Some(cache),
                Err(error) if error.kind() == ErrorKind::Device => {
                    set.candidates[number].down.get_or_insert(error.to_string());
                    None
                }
                Err(error) => return Err(error),
            };
            caches.push(cache);
        }
        // Before anything is served.
        for failed in set.settle().await {
            caches[failed] = None;
        }
        if set.candidates.iter().all(|candidate| candidate.down.is_some()) {
            let why = set.candidates.iter().find_map(|candidate| candidate.down.clone());
            let why = why.unwrap_or_default();
            return Err(Error::new(ErrorKind::Device, format!("no shard can serve: {why}")));
        }
        let claims = set.candidates.iter().map(|candidate| candidate.claim.clone()).collect();
        let mut shards = Vec::new();
        for (number, (cache, candidate)) in caches.into_iter().zip(set.candidates).enumerate() {
            if let Some(reason) = &candidate.down {
                events::shard_down(number, reason);
            }
            let cache = match cache {
                Some(cache) => cache,
                None => Larder::open(config_of(&config, number), None, Arc::clone(&clock)).await?,
            };
            shards.push((cache, candidate.down));
        }
        Ok(Self { claims: Mutex::new(claims), shards, hasher })
    }

    /// All shards, in the order of their numbers.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        let shards = self.shards.iter().enumerate();
        shards.map(|(number, (cache, down))| Shard { number, cache, down: down.as_deref() })
    }

    /// The cache that has `key`.
    pub fn of(&self, key: &[u8]) -> &Larder {
        &self.shards[number_of(self.hasher.hash(key).0, self.shards.len())].0
    }

    /// See [`Larder::get`].
    ///
    /// # Errors
    /// The same.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.of(key).get(key).await
    }

    /// See [`Larder::get_many`]: all shards at once.
    ///
    /// # Errors
    /// The same.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        together(keys.iter().map(|key| self.get(key.as_ref()))).await.into_iter().collect()
    }

    /// See [`Larder::get_many_with`]: all shards at once. Values come in the order of `keys`.
    ///
    /// # Errors
    /// The same.
    pub async fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        let values = self.get_many(keys).await?;
        let found = values.iter().enumerate().filter_map(|(at, value)| Some((at, value.as_ref()?)));
        Ok(found.map(|(at, value)| look(at, value, value.meta())).count())
    }

    /// See [`Larder::get_many_into`]: all shards at once.
    ///
    /// # Errors
    /// The same.
    pub async fn get_many_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        copy_many(&self.get_many(keys).await?, buffer)
    }

    /// See [`Larder::get_with`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        self.of(key).get_with(key, look).await
    }

    /// See [`Larder::get_into`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        self.of(key).get_into(key, buffer).await
    }

    /// See [`Larder::set`].
    ///
    /// # Errors
    /// The same.
    pub async fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        self.of(key).set(key, value, ttl).await
    }

    /// See [`Larder::set_with`].
    ///
    /// # Errors
    /// The same.
    pub async fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        self.of(key).set_with(key, value, options).await
    }

    /// See [`Larder::cas`].
    ///
    /// # Errors
    /// The same.
    pub async fn cas(
        &self,
        key: &[u8],
        value: &[u8],
        version: u64,
        options: SetOptions,
    ) -> Result<Cas, Error> {
        self.of(key).cas(key, value, version, options).await
    }

    /// See [`Larder::delete`].
    ///
    /// # Errors
    /// The same.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.of(key).delete(key).await
    }

    /// See [`Larder::contains`].
    ///
    /// # Errors
    /// The same.
    pub async fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        self.of(key).contains(key).await
    }

    /// See [`Larder::touch`].
    ///
    /// # Errors
    /// The same.
    pub async fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        self.of(key).touch(key, ttl).await
    }

    /// See [`Larder::invalidate`].
    ///
    /// # Errors
    /// The same.
    pub async fn invalidate(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        self.of(key).invalidate(key, ttl).await
    }

    /// See [`Larder::win`].
    ///
    /// # Errors
    /// The same.
    pub fn win(&self, key: &[u8], version: u64) -> Result<bool, Error> {
        self.of(key).win(key, version)
    }

    /// See [`Larder::get_or_fetch`].
    ///
    /// # Errors
    /// The same.
    pub async fn get_or_fetch<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.of(key).get_or_fetch(key, options, fetch).await
    }

    /// See [`Larder::add`].
    ///
    /// # Errors
    /// The same.
    pub async fn add(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool, Error> {
        self.of(key).add(key, value, options).await
    }

    /// See [`Larder::replace`].
    ///
    /// # Errors
    /// The same.
    pub async fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        self.of(key).replace(key, value, options).await
    }

    /// See [`Larder::incr`].
    ///
    /// # Errors
    /// The same.
    pub async fn incr(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.of(key).incr(key, delta).await
    }

    /// See [`Larder::decr`].
    ///
    /// # Errors
    /// The same.
    pub async fn decr(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.of(key).decr(key, delta).await
    }

    /// See [`Larder::append`].
    ///
    /// # Errors
    /// The same.
    pub async fn append(&self, key: &[u8], tail: &[u8]) -> Result<bool, Error> {
        self.of(key).append(key, tail).await
    }

    /// See [`Larder::prepend`].
    ///
    /// # Errors
    /// The same.
    pub async fn prepend(&self, key: &[u8], head: &[u8]) -> Result<bool, Error> {
        self.of(key).prepend(key, head).await
    }

    /// See [`Larder::update`].
    ///
    /// # Errors
    /// The same.
    pub async fn update<'a>(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&Value>) -> Change<'a>,
    ) -> Result<Option<Value>, Error> {
        self.of(key).update(key, change).await
    }

    /// [`Larder::rebuild`] of every shard, all at once.
    pub async fn rebuild(&self) -> u64 {
        together(self.shards.iter().map(|(cache, _)| cache.rebuild())).await.into_iter().sum()
    }

    /// [`Larder::send_departures`] of every shard, all at once, until all are closed.
    pub async fn send_departures(&self) {
        together(self.shards.iter().map(|(cache, _)| cache.send_departures())).await;
    }

    /// [`Larder::scan`] of every shard, one behind the other.
    pub fn scan(&self) -> impl Iterator<Item = Scan<'_>> {
        self.shards.iter().map(|(cache, _)| cache.scan())
    }

    /// [`Larder::unused_bytes`] of all shards together.
    pub fn unused_bytes(&self) -> u64 {
        self.shards.iter().map(|(cache, _)| cache.unused_bytes()).sum()
    }

    /// [`Larder::set_dram_bytes`]: each shard gets an equal part.
    pub fn set_dram_bytes(&self, bytes: u64) {
        let part = bytes / self.shards.len() as u64;
        self.shards.iter().for_each(|(cache, _)| cache.set_dram_bytes(part));
    }

    /// [`Larder::set_memory_bytes`]: each shard gets an equal part.
    pub fn set_memory_bytes(&self, bytes: u64) {
        let part = bytes / self.shards.len() as u64;
        self.shards.iter().for_each(|(cache, _)| cache.set_memory_bytes(part));
    }

    /// The counters of all shards together; [`Shards::shards`] leads to those of one. How long drives
    /// last is among the latter only.
    pub fn stats(&self) -> Stats {
        self.shards.iter().map(|(cache, _)| cache.stats()).sum()
    }

    /// [`Larder::flush`] of every shard, all at once. What a shard without its device holds is not on
    /// flash afterwards, and not counted.
    ///
    /// # Errors
    /// The first one; the others have been flushed.
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let mut all = Flushed::default();
        for flushed in together(self.shards.iter().map(|(cache, _)| cache.flush())).await {
            all += flushed?;
        }
        Ok(all)
    }

    /// [`Larder::clear`] of every shard, all at once.
    ///
    /// # Errors
    /// The first one; the other shards have been cleared.
    pub async fn clear(&self) -> Result<(), Error> {
        let all = together(self.shards.iter().map(|(cache, _)| cache.clear())).await;
        all.into_iter().enumerate().try_for_each(|(number, cleared)| {
            cleared.map_err(|error| error.of(&format!("shard {number}")))
        })
    }

    /// [`Larder::close`] of every shard. Returns their counters together.
    ///
    /// # Errors
    /// The first one, after all were closed. The devices are free then when this is dropped.
    pub async fn close(&self) -> Result<Stats, Error> {
        self.closed(together(self.shards.iter().map(|(cache, _)| cache.close())).await)
    }

    /// [`Larder::close_within`] of every shard, side by side. Returns their counters together.
    ///
    /// # Errors
    /// As [`Shards::close`].
    pub async fn close_within(&self, time: Duration) -> Result<Stats, Error> {
        let closing = self.shards.iter().map(|(cache, _)| cache.close_within(time));
        self.closed(together(closing).await)
    }

    fn closed(&self, ended: Vec<Result<Stats, Error>>) -> Result<Stats, Error> {
        let named = ended
            .into_iter()
            .enumerate()
            .map(|(number, closed)| closed.map_err(|error| error.of(&format!("shard {number}"))));
        let closed = named.collect::<Result<Vec<_>, _>>()?;
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(closed.into_iter().sum())
    }
}

/// The cache of a shard that has its device.
async fn open_one(
    config: &Config,
    set: &Set,
    number: usize,
    clock: &Arc<dyn Clock>,
) -> Result<Larder, Error> {
    let candidate = &set.candidates[number];
    let (Some(device), None) = (&candidate.device, &candidate.down) else {
        return Err(Error::new(ErrorKind::Device, "it is down"));
    };
    let Some(part) = set.part(number) else {
        let info = device.info();
        let bytes = info.capacity_bytes;
        return Err(Error::config(format!("{} has {bytes} bytes: too few", info.name)));
    };
    if set.starts_empty(number) {
        partition::erase_front(device, &part).await?;
    }
    let slice: Arc<dyn Device> = Arc::new(slice(device, &part)?);
    let slice = Some(slice).zip(candidate.claim.clone());
    Larder::open_placed(config_of(config, number), slice, Arc::clone(clock), None).await
}

/// What a shard is told: if a seed was given, another one for each.
fn config_of(config: &Config, number: usize) -> Config {
    let hash_seed = config.hash_seed.map(|seed| mix(seed, number as u64));
    Config { hash_seed, ..config.clone() }
}

/// The part of a device that is its shard, with all handles.
fn slice(device: &Arc<dyn Device>, part: &Part) -> Result<SliceDevice<Arc<dyn Device>>, Error> {
    let handles = 1..device.info().placement.handles;
    let handles: Vec<_> = handles.map(PlacementHandle::new).collect();
    let slice = SliceDevice::new(Arc::clone(device), part.range(), &handles);
    slice.map_err(|error| Error::device("shard", error))
}

/// Which of `count` shards a key belongs to.
fn number_of(hash: u64, count: usize) -> usize {
    (0..count).max_by_key(|&number| mix(hash, number as u64)).unwrap_or(0)
}

/// A number that looks drawn for each pair.
fn mix(hash: u64, number: u64) -> u64 {
    mixed(hash ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_is_given_is_another_one_for_each_shard() {
        let config = Config { hash_seed: Some(7), ..Config::default() };
        let seeds: Vec<_> = (0..SHARDS_MAX).map(|n| config_of(&config, n).hash_seed).collect();
        assert!((0..seeds.len()).all(|n| seeds[n].is_some() && !seeds[..n].contains(&seeds[n])));
        assert_eq!(config_of(&Config::default(), 3).hash_seed, None);
    }

    #[test]
    fn keys_spread_evenly_and_stay_when_others_come() {
        let hash = |key: u64| KeyHasher::UNSEEDED.hash(&key.to_le_bytes()).0;
        let hashes = || (0..40_000_u64).map(hash);
        let mut of = vec![0_u32; 8];
        for hash in hashes() {
            of[number_of(hash, 8)] += 1;
            // A ninth shard takes keys from the others, and nothing else moves.
            let grown = number_of(hash, 9);
            assert!(grown == 8 || grown == number_of(hash, 8));
        }
        assert!(of.iter().all(|&keys| (4_750..5_250).contains(&keys)), "{of:?}");
    }
}
