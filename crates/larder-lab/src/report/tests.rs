//! Makers of small outcomes for the tests of the report, and tests of the whole page.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::replay::outcome::{Interval, Run, UnitPicture};

/// A run in which nothing happened.
pub(super) fn run(placement: &'static str) -> Run {
    Run {
        placement,
        requests: 0,
        placement_active: placement == "on",
        warmup_requests: 0,
        gets: 0,
        hits: 0,
        hit_ratio: 0.0,
        dram_hit_ratio: 0.0,
        flash_hit_ratio: 0.0,
        dlwa: None,
        alwa: None,
        host_bytes: 0,
        media_bytes: None,
        erased_bytes: None,
        copied_bytes: None,
        soc_bytes: 0,
        soc_log: None,
        loc_bytes: 0,
        array_bytes: 0,
        array: None,
        metadata_bytes: 0,
        admitted_objects: 0,
        rejected_objects: 0,
        rejected_at_random_objects: 0,
        rejected_on_first_visit_objects: 0,
        rejected_as_infrequent_objects: 0,
        rejected_by_budget_objects: 0,
        rejected_for_exhausted_budget_objects: 0,
        refused_objects: 0,
        shards: Vec::new(),
        drive_writes_before: 0.0,
        requests_per_second: 0.0,
        interrupted: false,
        intervals: Vec::new(),
        units: Vec::new(),
        streams: Vec::new(),
        host_bytes_by_handle: Vec::new(),
        placement_path: None,
        notice: None,
        placement_table: String::new(),
        array_memory: None,
    }
}

/// A part of a run that ends after `requests` requests.
pub(super) fn interval(requests: u64) -> Interval {
    Interval {
        requests,
        host_bytes: 100,
        dlwa: Some(1.5),
        hit_ratio: Some(0.8),
        soc_bytes: 60,
        loc_bytes: 39,
        array_bytes: 0,
        metadata_bytes: 1,
        warmup: false,
    }
}

/// A unit with the given live pages of each engine, and 10 free ones.
pub(super) fn unit(soc: u32, loc: u32) -> UnitPicture {
    UnitPicture { soc, loc, array: 0, metadata: 0, dead: 0, free: 10, open: false }
}

/// An outcome with seed 7 and no parameters.
pub(super) fn outcome(runs: Vec<Run>) -> Outcome {
    Outcome { command: "replay", parameters: serde_json::Map::new(), seed: 7, runs, drive: None }
}

fn full_run(placement: &'static str, units: u32) -> Run {
    let mut run = run(placement);
    run.intervals = (1..=100).map(|n| interval(n * 10_000)).collect();
    run.units = (0..units)
        .map(|n| UnitPicture {
            soc: 1000 + n % 977,
            loc: 2000 + n % 499,
            array: 0,
            metadata: 1 + n % 3,
            dead: 700 + n % 613,
            free: n % 7 + 1,
            open: n % 5 == 0,
        })
        .collect();
    run
}

/// Checks that elements open and close in order, and that only our own markup has angle brackets. Panics otherwise.
pub(super) fn assert_well_formed(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    let mut open = Vec::new();
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag that ends");
        assert!(!text.contains('>'), "stray bracket after <{tag}>");
        assert_eq!(tag.matches('"').count() % 2, 0, "odd quotes in <{tag}>");
        let name = tag.split([' ', '/']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "closed out of order");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    assert_entities(body);
}

fn assert_entities(body: &str) {
    for piece in body.split('&').skip(1) {
        let entity = piece.split(';').next().unwrap();
        assert!(["lt", "gt", "amp", "quot", "#39"].contains(&entity), "entity &{entity};");
    }
}

pub(super) fn assert_no_impossible_numbers(page: &str) {
    let words = page.split(|c: char| !c.is_alphanumeric());
    for word in words {
        assert!(!word.starts_with("NaN") && word != "inf" && word != "Infinity", "{word}");
    }
}

#[test]
fn every_kind_of_outcome_is_well_formed() {
    let mut broken = full_run("off", 10);
    broken.interrupted = true;
    broken.gets = 5;
    broken.hit_ratio = f64::NAN;
    broken.requests_per_second = f64::INFINITY;
    broken.dlwa = Some(f64::NAN);
    broken.alwa = Some(f64::NEG_INFINITY);
    for interval in &mut broken.intervals {
        interval.dlwa = Some(f64::INFINITY);
        interval.hit_ratio = Some(f64::NAN);
    }
    let mut single = run("on");
    single.intervals = vec![interval(0)];
    single.units = vec![unit(0, 0), UnitPicture { free: 0, ..unit(0, 0) }];
    let outcomes = [
        outcome(vec![]),
        outcome(vec![run("on")]),
        outcome(vec![single.clone(), run("off")]),
        outcome(vec![full_run("on", 300), broken]),
        outcome(vec![full_run("on", 3), full_run("off", 5000)]),
    ];
    for outcome in &outcomes {
        let page = replay::render(outcome);
        assert_well_formed(&page);
        assert_no_impossible_numbers(&page);
    }
}

#[test]
fn hostile_parameters_are_text() {
    let mut outcome = outcome(vec![run("on")]);
    let hostile = "</code><script>alert('1')</script>\"&amp;";
    let parameters =
        json!({ "trace": hostile, hostile: 1, "list": [hostile], "map": { hostile: hostile } });
    outcome.parameters = parameters.as_object().unwrap().clone();
    let page = replay::render(&outcome);
    assert_well_formed(&page);
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = replay::render(&outcome(vec![full_run("on", 10), full_run("off", 10)]));
    for loading in ["src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(loading), "{loading}");
    }
}

#[test]
fn thousands_of_units_stay_a_page_of_reasonable_size() {
    let page = replay::render(&outcome(vec![full_run("on", 2000), full_run("off", 2000)]));
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    let page = replay::render(&outcome(vec![full_run("on", 100_000), full_run("off", 100_000)]));
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
}

#[test]
fn long_runs_stay_a_page_of_reasonable_size() {
    let mut long = run("on");
    long.intervals = (1..=200_000).map(interval).collect();
    let page = replay::render(&outcome(vec![long.clone(), long]));
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn one_outcome_is_one_page_to_the_byte() {
    let outcome = outcome(vec![full_run("on", 64), full_run("off", 64)]);
    assert_eq!(replay::render(&outcome), replay::render(&outcome));
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_page_replaces_an_older_one_and_leaves_nothing_else() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("a/b");
    check_writable(&dir).unwrap();
    assert!(names_in(&dir).is_empty());
    fs::write(dir.join("index.html"), "old").unwrap();
    let path = write(&dir, &outcome(vec![run("on")])).unwrap();
    assert_eq!(path, dir.join("index.html"));
    assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
    assert_eq!(names_in(&dir), ["index.html"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named_with_the_cause() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    for dir in [file.clone(), file.join("below")] {
        for error in [check_writable(&dir).unwrap_err(), write(&dir, &outcome(vec![])).unwrap_err()]
        {
            let text = error.to_string();
            assert!(matches!(error, Error::Run(_)));
            assert!(text.contains(dir.to_str().unwrap()), "{text}");
            assert!(text.contains("os error"), "{text}");
        }
    }
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("index.html")).unwrap();
    assert!(check_writable(base.path()).is_err());
    assert!(write(base.path(), &outcome(vec![])).is_err());
    assert_eq!(names_in(base.path()), ["index.html"]);
}
