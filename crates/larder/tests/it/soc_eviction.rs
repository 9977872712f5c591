//! Which objects full buckets evict: with RRIP those stay that are read from flash, through restarts and crashes, and
//! nothing else differs from a FIFO.

use std::sync::Arc;

use larder::{Config, SocConfig, SocEviction, Stats, block_on};
use larder_device::ModelDevice;

use crate::rig::{Rig, config, drive, logged};

/// Keys that are read again and again.
const HOT: std::ops::Range<u32> = 0..300;
/// About as many objects of 200 bytes as the buckets hold: 509 buckets, 18 in each.
const BUCKETS_FULL: u32 = 9_200;
/// So few that each bucket has room for its own.
const FITTING: u32 = BUCKETS_FULL / 4;

/// Without DRAM, each set is a write of a bucket, and each get a read.
fn with(eviction: SocEviction) -> Config {
    Config { dram_bytes: 0, soc: SocConfig { eviction, ..config().soc }, ..config() }
}

fn set_all(rig: &Rig, keys: std::ops::Range<u32>) {
    keys.for_each(|key| rig.set(key, 1, 200));
}

fn hot_found(rig: &Rig) -> usize {
    HOT.filter(|&key| rig.get(key).is_some()).count()
}

/// The number of objects that a scan finds.
fn scanned(rig: &Rig) -> usize {
    let mut scan = rig.cache.scan();
    let batches = std::iter::from_fn(|| block_on(scan.next()));
    batches.map(|batch| batch.len()).sum()
}

/// Sets the hot keys, and then fills the buckets this number of times with other keys. While it does, the hot keys are
/// read. Returns the first key that was not set.
fn play(rig: &Rig, times: u32) -> u32 {
    set_all(rig, HOT);
    let mut next = HOT.end;
    for _ in 0..times * 4 {
        hot_found(rig);
        set_all(rig, next..next + BUCKETS_FULL / 4);
        next += BUCKETS_FULL / 4;
    }
    next
}

#[test]
fn objects_that_are_read_from_flash_stay() {
    let run = |config: Config| {
        let drive = drive();
        let rig = Rig::open(config, &drive);
        play(&rig, 4);
        (hot_found(&rig), rig.cache.stats())
    };
    let (fifo, fifo_stats) = run(with(SocEviction::Fifo));
    let (rrip, rrip_stats) = run(with(SocEviction::Rrip));
    assert!(fifo < HOT.len() / 20, "a FIFO keeps {fifo}");
    assert!(rrip > HOT.len() * 19 / 20, "predictions keep {rrip}");
    assert!(rrip_stats.soc_promoted_objects > 3 * HOT.len() as u64, "{rrip_stats:?}");
    assert_eq!(fifo_stats.soc_promoted_objects, 0);
    // What stays makes others go: as many, for as many writes.
    let evicted = |stats: &Stats| (stats.soc_evicted_objects, stats.soc_written_bytes);
    let ((gone, written), (gone_fifo, written_fifo)) = (evicted(&rrip_stats), evicted(&fifo_stats));
    assert_eq!(written, written_fifo);
    assert!(gone.abs_diff(gone_fifo) < gone_fifo / 100, "{gone} {gone_fifo}");
}

#[test]
fn the_log_does_not_change_which_objects_stay() {
    let logged = |eviction| Config {
        soc: SocConfig { eviction, ..logged().soc },
        ..with(SocEviction::Fifo)
    };
    let run = |eviction| {
        let drive = drive();
        let rig = Rig::open(logged(eviction), &drive);
        play(&rig, 4);
        hot_found(&rig)
    };
    let (fifo, rrip) = (run(SocEviction::Fifo), run(SocEviction::Rrip));
    assert!(fifo < HOT.len() / 10 && rrip > HOT.len() * 9 / 10, "{fifo} {rrip}");
}

#[test]
fn hits_take_four_bytes_a_bucket_and_a_fifo_takes_none() {
    let filters = |eviction| {
        let rig = Rig::open(with(eviction), &drive());
        let stats = rig.cache.stats();
        (stats.soc_filter_bytes, stats.flash_memory_bytes)
    };
    let (fifo, rrip) = (filters(SocEviction::Fifo), filters(SocEviction::Rrip));
    assert_eq!(fifo.0 % 19, 0);
    assert_eq!(rrip.0 - fifo.0, fifo.0 / 19 * 4);
    assert_eq!(rrip.1 - fifo.1, rrip.0 - fifo.0, "it is in the sum of all memory");
}

