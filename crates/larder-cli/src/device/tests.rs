//! Tests all of `larder device` on the model's controller, with a sysfs in a folder.

use std::time::Duration;

use larder_device::nvme::Commands;
use larder_device::nvme::access::Permissions;
use larder_ssd::nvme::Command;
use serde_json::Value;

use larder_json_page::{Table, check as check_page};

use super::machine::Machine;
use super::{UnavailableFact, Way, events, info, list, prepare, stats, trim};
use bench::{Bench, DRIVE_BYTES};
use documented::{Tables, check, document, tables};

mod bench;
#[path = "../../tests/it/documented.rs"]
mod documented;

/// Checks `object`, and the objects and arrays of objects that `within` names in it.
fn check_all(tables: &Tables, heading: &str, object: &Value, within: &[(&str, &str)]) {
    check(tables, heading, object);
    for (key, heading) in within {
        let found = &object[*key];
        let all = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
        all.iter().filter(|it| !it.is_null()).for_each(|it| check(tables, heading, it));
    }
}

fn page() -> Tables {
    tables(&document("device-json.md"), "## ")
}

#[test]
fn the_page_has_the_types() {
    let tables = [
        ("## List", Table::of::<list::List>()),
        ("## Namespace", Table::of::<list::NamespaceLine>()),
        ("## Info", Table::of::<info::Info>()),
        ("## Configuration", Table::of::<info::ConfigurationFacts>()),
        ("## Handle", Table::of::<info::Handle>()),
        ("## Way", Table::of::<Way>()),
        ("## Permission", Table::of::<info::Permission>()),
        ("## Command", Table::of::<info::CommandFacts>()),
        ("## Stats", Table::of::<stats::Stats>()),
        ("## Watch", Table::of::<stats::WatchReport>()),
        ("## Interval", Table::of::<stats::IntervalFacts>()),
        ("## Events", Table::of::<events::Events>()),
        ("## Count", Table::of::<events::Count>()),
        ("## Range", Table::of::<events::RangeFacts>()),
        ("## Event", Table::of::<events::EventFacts>()),
        ("## Prepare", Table::of::<prepare::PrepareReport>()),
        ("## Step", Table::of::<prepare::StepFacts>()),
        ("## Destroyed", Table::of::<prepare::DoomedNamespace>()),
        ("## Trim", Table::of::<trim::TrimReport>()),
        ("## Unavailable", Table::of::<UnavailableFact>()),
    ];
    check_page("device-json.md", "-p larder-cli --bins the_page_has_the_types", &tables);
}

const MISSING: (&str, &str) = ("unavailable", "Unavailable");

fn check_info(info: &Value) {
    let within = [
        ("configuration", "Configuration"),
        ("handles", "Handle"),
        ("ways", "Way"),
        ("permissions", "Permission"),
        ("commands", "Command"),
        MISSING,
    ];
    check_all(&page(), "Info", info, &within);
}

#[test]
fn a_namespace_is_listed_with_its_placement() {
    let bench = Bench::new(true, &[0, 1, 2, 3]);
    let list = bench.json("list");
    check_all(&page(), "List", &list, &[("namespaces", "Namespace")]);
    let line = &list["namespaces"][0];
    assert_eq!(line["bytes"], DRIVE_BYTES);
    assert_eq!(line["fdp_enabled"], true);
    assert_eq!(line["handles"], 4);
    assert_eq!(line["placement"], "write streams");
    let off = Bench::new(false, &[]).state();
    assert_eq!((&off["fdp_supported"], &off["fdp_enabled"]), (&true.into(), &false.into()));
    let none = Bench::without_namespace(true);
    assert_eq!(none.json("list")["namespaces"], Value::Array(Vec::new()));
}

#[test]
fn without_permission_a_namespace_is_still_listed() {
    let mut bench = Bench::new(true, &[0, 1, 2, 3]);
    bench.may_open = false;
    bench.permissions = Permissions { read: false, write: false };
    let line = bench.state();
    assert_eq!((&line["denied"], &line["placement"]), (&true.into(), &Value::Null));
    assert!(line["why_not"].as_str().unwrap().contains("no permission"), "{line}");
    assert_eq!((&line["fdp_enabled"], &line["handles"]), (&true.into(), &4.into()), "from sysfs");
    let info = bench.json("info NODE");
    check_info(&info);
    assert_eq!(info["bytes"], DRIVE_BYTES);
    assert!(info["unavailable"].as_array().unwrap().len() >= 3, "{info}");
}

