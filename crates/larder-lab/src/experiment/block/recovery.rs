//! Device time from a crash until a cache serves again, by its capacity.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_block::accounting::{Accounting, Image};
use larder_block::layout::log::{self, LogOptions, LogRecovery};
use larder_block::layout::ocf::{self, OcfRecovery, OcfVersion};
use larder_block::layout::{Data, DeviceIo, Layout, LayoutRequest, RequestId, Span, Target, Usage};
use larder_device::DeviceInfo;
use larder_device::model::virtual_time::{Moment, Shape, ShapedStorage, shapes};

use super::counted::{BLOCK_BYTES, IDENTITY, core, device, refused};
use super::study::read_alone_ns;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::lowest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const CACHE: Parameter = Parameter {
    name: "cache_mib",
    default: "128,256",
    help: "capacities of the cache in MiB, two or more, each 16 to 65536; a terabyte is reckoned from \
           the first and the last; below 128 segments of a log are shorter than 16 MiB",
};
const DEPTH: Parameter =
    Parameter { name: "depth", default: "32", help: "reads under way at a time, 1 to 1024" };

const LAYOUTS: [&str; 2] = ["log", "ocf26"];
const DEVICES: [(&str, Shape); 3] =
    [("optane", shapes::OPTANE_SSD), ("nvme", shapes::NVME_TLC), ("sata", shapes::SATA_SSD)];
const LINE_BYTES: u32 = 4096;
const WRITE_DEPTH: usize = 32;
const TERABYTE: f64 = 1e12;
/// Open CAS's start of a terabyte is extrapolated from tables that are longer by this factor, because short ones are
/// read at once.
const BLANK: u64 = 16;
/// Largest accepted share of the time in which all blocks are copied to a disk. MapperX spares dm-cache that copy.
const PART_OF_COPYING: f64 = 0.01;

pub(in crate::experiment) static BLOCK_RECOVERY: Experiment = Experiment {
    name: "block-recovery",
    title: "device time until a block cache serves after a crash, by its capacity",
    reproduces: "MapperX (ATC'21): recovery orders of magnitude shorter than dm-cache's, which takes \
                 all blocks for dirty and copies them back",
    criterion: "the log: a terabyte of lines of 4 KiB serves within 2 s on the NVMe SSD, a hundredth of \
                what copying it to a disk takes; all that was dirty is found, by a start that follows \
                one that a crash ended too",
    parameters: &[CACHE, DEPTH],
    metrics: &[
        (
            "start_ms.*",
            "milliseconds until all is read and the first answer is given, which both wait for: layout, device, MiB of \
             the cache",
        ),
        (
            "again_ms.*",
            "the same from the first start on, where a crash ends that when half of it is read",
        ),
        ("read_share.*", "bytes read of the cache's capacity: layout, MiB"),
        (
            "terabyte_s.*",
            "seconds of start_ms of 10^12 bytes, by the slope: layout, device; of Open CAS by tables 16 times as long",
        ),
        (
            "copying_s",
            "seconds in which 10^12 bytes are copied to the disk, as after a crash of dm-cache",
        ),
        (
            "dirty_kept.*",
            "dirty sectors that the second start finds, of those that there were: layout",
        ),
        ("valid_kept.*", "cached sectors that it finds, of those that there were: layout"),
    ],
    references: &[],
    needs: &["terabyte_s.log.nvme", "dirty_kept.log", "dirty_kept.ocf26"],
    measure,
    judge,
};

/// A cache as a crash left it.
struct Crashed {
    image: Image,
    usage: Usage,
    stored: Stored,
    bytes: u64,
}

enum Stored {
    Log(log::Geometry),
    Ocf(ocf::Geometry),
}

