//! `--report`: one page that needs nothing else.

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
    // The name of the language looks like an address; nobody asks for it.
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
