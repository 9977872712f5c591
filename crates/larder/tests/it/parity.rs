//! Whoever learns the calls of `Larder` finds them in its other forms too: the public methods are
//! compared, as the sources have them.

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

/// The public methods of `type_name`: in blocks that begin with `impl … type_name …{` at the margin.
fn methods(type_name: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for path in sources(&folder) {
        let text = fs::read_to_string(path).unwrap();
        let mut inside = false;
        for line in text.lines() {
            if line.starts_with("impl") && line.ends_with('{') {
                let mut names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                inside = names.any(|name| name == type_name) && !line.contains(" for ");
            } else if line == "}" {
                inside = false;
            }
            let is_method = |line: &str| {
                let rest = line.strip_prefix("    pub ")?;
                let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned)
            };
            found.extend(is_method(line).filter(|_| inside));
        }
    }
    found
}

/// What `Larder` has and `type_name` has not, but for what is excused.
fn missing(type_name: &str, excused: &[&str]) -> Vec<String> {
    let own = methods(type_name);
    let mut all = methods("Larder");
    // Ways to begin one cache; the other forms begin with several, or with one that is open.
    assert!(all.remove("at") && all.remove("in_memory"));
    assert!(all.len() > 20 && own.len() > 5, "the sources are read");
    for excused in excused {
        assert!(all.contains(*excused) && !own.contains(*excused), "{excused} needs no excuse");
    }
    let missing = all.difference(&own).filter(|name| !excused.contains(&name.as_str()));
    missing.cloned().collect()
}

#[test]
fn threads_that_block_have_every_call_that_waits() {
    // These do not wait: `Blocking::larder` leads to them. A cache is opened as a whole.
    let at_once = [
        "blocking",
        "layout",
        "now",
        "open",
        "placement",
        "recovery",
        "set_dram_bytes",
        "set_memory_bytes",
        "stats",
        "unused_bytes",
    ];
    assert_eq!(missing("Blocking", &at_once), [""; 0]);
}

#[test]
fn shards_have_every_call_of_one_cache() {
    // Each shard has its own, and `Shards::shards` leads there.
    let of_each = ["blocking", "layout", "now", "placement", "recovery"];
    assert_eq!(missing("Shards", &of_each), [""; 0]);
}

#[test]
fn tenants_have_every_call_that_is_not_one_tenants() {
    // `Tenants::tenant` leads to the cache that has them all.
    let of_one = [
        "add",
        "append",
        "blocking",
        "cas",
        "contains",
        "decr",
        "delete",
        "get",
        "get_into",
        "get_many",
        "get_many_into",
        "get_many_with",
        "get_or_fetch",
        "get_with",
        "incr",
        "invalidate",
        "layout",
        "now",
        "prepend",
        "recovery",
        "replace",
        "scan",
        "set",
        "set_with",
        "touch",
        "update",
        "win",
    ];
    assert_eq!(missing("Tenants", &of_one), [""; 0]);
}
