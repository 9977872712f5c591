//! Tests which writes are covered by which flush, on a device whose flushes end when the test says so.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use larder_device::{
    CheckedIo, Completer, DeviceInfo, DeviceStats, Error, ErrorKind, IoBuffer, IoFailure, block_on,
};

use super::*;

/// A device that gets only flushes.
struct HoldingDevice {
    info: DeviceInfo,
    flushes: Mutex<Vec<Completer>>,
}

impl HoldingDevice {
    /// Ends the oldest flush in flight.
    fn end(&self, went_well: bool) {
        let flush = self.flushes.lock().unwrap().remove(0);
        flush.complete(if went_well {
            Ok(IoBuffer::empty())
        } else {
            let error = Error::new(ErrorKind::Io, "it failed".to_owned());
            Err(IoFailure { error, buffer: IoBuffer::empty() })
        });
    }

    fn under_way(&self) -> usize {
        self.flushes.lock().unwrap().len()
    }
}

impl Device for HoldingDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        assert!(matches!(io.get(), Io::Flush));
        let (future, completer) = IoFuture::pending();
        self.flushes.lock().unwrap().push(completer);
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

fn rig() -> (Arc<HoldingDevice>, SharedFlush, Arc<Counters>) {
    let info = DeviceInfo::new("held", 1 << 20, 4096, 1 << 20);
    let device = Arc::new(HoldingDevice { info, flushes: Mutex::default() });
    let counters = Arc::new(Counters::default());
    let flush = SharedFlush::new(Arc::clone(&device) as Arc<dyn Device>, Arc::clone(&counters));
    (device, flush, counters)
}

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_write_that_ends_after_a_flush_was_submitted_needs_the_next() {
    let (device, flush, counters) = rig();
    let mut early = pin!(flush.wait(flush.needed()));
    assert!(poll(&mut early).is_pending());
    assert_eq!(device.under_way(), 1, "a caller that finds no flush in flight leads");
    // The flush was submitted, and has not ended.
    let mut late = pin!(flush.wait(flush.needed()));
    let mut later = pin!(flush.wait(flush.needed()));
    assert!(poll(&mut late).is_pending() && poll(&mut later).is_pending());
    assert_eq!(device.under_way(), 1, "one at a time");
    device.end(true);
    assert_eq!(poll(&mut early), Poll::Ready(true));
    assert!(poll(&mut late).is_pending(), "it is not covered");
    assert!(poll(&mut later).is_pending());
    assert_eq!(device.under_way(), 1);
    device.end(true);
    assert_eq!((poll(&mut late), poll(&mut later)), (Poll::Ready(true), Poll::Ready(true)));
    assert_eq!(counters.soc_flushes.get(), 2, "both shared the second");
}

#[test]
fn a_flush_whose_leader_was_dropped_is_finished_by_another() {
    let (device, flush, counters) = rig();
    let needed = flush.needed();
    {
        let mut leader = pin!(flush.wait(needed));
        assert!(poll(&mut leader).is_pending());
    }
    let mut other = pin!(flush.wait(needed));
    assert!(poll(&mut other).is_pending());
    assert_eq!(device.under_way(), 1, "the same one");
    device.end(true);
    assert_eq!(poll(&mut other), Poll::Ready(true));
    assert_eq!(counters.soc_flushes.get(), 1);
}

#[test]
fn a_failed_flush_fails_all_its_waiters_and_no_later_ones() {
    let (device, flush, counters) = rig();
    let needed = flush.needed();
    let mut leader = pin!(flush.wait(needed));
    assert!(poll(&mut leader).is_pending());
    let mut other = pin!(flush.wait(needed));
    assert!(poll(&mut other).is_pending());
    let mut next = pin!(flush.wait(flush.needed()));
    assert!(poll(&mut next).is_pending());
    device.end(false);
    assert_eq!((poll(&mut leader), poll(&mut other)), (Poll::Ready(false), Poll::Ready(false)));
    assert!(poll(&mut next).is_pending());
    device.end(true);
    assert_eq!(poll(&mut next), Poll::Ready(true));
    assert_eq!((counters.device_errors.get(), counters.soc_flushes.get()), (1, 2));
}

/// Numbers the writes that have completed. A flush makes those durable that were complete when it was submitted, and
/// ends after other threads have run.
struct Log {
    info: DeviceInfo,
    completed: AtomicU64,
    durable: Arc<AtomicU64>,
    under_way: Arc<AtomicBool>,
}

impl Device for Log {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, _: CheckedIo) -> IoFuture {
        assert!(!self.under_way.swap(true, Ordering::SeqCst), "one flush at a time");
        let covers = self.completed.load(Ordering::SeqCst);
        let (durable, under_way) = (Arc::clone(&self.durable), Arc::clone(&self.under_way));
        let (future, completer) = IoFuture::pending();
        std::thread::spawn(move || {
            std::thread::yield_now();
            durable.fetch_max(covers, Ordering::SeqCst);
            under_way.store(false, Ordering::SeqCst);
            completer.complete(Ok(IoBuffer::empty()));
        });
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

#[test]
fn what_many_threads_wrote_is_durable_when_each_goes_on() {
    let device = Arc::new(Log {
        info: DeviceInfo::new("log", 1 << 20, 4096, 1 << 20),
        completed: AtomicU64::new(0),
        durable: Arc::default(),
        under_way: Arc::default(),
    });
    let counters = Arc::new(Counters::default());
    let flush = SharedFlush::new(Arc::clone(&device) as Arc<dyn Device>, Arc::clone(&counters));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let written = device.completed.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(block_on(flush.wait(flush.needed())));
                    let durable = device.durable.load(Ordering::SeqCst);
                    assert!(durable >= written, "write {written} of {durable} that are durable");
                }
            });
        }
    });
    let flushes = counters.soc_flushes.get();
    assert!((300..=1200).contains(&flushes), "{flushes}");
}
