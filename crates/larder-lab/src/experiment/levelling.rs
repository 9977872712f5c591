//! Four drives of one set that wear at different rates, with and without levelling across drives, over their years.
//!
//! The first drive has taken the place of a larger one, and has its share of the keys. With `ratio` 4 its media are
//! written about three times as much as those of each other one: a drive with more keys finds fewer of them in its
//! part of DRAM, but rewrites those that are there more often. Days are virtual, and so is the rating: it is such that
//! drives that wear alike would last for exactly the planned days. So the life of the set, until its first drive has
//! reached its rating, is a share of what is possible.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use larder::config::Demotions;
use larder::{
    Clock, Config, Device, LevellingOptions, LocConfig, ShardOptions, ShardState, Shards,
    SocConfig, Upkeep, VirtualClock, block_on,
};
use larder_device::{ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

use super::judge::Checks;
use super::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::Monitor;

const DAYS: Parameter = Parameter {
    name: "days",
    default: "1200",
    help: "planned service of a drive in days, 60 to 3650; a step a day moves 0.28 % of a drive's keys",
};
const OPS: Parameter =
    Parameter { name: "ops", default: "1200", help: "requests a day, 100 to 1000000" };
const RATIO: Parameter = Parameter {
    name: "ratio",
    default: "4",
    help: "keys of the first drive by those of each other one, 1 to 8",
};

const DRIVES: usize = 4;
const DRIVE_BYTES: u64 = 16 << 20;
/// Keys that are asked for; they do not all fit.
const KEYS: u32 = 100_000;
const VALUE_BYTES: usize = 900;
const DAY: Duration = Duration::from_secs(86_400);
/// Days before the drives are as full as they will be, and as many over which the rating is found.
const SETTLING_DAYS: u32 = 60;

pub(super) static DRIVE_LEVELLING: Experiment = Experiment {
    name: "drive-levelling",
    title: "the life of four drives, one of which wears about three times as fast, with keys that move and without",
    reproduces: "arithmetic: at 3 : 1 : 1 : 1 the first of four like drives dies after half of the years that they \
                 could last together",
    criterion: "no wrong value; without levelling at most 0.55 of the possible life, with it at least 0.85; at most \
                0.5 points of hits lost",
    parameters: &[DAYS, OPS, RATIO],
    metrics: &[
        (
            "life.*",
            "days until the first drive has reached its rating, by the planned days: off, on",
        ),
        ("hit.*", "GETs that found their value, by levelling, over the same days: off, on"),
        ("hits_lost", "points of the hit ratio that levelling costs"),
        ("wrong", "values that were not the last one that was set"),
        ("used_off.*", "used part of the rated life at the end, by drive, without levelling"),
        ("used_on.*", "the same with levelling"),
        ("moved", "share of the keys of the first drive that are elsewhere at the end"),
        ("steps", "steps of levelling"),
        ("old_home_gets", "GETs that found a key where it was before it moved, by all"),
    ],
    references: &[],
    needs: &["life.off", "life.on", "hits_lost", "wrong"],
    measure,
    judge,
};

/// The planned days, and the requests a day.
#[derive(Clone, Copy)]
struct Years {
    days: u32,
    ops: u32,
    ratio: u64,
    seed: u64,
}

/// What came of the drives.
struct Lived {
    /// Days until the first one had reached its rating.
    life_days: f64,
    used: Vec<f64>,
    gets: u64,
    hits: u64,
    wrong: u64,
    steps: u32,
    moved: f64,
    old_home_gets: u64,
}

/// A set, and what its clients know.
struct Set {
    cache: Shards,
    drives: Vec<Arc<dyn Device>>,
    clock: Arc<VirtualClock>,
    /// The last version of each key; 0 for none.
    versions: Vec<u32>,
    rng: fastrand::Rng,
    gets: u64,
    hits: u64,
    wrong: u64,
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let years = Years {
        days: settings.within(DAYS.name, 60..=3650)?,
        ops: settings.within(OPS.name, 100..=1_000_000)?,
        ratio: settings.within(RATIO.name, 1..=8)?,
        seed,
    };
    let rated_bytes = rating(years, monitor)?;
    let off = live(years, rated_bytes, false, monitor)?;
    let on = live(years, rated_bytes, true, monitor)?;
    let mut metrics = Metrics::new();
    #[allow(clippy::cast_precision_loss)] // counts of a run
    let hit = |lived: &Lived| lived.hits as f64 / lived.gets.max(1) as f64;
    for (name, lived) in [("off", &off), ("on", &on)] {
        let life = lived.life_days / f64::from(years.days);
        metrics.insert(format!("life.{name}"), life);
        metrics.insert(format!("hit.{name}"), hit(lived));
        for (drive, used) in (1..).zip(&lived.used) {
            metrics.insert(format!("used_{name}.{drive}"), *used);
        }
    }
    metrics.insert("hits_lost".to_owned(), (100.0 * (hit(&off) - hit(&on))).max(0.0));
    #[allow(clippy::cast_precision_loss)]
    metrics.insert("wrong".to_owned(), (off.wrong + on.wrong) as f64);
    metrics.insert("moved".to_owned(), on.moved);
    metrics.insert("steps".to_owned(), f64::from(on.steps));
    #[allow(clippy::cast_precision_loss)]
    metrics.insert("old_home_gets".to_owned(), on.old_home_gets as f64 / on.gets.max(1) as f64);
    Ok(metrics)
}

/// Bytes that a drive bears, such that drives that wear alike last for the planned days.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rating(years: Years, monitor: &Monitor) -> Result<u64, Error> {
    let mut set = Set::open(years)?;
    let mut at = Vec::new();
    for day in 0..2 * SETTLING_DAYS {
        if day == SETTLING_DAYS {
            at = set.media_bytes();
        }
        set.day(years.ops, monitor)?;
    }
    let written: u64 = set.media_bytes().iter().zip(at).map(|(now, before)| now - before).sum();
    let per_day = written as f64 / DRIVES as f64 / f64::from(SETTLING_DAYS);
    Ok((per_day * f64::from(years.days)) as u64)
}

