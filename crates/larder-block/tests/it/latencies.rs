//! Latencies of requests on devices that take time.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use larder_block::cache::Mode;
use larder_block::running::{CachedCore, LatencyKind, RunningCache};
use larder_device::model::virtual_time::shapes;
use larder_device::{
    Clock, Device, Io, IoBuffer, IoFuture, Payload, PlacementHandle, VirtualClock,
};

use super::rig::core;
use super::running::{cache_on, in_memory, read, shaped, write};

struct Rig {
    clock: Arc<VirtualClock>,
    cache: RunningCache,
    cached: CachedCore,
}

impl Rig {
    /// An SSD in front of a disk.
    fn new(mode: Mode) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let device = |shape, bytes| shaped(shape, bytes, Payload::None, &clock);
        let cache =
            cache_on(device(shapes::SATA_SSD, 16 << 20), &[device(shapes::HDD, 64 << 20)], mode);
        cache.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let cached = cache.core(core(0)).unwrap();
        Self { clock, cache, cached }
    }

    /// The time that it takes by the clock.
    fn end(&self, mut future: IoFuture) -> Duration {
        let before = self.clock.now();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(ended) = std::pin::Pin::new(&mut future).poll(&mut context) {
                ended.unwrap();
                return self.clock.now() - before;
            }
            self.clock.advance_to_next().unwrap();
        }
    }

    fn read(&self, offset: u64, bytes: usize) -> Duration {
        self.end(self.cached.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) }))
    }

    fn counts(&self) -> Vec<u64> {
        let latencies = self.cache.latencies();
        LatencyKind::ALL.iter().map(|timed| latencies.of(*timed).count()).collect()
    }
}

#[test]
fn requests_are_timed_by_kind_and_by_the_device_that_serves_them() {
    let rig = Rig::new(Mode::WriteBack);
    let write = Io::write(0, IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
    let took = [
        (LatencyKind::Write, rig.end(rig.cached.submit(write))),
        (LatencyKind::CacheRead, rig.read(0, 4096)),
        // Half of it must be read from the core.
        (LatencyKind::CoreRead, rig.read(0, 8192)),
        (LatencyKind::Flush, rig.end(rig.cached.submit(Io::Flush))),
        (LatencyKind::Trim, rig.end(rig.cached.submit(Io::Deallocate { offset: 0, bytes: 4096 }))),
    ];
    let latencies = rig.cache.latencies();
    for (timed, took) in took {
        let latency = latencies.of(timed);
        assert_eq!((latency.count(), latency.sum()), (1, took), "{timed:?}");
        let told = latency.quantile(0.5).unwrap().max(latency.longest().unwrap());
        assert!(told >= took && told <= took.mul_f64(1.01), "{timed:?}: {told:?} for {took:?}");
        assert_eq!(
            (latency.within(took / 2), latency.within(took * 2)),
            (u64::from(took.is_zero()), 1)
        );
    }
    assert!(
        latencies.of(LatencyKind::CoreRead).sum() > 2 * latencies.of(LatencyKind::CacheRead).sum()
    );
    assert!(latencies.of(LatencyKind::Write).sum() > Duration::ZERO);
}

#[test]
fn what_was_timed_is_forgotten_and_destaging_is_nobodys_request() {
    let rig = Rig::new(Mode::WriteBack);
    let write = Io::write(0, IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
    rig.end(rig.cached.submit(write));
    assert_eq!(rig.counts(), [0, 0, 1, 0, 0]);
    let taken = rig.cache.take_latencies();
    assert_eq!(taken.of(LatencyKind::Write).count(), 1);
    assert!(rig.end(rig.cache.clean_core(core(0))) > Duration::ZERO);
    assert_eq!(rig.counts(), [0; 5]);
    assert_eq!(rig.cache.latencies().of(LatencyKind::Write).longest(), None);
}

#[test]
fn nothing_is_timed_without_a_clock() {
    let (cache, _) = in_memory(Mode::WriteThrough);
    let cached = cache.core(core(0)).unwrap();
    write(&cached, 0, 1, 4096);
    read(&cached, 0, 4096);
    let latencies = cache.latencies();
    assert!(LatencyKind::ALL.iter().all(|timed| latencies.of(*timed).count() == 0));
}
