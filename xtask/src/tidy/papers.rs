//! The licence and the documents that readers expect, a place in the map for each crate, and a reason for each
//! dependency.

use super::finding::Finding;
use super::tree::{SourceFile, Tree};
use super::{arrows, manifest};

const RULE: &str = "papers";
const DOCUMENTS: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", DEPENDENCIES];
/// The page that says what each dependency is for.
const DEPENDENCIES: &str = "docs/dependencies.md";
/// The most lines that a document for newcomers may have.
const LINES_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 200), ("README.md", 150)];

/// Checks the whole tree.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = missing_documents(tree);
    findings.extend(LINES_MAX.iter().filter_map(|&(path, most)| length(tree.file(path)?, most)));
    findings.extend(tree.file("ARCHITECTURE.md").into_iter().flat_map(|page| map(tree, page)));
    findings.extend(arrows::manifests(tree).filter_map(licence));
    findings.extend(unexplained_dependencies(tree));
    findings
}

fn missing_documents(tree: &Tree) -> Vec<Finding> {
    let missing = DOCUMENTS.iter().filter(|path| tree.file(path).is_none());
    missing.map(|path| Finding::error((path, 1), RULE, "missing", "write it")).collect()
}

fn length(document: &SourceFile, most: usize) -> Option<Finding> {
    let lines = document.lines().count();
    (lines > most).then(|| {
        let message = format!("{lines} lines, at most {most} allowed");
        Finding::error((&document.path, lines), RULE, message, "move detail to docs/")
    })
}

/// The first block of text of the page is the map of the crates: each crate of the workspace has one line there.
fn map(tree: &Tree, page: &SourceFile) -> Vec<Finding> {
    let block = page.text.split("```").nth(1).unwrap_or_default();
    let names: Vec<&str> =
        block.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let crates = arrows::manifests(tree).filter_map(manifest::package_name);
    crates
        .filter_map(|name| {
            let count = names.iter().filter(|known| **known == name).count();
            let message = format!("the map has {count} lines for {name}");
            let fix = "give each crate one line in the first block of text";
            (count != 1).then(|| Finding::error((&page.path, 1), RULE, message, fix))
        })
        .collect()
}

fn licence(manifest: &SourceFile) -> Option<Finding> {
    let entries = manifest::entries(manifest);
    let inherited = entries
        .iter()
        .any(|e| e.table == "package" && e.key == "license.workspace" && e.value == "true");
    (!inherited).then(|| {
        let fix = "write `license.workspace = true` under [package]";
        Finding::error((&manifest.path, 1), RULE, "no licence", fix)
    })
}

/// Each dependency must have a row in the page of dependencies that says what it is for.
fn unexplained_dependencies(tree: &Tree) -> Vec<Finding> {
    let (Some(root), Some(page)) = (tree.file("Cargo.toml"), tree.file(DEPENDENCIES)) else {
        return Vec::new();
    };
    let entries = manifest::entries(root);
    entries
        .iter()
        .filter(|e| e.table == "workspace.dependencies" && !e.value.contains("path ="))
        .filter(|e| !names(&page.text, e.key))
        .map(|e| {
            let message = format!("{} is not named in {DEPENDENCIES}", e.key);
            let fix = "say there in a line what it does for us";
            Finding::error((&root.path, e.line), RULE, message, fix)
        })
        .collect()
}

/// Whether `text` contains `name` as a whole word.
fn names(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let all = DOCUMENTS.iter().filter(|path| files.iter().all(|(known, _)| known != *path));
        let mut files = files.to_vec();
        files.extend(all.map(|path| (*path, "")));
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_must_exist() {
        assert_eq!(check(&Tree::default()).len(), DOCUMENTS.len());
        assert!(messages(&[]).is_empty());
    }

    #[test]
    fn documents_for_newcomers_are_short() {
        for (path, most) in LINES_MAX {
            assert!(messages(&[(path, &"\n".repeat(most))]).is_empty());
            assert_eq!(messages(&[(path, &"\n".repeat(most + 1))]).len(), 1);
        }
    }

    #[test]
    fn the_map_has_each_crate_once() {
        let manifest = "[package]\nname = \"larder-x\"\nlicense.workspace = true\n";
        let of =
            |page: &str| messages(&[("crates/x/Cargo.toml", manifest), ("ARCHITECTURE.md", page)]);
        let page = "larder-x\n```text\n  larder-y  stands on larder-x\n  larder-x  is x\n```\n```text\nlarder-x\n```\n";
        assert!(of(page).is_empty());
        let found = of(&page.replace("larder-y", "larder-x"));
        assert!(found[0].contains("2 lines for larder-x"), "{found:?}");
        assert_eq!(of("larder-x is not in a map").len(), 1);
    }

    #[test]
    fn crates_inherit_the_licence() {
        let path = "crates/x/Cargo.toml";
        assert!(messages(&[(path, "[package]\nlicense.workspace = true\n")]).is_empty());
        assert_eq!(messages(&[(path, "[package]\nlicense = \"MIT\"\n")]).len(), 1);
    }

    #[test]
    fn dependencies_need_a_reason() {
        let root = "[workspace.dependencies]\nlarder = { path = \"x\" }\nserde = \"1\"\nserde_json = \"1\"\n";
        let page = "| `serde_json` | writes JSON |";
        let found = messages(&[("Cargo.toml", root), (DEPENDENCIES, page)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("Cargo.toml:3: error: papers: serde is not named"));
    }
}
