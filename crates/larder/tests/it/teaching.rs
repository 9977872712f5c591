//! The examples for users run to their end.

#[path = "../../examples/fetch.rs"]
mod fetch;
#[path = "../../examples/hybrid.rs"]
mod hybrid;
#[path = "../../examples/memory.rs"]
mod memory;
#[path = "../../examples/metrics.rs"]
mod metrics;
#[path = "../../examples/shards.rs"]
mod shards;
#[path = "../../examples/tenants.rs"]
mod tenants;
#[cfg(feature = "serde")]
#[path = "../../examples/typed.rs"]
mod typed;

#[test]
fn every_example_runs_to_its_end() {
    fetch::main().unwrap();
    hybrid::main().unwrap();
    memory::main().unwrap();
    metrics::main().unwrap();
    shards::main().unwrap();
    tenants::main().unwrap();
    #[cfg(feature = "serde")]
    typed::main().unwrap();
}

/// An example is short enough to be read at once, and says how it is run.
#[test]
fn an_example_has_at_most_sixty_lines() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut examples = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (lines, name) = (text.lines().count(), path.file_stem().unwrap().to_str().unwrap());
        assert!((20..=60).contains(&lines), "{name}: {lines} lines");
        assert!(text.contains(&format!("--example {name}")), "{name} does not say how it is run");
        examples += 1;
    }
    assert_eq!(examples, 7, "every_example_runs_to_its_end runs each of them");
}
