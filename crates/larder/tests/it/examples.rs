//! Every public call has an example that compiles.

use std::fs;
use std::path::Path;

/// Obvious from the example of their type.
const SHOWN_BY_THEIR_TYPE: [&str; 3] =
    ["src/cache/iterate.rs", "src/shards/mod.rs", "src/typed.rs"];

#[test]
fn every_public_call_has_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut calls = 0;
    for folder in ["src", "src/cache", "src/plan", "src/shards", "src/tenants"] {
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
