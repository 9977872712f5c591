//! A removal listener is called for each object that leaves, once, with the reason: as many times as are counted.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use larder::{
    AdmissionPolicy, Config, Larder, LocConfig, RealClock, Reinsertion, RemovalListener,
    RemovalReason, SocConfig, Stats, Tier, block_on,
};
use larder_device::{Fault, FaultPlan, FaultRule};

use crate::faults::faulty;
use crate::rig::{Rig, config, drive, key_of, logged, value_of};

/// Recorded calls: reason, tier, key if it is known, bytes.
type Told = Arc<Mutex<Vec<(RemovalReason, Tier, Option<Vec<u8>>, Option<u64>)>>>;

fn listening(config: Config) -> (Config, Told) {
    let told = Told::default();
    let keep = Arc::clone(&told);
    let listener = RemovalListener::new(move |removal| {
        assert!(removal.key.is_none() || removal.hash.is_some());
        let key = removal.key.map(<[u8]>::to_vec);
        keep.lock().unwrap().push((removal.reason, removal.tier, key, removal.bytes));
    });
    (Config { removal_listener: Some(listener), ..config }, told)
}

/// The counters for each reason.
fn counted(stats: &Stats) -> HashMap<RemovalReason, u64> {
    let all = [
        (RemovalReason::Replaced, stats.replaced_objects),
        (RemovalReason::Deleted, stats.deleted_objects),
        (RemovalReason::Expired, stats.expired + stats.loc_expired_objects),
        (RemovalReason::Evicted, stats.dram_evicted_objects),
        (RemovalReason::RejectedByAdmission, stats.rejected_by_admission_objects),
        (RemovalReason::RejectedTooLarge, stats.rejected_too_large_objects),
        (RemovalReason::RejectedInOutage, stats.rejected_in_outage_objects),
        (RemovalReason::LeftOut, stats.left_out_objects),
        (RemovalReason::RejectedDramPinned, stats.rejected_dram_pinned_objects),
        (RemovalReason::BucketOverflow, stats.soc_evicted_objects),
        (RemovalReason::LogDropped, stats.soc_log_dropped_objects),
        (RemovalReason::RegionReclaimed, stats.loc_evicted_objects),
        (RemovalReason::Lost, stats.lost_to_device_errors_objects),
        (RemovalReason::Damaged, stats.loc_bad_records + stats.loc_incomplete_objects),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn totals(told: &Told) -> HashMap<RemovalReason, u64> {
    let mut totals = HashMap::new();
    told.lock().unwrap().iter().for_each(|(reason, ..)| *totals.entry(*reason).or_default() += 1);
    totals
}

/// Fills, overwrites, deletes and lets objects expire, several times what flash holds.
fn live(rig: &Rig, rounds: u32) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut now = 1000;
    for round in 0..rounds {
        for at in 0..600 {
            let key = rng.u32(..3000);
            let bytes = if key.is_multiple_of(6) { 15_000 } else { 100 + key as usize % 500 };
            match at % 12 {
                0 => _ = rig.delete(key),
                1..4 => _ = rig.get(key),
                4 => rig.set_for(key, round, bytes, Duration::from_secs(u64::from(3 + key % 40))),
                _ => rig.set(key, round, bytes),
            }
        }
        now += 5;
        rig.clock.advance_to(Duration::from_secs(now));
    }
}

#[test]
fn as_many_are_told_as_are_counted() {
    use RemovalReason::*;
    let classes = Config { loc: LocConfig { ttl_classes: vec![60], ..config().loc }, ..config() };
    let hits = Config {
        loc: LocConfig {
            reinsertion: Reinsertion::Hits(1),
            region_bytes: Some(64 << 10),
            ..config().loc
        },
        ..config()
    };
    let few = Config {
        soc: SocConfig { percent: Some(1.0), ..logged().soc },
        admission: AdmissionPolicy::Random(0.8),
        ..logged()
    };
    for (number, (config, reasons)) in [
        (config(), [Replaced, Deleted, Expired, RegionReclaimed, BucketOverflow]),
        (classes, [Replaced, Deleted, Expired, RegionReclaimed, BucketOverflow]),
        (hits, [Replaced, Deleted, Expired, RegionReclaimed, BucketOverflow]),
        (few, [Replaced, Deleted, RejectedByAdmission, LogDropped, BucketOverflow]),
    ]
    .into_iter()
    .enumerate()
    {
        // Buckets overflow only if there are few.
        let config = Config {
            soc: SocConfig {
                percent: config.soc.percent.map(|percent| percent.min(4.0)),
                ..config.soc
            },
            ..config
        };
        let (config, told) =
            listening(Config { soc: SocConfig { log_threshold: 3, ..config.soc }, ..config });
        let rig = Rig::open(config, &drive());
        live(&rig, 40);
        let stats = block_on(rig.cache.close()).unwrap();
        let totals = totals(&told);
        assert_eq!(totals, counted(&stats), "setting {number}");
        for reason in reasons {
            assert!(totals.contains_key(&reason), "setting {number}: {reason:?} of {totals:?}");
        }
    }
}

#[test]
fn a_cache_in_dram_tells_what_it_evicts() {
    let (config, told) = listening(Config { dram_bytes: 64 << 10, ..Config::default() });
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
    for key in 0..2000 {
        block_on(cache.set(&key_of(key), &value_of(key, 1, 200), None)).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(totals(&told), counted(&stats));
    assert_eq!(stats.dram_evicted_objects + stats.dram_items, 2000);
    let mut gone = HashSet::new();
    for (reason, tier, key, bytes) in told.lock().unwrap().iter() {
        let key = key.clone().unwrap();
        assert_eq!((*reason, *tier), (RemovalReason::Evicted, Tier::Dram));
        assert_eq!(*bytes, Some(200 + key.len() as u64));
        assert!(
            block_on(cache.get(&key)).unwrap().is_none() && gone.insert(key),
            "it is told once"
        );
    }
}

#[test]
fn what_the_device_loses_is_told() {
    for config in [config(), logged()] {
        let (config, told) = listening(config);
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(config, &device);
        live(&rig, 4);
        let noise = FaultRule::new(Fault::Error).on_writes().with_probability(0.3);
        device.set_plan(&FaultPlan::new(1).with(noise));
        live(&rig, 8);
        device.set_plan(&FaultPlan::new(1));
        live(&rig, 4);
        let (totals, counted) = (totals(&told), counted(&rig.cache.stats()));
        for reason in [RemovalReason::Lost, RemovalReason::RejectedInOutage] {
            assert!(totals.get(&reason).is_some_and(|&count| count > 0), "{reason:?}: {totals:?}");
            assert_eq!(totals.get(&reason), counted.get(&reason), "{reason:?}");
        }
    }
}

/// No lock is held while a listener runs: it may call the cache, and a panic leaves the cache intact.
#[test]
fn a_listener_may_call_the_cache_and_may_panic() {
    let cache: Arc<OnceLock<Larder>> = Arc::default();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (inside, seen) = (Arc::clone(&cache), Arc::clone(&calls));
    let listener = RemovalListener::new(move |removal| {
        let key = removal.key.unwrap().to_vec();
        seen.lock().unwrap().push(key.clone());
        let cache = inside.get().unwrap().blocking();
        match &key[..] {
            b"panics" => panic!("as it was told to"),
            b"again" if removal.reason == RemovalReason::Replaced => {
                // The key that has just changed, and everything else; what this removes is reported too.
                assert_eq!(cache.get(&key).unwrap().as_deref(), Some(&b"2"[..]));
                cache.set(b"other", b"2", None).unwrap();
                assert!(cache.delete(&key).unwrap());
                _ = cache.flush().unwrap();
                cache.clear().unwrap();
            }
            _ => {}
        }
    });
    let config = Config { removal_listener: Some(listener), ..config() };
    let opened = block_on(Larder::open(config, Some(drive() as _), Arc::new(RealClock))).unwrap();
    let cache = cache.get_or_init(|| opened);
    let set = |key: &[u8], value: &[u8]| block_on(cache.set(key, value, None)).unwrap();
    set(b"other", b"1");
    set(b"again", b"1");
    set(b"again", b"2");
    let told = std::mem::take(&mut *calls.lock().unwrap());
    assert_eq!(told, [&b"again"[..], b"other", b"again"], "replaced, replaced, deleted");
    set(b"panics", b"1");
    set(b"calm", b"1");
    let panicked = catch_unwind(AssertUnwindSafe(|| set(b"panics", b"2")));
    assert!(panicked.is_err());
    assert_eq!(block_on(cache.get(b"panics")).unwrap().as_deref(), Some(&b"2"[..]));
    set(b"calm", b"2");
    assert_eq!(*calls.lock().unwrap(), [&b"panics"[..], b"calm"]);
}
