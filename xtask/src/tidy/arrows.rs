//! Which crate may depend on which: dependencies go only downwards.

use super::finding::Finding;
use super::manifest;
use super::tree::{SourceFile, Tree};

const RULE: &str = "arrows";

/// The crates of the workspace that a crate may use.
enum May {
    /// Every other crate.
    UseAll,
    /// These, and in tests also the second ones.
    Use(&'static [&'static str], &'static [&'static str]),
}

/// The crates, from the bottom up.
const HOUSE: [(&str, May); 25] = [
    ("larder-json-page", May::Use(&[], &[])),
    ("larder-workload", May::Use(&[], &["larder-json-page"])),
    ("larder-bench", May::Use(&["larder-workload"], &[])),
    ("larder-checksum", May::Use(&[], &[])),
    ("larder-ssd", May::Use(&["larder-checksum"], &[])),
    ("larder-vssd", May::Use(&["larder-checksum", "larder-ssd"], &["larder-workload"])),
    ("larder-device", May::Use(&["larder-checksum", "larder-ssd"], &["larder-net"])),
    ("larder-net", May::Use(&["larder-device"], &[])),
    ("larder-export", May::Use(&["larder-device", "larder-net"], &[])),
    (
        "larder-blocks",
        May::Use(&["larder-checksum", "larder-device", "larder-ssd", "larder-vssd"], &[]),
    ),
    ("larder-fs", May::Use(&["larder-blocks", "larder-checksum", "larder-device"], &[])),
    ("larder-log", May::Use(&["larder-checksum", "larder-device"], &["larder-ssd"])),
    (
        "larder",
        May::Use(
            &["larder-blocks", "larder-checksum", "larder-device", "larder-log"],
            &["larder-ssd", "larder-vssd"],
        ),
    ),
    (
        "larder-sim",
        May::Use(
            &[
                "larder",
                "larder-blocks",
                "larder-device",
                "larder-ssd",
                "larder-vssd",
                "larder-workload",
            ],
            &[],
        ),
    ),
    ("larder-c", May::Use(&["larder"], &[])),
    ("larder-object-store", May::Use(&["larder"], &["larder-device"])),
    ("larder-script", May::Use(&[], &[])),
    (
        "larder-server",
        May::Use(
            &["larder", "larder-device", "larder-net", "larder-script"],
            &["larder-ssd", "larder-workload", "larder-sim"],
        ),
    ),
    (
        "larder-block",
        May::Use(
            &["larder", "larder-checksum", "larder-log", "larder-device", "larder-export"],
            &["larder-net", "larder-ssd", "larder-sim", "larder-workload"],
        ),
    ),
    (
        "larder-lab",
        May::Use(
            &[
                "larder",
                "larder-blocks",
                "larder-checksum",
                "larder-device",
                "larder-ssd",
                "larder-vssd",
                "larder-workload",
                "larder-sim",
                "larder-server",
                "larder-block",
            ],
            &["larder-json-page"],
        ),
    ),
    ("larder-readme", May::Use(&["larder"], &[])),
    ("larder-python", May::Use(&["larder", "larder-lab", "larder-ssd", "larder-workload"], &[])),
    ("larder-cli", May::UseAll),
    // Its examples measure the libraries; its rigs start programs.
    (
        "larder-harness",
        May::Use(
            &[],
            &[
                "larder",
                "larder-device",
                "larder-export",
                "larder-server",
                "larder-sim",
                "larder-workload",
            ],
        ),
    ),
    ("xtask", May::Use(&["larder-harness"], &[])),
];

/// Checks every dependency between crates of the workspace.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates: Vec<(&SourceFile, &str)> =
        manifests(tree).filter_map(|file| Some((file, manifest::package_name(file)?))).collect();
    let names: Vec<&str> = crates.iter().map(|(_, name)| *name).collect();
    crates.iter().flat_map(|(file, name)| of_crate(file, name, &names)).collect()
}

/// Manifests of the crates of the workspace.
pub(super) fn manifests(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files().iter().filter(|file| {
        let parts: Vec<&str> = file.path.split('/').collect();
        matches!(
            parts.as_slice(),
            ["crates", _, "Cargo.toml"] | ["harness" | "python" | "xtask", "Cargo.toml"]
        )
    })
}