#[test]
fn info_says_all_that_there_is() {
    let bench = Bench::new(true, &[3, 1]);
    bench.write(5);
    let info = bench.json("info NODE");
    check_info(&info);
    assert_eq!(info["configuration"]["unit_bytes"], 256 << 10);
    assert_eq!(info["configuration"]["isolation"], "initially");
    let left: Vec<_> = info["handles"].as_array().unwrap().iter().collect();
    assert_eq!((&left[0]["handle"], &left[0]["bytes_left"]), (&3.into(), &(256 << 10).into()));
    assert_eq!((&left[1]["handle"], &left[1]["bytes_left"]), (&1.into(), &(252 << 10).into()));
    assert_eq!(info["placement"], "write streams");
    assert_eq!(info["unavailable"], Value::Array(Vec::new()));
}

#[test]
fn a_user_without_root_sees_handles_and_no_counters() {
    let mut bench = Bench::new(true, &[0, 1]);
    bench.drive.root = false;
    let info = bench.json("info NODE");
    check_info(&info);
    assert_eq!(
        (&info["fdp_enabled"], info["handles"].as_array().unwrap().len()),
        (&true.into(), 2)
    );
    assert_eq!(info["commands"][2]["allowed"], false);
    let stats = bench.json("stats NODE");
    check_all(&page(), "Stats", &stats, &[MISSING]);
    assert!(stats["media_bytes"].is_null());
    let why = stats["unavailable"][0]["why"].as_str().unwrap();
    assert_eq!(
        (stats["unavailable"][0]["what"].as_str(), why),
        (Some("host and media bytes"), "no permission")
    );
    let refusal = bench.refusal("stats NODE --watch", false);
    assert!(refusal.contains("no permission; run as root"), "{refusal}");
}

#[test]
fn stats_are_those_of_the_drive() {
    let bench = Bench::new(true, &[0, 1]);
    (0..100).for_each(|block| bench.write(block));
    let stats = bench.json("stats NODE");
    check_all(&page(), "Stats", &stats, &[MISSING]);
    assert_eq!((&stats["host_bytes"], &stats["media_bytes"]), (&409_600.into(), &409_600.into()));
    assert_eq!((&stats["dlwa"], &stats["spare_percent"]), (&1.0.into(), &100.into()));
    assert!(stats["life_years_left"].is_null() && stats["watch"].is_null());
}

#[test]
fn a_watch_sees_write_amplification_rise() {
    let bench = Bench::new(true, &[0, 1]);
    (0..DRIVE_BYTES / 4096).for_each(|block| bench.write(block));
    let stats = bench.json("stats NODE --watch --interval 10s --samples 20");
    check_all(&page(), "Stats", &stats, &[("watch", "Watch"), MISSING]);
    let watch = &stats["watch"];
    let intervals = watch["intervals"].as_array().unwrap();
    intervals.iter().for_each(|interval| check(&page(), "Interval", interval));
    assert_eq!(intervals.len(), 20);
    assert_eq!(watch["host_bytes"], 20 * 2000 * 4096);
    let dlwa = |value: &Value| value["dlwa"].as_f64().unwrap();
    assert!(dlwa(&intervals[19]) > dlwa(&intervals[0]), "{watch}");
    let sum: u64 = intervals.iter().map(|it| it["media_bytes"].as_u64().unwrap()).sum();
    assert_eq!(watch["media_bytes"], sum);
    assert!(intervals.iter().all(|interval| interval["seconds"] == 10.0));
}

