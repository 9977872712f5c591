//! A stream of writes to a cache full of dirty data: is it as fast as without the cache?

use larder_block::accounting::timed::TimedRun;
use larder_device::model::virtual_time::shapes;

use super::counted::{BLOCK_BYTES, Kind};
use super::study::{Costs, DRIVE_IO_NS, MEMORY_IO_NS, PM9A3, PMEM, REQUEST_NS, Storage};
use super::timed::{Asks, Made, Pair, mb_s};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::lowest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const CACHE: Parameter = Parameter {
    name: "cache_mib",
    default: "256",
    help: "capacity of the cache in MiB, 16 to 65536; in 64 segments, or more of 16 MiB",
};
const DEPTH: Parameter =
    Parameter { name: "depth", default: "32", help: "requests under way at a time, 1 to 1024" };
const WRITE: Parameter = Parameter {
    name: "write_kib",
    default: "128",
    help: "length of the stream's writes in KiB, 4 to 1024",
};
const STREAM: Parameter = Parameter {
    name: "stream_percent",
    default: "400",
    help: "length of the stream, percent of the cache, 10 to 10000",
};

const NVME: Storage = Storage { key: "nvme", shape: shapes::NVME_TLC, is_memory: false };
const SATA: Storage = Storage { key: "sata", shape: shapes::SATA_SSD, is_memory: false };
const HDD: Storage = Storage { key: "hdd", shape: shapes::HDD, is_memory: false };
const PAIRS: [[&Storage; 2]; 3] = [[&NVME, &HDD], [&NVME, &SATA], [&PMEM, &PM9A3]];
/// What fills the cache: a stream, runs of a MiB at random places, or lines at random places.
const FILLS: [(&str, u64); 3] = [("stream", 0), ("runs", 1 << 20), ("lines", LINE_BYTES as u64)];
const LINE_BYTES: u32 = 4096;
const SEGMENTS: u64 = 64;
/// Offset of the stream: a quarter of the core away from the data that fills the cache.
const STREAM_AT: u64 = 1 << 38;
/// Required share of the core's own bandwidth.
const WANTED: f64 = 0.9;

pub(in crate::experiment) static BLOCK_FULL: Experiment = Experiment {
    name: "block-full",
    title: "writes of a stream to a cache full of dirty data, by those to the core alone",
    reproduces: "what users of Open CAS and dm-writeboost report: a cache that is full of dirty data \
                 has a third of its core's speed",
    criterion: "the log, write-back as by default: at least 0.9 of the core's own bandwidth on each pair of devices, \
                whatever the cache is filled with; at least half of it is dirty when the stream comes",
    parameters: &[CACHE, DEPTH, WRITE, STREAM, REQUEST_NS, MEMORY_IO_NS, DRIVE_IO_NS],
    metrics: &[
        (
            "of_core.*",
            "bandwidth of the stream by that of the same writes to the core alone: cache device, core, what the cache \
             was filled with (stream, runs of 1 MiB, lines)",
        ),
        ("mb_s.*", "megabytes a second of the stream, by the same"),
        ("p99_ms.*", "99 % of its writes take at most so long, by the same"),
        (
            "core_bytes.*",
            "bytes written to the core during the stream for each byte of it, by the same",
        ),
        ("dirty.*", "part of the cache that is dirty when the stream comes, by the same"),
        ("core_mb_s.*", "megabytes a second of the same writes to the core alone"),
    ],
    references: &[],
    needs: &["of_core.nvme.hdd.lines", "of_core.nvme.sata.runs", "of_core.pmem.pm9a3.stream"],
    measure,
    judge,
};

