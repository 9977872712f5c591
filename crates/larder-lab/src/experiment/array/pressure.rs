//! What reinsertion gains, and what it costs clients, when the drive is fast and full: at saturation, and at half load.

use larder::ArrayConfig;

use super::clients::{Load, Times, play};
use super::engine::{Played, array_of, engine_alone, play_engine};
use super::index::WholeIndex;
use super::shards::Speed;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const SHARD_MIB: Parameter = Parameter {
    name: "shard_mib",
    default: "1024",
    help: "capacity of the drive in MiB, 64 to 65536; index memory is one part in 8192 of it",
};
const CLIENTS: Parameter =
    Parameter { name: "clients", default: "100", help: "clients of the drive, 1 to 65536" };
const OPS: Parameter = Parameter {
    name: "ops",
    default: "60000",
    help: "operations of a run, 1000 to 1000000000; the second half counts",
};
const SETS: Parameter =
    Parameter { name: "sets", default: "50", help: "SETs in a hundred operations, 1 to 99" };
const DRIVE: Parameter = Parameter {
    name: "drive",
    default: "pm9a3",
    help: "one-plane: it programs 0.75 GB/s; pm9a3: reads and programs 3 GB/s",
};
const FILLED: Parameter = Parameter {
    name: "filled",
    default: "85",
    help: "percent of the flash that values fill, 1 to 95",
};

const LAWS: [&str; 2] = ["hotspot", "uniform"];
const ARMS: [(&str, bool); 2] = [("on", true), ("off", false)];
/// One byte of DRAM for this number of bytes of flash, as in `array-throughput`.
const FLASH_PER_DRAM: u64 = 8192;
const VALUE_BYTES: u64 = 32 << 10;
/// A client's own time for each operation at saturation.
const PAUSE_NS: f64 = 5000.0;
const NS: f64 = 1e9;

