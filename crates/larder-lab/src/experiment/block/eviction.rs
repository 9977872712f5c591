//! The reads and writes of a full cache, under a stream longer than the cache and under skewed writes.

use larder_workload::generate::ZipfMandelbrot;

use super::counted::{COUNTED_22, COUNTED_26, Counted, KINDS, Kind, LINE_KIB, LINES, lines, note};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::highest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

/// The same number of lines as in the published count of skewed writes.
const EVICTED_LINES: Parameter = Parameter { default: "25536", ..LINES };
const ROUNDS: Parameter = Parameter {
    name: "rounds",
    default: "6",
    help: "times the cache's capacity that is written with a skew before the count, and during it, 1 to 100",
};

const LOG_DEPTH: Parameter = Parameter {
    name: "log_depth",
    default: "32",
    help: "requests under way in a log, 1 to 1024; Open CAS was counted with one",
};

/// The length of the stream: one and a half times the cache.
const STREAM_PERCENT: u64 = 150;
const SKEWED_PERCENT: [u64; 2] = [150, 300];
const ZIPF: f64 = 0.99;
const BLOCK_BYTES: u64 = 4096;

pub(in crate::experiment) static BLOCK_EVICTION: Experiment = Experiment {
    name: "block-eviction",
    title: "bytes that a full block cache writes and reads, for a stream and for skewed writes",
    reproduces: "HotStorage'23 study of Open CAS: what eviction adds, as bytes (its text has up to three times)",
    criterion: "cache bytes within 2 % of what was counted of Open CAS 26, 5 % of 22, core bytes within half a point; \
                the log, for a stream, writes at most 1.05 times to the cache and to the core, and reads 0.3 times; \
                with a skew no more to the cache than Open CAS 26, and 1.6 and 1.25 times as much to the core",
    parameters: &[EVICTED_LINES, ROUNDS, LOG_DEPTH],
    metrics: &[
        (
            "cw.*",
            "bytes written to the cache device by bytes that users wrote: stream, layout and KiB of a line and of a \
             write, in the second pass over 1.5 times the cache; zipf, layout and percent that the file has of the \
             cache, in writes of 4 KiB by Zipf's law (0.99)",
        ),
        ("md.*", "of these: what only says where data are"),
        ("cr.*", "bytes read from the cache device, by the same"),
        ("kw.*", "bytes written to the core, by the same"),
    ],
    references: &[
        Reference::ours("cw.stream.ocf26.4", 1.972, COUNTED_26),
        Reference::ours("cw.stream.ocf26.16", 1.220, COUNTED_26),
        Reference::ours("cw.stream.ocf26.64", 1.033, COUNTED_26),
        Reference::ours("cw.stream.ocf22.4", 2.185, COUNTED_22),
        Reference::ours("cw.stream.ocf22.16", 1.320, COUNTED_22),
        Reference::ours("cw.stream.ocf22.64", 1.065, COUNTED_22),
        Reference::ours("cw.zipf.ocf26.150", 1.058, COUNTED_26),
        Reference::ours("cw.zipf.ocf26.300", 1.150, COUNTED_26),
        Reference::ours("cw.zipf.ocf22.150", 1.085, COUNTED_22),
        Reference::ours("cw.zipf.ocf22.300", 1.247, COUNTED_22),
        Reference::ours("kw.zipf.ocf26.150", 0.039, COUNTED_26),
        Reference::ours("kw.zipf.ocf26.300", 0.143, COUNTED_26),
        Reference::ours("kw.zipf.ocf22.150", 0.039, COUNTED_22),
        Reference::ours("kw.zipf.ocf22.300", 0.142, COUNTED_22),
    ],
    needs: &["cw.stream.ocf26.4", "cw.zipf.ocf26.150", "kw.zipf.log.300"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let lines = lines(settings)?;
    let rounds: u64 = settings.within(ROUNDS.name, 1..=100)?;
    let log_depth: usize = settings.within(LOG_DEPTH.name, 1..=1024)?;
    let mut metrics = Metrics::new();
    for (layout, kind) in KINDS {
        let depth = if matches!(kind, Kind::Log { .. }) { log_depth } else { 1 };
        for kib in LINE_KIB {
            let mut cache = Counted::new(kind, kib << 10, lines)?.with_depth(depth);
            let bytes = u64::from(kib) << 10;
            let writes = cache.writes(STREAM_PERCENT, bytes);
            cache.write(bytes, 0..writes, monitor)?;
            let counts = cache.write(bytes, 0..writes, monitor)?;
            note(&mut metrics, &format!("stream.{layout}.{kib}"), &counts);
        }
        for percent in SKEWED_PERCENT {
            let mut cache = Counted::new(kind, 4096, lines)?.with_depth(depth);
            let law = ZipfMandelbrot::new(cache.writes(percent, BLOCK_BYTES), 0.0, ZIPF);
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut round = || {
                (0..rounds * u64::from(lines)).map(|_| law.draw(&mut rng) - 1).collect::<Vec<_>>()
            };
            cache.write(BLOCK_BYTES, round(), monitor)?;
            let counts = cache.write(BLOCK_BYTES, round(), monitor)?;
            note(&mut metrics, &format!("zipf.{layout}.{percent}"), &counts);
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let paper = BLOCK_EVICTION.references;
    let mut checks = Checks::default();
    for value in paper {
        let ours = summary.mean(value.metric);
        checks = if value.metric.starts_with("cw.") {
            let tolerance = if value.metric.contains("ocf22") { 0.05 } else { 0.02 };
            checks.near(value.metric, ours, paper, value.metric, tolerance)
        } else {
            let text = format!("{}: {ours:.4}, published {}", value.metric, value.value);
            checks.exact((ours - value.value).abs() <= 0.005, text)
        };
    }
    let stream =
        |name: &str| highest(LINE_KIB.map(|kib| summary.mean(&format!("{name}.stream.log.{kib}"))));
    let [cw, cr, kw] = ["cw", "cr", "kw"].map(stream);
    let skewed = |name: &str| {
        let of = |layout: &str, percent| summary.mean(&format!("{name}.zipf.{layout}.{percent}"));
        SKEWED_PERCENT.map(|percent| of("log", percent) / of("ocf26", percent))
    };
    let (cache, core) = (highest(skewed("cw")), skewed("kw"));
    checks
        .shape(
            cw < summary.mean("cw.stream.ocf26.4"),
            "a stream costs the log less than Open CAS 26",
        )
        .exact(
            cw <= 1.05 && cr <= 0.3 && kw <= 1.05,
            format!(
                "a stream: the log writes {cw:.3}, reads {cr:.3}, the core gets {kw:.3}, at most"
            ),
        )
        .exact(
            cache <= 1.0,
            format!("skewed: the log writes {cache:.3} of what 26 does to the cache, at most"),
        )
        .exact(
            core[0] <= 1.6 && core[1] <= 1.25,
            format!("skewed: {:.2} and {:.2} of what 26 does to the core", core[0], core[1]),
        )
        .judge()
}
