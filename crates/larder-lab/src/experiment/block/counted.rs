//! A block cache before a core, on devices that count and keep nothing. One request at a time, where nothing else is
//! said; what the cache does of its own ends before the next request comes. Nothing passes by because it is sequential.

use larder_block::accounting::{Accounting, Counts, Image};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{CoreId, Data, Layout, Request, Span};
use larder_device::DeviceInfo;

use crate::Error;
use crate::experiment::{Metrics, Parameter, Settings};
use crate::replay::Monitor;

/// Where published numbers are from.
pub(super) const COUNTED_26: &str = "Open CAS 26.3, counted in its user-space environment";
pub(super) const COUNTED_22: &str = "Open CAS 22.6, counted in its user-space environment";

/// Lines of the cache.
pub(super) const LINES: Parameter = Parameter {
    name: "lines",
    default: "8192",
    help: "lines that the cache has room for, 512 to 4194304",
};
/// Lengths of the file.
pub(super) const FILES: Parameter = Parameter {
    name: "files",
    default: "50,75,100,125,150",
    help: "lengths of the file in percent of the cache, each 1 to 1000",
};
pub(super) const LINE_KIB: [u32; 3] = [4, 16, 64];

/// Blocks of all devices but memory.
pub(super) const BLOCK_BYTES: u32 = 512;
/// Writes between two looks at whether to stop.
const WRITES_AT_ONCE: usize = 4096;
const LONGEST_WRITE_BYTES: usize = 1 << 20;
pub(super) const IDENTITY: LogIdentity = LogIdentity { uuid: *b"a counted cache.", epoch: 1 };

/// What is compared, by its name in metrics.
pub(super) const KINDS: [(&str, Kind); 4] = [
    ("log", Kind::Log { block_bytes: BLOCK_BYTES, beside_bytes: 0 }),
    ("ocf22", Kind::Ocf(OcfVersion::V22)),
    ("ocf26", Kind::Ocf(OcfVersion::V26)),
    ("wal", Kind::Ocf(OcfVersion::Wal)),
];

/// The log in persistent memory.
pub(super) const DAX: (&str, Kind) = ("dax", Kind::Log { block_bytes: 64, beside_bytes: 0 });

/// The log on blocks of 4 KiB with metadata beside them, in which its headers lie.
pub(super) const BESIDE: (&str, Kind) =
    ("beside", Kind::Log { block_bytes: 4096, beside_bytes: 64 });

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// On such blocks, with so many bytes of metadata beside each.
    Log {
        block_bytes: u32,
        beside_bytes: u16,
    },
    Ocf(OcfVersion),
}

/// Within its range.
pub(super) fn lines(settings: &Settings) -> Result<u32, Error> {
    settings.within(LINES.name, 512..=1 << 22)
}

/// Each within its range.
pub(super) fn files(settings: &Settings) -> Result<Vec<u64>, Error> {
    let files: Vec<u64> = settings.list(FILES.name)?;
    match files.iter().find(|percent| !(1..=1000).contains(*percent)) {
        Some(wrong) => Err(settings.refuse(FILES.name, &wrong.to_string(), "must be 1 to 1000")),
        None => Ok(files),
    }
}

/// A cache, and what it has cost.
pub(super) struct Counted {
    cache: Cache,
    zeros: Data,
    capacity_bytes: u64,
    /// Requests under way at a time.
    depth: usize,
}

enum Cache {
    Log(Box<Accounting<LogLayout>>),
    Lines(Box<Accounting<OcfLayout>>),
}

impl Counted {
    /// An empty one of `kind`, with room for so many lines. Of a log that includes its headers.
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

    /// The same with so many requests under way. What it does of its own goes on beside them then.
    pub(super) fn with_depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Writes of `bytes` that a file of so much of the capacity has.
    pub(super) fn writes(&self, percent: u64, bytes: u64) -> u64 {
        self.capacity_bytes * percent / 100 / bytes
    }

    /// Writes so many bytes at each of these numbers, in units of them, and says what that has cost.
    ///
    /// # Errors
    /// [`Error::Run`] if it is to stop.
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
            Request::Write { span, data: data.clone() }
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

    /// Writes that found no room and went to the core instead. A log waits for room.
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

/// An empty log of so many lines, headers included, with a write buffer of a 16th, and what its device has room for.
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

/// An empty cache of so many lines, and what its device has room for.
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

/// The one that there is.
pub(super) fn core() -> Result<CoreId, Error> {
    CoreId::new(0).ok_or_else(|| Error::run("a core has no number"))
}

fn carry_out(
    run: &mut Accounting<impl Layout>,
    depth: usize,
    requests: impl Iterator<Item = Request>,
) {
    match depth {
        1 => run.run_one_by_one(requests),
        _ => run.run_all(depth, requests),
    }
}

/// Memory writes words whole, others lines.
pub(super) fn device(bytes: u64, block_bytes: u32) -> DeviceInfo {
    let info = DeviceInfo::new("cache", bytes, block_bytes, 1 << 20);
    DeviceInfo { atomic_write_bytes: Some(if block_bytes < 512 { 8 } else { 4096 }), ..info }
}

fn counted<L: Layout>(layout: L) -> Accounting<L> {
    Accounting::new(layout, Image::default()).without_bytes()
}

/// Notes what `counts` have by byte that was written, at `point`.
pub(super) fn note(metrics: &mut Metrics, point: &str, counts: &Counts) {
    let values =
        [("cw", counts.cw()), ("md", counts.metadata()), ("cr", counts.cr()), ("kw", counts.kw())];
    metrics.extend(values.map(|(name, value)| (format!("{name}.{point}"), value)));
}
