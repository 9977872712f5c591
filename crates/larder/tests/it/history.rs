//! Random histories, checked by an oracle that knows which answers are allowed: the newest version, or nothing.

use std::collections::HashMap;
use std::time::Duration;

use larder::{
    AdmissionPolicy, Config, DramPolicy, LocConfig, RegionEviction, Reinsertion, SocConfig,
    SocEviction,
};
use proptest::prelude::*;

use crate::rig::{Rig, config, drive};

#[derive(Debug, Clone)]
enum Op {
    Set { key: u32, bytes: usize, ttl_s: Option<u64> },
    Get { key: u32 },
    Delete { key: u32 },
    Wait { seconds: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..120_u32;
    // Sizes on both sides of the limit between the engines; a key changes sides.
    let bytes = prop_oneof![4 => 12..600_usize, 2 => 600..6_000_usize, 1 => 6_000..60_000_usize];
    let ttl_s = prop::option::weighted(0.2, 1..30_u64);
    prop_oneof![
        6 => (key.clone(), bytes, ttl_s).prop_map(|(key, bytes, ttl_s)| Op::Set { key, bytes, ttl_s }),
        6 => key.clone().prop_map(|key| Op::Get { key }),
        1 => key.prop_map(|key| Op::Delete { key }),
        1 => (1..5_u64).prop_map(|seconds| Op::Wait { seconds }),
    ]
}

fn settings() -> impl Strategy<Value = Config> {
    let admission = prop_oneof![
        Just(AdmissionPolicy::All),
        Just(AdmissionPolicy::Random(0.5)),
        Just(AdmissionPolicy::RejectFirst),
        Just(AdmissionPolicy::Frequency { asks: 2 }),
        Just(AdmissionPolicy::Budget { bytes_per_day: 64 << 20 }),
    ];
    let dram = prop_oneof![Just(DramPolicy::S3Fifo), Just(DramPolicy::Lru)];
    let eviction = prop_oneof![Just(RegionEviction::Fifo), Just(RegionEviction::Lru)];
    // Regions of a whole reclaim unit, or of a quarter.
    let regions = prop_oneof![Just(256_u32 << 10), Just(64_u32 << 10)];
    let lessons = (regions, any::<bool>(), any::<bool>());
    // Many buckets, or so few that the log holds several objects of each.
    let soc_percent = prop_oneof![Just(25.0), Just(1.0)];
    let buckets = prop_oneof![Just(SocEviction::Fifo), Just(SocEviction::Rrip)];
    let log = (soc_percent, prop_oneof![Just(0.0), Just(1.0), Just(4.0)], 1..4_u8, buckets);
    let reinsertion = prop_oneof![Just(Reinsertion::None), (1..3_u8).prop_map(Reinsertion::Hits)];
    let all = (admission, dram, eviction, reinsertion, lessons, log);
    all.prop_map(|(admission, dram_policy, region_eviction, reinsertion, lessons, log)| {
        let (soc_percent, soc_log_percent, soc_log_threshold, soc_eviction) = log;
        let (region_bytes, ru_aware_eviction, dynamic_placement) = lessons;
        Config {
            soc: SocConfig {
                percent: Some(soc_percent),
                log_percent: Some(soc_log_percent),
                log_threshold: soc_log_threshold,
                dynamic_placement,
                eviction: soc_eviction,
                ..config().soc
            },
            admission,
            dram_policy,
            loc: LocConfig {
                region_bytes: Some(region_bytes),
                eviction: region_eviction,
                reinsertion,
                ru_aware_eviction,
                ..config().loc
            },
            ..config()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn only_the_newest_version_ever_comes_back(
        config in settings(),
        ops in prop::collection::vec(op(), 1..1500),
    ) {
        let drive = drive();
        let rig = Rig::open(config, &drive);
        let mut now = 1000;
        let mut version = 0;
        // The newest version of each key and its expiry.
        let mut newest: HashMap<u32, (u32, Option<u64>)> = HashMap::new();
        for op in ops {
            match op {
                Op::Set { key, bytes, ttl_s } => {
                    version += 1;
                    match ttl_s {
                        Some(ttl) => rig.set_for(key, version, bytes, Duration::from_secs(ttl)),
                        None => rig.set(key, version, bytes),
                    }
                    newest.insert(key, (version, ttl_s.map(|ttl| now + ttl)));
                }
                Op::Get { key } => {
                    if let Some(found) = rig.get(key) {
                        let allowed = newest.get(&key);
                        prop_assert_eq!(Some(found), allowed.map(|&(version, _)| version));
                        let expiry = allowed.and_then(|&(_, expiry)| expiry);
                        prop_assert!(expiry.is_none_or(|expiry| now < expiry), "expired at {expiry:?}, now {now}");
                    }
                }
                Op::Delete { key } => {
                    rig.delete(key);
                    newest.remove(&key);
                    prop_assert_eq!(rig.get(key), None);
                }
                Op::Wait { seconds } => {
                    now += seconds;
                    rig.clock.advance_to(Duration::from_secs(now));
                }
            }
        }
        drive.with_ssd(|ssd| ssd.audit()).map_err(TestCaseError::fail)?;
        prop_assert_eq!(rig.cache.stats().device_errors, 0);
    }
}

#[test]
fn what_was_set_and_not_evicted_is_found() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    (0..400).for_each(|key| rig.set(key, 1, 100));
    (400..420).for_each(|key| rig.set(key, 1, 20_000));
    let found = (0..420).filter(|&key| rig.get(key) == Some(1)).count();
    assert_eq!(found, 420, "flash has room for all of them");
    let stats = rig.cache.stats();
    assert!(stats.soc_hits > 200 && stats.loc_hits >= 19, "{stats:?}");
    assert_eq!(stats.dram_hits + stats.soc_hits + stats.loc_hits, 420);
}

#[test]
fn a_miss_that_needs_no_flash_read_makes_none() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    (0..200).for_each(|key| rig.set(key, 1, 100));
    let before = rig.cache.stats();
    (10_000..20_000).for_each(|key| assert_eq!(rig.get(key), None));
    let after = rig.cache.stats();
    let reads = after.soc_bucket_reads - before.soc_bucket_reads + after.loc_record_reads;
    assert!(reads < 500, "{reads} reads for 10,000 misses");
    assert_eq!(reads, after.soc_filter_false_positives - before.soc_filter_false_positives);
}

#[test]
fn a_clean_item_leaves_dram_without_a_write() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    (0..400).for_each(|key| rig.set(key, 1, 100));
    let written = rig.cache.stats().admitted_objects;
    for _ in 0..3 {
        (0..300).for_each(|key| assert_eq!(rig.get(key), Some(1)));
    }
    let stats = rig.cache.stats();
    assert!(stats.evicted_clean_objects > 500, "{stats:?}");
    assert!(
        stats.admitted_objects - written < 200,
        "what flash holds is not written again: {stats:?}"
    );
}

#[test]
fn hot_objects_survive_the_reclaim_of_their_region() {
    let drive = drive();
    let rig = Rig::open(
        Config {
            loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..config().loc },
            dram_bytes: 0,
            ..config()
        },
        &drive,
    );
    rig.set(1, 1, 10_000);
    for key in 1000..3000 {
        rig.set(key, 1, 10_000);
        assert_eq!(rig.get(1), Some(1), "after {key}");
    }
    assert!(rig.cache.stats().loc_reinserted_objects >= 2);
}

