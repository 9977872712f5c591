//! Drives in virtual time, a set of shards on them, and its events.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use larder::config::Demotions;
use larder::{
    Clock, Config, Device, ErrorKind, LocConfig, SetOptions, ShardOptions, ShardState, Shards,
    SocConfig, Upkeep, VirtualClock,
};
use larder_device::Condition;
use larder_device::model::virtual_time::shapes;
use larder_sim::executor::Executor;

use super::drive::Drive;
use super::oracle::Oracle;

const KEYS: u32 = 150;
const CLIENTS: u64 = 6;
/// Maximum number of drives in use at a time.
const SHARDS_MAX: usize = 6;

/// Totals of a run.
#[derive(Debug, Default, Clone)]
pub(super) struct Totals {
    pub(super) crashes: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) writes: u64,
    pub(super) failures: u64,
    pub(super) replaced: u64,
    pub(super) added: u64,
    pub(super) retired: u64,
    pub(super) refilled_bytes: u64,
}

pub(super) struct World {
    clock: Arc<VirtualClock>,
    seed: u64,
    rng: RefCell<fastrand::Rng>,
    /// By the number of their shard; `None` if it was retired.
    drives: RefCell<Vec<Option<Drive>>>,
    /// The change that a crash would interrupt: the shard whose drive may or may not be in the set, and its drive if it
    /// is not.
    in_doubt: RefCell<Option<(usize, Option<Drive>)>>,
    /// Drives that were pulled out and not replaced yet.
    pulled: Cell<u32>,
    oracle: Oracle,
    totals: RefCell<Totals>,
    wrong: RefCell<Option<String>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let drives = RefCell::new((0..3).map(|_| Some(drive(&clock))).collect());
        Self {
            clock,
            seed,
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            drives,
            in_doubt: RefCell::default(),
            pulled: Cell::new(0),
            oracle: Oracle::default(),
            totals: RefCell::default(),
            wrong: RefCell::default(),
        }
    }

    /// Runs several lives of the set, each of which ends in a crash or a close.
    pub(super) fn run(&self, lives: u32) -> Result<Totals, String> {
        for _ in 0..lives {
            self.live();
            self.settle();
            if let Some(wrong) = self.wrong.borrow().clone() {
                return Err(format!("seed {}: {wrong}", self.seed));
            }
        }
        Ok(self.totals.borrow().clone())
    }

    fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().u64(..end)
    }

    fn live(&self) {
        let opened = RefCell::new(None);
        let mut opening = Executor::new(Arc::clone(&self.clock));
        opening.spawn(async { *opened.borrow_mut() = Some(self.open().await) });
        opening.run().unwrap();
        drop(opening);
        let cache = opened.into_inner().unwrap();
        let mut executor = Executor::new(Arc::clone(&self.clock));
        executor.spawn_background(cache.upkeep());
        executor.spawn_background(cache.send_demotions());
        if self.below(3) > 0 {
            // Everything in flight then is cut off.
            executor.spawn_background(self.change_all(&cache));
            (0..CLIENTS).for_each(|_| executor.spawn_background(self.client(&cache)));
            executor.spawn(self.sleep(Duration::from_micros(2_000 + self.below(2_000_000))));
            executor.run().unwrap();
            self.totals.borrow_mut().crashes += 1;
        } else {
            executor.spawn(self.change_all(&cache));
            (0..CLIENTS).for_each(|_| executor.spawn(self.client(&cache)));
            executor.run().unwrap();
            // A set with a pulled drive cannot be closed.
            executor.spawn(async { _ = cache.close().await });
            executor.run().unwrap();
        }
        self.totals.borrow_mut().refilled_bytes += cache.status().refilled_bytes;
    }

    /// Lets all requests of drives end, so that none is executed later.
    fn settle(&self) {
        while self.clock.advance_to_next().is_some() {}
    }

    async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }

    async fn open(&self) -> Shards {
        // Drives that were pulled out are available again, or are missing once more.
        for drive in self.drives.borrow().iter().flatten() {
            drive.becomes(Condition::Well);
        }
        self.pulled.set(0);
        let opened = self.open_with_all().await;
        let refused = opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::Foreign);
        match self.in_doubt.take().filter(|_| refused) {
            Some((number, instead)) => {
                self.drives.borrow_mut()[number] = instead;
                self.open_with_all().await.unwrap()
            }
            None => opened.unwrap(),
        }
    }

    async fn open_with_all(&self) -> Result<Shards, larder::Error> {
        let given: Vec<Option<Arc<dyn Device>>> =
            self.drives.borrow().iter().flatten().map(|it| Some(Arc::clone(it) as _)).collect();
        let config = Config {
            dram_bytes: 48 << 10,
            soc: SocConfig { percent: Some(25.0), ..SocConfig::default() },
            loc: LocConfig { region_bytes: Some(256 << 10), ..LocConfig::default() },
            demotions: Demotions::Callers,
            hash_seed: Some(self.seed),
            ..Config::default()
        };
        let options = ShardOptions {
            upkeep: Upkeep::Callers,
            refill_bytes_per_s: 200 << 10,
            look_every: Duration::from_millis(20),
            ..ShardOptions::default()
        };
        Shards::open_with(config, options, given, Arc::clone(&self.clock) as _).await
    }

    /// A client that does one operation after another.
    async fn client(&self, cache: &Shards) {
        for _ in 0..400 {
            let key = u32::try_from(self.below(u64::from(KEYS))).unwrap();
            let done = self.step(cache, key).await;
            if let Err(wrong) = done {
                self.wrong.borrow_mut().get_or_insert(wrong);
                return;
            }
            self.sleep(Duration::from_micros(self.below(4_000))).await;
        }
    }

    async fn step(&self, cache: &Shards, key: u32) -> Result<(), String> {
        let name = format!("key-{key:04}").into_bytes();
        let failed = |what: &str, error: larder::Error| format!("key {key}: {what}: {error}");
        let begun = self.oracle.tick();
        match self.below(20) {
            0..11 => {
                let found = match self.below(3) {
                    0 => cache.get_many(&[&name]).await.map(|mut found| found.remove(0)),
                    _ => cache.get(&name).await,
                };
                let found = found.map_err(|error| failed("get", error))?;
                self.count(found.is_some());
                found.map_or(Ok(()), |value| self.oracle.found(key, version_in(key, &value), begun))
            }
            11..15 => self.set(cache, (key, &name)).await.map_err(|error| failed("set", error)),
            15 => {
                let version = self.oracle.writes(key);
                let deleted = cache.delete(&name).await;
                self.oracle.wrote(key, version, true);
                deleted.map(|_| ()).map_err(|error| failed("delete", error))
            }
            16 => {
                let version = self.oracle.writes(key);
                let value = self.value(key, version);
                let added = cache.add(&name, &value, SetOptions::default()).await;
                match added.map_err(|error| failed("add", error))? {
                    true => self.oracle.wrote(key, version, true),
                    false => self.oracle.did_not_write(key, version),
                }
                Ok(())
            }
            17 => {
                let Some(there) = cache.get(&name).await.map_err(|error| failed("get", error))?
                else {
                    return Ok(());
                };
                self.oracle.found(key, version_in(key, &there), begun)?;
                let version = self.oracle.writes(key);
                let value = self.value(key, version);
                let stored = cache.cas(&name, &value, there.version(), SetOptions::default()).await;
                match stored.map_err(|error| failed("cas", error))? {
                    larder::Cas::Stored => self.oracle.wrote(key, version, true),
                    _ => self.oracle.did_not_write(key, version),
                }
                Ok(())
            }
            _ => self.fetch(cache, (key, &name)).await,
        }
    }

    async fn set(&self, cache: &Shards, (key, name): (u32, &[u8])) -> Result<(), larder::Error> {
        let version = self.oracle.writes(key);
        self.totals.borrow_mut().writes += 1;
        let value = self.value(key, version);
        if self.below(20) == 0 {
            // The set is given up, and may be executed or not.
            let setting = cache.set(name, &value, None);
            let time = self.sleep(Duration::from_micros(self.below(300)));
            until_either(setting, time).await;
            return Ok(());
        }
        cache.set(name, &value, None).await?;
        self.oracle.wrote(key, version, true);
        Ok(())
    }

    async fn fetch(&self, cache: &Shards, (key, name): (u32, &[u8])) -> Result<(), String> {
        let begun = self.oracle.tick();
        let fetched = Cell::new(None);
        let fetch = async || {
            let version = self.oracle.writes(key);
            fetched.set(Some(version));
            self.sleep(Duration::from_micros(self.below(2_000))).await;
            Ok::<_, String>(self.value(key, version))
        };
        let found = cache.get_or_fetch(name, SetOptions::default(), fetch).await;
        let value = found.map_err(|error| format!("key {key}: fetch: {error}"))?;
        let version = version_in(key, &value);
        match fetched.get() {
            // A newer change may have overtaken it.
            Some(own) => self.oracle.wrote(key, own, false),
            // A value fetched by another call may not have been stored either, so it tells nothing about the key.
            None => _ = begun,
        }
        let _looked_at = version;
        Ok(())
    }

    fn count(&self, hit: bool) {
        let totals = &mut *self.totals.borrow_mut();
        *(if hit { &mut totals.hits } else { &mut totals.misses }) += 1;
    }

    fn value(&self, key: u32, version: u32) -> Vec<u8> {
        let bytes = if key.is_multiple_of(5) { 3000 } else { 400 };
        let mut value = vec![version.to_le_bytes()[0]; bytes];
        value[..4].copy_from_slice(&key.to_le_bytes());
        value[4..8].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// Adds, removes and fails shards at any time.
    async fn change_all(&self, cache: &Shards) {
        for _ in 0..12 {
            self.sleep(Duration::from_micros(self.below(300_000))).await;
            self.change(cache).await;
        }
    }

    async fn change(&self, cache: &Shards) {
        let status = cache.status();
        let live = |state: ShardState| matches!(state, ShardState::Healthy | ShardState::Refilling);
        let all: Vec<_> = status.shards.iter().map(|it| (it.number, it.state)).collect();
        let in_use: Vec<usize> = all.iter().filter(|it| live(it.1)).map(|it| it.0).collect();
        let failed = all.iter().find(|it| it.1 == ShardState::Failed).map(|it| it.0);
        let any = in_use[usize::try_from(self.below(in_use.len() as u64)).unwrap()];
        // At least one healthy shard must be left.
        let may_lose = in_use.len() > 2 && u64::from(self.pulled.get()) + 2 < in_use.len() as u64;
        match self.below(10) {
            0 | 1 if may_lose => {
                self.totals.borrow_mut().failures += 1;
                cache.fail_shard(any).await.unwrap();
            }
            2 | 3 if may_lose => {
                self.totals.borrow_mut().failures += 1;
                self.pulled.set(self.pulled.get() + 1);
                let conditions = [Condition::Gone, Condition::Failing];
                let condition = conditions[usize::from(self.below(2) == 0)];
                self.drives.borrow()[any].as_ref().unwrap().becomes(condition);
            }
            4..7 => {
                let Some(failed) = failed else { return };
                self.replace(cache, failed).await;
            }
            7 if all.iter().filter(|it| it.1 != ShardState::Retired).count() < SHARDS_MAX => {
                let number = {
                    let drives = &mut *self.drives.borrow_mut();
                    let free = drives.iter().position(Option::is_none).unwrap_or(drives.len());
                    drives.resize(drives.len().max(free + 1), None);
                    free
                };
                let drive = drive(&self.clock);
                self.drives.borrow_mut()[number] = Some(Arc::clone(&drive));
                self.in_doubt.replace(Some((number, None)));
                assert_eq!(cache.add_shard(drive).await.unwrap(), number);
                self.in_doubt.take();
                self.totals.borrow_mut().added += 1;
            }
            8 if may_lose => {
                self.in_doubt.replace(Some((any, None)));
                cache.retire_shard(any).await.unwrap();
                self.in_doubt.take();
                self.drives.borrow_mut()[any] = None;
                self.totals.borrow_mut().retired += 1;
            }
            _ => {}
        }
    }

    async fn replace(&self, cache: &Shards, number: usize) {
        let old = self.drives.borrow()[number].clone();
        let drive = match &old {
            Some(old) if self.below(2) == 0 => {
                old.becomes(Condition::Well);
                Arc::clone(old)
            }
            _ => drive(&self.clock),
        };
        self.drives.borrow_mut()[number] = Some(Arc::clone(&drive));
        self.in_doubt.replace(Some((number, old.clone())));
        let replaced = cache.replace_shard(number, drive).await;
        self.in_doubt.take();
        // The old drive may still have requests in flight.
        if replaced.is_err() {
            self.drives.borrow_mut()[number] = old;
        } else {
            self.pulled.set(self.pulled.get().saturating_sub(1));
            self.totals.borrow_mut().replaced += 1;
        }
    }
}

fn drive(clock: &Arc<VirtualClock>) -> Drive {
    super::drive::drive(shapes::SATA_SSD, clock)
}

fn version_in(key: u32, value: &[u8]) -> u32 {
    let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), key, "a value of another key");
    word(4)
}

/// Runs `one` until it ends or `other` has ended.
async fn until_either<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| {
        let ended = one.as_mut().poll(context).is_ready();
        let over = other.as_mut().poll(context);
        if ended { std::task::Poll::Ready(()) } else { over }
    })
    .await;
}
