//! The laws of the generators over a number of records, and of the generator of prompts.

use std::collections::HashMap;

use larder_workload::generate::{GeneratorOptions, find, preset};
use larder_workload::{Error, Op, Request};

use crate::trace_support::drain;

fn requests(text: &str, requests: usize) -> Vec<Request> {
    let options = GeneratorOptions { requests: requests as u64, span_requests: None, seed: 1 };
    drain(&mut *preset(text, options).unwrap(), requests + 1).unwrap()
}

#[track_caller]
fn within(found: f64, expected: f64, by: f64) {
    assert!((found - expected).abs() <= by, "{found}, expected {expected}");
}

fn share(requests: &[Request], of: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|request| of(request)).count() as f64 / requests.len() as f64
}

/// How often each key is requested, as shares of the requests, the most popular first.
fn popularity(requests: &[Request]) -> Vec<f64> {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for request in requests {
        *counts.entry(request.key).or_default() += 1;
    }
    let shares = counts.values().map(|&count| f64::from(count) / requests.len() as f64);
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    shares
}

fn zeta(records: u32) -> f64 {
    (1..=records).map(|rank| f64::from(rank).powf(-0.99)).sum()
}

#[test]
fn ycsb_mixes_reads_and_writes_as_its_workloads_say() {
    for (name, sets) in [("ycsb-a", 0.5), ("ycsb-b", 0.05), ("ycsb-c", 0.0), ("ycsb-d", 0.05)] {
        let all = requests(&format!("{name}:records=1000"), 50_000);
        within(share(&all, |it| it.op == Op::Set), sets, 0.008);
        assert!(all.iter().all(|it| it.value_bytes == 1000 && it.ttl_s == 0), "{name}");
    }
    // Of 100 reads, 50 are followed by a write of the same record.
    let all = requests("ycsb-f:records=1000", 50_000);
    within(share(&all, |it| it.op == Op::Set), 1.0 / 3.0, 0.008);
    let mut pairs = all.windows(2).filter(|pair| pair[1].op == Op::Set);
    assert!(pairs.all(|pair| pair[0].op == Op::Get && pair[0].key == pair[1].key));
}

#[test]
fn ycsb_scatters_ten_billion_ranks() {
    let popular = popularity(&requests("ycsb-c:records=1000000", 200_000));
    // ScrambledZipfianGenerator.ZETAN.
    within(popular[0], 1.0 / 26.469_028, 0.002);
    within(popular[1], 0.5_f64.powf(0.99) / 26.469_028, 0.002);
}

#[test]
fn zipf_and_latest_are_over_the_records() {
    let popular = popularity(&requests("zipf:records=1000,sets=0", 100_000));
    assert_eq!(popular.len(), 1000);
    within(popular[0], 1.0 / zeta(1000), 0.004);
    let mut newest = None;
    let (mut gets, mut of_newest) = (0_u32, 0_u32);
    for request in requests("ycsb-d:records=1000", 20_000) {
        match (request.op, newest) {
            (Op::Set, _) => newest = Some(request.key),
            (_, Some(key)) => {
                gets += 1;
                of_newest += u32::from(request.key == key);
            }
            (_, None) => {}
        }
    }
    // There are 1,000 records at the start and 2,000 at the end.
    within(f64::from(of_newest) / f64::from(gets), 1.0 / zeta(1500), 0.012);
}

#[test]
fn hotspot_asks_a_fifth_of_the_records_four_times_out_of_five() {
    let all = requests("hotspot:records=1000,bytes=77", 100_000);
    let popular = popularity(&all);
    within(popular[..200].iter().sum(), 0.8, 0.005);
    assert!(popular[199] > 3.0 * popular[200] / 2.0, "{} {}", popular[199], popular[200]);
    within(share(&all, |it| it.op == Op::Set), 0.5, 0.008);
    assert!(all.iter().all(|it| it.value_bytes == 77));
    assert_eq!(all.last().unwrap().time_s, 9);
    let slow = requests("hotspot:records=1000,rate=10,sets=100", 1000);
    assert_eq!((slow.last().unwrap().time_s, share(&slow, |it| it.op == Op::Set)), (99, 1.0));
}

#[test]
fn twitter_ttls_reach_from_a_minute_to_a_month() {
    let all = requests("twitter-ttl:records=100000", 200_000);
    let of_keys: HashMap<u64, u32> = all.iter().map(|it| (it.key, it.ttl_s)).collect();
    let upto = |ttl_s: u32| {
        of_keys.values().filter(|&&ttl| ttl <= ttl_s).count() as f64 / of_keys.len() as f64
    };
    for (ttl_s, expected) in [(60, 0.16), (3600, 0.38), (86_400, 0.74), (604_800, 0.88)] {
        within(upto(ttl_s), expected, 0.01);
    }
    assert_eq!(upto(2_592_000), 1.0);
}

#[test]
fn prompts_are_as_long_and_share_as_much_as_published() {
    let all = requests("llm-kv:records=100", 300_000);
    // There are 15 new blocks in a turn, and 30 in a prompt; the few prefixes that matter most are longer or shorter.
    within(share(&all, |it| it.op == Op::Set), 0.5, 0.03);
    let mut seen = HashMap::new();
    let again = all.iter().filter(|it| seen.insert(it.key, it.value_bytes).is_some()).count();
    within(again as f64 / all.len() as f64, 0.5, 0.04);
    for size in seen.values() {
        assert!(size.is_power_of_two() && (1 << 20..=32 << 20).contains(size), "{size}");
    }
    // The blocks of a chat expire after an hour; the blocks of a prefix never do, and are only requested with GETs.
    assert!(all.iter().all(|it| it.ttl_s == 3600 || (it.ttl_s == 0 && it.op == Op::Get)));
    let small = requests("llm-kv:bytes=320,records=10", 10_000);
    assert!(small.iter().all(|it| (10..=320).contains(&it.value_bytes)));
}

#[test]
fn parameters_are_for_those_that_were_not_fitted() {
    let options = GeneratorOptions { requests: 10, span_requests: None, seed: 1 };
    for (text, says) in [
        ("meta-kv:records=10", "meta-kv has no parameters"),
        ("llm-kv:rate=10", "records and bytes alone"),
        ("hotspot:zeal=10", "no parameter \"zeal\""),
        ("hotspots:records=10", "unknown workload \"hotspots:"),
    ] {
        let Err(Error::Usage(message)) = preset(text, options) else { panic!("{text}") };
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(find("hotspot:records=10").unwrap().name, "hotspot");
    assert!(find("hotspots").is_none());
}
