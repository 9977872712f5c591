//! A cache on devices: in any mode, and with any requests of threads, a core behind a cache behaves like the core
//! alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use larder_block::cache::{BypassReason, Cache, CacheOptions, CacheShape, Health, Mode};
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::policy::routing::RoutingPolicy;
use larder_block::policy::{CutOffPolicy, NHit, PromotionPolicy};
use larder_block::running::{Handles, RunningCache};
use larder_block::volume::CachedVolume;
use larder_device::model::virtual_time::{Shape, ShapedStorage};
use larder_device::{
    Device, Durability, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
    Payload, PlacementHandle, VirtualClock, VirtualTimeDevice, block_on,
};
use larder_export::volume::{Context, DeviceVolume, Volume};

use super::classes::by_chance;
use super::rig::{IDENTITY, core};

const MIB: usize = 1 << 20;

pub(crate) fn memory(bytes: usize) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::holding(vec![0; bytes]))
}

/// A device with the timing of a shape, on this clock.
pub(crate) fn shaped(
    shape: Shape,
    bytes: u64,
    payload: Payload,
    clock: &Arc<VirtualClock>,
) -> Arc<dyn Device> {
    let storage = ShapedStorage::new(shape, bytes).unwrap();
    Arc::new(VirtualTimeDevice::new(storage, payload, Arc::clone(clock)).unwrap())
}

/// A cache of 8 MiB before two cores of 16 MiB each.
pub(crate) fn cache_on(
    device: Arc<dyn Device>,
    cores: &[Arc<dyn Device>],
    mode: Mode,
) -> RunningCache {
    let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    let geometry = Geometry::new(device.info(), 0, &log).unwrap();
    let layout = LogLayout::new(geometry, IDENTITY, device.info(), &log);
    let shape =
        CacheShape { capacity_bytes: geometry.capacity_bytes(), line_bytes: geometry.line_bytes };
    let options = CacheOptions { mode, cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    let cache = Cache::new(Box::new(layout), shape, options).unwrap();
    let numbered = (0..).map(core).zip(cores.iter().cloned());
    RunningCache::new(cache, device, numbered.collect::<BTreeMap<_, _>>(), Handles::default())
}

pub(crate) fn in_memory(mode: Mode) -> (RunningCache, Vec<Arc<dyn Device>>) {
    let cores: Vec<Arc<dyn Device>> = vec![memory(16 * MIB), memory(16 * MIB)];
    (cache_on(memory(8 * MIB), &cores, mode), cores)
}

pub(crate) fn read(device: &dyn Device, offset: u64, bytes: usize) -> Vec<u8> {
    device
        .submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) })
        .wait()
        .unwrap()
        .as_slice()
        .to_vec()
}

/// Random requests of a thread to its own part of a core, compared with a copy in memory.
fn ask_at_random(volume: &DeviceVolume, part: std::ops::Range<usize>, seed: u64, requests: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut copy = vec![0; part.len()];
    for _ in 0..requests {
        let longest = rng.choice([600, 5000, 70_000]).unwrap();
        let bytes = rng.usize(1..longest);
        let at = rng.usize(..part.len() - bytes);
        let (offset, range) = ((part.start + at) as u64, at..at + bytes);
        let place = offset..offset + bytes as u64;
        match rng.u8(..10) {
            0..=3 => {
                let read = volume.read(offset, IoBuffer::zeroed(bytes)).wait().unwrap();
                assert!(read.as_slice() == &copy[range], "seed {seed}, {place:?}");
            }
            4..=7 => {
                let mut buffer = IoBuffer::zeroed(bytes);
                rng.fill(buffer.as_mut_slice());
                copy[range].copy_from_slice(buffer.as_slice());
                let durability = if rng.bool() { Durability::Power } else { Durability::Device };
                let back = volume.write(offset, buffer, durability).wait().unwrap();
                drop(back);
            }
            8 => {
                volume.write_zeroes(place, false, Durability::Device).wait().unwrap();
                copy[range].fill(0);
            }
            _ => drop(volume.flush().wait().unwrap()),
        }
    }
    let read = volume.read(part.start as u64, IoBuffer::zeroed(part.len())).wait().unwrap();
    assert!(read.as_slice() == copy, "seed {seed}");
}

