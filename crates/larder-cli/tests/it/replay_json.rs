//! The numbers of a replay add up, and the same command gives the same numbers.
//!
//! Where the last digit counts, numbers are compared as text: `serde_json` parses some of them one digit off.

use serde_json::Value;

use crate::place::Place;

/// A full drive that is written several times over, so that garbage is collected.
const FULL_DRIVE: &str = "replay --requests 300000 --flash 8M --dram 256K --soc 50 --op 17";

fn integer(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {}", value[key]))
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {}", value[key]))
}

#[expect(clippy::cast_precision_loss, reason = "as the command does")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Checks that two numbers are equal but for rounding.
#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
}

fn runs(outcome: &Value) -> &[Value] {
    outcome["runs"].as_array().unwrap()
}

/// The sum of a key over the intervals in the warm-up, or after it.
fn sum(run: &Value, warmup: bool, key: &str) -> u64 {
    let intervals = run["intervals"].as_array().unwrap();
    let of_part = intervals.iter().filter(|interval| interval["warmup"] == warmup);
    of_part.map(|interval| integer(interval, key)).sum()
}

#[test]
fn numbers_of_a_run_add_up() {
    for isolation in ["initially", "persistently"] {
        let outcome = Place::new().json(&format!("{FULL_DRIVE} --isolation {isolation}"));
        assert_eq!(runs(&outcome).len(), 2);
        runs(&outcome).iter().for_each(check_run);
    }
    let outcome = Place::new().json(&format!("{FULL_DRIVE} --warmup 0"));
    runs(&outcome).iter().for_each(check_run);
}

fn check_run(run: &Value) {
    let host_bytes = integer(run, "host_bytes");
    let media_bytes = integer(run, "media_bytes");
    assert!(host_bytes > 8 << 20 && integer(run, "erased_bytes") > 0, "{run}");
    assert_eq!(media_bytes, host_bytes + integer(run, "copied_bytes"));
    close(number(run, "dlwa"), ratio(media_bytes, host_bytes));
    let streams = ["soc_bytes", "loc_bytes", "array_bytes", "metadata_bytes"];
    assert_eq!(streams.map(|key| integer(run, key)).iter().sum::<u64>(), host_bytes);
    close(number(run, "hit_ratio"), ratio(integer(run, "hits"), integer(run, "gets")));
    let (dram, flash) = (number(run, "dram_hit_ratio"), number(run, "flash_hit_ratio"));
    close(dram + (1.0 - dram) * flash, number(run, "hit_ratio"));
    for key in [["host_bytes"].as_slice(), &streams].concat() {
        assert_eq!(sum(run, false, key), integer(run, key), "{key}");
    }
    check_intervals(run);
}

fn check_intervals(run: &Value) {
    let intervals = run["intervals"].as_array().unwrap();
    assert!((2..=256).contains(&intervals.len()));
    let step = integer(&intervals[0], "requests");
    let (last, others) = intervals.split_last().unwrap();
    for (interval, number) in others.iter().zip(1..) {
        assert_eq!(integer(interval, "requests"), number * step);
    }
    assert_eq!(integer(last, "requests"), integer(run, "requests"));
    let warmup_requests = integer(run, "warmup_requests");
    let mut media_bytes = 0.0;
    for interval in intervals {
        assert_eq!(interval["warmup"], integer(interval, "requests") <= warmup_requests);
        let streams = ["soc_bytes", "loc_bytes", "array_bytes", "metadata_bytes"];
        let host_bytes = integer(interval, "host_bytes");
        assert_eq!(streams.map(|key| integer(interval, key)).iter().sum::<u64>(), host_bytes);
        if interval["warmup"] == false && host_bytes > 0 {
            media_bytes += number(interval, "dlwa") * ratio(host_bytes, 1);
        }
    }
    assert!((media_bytes - ratio(integer(run, "media_bytes"), 1)).abs() < 1.0);
}

/// A value of each run as text. Keys of runs are indented by six blanks.
fn printed<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let start = format!("      \"{key}\": ");
    let values = text.lines().filter_map(|line| line.strip_prefix(start.as_str()));
    values.map(|value| value.trim_end_matches(',')).collect()
}

#[test]
fn ratios_are_exact_to_the_last_digit() {
    let text = Place::new().succeed(&format!("{FULL_DRIVE} --json -")).stdout;
    for (key, part, whole) in [("dlwa", "media_bytes", "host_bytes"), ("hit_ratio", "hits", "gets")]
    {
        let [part, whole] = [part, whole].map(|key| printed(&text, key));
        let found = printed(&text, key);
        assert_eq!(found.len(), 2, "{key}");
        for ((found, part), whole) in found.iter().zip(part).zip(whole) {
            let expected = ratio(part.parse().unwrap(), whole.parse().unwrap());
            assert_eq!(found.parse(), Ok(expected), "{key}");
        }
    }
    for key in ["hit_ratio", "dram_hit_ratio", "flash_hit_ratio", "alwa", "host_bytes"] {
        let [on, off] = printed(&text, key)[..] else { panic!("{key} of two runs") };
        assert_eq!(on, off, "{key} differs between on and off");
    }
}

