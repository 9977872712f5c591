//! Hits that the core serves: only clean ones, and only as many as pay, on devices with modelled timing.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use larder_block::cache::{BypassReason, Mode};
use larder_block::policy::routing::{RoutingCalibration, RoutingPolicy, RoutingState};
use larder_block::policy::{ReadAheadOptions, ReadAheadPolicy};
use larder_block::running::{CachedCore, RunningCache};
use larder_device::model::virtual_time::shape::{Sourced, Transfer};
use larder_device::model::virtual_time::{Shape, shapes};
use larder_device::{
    Clock, Device, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, IoFuture, Payload,
    PlacementHandle, VirtualClock,
};

use super::rig::core;
use super::running::{cache_on, in_memory, memory, read, shaped, write};

const MIB: usize = 1 << 20;
const ALL: RoutingPolicy = RoutingPolicy::Fixed { core_permille: 1000 };

#[test]
fn clean_hits_go_to_the_core_and_dirty_ones_never_do() {
    let (cache, _) = in_memory(Mode::WriteThrough);
    let cached = cache.core(core(0)).unwrap();
    write(&cached, 0, 1, 65536);
    cache.with(|cache| cache.set_mode(Mode::WriteBack));
    write(&cached, 8192, 2, 8192);
    cache.with(|cache| cache.set_routing(ALL)).unwrap();
    let mut read_bytes = 0;
    for (offset, bytes, fill, of_core) in [
        (0, 8192, 1, true),
        (8192, 8192, 2, false),
        (12288, 4096, 2, false),
        (16384, 4096, 1, true),
    ] {
        assert_eq!(read(&cached, offset, bytes), vec![fill; bytes], "{offset}");
        read_bytes += if of_core { bytes as u64 } else { 0 };
        assert_eq!(cache.with(|cache| cache.statistics().core_read_bytes), read_bytes, "{offset}");
    }
    let mixed = read(&cached, 4096, 8192);
    assert!(mixed[..4096] == [1; 4096] && mixed[4096..] == [2; 4096]);
    let done = cache.with(|cache| *cache.statistics());
    assert_eq!((done.core_read_bytes, done.core_hits, done.reads.hits), (read_bytes, 2, 5));
    cache.with(|cache| cache.set_mode(Mode::PassThrough));
    read(&cached, 0, 4096);
    assert_eq!(cache.with(|cache| cache.statistics().core_hits), 2, "it passes by");
}

#[test]
fn a_hit_that_the_core_refuses_is_read_from_the_cache() {
    let failing = Arc::new(FaultDevice::new(memory(16 * MIB), &FaultPlan::new(1)));
    let cores: Vec<Arc<dyn Device>> = vec![Arc::clone(&failing) as _];
    let cache = cache_on(memory(8 * MIB), &cores, Mode::WriteThrough);
    let cached = cache.core(core(0)).unwrap();
    write(&cached, 0, 1, 65536);
    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error)));
    cache.with(|cache| cache.set_routing(ALL)).unwrap();
    assert_eq!(read(&cached, 4096, 8192), [1; 8192]);
    let errors = cache.with(|cache| cache.statistics().errors);
    assert_eq!((errors.core_reads, errors.tried_again), (1, 1));
}

