//! What a drive writes for a block cache, with one placement handle for each of its three streams, and with one for
//! all.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_block::cache::{CacheOptions, Mode};
use larder_block::layout::CoreId;
use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::{Core, CreateOptions, LayoutOptions, OpenOptions, create, open};
use larder_block::policy::CutOffPolicy;
use larder_block::running::{CachedCore, Handles};
use larder_device::{
    Device, DeviceStats, Io, IoBuffer, MemoryDevice, ModelDevice, Payload, PlacementHandle,
    block_on,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_workload::generate::ZipfMandelbrot;

use crate::Error;
use crate::experiment::judge::{Checks, NEXT_TO_NONE};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "96",
    help: "capacity of the cache device in MiB, 32 to 4096; all of it is the cache's",
};
const OP: Parameter = Parameter {
    name: "op",
    default: "10",
    help: "its over-provisioning, percent of the logical capacity, 5 to 100",
};
const FILE: Parameter = Parameter {
    name: "file_percent",
    default: "300",
    help: "length of the file on the core, percent of the cache device, 50 to 400",
};
const READS: Parameter = Parameter {
    name: "reads_percent",
    default: "80",
    help: "requests that read, percent, 0 to 100; what they miss is kept",
};
const WRITTEN: Parameter = Parameter {
    name: "drive_writes",
    default: "6",
    help: "times that the drive is written over, 2 to 100; the second half counts",
};

const UNIT: Parameter = Parameter {
    name: "unit_kib",
    default: "64",
    help: "reclaim unit of the drive in KiB, 16 to 65536; units that are being filled, one of each handle, are room \
           that it lacks",
};

const LINE_BYTES: u32 = 4096;
const ZIPF: f64 = 0.99;
/// Approximate number of segments in the log.
const SEGMENTS: u64 = 192;
/// Requests in flight.
const DEPTH: usize = 32;

pub(in crate::experiment) static BLOCK_PLACEMENT: Experiment = Experiment {
    name: "block-placement",
    title: "DLWA of a block cache: with handles for dirty and clean data and for its table, and with one for all",
    reproduces: "the placement of FDP-enabled CacheLib (EuroSys'25) for Open CAS's job; no paper has published this",
    criterion: "on a full drive: DLWA at most 1.05 for the log with handles; for lines in place at least 5 % lower \
                with handles than without, where most of what is written is clean (with as much dirty they are within \
                1 %)",
    parameters: &[FLASH, OP, UNIT, FILE, READS, WRITTEN],
    metrics: &[
        (
            "dlwa.*",
            "DLWA by layout (log, ocf26) and placement: fdp (handles for three streams), one (one handle for all)",
        ),
        ("drive_writes.*", "times that the drive was written over in the measurement"),
        ("hit.*", "reads that the cache had all of, by the same"),
        (
            "written_per_user_byte.*",
            "bytes that the cache wrote by bytes of users' writes and misses",
        ),
    ],
    references: &[],
    needs: &["dlwa.log.fdp", "dlwa.log.one", "dlwa.ocf26.fdp", "dlwa.ocf26.one"],
    measure,
    judge,
};

/// A run: its drive and its load.
struct Load {
    flash_bytes: u64,
    unit_bytes: u64,
    op_percent: f64,
    file_bytes: u64,
    reads_percent: u8,
    drive_writes: u64,
    seed: u64,
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let flash_bytes = settings.within::<u64>(FLASH.name, 32..=4096)? << 20;
    let load = Load {
        flash_bytes,
        unit_bytes: settings.within::<u64>(UNIT.name, 16..=65_536)? << 10,
        op_percent: settings.within(OP.name, 5.0..=100.0)?,
        file_bytes: whole_mib(flash_bytes / 100 * settings.within::<u64>(FILE.name, 50..=400)?),
        reads_percent: settings.within(READS.name, 0..=100)?,
        drive_writes: settings.within(WRITTEN.name, 2..=100)?,
        seed,
    };
    let segment_bytes =
        u32::try_from((flash_bytes / SEGMENTS).next_power_of_two() / 2).unwrap_or(1 << 30);
    let log = LogOptions { segment_bytes, line_bytes: LINE_BYTES, ..LogOptions::default() };
    let log = LogOptions { write_buffer_bytes: flash_bytes / 16, ..log };
    let ocf = OcfOptions { version: OcfVersion::V26, line_bytes: LINE_BYTES };
    let layouts = [("log", LayoutOptions::Log(log)), ("ocf26", LayoutOptions::Ocf(ocf))];
    let mut metrics = Metrics::new();
    for (name, layout) in layouts {
        for (placed, places) in [("fdp", true), ("one", false)] {
            let measured = run(&load, &layout, places, monitor)?;
            for (metric, value) in measured {
                metrics.insert(format!("{metric}.{name}.{placed}"), value);
            }
        }
    }
    Ok(metrics)
}

