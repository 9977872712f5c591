//! How a device under virtual time handles requests, clock and bytes, with any model.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::timed;

use super::*;
use crate::buffer::IoBuffer;
use crate::error::ErrorKind;
use crate::io::{Io, IoResult};
use crate::park::block_on;
use crate::placement::PlacementHandle;

fn timed_ssd(clock: &Arc<VirtualClock>) -> VirtualTimeDevice<SsdTiming> {
    let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
    let model = SsdTiming::new(ManagedConfig::new(geometry), timed::small()).unwrap();
    VirtualTimeDevice::new(model, Payload::Memory, Arc::clone(clock)).unwrap()
}

fn shaped(shape: Shape, clock: &Arc<VirtualClock>) -> VirtualTimeDevice<ShapedStorage> {
    let model = ShapedStorage::new(shape, 16 << 20).unwrap();
    VirtualTimeDevice::new(model, Payload::Memory, Arc::clone(clock)).unwrap()
}

fn write(offset: u64, byte: u8, bytes: usize) -> Io {
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.as_mut_slice().fill(byte);
    Io::write(offset, buffer, PlacementHandle::DEFAULT)
}

fn read(offset: u64) -> Io {
    Io::Read { offset, buffer: IoBuffer::zeroed(4096) }
}

fn is_ready(future: &mut IoFuture) -> Option<IoResult> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Seeded requests, several in flight at a time. Returns when each ended, its number, and what it read.
fn trace<M: TimingModel>(
    device: &VirtualTimeDevice<M>,
    seed: u64,
    count: usize,
) -> Vec<(u64, usize, u8)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut under_way: Vec<(usize, IoFuture)> = Vec::new();
    let mut ended = Vec::new();
    for number in 0..count {
        let offset = rng.u64(..4096) * 4096;
        let io = match rng.u32(..10) {
            0 => Io::Flush,
            1 => Io::Deallocate { offset, bytes: 4096 },
            2..6 => write(offset, rng.u8(..), 4096),
            _ => read(offset),
        };
        under_way.push((number, device.submit(io)));
        while under_way.len() > rng.usize(..16) {
            let came = device.clock().advance_to_next();
            note_ended(&mut under_way, &mut ended, came);
        }
    }
    while !under_way.is_empty() {
        let came = device.clock().advance_to_next();
        note_ended(&mut under_way, &mut ended, came);
    }
    ended
}

fn note_ended(
    under_way: &mut Vec<(usize, IoFuture)>,
    ended: &mut Vec<(u64, usize, u8)>,
    now: Option<Duration>,
) {
    let now_ns = u64::try_from(now.expect("something is under way").as_nanos()).unwrap();
    under_way.retain_mut(|(number, future)| match is_ready(future) {
        Some(result) => {
            let buffer = result.unwrap();
            let byte = buffer.as_slice().first().copied().unwrap_or(0);
            ended.push((now_ns, *number, byte));
            false
        }
        None => true,
    });
}

#[test]
fn a_run_is_a_function_of_its_requests() {
    let run = |seed| {
        let clock = Arc::new(VirtualClock::default());
        let mut all = trace(&timed_ssd(&clock), seed, 2000);
        for shape in shapes::ALL {
            all.extend(trace(&shaped(shape, &clock), seed, 500));
        }
        all
    };
    let once = run(7);
    assert_eq!(once, run(7));
    assert_ne!(once, run(8));
    assert!(once.windows(2).all(|pair| pair[0].0 <= pair[1].0), "ends come in order of time");
}

#[test]
fn a_request_ends_when_the_clock_comes_there_and_not_before() {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(5)));
    let device = shaped(shapes::SATA_SSD, &clock);
    let mut future = device.submit(read(0));
    let due = clock.next_due().unwrap();
    assert_eq!((device.under_way(), clock.now()), (1, Duration::from_secs(5)));
    clock.advance_to(due - Duration::from_nanos(1));
    assert!(is_ready(&mut future).is_none());
    clock.advance_to(due);
    assert!(is_ready(&mut future).unwrap().is_ok());
    assert_eq!(device.under_way(), 0);
}

