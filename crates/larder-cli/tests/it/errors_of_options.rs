//! Invalid options: the message names the option, its value, and what is allowed. All end with status 2.

use crate::place::{Place, trace_of_gets};

const OUTPUTS: &str = "--json result.json";

#[track_caller]
fn refused(options: &str, parts: &[&str]) {
    Place::new().refuse(&format!("replay --requests 1000 {options} {OUTPUTS}"), 2, parts);
}

#[test]
fn shares_beyond_their_range() {
    refused("--soc 120", &["'120'", "--soc", "must be 0 to 100"]);
    refused("--soc -1", &["'-1'", "--soc", "must be 0 to 100"]);
    refused("--soc=-1", &["'-1'", "--soc", "must be 0 to 100"]);
    refused("--soc half", &["'half'", "--soc", "not a number"]);
    refused("--utilization nan", &["'nan'", "--utilization", "must be 0 to 100"]);
    refused("--op -1", &["'-1'", "--op", "must be 0 to 1000"]);
    refused("--warmup 100", &["--warmup 100", "must be 0 to 99"]);
}

#[test]
fn sizes_that_are_none() {
    let way_out = "a number of bytes, one with K, M, G or T (powers of 1024), such as 64M";
    refused("--dram -5", &["'-5'", "--dram", way_out]);
    refused("--dram=-5", &["'-5'", "--dram", way_out]);
    refused("--dram 99999999999T", &["'99999999999T'", "--dram", "too large", way_out]);
    refused("--dram 64X", &["'64X'", "--dram", way_out]);
    refused("--soc-max-object 5000", &["5000", "1 to 4050"]);
}

#[test]
fn drives_that_could_not_work() {
    refused("--flash 1M", &["--flash", "reclaim units are too few", "use more over-provisioning"]);
    refused("--flash 100000", &["--flash 100000", "must be a multiple of 4096 bytes"]);
    refused("--flash 8M --ru 5", &["--ru", "5 bytes", "multiple of the 4096-byte page"]);
}

#[test]
fn unknown_names_are_refused() {
    refused("--workload nope", &["workload", "nope", "meta-kv, ", "uniform"]);
    refused("--workload nope --flash 8M --device file:drive --placement off", &["nope", "uniform"]);
    refused("--admission nope", &["'nope'", "--admission", "all, reject-first, random:P"]);
    refused("--admission freq:0", &["'freq:0'", "--admission", "asks = 0", "1 to 15"]);
    refused("--admission budget:5K", &["'budget:5K'", "bytes_per_day = 5120", "at least 1048576"]);
    refused("--admission budget:some", &["'budget:some'", "--admission", "budget:50G"]);
    refused("--admission random:2", &["'random:2'", "--admission", "from 0 to 1"]);
    refused("--dram-policy nope", &["'nope'", "--dram-policy", "s3-fifo or lru"]);
    refused("--loc-eviction nope", &["'nope'", "--loc-eviction", "fifo, lru or segmented-fifo"]);
    refused("--soc-eviction lru", &["'lru'", "--soc-eviction", "fifo or rrip"]);
    refused("--format nope", &["'nope'", "--format", "csv, twitter", "keys-u32"]);
    refused("--device nope", &["'nope'", "--device", "use model or file:PATH"]);
    refused("--device file:", &["'file:'", "--device", "needs a path"]);
    refused("--device block:", &["'block:'", "names no path", "block:/dev/nvme0n1"]);
    refused("--placement-mode required", &["--placement-mode", "real device", "--device block:"]);
    let both = "--flash 8M --device nvme:/dev/absent --placement both";
    refused(both, &["--placement both", "one run at a time"]);
}

#[test]
fn counts_that_are_none() {
    refused("--repeat 0", &["--repeat", "at least 1"]);
    refused("--seed x", &["'x'", "--seed"]);
    refused("--reinsertion 8", &["'8'", "--reinsertion", "8 hits: must be 0 to 7"]);
    refused("--reinsertion percent:101", &["--reinsertion", "101 percent: must be 1 to 100"]);
    refused("--reinsertion often", &["'often'", "--reinsertion", "hits:N (1 to 7), reuse-time"]);
    refused("--loc-eviction segmented-fifo", &["segmented-fifo", "set loc.reinsertion too"]);
    refused("--ttl-classes 60,30", &["ttl_classes = [60, 30]", "ascending order"]);
    Place::new().refuse("replay --requests 0", 2, &["--requests", "at least 1"]);
    Place::new().refuse("replay --requests -3", 2, &["--requests", "-3"]);
}

#[test]
fn placement_on_a_file() {
    for placement in ["on", "both"] {
        let options = format!("--flash 8M --placement {placement} --device file:drive");
        let parts = ["--device file", "no placement handles", "--placement off"];
        refused(&options, &parts);
    }
}

#[test]
fn shards_that_cannot_be() {
    refused("--shards 0", &["--shards 0", "must be 1 to 128"]);
    refused("--shards 129", &["--shards 129", "must be 1 to 128"]);
    refused("--shards -2", &["'-2'", "--shards"]);
    refused("--shards 2 --flash 0", &["--shards 2", "--flash 0 leaves nothing"]);
    refused("--shards 2 --device file:drive", &["--shards 2", "leave --device and --vssd out"]);
    refused("--shards 2 --vssd die", &["--shards 2", "leave --device and --vssd out"]);
    refused("--shards 64 --flash 8M", &["--flash", "reclaim units are too few"]);
}

#[test]
fn a_trace_and_a_workload_together_are_refused() {
    let place = Place::new();
    place.write("trace.csv", trace_of_gets(10));
    let ran = place.run("replay trace.csv --workload meta-kv");
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("--workload"), "{ran:?}");
}