#[test]
fn threads_find_what_they_wrote_in_every_mode_and_while_modes_change() {
    let (cache, _) = in_memory(Mode::WriteBack);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4)
            .map(|number: usize| {
                let volume = DeviceVolume::new(Arc::new(
                    cache.core(core(u16::from(number % 2 == 1))).unwrap(),
                ));
                let start = number / 2 * 8 * MIB;
                scope.spawn(move || {
                    ask_at_random(&volume, start..start + 8 * MIB, number as u64, 600)
                })
            })
            .collect();
        let switcher = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(9);
            while !done.load(Ordering::SeqCst) {
                let mode = rng.choice(Mode::all()).unwrap();
                let core_permille = rng.choice([0, 500]).unwrap();
                let classes = by_chance(&mut rng);
                cache.with(|cache| {
                    cache.set_mode(mode);
                    cache.set_classes(classes);
                    cache.set_routing(RoutingPolicy::Fixed { core_permille }).unwrap();
                });
                if rng.bool() {
                    block_on(cache.clean()).unwrap();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let ended: Vec<_> = askers.into_iter().map(|asker| asker.join()).collect();
        done.store(true, Ordering::SeqCst);
        switcher.join().unwrap();
        ended.into_iter().for_each(|one| one.unwrap());
    });
    assert_eq!(cache.with(|cache| cache.under_way()), 0);
    let statistics = cache.with(|cache| *cache.statistics());
    assert!((1..statistics.reads.hits).contains(&statistics.core_hits), "{statistics:?}");
    assert!(statistics.reads.hits > 0 && statistics.reads.full_misses > 0, "{statistics:?}");
    assert_eq!(statistics.errors.total(), 0);
}

pub(crate) fn write(device: &dyn Device, offset: u64, fill: u8, bytes: usize) {
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.as_mut_slice().fill(fill);
    let back = device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
    assert_eq!(back.len(), bytes, "the buffer comes back");
}

/// Number of cached and of dirty sectors in the first 8 KiB, and the byte that the core has there.
fn after_write_and_read(mode: Mode, warm: bool) -> (u64, u64, u8) {
    let (cache, cores) = in_memory(mode);
    let cached = cache.core(core(0)).unwrap();
    if warm {
        cache.with(|cache| cache.set_mode(Mode::WriteThrough));
        write(&cached, 0, 1, 8192);
        cache.with(|cache| cache.set_mode(mode));
    }
    write(&cached, 0, 2, 8192);
    let usage = cache.with(|cache| cache.usage());
    assert_eq!(read(&cached, 0, 8192), [2; 8192]);
    (usage.valid_sectors, usage.dirty_sectors, read(&*cores[0], 4096, 4096)[0])
}

#[test]
fn modes_do_with_writes_what_they_say() {
    for (mode, cold, warm) in [
        (Mode::WriteThrough, (16, 0, 2), (16, 0, 2)),
        (Mode::WriteBack, (16, 16, 0), (16, 16, 1)),
        (Mode::WriteAround, (0, 0, 2), (16, 0, 2)),
        (Mode::WriteInvalidate, (0, 0, 2), (0, 0, 2)),
        (Mode::WriteOnly, (16, 16, 0), (16, 16, 1)),
        (Mode::PassThrough, (0, 0, 2), (0, 0, 2)),
    ] {
        assert_eq!(after_write_and_read(mode, false), cold, "{mode}, cold");
        assert_eq!(after_write_and_read(mode, true), warm, "{mode}, warm");
    }
}

#[test]
fn modes_keep_of_reads_what_they_say() {
    for mode in Mode::all() {
        let (cache, cores) = in_memory(mode);
        let cached = cache.core(core(0)).unwrap();
        write(&*cores[0], 4096, 3, 4096);
        assert_eq!(read(&cached, 0, 12288)[4096..8192], [3; 4096]);
        let kept = !matches!(mode, Mode::WriteOnly | Mode::PassThrough);
        let valid = cache.with(|cache| cache.usage().valid_sectors);
        assert_eq!(valid, if kept { 24 } else { 0 }, "{mode}");
        let again = read(&cached, 0, 12288);
        let hits = cache.with(|cache| cache.statistics().reads.hits);
        assert_eq!((again[4096], hits), (3, u64::from(kept)), "{mode}");
    }
}

