//! Buckets that must survive a power loss, on a device whose writes and flushes end when the test says so.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Durability, Io, IoFuture, MemoryDevice,
    PlacementHandle, VolatileCache, block_on,
};
use larder_log::CacheId;

use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::engine::soc::{Soc, SocPlace};
use crate::observe::stats::Counters;

/// A device that holds writes and flushes back. Reads end at once.
struct HoldingDevice {
    info: DeviceInfo,
    bytes: MemoryDevice,
    under_way: Mutex<VecDeque<(CheckedIo, Completer)>>,
}

impl HoldingDevice {
    fn new(volatile_cache: VolatileCache) -> Arc<Self> {
        let bytes = MemoryDevice::holding(vec![0; 1 << 20]);
        let info = DeviceInfo { volatile_cache, ..bytes.info().clone() };
        Arc::new(Self { info, bytes, under_way: Mutex::default() })
    }

    /// Requests in flight: the durability of each write, `None` for a flush.
    fn held(&self) -> Vec<Option<Durability>> {
        let durability = |(io, _): &(CheckedIo, Completer)| match io.get() {
            Io::Write { durability, .. } => Some(*durability),
            _ => None,
        };
        self.under_way.lock().unwrap().iter().map(durability).collect()
    }

    /// Ends the request at this position in the queue.
    fn end(&self, at: usize) {
        let (io, completer) = self.under_way.lock().unwrap().remove(at).unwrap();
        completer.complete(self.bytes.start(io).wait());
    }
}

impl Device for HoldingDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        if matches!(io.get(), Io::Read { .. }) {
            return self.bytes.start(io);
        }
        let (future, completer) = IoFuture::pending();
        self.under_way.lock().unwrap().push_back((io, completer));
        future
    }

    fn stats(&self) -> DeviceStats {
        self.bytes.stats()
    }
}

const BUCKETS: u64 = 16;
const PLAIN: Option<Durability> = Some(Durability::Device);
const FLUSH: Option<Durability> = None;

fn soc(device: &Arc<HoldingDevice>) -> Soc {
    let place = SocPlace {
        durability: Durability::Power,
        cache: CacheId::ZERO,
        hasher: KeyHasher::UNSEEDED,
        offset: 0,
        buckets: BUCKETS,
        handle: PlacementHandle::DEFAULT,
        hot_handle: None,
        object_bytes_max: 2048,
        eviction: crate::config::SocEviction::Fifo,
        epoch: 1,
        oldest_epoch: 1,
    };
    let clock = Arc::new(crate::base::time::CacheClock::new(Arc::new(larder_device::RealClock)));
    let breaker = Arc::new(crate::engine::breaker::CircuitBreaker::new(clock));
    let device: Arc<dyn Device> = Arc::clone(device) as _;
    Soc::new(device, place, None, None, (Arc::new(Counters::default()), breaker))
}

/// Keys in this number of different buckets.
fn keys(soc: &Soc, buckets: usize) -> Vec<[u8; 4]> {
    let mut keys: Vec<[u8; 4]> = Vec::new();
    for key in (0..1000_u32).map(u32::to_le_bytes) {
        let bucket = |key: &[u8; 4]| soc.buckets.number_of(KeyHash::of(key));
        if keys.len() < buckets && keys.iter().all(|other| bucket(other) != bucket(&key)) {
            keys.push(key);
        }
    }
    keys
}

fn item(key: &[u8; 4]) -> ItemRef<'_> {
    ItemRef::new(KeyHash::of(key), key, b"value", 0)
}

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_flush_covers_the_buckets_that_were_written_before_it() {
    let device = HoldingDevice::new(VolatileCache::Yes);
    let soc = soc(&device);
    let keys = keys(&soc, 3);
    let items: Vec<_> = keys.iter().map(item).collect();
    let mut first = pin!(soc.set(&items[0], 0));
    let mut second = pin!(soc.set(&items[1], 0));
    let mut third = pin!(soc.set(&items[2], 0));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert!(poll(&mut third).is_pending());
    assert_eq!(device.held(), [PLAIN, PLAIN, PLAIN], "side by side");
    device.end(0);
    assert!(poll(&mut first).is_pending(), "it is not durable");
    assert_eq!(device.held(), [PLAIN, PLAIN, FLUSH]);
    // They were submitted before the flush, and end after its submission.
    device.end(0);
    device.end(0);
    assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
    assert_eq!(device.held(), [FLUSH]);
    device.end(0);
    assert_eq!(poll(&mut first), Poll::Ready(true));
    assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending(), "not covered");
    assert_eq!(device.held(), [FLUSH], "they share the next one");
    device.end(0);
    assert_eq!((poll(&mut second), poll(&mut third)), (Poll::Ready(true), Poll::Ready(true)));
    assert!(device.held().is_empty());
}

#[test]
fn what_a_bucket_has_dropped_may_come_back_until_the_flush_has_ended() {
    let device = HoldingDevice::new(VolatileCache::Yes);
    let soc = soc(&device);
    let keys = keys(&soc, 1);
    let hash = KeyHash::of(&keys[0]);
    {
        let item = item(&keys[0]);
        let mut set = pin!(soc.set(&item, 0));
        for _ in 0..2 {
            assert!(poll(&mut set).is_pending());
            device.end(0);
        }
        assert_eq!(poll(&mut set), Poll::Ready(true));
    }
    {
        let mut remove = pin!(soc.remove(hash, &keys[0], 0));
        assert!(poll(&mut remove).is_pending());
        device.end(0);
        assert!(poll(&mut remove).is_pending());
        assert_eq!((device.held(), soc.buckets.is_listed(hash)), (vec![FLUSH], true));
    }
    // The caller was dropped: the next caller waits for the same flush.
    device.end(0);
    assert!(!block_on(soc.remove(hash, &keys[0], 0)));
    assert!(!soc.buckets.is_listed(hash) && device.held().is_empty());
}

#[test]
fn where_no_cache_is_known_to_be_volatile_each_write_is_durable() {
    for cache in [VolatileCache::No, VolatileCache::Unknown] {
        let device = HoldingDevice::new(cache);
        let soc = soc(&device);
        let keys = keys(&soc, 1);
        let item = item(&keys[0]);
        let mut set = pin!(soc.set(&item, 0));
        assert!(poll(&mut set).is_pending());
        assert_eq!(device.held(), [Some(Durability::Power)]);
        device.end(0);
        assert_eq!(poll(&mut set), Poll::Ready(true), "and no flush follows");
    }
}
