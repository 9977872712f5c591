//! What clients of an array see when one drive dies, comes back, and dies again, under load and in virtual time.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use larder::{ArrayConfig, Clock, Device, ErrorKind, ShardState, VirtualClock};
use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
use larder_device::{Condition, DegradedDevice, Payload};
use larder_sim::executor::Executor;

use super::clients::{Store, stalled};
use super::engine::{EngineShards, engine_alone};
use super::shards::{Speed, drive};
use super::victims::{Clients, SliceResult};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::highest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const SHARD_MIB: Parameter = Parameter {
    name: "shard_mib",
    default: "256",
    help: "capacity of each of the eight drives in MiB, 48 to 65536",
};
const CLIENTS: Parameter = Parameter {
    name: "clients",
    default: "64",
    help: "clients, each with keys of its own, 1 to 4096",
};
const SECONDS: Parameter = Parameter {
    name: "seconds",
    default: "2",
    help: "seconds of virtual time that each part takes, 0.05 to 3600",
};

const SHARDS: u64 = 8;
const VICTIM: usize = 3;
/// Drives of parity in RAID 6 of the same number of drives, for comparison.
const PARITY: u64 = 2;
const RECORD_BYTES: u64 = 32 << 10;
/// Share of the flash that the records fill.
const FILLED: f64 = 0.8;
/// Number of slices in a part of the run.
const SLICES: u32 = 4;
/// Interval at which the run checks whether a shard is healthy.
const LOOK: Duration = Duration::from_millis(5);
/// A refill fails if it takes longer than this number of parts, or of seconds if a part is shorter than one.
const REFILLS_MAX: u32 = 100;
const PARTS: [&str; 5] = ["usual", "dead", "back", "dead_again", "back_again"];

pub(in crate::experiment) static ARRAY_FAILURE: Experiment = Experiment {
    name: "array-failure",
    title: "an array one of whose eight drives dies, comes back, and dies again, beside RAID 6",
    reproduces: "BigKV (EuroSys'23): no parity, failures are handled when they happen; its baseline is RAID 6",
    criterion: "no client sees an error, none a stale value; throughput without one of eight drives at most 1/8 and \
                10 % lower; p99 of GETs of the others within 10 %; as much is found as before when the drive is \
                refilled; all of the flash is used",
    parameters: &[SHARD_MIB, CLIENTS, SECONDS],
    metrics: &[
        (
            "kops.*",
            "thousands of operations a second, by part: usual, dead, back, dead_again, back_again",
        ),
        ("hit.*", "GETs that found their value, by part"),
        (
            "others_p99_us.*",
            "99 % of the GETs that found a value on another drive take at most so long",
        ),
        ("set_p99_us.*", "99 % of the SETs take at most so long, by part"),
        ("delete_p99_us.*", "99 % of the deletes"),
        (
            "refill_s.*",
            "seconds until the drive that is back is refilled, the first and the second time",
        ),
        (
            "kops_at.*",
            "thousands of operations a second, by slice of the run, from 1 on: four for each part",
        ),
        ("hit_at.*", "GETs that found their value, by slice"),
        ("p99_us_at.*", "99 % of all GETs, by slice"),
        ("errors", "calls of clients that failed"),
        ("stale", "values that had been replaced or deleted and were returned"),
        ("refilled_mib", "MiB that refills copied"),
        ("capacity_share.*", "share of the flash that values can take: array, raid6"),
        (
            "raid6_hit",
            "hit ratio of as many drives with the capacity of RAID 6, when nothing fails",
        ),
    ],
    references: &[],
    needs: &["kops.usual", "kops.dead", "kops.dead_again", "hit.back_again", "errors", "stale"],
    measure,
    judge,
};

type Drive = DegradedDevice<VirtualTimeDevice<SsdTiming>>;

