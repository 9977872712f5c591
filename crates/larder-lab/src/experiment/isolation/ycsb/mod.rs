//! LevelDB on vSSDs of every kind, under YCSB's workloads.
//!
//! LevelDB runs in memory, at once and in order, and its steps on blocks are recorded. They are then played on the
//! drive under its clock: several clients of one instance, and the thread that compacts, work beside one another.
//!
//! | module | what it is |
//! |---|---|
//! | `workload` | the operations of YCSB |
//! | `recorded` | blocks in memory that record what is done with them |
//! | `store` | LevelDB on such blocks, and the load on it |
//! | `places` | where the bytes of recorded blocks lie on a vSSD |
//! | `thread` | steps on the drive, one after the other |
//! | `instance` | the clients of a LevelDB, and its compactions |
//! | `play` | instances beside one another |

mod instance;
mod places;
mod play;
mod recorded;
mod store;
mod thread;
mod workload;

use larder_ssd::timed::{DriveTiming, NandTiming, open_channel};

use super::drive::{Drive, FOUR_PLANES, Kind};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;
use instance::OwnTimes;
use play::{Instances, Load, WorkloadResult};
use workload::WORKLOADS;

const RECORDS: Parameter = Parameter {
    name: "records",
    default: "8000",
    help: "records of 1 KB that each instance has at first, 100 to 1000000; the paper has 32 GB",
};
const OPS: Parameter = Parameter {
    name: "ops",
    default: "4000",
    help: "operations of each instance and workload that are measured, 100 to 100000000, behind as many to begin \
           with, and ten times as many of b and d, which seldom write; the paper has 50 million",
};
const OP_US: Parameter = Parameter {
    name: "op_us",
    default: "20",
    help: "microseconds that an operation takes beside the drive, 0 to 10000; LevelDB in memory makes some 40000 a \
           second",
};
const DELAY_US: Parameter = Parameter {
    name: "delay_us",
    default: "1000",
    help: "microseconds by which LevelDB delays a write while compactions are behind, 0 to 100000; LevelDB has 1000",
};
const INSTANCES: Parameter =
    Parameter { name: "instances", default: "2", help: "instances of LevelDB, 2 or 4 or both" };

const CLIENTS: Parameter = Parameter {
    name: "clients",
    default: "32",
    help: "clients of an instance at most, 1 to 256: with own channels from 4 on twice as many, while they make 5 % \
           more operations; the other kinds have as many",
};

const PAPER: &str = "section 4.2: two instances of LevelDB under YCSB";

const fn paper(metric: &'static str, value: f64) -> Reference {
    Reference::published(metric, value, PAPER)
}

const fn glue(metric: &'static str, value: f64) -> Reference {
    Reference::published(
        metric,
        value,
        "section 3: lines of LevelDB and of vLFS that call the vSSD",
    )
}

pub(in crate::experiment) static YCSB: Experiment = Experiment {
    name: "ycsb",
    title: "LevelDB on vSSDs: what instances have of their drive beside others, by kind",
    reproduces: "FlashBlox (FAST'17), section 4.2: LevelDB under YCSB A to F on channel-, die- and software-isolated \
                 vSSDs",
    criterion: "two instances: throughput and p99 with own dies and with limits of bytes, by those with own channels, \
                are two thirds to 1.5 times the paper's; own channels are no worse than own dies and than limits, \
                within 5 %",
    parameters: &[RECORDS, OPS, OP_US, DELAY_US, CLIENTS, INSTANCES, FOUR_PLANES],
    metrics: &[
        (
            "kops.*",
            "thousands of operations a second of all instances, by their number, kind of vSSD (channel, die, \
             software, bucket, none), and workload (a to f)",
        ),
        ("clients.*", "clients of each instance"),
        ("p99_us.*", "99 % of the operations of all instances take at most so long"),
        (
            "throughput_gain.*",
            "throughput with own channels by that with this kind, geometric mean of a to f",
        ),
        ("p99_gain.*", "p99 with this kind by that with own channels, geometric mean of a to f"),
        ("glue_lines", "lines of code between LevelDB and blocks, tests and comments left out"),
    ],
    references: &[
        paper("throughput_gain.2.die", 1.3),
        paper("throughput_gain.2.bucket", 1.6),
        paper("p99_gain.2.die", 1.7),
        paper("p99_gain.2.bucket", 2.6),
        glue("glue_lines", 38.0),
    ],
    needs: &[
        "throughput_gain.2.die",
        "throughput_gain.2.bucket",
        "p99_gain.2.die",
        "p99_gain.2.bucket",
    ],
    measure,
    judge,
};

