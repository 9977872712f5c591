//! Writes of regions: several pieces are in flight at a time, and no caller waits unnecessarily.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use larder::{Config, CrashSafety, LocConfig};
use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Error, ErrorKind, Io, IoFailure,
    IoFuture, ModelDevice,
};

use crate::rig::{Rig, config, drive, key_of, value_of};

const REGION_BYTES: u64 = 256 << 10;
const PIECE_BYTES: u64 = 16 << 10;

/// A drive that holds back writes to regions until the test releases them.
struct Gate {
    drive: Arc<ModelDevice>,
    regions: Mutex<std::ops::Range<u64>>,
    held: Mutex<Vec<(CheckedIo, Completer)>>,
}

impl Gate {
    fn held(&self) -> MutexGuard<'_, Vec<(CheckedIo, Completer)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start and end of each held write within its region.
    fn extents(&self) -> Vec<(u64, u64)> {
        let start = self.regions.lock().unwrap().start;
        let held = self.held();
        let extents = held.iter().map(|(io, _)| {
            let (_, offset, bytes) = io.get().extent();
            let offset = (offset - start) % REGION_BYTES;
            (offset, offset + bytes)
        });
        extents.collect()
    }

    fn release(&self, at: usize) {
        let (io, completer) = self.held().remove(at);
        completer.complete(self.drive.start(io).wait());
    }

    fn fail(&self, at: usize) {
        let (io, completer) = self.held().remove(at);
        let error = Error::new(ErrorKind::Io, "a test");
        completer.complete(Err(IoFailure { error, buffer: io.into_inner().into_buffer() }));
    }
}

impl Device for Gate {
    fn info(&self) -> &DeviceInfo {
        self.drive.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let (_, offset, _) = io.get().extent();
        let is_write = matches!(io.get(), Io::Write { .. });
        if !is_write || !self.regions.lock().unwrap().contains(&offset) {
            return self.drive.start(io);
        }
        let (future, completer) = IoFuture::pending();
        self.held().push((io, completer));
        future
    }

    fn stats(&self) -> DeviceStats {
        self.drive.stats()
    }
}

/// A cache that sends every object to flash at once.
fn gated() -> (Rig, Arc<Gate>) {
    let gate = Arc::new(Gate { drive: drive(), regions: Mutex::new(0..0), held: Mutex::default() });
    let config = Config {
        dram_bytes: 0,
        loc: LocConfig { write_bytes: u32::try_from(PIECE_BYTES).unwrap(), ..config().loc },
        crash_safety: CrashSafety::Off,
        ..config()
    };
    let rig = Rig::open(config, &gate);
    let layout = rig.cache.layout().unwrap();
    let end = layout.loc_offset + u64::from(layout.loc_regions) * REGION_BYTES;
    *gate.regions.lock().unwrap() = layout.loc_offset..end;
    (rig, gate)
}

/// Whether a set ends without waiting.
fn set_ends(rig: &Rig, key: u32, bytes: usize) -> bool {
    let (name, value) = (key_of(key), value_of(key, 1, bytes));
    let mut set = pin!(rig.cache.set(&name, &value, None));
    matches!(set.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}

#[test]
fn four_pieces_are_under_way_before_anybody_waits() {
    let (rig, gate) = gated();
    let mut key = 0;
    // A set that waits is dropped; its writes continue.
    while set_ends(&rig, key, 4000) {
        key += 1;
        assert!(key < 1000, "no set ever waited");
        assert_eq!(rig.get(key - 1), Some(1), "in memory as long as it is on its way");
    }
    let expected: Vec<_> = (0..4).map(|i| (i * PIECE_BYTES, (i + 1) * PIECE_BYTES)).collect();
    assert_eq!(gate.extents(), expected);
    // Five pieces were complete; when any of the four ends, the fifth can start.
    gate.release(2);
    assert!(set_ends(&rig, 1000, 4000));
    assert_eq!(gate.extents()[3], (4 * PIECE_BYTES, 5 * PIECE_BYTES));
}

#[test]
fn a_footer_sets_out_when_all_that_it_lists_is_on_flash() {
    let (rig, gate) = gated();
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut key, mut ends) = (0, 0);
    while rig.cache.stats().loc_sealed_regions < 5 {
        if set_ends(&rig, key, 4000) {
            key += 1;
        }
        let extents = gate.extents();
        assert!(extents.len() <= 4, "{extents:?}");
        if extents.iter().any(|&(_, end)| end == REGION_BYTES) {
            ends += 1;
            // The other writes in flight belong to the next region.
            let behind =
                extents.iter().filter(|&&(at, end)| end < REGION_BYTES && at > 8 * PIECE_BYTES);
            assert_eq!(behind.count(), 0, "{extents:?}");
        }
        let held = gate.held().len();
        if held == 4 || held > 0 && rng.bool() {
            gate.release(rng.usize(..held));
        }
    }
    assert!(ends > 0, "no end was seen on its way");
    while !gate.held().is_empty() {
        gate.release(0);
    }
    let found = (0..key).filter(|&key| rig.get(key) == Some(1)).count();
    assert_eq!(found, key as usize);
}

