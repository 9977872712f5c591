//! Measures what a drive of an array still holds after a clean restart and after a crash, and how long recovery takes.

use std::sync::Arc;
use std::time::Duration;

use larder::{ArrayConfig, Clock, Larder, VirtualClock, block_on};
use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
use larder_device::{Device, Payload};
use larder_workload::generate::record_key;

use super::engine::{Values, engine_alone};
use super::shards::{Speed, drive};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "64,128,256",
    help: "capacities of the drive in MiB, each 48 to 65536",
};
const SETS: Parameter = Parameter {
    name: "sets",
    default: "2",
    help: "SETs and deletes before each end, by the number of records, 0.1 to 100",
};

const RECORD_BYTES: u64 = 32 << 10;
/// Share of the flash that the records fill.
const FILLED: f64 = 0.8;
/// One in this number of changes is a delete.
const DELETES: u32 = 10;
/// The run checks for a stop request after this number of changes.
const STOP_EVERY: u64 = 1 << 12;

pub(in crate::experiment) static ARRAY_CRASH: Experiment = Experiment {
    name: "array-crash",
    title: "what is found after a clean restart and after a crash, and how long the restart takes, by flash",
    reproduces: "BigKV (EuroSys'23): tables of the index are on flash, and the ends of regions list the rest",
    criterion: "a clean restart keeps 99.9 % of what was found, a crash 90 %; nothing is found that was replaced or \
                deleted; a crash reads at most a tenth of the flash",
    parameters: &[FLASH, SETS],
    metrics: &[
        (
            "kept.*",
            "records that are found by those that were found before, by end (clean, crash) and MiB of flash",
        ),
        ("stale.*", "values that had been replaced or deleted and were returned"),
        (
            "open_ms.*",
            "milliseconds of the drive's time until the cache is open, all that it looks up then included",
        ),
        ("read_share.*", "bytes that the opening reads by those of the flash"),
    ],
    references: &[],
    needs: &["kept.clean.64", "kept.crash.64", "read_share.crash.64"],
    measure,
    judge,
};

/// A drive, the cache on it, and the expected content.
struct Rig {
    clock: Arc<VirtualClock>,
    drive: Arc<VirtualTimeDevice<SsdTiming>>,
    cache: Larder,
    values: Values,
    /// By record number: the version stored last, or 0 for none.
    versions: Vec<u64>,
    rng: fastrand::Rng,
    seed: u64,
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let sets = settings.within(SETS.name, 0.1..=100.0)?;
    let mut metrics = Metrics::new();
    for mib in settings.list::<u64>(FLASH.name)? {
        if !(48..=65_536).contains(&mib) {
            return Err(settings.refuse(FLASH.name, &mib.to_string(), "must be 48 to 65536"));
        }
        let mut rig = Rig::new(mib << 20, seed)?;
        rig.load()?;
        for end in ["clean", "crash"] {
            rig.change(sets, monitor)?;
            let (before, _) = rig.count()?;
            let (time, read_bytes) = rig.restart(end == "clean")?;
            let (after, stale) = rig.count()?;
            #[allow(clippy::cast_precision_loss)]
            let values = [
                ("kept", after as f64 / before.max(1) as f64),
                ("stale", stale as f64),
                ("open_ms", time.as_secs_f64() * 1000.0),
                ("read_share", read_bytes as f64 / (mib << 20) as f64),
            ];
            metrics.extend(values.map(|(name, value)| (format!("{name}.{end}.{mib}"), value)));
        }
    }
    Ok(metrics)
}

impl Rig {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn new(bytes: u64, seed: u64) -> Result<Self, Error> {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let drive = Arc::new(drive((bytes, Speed::OnePlane), Payload::Memory, &clock)?);
        let cache = open(&drive, &clock, seed, true)?;
        let records = (bytes as f64 * FILLED / RECORD_BYTES as f64) as usize;
        let values = Values::of_records(usize::try_from(RECORD_BYTES).unwrap_or(usize::MAX));
        let (versions, rng) = (vec![0; records], fastrand::Rng::with_seed(seed));
        Ok(Self { clock, drive, cache, values, versions, rng, seed })
    }

