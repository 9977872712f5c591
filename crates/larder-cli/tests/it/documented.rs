//! Tables of JSON keys and types in a page of the documentation.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// The tables of the page: heading, then key, then type.
pub(crate) type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// A page of the documentation.
pub(crate) fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tables under headings that begin with `depth`.
pub(crate) fn tables(page: &str, depth: &str) -> Tables {
    let mut tables = Tables::new();
    let mut heading = "";
    for line in page.lines() {
        if let Some(name) = line.strip_prefix(depth) {
            heading = name;
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let (key, rest) = row.split_once("` | ").unwrap();
        let kind = rest.split(" | ").next().unwrap().to_owned();
        let twice = tables.entry(heading.to_owned()).or_default().insert(key.to_owned(), kind);
        assert_eq!(twice, None, "{heading}: {key} is there twice");
    }
    tables
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_f64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        unknown => panic!("the page has a type that this test does not know: {unknown}"),
    }
}

/// Compares an object with the table under a heading. Each key is in the table with its type, and each key of the table
/// that may not be absent is in the object.
#[track_caller]
pub(crate) fn check(tables: &Tables, heading: &str, object: &Value) {
    let table = tables.get(heading).unwrap_or_else(|| panic!("no table under {heading}"));
    let object = object.as_object().unwrap();
    for (key, value) in object {
        let kinds = table.get(key);
        let kinds = kinds.unwrap_or_else(|| panic!("the page does not name {heading}: {key}"));
        let kinds = kinds.trim_end_matches(", or absent");
        let fits = kinds.split(" or ").any(|kind| is_of(kind, value));
        assert!(fits, "{heading}: {key} is {value}, the page says {kinds}");
    }
    for (key, kinds) in table {
        let there = object.contains_key(key) || kinds.ends_with(", or absent");
        assert!(there, "the page names {heading}: {key}, the output has none");
    }
}
