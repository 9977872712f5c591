//! Tenants of one device: each gets its share of what the device serves, keeps to its limits, and holds no other up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_blocks::isolation::{DeviceShare, DeviceSharing, SharedDevice};
use larder_device::{
    CheckedIo, Clock, Completer, Device, DeviceInfo, DeviceStats, Io, IoBuffer, IoFuture,
    MemoryDevice, RealClock, VirtualClock,
};

const DEPTH: u32 = 4;

/// A device whose requests end when the test says so, in the order in which they came.
struct HeldDevice {
    info: DeviceInfo,
    held: Mutex<Vec<(Io, Completer)>>,
}

impl Device for HeldDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        self.held.lock().unwrap().push((io.into_inner(), completer));
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

impl HeldDevice {
    fn new() -> Arc<Self> {
        let info = MemoryDevice::holding(vec![0; 64 << 20]).info().clone();
        Arc::new(Self { info, held: Mutex::default() })
    }

    fn in_flight(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Ends the oldest request, and returns its length and its offset, by which the tests tell tenants.
    fn end_one(&self) -> (usize, u64) {
        let (io, completer) = self.held.lock().unwrap().remove(0);
        let Io::Read { offset, buffer } = io else { panic!("{io:?}") };
        let bytes = buffer.len();
        completer.complete(Ok(buffer));
        (bytes, offset)
    }
}

fn weights(device: &Arc<HeldDevice>, weights: &[u32]) -> Vec<SharedDevice> {
    let share = |&weight: &u32| DeviceShare { weight, ..DeviceShare::default() };
    let shares: Vec<_> = weights.iter().map(share).collect();
    let sharing = DeviceSharing::new(&shares, DEPTH, Arc::new(RealClock));
    let of = |tenant| sharing.device_of(tenant, Arc::clone(device) as Arc<dyn Device>);
    (0..weights.len()).map(of).collect()
}

/// Tenant `tenant` reads at its own offset.
fn reads(device: &SharedDevice, tenant: u64, bytes: usize, count: usize) -> Vec<IoFuture> {
    let read = || Io::Read { offset: tenant << 20, buffer: IoBuffer::zeroed(bytes) };
    (0..count).map(|_| device.submit(read())).collect()
}

/// Bytes of each of two tenants among the next `count` requests that the device ends.
fn served(device: &HeldDevice, count: usize) -> [usize; 2] {
    let mut bytes = [0, 0];
    for _ in 0..count {
        assert!(device.in_flight() <= DEPTH as usize);
        let (length, offset) = device.end_one();
        bytes[usize::from(offset > 0)] += length;
    }
    bytes
}

#[test]
fn tenants_that_all_want_the_device_have_it_by_weight() {
    let device = HeldDevice::new();
    let tenants = weights(&device, &[3, 1]);
    let _futures = [reads(&tenants[0], 0, 65536, 400), reads(&tenants[1], 1, 65536, 400)];
    let [first, second] = served(&device, 400);
    assert!(first.abs_diff(3 * second) < 10 * 65536, "{first}, {second}");
    // What one does not use the other has.
    let [first, second] = served(&device, 400);
    assert_eq!((first + second) / 65536, 400);
    assert_eq!(device.in_flight(), 0);
}

#[test]
fn long_requests_buy_no_larger_share() {
    let device = HeldDevice::new();
    let tenants = weights(&device, &[1, 1]);
    let _futures = [reads(&tenants[0], 0, 1 << 20, 60), reads(&tenants[1], 1, 49152, 2000)];
    // Charged 1 MiB + 16 KiB and 64 KiB each.
    let [long, short] = served(&device, 600);
    let (long, short) = (long / (1 << 20) * 1040, short / 49152 * 64);
    // The first had filled the device before the second came.
    assert!(long.abs_diff(short) < (DEPTH as usize + 1) * 1040, "{long}, {short} KiB");
}

#[test]
fn a_tenant_that_begins_late_has_its_turn_at_once_and_no_credit_from_before() {
    let device = HeldDevice::new();
    let tenants = weights(&device, &[1, 1]);
    let _first = reads(&tenants[0], 0, 65536, 500);
    served(&device, 200);
    let _second = reads(&tenants[1], 1, 65536, 500);
    let until = (0..).find(|_| device.end_one().1 > 0).unwrap();
    assert!(until < DEPTH as usize + 3, "{until} requests before its first");
    let [first, second] = served(&device, 200);
    assert!(first.abs_diff(second) < 10 * 65536, "{first}, {second}");
}

#[test]
fn requests_that_are_not_awaited_give_their_place_back_and_a_flush_waits_for_none() {
    let device = HeldDevice::new();
    let tenants = weights(&device, &[1, 1]);
    drop(reads(&tenants[0], 0, 4096, 50));
    assert_eq!(device.in_flight(), DEPTH as usize);
    let flush = tenants[1].submit(Io::Flush);
    assert_eq!(device.in_flight(), DEPTH as usize + 1);
    let (io, completer) = device.held.lock().unwrap().pop().unwrap();
    assert!(matches!(io, Io::Flush));
    completer.complete(Ok(IoBuffer::empty()));
    flush.wait().unwrap();
    let last = reads(&tenants[1], 1, 4096, 1);
    served(&device, 51);
    assert!(last.into_iter().all(|read| read.wait().is_ok()));
    assert_eq!(device.in_flight(), 0);
}

#[test]
fn limits_hold_whatever_the_device_could_do_and_delays_are_counted() {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(5)));
    let share = |bytes_per_second, requests_per_second| DeviceShare {
        weight: 1,
        bytes_per_second,
        requests_per_second,
    };
    let shares = [share(Some(1 << 20), None), share(None, Some(100)), share(None, None)];
    let sharing = DeviceSharing::new(&shares, 64, Arc::clone(&clock) as _);
    let memory: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![0; 8 << 20]));
    let tenants: Vec<_> = (0..3).map(|at| sharing.device_of(at, Arc::clone(&memory))).collect();
    let futures = [reads(&tenants[0], 0, 65536, 33), reads(&tenants[1], 1, 4096, 211)];
    assert!(reads(&tenants[2], 2, 65536, 100).into_iter().all(|read| read.wait().is_ok()));
    assert_eq!(clock.monotonic(), Duration::from_secs(5), "without a limit nothing waits");
    while clock.advance_to_next().is_some() {}
    assert!(futures.into_iter().flatten().all(|read| read.wait().is_ok()));
    // 33 of 64 KiB at 1 MiB/s take 2.06 s, less what a tenth of a second saves up; 211 at 100 a second 2.1 s, less 0.1.
    let took = clock.monotonic() - Duration::from_secs(5);
    assert!((1.9..2.1).contains(&took.as_secs_f64()), "{took:?}");
    let stats = tenants[0].stats();
    assert!((30..=33).contains(&stats.delayed_requests), "{stats:?}");
    assert!(stats.delayed_ns > 30_000_000_000 && tenants[2].stats().delayed_requests == 0);
}