/// Kinds, ordered from the least sharing to the most.
const KINDS: [Kind; 5] = [Kind::Channel, Kind::Die, Kind::Software, Kind::Bucket, Kind::Shared];
/// Blocks are slices of the drive's blocks, short because the data set is small: 256 KiB on a channel of dies of four
/// planes, as long as a table. The erase time is scaled down by the same ratio.
const BLOCK_STRIPES: u32 = 1;
const BLOCKS_PER_DIE: u32 = 2048;

/// A drive with a channel of four dies for each instance, so that every kind gives each instance the same amount.
fn drive(instances: u32, settings: &Settings) -> Result<Drive, Error> {
    let base = open_channel();
    let planes = settings.within(FOUR_PLANES.name, 1..=4)?;
    let erase_ns =
        base.nand.erase_ns * u64::from(BLOCK_STRIPES) / u64::from(base.nand.block_stripes);
    let nand = NandTiming { planes, block_stripes: BLOCK_STRIPES, erase_ns, ..base.nand };
    Drive::of(DriveTiming { channels: instances, nand, ..base }, BLOCKS_PER_DIE)
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let load = Load {
        records: settings.within(RECORDS.name, 100..=1_000_000)?,
        ops: settings.within(OPS.name, 100..=100_000_000)?,
        times: OwnTimes {
            op_ns: settings.within(OP_US.name, 0..=10_000)? * 1000,
            delay_ns: settings.within(DELAY_US.name, 0..=100_000)? * 1000,
        },
        clients: settings.within(CLIENTS.name, 1..=256)?,
        seed: seed * 100,
    };
    for instances in settings.list::<u32>(INSTANCES.name)? {
        if ![2, 4].contains(&instances) {
            let complaint = "must be 2, 4 or both";
            return Err(settings.refuse(INSTANCES.name, settings.text(INSTANCES.name), complaint));
        }
        let drive = drive(instances, settings)?;
        let mut own = Instances::new(&drive, Kind::Channel, instances, load)?;
        let clients = WORKLOADS.iter().map(|workload| own.clients(workload, monitor));
        let clients = clients.collect::<Result<Vec<u64>, _>>()?;
        for kind in KINDS {
            let mut beside = Instances::new(&drive, kind, instances, load)?;
            for (workload, &clients) in WORKLOADS.iter().zip(&clients) {
                let point = format!("{instances}.{}.{}", kind.name(), workload.letter);
                note(&mut metrics, &point, &beside.play(clients, workload, monitor)?);
            }
        }
        note_gains(&mut metrics, instances);
    }
    #[allow(clippy::cast_precision_loss)]
    metrics.insert("glue_lines".to_owned(), crate::leveldb::glue_lines() as f64);
    Ok(metrics)
}

#[allow(clippy::cast_precision_loss)] // up to 256
fn note(metrics: &mut Metrics, point: &str, seen: &WorkloadResult) {
    metrics.insert(format!("kops.{point}"), seen.kops);
    metrics.insert(format!("clients.{point}"), seen.clients as f64);
    let p99 = seen.took.quantile_us(0.99).unwrap_or(f64::NAN);
    metrics.insert(format!("p99_us.{point}"), p99);
}

fn note_gains(metrics: &mut Metrics, instances: u32) {
    for kind in KINDS.map(Kind::name) {
        let mean = |metric: &str| {
            let ratio = |letter: &str| {
                metrics[&format!("{metric}.{instances}.channel.{letter}")]
                    / metrics[&format!("{metric}.{instances}.{kind}.{letter}")]
            };
            let product: f64 = WORKLOADS.iter().map(|workload| ratio(workload.letter)).product();
            product.powf(1.0 / 6.0)
        };
        let gains = [("throughput_gain", mean("kops")), ("p99_gain", 1.0 / mean("p99_us"))];
        metrics.extend(gains.map(|(name, gain)| (format!("{name}.{instances}.{kind}"), gain)));
    }
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for (metric, what) in [("throughput_gain", "throughput"), ("p99_gain", "p99")] {
        for kind in ["die", "bucket"] {
            let name = format!("{metric}.2.{kind}");
            let ours = summary.mean(&name);
            let what = format!("{what}, own channels by {kind}");
            checks = checks
                .times(&what, ours, YCSB.references, &name, 1.5)
                .shape(ours >= 0.95, format!("{what}: {ours:.2}, at least 0.95"));
        }
    }
    checks
        .note(format!(
            "against shares of time: throughput {:.2} times, p99 {:.2} times",
            summary.mean("throughput_gain.2.software"),
            summary.mean("p99_gain.2.software")
        ))
        .note(format!(
            "between LevelDB and blocks are {:.0} lines, for a store that keeps no names and lengths of files; the \
             paper's LevelDB has 38 that call the vSSD, and its file system 26",
            summary.mean("glue_lines")
        ))
        .judge()
}
