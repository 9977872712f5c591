//! A block cache and a core, on devices that count bytes and store nothing. Unless stated otherwise there is one
//! request at a time, and the cache's background work ends before the next request comes. Sequential requests do not
//! bypass the cache.

use larder_block::accounting::{Accounting, Counts, Image};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{CoreId, Data, Layout, LayoutRequest, Span};
use larder_device::DeviceInfo;

use crate::Error;
use crate::experiment::{Metrics, Parameter, Settings};
use crate::replay::Monitor;

/// Sources of the published numbers.
pub(super) const COUNTED_26: &str = "Open CAS 26.3, counted in its user-space environment";
pub(super) const COUNTED_22: &str = "Open CAS 22.6, counted in its user-space environment";

/// Number of cache lines.
pub(super) const LINES: Parameter = Parameter {
    name: "lines",
    default: "8192",
    help: "lines that the cache has room for, 512 to 4194304",
};
/// File lengths.
pub(super) const FILES: Parameter = Parameter {
    name: "files",
    default: "50,75,100,125,150",
    help: "lengths of the file in percent of the cache, each 1 to 1000",
};
pub(super) const LINE_KIB: [u32; 3] = [4, 16, 64];

/// Block size of all devices except memory.
pub(super) const BLOCK_BYTES: u32 = 512;
/// Number of writes between two checks for a stop request.
const WRITES_AT_ONCE: usize = 4096;
const LONGEST_WRITE_BYTES: usize = 1 << 20;
pub(super) const IDENTITY: LogIdentity = LogIdentity { uuid: *b"a counted cache.", epoch: 1 };

/// The layouts that are compared, by name in metrics.
pub(super) const KINDS: [(&str, Kind); 4] = [
    ("log", Kind::Log { block_bytes: BLOCK_BYTES, beside_bytes: 0 }),
    ("ocf22", Kind::Ocf(OcfVersion::V22)),
    ("ocf26", Kind::Ocf(OcfVersion::V26)),
    ("wal", Kind::Ocf(OcfVersion::Wal)),
];

/// The log in persistent memory.
pub(super) const DAX: (&str, Kind) = ("dax", Kind::Log { block_bytes: 64, beside_bytes: 0 });

/// The log on blocks of 4 KiB with per-block metadata, which holds the log's headers.
pub(super) const BESIDE: (&str, Kind) =
    ("beside", Kind::Log { block_bytes: 4096, beside_bytes: 64 });

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A log on blocks of `block_bytes` with `beside_bytes` bytes of metadata for each block.
    Log {
        block_bytes: u32,
        beside_bytes: u16,
    },
    Ocf(OcfVersion),
}

/// Reads the number of lines; fails if it is out of range.
pub(super) fn lines(settings: &Settings) -> Result<u32, Error> {
    settings.within(LINES.name, 512..=1 << 22)
}

/// Reads the file lengths; fails if one is out of range.
pub(super) fn files(settings: &Settings) -> Result<Vec<u64>, Error> {
    let files: Vec<u64> = settings.list(FILES.name)?;
    match files.iter().find(|percent| !(1..=1000).contains(*percent)) {
        Some(wrong) => Err(settings.refuse(FILES.name, &wrong.to_string(), "must be 1 to 1000")),
        None => Ok(files),
    }
}

/// A cache with its counters.
pub(super) struct Counted {
    cache: Cache,
    zeros: Data,
    capacity_bytes: u64,
    /// Requests in flight at a time.
    depth: usize,
}

enum Cache {
    Log(Box<Accounting<LogLayout>>),
    Lines(Box<Accounting<OcfLayout>>),
}

impl Counted {
    /// An empty cache of `kind` with room for `lines` lines. For a log, that room includes its headers.
    pub(super) fn new(kind: Kind, line_bytes: u32, lines: u32) -> Result<Self, Error> {
        let capacity_bytes = u64::from(lines) * u64::from(line_bytes);
        let cache = match kind {
            Kind::Log { block_bytes, beside_bytes } => {
                let blocks = (block_bytes, beside_bytes);
                let segment_bytes = (256 << 10).max(16 * line_bytes);
                let (log, _) = log_of(blocks, line_bytes, lines, segment_bytes)?;
                Cache::Log(Box::new(counted(log)))
            }
            Kind::Ocf(version) => {
                Cache::Lines(Box::new(counted(lines_of(version, line_bytes, lines)?.0)))
            }
        };
        let zeros = Data::copy_of(&vec![0; LONGEST_WRITE_BYTES]);
        Ok(Self { cache, zeros, capacity_bytes, depth: 1 })
    }

    /// The same cache with `depth` requests in flight. Its background work then runs concurrently with the requests.
    pub(super) fn with_depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Number of writes of `bytes` bytes in a file of `percent` percent of the capacity.
    pub(super) fn writes(&self, percent: u64, bytes: u64) -> u64 {
        self.capacity_bytes * percent / 100 / bytes
    }