    fn load(&mut self) -> Result<(), Error> {
        (0..self.versions.len()).try_for_each(|record| self.set(record))
    }

    fn set(&mut self, record: usize) -> Result<(), Error> {
        let key = record_key(self.seed, record as u64);
        self.versions[record] = self.rng.u64(1..);
        let value = self.values.of_version(key, self.versions[record]);
        block_on(self.cache.set(&key.to_le_bytes(), &value, None)).map_err(failed)
    }

    /// Sets and deletes `times` times the number of records.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn change(&mut self, times: f64, monitor: &Monitor) -> Result<(), Error> {
        let changes = (self.versions.len() as f64 * times) as u64;
        for number in 0..changes {
            if number.is_multiple_of(STOP_EVERY) && monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            let record = self.rng.usize(..self.versions.len());
            if self.rng.u32(..DELETES) > 0 {
                self.set(record)?;
                continue;
            }
            self.versions[record] = 0;
            let key = record_key(self.seed, record as u64).to_le_bytes();
            block_on(self.cache.delete(&key)).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the number of records found, and how many of them are not the version stored last.
    fn count(&self) -> Result<(u64, u64), Error> {
        let (mut found, mut stale) = (0, 0);
        for (record, version) in (0..).zip(&self.versions) {
            let key = record_key(self.seed, record).to_le_bytes();
            let Some(value) = block_on(self.cache.get(&key)).map_err(failed)? else { continue };
            found += 1;
            stale += u64::from(self.values.version(&value) != *version);
        }
        Ok((found, stale))
    }

    /// Stops the cache and opens it again. Returns how long the opening took and how much it read.
    fn restart(&mut self, cleanly: bool) -> Result<(Duration, u64), Error> {
        if cleanly {
            block_on(self.cache.close()).map_err(failed)?;
        }
        // Dropping the cache writes nothing more, so the flash is as a killed process leaves it. A cache without flash
        // takes its place until the new one is open.
        let nothing = larder::Config { dram_bytes: 8 << 10, ..larder::Config::default() };
        let clock = Arc::clone(&self.clock) as _;
        self.cache = block_on(Larder::open(nothing, None, clock)).map_err(failed)?;
        let (begun, read) = (self.clock.monotonic(), self.drive.stats().host_read_bytes);
        self.cache = open(&self.drive, &self.clock, self.seed, false)?;
        block_on(self.cache.rebuild());
        let read = self.drive.stats().host_read_bytes - read;
        Ok((self.clock.monotonic() - begun, read))
    }
}

fn open(
    drive: &Arc<VirtualTimeDevice<SsdTiming>>,
    clock: &Arc<VirtualClock>,
    seed: u64,
    start_empty: bool,
) -> Result<Larder, Error> {
    let array = ArrayConfig {
        mean_object_bytes: u32::try_from(RECORD_BYTES).unwrap_or(u32::MAX),
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let config = larder::Config { start_empty, ..engine_alone(array, seed) };
    let drive = Some(Arc::clone(drive) as Arc<dyn Device>);
    block_on(Larder::open(config, drive, Arc::clone(clock) as _)).map_err(failed)
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: larder::Error) -> Error {
    Error::run(error.to_string())
}

fn judge(summary: &Summary) -> Judgement {
    let all = |prefix: &str| summary.series(prefix).into_iter().map(|(_, it)| it);
    let clean = lowest(all("kept.clean.").map(|it| it.min));
    let crash = lowest(all("kept.crash.").map(|it| it.min));
    let stale = highest(
        ["clean", "crash"].map(|end| highest(all(&format!("stale.{end}.")).map(|it| it.max))),
    );
    let read = highest(all("read_share.crash.").map(|it| it.max));
    Checks::default()
        .exact(clean >= 0.999, format!("a clean restart keeps {:.2} %", clean * 100.0))
        .exact(crash >= 0.9, format!("a crash {:.2} %", crash * 100.0))
        .shape(stale == 0.0, format!("{stale:.0} stale values"))
        .exact(
            read <= 0.1,
            format!("the opening after a crash reads {:.2} % of the flash", read * 100.0),
        )
        .judge()
}