#[test]
fn cleaning_leaves_the_core_with_all() {
    let (cache, cores) = in_memory(Mode::WriteBack);
    let cached = cache.core(core(1)).unwrap();
    for number in 0..100_u8 {
        write(&cached, u64::from(number) * (128 << 10), number + 1, 12288);
    }
    assert_eq!(cache.with(|cache| cache.usage().dirty_sectors), 2400);
    assert_eq!(cache.with(|cache| cache.dirty_ranges(core(1), 2)), [0..24, 256..280]);
    block_on(cache.clean()).unwrap();
    assert_eq!(cache.with(|cache| cache.usage().dirty_sectors), 0);
    for number in 0..100_u8 {
        assert_eq!(read(&*cores[1], u64::from(number) * (128 << 10), 12288), [number + 1; 12288]);
    }
}

/// A write-back cache with clean data in the first 64 KiB and 8 KiB of dirty data at 1 MiB. From now on its device
/// fails writes, and also reads if `reads_too`.
fn failing(reads_too: bool) -> (RunningCache, Vec<Arc<dyn Device>>) {
    let device = Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
    let cores: Vec<Arc<dyn Device>> = vec![memory(16 * MIB)];
    let cache = cache_on(Arc::clone(&device) as Arc<dyn Device>, &cores, Mode::WriteThrough);
    let cached = cache.core(core(0)).unwrap();
    write(&cached, 0, 1, 65536);
    cache.with(|cache| cache.set_mode(Mode::WriteBack));
    write(&cached, 1 << 20, 2, 8192);
    let rule = FaultRule::new(Fault::Error);
    let rule = if reads_too { rule } else { rule.on_writes() };
    device.set_plan(&FaultPlan::new(1).with(rule));
    (cache, cores)
}

