//! Clients of a set of eight shards in virtual time, and their observations.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use larder::config::Demotions;
use larder::{
    ArrayConfig, Clock, Config, Device, LocConfig, ShardOptions, ShardState, Shards, SocConfig,
    Upkeep, VirtualClock,
};
use larder_sim::executor::Executor;

use super::drive::Drive;
use super::oracle::Oracle;

pub(super) const SHARDS: usize = 8;
/// The shard that fails.
pub(super) const VICTIM: usize = 3;
pub(super) const KEYS: u32 = 1500;
/// Too large for small objects.
pub(super) const VALUE_BYTES: usize = 3000;
/// Length of an observation window.
pub(super) const WINDOW: Duration = Duration::from_millis(50);
const CLIENTS: u64 = 10;
/// Pause between two operations of a client.
const PAUSE: Duration = Duration::from_micros(500);
/// Time to fetch a value from elsewhere.
const SOURCE: Duration = Duration::from_micros(500);
/// Poll interval for the state of a shard.
const LOOK: Duration = Duration::from_millis(5);

/// GETs, and the number of hits.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Looks {
    all: u64,
    hits: u64,
}

impl Looks {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn ratio(self) -> f64 {
        self.hits as f64 / self.all.max(1) as f64
    }
}

/// Observations of the clients during some time.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    time: Duration,
    /// GETs that found a value, and sets.
    done: u64,
    /// GETs of all keys.
    pub(super) all: Looks,
    /// GETs of keys that belong to the victim when all shards are healthy.
    pub(super) of_victim: Looks,
    /// Durations of GETs of all other keys, in microseconds.
    others_us: Vec<u64>,
}

impl Seen {
    pub(super) fn sum(windows: &[Self]) -> Self {
        let mut sum = Self::default();
        for seen in windows {
            sum.time += seen.time;
            sum.done += seen.done;
            sum.all = Looks { all: sum.all.all + seen.all.all, hits: sum.all.hits + seen.all.hits };
            let (one, other) = (sum.of_victim, seen.of_victim);
            sum.of_victim = Looks { all: one.all + other.all, hits: one.hits + other.hits };
            sum.others_us.extend_from_slice(&seen.others_us);
        }
        sum
    }

    pub(super) fn p99_us(&self) -> u64 {
        let mut all = self.others_us.clone();
        all.sort_unstable();
        all[all.len() * 99 / 100]
    }

    /// Operations per second.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn rate(&self) -> f64 {
        self.done as f64 / self.time.as_secs_f64()
    }
}

/// The engine for the values of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The large-object engine, whose index is in DRAM.
    Loc,
    /// The array engine, whose index is on flash.
    Array,
}

impl Engine {
    fn config(self) -> Config {
        let config = Config {
            dram_bytes: 160 << 10,
            soc: SocConfig { percent: Some(50.0), ..SocConfig::default() },
            loc: LocConfig { region_bytes: Some(128 << 10), ..LocConfig::default() },
            demotions: Demotions::Callers,
            hash_seed: Some(1),
            ..Config::default()
        };
        if self == Self::Loc {
            return config;
        }
        let soc = SocConfig { percent: Some(50.0), log_percent: Some(0.0), ..SocConfig::default() };
        let array = ArrayConfig {
            percent: 50.0,
            region_bytes: Some(64 << 10),
            write_bytes: 16 << 10,
            mean_object_bytes: 3072,
            index_bytes: Some(2 << 10),
            ttl_groups: false,
            ..ArrayConfig::default()
        };
        Config { soc, array, ..config }
    }
}

/// Clients that fetch missing values and store them, and sometimes change or delete a key.
pub(super) struct Load {
    pub(super) clock: Arc<VirtualClock>,
    rng: RefCell<fastrand::Rng>,
    /// By key: whether it belongs to the victim when all shards are healthy.
    is_of_victim: Vec<bool>,
    oracle: Oracle,
    seen: RefCell<Seen>,
    seen_since: Cell<Duration>,
    ends: Cell<bool>,
    errors: RefCell<Vec<String>>,
}