/// A set of shards and its clients.
struct Field {
    clock: Arc<VirtualClock>,
    drives: Vec<Arc<Drive>>,
    shards: EngineShards,
    clients: Clients,
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let shard_bytes = settings.within::<u64>(SHARD_MIB.name, 48..=65_536)? << 20;
    let clients: u64 = settings.within(CLIENTS.name, 1..=4096)?;
    let part = Duration::from_secs_f64(settings.within(SECONDS.name, 0.05..=3600.0)?);
    let mut metrics = Metrics::new();
    let records = records(shard_bytes);
    let field = Field::new(shard_bytes, (records, clients), seed)?;
    let refills = field.fail_twice(part, &mut metrics, monitor)?;
    for (time, refill) in (1..).zip(refills) {
        metrics.insert(format!("refill_s.{time}"), refill.as_secs_f64());
    }
    #[allow(clippy::cast_precision_loss)]
    let refilled_mib = field.shards.cache().status().refilled_bytes as f64 / f64::from(1 << 20);
    metrics.insert("refilled_mib".to_owned(), refilled_mib);
    drop(field);
    let parity_bytes = shard_bytes / SHARDS * (SHARDS - PARITY);
    let raid6 = Field::new(parity_bytes, (records, clients), seed)?;
    let seen = raid6.watch_alone(part, monitor)?;
    metrics.insert("raid6_hit".to_owned(), seen.hit_ratio());
    #[allow(clippy::cast_precision_loss)]
    let share = |bytes: u64| bytes as f64 / shard_bytes as f64;
    metrics.insert("capacity_share.array".to_owned(), share(shard_bytes));
    metrics.insert("capacity_share.raid6".to_owned(), share(parity_bytes));
    Ok(metrics)
}

/// Number of records of all clients.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn records(shard_bytes: u64) -> u64 {
    ((shard_bytes * SHARDS) as f64 * FILLED / RECORD_BYTES as f64) as u64
}

impl Field {
    /// Eight drives that hold all records.
    fn new(shard_bytes: u64, (records, clients): (u64, u64), seed: u64) -> Result<Self, Error> {
        // Epochs of a set derive from the time, and no epoch may be zero.
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let new = |_| {
            let drive = drive((shard_bytes, Speed::OnePlane), Payload::Memory, &clock)?;
            Ok(Arc::new(DegradedDevice::new(drive, Arc::clone(&clock) as Arc<dyn Clock>)))
        };
        let drives: Vec<Arc<Drive>> = (0..SHARDS).map(new).collect::<Result<_, Error>>()?;
        let given = drives.iter().map(|it| Some(Arc::clone(it) as Arc<dyn Device>)).collect();
        let array = ArrayConfig {
            mean_object_bytes: u32::try_from(RECORD_BYTES).unwrap_or(u32::MAX),
            ttl_groups: false,
            ..ArrayConfig::default()
        };
        let record_bytes = usize::try_from(RECORD_BYTES).unwrap_or(usize::MAX);
        let shards = EngineShards::open(given, engine_alone(array, seed), record_bytes, &clock)?;
        let clients = Clients::new(clients, records, VICTIM, seed);
        let field = Self { clock, drives, shards, clients };
        let mut executor = Executor::new(Arc::clone(&field.clock));
        field.shards.serve(&mut executor);
        for client in field.clients.each() {
            executor.spawn(client.load(&field.shards, &field.clock));
        }
        executor.run().map_err(stalled)?;
        drop(executor);
        Ok(field)
    }

