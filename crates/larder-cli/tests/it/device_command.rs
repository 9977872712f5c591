//! `larder device` without a drive: refusals, and help.

use std::fs;

use crate::place::Place;

#[test]
fn a_list_needs_neither_drive_nor_root() {
    let place = Place::new();
    let list = place.json("device list");
    let text = place.succeed("device list").stdout;
    let drives = list["namespaces"].as_array().unwrap();
    assert_eq!(text.starts_with("no NVMe namespace is here"), drives.is_empty(), "{text}");
    assert!(drives.iter().all(|drive| text.contains(drive["path"].as_str().unwrap())), "{text}");
}

#[test]
fn options_that_make_no_sense() {
    let place = Place::new();
    place.write("drive", "");
    for (arguments, parts) in [
        ("stats drive --interval 2", &["'2'", "--interval", "such as 2s"][..]),
        ("stats drive --interval 5ms", &["'5ms'", "must be 100ms to 1440m"]),
        ("stats drive --watch --samples 0", &["'0'", "--samples"]),
        ("events drive --range SOC", &["'SOC'", "--range", "NAME=FROM..TO"]),
        ("events drive --range SOC=5..4", &["'SOC=5..4'", "must be above 5"]),
        ("events drive --range SOC=x..", &["'SOC=x..'", "--range"]),
        ("prepare drive --size 0", &["'0'", "--size", "must be at least 1"]),
        ("prepare drive --endurance-group x", &["'x'", "--endurance-group"]),
    ] {
        place.refuse(&format!("device {arguments} --json result.json"), 2, parts);
    }
}

/// Consent to lose data alone does nothing.
#[test]
fn both_words_are_needed() {
    let place = Place::new();
    place.write("drive", "precious");
    for command in ["prepare", "trim"] {
        let ran = place.run(&format!("device {command} drive --destroy-data"));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.contains("--yes"), "{ran:?}");
    }
}

#[test]
fn what_is_no_drive_is_left_alone() {
    let place = Place::new();
    place.write("file", "precious");
    fs::create_dir(place.path().join("folder")).unwrap();
    for command in
        ["info", "stats", "events", "prepare", "trim", "prepare --yes", "trim --yes --destroy-data"]
    {
        let (command, words) = command.split_once(' ').unwrap_or((command, ""));
        let parts = ["file: not a namespace of an NVMe drive", "larder device list"];
        place.refuse(&format!("device {command} file {words}"), 1, &parts);
        place.refuse(&format!("device {command} absent {words}"), 1, &["absent", "No such file"]);
        place.refuse(&format!("device {command} folder {words}"), 1, &["folder: not a namespace"]);
    }
}

#[test]
fn help_teaches() {
    let place = Place::new();
    let help = place.succeed("device --help").stdout;
    for word in ["EXAMPLES:", "prepare", "--watch", "docs/device.md", "DEV is a namespace"] {
        assert!(help.contains(word), "{word}");
    }
    let help = place.succeed("device prepare --help").stdout;
    assert!(help.contains("--destroy-data") && help.contains("does nothing"), "{help}");
}