#[allow(clippy::cast_precision_loss)] // bytes of small drives
fn live(years: Years, rated_bytes: u64, is_on: bool, monitor: &Monitor) -> Result<Lived, Error> {
    let mut set = Set::open(years)?;
    for _ in 0..SETTLING_DAYS {
        set.day(years.ops, monitor)?;
    }
    (set.gets, set.hits) = (0, 0);
    let begun = set.media_bytes();
    let used = |set: &Set| -> Vec<f64> {
        let now = set.media_bytes().into_iter().zip(&begun);
        now.map(|(now, before)| (now - before) as f64 / rated_bytes as f64).collect()
    };
    let planned_days = f64::from(years.days);
    let options = LevellingOptions { is_on, planned_days, rated_bytes: Some(rated_bytes) };
    let (mut steps, mut life_days, mut most) = (0, 0.0, 0.0);
    // Hits are counted over the same days with and without levelling.
    let mut counted = (0, 0);
    while most < 1.0 && life_days < 2.0 * planned_days {
        let stepped = block_on(set.cache.level_drives(options)).map_err(refused)?;
        steps += u32::from(stepped.is_some());
        set.day(years.ops, monitor)?;
        let now = used(&set).into_iter().fold(0.0, f64::max);
        // The part of the day until it was worn out.
        life_days += if now > 1.0 { (1.0 - most) / (now - most) } else { 1.0 };
        most = now;
        if 2.0 * life_days <= planned_days {
            counted = (set.gets, set.hits);
        }
    }
    let status = set.cache.status();
    let given = status.moved.iter().filter(|it| it.from == 0);
    let moved: u32 = given.map(|it| u32::from(it.parts)).sum();
    let lived = Lived {
        life_days,
        used: used(&set),
        gets: counted.0,
        hits: counted.1,
        wrong: set.wrong,
        steps,
        moved: f64::from(moved) / 10_000.0,
        old_home_gets: status.old_home_gets,
    };
    block_on(set.cache.close()).map_err(refused)?;
    Ok(lived)
}

