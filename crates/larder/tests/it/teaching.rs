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

/// An example is short enough to be read at once.
#[test]
fn an_example_has_at_most_sixty_lines() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in ["fetch", "hybrid", "memory", "metrics", "shards", "tenants", "typed"] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
        let lines = text.lines().count();
        assert!((20..=60).contains(&lines), "{name}: {lines} lines");
        assert!(text.contains(&format!("--example {name}")), "{name} does not say how it is run");
    }
}
