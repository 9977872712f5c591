//! Tests of the log as a ring: what is needed is on flash at any time, however many rounds the ring has made.

use std::sync::Arc;
use std::time::Duration;

use larder_device::label::{AREA_BYTES, Kind, Labeller, Uuid};
use larder_device::{
    Durability, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
    PlacementHandle, VirtualClock,
};

use larder_log::CacheId;

use super::block::{BLOCK_BYTES, ENTRIES_MAX};
use super::*;
use crate::base::error::Error;
use crate::base::key::KeyHasher;
use crate::base::layout::Layout;

pub(super) const BLOCKS: u64 = 16;

pub(super) struct Rig {
    pub(super) device: Arc<FaultDevice<Arc<MemoryDevice>>>,
    flash: Arc<MemoryDevice>,
    clock: Arc<VirtualClock>,
    pub(super) log: Tombstones,
    counters: Arc<Counters>,
}

pub(super) fn place() -> TombstonesPlace {
    TombstonesPlace { offset: AREA_BYTES, blocks: BLOCKS }
}

pub(super) fn superblock() -> Superblock {
    let layout = Layout {
        soc_buckets: 1 << 20,
        loc_regions: 4,
        array_regions: 3,
        array_tables: 1 << 10,
        ..Layout::default()
    };
    Superblock {
        clean: false,
        recoverable: true,
        power: false,
        epoch: 1,
        oldest_epoch: 1,
        ring: 1,
        boot: None,
        second: 0,
        cache: CacheId::ZERO,
        hasher: KeyHasher::UNSEEDED,
        layout,
    }
}

fn labeller(device: &Arc<dyn Device>) -> Labeller {
    Labeller::new(Arc::clone(device), Kind::Cache, Uuid::from_bytes([0; 16]), 0)
}

pub(super) fn rig() -> Rig {
    let flash = Arc::new(MemoryDevice::holding(vec![0; 1 << 20]));
    let device =
        Arc::new(FaultDevice::new(Arc::clone(&flash), &FaultPlan::new(1).volatile_writes(0)));
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let counters = Arc::new(Counters::default());
    let shared = (Arc::clone(&counters), Arc::new(CacheClock::new(Arc::clone(&clock) as _)));
    let device_below = Arc::clone(&device) as Arc<dyn Device>;
    let told = (superblock(), labeller(&device_below));
    let log = Tombstones::new(device_below, place(), told, shared);
    Rig { device, flash, clock, log, counters }
}

impl Rig {
    pub(super) fn commit(&self, receipt: Receipt) -> Result<(), Error> {
        crate::block_on(self.log.commit(receipt))
    }

    /// What a crash would leave now.
    pub(super) fn left(&self) -> Inheritance {
        let replayed = crate::block_on(replay(&*self.flash, place(), (CacheId::ZERO, 1)));
        replayed.unwrap().expect("the log is whole")
    }

    pub(super) fn go_round(&self) {
        go_round(&self.log);
    }
}

/// Moves the ring round with tombstones that are not needed.
fn go_round(log: &Tombstones) {
    for filler in 0..BLOCKS {
        let hashes: Vec<u64> =
            (0..ENTRIES_MAX as u64).map(|n| 1 << 40 | filler << 16 | n).collect();
        for &hash in &hashes {
            let _ = log.invalidate_key(KeysIn::Buckets, hash);
        }
        crate::block_on(log.commit(log.all_so_far())).unwrap();
        log.resolve(KeysIn::Buckets, &hashes, log.clock());
        log.resolved(KeysIn::Buckets, &hashes, true);
    }
}

