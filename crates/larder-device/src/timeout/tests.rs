//! A stalled device, and what its users and its counters report.

use std::time::Instant;

use super::*;
use crate::buffer::IoBuffer;
use crate::clock::{RealClock, VirtualClock};
use crate::fault::{Fault, FaultDevice, FaultPlan, FaultRule};
use crate::memory::MemoryDevice;
use crate::park::block_on;
use crate::placement::PlacementHandle;

type Below = Arc<FaultDevice<MemoryDevice>>;

const TIMEOUT: Duration = Duration::from_millis(30);

fn below(plan: &FaultPlan) -> Below {
    Arc::new(FaultDevice::new(MemoryDevice::holding(vec![0; 1 << 20]), plan))
}

fn stalling(rule: impl Fn(FaultRule) -> FaultRule) -> (Below, TimeoutDevice) {
    let below = below(&FaultPlan::new(1).with(rule(FaultRule::new(Fault::Stall))));
    let shared: Arc<dyn Device> = Arc::clone(&below) as _;
    (below, TimeoutDevice::new(shared, TIMEOUT, Arc::new(RealClock), None))
}

/// Its requests have 5 s.
fn stalling_from_second_1000() -> (Below, Arc<VirtualClock>, TimeoutDevice) {
    let below = below(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall)));
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let shared: Arc<dyn Device> = Arc::clone(&below) as _;
    let timer: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let device = TimeoutDevice::new(shared, Duration::from_secs(5), timer, None);
    (below, clock, device)
}

fn write(device: &impl Device, offset: u64, byte: u8) -> Result<(), ErrorKind> {
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(byte);
    let io = Io::write(offset, buffer, PlacementHandle::DEFAULT);
    block_on(device.submit(io)).map(drop).map_err(|failure| failure.error.kind())
}

fn read(device: &impl Device, offset: u64) -> Result<u8, ErrorKind> {
    let io = Io::Read { offset, buffer: IoBuffer::zeroed(4096) };
    let ended = block_on(device.submit(io));
    ended.map(|buffer| buffer.as_slice()[0]).map_err(|failure| failure.error.kind())
}

#[test]
fn a_stall_is_waited_for_once_and_ends_when_the_device_answers() {
    let (below, device) = stalling(|rule| rule.at_most(1));
    let begun = Instant::now();
    assert_eq!(write(&device, 0, 1), Err(ErrorKind::TimedOut));
    assert!(begun.elapsed() >= TIMEOUT);
    assert_eq!(read(&device, 8192), Err(ErrorKind::Busy), "of which nothing is sent");
    assert_eq!((device.timed_out(), device.stats().failed_requests), ((1, 1), 2));
    std::thread::sleep(TIMEOUT);
    assert!(u128::from(device.stats().stalled_ms) >= TIMEOUT.as_millis());
    below.release_delayed();
    assert_eq!(device.stats().stalled_ms, 0);
    assert_eq!((read(&device, 0), read(&device, 8192)), (Ok(1), Ok(0)), "late, but written");
}

#[test]
fn nothing_is_sent_to_bytes_that_a_late_write_may_still_change() {
    let (below, device) = stalling(|rule| rule.on_writes().at_most(1));
    let beside = Io::Read { offset: 65536, buffer: IoBuffer::zeroed(4096) };
    let Ok(beside) = beside.check(device.info()) else { panic!("a read of a block") };
    let stale = write(&device, 4096, 1);
    assert_eq!(stale, Err(ErrorKind::TimedOut));
    // Another request ends, so the device does not stall; only that one write is late.
    device.watch.ended_late(device.watch.pretend_late());
    assert!(block_on(device.start(beside)).is_ok());
    assert_eq!(write(&device, 4096, 2), Err(ErrorKind::Busy));
    assert_eq!(read(&device, 4096), Err(ErrorKind::Busy));
    assert_eq!((write(&device, 0, 3), write(&device, 8192, 3)), (Ok(()), Ok(())));
    below.release_delayed();
    assert_eq!((write(&device, 4096, 2), read(&device, 4096)), (Ok(()), Ok(2)));
}

/// Late zeros count as a late write.
#[test]
fn nothing_is_sent_to_bytes_that_may_still_become_zeros() {
    let (below, device) = stalling(|rule| rule.on_writes().at_most(1));
    let zeros = block_on(device.submit(Io::WriteZeroes { offset: 4096, bytes: 8192 }));
    assert_eq!(zeros.unwrap_err().error.kind(), ErrorKind::TimedOut);
    device.watch.ended_late(device.watch.pretend_late());
    assert_eq!(write(&device, 8192, 2), Err(ErrorKind::Busy));
    assert_eq!(write(&device, 0, 3), Ok(()));
    below.release_delayed();
    assert_eq!((write(&device, 8192, 2), read(&device, 8192)), (Ok(()), Ok(2)));
}

