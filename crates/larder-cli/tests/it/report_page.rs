//! `--report`: one self-contained page.

use std::fs;

use crate::place::Place;

const RUN: &str = "replay --requests 100000 --flash 8M --dram 256K --report deep/page";

#[test]
fn one_page_that_needs_nothing_else() {
    let place = Place::new();
    let ran = place.succeed(RUN);
    assert!(ran.stderr.contains("deep/page/index.html"), "{ran:?}");
    let files = place.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    let (path, content) = files.into_iter().next().unwrap();
    assert!(path.ends_with("deep/page/index.html"));
    let page = String::from_utf8(content).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    assert!(page.trim_end().ends_with("</html>"));
    // This namespace name looks like an address, but is never fetched.
    let text = page.replace("xmlns=\"http://www.w3.org/1999/xhtml\"", "");
    let foreign =
        ["http:", "https:", "//", "<script", "<link", "<iframe", "<img", "@import", "url(", "src="];
    for foreign in foreign {
        assert!(!text.contains(foreign), "the page has {foreign}");
    }
    assert!(page.contains("DLWA") && page.contains("<svg"));
}

#[test]
fn an_older_page_is_replaced() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("deep/page")).unwrap();
    place.write("deep/page/index.html", "old");
    place.succeed(RUN);
    let files = place.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    assert!(files.values().all(|content| content.len() > 1000));
}

/// The command in "How to reproduce", as a shell would read it. None of its words has spaces.
fn command_of(page: &str) -> String {
    let (_, rest) = page.split_once("<pre><code>larder ").expect("a command");
    let (command, _) = rest.split_once("</code>").expect("its end");
    assert!(!command.contains('&'), "{command}");
    let command = command.replace("\\\n", " ").replace('\'', "");
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs `arguments`, and the command on its page; both have the same parameters.
#[track_caller]
fn reproduces(arguments: &str) {
    let parameters = |place: &Place, json: &str| {
        let files = place.files();
        let (_, content) = files.iter().find(|(path, _)| path.ends_with(json)).expect("JSON");
        let run: serde_json::Value = serde_json::from_slice(content).unwrap();
        (run["parameters"].clone(), run["seed"].clone())
    };
    let place = Place::new();
    place.succeed(&format!("{arguments} --report page --json first.json"));
    let page = place.files().into_iter().find(|(path, _)| path.ends_with("index.html"));
    let command = command_of(&String::from_utf8(page.unwrap().1).unwrap());
    place.succeed(&format!("{command} --json second.json"));
    assert_eq!(parameters(&place, "first.json"), parameters(&place, "second.json"), "{command}");
}

#[test]
fn the_command_on_a_page_makes_the_same_run() {
    let small = "--requests 20000 --flash 8M --dram 256K";
    reproduces(&format!("replay {small}"));
    let more = "--ttl-classes 60,3600 --loc-eviction segmented-fifo --reinsertion 1 --soc-log 2";
    reproduces(&format!("replay {small} {more} --admission random:0.5 --placement off --seed 7"));
    reproduces("plan --requests 20000 --flash 8MiB --dram 256KiB --simulate 8MiB --tbw 5");
}
