//! Timed devices under a layout with a core, a whole cache with a core, or the core alone.

use larder_block::accounting::timed::{Bare, TimedLayout, TimedRun};
use larder_block::cache::{self, Cache, CacheOptions, CacheShape, Mode};
use larder_block::layout::{self, Data, Layout, Span};
use larder_device::model::virtual_time::ShapedStorage;

use super::counted::{Kind, core, lines_of, log_of, refused};
use super::study::{Costs, Storage};
use crate::Error;
use crate::replay::Monitor;

/// Bytes of a core: enough for any file.
const CORE_BYTES: u64 = 1 << 40;
const LONGEST_BYTES: usize = 1 << 20;

/// Requests of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub(super) bytes: u64,
    /// Requests in flight at a time.
    pub(super) depth: usize,
    pub(super) is_read: bool,
}

impl Asks {
    /// Writes of `bytes` bytes, one at a time.
    pub(super) fn writes(bytes: u64) -> Self {
        Self { bytes, depth: 1, is_read: false }
    }
}

/// The configuration of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) kind: Kind,
    pub(super) line_bytes: u32,
    pub(super) lines: u32,
    /// Segment size of a log.
    pub(super) segment_bytes: u32,
}

impl Made {
    pub(super) fn capacity_bytes(&self) -> u64 {
        u64::from(self.lines) * u64::from(self.line_bytes)
    }

    /// Number of requests of `bytes` in a file of `percent` percent of the capacity.
    pub(super) fn requests(&self, percent: u64, bytes: u64) -> u64 {
        self.capacity_bytes() * percent / 100 / bytes
    }

    /// An empty layout, and the usable bytes of its device.
    fn layout(&self) -> Result<(Box<dyn Layout>, u64), Error> {
        match self.kind {
            Kind::Log { block_bytes, beside_bytes } => {
                let (layout, bytes) = log_of(
                    (block_bytes, beside_bytes),
                    self.line_bytes,
                    self.lines,
                    self.segment_bytes,
                )?;
                Ok((Box::new(layout), bytes))
            }
            Kind::Ocf(version) => {
                let (layout, bytes) = lines_of(version, self.line_bytes, self.lines)?;
                Ok((Box::new(layout), bytes))
            }
        }
    }
}

/// The system under test, with its devices.
pub(super) struct Pair {
    run: Run,
    zeros: Data,
}

enum Run {
    Layout(Box<TimedLayout<Box<dyn Layout>>>),
    Cache(Box<TimedLayout<Cache>>),
    Bare(Box<TimedLayout<Bare>>),
}

impl Pair {
    /// A layout alone. It cleans nothing before it needs the room.
    pub(super) fn layout(
        made: &Made,
        (cache, core): (&Storage, &Storage),
        costs: &Costs,
    ) -> Result<Self, Error> {
        let (layout, bytes) = made.layout()?;
        let (cache_device, core_device) = (storage(cache, bytes)?, storage(core, CORE_BYTES)?);
        let timed = TimedLayout::new(layout, cache_device, core_device, costs.with(cache, core));
        Ok(Self::of(Run::Layout(Box::new(timed))))
    }

    /// The whole cache in write-back mode with default options.
    pub(super) fn cache(
        made: &Made,
        (cache, core): (&Storage, &Storage),
        costs: &Costs,
    ) -> Result<Self, Error> {
        let (layout, bytes) = made.layout()?;
        let shape =
            CacheShape { capacity_bytes: made.capacity_bytes(), line_bytes: made.line_bytes };
        let options = CacheOptions { mode: Mode::WriteBack, ..CacheOptions::default() };
        let whole = Cache::new(layout, shape, options).map_err(refused)?;
        let (cache_device, core_device) = (storage(cache, bytes)?, storage(core, CORE_BYTES)?);
        let timed = TimedLayout::new(whole, cache_device, core_device, costs.with(cache, core));
        Ok(Self::of(Run::Cache(Box::new(timed))))
    }

    /// The core alone. With `writes_durably` a write ends when it would survive a loss of power.
    pub(super) fn bare(core: &Storage, costs: &Costs, writes_durably: bool) -> Result<Self, Error> {
        let device = || storage(core, CORE_BYTES);
        let timed = TimedLayout::new(
            Bare::new(writes_durably),
            device()?,
            device()?,
            costs.with(core, core),
        );
        Ok(Self::of(Run::Bare(Box::new(timed))))
    }

    fn of(run: Run) -> Self {
        Self { run, zeros: Data::copy_of(&vec![0; LONGEST_BYTES]) }
    }

    /// Bytes of sectors that the core does not have yet.
    pub(super) fn dirty_bytes(&self) -> u64 {
        let usage = match &self.run {
            Run::Layout(run) => run.layout().usage(),
            Run::Cache(run) => run.layout().usage(),
            Run::Bare(_) => return 0,
        };
        usage.dirty_sectors * 512
    }

    /// Makes a request at each of the given positions, which count in units of a request, and returns the result.
    ///
    /// # Errors
    /// [`Error::Run`] if the run was stopped.
    pub(super) fn ask(
        &mut self,
        asks: Asks,
        at: impl IntoIterator<Item = u64>,
        monitor: &Monitor,
    ) -> Result<TimedRun, Error> {
        let core = core()?;
        let bytes = usize::try_from(asks.bytes).ok().filter(|bytes| *bytes <= LONGEST_BYTES);
        let data = self.zeros.slice(0..bytes.ok_or_else(|| Error::usage("too long a request"))?);
        let sectors = u32::try_from(data.len() / 512).map_err(|_| Error::usage("too long"))?;
        let numbers = at.into_iter().take_while(|_| !monitor.is_stopped());
        let spans =
            numbers.map(|number| Span { core, first: number * u64::from(sectors), sectors });
        let of_layout = |span| match asks.is_read {
            true => layout::LayoutRequest::Read { span },
            false => layout::LayoutRequest::Write { span, data: data.clone() },
        };
        let of_cache = |span| match asks.is_read {
            true => cache::Request::Read { span },
            false => cache::Request::Write { span, data: data.clone(), durable: false },
        };
        let run = match &mut self.run {
            Run::Layout(run) => run.run(asks.depth, spans.map(of_layout)),
            Run::Cache(run) => run.run(asks.depth, spans.map(of_cache)),
            Run::Bare(run) => run.run(asks.depth, spans.map(of_layout)),
        };
        if monitor.is_stopped() { Err(Error::run("interrupted")) } else { Ok(run) }
    }
}

fn storage(of: &Storage, bytes: u64) -> Result<ShapedStorage, Error> {
    ShapedStorage::new(of.shape, bytes).map_err(|error| Error::usage(error.to_string()))
}

/// Megabytes a second of a run.
pub(super) fn mb_s(run: &TimedRun) -> f64 {
    run.bytes_per_second() / 1e6
}
