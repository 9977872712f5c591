//! The generators: their laws, and the miss ratios that they were fitted to.

use larder_workload::generate::{GeneratorOptions, preset, presets};
use larder_workload::stats::Stats;
use larder_workload::{Error, Op, Request, RequestSource};

use crate::trace_support::drain;

fn generator(name: &str, requests: u64, seed: u64) -> Box<dyn RequestSource> {
    preset(name, GeneratorOptions { requests, span_requests: None, seed }).unwrap()
}

fn stats(name: &str, requests: u64) -> Stats {
    Stats::collect(&mut *generator(name, requests, 1), &[], |_, _| {}).unwrap()
}

#[track_caller]
fn within(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found}, expected {expected}");
}

/// A source whose objects all have one byte: a cache of bytes then counts objects.
struct EqualSizes(Box<dyn RequestSource>);

impl RequestSource for EqualSizes {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        let request = self.0.next_request()?;
        Ok(request.map(|request| Request { key_bytes: 0, value_bytes: 1, ..request }))
    }

    fn progress(&self) -> Option<f64> {
        self.0.progress()
    }
}

/// Cache sizes as shares of the distinct objects, as in the fit.
const SHARES: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8];

/// Largest deviation of the fit itself, at its full length, and the largest deviation that a shorter run adds: both as
/// published with the presets.
struct Tolerance {
    fit: f64,
    scaling: f64,
}

/// Checks the miss ratios of a generator against those of the full trace that it was fitted to.
#[track_caller]
fn fits(name: &str, requests: u64, target: [f64; 8], tolerance: f64) {
    let run = |capacities: &[u64]| {
        let mut source = EqualSizes(generator(name, requests, 1));
        Stats::collect(&mut source, capacities, |_, _| {}).unwrap()
    };
    let unique_keys = run(&[]).unique_keys;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small shares")]
    let capacities = SHARES.map(|share| (share * unique_keys as f64).round() as u64);
    for (lru, target) in run(&capacities).lru.iter().zip(target) {
        let miss_ratio = lru.miss_ratio;
        println!("{name} at {}: {miss_ratio:.4}, target {target}", lru.capacity_bytes);
        assert!((miss_ratio - target).abs() <= tolerance, "{name}: {miss_ratio}, not {target}");
    }
}

/// The fitted presets: LRU miss ratios of the full trace at [`SHARES`], and the tolerance of the model.
const FITTED: [(&str, [f64; 8], Tolerance); 4] = [
    (
        "meta-kv-small-values",
        [0.3254, 0.2519, 0.1733, 0.1211, 0.0812, 0.0662, 0.056, 0.051],
        Tolerance { fit: 0.0053, scaling: 0.03 },
    ),
    (
        "cdn",
        [0.5958, 0.567, 0.53, 0.4914, 0.44, 0.3977, 0.3563, 0.3301],
        Tolerance { fit: 0.0055, scaling: 0.006 },
    ),
    (
        "image",
        [0.694, 0.5859, 0.4474, 0.3353, 0.2496, 0.2153, 0.1927, 0.1821],
        Tolerance { fit: 0.0036, scaling: 0.006 },
    ),
    (
        "document",
        [0.7966, 0.6864, 0.5288, 0.3728, 0.2238, 0.1542, 0.111, 0.0901],
        Tolerance { fit: 0.0053, scaling: 0.006 },
    ),
];

#[test]
fn presets_fit_their_traces_at_a_million_requests() {
    for (name, target, tolerance) in FITTED {
        fits(name, 1_000_000, target, tolerance.fit + tolerance.scaling);
    }
}

/// At the length of the fit only chance adds to the deviation of the fit itself.
#[test]
#[ignore = "takes a minute"]
fn presets_fit_their_traces_at_full_length() {
    const CHANCE: f64 = 0.001;
    for (name, target, tolerance) in FITTED {
        fits(name, 10_000_000, target, tolerance.fit + CHANCE);
    }
}

#[test]
fn same_seed_same_stream() {
    for entry in presets() {
        let take = |seed| drain(&mut *generator(entry.name, 5000, seed), 10_000).unwrap();
        let first = take(1);
        assert_eq!(first.len(), 5000, "{}", entry.name);
        assert_eq!(first, take(1), "{}", entry.name);
        assert_ne!(first, take(2), "{}", entry.name);
    }
}

#[test]
fn meta_kv_has_its_laws() {
    let stats = stats("meta-kv", 500_000);
    within(stats.sets as f64 / stats.requests as f64, 0.2, 0.02);
    within(stats.key_bytes.mean, 64.0, 0.01);
    // This is the mean over the distinct objects; the published mean is over puts, which the replay measures.
    within(stats.object_bytes.mean, 983.0, 0.1);
    assert_eq!(stats.value_bytes.p50, 159);
    assert_eq!((stats.ttl_s.min, stats.ttl_s.max), (0, 21_600));
}