/// The reads of a start.
#[derive(Clone, Copy, Default)]
struct Start {
    reads: u64,
    bytes: u64,
    nanoseconds: u64,
}

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let sizes: Vec<u64> = settings.list(CACHE.name)?;
    if sizes.len() < 2 || !sizes.is_sorted_by(|a, b| a < b) {
        return Err(settings.refuse(
            CACHE.name,
            settings.text(CACHE.name),
            "must be two or more, ascending",
        ));
    }
    if let Some(wrong) = sizes.iter().find(|mib| !(16..=65_536).contains(*mib)) {
        return Err(settings.refuse(CACHE.name, &wrong.to_string(), "must be 16 to 65536"));
    }
    let depth: usize = settings.within(DEPTH.name, 1..=1024)?;
    let mut metrics = Metrics::new();
    for layout in LAYOUTS {
        for &mib in &sizes {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            let crashed = Crashed::new(layout, mib << 20, seed)?;
            for (device, shape) in DEVICES {
                let (whole, found) = crashed.start(shape, depth, u64::MAX)?;
                let first = crashed.start(shape, depth, whole.reads / 2)?.0;
                let answer_ns = answer_ns(shape);
                let ms = |nanoseconds: u64| (nanoseconds + answer_ns) as f64 / 1e6;
                let point = format!("{layout}.{device}.{mib}");
                metrics.insert(format!("start_ms.{point}"), ms(whole.nanoseconds));
                let again = first.nanoseconds + whole.nanoseconds;
                metrics.insert(format!("again_ms.{point}"), ms(again));
                metrics.insert(
                    format!("read_share.{layout}.{mib}"),
                    whole.bytes as f64 / crashed.bytes as f64,
                );
                let kept = |found: u64, before: u64| found as f64 / before as f64;
                let (dirty, valid) = (crashed.usage.dirty_sectors, crashed.usage.valid_sectors);
                metrics.insert(format!("dirty_kept.{layout}"), kept(found.dirty_sectors, dirty));
                metrics.insert(format!("valid_kept.{layout}"), kept(found.valid_sectors, valid));
            }
        }
        for (device, shape) in DEVICES {
            let ends = [sizes[0], sizes[sizes.len() - 1]];
            let ms = match layout {
                "log" => ends.map(|mib| metrics[&format!("start_ms.log.{device}.{mib}")]),
                _ => {
                    [table_ms(ends[0] << 20, shape, depth)?, table_ms(ends[1] << 20, shape, depth)?]
                }
            };
            let bytes = ends
                .map(|mib| (mib << 20) as f64 * if layout == "log" { 1.0 } else { BLANK as f64 });
            let slope = (ms[1] - ms[0]) / (bytes[1] - bytes[0]);
            let whole_ms = ms[1] + slope * (TERABYTE - bytes[1]);
            metrics.insert(format!("terabyte_s.{layout}.{device}"), whole_ms / 1e3);
        }
    }
    let bytes_per_s = shapes::HDD.write.bytes_per_s.value as f64;
    metrics.insert("copying_s".to_owned(), TERABYTE / bytes_per_s);
    Ok(metrics)
}

/// Milliseconds of a start with Open CAS's table, [`BLANK`] times as long. The contents of the table do not matter.
#[allow(clippy::cast_precision_loss)]
fn table_ms(bytes: u64, shape: Shape, depth: usize) -> Result<f64, Error> {
    let bytes = bytes * BLANK;
    let stored = Stored::Ocf(table(bytes)?);
    let blank = Crashed { image: Image::default(), usage: Usage::default(), stored, bytes };
    let (start, _) = blank.start(shape, depth, u64::MAX)?;
    Ok((start.nanoseconds + answer_ns(shape)) as f64 / 1e6)
}

/// Time of the first answer after recovery: a single line read.
fn answer_ns(shape: Shape) -> u64 {
    read_alone_ns(&shape, LINE_BYTES.into())
}

/// Open CAS's table on a device of `bytes` bytes.
fn table(bytes: u64) -> Result<ocf::Geometry, Error> {
    let options = ocf::OcfOptions { version: OcfVersion::V26, line_bytes: LINE_BYTES };
    ocf::Geometry::new(&device(bytes, BLOCK_BYTES), 0, &options).map_err(refused)
}

impl Crashed {
    /// Writes lines at random places of a core that is half again as large as the cache, then crashes.
    fn new(layout: &str, bytes: u64, seed: u64) -> Result<Self, Error> {
        let (image, usage, stored) = if layout == "log" {
            let whole = LogOptions::default().segment_bytes;
            let most = u32::try_from(bytes / u64::from(log::SEGMENTS_MIN)).unwrap_or(whole);
            let segment_bytes = whole.min(1 << most.ilog2());
            let options =
                LogOptions { segment_bytes, write_buffer_bytes: 0, ..LogOptions::default() };
            let info = device(bytes, BLOCK_BYTES);
            let geometry = log::Geometry::new(&info, 0, &options).map_err(refused)?;
            let log = log::LogLayout::new(geometry, IDENTITY, &info, &options);
            let (image, usage) = filled(log, (bytes, u64::from(options.segment_bytes)), seed)?;
            (image, usage, Stored::Log(geometry))
        } else {
            let geometry = table(bytes)?;
            let lines = ocf::OcfLayout::new(geometry, IDENTITY.uuid);
            let (image, usage) = filled(lines, (bytes, 1), seed)?;
            (image, usage, Stored::Ocf(geometry))
        };
        Ok(Self { image, usage, stored, bytes })
    }

    fn info(&self) -> DeviceInfo {
        device(self.bytes, BLOCK_BYTES)
    }

    /// Makes the recovery reads, at most `reads_max`. The usage is empty if that limit ended the recovery.
    fn start(&self, shape: Shape, depth: usize, reads_max: u64) -> Result<(Start, Usage), Error> {
        let storage = ShapedStorage::new(shape, self.bytes)
            .map_err(|error| Error::usage(error.to_string()))?;
        let read = Reading { image: &self.image, storage, depth, reads_max };
        match &self.stored {
            Stored::Log(geometry) => {
                let mut recovery = LogRecovery::new(*geometry, IDENTITY.uuid);
                let place = |read: &log::RecoveryRead| (read.offset, read.bytes);
                let start =
                    read.all(&mut recovery, LogRecovery::next_read, place, LogRecovery::completed);
                let is_whole = start.reads < reads_max;
                let finish = || recovery.finish(2, &self.info(), &LogOptions::default()).0.usage();
                Ok((start, if is_whole { finish() } else { Usage::default() }))
            }
            Stored::Ocf(geometry) => {
                let mut recovery = OcfRecovery::new(*geometry, IDENTITY.uuid);
                let place = |read: &ocf::RecoveryRead| (read.offset, read.bytes);
                let start =
                    read.all(&mut recovery, OcfRecovery::next_read, place, OcfRecovery::completed);
                let is_whole = start.reads < reads_max;
                let finish = || recovery.finish().0.usage();
                Ok((start, if is_whole { finish() } else { Usage::default() }))
            }
        }
    }
}

