//! Hits and misses of traces that are small enough to count by hand, and of a real one.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::{Place, trace_of_gets};

/// Simulates a cache without limits, for a trace with operations and lifetimes.
#[derive(Default)]
struct Unlimited {
    /// When each value expires.
    values: HashMap<u32, u32>,
    gets: u64,
    hits: u64,
}

impl Unlimited {
    fn request(&mut self, time_s: u32, key: u32, size: u32, op: &str, ttl_s: u32) {
        let until = if ttl_s == 0 { u32::MAX } else { time_s + ttl_s };
        match op {
            "get" => {
                self.gets += 1;
                if self.values.get(&key).is_some_and(|until| time_s < *until) {
                    self.hits += 1;
                } else if size > 0 {
                    self.values.insert(key, until);
                } else {
                    self.values.remove(&key);
                }
            }
            "set" => _ = self.values.insert(key, until),
            _ => _ = self.values.remove(&key),
        }
    }
}

/// GETs, SETs and DELETEs, some with lifetimes that end within the trace, some of unknown size. Times are multiples of
/// 10 and lifetimes are not, so no lifetime ends at a request.
fn mixed_trace(requests: u32) -> (String, Unlimited) {
    let mut text = String::from("time,object,size,op,ttl\n");
    let mut unlimited = Unlimited::default();
    let mut state = 7_u32;
    for number in 0..requests {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (state >> 20) % 300;
        let op = match (state >> 8) % 10 {
            0..=6 => "get",
            7 | 8 => "set",
            _ => "delete",
        };
        let size = if op == "get" && state.is_multiple_of(5) { 0 } else { 20 + key * 7 };
        let ttl_s = [0, 0, 15, 95, 1005][(key % 5) as usize];
        let time_s = number / 200 * 10;
        unlimited.request(time_s, key, size, op, ttl_s);
        writeln!(text, "{time_s},{key},{size},{op},{ttl_s}").unwrap();
    }
    (text, unlimited)
}

#[track_caller]
fn check(outcome: &Value, requests: u64, gets: u64, hits: u64) {
    for run in outcome["runs"].as_array().unwrap() {
        let found = ["requests", "gets", "hits"].map(|key| run[key].as_u64().unwrap());
        assert_eq!(found, [requests, gets, hits]);
    }
}

/// Misses of a trace of GETs if nothing is ever evicted: the first request of each key.
fn distinct_keys(text: &str) -> u64 {
    let keys: HashSet<&str> =
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    keys.len() as u64
}

#[test]
fn gets_alone_in_dram() {
    let place = Place::new();
    let text = trace_of_gets(20_000);
    place.write("trace.csv", &text);
    let outcome = place.json("replay trace.csv --dram 64M --flash 0 --placement off");
    check(&outcome, 20_000, 20_000, 20_000 - distinct_keys(&text));
    assert_eq!(outcome["runs"][0]["dram_hit_ratio"], outcome["runs"][0]["hit_ratio"]);
}

/// With DRAM for a tenth of the objects, and flash for all of them, nothing is lost.
#[test]
fn gets_alone_on_flash() {
    let place = Place::new();
    let text = trace_of_gets(20_000);
    place.write("trace.csv", &text);
    let outcome = place.json("replay trace.csv --dram 64K --flash 16M --soc 50");
    check(&outcome, 20_000, 20_000, 20_000 - distinct_keys(&text));
    assert!(outcome["runs"][0]["flash_hit_ratio"].as_f64().unwrap() > 0.5);
}

#[test]
fn all_operations_and_lifetimes() {
    let place = Place::new();
    let (text, unlimited) = mixed_trace(20_000);
    place.write("trace.csv", text);
    for tiers in ["--dram 64M --flash 0", "--dram 64K --flash 16M --soc 50"] {
        for policy in ["s3-fifo", "lru"] {
            let outcome = place.json(&format!("replay trace.csv {tiers} --dram-policy {policy}"));
            check(&outcome, 20_000, unlimited.gets, unlimited.hits);
        }
    }
}

/// Two passes: the second misses nothing. `--requests` limits each pass.
#[test]
fn passes_and_their_length() {
    let place = Place::new();
    let text = trace_of_gets(20_000);
    place.write("trace.csv", &text);
    let options = "--dram 64M --flash 0 --placement off --repeat 2";
    let outcome = place.json(&format!("replay trace.csv {options}"));
    check(&outcome, 40_000, 40_000, 40_000 - distinct_keys(&text));
    let outcome = place.json(&format!("replay trace.csv {options} --requests 100"));
    let first: String = text.lines().take(101).map(|line| format!("{line}\n")).collect();
    check(&outcome, 200, 200, 200 - distinct_keys(&first));
}

#[test]
fn a_compressed_trace_counts_the_same() {
    let place = Place::new();
    let text = trace_of_gets(20_000);
    place.write("trace.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    let outcome = place.json("replay trace.csv.zst --dram 64M --flash 0");
    check(&outcome, 20_000, 20_000, 20_000 - distinct_keys(&text));
}

/// A file of the shared data; if it does not exist, prints a line and returns `None`. The folder is `LARDER_DATA`, or
/// `../shared/data` next to the workspace.
fn data(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("LARDER_DATA").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

fn replay_in_dram(path: &Path) -> Value {
    let path = path.to_str().unwrap();
    assert!(!path.contains(char::is_whitespace), "arguments are separated by blanks: {path}");
    Place::new().json(&format!("replay {path} --dram 1G --placement off"))
}

#[test]
fn the_start_of_a_trace_of_twitter() {
    let Some(path) = data("kv/twitter_c52_first100k.csv.zst") else { return };
    let text = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let first = text.lines().next().unwrap();
    let headers = usize::from(first.starts_with(char::is_alphabetic));
    let mut keys = HashSet::new();
    let (mut requests, mut misses) = (0, 0);
    for line in text.lines().skip(headers) {
        requests += 1;
        misses += u64::from(keys.insert(line.split(',').nth(1).unwrap()));
    }
    check(&replay_in_dram(&path), requests, requests, requests - misses);
}

#[test]
#[ignore = "replays four million requests: `cargo xtask all`"]
fn four_million_requests_of_twitter() {
    let Some(path) = data("kv/twitter_c52_req0-4M.csv.zst") else { return };
    check(&replay_in_dram(&path), 4_000_000, 4_000_000, 4_000_000 - 431_119);
}