#[test]
fn bytes_are_kept_and_counted() {
    let clock = Arc::new(VirtualClock::default());
    let device = timed_ssd(&clock);
    device.submit(write(8192, 7, 8192)).wait().unwrap();
    assert_eq!(device.submit(read(12_288)).wait().unwrap().as_slice()[4095], 7);
    device.submit(Io::Flush).wait().unwrap();
    device.submit(Io::Deallocate { offset: 8192, bytes: 4096 }).wait().unwrap();
    assert_eq!(device.submit(read(8192)).wait().unwrap().as_slice()[0], 0);
    let stats = device.stats();
    assert_eq!((stats.host_written_bytes, stats.host_read_bytes), (8192, 8192));
    assert_eq!((stats.deallocated_bytes, stats.failed_requests), (4096, 0));
    assert_eq!(stats.host_written_bytes_by_handle[0], 8192);
    assert!(device.with_model(|ssd| ssd.firmware().is_mapped(3)));
}

#[test]
fn a_read_sees_every_write_that_came_before_it() {
    let clock = Arc::new(VirtualClock::default());
    let device = shaped(shapes::HDD, &clock);
    let slow = device.submit(write(1 << 20, 9, 4096));
    let read = device.submit(read(1 << 20));
    drop(slow);
    assert_eq!(block_on(read).unwrap().as_slice()[0], 9);
}

#[test]
fn a_dropped_future_changes_nothing() {
    let run = |drops: bool| {
        let clock = Arc::new(VirtualClock::default());
        let device = timed_ssd(&clock);
        for number in 0..200_u64 {
            let future = device.submit(write(number * 4096, 1, 4096));
            if !drops || number % 3 > 0 {
                future.wait().unwrap();
            }
        }
        while clock.advance_to_next().is_some() {}
        assert_eq!(device.under_way(), 0, "those that were dropped have ended too");
        let stats = device.stats();
        (stats.host_written_bytes, stats.media_written_bytes)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_task_that_waits_for_a_request_and_a_timer_gets_both_in_order() {
    let clock = Arc::new(VirtualClock::default());
    let device = shaped(shapes::HDD, &clock);
    let (mut io, mut sleep) =
        (device.submit(read(1 << 20)), clock.sleep_until(Duration::from_millis(1)));
    let sleep_first = block_on(std::future::poll_fn(|context| {
        match (sleep.as_mut().poll(context), Pin::new(&mut io).poll(context)) {
            (_, Poll::Ready(_)) => Poll::Ready(false),
            (Poll::Ready(()), Poll::Pending) => Poll::Ready(true),
            _ => Poll::Pending,
        }
    }));
    assert!(sleep_first);
    assert_eq!(clock.now(), Duration::from_millis(1));
}

#[test]
#[should_panic(expected = "the clock went back")]
fn a_clock_that_goes_back_under_a_device_is_refused() {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(5)));
    let device = shaped(shapes::SATA_SSD, &clock);
    device.submit(read(0)).wait().unwrap();
    clock.set(Duration::from_secs(4));
    drop(device.submit(read(0)));
}

/// Ends every request a nanosecond before it came.
struct Hasty;

impl TimingModel for Hasty {
    fn info(&self) -> DeviceInfo {
        ShapedStorage::new(shapes::HDD, 1 << 20).unwrap().info()
    }

    fn serve(&mut self, now: Moment, _: &Io) -> Result<Moment, larder_ssd::Error> {
        Ok(Moment::from_nanos(now.as_nanos() - 1))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

#[test]
#[should_panic(expected = "cannot end at")]
fn a_model_that_ends_what_has_not_come_is_refused() {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(5)));
    let device = VirtualTimeDevice::new(Hasty, Payload::None, clock).unwrap();
    drop(device.submit(read(0)));
}

#[test]
fn what_no_drive_can_do_is_refused() {
    let clock = Arc::new(VirtualClock::default());
    let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
    let config = ManagedConfig { groups: 2, ..ManagedConfig::new(geometry) };
    let error = SsdTiming::new(config, timed::small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setup);
    assert!(error.to_string().contains("2 reclaim groups: must be 1"), "{error}");
    let device = timed_ssd(&clock);
    let error = device.submit(read(1 << 40)).wait().unwrap_err().error;
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}