    /// Runs `plan` while the clients run.
    fn play<'a>(
        &'a self,
        plan: impl Future<Output = Result<(), Error>> + 'a,
        monitor: &Monitor,
    ) -> Result<(), Error> {
        let ended: RefCell<Option<Result<(), Error>>> = RefCell::new(None);
        let ends = Cell::new(false);
        let mut executor = Executor::new(Arc::clone(&self.clock));
        self.shards.serve(&mut executor);
        for client in self.clients.each() {
            executor.spawn(
                client.run(&self.shards, &self.clock, || ends.get() || monitor.is_stopped()),
            );
        }
        executor.spawn(async {
            *ended.borrow_mut() = Some(plan.await);
            ends.set(true);
        });
        executor.run().map_err(stalled)?;
        drop(executor);
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        ended.into_inner().unwrap_or_else(|| Err(Error::run("it has not ended")))
    }

    async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }

    /// The drive dies and comes back, twice. Returns how long the refills took.
    fn fail_twice(
        &self,
        part: Duration,
        metrics: &mut Metrics,
        monitor: &Monitor,
    ) -> Result<Vec<Duration>, Error> {
        let mut refills = Vec::new();
        let plan = async {
            // The first part is not measured: popular keys settle into their places.
            self.sleep(part).await;
            for (number, name) in PARTS.into_iter().enumerate() {
                match name {
                    "usual" => {}
                    "dead" | "dead_again" => {
                        self.drives[VICTIM].becomes(Condition::Failing);
                    }
                    _ => {
                        let from = self.clock.monotonic();
                        self.come_back(part).await?;
                        refills.push(self.clock.monotonic() - from);
                    }
                }
                self.watch_part(number, part, metrics).await;
            }
            Ok(())
        };
        self.play(plan, monitor)?;
        let (errors, stale) = self.clients.wrong();
        metrics.insert("errors".to_owned(), errors);
        metrics.insert("stale".to_owned(), stale);
        Ok(refills)
    }

    /// The same drive returns with its old content and is refilled.
    async fn come_back(&self, part: Duration) -> Result<(), Error> {
        self.drives[VICTIM].becomes(Condition::Well);
        let drive = Arc::clone(&self.drives[VICTIM]) as Arc<dyn Device>;
        let end = self.clock.monotonic() + part.max(Duration::from_secs(1)) * REFILLS_MAX;
        // Requests that were in flight when the drive died may not have ended yet; retry.
        loop {
            let replaced = self.shards.cache().replace_shard(VICTIM, Arc::clone(&drive)).await;
            match replaced {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::InUse && self.clock.monotonic() < end => {
                    self.sleep(LOOK).await;
                }
                Err(error) => return Err(Error::run(error.to_string())),
            }
        }
        while self.shards.cache().status().shards[VICTIM].state != ShardState::Healthy {
            if self.clock.monotonic() > end {
                return Err(Error::run("the drive that is back was not refilled"));
            }
            self.sleep(LOOK).await;
        }
        Ok(())
    }

    /// Measures a part of the run, beginning now.
    async fn watch_part(&self, number: usize, part: Duration, metrics: &mut Metrics) {
        self.clients.take_seen();
        let mut whole = SliceResult::default();
        for slice in 1..=SLICES {
            self.sleep(part / SLICES).await;
            let seen = self.clients.take_seen();
            let at = u32::try_from(number).unwrap_or(0) * SLICES + slice;
            metrics.insert(format!("kops_at.{at}"), seen.kops(part / SLICES));
            metrics.insert(format!("hit_at.{at}"), seen.hit_ratio());
            let p99 = seen.all.quantile_us(0.99).unwrap_or(0.0);
            metrics.insert(format!("p99_us_at.{at}"), p99);
            whole.add(&seen);
        }
        let name = PARTS[number];
        metrics.insert(format!("kops.{name}"), whole.kops(part));
        metrics.insert(format!("hit.{name}"), whole.hit_ratio());
        let p99 = whole.others.quantile_us(0.99).unwrap_or(0.0);
        metrics.insert(format!("others_p99_us.{name}"), p99);
        let p99 = whole.sets.quantile_us(0.99).unwrap_or(0.0);
        metrics.insert(format!("set_p99_us.{name}"), p99);
        let p99 = whole.deletes.quantile_us(0.99).unwrap_or(0.0);
        metrics.insert(format!("delete_p99_us.{name}"), p99);
    }

    /// What clients see when no drive fails.
    fn watch_alone(&self, part: Duration, monitor: &Monitor) -> Result<SliceResult, Error> {
        let mut seen = SliceResult::default();
        let plan = async {
            self.sleep(part).await;
            self.clients.take_seen();
            self.sleep(part).await;
            seen = self.clients.take_seen();
            Ok(())
        };
        self.play(plan, monitor)?;
        Ok(seen)
    }
}

fn judge(summary: &Summary) -> Judgement {
    let of = |metric: &str, part: &str| summary.mean(&format!("{metric}.{part}"));
    let (errors, stale) = (summary.max("errors"), summary.max("stale"));
    let dead = ["dead", "dead_again"];
    let dip = highest(dead.map(|part| 1.0 - of("kops", part) / of("kops", "usual")));
    let slower = highest(dead.map(|part| of("others_p99_us", part) / of("others_p99_us", "usual")));
    let (usual, back) = (of("hit", "usual"), of("hit", "back_again"));
    Checks::default()
        .shape(errors == 0.0, format!("{errors:.0} errors"))
        .shape(stale == 0.0, format!("{stale:.0} stale values"))
        .exact(
            dip <= 1.0 / 8.0 + 0.1,
            format!("throughput without one drive {:.1} % lower", dip * 100.0),
        )
        .exact(slower <= 1.1, format!("p99 of GETs of the others {:+.1} %", (slower - 1.0) * 100.0))
        .exact(
            back >= usual - 0.02,
            format!("hit ratio {usual:.3} before, {back:.3} when the drive was refilled twice"),
        )
        .exact(
            summary.mean("capacity_share.array") == 1.0,
            format!(
                "all of the flash is used; RAID 6 leaves {:.0} %, and a hit ratio of {:.3}",
                summary.mean("capacity_share.raid6") * 100.0,
                summary.mean("raid6_hit")
            ),
        )
        .judge()
}
