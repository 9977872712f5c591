//! Every file must begin with a line that says what it is.

use super::finding::Finding;
use super::tree::Tree;

/// Checks every Rust file, including build scripts, tests and fuzz targets.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| {
            let fix = "say in its first line what the file is: `//! …`";
            Finding::error((&file.path, 1), "module-doc", "no module doc", fix)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts() {
        let tree = Tree::of(&[
            ("build.rs", "//! Builds.\n"),
            ("a.rs", "// Not a doc.\n"),
            ("b.rs", ""),
            ("README.md", "# x"),
        ]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["a.rs", "b.rs"]);
    }
}