/// The drive was written before the measurement by the warm-up, and by a label, which is written twice.
#[test]
fn everything_written_is_accounted_for() {
    let outcome = Place::new().json(FULL_DRIVE);
    for run in runs(&outcome) {
        let before = sum(run, true, "host_bytes") + 2 * 4096;
        close(number(run, "drive_writes_before"), ratio(before, 8 << 20));
    }
}

#[test]
fn placement_changes_the_drive_and_nothing_else() {
    let outcome = Place::new().json(FULL_DRIVE);
    let [on, off] = runs(&outcome) else { panic!("two runs") };
    assert_eq!((&on["placement"], &off["placement"]), (&"on".into(), &"off".into()));
    assert_eq!((&on["placement_active"], &off["placement_active"]), (&true.into(), &false.into()));
    let of_the_drive = [
        "placement",
        "placement_active",
        "streams",
        "host_bytes_by_handle",
        "dlwa",
        "media_bytes",
        "erased_bytes",
        "copied_bytes",
        "requests_per_second",
    ];
    for (key, value) in on.as_object().unwrap() {
        if key != "intervals" && !of_the_drive.contains(&key.as_str()) {
            assert_eq!(value, &off[key], "{key}");
        }
    }
    let (with, without) = (number(on, "dlwa"), number(off, "dlwa"));
    assert!(1.0 <= with && with < without, "DLWA {with} with placement, {without} without");
}

/// The JSON without the one value that does not depend on the parameters alone.
fn reproducible(arguments: &str) -> String {
    let text = Place::new().succeed(&format!("{arguments} --json -")).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let kept: Vec<&str> =
        lines.iter().copied().filter(|line| !line.contains("\"requests_per_second\"")).collect();
    assert_eq!(kept.len() + 2, lines.len(), "one rate for each of two runs");
    kept.join("\n")
}

const REASONS: [(&str, &str); 4] = [
    ("random:0.5", "rejected_at_random_objects"),
    ("reject-first", "rejected_on_first_visit_objects"),
    ("freq:2", "rejected_as_infrequent_objects"),
    ("budget:2G", "rejected_by_budget_objects"),
];

/// What an admission policy rejects is counted under its own name.
#[test]
fn rejections_add_up() {
    for (policy, reason) in REASONS {
        let options = "--requests 200000 --flash 8M --dram 256K";
        let outcome = Place::new().json(&format!("replay {options} --admission {policy}"));
        assert_eq!(outcome["parameters"]["admission"], policy);
        for run in runs(&outcome) {
            let rejected = integer(run, "rejected_objects");
            assert!(rejected > 0 && integer(run, "admitted_objects") > 0, "{policy}: {run}");
            let exhausted = integer(run, "rejected_for_exhausted_budget_objects");
            assert_eq!(integer(run, reason) + exhausted, rejected, "{policy}");
            assert!(exhausted == 0 || policy.starts_with("budget"), "{policy}");
        }
    }
}

#[test]
fn the_seed_decides() {
    let options = "--requests 50000 --flash 8M --dram 256K --admission";
    for (workload, policy) in [("meta-kv", "random:0.5"), ("document", "budget:2G")] {
        let arguments = format!("replay --workload {workload} {options} {policy}");
        let first = reproducible(&format!("{arguments} --seed 1"));
        assert_eq!(first, reproducible(&format!("{arguments} --seed 1")));
        let second = reproducible(&format!("{arguments} --seed 2"));
        let without_seed = |text: &str| text.replace("\"seed\": 2", "\"seed\": 1");
        assert_ne!(first, without_seed(&second), "seeds 1 and 2 give the same numbers");
    }
}

#[test]
fn one_run_is_that_run_of_both() {
    let options = "replay --requests 100000 --flash 8M --dram 256K";
    let both = Place::new().json(options);
    for (number, placement) in ["on", "off"].iter().enumerate() {
        let mut alone = Place::new().json(&format!("{options} --placement {placement}"));
        assert_eq!(runs(&alone).len(), 1);
        alone["runs"][0]["requests_per_second"] =
            both["runs"][number]["requests_per_second"].clone();
        assert_eq!(alone["runs"][0], both["runs"][number]);
    }
}

#[test]
fn a_cache_without_flash_writes_nothing() {
    let outcome = Place::new().json("replay --requests 50000 --flash 0 --dram 256K");
    for run in runs(&outcome) {
        assert!(number(run, "hit_ratio") > 0.0);
        assert_eq!(run["hit_ratio"], run["dram_hit_ratio"]);
        assert_eq!((integer(run, "host_bytes"), number(run, "flash_hit_ratio")), (0, 0.0));
        for key in ["dlwa", "alwa", "media_bytes", "erased_bytes", "copied_bytes"] {
            assert!(run[key].is_null(), "{key}: {}", run[key]);
        }
    }
}