#[test]
fn the_next_region_is_filled_while_the_last_one_ends() {
    let (rig, gate) = gated();
    let mut key = 0;
    while !gate.extents().iter().any(|&(_, end)| end == REGION_BYTES) {
        if set_ends(&rig, key, 4000) {
            key += 1;
        }
        let end_waits = gate.extents().iter().any(|&(_, end)| end == REGION_BYTES);
        if !end_waits && !gate.held().is_empty() {
            gate.release(0);
        }
    }
    let began = key;
    while set_ends(&rig, key, 4000) {
        key += 1;
    }
    assert!(key - began >= 12, "{} objects while the end was on its way", key - began);
    assert_eq!(rig.cache.stats().loc_sealed_regions, 0);
    while !gate.held().is_empty() {
        gate.release(0);
    }
    assert_eq!((0..key).filter(|&key| rig.get(key) == Some(1)).count(), key as usize);
}

#[test]
fn one_failed_piece_takes_its_region_with_it_and_no_other() {
    let (rig, gate) = gated();
    let mut key = 0;
    while set_ends(&rig, key, 4000) {
        key += 1;
    }
    let of_first = key;
    gate.fail(1);
    // The next writer handles it, and gets another region.
    while rig.cache.stats().loc_retired_regions == 0 {
        let _stored = set_ends(&rig, key, 4000);
        key += 1;
    }
    let stats = rig.cache.stats();
    assert_eq!((stats.loc_retired_regions, stats.device_errors), (1, 1));
    assert!(stats.lost_to_device_errors_objects >= u64::from(of_first), "{stats:?}");
    assert_eq!((0..of_first).filter(|&key| rig.get(key).is_some()).count(), 0);
    while !gate.held().is_empty() {
        gate.release(0);
    }
    assert!(set_ends(&rig, 5000, 4000));
    assert_eq!(rig.get(5000), Some(1));
    assert_eq!(rig.cache.stats().loc_retired_regions, 1);
}

#[test]
fn what_is_on_flash_leaves_memory_before_its_region_is_sealed() {
    let (rig, gate) = gated();
    let empty = rig.cache.stats().flash_memory_bytes;
    let objects = 50;
    for key in 0..objects {
        while !set_ends(&rig, key, 4000) {
            gate.release(0);
        }
        while !gate.extents().is_empty() {
            gate.release(0);
        }
    }
    let stats = rig.cache.stats();
    assert_eq!(stats.loc_sealed_regions, 0, "one region has room for them all");
    let taken = stats.flash_memory_bytes - empty;
    assert!(taken < REGION_BYTES / 2, "{taken} bytes for {objects} objects of 4000");
    let reads = stats.loc_record_reads;
    assert!((0..objects).all(|key| rig.get(key) == Some(1)), "in memory or on flash");
    let reads = rig.cache.stats().loc_record_reads - reads;
    assert!((40..50).contains(&reads), "{reads} were on flash");
}
