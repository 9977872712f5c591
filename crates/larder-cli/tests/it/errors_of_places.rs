//! Outputs that cannot be written to the requested place. The error comes before the work is done.

use std::fs;

use crate::place::Place;

/// A run that would take minutes if it were not refused at once.
const LONG_RUN: &str = "replay --workload uniform --requests 1000000000";

#[test]
fn a_report_below_a_regular_file() {
    let place = Place::new();
    place.write("file", "text");
    let parts = ["report: cannot create directory", "file/page", "Not a directory"];
    place.refuse(&format!("{LONG_RUN} --report file/page"), 1, &parts);
}

#[test]
fn a_report_whose_page_is_a_directory() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("page/index.html")).unwrap();
    let parts = ["report: cannot write", "page/index.html", "is a directory"];
    place.refuse(&format!("{LONG_RUN} --report page"), 1, &parts);
}

#[test]
fn json_below_a_regular_file() {
    let place = Place::new();
    place.write("file", "text");
    for command in [LONG_RUN, "workload stats uniform --requests 1000000000"] {
        let parts = ["--json file/result.json: cannot write", "Not a directory"];
        place.refuse(&format!("{command} --json file/result.json"), 1, &parts);
        let parts = ["--json absent/result.json: there is no directory absent", "create it"];
        place.refuse(&format!("{command} --json absent/result.json"), 1, &parts);
    }
}

#[test]
fn json_over_a_directory() {
    let place = Place::new();
    fs::create_dir(place.path().join("folder")).unwrap();
    let parts = ["--json folder: cannot write", "is a directory"];
    place.refuse(&format!("{LONG_RUN} --json folder"), 1, &parts);
}
