//! Closed-loop clients of an array in virtual time: each sends a request, waits for the answer, and sends the next.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use larder_device::{Clock, VirtualClock};
use larder_sim::executor::{Executor, Stalled};
use larder_workload::generate::{GeneratorOptions, preset, record_key};
use larder_workload::{Latencies, Op, Request, RequestSource};

use super::index::{ValueIndex, spread};
use super::shards::{Shard, Speed, Values};
use crate::Error;
use crate::replay::Monitor;

/// Mixes a key again, only to choose its shard.
const SHARD_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// An array and the load of its clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) shards: u64,
    /// Bytes of a shard.
    pub(super) shard_bytes: u64,
    /// The speed of its drive.
    pub(super) speed: Speed,
    pub(super) value_bytes: u64,
    pub(super) records: u64,
    pub(super) clients: u64,
    /// Number of operations. Only the second half is measured.
    pub(super) ops: u64,
    /// Mean pause between an answer and the next request.
    pub(super) pause_ns: f64,
    /// A generator with its parameters, except for the number of records.
    pub(super) workload: &'a str,
    pub(super) seed: u64,
}

/// What the clients measured in the second half.
#[derive(Debug, Default)]
pub(super) struct ClientResult {
    pub(super) ops: u64,
    pub(super) seconds: f64,
    /// Of GETs and SETs together.
    pub(super) all: Times,
    pub(super) gets: Times,
    pub(super) sets: Times,
    pub(super) hits: u64,
}

/// Times of operations, from the client's call to its answer.
#[derive(Debug, Default)]
pub(super) struct Times {
    distribution: Latencies,
    sum_ns: u64,
}

impl Times {
    fn add(&mut self, took: Duration) {
        self.distribution.record(took);
        self.sum_ns += u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    }

    fn count(&self) -> u64 {
        self.distribution.count()
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / 1000.0 / self.count().max(1) as f64
    }

    /// A quantile, or `None` if there was no operation.
    pub(super) fn quantile_us(&self, share: f64) -> Option<f64> {
        self.distribution.quantile_us(share)
    }
}

impl ClientResult {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn per_s(&self) -> f64 {
        self.ops as f64 / self.seconds
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.count().max(1) as f64
    }
}

/// The store from which clients read values.
pub(super) trait Store {
    /// Looks up a key. Returns whether its value was found.
    async fn get(&self, key: u64) -> Result<bool, Error>;

    /// Stores the value of a key. A `ttl_s` of 0 means no expiry.
    async fn set(&self, key: u64, ttl_s: u32) -> Result<(), Error>;

    /// Stores a value after a miss.
    async fn fill(&self, key: u64, ttl_s: u32) -> Result<(), Error> {
        self.set(key, ttl_s).await
    }

    /// Starts the background work of the store.
    fn serve<'a>(&'a self, _executor: &mut Executor<'a>) {}
}

impl Store for Vec<Shard> {
    async fn get(&self, key: u64) -> Result<bool, Error> {
        self[of(key, self.len() as u64)].get(key).await
    }

    /// The models have no time: nothing expires.
    async fn set(&self, key: u64, _: u32) -> Result<(), Error> {
        self[of(key, self.len() as u64)].set(key).await
    }

    fn serve<'a>(&'a self, executor: &mut Executor<'a>) {
        self.iter().for_each(|shard| executor.spawn_background(shard.end_writes()));
    }
}

/// Fills the drives and their indexes, then runs the clients. `index` makes the index of each shard.
pub(super) fn play(
    load: Load<'_>,
    tables: u64,
    index: impl Fn() -> Box<dyn ValueIndex>,
    monitor: &Monitor,
) -> Result<ClientResult, Error> {
    let clock = Arc::new(VirtualClock::default());
    let values = Values { bytes: load.value_bytes, count: load.records / load.shards };
    let new = |_| Shard::new((load.shard_bytes, load.speed), values, tables, index(), &clock);
    let shards: Vec<Shard> = (0..load.shards).map(new).collect::<Result<_, _>>()?;
    for record in 0..load.records {
        let key = record_key(load.seed, record);
        shards[of(key, load.shards)].load(key);
    }
    let failed = RefCell::new(None);
    let mut executor = Executor::new(Arc::clone(&clock));
    for shard in &shards {
        executor.spawn(async {
            if let Err(error) = shard.fill().await {
                failed.borrow_mut().get_or_insert(error);
            }
        });
    }
    executor.run().map_err(stalled)?;
    drop(executor);
    failed.into_inner().map_or(Ok(()), Err)?;
    ask(load, &shards, &clock, monitor)
}