#[test]
fn what_is_needed_is_on_flash_whatever_write_is_the_last() {
    let old: Vec<u64> = (0..300).collect();
    for writes in 0..30 {
        let rig = rig();
        for &hash in &old {
            let _ = rig.log.invalidate_key(KeysIn::Buckets, hash);
        }
        rig.commit(rig.log.all_so_far()).unwrap();
        rig.go_round();
        let gone = FaultRule::new(Fault::Gone).on_writes().at_match(writes);
        rig.device.set_plan(&FaultPlan::new(1).volatile_writes(0).with(gone));
        // Far more tombstones at once than two blocks hold.
        let new: Vec<_> = (0..3000)
            .map(|n| (1 << 50 | n, rig.log.invalidate_key(KeysIn::Buckets, 1 << 50 | n)))
            .collect();
        let told: Vec<u64> = new
            .iter()
            .filter(|(_, receipt)| rig.commit(*receipt).is_ok() && rig.log.is_trusted())
            .map(|(hash, _)| *hash)
            .collect();
        let left = rig.left();
        let lost = |hashes: &[u64]| hashes.iter().filter(|h| !left.keys.contains_key(h)).count();
        assert_eq!(lost(&old), 0, "of 300 old ones, after {writes} writes");
        assert_eq!(lost(&told), 0, "of {} that were told, after {writes} writes", told.len());
    }
}

/// Power is lost in the middle of any write of the log: any of its sectors survive, and any of the other writes that
/// were not durable.
#[test]
fn a_loss_of_power_in_any_write_leaves_what_was_told() {
    for seed in 0..40 {
        for write in 0..12 {
            let flash = Arc::new(MemoryDevice::holding(vec![0; 1 << 20]));
            let crash = FaultRule::new(Fault::Crash).on_writes().at_match(write);
            let device = Arc::new(FaultDevice::new(flash, &FaultPlan::new(seed).with(crash)));
            let below = Arc::clone(&device) as Arc<dyn Device>;
            let clock = Arc::new(CacheClock::new(Arc::new(VirtualClock::default()) as _));
            let told = (Superblock { power: true, ..superblock() }, labeller(&below));
            let shared = (Arc::new(Counters::default()), clock);
            let log = Tombstones::new(Arc::clone(&below), place(), told, shared);
            let mut durable = Vec::new();
            // Several blocks, each in several writes.
            for group in 0..14 {
                let hashes: Vec<u64> = (0..70).map(|n| group << 32 | n).collect();
                let receipts: Vec<_> =
                    hashes.iter().map(|hash| log.invalidate_key(KeysIn::Buckets, *hash)).collect();
                let all = receipts.into_iter().max().unwrap();
                if crate::block_on(log.commit(all)).is_err() || !log.is_trusted() {
                    break;
                }
                durable.extend(hashes);
            }
            assert!(device.is_down(), "write {write} was made");
            device.restart().unwrap();
            let left = crate::block_on(replay(&*below, place(), (CacheId::ZERO, 1))).unwrap();
            let left = left.unwrap_or_else(|| panic!("seed {seed}, write {write}: damaged"));
            let lost = durable.iter().filter(|hash| !left.keys.contains_key(hash)).count();
            assert_eq!(lost, 0, "of {} that were told, seed {seed}, write {write}", durable.len());
        }
    }
}

/// A caller that announces a filling may be slow to begin it, while other callers move the ring round.
#[test]
fn a_filling_that_is_announced_is_kept_in_mind() {
    let rig = rig();
    rig.log.filling_began(2, 14);
    rig.log.filling_sealed(2, 14);
    rig.commit(rig.log.invalidate_record(2, 64, 14)).unwrap();
    rig.commit(rig.log.invalidate_region(2, 20)).unwrap();
    rig.go_round();
    rig.go_round();
    assert_eq!(rig.left().dead_in(2, 14), [64], "it may come back as long as it is there");
    rig.log.filling_began(2, 20);
    rig.go_round();
    assert_eq!((rig.left().first_filling(2), rig.left().dead_in(2, 14)), (20, vec![]));
    rig.log.filling_sealed(2, 20);
    rig.go_round();
    rig.go_round();
    assert_eq!(rig.left().first_filling(2), 0, "the region itself says so");
}

