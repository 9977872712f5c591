//! `docs/replay-json.md` names each key of the output, with its type, and no other.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::documented::{self, Tables, check, document};
use crate::place::{Place, trace_of_gets};

fn page() -> String {
    document("replay-json.md")
}

fn tables(page: &str) -> Tables {
    documented::tables(page, "### ")
}

fn check_replay(tables: &Tables, outcome: &Value) {
    check(tables, "Result", outcome);
    check(tables, "Parameters", &outcome["parameters"]);
    let parameters = outcome["parameters"].as_object().unwrap();
    assert!(parameters.contains_key("workload") != parameters.contains_key("trace"));
    for run in outcome["runs"].as_array().unwrap() {
        check(tables, "Run", run);
        if !run["soc_log"].is_null() {
            check(tables, "Log", &run["soc_log"]);
        }
        if !run["array"].is_null() {
            check(tables, "Array", &run["array"]);
        }
        for shard in run["shards"].as_array().unwrap() {
            check(tables, "Shard", shard);
        }
        for stream in run["streams"].as_array().unwrap() {
            check(tables, "Stream", stream);
        }
        for interval in run["intervals"].as_array().unwrap() {
            check(tables, "Interval", interval);
        }
    }
}

fn check_statistics(tables: &Tables, stats: &Value) {
    check(tables, "Statistics", stats);
    for key in ["object_bytes", "key_bytes", "value_bytes", "ttl_s"] {
        check(tables, "Percentiles", &stats[key]);
    }
    for cache in stats["lru"].as_array().unwrap() {
        check(tables, "LRU cache", cache);
    }
}

#[test]
fn all_headings_are_checked() {
    let headings: BTreeSet<String> = tables(&page()).into_keys().collect();
    let checked = [
        "Result",
        "Parameters",
        "Run",
        "Drive",
        "Log",
        "Array",
        "Shard",
        "Stream",
        "Interval",
        "Statistics",
        "Percentiles",
        "LRU cache",
    ];
    assert_eq!(headings, checked.map(str::to_owned).into());
}

#[test]
fn each_key_of_a_replay_is_named() {
    let tables = tables(&page());
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(5000));
    for arguments in [
        "replay --requests 60000 --flash 8M --dram 256K",
        "replay trace.csv --flash 8M --dram 64K --format csv --ru 64K --admission random:0.5",
        "replay --requests 60000 --flash 8M --dram 256K --soc-log 5",
        "replay trace.csv --flash 8M --dram 64K --admission freq:2",
        "replay --requests 60000 --flash 64M --dram 256K --soc 4 --array 96",
        "replay --requests 20000 --flash 32M --dram 256K --shards 2",
        "replay trace.csv --flash 0",
        "replay trace.csv --flash 8M --dram 64K --device file:drive --requests 2000",
        "replay trace.csv --flash 8M --requests 1 --warmup 0",
    ] {
        check_replay(&tables, &place.json(arguments));
    }
}

#[test]
fn each_key_of_the_statistics_is_named() {
    let tables = tables(&page());
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(5000));
    check_statistics(&tables, &place.json("workload stats trace.csv --lru 10K,20K"));
    check_statistics(&tables, &place.json("workload stats meta-kv --requests 5000"));
}

/// The examples were printed by the command, and still have all keys.
#[test]
fn the_examples_are_whole() {
    let page = page();
    let tables = tables(&page);
    let mut examples = page.split("```json\n").skip(1).map(|rest| {
        let (example, _) = rest.split_once("```").unwrap();
        serde_json::from_str::<Value>(example).unwrap()
    });
    check_replay(&tables, &examples.next().unwrap());
    check_statistics(&tables, &examples.next().unwrap());
    assert!(examples.next().is_none());
}

/// The options of the command equal the parameters of its result.
#[test]
fn parameters_are_the_options() {
    let help = Place::new().succeed("replay --help").stdout;
    // The parameter `device` covers a virtual SSD and its image.
    let untold = ["json", "report", "seed", "help", "show_handles", "vssd", "image"];
    let options: BTreeSet<String> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .map(|option| option.split([' ', ',']).next().unwrap().replace('-', "_"))
        .filter(|name| !untold.contains(&name.as_str()))
        .collect();
    let tables = tables(&page());
    let named = tables["Parameters"].keys().filter(|key| *key != "trace").cloned();
    assert_eq!(options, named.collect());
}