impl Set {
    /// Four like drives, of which the first one has taken the place of one that was `ratio` times as large.
    fn open(years: Years) -> Result<Self, Error> {
        let clock = Arc::new(VirtualClock::starting_at(DAY));
        let config = Config {
            dram_bytes: 1 << 20,
            soc: SocConfig { percent: Some(25.0), ..SocConfig::default() },
            loc: LocConfig { region_bytes: Some(256 << 10), ..LocConfig::default() },
            demotions: Demotions::Callers,
            hash_seed: Some(years.seed),
            ..Config::default()
        };
        let options = ShardOptions { upkeep: Upkeep::Callers, ..ShardOptions::default() };
        let sizes = [years.ratio, 1, 1, 1].map(|times| DRIVE_BYTES * times);
        let mut drives = sizes.iter().map(|bytes| drive(*bytes)).collect::<Result<Vec<_>, _>>()?;
        let devices = drives.iter().cloned().map(Some).collect();
        let opened = Shards::open_with(config, options, devices, Arc::clone(&clock) as _);
        let cache = block_on(opened).map_err(refused)?;
        // The devices of a new set are its shards in their order.
        drives[0] = drive(DRIVE_BYTES)?;
        block_on(cache.replace_shard(0, Arc::clone(&drives[0]))).map_err(refused)?;
        let versions = vec![0; KEYS as usize];
        let rng = fastrand::Rng::with_seed(years.seed);
        let set = Self { cache, drives, clock, versions, rng, gets: 0, hits: 0, wrong: 0 };
        set.wait_until_healthy();
        Ok(set)
    }

    fn wait_until_healthy(&self) {
        block_on(async {
            let mut upkeep = pin!(self.cache.upkeep());
            std::future::poll_fn(|context| {
                self.clock.advance_to_next();
                let _runs = upkeep.as_mut().poll(context);
                context.waker().wake_by_ref();
                let shards = self.cache.status().shards;
                match shards.iter().all(|shard| shard.state == ShardState::Healthy) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        });
    }

    /// Bytes that each drive has written to its media.
    fn media_bytes(&self) -> Vec<u64> {
        self.drives.iter().map(|drive| drive.stats().flash_written_bytes()).collect()
    }

    /// A day of requests: half of them set a key, half look one up, and a miss sets it.
    fn day(&mut self, ops: u32, monitor: &Monitor) -> Result<(), Error> {
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        for _ in 0..ops {
            let key = self.key();
            if self.rng.bool() || !self.get(key)? {
                self.set(key)?;
            }
        }
        self.clock.advance_to(self.clock.now() + DAY);
        Ok(())
    }

    /// A key; keys of small numbers are asked for more often.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below the number of keys
    fn key(&mut self) -> u32 {
        let unit = self.rng.f64();
        (unit * unit * f64::from(KEYS)) as u32
    }

    /// Whether the key is there.
    fn get(&mut self, key: u32) -> Result<bool, Error> {
        let found = block_on(self.cache.get(&key.to_le_bytes())).map_err(refused)?;
        self.gets += 1;
        self.hits += u64::from(found.is_some());
        if let Some(found) = &found {
            self.wrong += u64::from(**found != *value(key, self.versions[key as usize]));
        }
        Ok(found.is_some())
    }

    fn set(&mut self, key: u32) -> Result<(), Error> {
        let version = &mut self.versions[key as usize];
        *version += 1;
        let value = value(key, *version);
        block_on(self.cache.set(&key.to_le_bytes(), &value, None)).map(drop).map_err(refused)
    }
}

/// A value that says whose it is.
fn value(key: u32, version: u32) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    value[..4].copy_from_slice(&key.to_le_bytes());
    value[4..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn drive(bytes: u64) -> Result<Arc<dyn Device>, Error> {
    let geometry = Geometry::with_overprovisioning(bytes, 256 << 10, 20.0);
    let geometry = geometry.map_err(|error| Error::run(error.to_string()))?;
    let device = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory);
    Ok(Arc::new(device.map_err(|error| Error::run(error.to_string()))?))
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn refused(error: larder::Error) -> Error {
    Error::run(format!("the set of shards: {error}"))
}

fn judge(summary: &Summary) -> Judgement {
    let value = |metric: &str| summary.mean(metric);
    let (off, on) = (value("life.off"), value("life.on"));
    let lost = value("hits_lost");
    Checks::default()
        .claim(summary.max("wrong") == 0.0, "no wrong value")
        .shape(on > 1.2 * off, format!("life {on:.2} of the possible, {off:.2} without"))
        .exact(on >= 0.85, format!("life with levelling {on:.2}, at least 0.85"))
        .exact(off <= 0.55, format!("life without levelling {off:.2}, at most 0.55"))
        .exact(lost <= 0.5, format!("{lost:.2} points of hits lost, at most 0.5"))
        .judge()
}