fn of_crate(file: &SourceFile, name: &str, names: &[&str]) -> Vec<Finding> {
    let Some((_, may)) = HOUSE.iter().find(|(known, _)| *known == name) else {
        let fix = "say in xtask/src/tidy/arrows.rs what it may use";
        return vec![Finding::error((&file.path, 1), RULE, format!("unknown crate {name}"), fix)];
    };
    let May::Use(always, in_tests) = may else { return Vec::new() };
    manifest::dependencies(file)
        .iter()
        .filter(|d| names.contains(&d.name) || HOUSE.iter().any(|(known, _)| *known == d.name))
        .filter(|d| {
            let allowed = always.contains(&d.name) || (d.dev && in_tests.contains(&d.name));
            !allowed
        })
        .map(|d| {
            let message = format!("{name} must not depend on {}", d.name);
            let fix = if always.is_empty() {
                "it stands alone: move the code that needs it upwards".to_owned()
            } else {
                format!("it may use {}: go through these", always.join(", "))
            };
            Finding::error((&file.path, d.line), RULE, message, fix)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, dependencies: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let text = format!("[package]\nname = \"{name}\"\n{dependencies}");
        let findings = check(&Tree::of(&[(&path, &text)]));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn doors_open_downwards_only() {
        assert!(tree("larder", "[dependencies]\nlarder-device.workspace = true\n").is_empty());
        assert!(tree("larder", "[dev-dependencies]\nlarder-ssd.workspace = true\n").is_empty());
        assert!(tree("larder-ssd", "[dependencies]\nfastrand = \"2\"\n").is_empty());
        assert!(tree("larder-cli", "[dependencies]\nlarder-ssd.workspace = true\n").is_empty());
        let found = tree("larder", "[dependencies]\nlarder-ssd.workspace = true\n");
        assert!(found[0].starts_with("crates/larder/Cargo.toml:4: error: arrows: larder must not"));
        assert_eq!(tree("larder-device", "[dev-dependencies]\nlarder = \"0\"\n").len(), 1);
        assert_eq!(tree("larder-ssd", "[dev-dependencies]\nlarder-device = \"0\"\n").len(), 1);
    }

    #[test]
    fn workloads_are_below_everything_and_know_nothing() {
        let lines = "[dependencies]\nlarder-workload.workspace = true\n";
        assert!(tree("larder-lab", lines).is_empty());
        assert!(tree("larder-server", &lines.replace("[", "[dev-")).is_empty());
        assert_eq!(tree("larder-server", lines).len(), 1);
        for above in ["larder", "larder-device", "larder-ssd"] {
            assert_eq!(tree(above, &lines.replace("[", "[dev-")).len(), 1, "{above}");
            let back = format!("[dev-dependencies]\n{above}.workspace = true\n");
            let found = tree("larder-workload", &back);
            assert!(found[0].contains("it stands alone"), "{found:?}");
        }
    }

    #[test]
    fn the_simulation_is_above_the_cache_and_serves_tests_above_it() {
        let lines = "[dependencies]\nlarder-sim.workspace = true\n";
        let in_tests = lines.replace("[", "[dev-");
        for user in ["larder-server", "larder-block"] {
            assert!(tree(user, &in_tests).is_empty(), "{user}");
            assert_eq!(tree(user, lines).len(), 1, "{user}");
        }
        assert!(tree("larder-lab", lines).is_empty());
        for below in ["larder", "larder-device", "larder-ssd", "larder-workload"] {
            assert_eq!(tree(below, &in_tests).len(), 1, "{below}");
            let uses = format!("[dependencies]\n{below}.workspace = true\n");
            assert!(tree("larder-sim", &uses).is_empty(), "{below}");
        }
        for above in ["larder-lab", "larder-cli", "larder-server"] {
            let uses = format!("[dev-dependencies]\n{above}.workspace = true\n");
            assert_eq!(tree("larder-sim", &uses).len(), 1, "{above}");
        }
    }

    #[test]
    fn exports_blocks_and_virtual_ssds_know_nothing_above_them() {
        for (name, above) in [
            ("larder-export", "larder-block"),
            ("larder-blocks", "larder-fs"),
            ("larder-device", "larder-blocks"),
            ("larder-vssd", "larder-device"),
            ("larder-ssd", "larder-vssd"),
        ] {
            let back = format!("[dev-dependencies]\n{above}.workspace = true\n");
            assert_eq!(tree(name, &back).len(), 1, "{name}");
            let uses = format!("[dependencies]\n{name}.workspace = true\n");
            assert!(tree("larder-cli", &uses).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_new_crate_needs_a_line_in_the_house() {
        assert!(tree("larder-attic", "")[0].contains("unknown crate larder-attic"));
    }
}
