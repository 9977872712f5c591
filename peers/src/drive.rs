//! Clients: threads on a cache in memory, tasks on a hybrid one. Both are look-aside: a get that misses is followed by
//! a set.

use std::sync::Arc;
use std::time::Instant;

use larder_workload::Latencies;

use crate::item::Item;
use crate::stream::{Op, Stream};
use crate::system::{DramCache, HybridCache};
use crate::workload::{Source, Workload};

/// In memory, one in this number of operations is timed, because the clock costs as much as a hit. On flash, all are.
const TIMED_OPS: u64 = 16;

/// The counters of clients.
pub(crate) struct Tally {
    /// Operations of the stream. A set after a miss is not one of them.
    pub(crate) ops: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    /// Bytes of keys and values that were set, including after misses.
    pub(crate) set_bytes: u64,
    pub(crate) get_latencies: Latencies,
    pub(crate) set_latencies: Latencies,
}

impl Default for Tally {
    fn default() -> Self {
        // Coarse histograms, because each client has its own and they count in the resident memory that is measured.
        let (get_latencies, set_latencies) = (Latencies::coarse(), Latencies::coarse());
        Self { ops: 0, gets: 0, hits: 0, set_bytes: 0, get_latencies, set_latencies }
    }
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.gets += other.gets;
        self.hits += other.hits;
        self.set_bytes += other.set_bytes;
        self.get_latencies.merge(&other.get_latencies);
        self.set_latencies.merge(&other.set_latencies);
    }

    fn got(&mut self, hit: bool, began: Option<Instant>) {
        self.gets += 1;
        self.hits += u64::from(hit);
        if let Some(began) = began {
            self.get_latencies.record(began.elapsed());
        }
    }

    fn set(&mut self, item: &Item, began: Option<Instant>) {
        self.set_bytes += item.bytes();
        if let Some(began) = began {
            self.set_latencies.record(began.elapsed());
        }
    }
}

/// The operations of a phase.
#[derive(Clone)]
pub(crate) struct Phase {
    pub(crate) source: Arc<Source>,
    pub(crate) set_percent: u32,
    pub(crate) seed: u64,
    /// 0 is warm-up, 1 is the measurement.
    pub(crate) number: u64,
    pub(crate) clients: usize,
    /// Operations of all clients together.
    pub(crate) ops: u64,
}

impl Phase {
    pub(crate) fn warm(
        workload: &Workload,
        source: &Arc<Source>,
        clients: usize,
        seed: u64,
    ) -> Self {
        let (source, set_percent) = (Arc::clone(source), workload.set_percent);
        Self { source, set_percent, seed, number: 0, clients, ops: workload.warm_ops }
    }

    pub(crate) fn measured(&self, ops: u64) -> Self {
        Self { number: 1, ops, ..self.clone() }
    }

    fn stream(&self, client: usize) -> Stream {
        Stream::new(&self.source, self.set_percent, self.seed, self.number, client)
    }

    fn ops_of(&self, client: usize) -> u64 {
        let clients = self.clients as u64;
        self.ops / clients + u64::from((client as u64) < self.ops % clients)
    }
}

/// Sets items one by one.
pub(crate) fn fill<C: DramCache>(
    cache: &C,
    items: impl Iterator<Item = Item>,
) -> Result<(), String> {
    let mut room = Vec::new();
    for item in items {
        cache.set(&item, item.value(&mut room))?;
    }
    Ok(())
}

/// Runs a phase on threads.
pub(crate) fn on_threads<C: DramCache>(cache: &C, phase: &Phase) -> Result<Tally, String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..phase.clients)
            .map(|client| scope.spawn(move || thread(cache, phase, client)))
            .collect();
        let mut all = Tally::default();
        for thread in threads {
            all.add(&thread.join().map_err(|_| "a client panicked".to_owned())??);
        }
        Ok(all)
    })
}

fn thread<C: DramCache>(cache: &C, phase: &Phase, client: usize) -> Result<Tally, String> {
    let (mut stream, mut tally, mut room) = (phase.stream(client), Tally::default(), Vec::new());
    for op in 0..phase.ops_of(client) {
        let is_timed = op.is_multiple_of(TIMED_OPS);
        let timed = || is_timed.then(Instant::now);
        let drawn = stream.draw();
        if let Op::Get(item) = drawn {
            let began = timed();
            let hit = cache.get(&item)?;
            tally.got(hit, began);
            if hit {
                continue;
            }
        }
        let (Op::Get(item) | Op::Set(item)) = drawn;
        let value = item.value(&mut room);
        let began = timed();
        cache.set(&item, value)?;
        tally.set(&item, began);
    }
    tally.ops = phase.ops_of(client);
    Ok(tally)
}

/// Runs a phase on tasks of the current runtime.
pub(crate) async fn on_tasks<C: HybridCache>(
    cache: &Arc<C>,
    phase: &Phase,
) -> Result<Tally, String> {
    let tasks: Vec<_> = (0..phase.clients)
        .map(|client| {
            let (cache, phase) = (Arc::clone(cache), phase.clone());
            tokio::spawn(async move { task(&*cache, &phase, client).await })
        })
        .collect();
    let mut all = Tally::default();
    for task in tasks {
        all.add(&task.await.map_err(|_| "a client panicked".to_owned())??);
    }
    Ok(all)
}

async fn task<C: HybridCache>(cache: &C, phase: &Phase, client: usize) -> Result<Tally, String> {
    let (mut stream, mut tally, mut room) = (phase.stream(client), Tally::default(), Vec::new());
    for _ in 0..phase.ops_of(client) {
        let drawn = stream.draw();
        if let Op::Get(item) = drawn {
            let began = Instant::now();
            let hit = cache.get(&item).await?;
            tally.got(hit, Some(began));
            if hit {
                continue;
            }
        }
        let (Op::Get(item) | Op::Set(item)) = drawn;
        let value = item.value(&mut room);
        let began = Instant::now();
        cache.set(&item, value).await?;
        tally.set(&item, Some(began));
    }
    tally.ops = phase.ops_of(client);
    Ok(tally)
}