impl Load {
    fn new(clock: &Arc<VirtualClock>, seed: u64, cache: &Shards) -> Self {
        Self {
            clock: Arc::clone(clock),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            is_of_victim: (0..KEYS).map(|key| cache.home_of(&name_of(key)) == VICTIM).collect(),
            oracle: Oracle::default(),
            seen: RefCell::default(),
            seen_since: Cell::new(clock.monotonic()),
            ends: Cell::new(false),
            errors: RefCell::default(),
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }

    /// The observations since the last call.
    pub(super) fn take_seen(&self) -> Seen {
        let now = self.clock.monotonic();
        let time = now - self.seen_since.replace(now);
        Seen { time, ..self.seen.take() }
    }

    /// The observations of the next `windows` windows.
    pub(super) async fn watch(&self, windows: u32) -> Vec<Seen> {
        self.take_seen();
        let mut seen = Vec::new();
        for _ in 0..windows {
            self.sleep(WINDOW).await;
            seen.push(self.take_seen());
        }
        seen
    }

    /// A random key.
    pub(super) fn draw(&self) -> u32 {
        self.rng.borrow_mut().u32(..KEYS)
    }

    async fn client(&self, cache: &Shards) {
        while !self.ends.get() {
            if let Err(error) = self.step(cache, self.draw()).await {
                self.errors.borrow_mut().push(error);
            }
            self.sleep(PAUSE).await;
        }
    }

    async fn step(&self, cache: &Shards, key: u32) -> Result<(), String> {
        let name = name_of(key);
        let draw = self.rng.borrow_mut().u32(..40);
        if draw == 0 {
            let version = self.oracle.writes(key);
            cache.delete(&name).await.map_err(|error| error.to_string())?;
            self.oracle.wrote(key, version, true);
            return Ok(());
        }
        if draw > 4 {
            let (begun, at) = (self.oracle.tick(), self.clock.monotonic());
            let found = cache.get(&name).await.map_err(|error| error.to_string())?;
            self.count(key, found.is_some(), self.clock.monotonic() - at);
            if let Some(value) = found {
                let version = u32::from_le_bytes(value[..4].try_into().unwrap());
                return self.oracle.found(key, version, begun);
            }
            self.sleep(SOURCE).await;
        }
        let version = self.oracle.writes(key);
        let mut value = vec![7; VALUE_BYTES];
        value[..4].copy_from_slice(&version.to_le_bytes());
        cache.set(&name, &value, None).await.map_err(|error| error.to_string())?;
        self.oracle.wrote(key, version, true);
        self.seen.borrow_mut().done += 1;
        Ok(())
    }

    fn count(&self, key: u32, hit: bool, took: Duration) {
        let seen = &mut *self.seen.borrow_mut();
        seen.done += u64::from(hit);
        let is_of_victim = self.is_of_victim[key as usize];
        let of = is_of_victim.then_some(&mut seen.of_victim);
        for looks in [&mut seen.all].into_iter().chain(of) {
            looks.all += 1;
            looks.hits += u64::from(hit);
        }
        if !is_of_victim {
            seen.others_us.push(u64::try_from(took.as_micros()).unwrap());
        }
    }
}

pub(super) fn name_of(key: u32) -> Vec<u8> {
    format!("key-{key:06}").into_bytes()
}

/// Waits until the victim has this state.
pub(super) async fn until(load: &Load, cache: &Shards, state: ShardState) {
    while cache.status().shards[VICTIM].state != state {
        load.sleep(LOOK).await;
    }
}

/// Opens a set, and runs `plan` in parallel with its clients, which must not see any error or stale value.
pub(super) fn run(
    clock: &Arc<VirtualClock>,
    (engine, seed): (Engine, u64),
    drives: &[Drive],
    plan: impl AsyncFnOnce(&Load, &Shards),
) {
    let given = drives.iter().map(|it| Some(Arc::clone(it) as Arc<dyn Device>)).collect();
    let options = ShardOptions { upkeep: Upkeep::Callers, ..ShardOptions::default() };
    let open = Shards::open_with(engine.config(), options, given, Arc::clone(clock) as _);
    let cache = RefCell::new(None);
    let mut opening = Executor::new(Arc::clone(clock));
    opening.spawn(async { *cache.borrow_mut() = Some(open.await.unwrap()) });
    opening.run().unwrap();
    drop(opening);
    let cache = cache.into_inner().unwrap();
    let load = Load::new(clock, seed, &cache);
    let mut executor = Executor::new(Arc::clone(clock));
    executor.spawn_background(cache.upkeep());
    executor.spawn_background(cache.send_demotions());
    (0..CLIENTS).for_each(|_| executor.spawn(load.client(&cache)));
    executor.spawn(async {
        plan(&load, &cache).await;
        load.ends.set(true);
    });
    executor.run().unwrap();
    drop(executor);
    assert_eq!(*load.errors.borrow(), Vec::<String>::new(), "no client sees an error");
}