#[test]
fn many_threads_wait_no_longer_than_one() {
    let (below, device) = stalling(|rule| rule);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let device = &device;
            scope.spawn(move || {
                for turn in 0..50 {
                    read(device, (thread * 50 + turn) * 4096 % (1 << 20)).unwrap_err();
                }
            });
        }
    });
    // 800 requests, each of which would have taken 30 ms. The bound is generous, for a busy machine.
    assert!(begun.elapsed() < 100 * TIMEOUT, "{:?}", begun.elapsed());
    let (given_up, refused) = device.timed_out();
    assert_eq!(given_up + refused, 800);
    assert!((1..=32).contains(&given_up), "{given_up} given up");
    below.set_plan(&FaultPlan::new(1));
    below.release_delayed();
    assert_eq!(read(&device, 0), Ok(0));
}

#[test]
fn the_claim_lasts_until_what_was_given_up_has_ended() {
    let below = below(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall).at_most(1)));
    let shared: Arc<dyn Device> = Arc::clone(&below) as _;
    let claim = Arc::new(Claim::take(&shared).unwrap());
    let clock = Arc::new(RealClock);
    let device = TimeoutDevice::new(Arc::clone(&shared), TIMEOUT, clock, Some(&claim));
    assert_eq!(write(&device, 0, 1), Err(ErrorKind::TimedOut));
    drop((device, claim));
    assert_eq!(Claim::take(&shared).unwrap_err().kind(), ErrorKind::InUse);
    below.release_delayed();
    assert!(Claim::take(&shared).is_ok());
}

#[test]
fn time_is_the_clocks_and_long_requests_have_more_of_it() {
    let (below, clock, device) = stalling_from_second_1000();
    let (mut short, mut long) = (device.submit(read_of(4096)), device.submit(Io::Flush));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut poll = |future: &mut IoFuture| std::pin::Pin::new(future).poll(&mut context);
    let is_given_up = |polled: std::task::Poll<crate::IoResult>| polled.is_ready();
    assert!(!is_given_up(poll(&mut short)) && !is_given_up(poll(&mut long)));
    clock.advance_to(Duration::from_millis(1_004_999));
    assert!(!is_given_up(poll(&mut short)));
    clock.advance_to(Duration::from_secs(1005));
    assert!(is_given_up(poll(&mut short)) && !is_given_up(poll(&mut long)));
    clock.advance_to(Duration::from_secs(1059));
    assert!(!is_given_up(poll(&mut long)));
    clock.advance_to(Duration::from_secs(1060));
    assert!(is_given_up(poll(&mut long)));
    // A lost completion does not block the device forever: once a minute one request is sent as a probe.
    let read_now = || block_on(device.submit(read_of(4096))).unwrap_err().error.kind();
    assert_eq!(read_now(), ErrorKind::Busy);
    below.set_plan(&FaultPlan::new(1));
    clock.advance_to(Duration::from_secs(1120));
    assert!(block_on(device.submit(read_of(4096))).is_ok());
}

#[test]
fn a_durable_write_has_as_long_as_a_flush() {
    let (_below, clock, device) = stalling_from_second_1000();
    let (buffer, handle) = (IoBuffer::zeroed(4096), crate::PlacementHandle::DEFAULT);
    let durability = crate::Durability::Power;
    let mut write = device.submit(Io::Write { offset: 0, buffer, handle, durability });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut is_given_up = || std::pin::Pin::new(&mut write).poll(&mut context).is_ready();
    assert!(!is_given_up());
    clock.advance_to(Duration::from_secs(1059));
    assert!(!is_given_up());
    clock.advance_to(Duration::from_secs(1060));
    assert!(is_given_up());
}

/// The alarm goes off 3 s late because the host has slept. What the device answered during the sleep is delivered next.
#[test]
fn a_pause_of_the_host_is_not_held_against_the_device() {
    let (below, clock, device) = stalling_from_second_1000();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut poll = |future: &mut IoFuture| std::pin::Pin::new(future).poll(&mut context);
    let (mut answered, mut stalled) = (device.submit(read_of(4096)), device.submit(read_of(4096)));
    assert!(poll(&mut answered).is_pending() && poll(&mut stalled).is_pending());
    clock.set(Duration::from_secs(1008));
    assert!(poll(&mut answered).is_pending() && poll(&mut stalled).is_pending(), "it has slept");
    clock.advance_to(Duration::from_millis(1_008_999));
    assert!(poll(&mut stalled).is_pending());
    clock.advance_to(Duration::from_secs(1009));
    assert!(poll(&mut stalled).is_ready(), "the device is silent since the host has woken, too");
    below.release_delayed();
    assert!(matches!(poll(&mut answered), std::task::Poll::Ready(Ok(_))), "late, and heard");
}

fn read_of(bytes: usize) -> Io {
    Io::Read { offset: 0, buffer: IoBuffer::zeroed(bytes) }
}

#[test]
fn what_ended_unseen_is_not_given_up() {
    let (below, device) = stalling(|rule| rule.at_most(1));
    let mut future = device.submit(read_of(4096));
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    assert!(std::pin::Pin::new(&mut future).poll(&mut context).is_pending());
    below.release_delayed();
    std::thread::sleep(2 * TIMEOUT);
    assert!(block_on(future).is_ok());
}
