//! `larder workload`: the list of built-in workloads, and what is in a trace.

use crate::place::{Place, trace_of_gets};

const TRACE: &str = "time,object,size,op,ttl\n\
                     0,1,100,get,0\n\
                     1,2,300,set,60\n\
                     4,1,100,get,0\n\
                     5,2,300,delete,0\n\
                     9,3,5000,set,3600\n";

/// The value in the line of the table that begins with this name.
#[track_caller]
fn value<'a>(table: &'a str, name: &str) -> &'a str {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in:\n{table}")).trim()
}

#[test]
fn statistics_as_a_table() {
    let place = Place::new();
    place.write("trace.csv", TRACE);
    let table = place.succeed("workload stats trace.csv --lru 400,1M").stdout;
    for (name, expected) in [
        ("requests", "5"),
        ("GET", "2 (40.0 %)"),
        ("SET", "2 (40.0 %)"),
        ("DELETE", "1 (20.0 %)"),
        ("distinct keys", "3"),
        ("requests per key", "1.67"),
        ("keys requested once", "33.3 %"),
        ("footprint", "5,400 bytes"),
        ("requested", "5,800 bytes"),
        ("time span", "9 s"),
    ] {
        assert_eq!(value(&table, &format!("{name} ")), expected, "{name}");
    }
    let lru = value(&table, "1,048,576 ");
    let lru: Vec<&str> = lru.split_whitespace().collect();
    assert_eq!(lru[1..], ["0.6000", "0.5000", "0.9310"]);
}

#[test]
fn statistics_as_json() {
    let place = Place::new();
    place.write("trace.csv", TRACE);
    let stats = place.json("workload stats trace.csv --lru 400,1M");
    assert_eq!((&stats["footprint_bytes"], &stats["span_s"]), (&5400.into(), &9.into()));
    let sizes = &stats["object_bytes"];
    assert_eq!(
        (&sizes["min"], &sizes["p50"], &sizes["max"]),
        (&100.into(), &300.into(), &5000.into())
    );
    assert_eq!(stats["ttl_s"]["mean"], 1830.0);
    assert_eq!(stats["lru"].as_array().unwrap().len(), 2);
    assert_eq!(stats["lru"][1]["miss_ratio"], 0.6);
}

#[test]
fn the_first_requests_of_a_trace() {
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(5000));
    let stats = place.json("workload stats trace.csv --requests 100");
    assert_eq!((&stats["requests"], &stats["span_s"]), (&100.into(), &0.into()));
}

#[test]
fn each_workload_of_the_list_can_be_asked_for() {
    let place = Place::new();
    let list = place.succeed("workload list").stdout;
    let names: Vec<&str> = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert!(names.contains(&"meta-kv") && names.len() > 5, "{list}");
    for name in names {
        let stats = place.json(&format!("workload stats {name} --requests 2000 --seed 5"));
        assert_eq!(stats["requests"], 2000, "{name}");
        let outcome = place.json(&format!("replay --workload {name} --requests 2000 --flash 16M"));
        assert_eq!(outcome["runs"][0]["requests"], 2000, "{name}");
    }
}
