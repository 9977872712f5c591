//! The two options from the lessons of the FDP paper (EuroSys'25, section 5.5): eviction by whole reclaim units, and a
//! placement handle for frequently rewritten buckets.

use std::sync::{Arc, Mutex, PoisonError};

use larder::plan::Class;
use larder::{
    Config, ErrorKind, Larder, LocConfig, RealClock, Recovery, RegionEviction, Reinsertion,
    SocConfig, Stats, block_on,
};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Fault, FaultDevice, FaultPlan, FaultRule, Io,
    IoFuture, ModelDevice, PlacementInfo,
};

use crate::rig::{Rig, config, drive, drive_of, key_of, value_of};

/// Bytes of a reclaim unit of the drives in these tests.
const UNIT_BYTES: u64 = 256 << 10;

/// Regions of a quarter of a unit.
fn by_units() -> Config {
    Config {
        loc: LocConfig { ru_aware_eviction: true, region_bytes: Some(64 << 10), ..config().loc },
        ..config()
    }
}

/// A request to the device: a letter for the operation, offset, bytes, and handle.
type Request = (char, u64, u64, u16);

/// Records every request that changes something.
struct Recorder<D> {
    device: D,
    requests: Mutex<Vec<Request>>,
}

impl<D> Recorder<D> {
    fn new(device: D) -> Arc<Self> {
        Arc::new(Self { device, requests: Mutex::new(Vec::new()) })
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn deallocations(&self) -> Vec<(u64, u64)> {
        let all = self.requests().into_iter();
        all.filter(|request| request.0 == 'd').map(|(_, at, bytes, _)| (at, bytes)).collect()
    }
}

impl<D: Device> Device for Recorder<D> {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let (_, offset, bytes) = io.get().extent();
        let request = match io.get() {
            Io::Write { handle, .. } => Some(('w', offset, bytes, handle.index())),
            Io::Deallocate { .. } => Some(('d', offset, bytes, 0)),
            Io::Read { .. } | Io::WriteZeroes { .. } | Io::Flush => None,
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).extend(request);
        self.device.submit(io.into_inner())
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// A mixed load that can be continued, in which some keys are set far more frequently than others.
struct Load {
    rng: fastrand::Rng,
    newest: Vec<u32>,
    version: u32,
}

impl Load {
    fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), newest: vec![0; 4000], version: 0 }
    }

    /// Checks that every hit is the newest version of its key. Returns hits.
    fn run(&mut self, rig: &Rig, steps: u32) -> u32 {
        let mut hits = 0;
        for _ in 0..steps {
            self.version += 1;
            let keys = if self.rng.bool() { 4000 } else { 200 };
            let key = self.rng.u32(..keys);
            let newest = &mut self.newest[key as usize];
            if self.rng.u32(..3) > 0 {
                rig.set(key, self.version, if key.is_multiple_of(4) { 3000 } else { 200 });
                *newest = self.version;
            } else if let Some(found) = rig.get(key) {
                assert_eq!(found, *newest, "key {key}");
                hits += 1;
            }
        }
        hits
    }
}

fn play(config: Config) -> (Stats, Vec<Request>, u32) {
    let device = Recorder::new(drive());
    let rig = Rig::open(config, &device);
    let hits = Load::new(3).run(&rig, 30_000);
    (rig.cache.stats(), device.requests(), hits)
}