#[test]
fn shares_that_cannot_be_are_refused() {
    let (cache, _) = in_memory(Mode::WriteThrough);
    let too_much = RoutingPolicy::Fixed { core_permille: 1001 };
    let unknown = RoutingPolicy::Tuned(RoutingCalibration {
        cache_bytes_per_second: 0,
        core_bytes_per_second: 1,
        cache_latency: Duration::ZERO,
    });
    for (policy, named) in
        [(too_much, "core_permille of 1001"), (unknown, "cache_bytes_per_second")]
    {
        let error = cache.with(|cache| cache.set_routing(policy)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert_eq!(cache.with(|cache| cache.routing()), None, "nothing has changed");
    }
}

/// A SATA SSD before a slower one, under virtual time.
struct TimedPair {
    clock: Arc<VirtualClock>,
    cache: RunningCache,
    cached: CachedCore,
    rng: fastrand::Rng,
    reads: FuturesUnordered<IoFuture>,
}

const CACHE_BYTES: u64 = 16 << 20;
const WARM_BYTES: u64 = 8 << 20;

/// The shape with `percent` percent of its speed.
fn slower(shape: Shape, percent: u64) -> Shape {
    let scaled = |direction: Transfer| Transfer {
        latency_ns: Sourced::fitted(direction.latency_ns.value * 100 / percent, "scaled"),
        bytes_per_s: Sourced::fitted(direction.bytes_per_s.value * percent / 100, "scaled"),
    };
    Shape { read: scaled(shape.read), write: scaled(shape.write), ..shape }
}

impl TimedPair {
    fn new(core_percent: u64, seed: u64) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let device = |shape, bytes| shaped(shape, bytes, Payload::None, &clock);
        let cores = [device(slower(shapes::SATA_SSD, core_percent), 64 << 20)];
        let cache = cache_on(device(shapes::SATA_SSD, CACHE_BYTES), &cores, Mode::WriteThrough);
        cache.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let cached = cache.core(core(0)).unwrap();
        let rng = fastrand::Rng::with_seed(seed);
        let mut timed = Self { clock, cache, cached, rng, reads: FuturesUnordered::new() };
        for offset in (0..WARM_BYTES).step_by(MIB) {
            timed.reads.push(timed.read(offset, MIB));
        }
        timed.go(0, Duration::ZERO, WARM_BYTES);
        timed
    }

    fn read(&self, offset: u64, bytes: usize) -> IoFuture {
        self.cached.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) })
    }

    /// Reads of 4 KiB at random places below `end`, `depth` at a time, for `length`. Then waits for the reads in
    /// flight. Returns the number of reads.
    fn go(&mut self, depth: usize, length: Duration, end: u64) -> u64 {
        let (until, mut ended) = (self.clock.now() + length, 0);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            while self.reads.len() < depth && self.clock.now() < until {
                let offset = self.rng.u64(..end / 4096) * 4096;
                self.reads.push(self.read(offset, 4096));
            }
            match self.reads.poll_next_unpin(&mut context) {
                Poll::Ready(Some(read)) => {
                    read.unwrap();
                    ended += 1;
                }
                Poll::Ready(None) => return ended,
                Poll::Pending => drop(self.clock.advance_to_next().unwrap()),
            }
        }
    }

    fn tune(&self) {
        let known = RoutingCalibration {
            cache_bytes_per_second: 400_000_000,
            core_bytes_per_second: 400_000_000,
            cache_latency: Duration::from_micros(77),
        };
        self.cache.with(|cache| cache.set_routing(RoutingPolicy::Tuned(known))).unwrap();
    }

    fn state(&self) -> (RoutingState, u16) {
        self.cache.with(|cache| cache.routing()).unwrap()
    }

    fn bypassed(&self) -> u64 {
        self.cache.with(|cache| cache.statistics().bypasses(BypassReason::Saturated))
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_saturated_cache_device_has_the_core_serve_hits_too_until_the_load_is_gone() {
    for (seed, core_percent) in [(1, 60), (2, 100)] {
        let mut timed = TimedPair::new(core_percent, seed);
        let classic = timed.go(64, SECOND / 8, WARM_BYTES);
        timed.tune();
        timed.go(64, SECOND / 3, WARM_BYTES);
        let ended = timed.go(64, SECOND / 8, WARM_BYTES);
        assert_eq!(timed.state().0, RoutingState::Saturated, "{core_percent}");
        let gain = ended as f64 / classic as f64;
        assert!(gain > 1.0 + 0.8 * core_percent as f64 / 100.0, "{gain} x at {core_percent}");
        let done = timed.cache.with(|cache| *cache.statistics());
        assert!(done.core_hits > 0 && done.saturations > 0, "{done:?}");

        // No new data is inserted.
        let valid = timed.cache.with(|cache| cache.usage().valid_sectors);
        let set = |policy| timed.cache.with(|cache| cache.set_read_ahead(policy)).unwrap();
        set(ReadAheadPolicy::On(ReadAheadOptions::default()));
        timed.reads.push(timed.read(WARM_BYTES, 65536));
        let handle = PlacementHandle::DEFAULT;
        let write = Io::write(WARM_BYTES + 65536, IoBuffer::zeroed(4096), handle);
        timed.reads.push(timed.cached.submit(write));
        timed.go(64, Duration::from_millis(1), WARM_BYTES);
        assert_eq!(timed.cache.with(|cache| cache.usage().valid_sectors), valid);
        assert_eq!(timed.bypassed(), 2);
        let ahead = timed.cache.with(|cache| cache.statistics().read_ahead);
        assert_eq!(ahead.requests, 0, "nor fetched");
        timed.cache.with(|cache| cache.set_read_ahead(ReadAheadPolicy::Off)).unwrap();
        // Except where a deallocation has made room.
        timed.reads.push(timed.cached.submit(Io::Deallocate { offset: 0, bytes: 32768 }));
        timed.go(64, Duration::from_millis(1), WARM_BYTES);
        timed.reads.push(timed.read(0, 32768));
        timed.go(64, Duration::from_millis(1), WARM_BYTES);
        assert_eq!(timed.cache.with(|cache| cache.usage().valid_sectors), valid);

        timed.go(1, SECOND, WARM_BYTES);
        assert_eq!(timed.state(), (RoutingState::Absorb, 0));
        timed.reads.push(timed.read(WARM_BYTES, 65536));
        timed.go(1, Duration::from_millis(1), WARM_BYTES);
        assert_eq!(timed.cache.with(|cache| cache.usage().valid_sectors), valid + 128);
    }
}

#[test]
fn saturation_ends_by_the_clock_when_no_requests_come() {
    let mut timed = TimedPair::new(80, 1);
    timed.tune();
    timed.go(64, SECOND / 3, WARM_BYTES);
    assert_eq!(timed.state().0, RoutingState::Saturated);
    let began = timed.clock.now();
    while let Some(due) = timed.cache.work(timed.clock.now()) {
        timed.clock.advance_to(due);
        assert!(timed.clock.now() < began + 3 * SECOND, "{:?}", timed.state());
    }
    assert_eq!(timed.state(), (RoutingState::Absorb, 0));
}

#[test]
fn a_clock_that_is_set_back_or_far_forwards_does_no_harm() {
    let mut timed = TimedPair::new(80, 1);
    timed.tune();
    timed.go(64, SECOND / 3, WARM_BYTES);
    let (state, _) = timed.state();
    assert_eq!(state, RoutingState::Saturated);
    for to in [Duration::from_secs(1 << 32), Duration::ZERO] {
        let undisturbed = timed.go(64, SECOND / 10, WARM_BYTES);
        timed.cache.with(|cache| cache.at(to));
        let ended = timed.go(64, SECOND / 10, WARM_BYTES);
        assert!(ended > undisturbed / 100 * 95, "{ended} of {undisturbed} after {to:?}");
        assert_eq!(timed.state().0, RoutingState::Saturated);
    }
}