fn is_refused(device: &dyn Device, offset: u64) -> bool {
    let write = Io::write(offset, IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
    device.submit(write).wait().is_err()
}

#[test]
fn without_its_device_a_cache_with_dirty_data_stops_and_says_where_they_are() {
    let (cache, _) = failing(true);
    let cached = cache.core(core(0)).unwrap();
    // Clean data is read from the core. Dirty data cannot be read.
    assert!(read(&cached, 4096, 8192) == [1; 8192]);
    let dirty = Io::Read { offset: 1 << 20, buffer: IoBuffer::zeroed(4096) };
    let refused = cached.submit(dirty).wait().unwrap_err().to_string();
    assert!(refused.contains("core 0: read"), "{refused}");
    for offset in [2 << 20, 0, 1 << 20, 3 << 20] {
        assert!(is_refused(&cached, offset), "{offset}");
    }
    assert_eq!(cache.with(|cache| cache.health()), Health::Failed);
    assert!(read(&cached, 4096, 8192) == [1; 8192]);
    assert_eq!(
        cache.with(|cache| cache.dirty_ranges(core(0), 9)),
        std::iter::once(2048..2064).collect::<Vec<_>>()
    );
    let errors = cache.with(|cache| cache.statistics().errors);
    assert!(errors.cache_reads + errors.cache_writes >= 8 && errors.core_writes == 0, "{errors:?}");
    assert!(block_on(cache.clean()).is_err());
}

#[test]
fn dirty_data_that_can_be_read_are_saved_and_the_core_goes_on_without_the_cache() {
    let (cache, cores) = failing(false);
    let cached = cache.core(core(0)).unwrap();
    while cache.with(|cache| cache.health()) == Health::Whole {
        assert!(is_refused(&cached, 2 << 20));
    }
    assert!(is_refused(&cached, 2 << 20));
    block_on(cache.clean()).unwrap();
    assert!(read(&*cores[0], 1 << 20, 8192) == [2; 8192]);
    write(&cached, 0, 7, 4096);
    assert!(read(&cached, 0, 4096) == [7; 4096] && read(&*cores[0], 0, 4096) == [7; 4096]);
    cached.submit(Io::Flush).wait().unwrap();
    assert!(cache.with(|cache| cache.statistics().bypasses(BypassReason::CacheFailed)) > 0);
}

#[test]
fn a_volume_says_what_is_cached_and_what_is_dirty() {
    let (cache, cores) = in_memory(Mode::WriteBack);
    let volume = CachedVolume::new(cache.core(core(0)).unwrap());
    write(&cache.core(core(0)).unwrap(), 8192, 5, 4096);
    write(&*cores[0], 16384, 6, 4096);
    assert!(volume.info().caches);
    volume.cache(16384..20480).wait().unwrap();
    let status = |context, range| {
        let extents = volume.status(context, range, 9);
        extents.into_iter().map(|one| (one.bytes, one.flags)).collect::<Vec<_>>()
    };
    assert_eq!(
        status(Context::Cached, 0..32768),
        [(8192, 0), (4096, 1), (4096, 0), (4096, 1), (12288, 0)]
    );
    assert_eq!(status(Context::Dirty, 4097..20000), [(4095, 0), (4096, 1), (7712, 0)]);
    assert_eq!(status(Context::Allocation, 0..32768), [(32768, 0)]);
    assert_eq!(volume.status(Context::Cached, 0..32768, 2).len(), 2);
}

/// Number of dirty bytes, and number of requests that bypassed the cache for `reason`.
fn after_writes(
    options: CacheOptions,
    writes: &[(u64, usize)],
    reason: BypassReason,
) -> (u64, u64) {
    let (cache, _) = in_memory(Mode::WriteBack);
    let cached = cache.core(core(0)).unwrap();
    cache.with(|cache| {
        cache.set_cut_off(options.cut_off, options.cut_off_bytes);
        cache.set_promotion(options.promotion).unwrap();
        cache.set_classes(options.classes.clone());
    });
    writes.iter().for_each(|(offset, bytes)| write(&cached, *offset, 1, *bytes));
    cache.with(|cache| (cache.usage().dirty_sectors * 512, cache.statistics().bypasses(reason)))
}

#[test]
fn what_passes_by_is_counted_by_its_reason() {
    let all = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    let stream: Vec<(u64, usize)> = (0..8).map(|number| (number * 65536, 65536)).collect();
    let cut_off =
        CacheOptions { cut_off: CutOffPolicy::Always, cut_off_bytes: 262_144, ..all.clone() };
    // The request that reaches the cut-off length already bypasses the cache.
    assert_eq!(after_writes(cut_off, &stream, BypassReason::SequentialCutOff), (3 * 65536, 5));
    let n_hit = NHit { insertion_threshold: 2, trigger_percent: 0 };
    let promotion = CacheOptions { promotion: PromotionPolicy::NHit(n_hit), ..all.clone() };
    let twice = [(0, 4096), (8192, 4096), (0, 4096)];
    assert_eq!(after_writes(promotion, &twice, BypassReason::Promotion), (4096, 2));
    let classes = "IO class id,IO class name,Eviction priority,Allocation
        0,unclassified,22,1.00
        1,request_size:ge:65536,22,0.00";
    let by_class = CacheOptions { classes: classes.parse().unwrap(), ..all };
    let sizes = [(0, 4096), (65536, 65536)];
    assert_eq!(after_writes(by_class, &sizes, BypassReason::IoClass), (4096, 1));
}

#[test]
fn stale_data_is_written_back_when_no_requests_come() {
    let (cache, cores) = in_memory(Mode::WriteBack);
    cache.work(Duration::from_secs(1));
    write(&cache.core(core(0)).unwrap(), 8192, 5, 4096);
    let dirty_at = |second| {
        cache.work(Duration::from_secs(second));
        cache.with(|cache| cache.usage().dirty_sectors)
    };
    assert!((2..=120).step_by(7).all(|second| dirty_at(second) == 8), "it is not stale yet");
    assert!((125..=200).step_by(7).any(|second| dirty_at(second) == 0));
    assert!(read(&*cores[0], 8192, 4096) == [5; 4096]);
}