    /// Writes `bytes` bytes at each of the given positions, which count in units of `bytes`, and returns the cost.
    ///
    /// # Errors
    /// [`Error::Run`] if the run was stopped.
    pub(super) fn write(
        &mut self,
        bytes: u64,
        at: impl IntoIterator<Item = u64>,
        monitor: &Monitor,
    ) -> Result<Counts, Error> {
        let before = self.counts();
        let core = core()?;
        let sectors = u32::try_from(bytes / 512).map_err(|_| Error::usage("too long a write"))?;
        let data = self.zeros.slice(0..sectors as usize * 512);
        let mut requests = at.into_iter().map(|number| {
            let span = Span { core, first: number * u64::from(sectors), sectors };
            LayoutRequest::Write { span, data: data.clone() }
        });
        loop {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            let ended = self.counts().requests;
            let some = requests.by_ref().take(WRITES_AT_ONCE);
            match &mut self.cache {
                Cache::Log(run) => carry_out(run, self.depth, some),
                Cache::Lines(run) => carry_out(run, self.depth, some),
            }
            if self.counts().requests == ended {
                return Ok(self.counts().since(&before));
            }
        }
    }

    /// Writes that found no room and went to the core instead. A log waits for room, so it has none.
    pub(super) fn writes_around(&self) -> u64 {
        match &self.cache {
            Cache::Log(_) => 0,
            Cache::Lines(run) => run.layout().writes_around(),
        }
    }

    fn counts(&self) -> Counts {
        match &self.cache {
            Cache::Log(run) => run.counts(),
            Cache::Lines(run) => run.counts(),
        }
    }
}

/// An empty log of `lines` lines, headers included, with a write buffer of a 16th, and the usable bytes of its device.
pub(super) fn log_of(
    (block_bytes, beside_bytes): (u32, u16),
    line_bytes: u32,
    lines: u32,
    segment_bytes: u32,
) -> Result<(LogLayout, u64), Error> {
    let capacity_bytes = u64::from(lines) * u64::from(line_bytes);
    let options = LogOptions {
        segment_bytes,
        line_bytes,
        write_buffer_bytes: capacity_bytes / 16,
        ..LogOptions::default()
    };
    let info = DeviceInfo {
        metadata_bytes: beside_bytes,
        keeps_metadata: beside_bytes > 0,
        ..device(capacity_bytes, block_bytes)
    };
    let geometry = Geometry::new(&info, 0, &options).map_err(refused)?;
    Ok((LogLayout::new(geometry, IDENTITY, &info, &options), capacity_bytes))
}

/// An empty cache of `lines` lines, and the usable bytes of its device.
pub(super) fn lines_of(
    version: OcfVersion,
    line_bytes: u32,
    lines: u32,
) -> Result<(OcfLayout, u64), Error> {
    let options = OcfOptions { version, line_bytes };
    let device_bytes = ocf::Geometry::device_bytes(0, lines, &options);
    let geometry =
        ocf::Geometry::new(&device(device_bytes, BLOCK_BYTES), 0, &options).map_err(refused)?;
    Ok((OcfLayout::new(geometry, IDENTITY.uuid), device_bytes))
}

pub(super) fn refused(error: larder_block::Error) -> Error {
    Error::usage(error.to_string())
}

/// The number of the only core.
pub(super) fn core() -> Result<CoreId, Error> {
    CoreId::new(0).ok_or_else(|| Error::run("a core has no number"))
}

fn carry_out(
    run: &mut Accounting<impl Layout>,
    depth: usize,
    requests: impl Iterator<Item = LayoutRequest>,
) {
    match depth {
        1 => run.run_one_by_one(requests),
        _ => run.run_all(depth, requests),
    }
}

/// Memory writes whole words atomically, other devices whole lines.
pub(super) fn device(bytes: u64, block_bytes: u32) -> DeviceInfo {
    let info = DeviceInfo::new("cache", bytes, block_bytes, 1 << 20);
    DeviceInfo { atomic_write_bytes: Some(if block_bytes < 512 { 8 } else { 4096 }), ..info }
}

fn counted<L: Layout>(layout: L) -> Accounting<L> {
    Accounting::new(layout, Image::default()).without_bytes()
}

/// Records the bytes of `counts` for each byte that users wrote, under `point`.
pub(super) fn note(metrics: &mut Metrics, point: &str, counts: &Counts) {
    let values =
        [("cw", counts.cw()), ("md", counts.metadata()), ("cr", counts.cr()), ("kw", counts.kw())];
    metrics.extend(values.map(|(name, value)| (format!("{name}.{point}"), value)));
}
