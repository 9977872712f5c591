//! LevelDB on vSSDs of every kind, under YCSB's workloads.

mod client;

use larder_blocks::TimedBlocks;
use larder_ssd::timed::{DriveTiming, NandTiming, open_channel};

use super::drive::{Drive, Kind};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;
use client::{Load, WORKLOADS, WorkloadResult};

const RECORDS: Parameter = Parameter {
    name: "records",
    default: "8000",
    help: "records of 1 KB that each instance has at first, 100 to 1000000; the paper has 32 GB",
};
const OPS: Parameter = Parameter {
    name: "ops",
    default: "8000",
    help: "operations of each instance and workload, 100 to 100000000; the paper has 50 million",
};
const OP_US: Parameter = Parameter {
    name: "op_us",
    default: "20",
    help: "microseconds that an operation takes beside the drive, 0 to 10000; LevelDB in memory makes some 40000 a \
           second",
};
const INSTANCES: Parameter =
    Parameter { name: "instances", default: "2,4", help: "instances of LevelDB, 2 or 4 or both" };

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
    criterion: "two instances: throughput with own channels at least that with own dies, and that at least that with a \
                share of time, each within 5 %, and tails the other way round; the three ratios of throughput and \
                tail that the paper has are two thirds to 1.5 times its own",
    parameters: &[RECORDS, OPS, OP_US, INSTANCES],
    metrics: &[
        (
            "kops.*",
            "thousands of operations a second of all instances, by their number, kind of vSSD (channel, die, \
             software, none), and workload (a to f)",
        ),
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
        paper("throughput_gain.2.software", 1.6),
        paper("p99_gain.2.die", 1.7),
        paper("p99_gain.2.software", 2.6),
        glue("glue_lines", 38.0),
    ],
    needs: &[
        "throughput_gain.2.die",
        "throughput_gain.2.software",
        "p99_gain.2.die",
        "p99_gain.2.software",
    ],
    measure,
    judge,
};

/// Kinds, ordered from the least sharing to the most.
const KINDS: [Kind; 4] = [Kind::Channel, Kind::Die, Kind::Software, Kind::Shared];
/// Number of parts that channels and dies are divided into.
const EIGHTHS: u32 = 8;
/// Blocks are slices of the drive's blocks, short because the data set is small. The erase time is scaled down by the
/// same ratio.
const BLOCK_STRIPES: u32 = 8;
const BLOCKS_PER_DIE: u32 = 256;

/// A drive with a channel of four dies for each instance, so that every kind gives each instance the same amount.
fn drive(instances: u32) -> Result<Drive, Error> {
    let base = open_channel();
    let erase_ns =
        base.nand.erase_ns * u64::from(BLOCK_STRIPES) / u64::from(base.nand.block_stripes);
    let nand = NandTiming { planes: 1, block_stripes: BLOCK_STRIPES, erase_ns, ..base.nand };
    Drive::of(DriveTiming { channels: instances, nand, ..base }, BLOCKS_PER_DIE)
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let load = Load {
        records: settings.within(RECORDS.name, 100..=1_000_000)?,
        ops: settings.within(OPS.name, 100..=100_000_000)?,
        op_ns: settings.within(OP_US.name, 0..=10_000)? * 1000,
        seed: seed * 100,
    };
    for instances in settings.list::<u32>(INSTANCES.name)? {
        if ![2, 4].contains(&instances) {
            let complaint = "must be 2, 4 or both";
            return Err(settings.refuse(INSTANCES.name, settings.text(INSTANCES.name), complaint));
        }
        let drive = drive(instances)?;
        for kind in KINDS {
            let seen = beside_one_another(&drive, kind, instances, load, monitor)?;
            note(&mut metrics, &format!("{instances}.{}", kind.name()), &seen);
        }
        note_gains(&mut metrics, instances);
    }
    #[allow(clippy::cast_precision_loss)]
    metrics.insert("glue_lines".to_owned(), crate::leveldb::glue_lines() as f64);
    Ok(metrics)
}

/// Runs the instances on vSSDs of `kind`, one thread each. Returns the results of each, by workload.
fn beside_one_another(
    drive: &Drive,
    kind: Kind,
    instances: u32,
    load: Load,
    monitor: &Monitor,
) -> Result<Vec<Vec<WorkloadResult>>, Error> {
    let shares = vec![(EIGHTHS / instances, 1); instances as usize];
    let policy = drive.policy(kind, 1.0);
    let (timed, vssds) = drive.vssds(kind, &shares, &policy)?;
    let stores = TimedBlocks::of(timed, &vssds).map_err(|error| Error::run(error.to_string()))?;
    std::thread::scope(|scope| {
        let begin = |(store, seed): (TimedBlocks, u64)| {
            scope.spawn(move || client::run(store, Load { seed, ..load }, monitor))
        };
        let clients: Vec<_> = stores.into_iter().zip(load.seed..).map(begin).collect();
        let join = |client: std::thread::ScopedJoinHandle<'_, _>| {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        clients.into_iter().map(join).collect()
    })
}

#[allow(clippy::cast_precision_loss)]
fn note(metrics: &mut Metrics, point: &str, seen: &[Vec<WorkloadResult>]) {
    for (number, workload) in WORKLOADS.iter().enumerate() {
        let mut took = larder_workload::Latencies::default();
        let mut kops = 0.0;
        for seen in seen.iter().filter_map(|client| client.get(number)) {
            kops += seen.ops as f64 / seen.seconds / 1000.0;
            took.merge(&seen.took);
        }
        let letter = workload.letter;
        metrics.insert(format!("kops.{point}.{letter}"), kops);
        let p99 = took.quantile_us(0.99).unwrap_or(f64::NAN);
        metrics.insert(format!("p99_us.{point}.{letter}"), p99);
    }
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
        let gain = |kind: &str| summary.mean(&format!("{metric}.2.{kind}"));
        let (die, software) = (gain("die"), gain("software"));
        checks = checks.shape(
            die >= 0.95 && software >= 0.95 * die,
            format!("{what}: own channels are {die:.2} times as good as own dies, {software:.2} times as a share"),
        );
        for kind in ["die", "software"] {
            let wanted =
                crate::experiment::judge::published(YCSB.references, &format!("{metric}.2.{kind}"));
            let ours = gain(kind);
            checks = checks.exact(
                (wanted / 1.5..=wanted * 1.5).contains(&ours),
                format!("{what} against {kind}: {ours:.2}, published {wanted}"),
            );
        }
    }
    checks
        .note(
            "an instance has one client here, whose reads come one after the other: dies are seldom busy for long, \
             and an instance that shares two channels has more of them while the other waits",
        )
        .note(format!(
            "between LevelDB and blocks are {:.0} lines, for a store that keeps no names and lengths of files; the \
             paper's LevelDB has 38 that call the vSSD, and its file system 26",
            summary.mean("glue_lines")
        ))
        .judge()
}
