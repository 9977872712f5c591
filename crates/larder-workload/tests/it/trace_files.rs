//! Real traces, compared with the statistics that came with them (`stats.json`, in the folder of the data).

use larder_workload::stats::Stats;
use larder_workload::trace::{self, TraceFormat, TraceOptions};

use crate::trace_support::data;

/// Statistics of a trace, with LRU caches of these shares of `footprint_bytes`.
fn stats(name: &str, format: TraceFormat, footprint_bytes: u64, shares: &[f64]) -> Option<Stats> {
    let path = data(name)?;
    assert_eq!(trace::format_of(&path).unwrap(), format);
    let mut source = trace::open(&path, &TraceOptions::default()).unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small shares")]
    let capacity = |share: &f64| (share * footprint_bytes as f64) as u64;
    let capacities: Vec<u64> = shares.iter().map(capacity).collect();
    Some(Stats::collect(&mut *source, &capacities, |_, _| {}).unwrap())
}

/// Equal to four decimal places, which is what `stats.json` has.
#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 0.000_051, "{found}, expected {expected}");
}

#[test]
fn twitter_c52() {
    let (name, shares) = ("kv/twitter_c52_req0-4M.csv.zst", [0.001, 0.01, 0.1, 0.3]);
    let Some(stats) = stats(name, TraceFormat::Csv, 86_036_610, &shares) else { return };
    assert_eq!((stats.requests, stats.gets, stats.unique_keys), (4_000_000, 4_000_000, 431_119));
    assert_eq!((stats.footprint_bytes, stats.requested_bytes), (86_036_610, 804_060_577));
    assert_eq!(stats.span_s, 2086);
    close(stats.one_hit_ratio, 0.3938);
    let sizes = stats.object_bytes;
    let found = [sizes.p10, sizes.p50, sizes.p90, sizes.p99, sizes.max];
    assert_eq!(found, [17, 54, 553, 1176, 4985]);
    let expected = [(0.4261, 0.4624), (0.2835, 0.3042), (0.1611, 0.1641), (0.1276, 0.127)];
    for (lru, (miss_ratio, byte_miss_ratio)) in stats.lru.iter().zip(expected) {
        close(lru.miss_ratio, miss_ratio);
        close(lru.get_miss_ratio, miss_ratio);
        close(lru.byte_miss_ratio, byte_miss_ratio);
    }
}

#[test]
fn cache2k_orm_busy() {
    let (name, shares) = ("kv/cache2k_orm-busy.trace.xz", [0.001, 0.01, 0.1, 0.3]);
    let footprint_bytes = 76_349 * 1024;
    let found = stats(name, TraceFormat::KeysU32, footprint_bytes, &shares);
    let Some(stats) = found else { return };
    assert_eq!((stats.requests, stats.unique_keys), (5_000_000, 76_349));
    assert_eq!(stats.footprint_bytes, footprint_bytes);
    close(stats.one_hit_ratio, 0.1148);
    for (lru, expected) in stats.lru.iter().zip([0.4981, 0.2297, 0.1199, 0.0565]) {
        close(lru.miss_ratio, expected);
    }
}

#[test]
fn cache2k_web07() {
    let (name, shares) = ("kv/cache2k_web07.trace.xz", [0.001, 0.01, 0.1, 0.3]);
    let found = stats(name, TraceFormat::KeysU32, 20_484 * 1024, &shares);
    let Some(stats) = found else { return };
    assert_eq!((stats.requests, stats.unique_keys), (76_118, 20_484));
    close(stats.one_hit_ratio, 0.5402);
    for (lru, expected) in stats.lru.iter().zip([0.7868, 0.6085, 0.4434, 0.3551]) {
        close(lru.miss_ratio, expected);
    }
}

/// `stats.json` describes two samples of 99 rows together (1,124 requests of 114 keys); the data has only the first.
/// Its numbers were counted by hand.
#[test]
fn meta_kv_sample() {
    let name = "kv/meta_kv_202401_sample_1.csv";
    let Some(stats) = stats(name, TraceFormat::MetaKv, 0, &[]) else { return };
    assert_eq!((stats.requests, stats.unique_keys), (691, 52));
    assert_eq!((stats.gets, stats.sets, stats.deletes), (511 + 167, 8 + 2, 3));
    assert_eq!(stats.gets_of_unknown_size, 20 - 3);
    assert_eq!(stats.value_bytes.mean * 52.0, 34_213.0);
    assert_eq!((stats.ttl_s.min, stats.ttl_s.max), (1320, 21_600));
}

#[test]
fn cloud_physics_oracle_general() {
    let name = "block/cloudPhysicsIO.oracleGeneral.bin.zst";
    let Some(stats) = stats(name, TraceFormat::OracleGeneral, 0, &[]) else { return };
    // 2,732,928 bytes of records.
    assert_eq!((stats.requests, stats.gets), (113_872, 113_872));
    assert_eq!(stats.span_s, 7200);
}

#[test]
fn block_traces_are_not_taken_for_key_value_traces() {
    for name in [
        "block/cloudPhysicsIO.csv.zst",
        "block/cloudPhysicsIO.vscsi.zst",
        "block/mqsim_tpcc-small.trace.zst",
        "block/meta_tectonic_sample_1.csv",
        "page/arc_P3.lis.zst",
        "object/nasa_19950801.tsv.zst",
    ] {
        let Some(path) = data(name) else { continue };
        let error = trace::format_of(&path).unwrap_err().to_string();
        assert!(error.contains("start of the file"), "{error}");
    }
    // A block on each line is a key on each line.
    let Some(path) = data("page/lirs_sprite.trace.gz") else { return };
    assert_eq!(trace::format_of(&path).unwrap(), TraceFormat::Keys);
}