#[test]
fn meta_kv_small_values_has_its_laws() {
    let stats = stats("meta-kv-small-values", 500_000);
    within(stats.sets as f64 / stats.requests as f64, 0.2, 0.02);
    assert_eq!((stats.key_bytes.min, stats.key_bytes.max), (21, 107));
    within(stats.key_bytes.mean, 64.0, 0.01);
    assert_eq!(stats.value_bytes.p50, 159);
    assert!(stats.value_bytes.min >= 31 && stats.value_bytes.max <= 523_487);
    within(stats.value_bytes.p10.into(), 95.0, 0.05);
    within(f64::from(stats.value_bytes.p99), 959.0, 0.1);
    assert_eq!((stats.ttl_s.min, stats.ttl_s.max), (0, 21_600));
    assert_eq!((stats.span_s, stats.deletes), (49, 0));
}

/// The fit to Table 2 is in the number of keys alone.
#[test]
fn meta_kv_table_2_has_more_keys_and_the_same_objects() {
    let names = ["meta-kv-small-values", "meta-kv-table2", "meta-kv"];
    let [few, more, most] = names.map(|name| stats(name, 500_000));
    assert!(few.unique_keys < more.unique_keys && more.unique_keys < most.unique_keys);
    let times = more.unique_keys as f64 / few.unique_keys as f64;
    assert!((1.1..2.0).contains(&times), "{times}");
    assert_eq!(more.value_bytes.p50, few.value_bytes.p50);
    within(more.value_bytes.p99.into(), few.value_bytes.p99.into(), 0.1);
    within(more.sets as f64 / more.requests as f64, 0.2, 0.02);
}

#[test]
fn write_only_is_the_sets_of_the_whole() {
    let sets = drain(&mut *generator("meta-kv-write-only", 20_000, 7), 30_000).unwrap();
    let mut whole = drain(&mut *generator("meta-kv", 100_000, 7), 100_000).unwrap();
    whole.retain(|request| request.op == Op::Set);
    let common = sets.len().min(whole.len());
    assert!(sets.len() == 20_000 && common > 19_000);
    assert_eq!(sets[..common], whole[..common]);
}

#[test]
fn twitter_c12_has_its_laws() {
    let stats = stats("twitter-c12", 3_000_000);
    // 4 SETs for each GET: each SET has 0.1795 * (1 + 0.249 / (1 - 0.394)) reads, except those still to come at the
    // end.
    let span_s = f64::from(stats.span_s);
    within(stats.sets as f64, 3505.0 * span_s, 0.005);
    let reads = 3505.0 * 0.1795 * (1.0 + 0.249 / (1.0 - 0.394)) * (span_s - 60.0);
    within(stats.gets as f64, reads, 0.02);
    within(stats.value_bytes.p50.into(), 6.39_f64.exp(), 0.01);
    assert_eq!((stats.key_bytes.min, stats.key_bytes.max), (44, 44));
    assert_eq!((stats.ttl_s.min, stats.ttl_s.p50, stats.ttl_s.max), (299, 300, 300));
    // Each SET makes a new key except where it overwrites one; the absent keys come on top.
    let keys = stats.sets as f64 * (1.0 - 0.0142) + stats.gets as f64 * 0.0018;
    within(stats.unique_keys as f64, keys, 0.002);
}

#[test]
fn twitter_c12_reads_what_lives() {
    let mut source = generator("twitter-c12", 2_000_000, 3);
    let mut set_at = std::collections::HashMap::new();
    let (mut gets, mut absent, mut last_s) = (0_u32, 0_u32, 0);
    while let Some(request) = source.next_request().unwrap() {
        assert!(request.time_s >= last_s, "time steps back");
        last_s = request.time_s;
        if request.op == Op::Set {
            set_at.insert(request.key, request.time_s);
            continue;
        }
        gets += 1;
        match set_at.get(&request.key) {
            Some(at) => assert!(request.time_s - at <= request.ttl_s, "read after expiry"),
            None => absent += 1,
        }
    }
    within(f64::from(absent) / f64::from(gets), 0.0018, 0.15);
}

#[test]
fn object_sizes_cover_key_and_value() {
    let image = stats("image", 200_000);
    assert!(image.object_bytes.min >= 32_768 && image.object_bytes.max <= 131_072);
    within(image.object_bytes.mean, 61_500.0, 0.02);
    let document = stats("document", 200_000);
    within(document.object_bytes.mean, 1024.0, 0.03);
    let cdn = stats("cdn", 200_000);
    within(cdn.object_bytes.p50.into(), 13_343.0, 0.05);
    within(cdn.object_bytes.p90.into(), 77_631.0, 0.05);
    for found in [&image, &document, &cdn] {
        assert_eq!((found.key_bytes.min, found.key_bytes.max), (16, 16));
        assert_eq!(found.gets, found.requests);
    }
}

#[test]
fn uniform_is_uniform() {
    let stats = stats("uniform", 200_000);
    // Of 20,000 keys at 10 requests each, one in 22,000 is never requested.
    within(stats.unique_keys as f64, 20_000.0, 0.001);
    assert_eq!((stats.object_bytes.min, stats.object_bytes.max), (1024, 1024));
    assert_eq!(stats.one_hit_ratio.max(0.002), 0.002);
}
