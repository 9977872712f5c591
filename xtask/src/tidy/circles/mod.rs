//! Files of a crate import each other in one direction: at most two files may import each other.
//!
//! A cycle of more files can only be read as a whole. Its usual cause is a type or a function in a file that is too
//! high: a lower file that needs it ties all files in between together. Names are followed through re-exports to the
//! file that defines them. Imports of tests and mere re-exports do not count.
//!
//! Readers import modules, so siblings among modules may not import each other at all, at any level.

mod graph;
mod house;
mod levels;
mod module;
mod tokens;

use self::house::Ties;
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
            let of_modules = levels::circles(&format!("{folder}src/"), &ties);
            findings.extend(of_modules.iter().map(|circle| found_modules(folder, circle, &ties)));
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

/// The finding about a cycle of files, at an import of its first file.
fn found(folder: &str, circle: &[&str], ties: &Ties) -> Finding {
    let inside = |path: &String| circle.contains(&path.as_str());
    let within: Vec<_> = ties.keys().filter(|(from, to)| inside(from) && inside(to)).collect();
    let message =
        format!("{} files import each other: {}", circle.len(), told(folder, &within, ties));
    let fix = "move what is needed from below into a file below";
    Finding::error((circle[0], line(&within, ties)), RULE, message, fix)
}

/// The finding about a cycle of modules, at an import of its first tie.
fn found_modules(folder: &str, circle: &levels::Circle<'_>, ties: &Ties) -> Finding {
    let (count, names) = (circle.modules.len(), circle.modules.join(", "));
    let told = told(folder, &circle.ties, ties);
    let message = format!("{count} modules import each other: {names} ({told})");
    let fix = "move what is needed from below into a module below";
    Finding::error((&circle.ties[0].0, line(&circle.ties, ties)), RULE, message, fix)
}

/// The ties of a cycle, each with the names that are imported.
fn told(folder: &str, within: &[&(String, String)], ties: &Ties) -> String {
    let short = |path: &str| path.trim_start_matches(folder).trim_start_matches("src/").to_owned();
    let arrows = within.iter().map(|tie| {
        format!("{} -> {}: {}", short(&tie.0), short(&tie.1), ties[*tie].names.join(", "))
    });
    arrows.collect::<Vec<_>>().join("; ")
}

/// The line of the first tie.
fn line(within: &[&(String, String)], ties: &Ties) -> usize {
    within.first().map_or(1, |tie| ties[*tie].line)
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
        let [files, modules] = &found[..] else { panic!("{found:?}") };
        assert!(modules.contains("3 modules import each other: a, b, c"), "{modules}");
        let expected = "crates/x/src/a.rs:1: error: circles: 3 files import each other: \
            a.rs -> b.rs: B; b.rs -> c.rs: C; c.rs -> a.rs: A; \
            move what is needed from below into a file below";
        assert_eq!(files, expected);
    }

    #[test]
    fn three_in_a_row_are_no_circle_and_two_are_one_of_modules() {
        assert!(judged(LIB, A, B, "pub struct C;").is_empty());
        let two = judged(LIB, A, "use crate::a::A;\npub struct B;", "");
        assert_eq!(two.len(), 1);
        assert!(two[0].contains("2 modules import each other: a, b"), "{two:?}");
    }

    #[test]
    fn an_import_for_tests_closes_no_circle() {
        let c = "pub struct C;\n#[cfg(test)]\nuse crate::a::A;";
        assert!(judged(LIB, A, B, c).is_empty());
        let c = "pub struct C;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}";
        assert!(judged(LIB, A, B, c).is_empty());
    }

    #[test]
    fn siblings_that_import_each_other_through_their_parts_are_found() {
        let tree = |deep: &str| {
            let files = [
                ("crates/x/Cargo.toml", ""),
                ("crates/x/src/lib.rs", "mod a;\nmod b;"),
                ("crates/x/src/a/mod.rs", "mod one;\nmod two;\npub struct Above;"),
                (
                    "crates/x/src/a/one.rs",
                    "use super::Above;\nuse crate::b::deep::B;\npub struct One;",
                ),
                ("crates/x/src/a/two.rs", "use super::one::One;\npub struct Two;"),
                ("crates/x/src/b/mod.rs", "pub mod deep;"),
                ("crates/x/src/b/deep.rs", deep),
            ];
            check(&Tree::of(&files)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(tree("pub struct B;").is_empty());
        let found = tree("use crate::a::two::Two;\npub struct B;");
        let of_modules = found.iter().find(|finding| finding.contains("2 modules")).unwrap();
        let expected = "crates/x/src/a/one.rs:2: error: circles: 2 modules import each other: a, b \
            (a/one.rs -> b/deep.rs: B; b/deep.rs -> a/two.rs: Two); \
            move what is needed from below into a module below";
        assert_eq!(of_modules, expected);
    }

    #[test]
    fn a_circle_through_a_re_export_is_found() {
        let lib = "mod a;\nmod b;\nmod c;\npub use a::A;";
        assert_eq!(judged(lib, A, B, "use crate::A;\npub struct C;").len(), 2);
    }
}