/// The contents of the cache device and the usage that the layout knew when power was lost. A log's open segment is
/// full then: recovering a partly filled one takes the same time at any capacity, because its headers are read one
/// after the other.
fn filled<L: Layout>(
    layout: L,
    (bytes, segment_bytes): (u64, u64),
    seed: u64,
) -> Result<(Image, Usage), Error> {
    let mut run = Accounting::new(layout, Image::default());
    let mut lines: Vec<u64> = (0..bytes / u64::from(LINE_BYTES) * 2).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut lines);
    let (core, data) = (core()?, Data::copy_of(&[0; LINE_BYTES as usize]));
    let request = |line: &u64| {
        let span = Span { core, first: line * 8, sectors: 8 };
        LayoutRequest::Write { span, data: data.clone() }
    };
    let enough = bytes / u64::from(LINE_BYTES) * 3 / 2 / WRITE_DEPTH as u64;
    for (number, lines) in (0..).zip(lines.chunks(WRITE_DEPTH)) {
        let end = write_all(&mut run, lines.iter().map(request));
        if number >= enough && end.is_multiple_of(segment_bytes) {
            break;
        }
    }
    run.settle();
    let usage = run.layout().usage();
    Ok((run.lose_power(|| true).0, usage))
}

/// Returns the end offset of the last write to the cache device.
fn write_all<L: Layout>(
    run: &mut Accounting<L>,
    requests: impl Iterator<Item = LayoutRequest>,
) -> u64 {
    let mut waiting: Vec<RequestId> = requests.map(|request| run.submit(request)).collect();
    let mut last = 0;
    while !waiting.is_empty() {
        run.turn();
        let end_of = |io: &DeviceIo| match io {
            DeviceIo::Write { target: Target::Cache, offset, parts, .. } => {
                Some(offset + parts.iter().map(|part| part.len() as u64).sum::<u64>())
            }
            _ => None,
        };
        last = run.under_way().filter_map(end_of).last().unwrap_or(last);
        run.carry_out_all(|count| (0..count).collect());
        waiting.retain(|id| run.take_ended(*id).is_none());
    }
    last
}

struct Reading<'a> {
    image: &'a Image,
    storage: ShapedStorage,
    depth: usize,
    reads_max: u64,
}

impl Reading<'_> {
    fn all<R, Read>(
        mut self,
        recovery: &mut R,
        next: impl Fn(&mut R) -> Option<Read>,
        place: impl Fn(&Read) -> (u64, usize),
        completed: impl Fn(&mut R, Read, Option<&[u8]>),
    ) -> Start {
        let (mut start, mut now) = (Start::default(), Moment::default());
        let (mut ends, mut under_way) = (BinaryHeap::new(), std::collections::HashMap::new());
        let mut content = Vec::new();
        loop {
            while ends.len() < self.depth
                && start.reads < self.reads_max
                && let Some(read) = next(recovery)
            {
                let (offset, bytes) = place(&read);
                ends.push(Reverse((self.storage.read(now, offset, bytes as u64), start.reads)));
                under_way.insert(start.reads, read);
                start.reads += 1;
                start.bytes += bytes as u64;
            }
            let Some(Reverse((end, number))) = ends.pop() else { break };
            now = end;
            let Some(read) = under_way.remove(&number) else { break };
            let (offset, bytes) = place(&read);
            content.resize(bytes, 0);
            self.image.read(offset, &mut content);
            completed(recovery, read, Some(&content));
        }
        start.nanoseconds = now.as_nanos();
        start
    }
}

fn judge(summary: &Summary) -> Judgement {
    let terabyte = summary.max("terabyte_s.log.nvme");
    let kept = LAYOUTS.map(|layout| summary.min(&format!("dirty_kept.{layout}")));
    let copying = summary.mean("copying_s");
    let (lines, valid) = (summary.mean("terabyte_s.ocf26.nvme"), summary.mean("valid_kept.ocf26"));
    Checks::default()
        .exact(terabyte <= 2.0, format!("the log: a terabyte serves after {terabyte:.2} s"))
        .shape(
            terabyte <= PART_OF_COPYING * copying,
            format!("copying a terabyte back takes {copying:.0} s"),
        )
        .shape(
            lowest(kept) == 1.0,
            format!("of what was dirty {:.3} (log) and {:.3} (Open CAS 26) are found", kept[0], kept[1]),
        )
        .note(format!(
            "Open CAS 26 serves after {lines:.2} s, with {:.0} % of what was cached; the log has {:.0} %",
            valid * 100.0,
            summary.mean("valid_kept.log") * 100.0
        ))
        .judge()
}
