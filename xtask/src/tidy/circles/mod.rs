//! Files of a crate import each other in one direction: at most two files may import each other.
//!
//! A cycle of more files can only be read as a whole. Its usual cause is a type or a function in a file that is too
//! high: a lower file that needs it ties all files in between together. Names are followed through re-exports to the
//! file that defines them. Imports of tests and mere re-exports do not count.

mod graph;
mod house;
mod module;
mod tokens;

use self::house::{Tie, Ties};
use super::arrows;
use super::finding::Finding;
use super::tree::Tree;

const RULE: &str = "circles";
/// Largest number of files that may import each other.
const FILES_MAX: usize = 2;

/// Checks every crate of the workspace.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in arrows::manifests(tree) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        for root in ["src/lib.rs", "src/main.rs"] {
            let ties = house::ties(tree, &format!("{folder}{root}"));
            let circles = graph::circles(ties.keys());
            let too_large = circles.iter().filter(|circle| circle.len() > FILES_MAX);
            findings.extend(too_large.map(|circle| found(folder, circle, &ties)));
        }
    }
    findings
}

/// Number of cycles in a crate with more files than allowed.
pub(super) fn count(tree: &Tree, folder: &str) -> usize {
    let of = |root: &str| {
        let ties = house::ties(tree, &format!("{folder}{root}"));
        graph::circles(ties.keys()).iter().filter(|circle| circle.len() > FILES_MAX).count()
    };
    ["src/lib.rs", "src/main.rs"].into_iter().map(of).sum()
}

/// The finding about a cycle, at an import of its first file.
fn found(folder: &str, circle: &[&str], ties: &Ties) -> Finding {
    let inside = |path: &String| circle.contains(&path.as_str());
    let within: Vec<(&(String, String), &Tie)> =
        ties.iter().filter(|((from, to), _)| inside(from) && inside(to)).collect();
    let short = |path: &str| path.trim_start_matches(folder).trim_start_matches("src/").to_owned();
    let arrows: Vec<String> = (within.iter())
        .map(|((from, to), tie)| {
            format!("{} -> {}: {}", short(from), short(to), tie.names.join(", "))
        })
        .collect();
    let message = format!("{} files import each other: {}", circle.len(), arrows.join("; "));
    let line = within.first().map_or(1, |(_, tie)| tie.line);
    let fix = "move what is needed from below into a file below";
    Finding::error((circle[0], line), RULE, message, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod a;\nmod b;\nmod c;";
    const A: &str = "use crate::b::B;\npub struct A;";
    const B: &str = "\nuse crate::c::C;\npub struct B;";

    fn judged(lib: &str, a: &str, b: &str, c: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/x/Cargo.toml", ""),
            ("crates/x/src/lib.rs", lib),
            ("crates/x/src/a.rs", a),
            ("crates/x/src/b.rs", b),
            ("crates/x/src/c.rs", c),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_three_is_found_with_what_ties_it() {
        let found = judged(LIB, A, B, "use crate::a::A;\npub struct C;");
        let expected = "crates/x/src/a.rs:1: error: circles: 3 files import each other: \
            a.rs -> b.rs: B; b.rs -> c.rs: C; c.rs -> a.rs: A; \
            move what is needed from below into a file below";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn two_may_import_each_other_and_three_in_a_row_are_no_circle() {
        assert!(judged(LIB, A, B, "pub struct C;").is_empty());
        assert!(judged(LIB, A, "use crate::a::A;\npub struct B;", "").is_empty());
        let two = "use crate::b::B;\npub struct C;";
        assert!(judged(LIB, A, B, two).is_empty());
    }

    #[test]
    fn an_import_for_tests_closes_no_circle() {
        let c = "pub struct C;\n#[cfg(test)]\nuse crate::a::A;";
        assert!(judged(LIB, A, B, c).is_empty());
        let c = "pub struct C;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}";
        assert!(judged(LIB, A, B, c).is_empty());
    }

    #[test]
    fn a_circle_through_a_re_export_is_found() {
        let lib = "mod a;\nmod b;\nmod c;\npub use a::A;";
        assert_eq!(judged(lib, A, B, "use crate::A;\npub struct C;").len(), 1);
    }
}