#[test]
fn events_are_counted_and_moves_belong_to_ranges() {
    let bench = Bench::new(true, &[0, 1]);
    let admin = |command: &Command, data: &mut [u8]| bench.drive.admin(command, data).unwrap();
    admin(&Command::set_events(1, 1, 2, true), &mut [0x03, 0x80]);
    admin(&Command::set_events(1, 0, 1, true), &mut [0x03]);
    bench.drive.io(&Command::write(1, 0, 1, Some(99)), &mut [1; 4096]).unwrap();
    (0..DRIVE_BYTES / 4096).for_each(|block| bench.write(block));
    (0..10).for_each(|_| _ = bench.wait(Duration::ZERO));
    let events = bench.json("events NODE --range SOC=0..16M,LOC=16M..48M");
    let within = [("counts", "Count"), ("ranges", "Range"), ("host", "Event"), MISSING];
    check_all(&page(), "Events", &events, &within);
    let moves = events["controller"].as_array().unwrap();
    moves.iter().for_each(|event| check(&page(), "Event", event));
    assert_eq!(events["host"][0]["name"], "invalid placement identifier");
    assert_eq!(events["host"][0]["placement_id"], 99);
    let expected = |from: u64, to: u64| {
        let inside = |event: &&Value| (from..to).contains(&(event["lba"].as_u64().unwrap() * 4096));
        moves.iter().filter(inside).count() as u64
    };
    let found: Vec<_> = (0..3).map(|n| events["ranges"][n]["events"].as_u64().unwrap()).collect();
    let bounds = [(0, 16 << 20), (16 << 20, 48 << 20), (48 << 20, u64::MAX)];
    assert_eq!(found, bounds.map(|(from, to)| expected(from, to)));
    assert!(found[0] + found[1] > 0 && moves.len() as u64 == found.iter().sum::<u64>());
}

#[test]
fn ranges_are_within_the_device_and_apart() {
    let bench = Bench::new(true, &[0, 1]);
    let refusal = bench.refusal("events NODE --range A=0..1G", true);
    assert!(refusal.contains("--range A=0..1073741824: the device ends at 67108864"), "{refusal}");
    let refusal = bench.refusal("events NODE --range A=0..2M,B=1M..3M", true);
    assert!(refusal.contains("--range B: overlaps with A; let A end at 1048576"), "{refusal}");
}

fn check_prepared(prepared: &Value) {
    check_all(&page(), "Prepare", prepared, &[("steps", "Step"), ("destroys", "Destroyed")]);
}

#[test]
fn prepare_shows_its_steps_and_takes_them_when_it_may() {
    let bench = Bench::new(false, &[]);
    bench.drive.io(&Command::write(1, 7, 1, None), &mut [9; 4096]).unwrap();
    let shown = bench.json("prepare DRIVE");
    check_prepared(&shown);
    assert_eq!((&shown["done"], &shown["destroys"][0]["nsid"]), (&false.into(), &1.into()));
    let commands: Vec<_> = shown["steps"].as_array().unwrap().iter().collect();
    let starts = ["nvme delete-ns", "nvme set-feature", "nvme create-ns", "nvme attach-ns"];
    assert_eq!(commands.len(), starts.len());
    for (step, start) in commands.iter().zip(starts) {
        assert!(step["command"].as_str().unwrap().starts_with(start), "{step}");
    }
    let refusal = bench.refusal("prepare NODE --yes", true);
    assert!(refusal.contains("namespace 1 would be deleted") && refusal.contains("--destroy-data"));
    let mut content = [0; 4096];
    bench.drive.io(&Command::read(1, 7, 1), &mut content).unwrap();
    assert_eq!((content, &bench.state()["fdp_enabled"]), ([9; 4096], &false.into()));
    let done = bench.json("prepare NODE --yes --destroy-data");
    check_prepared(&done);
    assert_eq!((&done["done"], &done["nsid"]), (&true.into(), &1.into()));
    assert!(done["path"].as_str().unwrap().ends_with("/dev/nvme0n1"), "{done}");
    let state = bench.state();
    assert_eq!((&state["fdp_enabled"], &state["handles"]), (&true.into(), &4.into()));
    let again = bench.json("prepare DRIVE --yes");
    assert_eq!((&again["done"], &again["steps"]), (&false.into(), &Value::Array(Vec::new())));
}

#[test]
fn prepare_makes_the_first_namespace_of_an_empty_drive() {
    let bench = Bench::without_namespace(true);
    let done = bench.json("prepare DRIVE --yes --handles 2 --size 8M");
    assert_eq!(done["destroys"], Value::Array(Vec::new()));
    assert_eq!(bench.state()["handles"], 2);
}