pub(in crate::experiment) static ARRAY_PRESSURE: Experiment = Experiment {
    name: "array-pressure",
    title: "throughput, times of GETs and hit ratio with and without reinsertion of the array engine, on a fast full \
            drive",
    reproduces: "BigKV (EuroSys'23): hot objects are appended again when their region is reclaimed, here as the drive \
                 has time for it",
    criterion: "with a hot fifth: at saturation at least 95 % of the throughput without reinsertion, and 60 % of the \
                gain in hits at half load; at half load p99 of GETs at most 1.5 times that without",
    parameters: &[SHARD_MIB, CLIENTS, OPS, SETS, DRIVE, FILLED],
    metrics: &[
        (
            "kops.*",
            "thousands of operations a second, with (on) and without reinsertion (off), by load (full, half) and law; \
             whole: of a model whose index is in DRAM",
        ),
        (
            "get_p99_us.*",
            "99 % of the GETs take at most so long, from the client's call to its answer",
        ),
        ("set_p99_us.*", "99 % of the SETs take at most so long, until they are in memory"),
        ("hit.*", "GETs that found a value; clients store again what they did not find"),
        (
            "reinserted_share.*",
            "bytes of objects that were appended again, by all bytes written for objects",
        ),
        ("of_whole.*", "throughput at saturation by that of the whole index, by arm and law"),
        ("throughput_kept.*", "throughput at saturation with reinsertion by that without, by law"),
        ("p99_times.*", "p99 of GETs with reinsertion by that without, by load and law"),
        (
            "gain_kept.*",
            "gain in hits by reinsertion at saturation, by the gain at half load, by law (1 = all)",
        ),
    ],
    references: &[],
    needs: &[
        "throughput_kept.hotspot",
        "of_whole.on.hotspot",
        "gain_kept.hotspot",
        "p99_times.half.hotspot",
        "hit.on.full.hotspot",
        "hit.on.half.hotspot",
        "hit.off.half.hotspot",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let shard_bytes = settings.within::<u64>(SHARD_MIB.name, 64..=65_536)? << 20;
    let clients = settings.within(CLIENTS.name, 1..=65_536)?;
    let ops = settings.within(OPS.name, 1000..=1_000_000_000)?;
    let sets = settings.within::<u32>(SETS.name, 1..=99)?;
    let speed: Speed = settings.get(DRIVE.name)?;
    let filled = settings.within::<u64>(FILLED.name, 1..=95)?;
    let records = shard_bytes * filled / 100 / VALUE_BYTES;
    let mut metrics = Metrics::new();
    for law in LAWS {
        let workload = format!("{law}:sets={sets}");
        let full = Load {
            shards: 1,
            shard_bytes,
            speed,
            value_bytes: VALUE_BYTES,
            records,
            clients,
            ops,
            pause_ns: PAUSE_NS,
            workload: &workload,
            seed,
        };
        let whole = play(full, 1, || Box::new(WholeIndex::new(records)), monitor)?;
        metrics.insert(format!("kops.whole.{law}"), whole.per_s() / 1000.0);
        let run = |load, reinsertion| {
            let array = array_of(load, shard_bytes / FLASH_PER_DRAM);
            let config = engine_alone(ArrayConfig { reinsertion, ..array }, load.seed);
            play_engine(load, config, monitor)
        };
        let mut full_per_s = 0.0;
        for (arm, reinsertion) in ARMS {
            let played = run(full, reinsertion)?;
            full_per_s = played.clients.per_s();
            metrics.insert(format!("of_whole.{arm}.{law}"), full_per_s / whole.per_s());
            note(&mut metrics, &format!("{arm}.full.{law}"), &played);
        }
        // Half of what the drive can do without reinsertion, which is the last arm.
        let half = Load { pause_ns: 2.0 * NS * as_f64(clients) / full_per_s, ..full };
        for (arm, reinsertion) in ARMS {
            note(&mut metrics, &format!("{arm}.half.{law}"), &run(half, reinsertion)?);
        }
        note_ratios(&mut metrics, law);
    }
    Ok(metrics)
}

#[allow(clippy::cast_precision_loss)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn note(metrics: &mut Metrics, point: &str, Played { clients, stats }: &Played) {
    let p99 = |times: &Times| times.quantile_us(0.99).unwrap_or(f64::NAN);
    let written = as_f64(stats.array_data_written_bytes.max(1));
    let values = [
        ("kops", clients.per_s() / 1000.0),
        ("get_p99_us", p99(&clients.gets)),
        ("set_p99_us", p99(&clients.sets)),
        ("hit", clients.hit_ratio()),
        ("reinserted_share", as_f64(stats.array_reinserted_bytes) / written),
    ];
    metrics.extend(values.map(|(name, value)| (format!("{name}.{point}"), value)));
}

fn note_ratios(metrics: &mut Metrics, law: &str) {
    for load in ["full", "half"] {
        let of = |arm| metrics[&format!("get_p99_us.{arm}.{load}.{law}")];
        let times = of("on") / of("off");
        metrics.insert(format!("p99_times.{load}.{law}"), times);
    }
    let of = |arm| metrics[&format!("of_whole.{arm}.{law}")];
    let kept = of("on") / of("off");
    metrics.insert(format!("throughput_kept.{law}"), kept);
    let gain = |load| {
        let of = |arm| metrics[&format!("hit.{arm}.{load}.{law}")];
        of("on") - of("off")
    };
    let kept = gain("full") / gain("half");
    metrics.insert(format!("gain_kept.{law}"), kept);
}

fn judge(summary: &Summary) -> Judgement {
    let of = |metric: &str| summary.mean(metric);
    let (throughput, of_whole) = (of("throughput_kept.hotspot"), of("of_whole.on.hotspot"));
    let (kept, times) = (of("gain_kept.hotspot"), of("p99_times.half.hotspot"));
    let (with, without) = (of("hit.on.half.hotspot"), of("hit.off.half.hotspot"));
    Checks::default()
        .exact(
            (0.95..=1.1).contains(&throughput),
            format!(
                "at saturation {throughput:.2} of the throughput without reinsertion, {of_whole:.2} of the whole \
                 index's"
            ),
        )
        .exact(
            (0.6..=1.4).contains(&kept),
            format!("at saturation {:.0} % of the gain in hits at half load", kept * 100.0),
        )
        .exact(
            (0.5..=1.5).contains(&times),
            format!("at half load p99 of GETs is {times:.2} times that without reinsertion"),
        )
        .shape(with > without, format!("at half load hit ratio {with:.3}, {without:.3} without"))
        .judge()
}