/// Opens the drive again, after a close or as a crash leaves it.
fn reopened(rig: Rig, config: Config, drive: &Arc<ModelDevice>, clean: bool) -> Rig {
    if clean {
        block_on(rig.cache.close()).unwrap();
    }
    drop(rig);
    let rig = Rig::open(config, drive);
    if !clean {
        block_on(rig.cache.rebuild());
    }
    rig
}

#[test]
fn predictions_survive_a_restart_and_a_crash() {
    for clean in [true, false] {
        let drive = drive();
        let rig = Rig::open(with(SocEviction::Rrip), &drive);
        let next = play(&rig, 2);
        let rig = reopened(rig, with(SocEviction::Rrip), &drive, clean);
        // Nothing is read until the buckets have been filled anew: only what is on flash says what was hit.
        set_all(&rig, next..next + BUCKETS_FULL);
        let kept = hot_found(&rig);
        assert!(kept > HOT.len() * 9 / 10, "{kept} are left, clean: {clean}");
    }
}

#[test]
fn a_crash_loses_the_hits_since_the_last_write_and_nothing_else() {
    for crash in [false, true] {
        let drive = drive();
        let rig = Rig::open(with(SocEviction::Rrip), &drive);
        set_all(&rig, HOT);
        set_all(&rig, HOT.end..FITTING);
        // No bucket is written after these reads.
        assert_eq!(hot_found(&rig), HOT.len());
        let rig = if crash { reopened(rig, with(SocEviction::Rrip), &drive, false) } else { rig };
        let (from, filled) = (BUCKETS_FULL, 2 * BUCKETS_FULL);
        assert_eq!(scanned(&rig), FITTING as usize, "every object is there");
        set_all(&rig, from..from + filled);
        // Each hit counts with the next write of its bucket, and with no other.
        let promoted = rig.cache.stats().soc_promoted_objects;
        assert_eq!(promoted, if crash { 0 } else { HOT.len() as u64 });
        let kept = hot_found(&rig);
        if crash {
            assert!(
                kept < HOT.len() / 10,
                "{kept} are left, although nothing says that they were read"
            );
        } else {
            assert!(kept > HOT.len() / 2, "{kept} are left");
        }
    }
}

#[test]
fn a_change_between_openings_keeps_the_content() {
    use SocEviction::{Fifo, Rrip};
    let drive = drive();
    let mut rig = Rig::open(with(Fifo), &drive);
    let keys = 0..FITTING;
    set_all(&rig, keys.clone());
    for (eviction, clean) in [(Rrip, true), (Fifo, true), (Rrip, false), (Fifo, false)] {
        rig = reopened(rig, with(eviction), &drive, clean);
        let found = keys.clone().filter(|&key| rig.get(key) == Some(1)).count();
        assert_eq!(found, keys.len(), "{eviction}, clean: {clean}");
        // Some predictions, or none, for the next opening.
        set_all(&rig, 0..500);
        assert_eq!(rig.cache.stats().soc_bad_buckets, 0, "{eviction}");
    }
    // And what a FIFO wrote is evicted in its order, whatever the predictions are.
    hot_found(&rig);
    set_all(&rig, BUCKETS_FULL..3 * BUCKETS_FULL);
    assert!(hot_found(&rig) < HOT.len() / 20);
}

#[test]
fn a_scan_is_no_hit() {
    let drive = drive();
    let rig = Rig::open(with(SocEviction::Rrip), &drive);
    set_all(&rig, HOT);
    let mut next = HOT.end;
    for _ in 0..8 {
        scanned(&rig);
        set_all(&rig, next..next + BUCKETS_FULL / 4);
        next += BUCKETS_FULL / 4;
    }
    assert_eq!(rig.cache.stats().soc_promoted_objects, 0);
    assert!(hot_found(&rig) < HOT.len() / 20, "as in a FIFO");
}