#[test]
fn prepare_leaves_alone_what_is_in_use_or_not_its_own() {
    let mut bench = Bench::new(false, &[]);
    bench.busy = true;
    let refusal = bench.refusal("prepare DRIVE --yes --destroy-data", false);
    assert!(refusal.contains("unmount it"), "{refusal}");
    assert_eq!(bench.state()["fdp_enabled"], false);
    bench.may_open = false;
    let refusal = bench.refusal("prepare DRIVE", false);
    assert!(refusal.contains("run as root"), "{refusal}");
}

#[test]
fn options_of_prepare_fit_the_drive() {
    let bench = Bench::new(true, &[0, 1]);
    let refusal = bench.refusal("prepare DRIVE --handles 9", true);
    assert!(refusal.contains("--handles 9: the configuration has 1 to 4"), "{refusal}");
    let refusal = bench.refusal("prepare DRIVE --configuration 3", true);
    assert!(
        refusal.contains("--configuration 3: FDP is enabled with configuration 0"),
        "{refusal}"
    );
    let refusal = bench.refusal("prepare DRIVE --size 1T", true);
    assert!(refusal.contains("has room for 67108864"), "{refusal}");
}

#[test]
fn trim_needs_both_words_and_a_device_to_itself() {
    let mut bench = Bench::new(true, &[0, 1]);
    let shown = bench.json("trim NODE");
    check(&page(), "Trim", &shown);
    assert_eq!((&shown["done"], &shown["bytes"]), (&false.into(), &DRIVE_BYTES.into()));
    let refusal = bench.refusal("trim NODE --yes", true);
    assert!(refusal.contains("add --destroy-data"), "{refusal}");
    assert!(bench.discarded.borrow().is_empty());
    assert_eq!(bench.json("trim NODE --yes --destroy-data")["done"], true);
    assert_eq!(*bench.discarded.borrow(), [(0, DRIVE_BYTES)]);
    bench.busy = true;
    let refusal = bench.refusal("trim NODE --yes --destroy-data", false);
    assert!(refusal.contains("stop what uses it"), "{refusal}");
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn people_read_the_same() {
    let mut bench = Bench::new(true, &[0, 1]);
    (0..100).for_each(|block| bench.write(block));
    let list = bench.text("list");
    has(&list, &["/dev/nvme0n1  Model", "64.00 MiB   4096  enabled", "      2  write streams\n"]);
    let parts = [
        "FDP                         yes, enabled",
        "reclaim unit                256.00 KiB (262144 bytes)",
        "reclaim unit handles        4, initially isolated",
        "                                1      0       1  initially     112.00 KiB (114688 bytes)",
        "write streams               4, of 256.00 KiB each",
        "  passthrough               available",
    ];
    has(&bench.text("info NODE"), &parts);
    let parts = [
        "host bytes written          400.00 KiB (409600 bytes)",
        "DLWA since it was made      1.0000",
        "spare                       100 % (warns below 0 %)",
        "life that is left           not available: the drive counts no hours yet",
    ];
    has(&bench.text("stats NODE"), &parts);
    let watched = bench.text("stats NODE --watch --interval 10s --samples 3");
    has(&watched, &["live DLWA\n", "\n    30.0    7.81 MiB", "  ▁▁▁\n"]);
    has(&bench.text("events NODE"), &["none. Drives report what a host has asked for"]);
    let parts = [
        "FDP enabled: yes",
        "delete namespace 1 (64.00 MiB)",
        "--phndls=0,1,2,3",
        "nothing was done",
    ];
    has(&bench.text("prepare DRIVE"), &parts);
    has(&bench.text("trim NODE"), &["would deallocate all 64.00 MiB", "blkdiscard /dev/nvme0n1"]);
    bench.may_open = false;
    has(&bench.text("list"), &["enabled", "note: for what there is no permission, run as root"]);
    has(&bench.text("stats NODE"), &["not available: /dev/ng0n1: no permission to read"]);
}

#[test]
fn all_headings_are_checked() {
    let headings: Vec<String> = page().into_keys().collect();
    let mut checked = [
        "List",
        "Namespace",
        "Info",
        "Configuration",
        "Handle",
        "Way",
        "Permission",
        "Command",
        "Stats",
        "Watch",
        "Interval",
        "Events",
        "Count",
        "Range",
        "Event",
        "Prepare",
        "Step",
        "Destroyed",
        "Trim",
        "Unavailable",
    ];
    checked.sort_unstable();
    assert_eq!(headings, checked);
}