#[test]
fn a_ring_full_of_what_is_needed_is_given_up_and_comes_back() {
    let rig = rig();
    let all: Vec<u64> = (0..ENTRIES_MAX as u64 * (BLOCKS + 2)).collect();
    for hash in &all {
        let receipt = rig.log.invalidate_key(KeysIn::Buckets, *hash);
        rig.commit(receipt).unwrap();
    }
    assert!(!rig.log.is_trusted(), "nothing of it can be done without");
    // Most are worked off; the log holds the rest.
    rig.log.resolve(KeysIn::Buckets, &all[100..], rig.log.clock());
    rig.log.resolved(KeysIn::Buckets, &all[100..], true);
    rig.clock.advance_to(Duration::from_secs(5000));
    rig.commit(rig.log.all_so_far()).unwrap();
    assert!(rig.log.is_trusted());
    let left = rig.left();
    assert!(all[..100].iter().all(|hash| left.keys.contains_key(hash)));
}

#[test]
fn an_outage_is_not_for_ever() {
    let rig = rig();
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 1)).unwrap();
    let log_fails = FaultRule::new(Fault::Error).on_writes().within(AREA_BYTES..1 << 20);
    rig.device.set_plan(&FaultPlan::new(1).with(log_fails));
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 2)).unwrap();
    assert!(!rig.log.is_trusted(), "the superblock says so");
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 3)).unwrap();
    rig.device.set_plan(&FaultPlan::new(1));
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 4)).unwrap();
    assert!(!rig.log.is_trusted(), "not again at once");
    rig.clock.advance_to(Duration::from_secs(1100));
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 5)).unwrap();
    assert!(rig.log.is_trusted());
    let left = rig.left();
    assert!((1..=5).all(|hash| left.keys.contains_key(&hash)), "{left:?}");
    let regained = rig.counters.snapshot().tombstone_logs_regained;
    assert_eq!(regained, 1);
}

#[test]
fn more_than_the_log_has_room_for_is_not_kept() {
    let rig = rig();
    rig.device.set_plan(
        &FaultPlan::new(1)
            .with(FaultRule::new(Fault::Error).on_writes().within(AREA_BYTES..1 << 20)),
    );
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 1)).unwrap();
    for hash in 2..10_000 {
        let _ = rig.log.invalidate_key(KeysIn::Buckets, hash);
    }
    rig.device.set_plan(&FaultPlan::new(1));
    rig.clock.advance_to(Duration::from_secs(9000));
    rig.commit(rig.log.all_so_far()).unwrap();
    assert!(!rig.log.is_trusted(), "it would lack some");
}

/// Everything kept is being written, and during the write more tombstones arrive than may be kept.
#[test]
fn what_was_not_kept_in_the_middle_of_a_write_is_missed() {
    let rig = rig();
    let log_fails = FaultRule::new(Fault::Error).on_writes().within(AREA_BYTES..1 << 20);
    rig.device.set_plan(&FaultPlan::new(1).with(log_fails));
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 1)).unwrap();
    rig.clock.advance_to(Duration::from_secs(9000));
    let delay = FaultRule::new(Fault::Delay { submissions: 1 }).on_writes().at_most(1);
    rig.device.set_plan(&FaultPlan::new(1).with(delay));
    let mut regaining = Box::pin(rig.log.regain());
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(regaining.as_mut().poll(context).is_pending(), "its write is on its way");
    for hash in 2..10_000 {
        let _ = rig.log.invalidate_key(KeysIn::Buckets, hash);
    }
    rig.device.release_delayed();
    crate::block_on(regaining);
    assert!(!rig.log.is_trusted(), "it lacks most of them");
    rig.clock.advance_to(Duration::from_secs(20_000));
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 10_000)).unwrap();
    assert!(!rig.log.is_trusted(), "it lacks most of them");
    assert_eq!(rig.counters.snapshot().tombstone_logs_regained, 0);
}

#[test]
fn time_that_flash_knows_needs_no_tombstone() {
    let rig = rig();
    assert!(crate::block_on(rig.log.is_over(0)), "there is nothing");
    rig.device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    assert!(!crate::block_on(rig.log.is_over(900)), "flash cannot be told");
    rig.device.set_plan(&FaultPlan::new(1));
    let _ = crate::block_on(rig.log.commit(rig.log.invalidate_key(KeysIn::Buckets, 1)));
    assert!(rig.log.is_trusted());
    assert!(crate::block_on(rig.log.is_over(1000)) && !crate::block_on(rig.log.is_over(1001)));
    assert_eq!(rig.left().second(), 1000);
}