/// Runs the clients on a store that has all values.
pub(super) fn ask(
    load: Load<'_>,
    store: &impl Store,
    clock: &Arc<VirtualClock>,
    monitor: &Monitor,
) -> Result<ClientResult, Error> {
    let Load { records, ops, seed, workload, .. } = load;
    let name = format!("{workload},records={records}");
    let source = preset(&name, GeneratorOptions { requests: ops, span_requests: None, seed })?;
    let field = Field {
        store,
        clock,
        load,
        monitor,
        state: RefCell::new(State {
            source,
            rng: fastrand::Rng::with_seed(seed),
            begun: 0,
            from: Duration::ZERO,
            seen: ClientResult::default(),
            error: None,
        }),
    };
    let mut executor = Executor::new(Arc::clone(clock));
    store.serve(&mut executor);
    for _ in 0..load.clients {
        executor.spawn(async { field.note(field.client().await) });
    }
    executor.run().map_err(stalled)?;
    drop(executor);
    let end = clock.now();
    let State { from, mut seen, error, .. } = field.state.into_inner();
    seen.seconds = (end - from).as_secs_f64();
    error.map_or(Ok(seen), Err)
}

#[allow(clippy::needless_pass_by_value)] // for map_err
pub(super) fn stalled(stalled: Stalled) -> Error {
    Error::run(format!("virtual time: {stalled}"))
}

/// Returns the shard of a key.
fn of(key: u64, shards: u64) -> usize {
    usize::try_from(spread(key.wrapping_mul(SHARD_MIX).rotate_left(32), shards)).unwrap_or(0)
}

/// State shared by all clients.
struct Field<'a, S> {
    store: &'a S,
    clock: &'a VirtualClock,
    load: Load<'a>,
    monitor: &'a Monitor,
    state: RefCell<State>,
}

struct State {
    source: Box<dyn RequestSource>,
    rng: fastrand::Rng,
    begun: u64,
    /// The time at which the second half began.
    from: Duration,
    seen: ClientResult,
    error: Option<Error>,
}

impl<S: Store> Field<'_, S> {
    fn note(&self, ended: Result<(), Error>) {
        if let Err(error) = ended {
            self.state.borrow_mut().error.get_or_insert(error);
        }
    }

    async fn client(&self) -> Result<(), Error> {
        loop {
            let pause = self.pause();
            self.clock.sleep_until(self.clock.now() + pause).await;
            let Some((Request { key, op, ttl_s, .. }, counts)) = self.next()? else {
                return Ok(());
            };
            let asked = self.clock.now();
            let found = match op {
                Op::Get => self.store.get(key).await?,
                Op::Set | Op::Delete => {
                    self.store.set(key, ttl_s).await?;
                    true
                }
            };
            if counts {
                self.count(op, found, self.clock.now() - asked);
            }
            // A client fills the cache after a miss.
            if !found {
                self.store.fill(key, ttl_s).await?;
            }
        }
    }

    /// Returns the next request, and whether it is measured.
    fn next(&self) -> Result<Option<(Request, bool)>, Error> {
        let mut state = self.state.borrow_mut();
        if state.error.is_some() {
            return Ok(None);
        }
        if state.begun.is_multiple_of(4096) && self.monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        if state.begun == self.load.ops / 2 {
            state.from = self.clock.now();
        }
        state.begun += 1;
        let counts = state.begun > self.load.ops / 2;
        Ok(state.source.next_request()?.map(|request| (request, counts)))
    }

    fn count(&self, op: Op, found: bool, took: Duration) {
        let seen = &mut self.state.borrow_mut().seen;
        seen.ops += 1;
        seen.all.add(took);
        match op {
            Op::Get => {
                seen.gets.add(took);
                seen.hits += u64::from(found);
            }
            Op::Set | Op::Delete => seen.sets.add(took),
        }
    }

    /// Exponentially distributed, so that the clients do not run in lockstep.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
    fn pause(&self) -> Duration {
        let share = -(1.0 - self.state.borrow_mut().rng.f64()).ln();
        Duration::from_nanos((share * self.load.pause_ns) as u64)
    }
}
