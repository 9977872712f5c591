//! Every public call has an example that compiles.

use std::fs;
use std::path::Path;

/// Folders with public calls.
const FOLDERS: [&str; 13] = [
    "src",
    "src/base",
    "src/cache",
    "src/config",
    "src/dram",
    "src/engine",
    "src/flash",
    "src/flash/plan",
    "src/fleet",
    "src/fleet/front",
    "src/fleet/shards",
    "src/fleet/tenants",
    "src/observe",
];

/// Shown by the example of their type.
const SHOWN_BY_THEIR_TYPE: [&str; 13] = [
    "src/advice.rs",
    "src/base/time.rs",
    "src/cache/iterate.rs",
    "src/cache/streams.rs",
    "src/fleet/front/blocking.rs",
    "src/fleet/front/everything.rs",
    "src/fleet/front/routed.rs",
    "src/fleet/front/set.rs",
    "src/fleet/front/walk.rs",
    "src/fleet/shards/mod.rs",
    "src/fleet/shards/offline.rs",
    "src/fleet/typed.rs",
    "src/observe/load.rs",
];

/// All calls of the cache; the type's example shows each of them.
const FORMS: [&str; 2] = ["src/fleet/front/blocking.rs", "src/fleet/front/routed.rs"];

#[test]
fn every_public_call_has_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut calls = 0;
    for folder in FOLDERS {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let known = SHOWN_BY_THEIR_TYPE.iter().any(|known| path.ends_with(known));
            if path.extension().is_none_or(|it| it != "rs") || known || path.ends_with("fuzzing.rs")
            {
                continue;
            }
            let mut has_example = false;
            for line in fs::read_to_string(&path).unwrap().lines().map(str::trim_start) {
                if line.starts_with("pub fn ") || line.starts_with("pub async fn ") {
                    calls += 1;
                    assert!(has_example, "{}: no example for {line}", path.display());
                }
                let is_doc = line.starts_with("///") || line.starts_with("#[");
                has_example = is_doc && (has_example || line.starts_with("/// ```"));
            }
        }
    }
    assert!(calls > 30, "{calls}");
}

#[test]
fn the_example_of_a_form_shows_every_call() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let listed = crate::parity::listed();
    for form in FORMS {
        let text = read(form);
        let example: String = text.lines().filter(|line| line.starts_with("/// ")).collect();
        let by_hand = text.lines().filter_map(|line| {
            let line = line.strip_prefix("    pub ")?;
            let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
            line.split(['(', '<']).next()
        });
        // Calls that convert between the forms, and calls with an example of their own.
        let others = ["new", "route", "moment", "blocking", "larder", "get_or_fetch"];
        let by_hand = by_hand.filter(|name| !others.contains(name)).map(str::to_owned);
        let calls: Vec<String> = by_hand.chain(listed.iter().cloned()).collect();
        assert!(calls.len() > 20, "{calls:?}");
        for call in calls {
            assert!(example.contains(&format!(".{call}(")), "{form}: nothing shows {call}");
        }
    }
}