/// The load of each pair of devices.
struct Load {
    made: Made,
    asks: Asks,
    stream_percent: u64,
    seed: u64,
}

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let bytes: u64 = settings.within::<u64>(CACHE.name, 16..=65_536)? << 20;
    let write_bytes = settings.within::<u64>(WRITE.name, 4..=1024)? << 10;
    if !write_bytes.is_multiple_of(u64::from(LINE_BYTES)) {
        let complaint = "must be a multiple of the line, 4 KiB";
        return Err(settings.refuse(WRITE.name, settings.text(WRITE.name), complaint));
    }
    let lines =
        u32::try_from(bytes / u64::from(LINE_BYTES)).map_err(|_| Error::usage("too large"))?;
    let segment = (bytes / SEGMENTS).next_power_of_two().min(16 << 20);
    let segment_bytes = u32::try_from(segment).map_err(|_| Error::usage("too large"))?;
    let load = Load {
        made: Made {
            kind: Kind::Log { block_bytes: BLOCK_BYTES, beside_bytes: 0 },
            line_bytes: LINE_BYTES,
            lines,
            segment_bytes,
        },
        asks: Asks {
            bytes: write_bytes,
            depth: settings.within(DEPTH.name, 1..=1024)?,
            is_read: false,
        },
        stream_percent: settings.within(STREAM.name, 10..=10_000)?,
        seed,
    };
    let costs = Costs::of(settings)?;
    let mut metrics = Metrics::new();
    for [cache, core] in PAIRS {
        let mut bare = Pair::bare(core, &costs, false)?;
        let alone = mb_s(&bare.ask(load.asks, load.stream(), monitor)?);
        metrics.insert(format!("core_mb_s.{}", core.key), alone);
        for fill in FILLS {
            let (dirty, run) = load.run((cache, core), fill.1, &costs, monitor)?;
            let point = format!("{}.{}.{}", cache.key, core.key, fill.0);
            let mut note =
                |name: &str, value: f64| metrics.insert(format!("{name}.{point}"), value);
            note("of_core", mb_s(&run) / alone);
            note("mb_s", mb_s(&run));
            note("p99_ms", run.latency(99.0).as_secs_f64() * 1e3);
            note("core_bytes", run.counts.core_written_bytes as f64 / run.bytes as f64);
            note("dirty", dirty);
        }
    }
    Ok(metrics)
}

impl Load {
    fn stream(&self) -> std::ops::Range<u64> {
        let first = STREAM_AT / self.asks.bytes;
        first..first + self.made.requests(self.stream_percent, self.asks.bytes)
    }

    /// Returns the dirty share of the cache when the stream begins, and the result of the stream.
    #[allow(clippy::cast_precision_loss)]
    fn run(
        &self,
        devices: (&Storage, &Storage),
        fill_bytes: u64,
        costs: &Costs,
        monitor: &Monitor,
    ) -> Result<(f64, TimedRun), Error> {
        let mut pair = Pair::cache(&self.made, devices, costs)?;
        let bytes = if fill_bytes == 0 { self.asks.bytes } else { fill_bytes };
        let mut fill: Vec<u64> = (0..self.made.requests(100, bytes)).collect();
        if fill_bytes > 0 {
            fastrand::Rng::with_seed(self.seed).shuffle(&mut fill);
        }
        pair.ask(Asks { bytes, ..self.asks }, fill, monitor)?;
        let dirty = pair.dirty_bytes() as f64 / self.made.capacity_bytes() as f64;
        Ok((dirty, pair.ask(self.asks, self.stream(), monitor)?))
    }
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    let mut dirty = Vec::new();
    for [cache, core] in PAIRS {
        for (fill, _) in FILLS {
            let point = format!("{}.{}.{fill}", cache.key, core.key);
            let ours = summary.min(&format!("of_core.{point}"));
            let text = format!("{} before {}, full of {fill}: {ours:.2}", cache.key, core.key);
            checks = checks.exact(ours >= WANTED, text);
            dirty.push(summary.min(&format!("dirty.{point}")));
        }
    }
    let least = lowest(dirty);
    checks
        .shape(least >= 0.5, format!("{:.0} % of the cache is dirty, at least", least * 100.0))
        .judge()
}