#[test]
fn a_unit_is_reclaimed_whole_and_exactly_its_span_deallocated() {
    for eviction in [RegionEviction::Fifo, RegionEviction::Lru] {
        let device = Recorder::new(drive());
        let rig = Rig::open(
            Config { loc: LocConfig { eviction, ..by_units().loc }, ..by_units() },
            &device,
        );
        let layout = *rig.cache.layout().unwrap();
        assert!(layout.loc_regions > 8 && layout.loc_regions.is_multiple_of(4), "{layout:?}");
        assert!(Load::new(1).run(&rig, 30_000) > 1000);
        let stats = rig.cache.stats();
        let gone = device.deallocations();
        assert!(gone.len() > 10, "{}", gone.len());
        for &(offset, bytes) in &gone {
            assert_eq!(bytes, UNIT_BYTES);
            assert_eq!((offset - layout.loc_offset) % UNIT_BYTES, 0, "{offset}");
            assert!(offset + bytes <= layout.soc_offset);
        }
        assert_eq!(stats.loc_reclaimed_regions, 4 * gone.len() as u64, "{stats:?}");
        assert_eq!(stats.loc_deallocated_bytes, gone.len() as u64 * UNIT_BYTES);
        assert_eq!(device.stats().deallocated_bytes, stats.loc_deallocated_bytes);
        assert_eq!((stats.loc_bad_records, stats.device_errors), (0, 0));
    }
}

/// Bytes of the large-object engine are written exactly once between two deallocations of their unit: nothing is lost
/// by a deallocation that was meant for older bytes.
#[test]
fn a_deallocated_unit_is_filled_before_another_one_goes() {
    let device = Recorder::new(drive());
    let rig = Rig::open(by_units(), &device);
    Load::new(2).run(&rig, 30_000);
    let layout = *rig.cache.layout().unwrap();
    let requests = device.requests().into_iter();
    let of_loc = requests.filter(|r| r.1 >= layout.loc_offset && r.1 < layout.soc_offset);
    let requests: Vec<_> = of_loc.collect();
    let first = requests.iter().position(|request| request.0 == 'd').unwrap();
    let mut rounds = 0;
    for round in requests[first..].chunk_by(|_, next| next.0 == 'w') {
        let (unit, mut end) = (round[0].1, round[0].1);
        for &(_, offset, bytes, _) in &round[1..] {
            assert_eq!(offset, end, "in order, from the unit's start on");
            end += bytes;
        }
        assert!(end <= unit + UNIT_BYTES);
        rounds += u32::from(end == unit + UNIT_BYTES);
    }
    assert!(rounds > 10, "{rounds}");
}

/// On the drive, a unit that is reclaimed as a whole is entirely dead: no page of it is ever copied.
#[test]
fn the_drive_finds_the_units_dead() {
    let drive = drive();
    let config = Config { soc: SocConfig { percent: Some(0.0), ..by_units().soc }, ..by_units() };
    let rig = Rig::open(config, &drive);
    (0..6000).for_each(|key| rig.set(key, 1, 3000));
    assert!(rig.cache.stats().loc_deallocated_bytes > 4 * UNIT_BYTES);
    let stats = drive.with_ssd(|ssd| ssd.stats().clone());
    assert!(stats.erased_units > 10 && stats.copied_pages == 0, "{stats:?}");
}

#[test]
fn hot_objects_survive_the_reclaim_of_their_unit() {
    let drive = drive();
    let config = Config {
        loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..by_units().loc },
        dram_bytes: 0,
        ..by_units()
    };
    let rig = Rig::open(config, &drive);
    rig.set(1, 1, 10_000);
    for key in 1000..3000 {
        rig.set(key, 1, 10_000);
        assert_eq!(rig.get(1), Some(1), "after {key}");
    }
    let stats = rig.cache.stats();
    assert!(stats.loc_reinserted_objects >= 2 && stats.loc_deallocated_bytes > 0, "{stats:?}");
}

#[test]
fn units_survive_a_clean_restart() {
    let drive = drive();
    let rig = Rig::open(by_units(), &drive);
    let mut load = Load::new(4);
    load.run(&rig, 20_000);
    assert!(rig.cache.stats().loc_deallocated_bytes > 0);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(by_units(), &drive);
    let Some(Recovery::Clean { large_objects }) = rig.cache.recovery() else { panic!("not clean") };
    assert!(large_objects > 300, "{large_objects}");
    assert!(load.run(&rig, 20_000) > 1000);
    assert!(rig.cache.stats().loc_deallocated_bytes > 0);
}