fn run(
    load: &Load,
    layout: &LayoutOptions,
    places: bool,
    monitor: &Monitor,
) -> Result<BTreeMap<&'static str, f64>, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::run(error.to_string());
    let device = drive(load, places)?;
    let core: Arc<dyn Device> =
        Arc::new(MemoryDevice::holding(vec![
            0;
            usize::try_from(load.file_bytes).unwrap_or(usize::MAX)
        ]));
    let id = CoreId::new(0).expect("a number of a core");
    let cores = [Core { id, name: "file".to_owned(), device: core }];
    let options =
        CreateOptions { layout: layout.clone(), mode: Mode::WriteBack, ..CreateOptions::default() };
    block_on(create(&device, &cores, &options)).map_err(|error| refused(&error))?;
    let (handles, _) = Handles::plan(&device.info().placement, places);
    let cache = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    let log = match layout {
        LayoutOptions::Log(options) => options.clone(),
        LayoutOptions::Ocf(_) => LogOptions::default(),
    };
    let open_options = OpenOptions { cache, handles, log, ..OpenOptions::default() };
    let opened = block_on(open(&device, &cores, &open_options)).map_err(|error| refused(&error))?;
    let core = opened.cache.core(id).expect("it has this core");
    let mut users = Users::new(load, core);
    let half = load.flash_bytes * load.drive_writes / 2;
    users.run_until(&*device, half, monitor)?;
    opened.cache.with(|cache| cache.reset_statistics());
    let before = device.stats();
    users.run_until(&*device, half, monitor)?;
    let after = device.stats();
    let statistics = opened.cache.with(|cache| *cache.statistics());
    let (host, media) = since(&before, &after);
    let missed = statistics.reads.bytes.min(statistics.core_read_bytes);
    Ok(BTreeMap::from([
        ("dlwa", ratio(media, host)),
        ("drive_writes", ratio(host, load.flash_bytes)),
        ("hit", ratio(statistics.reads.hits, statistics.reads.total())),
        (
            "written_per_user_byte",
            ratio(statistics.cache_written_bytes, statistics.writes.bytes + missed),
        ),
    ]))
}

fn drive(load: &Load, places: bool) -> Result<Arc<dyn Device>, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
    let geometry =
        Geometry::with_overprovisioning(load.flash_bytes, load.unit_bytes, load.op_percent)
            .map_err(|error| refused(&error))?;
    let config = ManagedConfig { fdp: places, ..ManagedConfig::new(geometry) };
    let device = ModelDevice::new(config, Payload::Memory).map_err(|error| refused(&error))?;
    Ok(Arc::new(device))
}

/// Users that read and write with a Zipf distribution.
struct Users {
    core: CachedCore,
    law: ZipfMandelbrot,
    places: Vec<u64>,
    rng: fastrand::Rng,
    reads_percent: u8,
}

impl Users {
    fn new(load: &Load, core: CachedCore) -> Self {
        let blocks = load.file_bytes / u64::from(LINE_BYTES);
        let mut rng = fastrand::Rng::with_seed(load.seed);
        let mut places: Vec<u64> = (0..blocks).collect();
        rng.shuffle(&mut places);
        let law = ZipfMandelbrot::new(blocks, 0.0, ZIPF);
        Self { core, law, places, rng, reads_percent: load.reads_percent }
    }

    /// Makes requests until `device` has been given this number of additional bytes.
    fn run_until(
        &mut self,
        device: &dyn Device,
        bytes: u64,
        monitor: &Monitor,
    ) -> Result<(), Error> {
        let begin = device.stats().host_written_bytes;
        while device.stats().host_written_bytes - begin < bytes {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            for _ in 0..64 {
                let futures: Vec<_> = (0..DEPTH).map(|_| self.ask()).collect();
                for future in futures {
                    future.wait().map_err(|failure| Error::run(failure.to_string()))?;
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self) -> larder_device::IoFuture {
        let rank = usize::try_from(self.law.draw(&mut self.rng) - 1).expect("a place");
        let offset = self.places[rank] * u64::from(LINE_BYTES);
        let buffer = IoBuffer::zeroed(LINE_BYTES as usize);
        let io = if self.rng.u8(..100) < self.reads_percent {
            Io::Read { offset, buffer }
        } else {
            Io::write(offset, buffer, PlacementHandle::DEFAULT)
        };
        self.core.submit(io)
    }
}

fn since(before: &DeviceStats, after: &DeviceStats) -> (u64, u64) {
    let media = |stats: &DeviceStats| stats.media_written_bytes.unwrap_or_default();
    (after.host_written_bytes - before.host_written_bytes, media(after) - media(before))
}

fn whole_mib(bytes: u64) -> u64 {
    bytes - bytes % (1 << 20)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What handles leave of the DLWA of lines in place, at most.
const GAIN: f64 = 0.95;

fn judge(summary: &Summary) -> Judgement {
    let dlwa = |name: &str| summary.mean(&format!("dlwa.{name}"));
    let (log, log_one) = (dlwa("log.fdp"), dlwa("log.one"));
    let (lines, lines_one) = (dlwa("ocf26.fdp"), dlwa("ocf26.one"));
    Checks::default()
        .exact(
            NEXT_TO_NONE.contains(&log),
            format!("log: DLWA {log:.3} with handles, {log_one:.3} with one for all"),
        )
        .exact(
            lines <= lines_one * GAIN,
            format!(
                "handles save {:.0} % of the DLWA of lines in place",
                100.0 - lines / lines_one * 100.0
            ),
        )
        .note("the log is written in order, so it needs no handles on a drive of its own")
        .shape(
            lines < lines_one,
            format!(
                "lines in place: DLWA {lines:.3} with handles, {lines_one:.3} with one for all"
            ),
        )
        .judge()
}
