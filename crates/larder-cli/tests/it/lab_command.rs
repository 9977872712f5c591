//! `larder lab`: its page, and refusals.

use std::fs;

use serde_json::Value;

use crate::place::Place;

/// An experiment without a simulation, which takes no time.
const SHORT: &str = "lab run carbon --seeds 1";
/// An experiment that would take minutes if it were not refused at once.
const LONG: &str = "lab run soc-size --set requests=4000000";

#[test]
fn a_run_becomes_one_page() {
    let place = Place::new();
    let ran = place.succeed(&format!("{SHORT} --report deep/page"));
    assert!(ran.stderr.contains("deep/page/index.html"), "{ran:?}");
    let stdout = &ran.stdout;
    assert!(
        stdout.contains(" of 7 published numbers within 15 %") && !stdout.contains("criterion:"),
        "{ran:?}"
    );
    let files = place.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    let page = String::from_utf8(files.into_values().next().unwrap()).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("embodied carbon (kg CO2e)") && page.contains("published"));
    for foreign in ["<script", "<link", "src=", "@import", "url(", "https:"] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
}

#[test]
fn experiments_that_simulate_have_charts() {
    let place = Place::new();
    let options = "--set requests=30000 --set flash_mib=8 --set utilization=50,100 --seeds 2";
    place.succeed(&format!("lab run utilization {options} --report page --json all.json"));
    let page = fs::read_to_string(place.path().join("page/index.html")).unwrap();
    assert!(page.contains("share of the drive that the cache uses (%)"));
    assert!(page.contains("class=\"line off\"") && page.contains("class=\"published off\""));
    let result: Value =
        serde_json::from_slice(&fs::read(place.path().join("all.json")).unwrap()).unwrap();
    assert!(page.contains(result["criterion"].as_str().unwrap().split(':').next().unwrap()));
}

#[test]
fn the_page_of_an_earlier_run_is_the_same() {
    let place = Place::new();
    place.succeed(&format!("{SHORT} --json run.json --report now"));
    let ran = place.succeed("lab report run.json --report later");
    assert!(ran.stderr.contains("later/index.html"), "{ran:?}");
    let page = |dir: &str| fs::read_to_string(place.path().join(dir).join("index.html")).unwrap();
    assert_eq!(page("now"), page("later"));
}

#[test]
fn unknown_experiments_and_parameters_are_refused() {
    let outputs = "--json result.json --report page";
    let place = Place::new();
    let parts = ["experiment nope: unknown", "utilization", "full-scale", "all"];
    place.refuse(&format!("lab run nope {outputs}"), 2, &parts);
    let parts = ["--set nope", "soc-size has no such parameter", "requests", "flash_mib"];
    place.refuse(&format!("lab run soc-size --set nope=1 {outputs}"), 2, &parts);
    let parts = ["--set requests", "name=value"];
    place.refuse(&format!("lab run soc-size --set requests {outputs}"), 2, &parts);
    let parts = ["--set goes with one experiment"];
    place.refuse(&format!("lab run all --set requests=1 {outputs}"), 2, &parts);
    assert!(!place.path().join("page").exists());
}

#[test]
fn values_that_make_no_sense() {
    for (options, part) in [
        ("soc-size --set requests=many", "--set requests=many"),
        ("soc-size --set flash_mib=1", "must be 8 to 65536"),
        ("carbon --seeds 0", "--seeds 0: must be at least 1"),
    ] {
        let place = Place::new();
        place.refuse(&format!("lab run {options} --json result.json"), 2, &[part]);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    place.write("file", "text");
    let parts = ["--json absent/all.json: there is no directory absent", "create it"];
    place.refuse(&format!("{LONG} --json absent/all.json"), 1, &parts);
    let parts = ["report: cannot create directory file", "name a directory"];
    place.refuse(&format!("{LONG} --report file"), 1, &parts);
    place.refuse(&format!("{LONG} --report file --json result.json"), 1, &parts);
    let parts = ["report: cannot create directory", "file/page", "Not a directory"];
    place.refuse(&format!("{LONG} --report file/page"), 1, &parts);
}

#[test]
fn files_that_are_no_result() {
    let place = Place::new();
    place.write("text.json", "no JSON");
    place.write("other.json", "{\"command\": \"replay\"}");
    place.write("empty.json", "[]");
    let not = "not what `larder lab run --json` writes";
    place.refuse("lab report text.json --report page", 1, &["text.json", not]);
    place.refuse("lab report other.json --report page", 1, &["missing field `experiment`", not]);
    place.refuse("lab report empty.json --report page", 1, &["holds no result", not]);
    place.refuse("lab report absent.json --report page", 1, &["absent.json", "No such file"]);
    assert!(!place.path().join("page").exists());
}