/// A failed deallocation costs nothing: the regions are free, and are written again.
#[test]
fn a_failed_deallocation_is_counted_and_loses_nothing() {
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(by_units(), &device);
    let mut load = Load::new(5);
    load.run(&rig, 15_000);
    let before = rig.cache.stats();
    assert!(before.loc_deallocated_bytes > 0 && before.device_errors == 0);
    let fails = FaultRule::new(Fault::Error).on_deallocates();
    device.set_plan(&FaultPlan::new(6).with(fails));
    assert!(load.run(&rig, 15_000) > 500);
    let after = rig.cache.stats();
    assert!(after.device_errors > 2 && after.last_device_error.is_some());
    let reclaimed = after.loc_reclaimed_regions - before.loc_reclaimed_regions;
    assert_eq!(reclaimed, 4 * after.device_errors, "one deallocation a unit");
    assert_eq!(after.loc_deallocated_bytes, before.loc_deallocated_bytes);
    let lost = (after.loc_retired_regions, after.lost_to_device_errors_objects);
    assert_eq!((lost, after.loc_bad_records), ((0, 0), 0));
}

/// A deallocation that the device executes late must not destroy what has been written there since: if the caller is
/// dropped, the next caller waits for it.
#[test]
fn an_abandoned_deallocation_is_waited_for() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(
        Config { soc: SocConfig { percent: Some(0.0), ..by_units().soc }, ..by_units() },
        &device,
    );
    (0..3000).for_each(|key| rig.set(key, 1, 3000));
    let before = rig.cache.stats();
    let late = FaultRule::new(Fault::Delay { submissions: 1000 }).on_deallocates();
    device.set_plan(&FaultPlan::new(1).with(late));
    let mut context = Context::from_waker(Waker::noop());
    let mut abandoned = 0;
    for key in 3000..6000 {
        let (key_bytes, value) = (key_of(key), value_of(key, 1, 3000));
        let mut set = pin!(rig.cache.set(&key_bytes, &value, None));
        abandoned += u32::from(set.as_mut().poll(&mut context).is_pending());
        if key % 30 == 0 {
            device.release_delayed();
        }
    }
    device.release_delayed();
    device.set_plan(&FaultPlan::new(1));
    let found = (5000..6000).filter(|&key| rig.get(key) == Some(1)).count();
    let stats = rig.cache.stats();
    let deallocated = stats.loc_deallocated_bytes - before.loc_deallocated_bytes;
    assert_eq!((stats.device_errors, stats.loc_bad_records), (0, 0), "{stats:?}");
    assert!(abandoned > 20 && deallocated > 10 * UNIT_BYTES, "{abandoned} {deallocated}");
    assert!(found > 900, "{found}");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    struct Silent(ModelDevice, DeviceInfo);
    impl Device for Silent {
        fn info(&self) -> &DeviceInfo {
            &self.1
        }
        fn start(&self, io: CheckedIo) -> IoFuture {
            self.0.start(io)
        }
        fn stats(&self) -> DeviceStats {
            self.0.stats()
        }
    }
    let refuse = |config: Config, device: Arc<dyn Device>| {
        let opened = block_on(Larder::open(config, Some(device), Arc::new(RealClock)));
        let error = opened.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let drifting = refuse(
        Config { loc: LocConfig { region_bytes: Some(96 << 10), ..by_units().loc }, ..by_units() },
        drive(),
    );
    assert!(drifting.contains("regions of 98304 bytes"), "{drifting}");
    let model = Arc::into_inner(drive()).unwrap();
    let info = DeviceInfo { placement: PlacementInfo::none(), ..model.info().clone() };
    let silent = Arc::new(Silent(model, info));
    let message = refuse(by_units(), Arc::clone(&silent) as _);
    assert!(message.contains("does not say how large its reclaim units are"), "{message}");
    assert_eq!(silent.stats().host_written_bytes, 0, "refused before anything was written");
}