#[test]
fn dropped_futures_lose_nothing_but_themselves() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    let mut context = Context::from_waker(Waker::noop());
    for key in 0..2000 {
        let (key_bytes, value) = (crate::rig::key_of(key), crate::rig::value_of(key, 1, 300));
        let mut set = pin!(rig.cache.set(&key_bytes, &value, None));
        if key % 3 != 0 {
            let _ = set.as_mut().poll(&mut context);
        }
    }
    (0..2000).for_each(|key| assert!(matches!(rig.get(key), None | Some(1))));
}

#[test]
fn one_large_set_reclaims_one_region() {
    let drive = drive();
    let config = Config {
        loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..config().loc },
        dram_bytes: 0,
        ..config()
    };
    let rig = Rig::open(config, &drive);
    (0..1200).for_each(|key| rig.set(key, 1, 5_000));
    (0..1200).for_each(|key| _ = rig.get(key));
    let before = rig.cache.stats().loc_sealed_regions;
    rig.set(5000, 1, 150_000);
    let sealed = rig.cache.stats().loc_sealed_regions - before;
    assert!(sealed <= 2, "one set sealed {sealed} regions");
}

#[test]
fn an_expired_object_costs_one_read() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    rig.set_for(1, 1, 100, Duration::from_secs(5));
    rig.set_for(2, 1, 5_000, Duration::from_secs(5));
    (100..600).for_each(|key| rig.set(key, 1, 300));
    rig.clock.advance_to(Duration::from_secs(2000));
    let reads = || {
        let stats = rig.cache.stats();
        stats.soc_bucket_reads + stats.loc_record_reads
    };
    let before = reads();
    for _ in 0..100 {
        assert_eq!((rig.get(1), rig.get(2)), (None, None));
    }
    assert!(reads() - before <= 2, "{} reads", reads() - before);
}

#[test]
fn a_value_lives_as_long_as_it_was_promised() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    rig.clock.advance_to(Duration::from_millis(1_000_999));
    rig.set_for(1, 1, 100, Duration::from_secs(1));
    rig.clock.advance_to(Duration::from_millis(1_001_998));
    assert_eq!(rig.get(1), Some(1));
    rig.clock.advance_to(Duration::from_millis(1_003_000));
    assert_eq!(rig.get(1), None);
    rig.set_for(1, 1, 100, Duration::from_secs(1));
    rig.clock.advance_to(Duration::from_secs(1_010));
    assert!(!rig.delete(1), "an expired value was not there");
}
