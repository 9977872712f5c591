//! A cache and a slower core, both timed. The clients read a warm working set, 64 requests at a time.

use std::time::Duration;

use larder_block::Error;
use larder_block::accounting::timed::{ProcessorCost, TimedLayout};
use larder_block::cache::{Cache, CacheOptions, CacheShape, Mode, Request, Statistics};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::{CoreId, Data, Span};
use larder_block::policy::CutOffPolicy;
use larder_block::policy::routing::{RoutingCalibration, RoutingPolicy};
use larder_device::model::virtual_time::shape::{Sourced, Transfer};
use larder_device::model::virtual_time::{Shape, ShapedStorage};
use larder_device::{DeviceInfo, Error as DeviceError};

use crate::experiment::block::study::read_alone_ns;

const CACHE_BYTES: u64 = 32 << 20;
const CORE_BYTES: u64 = 1 << 30;
const LINE: usize = 4096;
/// Lines of the working set: half of the cache.
const WORKING: u64 = CACHE_BYTES / 2 / LINE as u64;
const LINES: u64 = CORE_BYTES / LINE as u64;
/// Requests in flight.
pub(super) const DEPTH: usize = 64;
const IDENTITY: LogIdentity = LogIdentity { uuid: *b"a routed cache..", epoch: 1 };

/// A mix of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Name in metrics.
    pub(super) name: &'static str,
    /// Percent of reads outside the working set.
    pub(super) missed_percent: u8,
    /// Percent of writes, to the working set.
    pub(super) written_percent: u8,
}

/// A cache and its devices.
pub(super) struct Pair {
    timed: TimedLayout<Cache>,
    rng: fastrand::Rng,
    data: Data,
    cache: Shape,
    core: Shape,
}

/// `shape` with `percent` percent of its speed.
fn slower(shape: Shape, percent: u64) -> Shape {
    let scaled = |of: Transfer| Transfer {
        latency_ns: Sourced::fitted(of.latency_ns.value * 100 / percent, "a part of the cache's"),
        bytes_per_s: Sourced::fitted(of.bytes_per_s.value * percent / 100, "a part of the cache's"),
    };
    Shape { read: scaled(shape.read), write: scaled(shape.write), ..shape }
}

/// Bytes a second of line reads at depth, and the latency of a single one.
fn reads_of(shape: &Shape) -> (u64, Duration) {
    let alone_ns = read_alone_ns(shape, LINE as u64);
    let rate = shape.channels.value * LINE as u64 * 1_000_000_000 / alone_ns.max(1);
    (rate.min(shape.read.bytes_per_s.value), Duration::from_nanos(alone_ns))
}

impl Pair {
    /// A warm cache on `shape`, with a core of `core_percent` percent of its speed.
    ///
    /// # Errors
    /// Fails if the devices cannot be made.
    pub(super) fn new(shape: Shape, core_percent: u64, seed: u64) -> Result<Self, String> {
        // Server drives: their write buffers survive a loss of power.
        let shape = Shape { volatile_cache: false, ..shape };
        let core = slower(shape, core_percent);
        let device = |shape, bytes| {
            ShapedStorage::new(shape, bytes).map_err(|error: DeviceError| error.to_string())
        };
        let cache = cache().map_err(|error| error.to_string())?;
        let devices = (device(shape, CACHE_BYTES)?, device(core, CORE_BYTES)?);
        let mut timed = TimedLayout::new(cache, devices.0, devices.1, ProcessorCost::default());
        // Fill the cache with lines that are not read again, and then with the working set.
        let cold = WORKING..3 * WORKING;
        timed.run(DEPTH, cold.chain(0..WORKING).map(|line| Request::Read { span: span(line) }));
        timed.settle();
        let (rng, data) = (fastrand::Rng::with_seed(seed), Data::copy_of(&[0; LINE]));
        Ok(Self { timed, rng, data, cache: shape, core })
    }

    /// Tuned routing that takes the core's speed to be `measured_percent` percent of its real speed.
    pub(super) fn tuned(&self, measured_percent: u64) -> RoutingPolicy {
        let (cache_bytes_per_second, cache_latency) = reads_of(&self.cache);
        let core_bytes_per_second = reads_of(&self.core).0 * measured_percent / 100;
        RoutingPolicy::Tuned(RoutingCalibration {
            cache_bytes_per_second,
            core_bytes_per_second,
            cache_latency,
        })
    }

    /// # Errors
    /// If the policy is not possible.
    pub(super) fn set(&mut self, policy: RoutingPolicy) -> Result<(), Error> {
        self.timed.layout_mut().set_routing(policy)
    }

    /// Runs the load for `time`. Returns the bytes a second.
    pub(super) fn run(&mut self, load: Load, time: Duration) -> f64 {
        let Self { timed, rng, data, .. } = self;
        let requests = std::iter::repeat_with(|| {
            let of_working = span(rng.u64(..WORKING));
            let dice = rng.u8(..100);
            if dice < load.written_percent {
                return Request::Write { span: of_working, data: data.clone(), durable: false };
            }
            let is_missed = dice - load.written_percent < load.missed_percent;
            let other = span(rng.u64(3 * WORKING..LINES));
            Request::Read { span: if is_missed { other } else { of_working } }
        });
        timed.run_for(time, DEPTH, requests).bytes_per_second()
    }

    /// The cache's statistics so far.
    pub(super) fn statistics(&self) -> Statistics {
        *self.timed.layout().statistics()
    }
}

fn span(line: u64) -> Span {
    let sectors = u32::try_from(LINE / 512).expect("a line");
    let core = CoreId::new(0).expect("there is a first core");
    Span { core, first: line * u64::from(sectors), sectors }
}

/// The cache is in write-through mode, so the core has all cached data.
fn cache() -> Result<Cache, Error> {
    let info = DeviceInfo::new("cache", CACHE_BYTES, 512, 1 << 20);
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &options)?;
    let layout = LogLayout::new(geometry, IDENTITY, &info, &options);
    let shape =
        CacheShape { capacity_bytes: geometry.capacity_bytes(), line_bytes: geometry.line_bytes };
    let options = CacheOptions {
        mode: Mode::WriteThrough,
        cut_off: CutOffPolicy::Never,
        ..CacheOptions::default()
    };
    Cache::new(Box::new(layout), shape, options)
}