/// If a caller is dropped during the write of a block, the next caller finishes the write.
#[test]
fn a_caller_that_is_dropped_leaves_its_write_to_the_next() {
    let rig = rig();
    let delay = FaultRule::new(Fault::Delay { submissions: 1 }).on_writes().at_most(1);
    rig.device.set_plan(&FaultPlan::new(1).with(delay));
    let first = rig.log.invalidate_key(KeysIn::Buckets, 1);
    {
        let mut commit = Box::pin(rig.log.commit(first));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(commit.as_mut().poll(&mut context).is_pending());
    }
    rig.device.release_delayed();
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 2)).unwrap();
    let left = rig.left();
    assert!(left.keys.contains_key(&1) && left.keys.contains_key(&2));
}

/// Tombstones that did not reach flash before a crash have indices, and buckets may have these as stamps: a later
/// opening must not use them again.
#[test]
fn a_new_life_counts_from_above_all_stamps() {
    let rig = rig();
    rig.commit(rig.log.invalidate_key(KeysIn::Buckets, 1)).unwrap();
    for hash in 2..2000 {
        let _never_durable = rig.log.invalidate_key(KeysIn::Buckets, hash);
    }
    assert!(rig.left().clock > rig.log.clock());
}

#[test]
fn a_log_that_lacks_a_block_is_not_believed() {
    let rig = rig();
    let hashes = 0..ENTRIES_MAX as u64 * 5;
    for hash in hashes {
        let _ = rig.log.invalidate_key(KeysIn::Buckets, hash);
    }
    rig.commit(rig.log.all_so_far()).unwrap();
    let (handle, replayed) = (PlacementHandle::DEFAULT, || {
        crate::block_on(replay(&*rig.flash, place(), (CacheId::ZERO, 1))).unwrap()
    });
    assert!(replayed().is_some());
    let offset = place().slot_offset(BlockNumber::new(2));
    let write = Io::write(offset, IoBuffer::zeroed(BLOCK_BYTES), handle);
    rig.flash.submit(write).wait().unwrap();
    assert!(replayed().is_none(), "a blank slot among those that count");
}

/// A drive that may fail writes of full blocks, and loses the old content of their slots.
struct Forgetful {
    flash: Arc<MemoryDevice>,
    full_blocks: Arc<std::sync::atomic::AtomicU32>,
    forgets: fn(u32) -> bool,
}

impl Device for Forgetful {
    fn info(&self) -> &larder_device::DeviceInfo {
        self.flash.info()
    }

    fn start(&self, io: larder_device::CheckedIo) -> IoFuture {
        use std::sync::atomic::Ordering;
        let Io::Write { offset, durability: Durability::Device, .. } = *io.get() else {
            return self.flash.start(io);
        };
        let is_full_block = offset >= place().offset;
        if !is_full_block || !(self.forgets)(self.full_blocks.fetch_add(1, Ordering::Relaxed)) {
            return self.flash.start(io);
        }
        let lost = Io::write(offset, IoBuffer::zeroed(BLOCK_BYTES), PlacementHandle::DEFAULT);
        self.flash.submit(lost).wait().unwrap();
        io.fail(larder_device::Error::new(larder_device::ErrorKind::Io, "lost"))
    }

    fn stats(&self) -> larder_device::DeviceStats {
        self.flash.stats()
    }
}

