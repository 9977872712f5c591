//! Every call of `Larder` exists in its other forms too. Most of these calls are generated from one list
//! (`fleet/front/calls.rs`), so that no form can lack one. These tests check that the list is complete, and that the
//! calls which each form has by hand are all there. They read the sources for that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All source files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn first_name(text: &str) -> Option<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned)
}

/// The text after the generic parameters of an `impl`, if it has some.
fn behind_parameters(text: &str) -> &str {
    let mut depth = 0;
    let is_end = |c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0
    };
    text.find(is_end).map_or(text, |end| text[end + 1..].trim_start())
}

/// The public methods of `type_name`: in blocks that begin with `impl … type_name …{` at the margin.
fn methods(type_name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in sources(&source_folder()) {
        let text = fs::read_to_string(path).unwrap();
        let mut inside = false;
        for line in text.lines() {
            if line.starts_with("impl") && line.ends_with('{') {
                let implemented = first_name(behind_parameters(&line["impl".len()..]));
                inside = implemented.as_deref() == Some(type_name) && !line.contains(" for ");
            } else if line == "}" {
                inside = false;
            }
            let is_method = |line: &str| {
                let rest = line.strip_prefix("    pub ")?;
                first_name(rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?)
            };
            found.extend(is_method(line).filter(|_| inside));
        }
    }
    found
}

/// The calls with one key that all forms have.
pub(crate) fn listed() -> BTreeSet<String> {
    let text = fs::read_to_string(source_folder().join("fleet/front/calls.rs")).unwrap();
    let list = text.split("$form! {").nth(1).unwrap().split('}').next().unwrap();
    list.lines()
        .filter(|line| line.contains(';'))
        // Before the name of a call comes the kind of its access to the value.
        .filter_map(|line| first_name(line.trim().split_once(' ')?.1))
        .collect()
}

/// The methods that `Larder` has and a form with methods `own` lacks, except those in `excused`.
fn missing(own: &BTreeSet<String>, excused: &[&str]) -> Vec<String> {
    let mut all = methods("Larder");
    // Ways to open one cache; the other forms start with several caches, or with an open one.
    assert!(all.remove("at") && all.remove("in_memory"));
    assert!(all.len() > 20 && own.len() > 5, "the sources are read");
    for excused in excused {
        assert!(all.contains(*excused) && !own.contains(*excused), "{excused} needs no excuse");
    }
    let missing = all.difference(own).filter(|name| !excused.contains(&name.as_str()));
    missing.cloned().collect()
}

#[test]
fn threads_that_block_have_every_call_that_waits() {
    // These do not wait; `Blocking::larder` gives access to them. A cache is opened as a whole.
    let at_once = [
        "array_memory",
        "blocking",
        "draw_version",
        "estimated_items",
        "estimated_len",
        "flash_regions",
        "get_at_once_with",
        // Each chunk is a separate wait.
        "get_stream",
        "layout",
        "may_read_flash",
        "memory_limit_bytes",
        "misses_at_once",
        "moment",
        "now",
        "open",
        "placement",
        "recovery",
        "set_admission",
        "set_at_once",
        "set_dram_bytes",
        "set_memory_bytes",
        "set_removal_listener",
        "set_stream",
        "situation",
        "stats",
        "stream_reports",
        "unused_bytes",
        "update_at_once",
    ];
    let own = methods("Blocking").union(&listed()).cloned().collect();
    assert_eq!(missing(&own, &at_once), [""; 0]);
}

#[test]
fn a_route_has_every_call_of_one_cache() {
    // Each cache has its own; `Route::caches` or `Shards::shards` give access to them. A routed cache is already open.
    let of_each = [
        "array_memory",
        "flash_regions",
        "get_stream",
        "layout",
        // `moment` replaces it: each shard has its own time.
        "now",
        "open",
        "placement",
        "recovery",
        "set_stream",
        "situation",
        "stream_reports",
    ];
    let own = methods("Routed").union(&listed()).cloned().collect();
    assert_eq!(missing(&own, &of_each), [""; 0]);
}

#[test]
fn tenants_have_every_call_of_everything() {
    // Calls with keys belong to a tenant, as do those about a single cache: `Tenants::tenant` gives access to them.
    let of_one = [
        "array_memory",
        "blocking",
        "estimated_items",
        "estimated_len",
        "flash_regions",
        "get_stream",
        "layout",
        "memory_limit_bytes",
        "moment",
        "now",
        "recovery",
        "scan",
        "scan_from",
        "set_admission",
        "set_removal_listener",
        "set_stream",
        "situation",
        "stream_reports",
    ];
    let of_a_key = [
        "contains",
        "delete",
        "draw_version",
        "may_read_flash",
        "misses_at_once",
        "peek_with",
        "set_at_once",
        "update",
        "update_at_once",
        "win",
    ];
    let of_a_key = |name: &String| name.starts_with("get") || of_a_key.contains(&name.as_str());
    let keyed = listed().into_iter().chain(methods("Routed").into_iter().filter(of_a_key));
    let own: BTreeSet<String> = methods("Tenants").into_iter().chain(keyed).collect();
    assert_eq!(missing(&own, &of_one), [""; 0]);
}