#[test]
fn without_the_options_nothing_is_different() {
    let off =
        Config { loc: LocConfig { region_bytes: Some(64 << 10), ..config().loc }, ..config() };
    let (stats, requests, _) = play(off.clone());
    assert!(stats.loc_reclaimed_regions > 50, "{stats:?}");
    assert!(requests.iter().all(|request| request.0 == 'w' && request.3 <= 2));
    assert_eq!((stats.loc_deallocated_bytes, stats.soc_hot_bucket_writes), (0, 0));
    // Regions that are a whole unit are reclaimed one at a time with and without the option: then the option only adds
    // deallocations and changes no other request.
    let whole =
        Config { loc: LocConfig { region_bytes: Some(256 << 10), ..config().loc }, ..config() };
    let (plain, requests, hits) = play(whole.clone());
    let (mut by_unit, with, same_hits) =
        play(Config { loc: LocConfig { ru_aware_eviction: true, ..whole.loc }, ..whole });
    let writes: Vec<_> = with.iter().copied().filter(|request| request.0 == 'w').collect();
    assert_eq!((requests, hits), (writes, same_hits));
    assert!(std::mem::take(&mut by_unit.loc_deallocated_bytes) > 0);
    assert_eq!(plain, by_unit);
}

#[test]
fn dynamic_placement_moves_hot_buckets_and_changes_nothing_else() {
    let (plain, requests, hits) = play(config());
    let (mut dynamic, with, same_hits) =
        play(Config { soc: SocConfig { dynamic_placement: true, ..config().soc }, ..config() });
    assert_eq!(hits, same_hits);
    let hot = with.iter().filter(|request| request.3 == 3).count() as u64;
    assert_eq!(hot, std::mem::take(&mut dynamic.soc_hot_bucket_writes));
    assert!(dynamic.soc_filter_bytes > plain.soc_filter_bytes, "temperatures are counted");
    dynamic.soc_filter_bytes = plain.soc_filter_bytes;
    dynamic.flash_memory_bytes = plain.flash_memory_bytes;
    assert_eq!(plain, dynamic);
    assert!(hot > 100 && hot < dynamic.soc_bucket_writes / 2, "{dynamic:?}");
    let mut moved = 0;
    for (before, after) in requests.iter().zip(&with) {
        assert_eq!((before.0, before.1, before.2), (after.0, after.1, after.2));
        if before.3 != after.3 {
            assert_eq!((before.3, after.3), (1, 3));
            moved += 1;
        }
    }
    assert_eq!((requests.len(), moved), (with.len(), hot));
}

#[test]
fn without_a_third_handle_hot_buckets_fall_back_and_it_says_so() {
    let dynamic = Config { soc: SocConfig { dynamic_placement: true, ..config().soc }, ..config() };
    let streams = |config: Config, fdp: bool| -> Vec<_> {
        let rig = Rig::open(config, &drive_of(8 << 20, fdp));
        let all = rig.cache.placement().streams().iter();
        let placed = all.filter(|a| a.class != Class::Metadata);
        placed.map(|a| (a.class, a.handle.index(), a.fell_back())).collect()
    };
    let (soc, loc) = ((Class::Soc, 1, false), (Class::Loc, 2, false));
    assert_eq!(streams(config(), true), [soc, loc]);
    assert_eq!(streams(dynamic.clone(), true), [soc, loc, (Class::SocHot, 3, false)]);
    assert!(streams(dynamic, false).iter().all(|(_, handle, fell)| *handle == 0 && *fell));
}

#[test]
fn both_options_together_are_a_function_of_the_seed() {
    let both = Config {
        soc: SocConfig { dynamic_placement: true, ..by_units().soc },
        loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..by_units().loc },
        ..by_units()
    };
    assert_eq!(play(both.clone()), play(both));
}