#[test]
fn what_was_in_a_block_that_the_drive_did_not_take_is_logged_anew() {
    let forgets: [fn(u32) -> bool; 3] =
        [|_| false, |full| full == 1, |full| full < 8 && full % 3 == 2];
    for (case, forgets) in forgets.into_iter().enumerate() {
        let rig = rig();
        let (flash, full_blocks) = (Arc::clone(&rig.flash), Arc::default());
        let device = Forgetful { flash, full_blocks: Arc::clone(&full_blocks), forgets };
        let shared = (Arc::clone(&rig.counters), Arc::clone(&rig.log.clock));
        let device: Arc<dyn Device> = Arc::new(device);
        let told = (superblock(), labeller(&device));
        let log = Tombstones::new(device, place(), told, shared);
        let mut was_given_up = false;
        // Half of what the log has room for.
        let many = place().entries() / 2;
        for hash in 0..many {
            crate::block_on(log.commit(log.invalidate_key(KeysIn::Buckets, hash))).unwrap();
            was_given_up |= !log.is_trusted();
            rig.clock.advance_to(Duration::from_secs(1000 + 60 * hash));
        }
        let full = full_blocks.load(std::sync::atomic::Ordering::Relaxed);
        assert!(u64::from(full) >= many / ENTRIES_MAX as u64, "full blocks go to the drive itself");
        assert_eq!(was_given_up, case > 0);
        let replayed = crate::block_on(replay(&*rig.flash, place(), (CacheId::ZERO, 1))).unwrap();
        // A hole voids the whole log. If it is the block that was being sealed last, that is not known yet.
        let lost = |left: Inheritance| (0..many).filter(|h| !left.keys.contains_key(h)).count();
        let lost = replayed.map(lost);
        assert!(lost.is_none_or(|lost| lost == 0), "{case}: {lost:?} of {many}");
        assert_eq!(lost.is_some(), case == 0, "{case}");
        go_round(&log);
        rig.clock.advance_to(Duration::from_secs(1_000_000));
        go_round(&log);
        assert!(log.is_trusted());
        assert_eq!((0..many).filter(|h| !rig.left().keys.contains_key(h)).count(), 0, "{case}");
    }
}

#[test]
fn dead_keys_are_worked_off_when_there_are_too_many() {
    let rig = rig();
    let may_wait = rig.log.keys_max(KeysIn::Buckets) / 2;
    for hash in 0..may_wait {
        let _waited_for_by_nobody = rig.log.invalidate_key(KeysIn::Buckets, 10 * hash);
    }
    assert_eq!(rig.log.key_to_work_off(KeysIn::Buckets, 0), None, "{may_wait} may wait");
    let _one_too_many = rig.log.invalidate_key(KeysIn::Buckets, 10 * may_wait);
    assert_eq!(rig.log.key_to_work_off(KeysIn::Buckets, 11), Some(20));
    assert_eq!(rig.log.key_to_work_off(KeysIn::Buckets, u64::MAX), Some(0), "it goes around");
}

#[test]
fn the_more_hashes_are_lost_the_more_hurry_there_is() {
    let rig = rig();
    rig.log.lost.begin(HashMap::new());
    let limit = rig.log.place.entries() / LOST_PART;
    let mut hurry = Vec::new();
    for hash in 0..2 * limit + 1 {
        assert!(rig.log.invalidate_hash(hash, 1).is_some());
        hurry.push(rig.log.pressure());
    }
    let of = |pressure| hurry.iter().filter(|of| **of == pressure).count() as u64;
    assert_eq!((of(Pressure::None), of(Pressure::Some), of(Pressure::High)), (limit, limit, 1));
    assert!(hurry.first() == Some(&Pressure::None) && hurry.last() == Some(&Pressure::High));
}

#[test]
fn a_task_that_waits_for_the_write_of_another_is_woken_once() {
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let rig = rig();
    let busy = rig.log.combining.try_lock().expect("no write is in flight");
    let receipts: Vec<_> =
        (0..50).map(|hash| rig.log.invalidate_key(KeysIn::Buckets, hash)).collect();
    let woken: Vec<Arc<Woken>> = (0..50).map(|_| Arc::default()).collect();
    let mut waiting: Vec<_> = receipts.iter().map(|it| Box::pin(rig.log.commit(*it))).collect();
    for (commit, woken) in waiting.iter_mut().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert!(commit.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(busy);
    assert!(woken.iter().all(|woken| woken.0.load(Ordering::SeqCst) == 1), "all at once");
    // The last one runs first, and writes for all.
    for commit in waiting.iter_mut().rev() {
        let mut context = Context::from_waker(Waker::noop());
        assert!(
            commit.as_mut().poll(&mut context).is_ready(),
            "no task waits for a turn of its own"
        );
    }
    assert_eq!(rig.counters.tombstone_log_written_bytes.get(), BLOCK_BYTES as u64);
}
