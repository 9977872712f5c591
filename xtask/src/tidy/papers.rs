//! The licence and the documents that readers expect, and a reason for each dependency.

use super::finding::Finding;
use super::tree::{SourceFile, Tree};
use super::{arrows, manifest};

const RULE: &str = "papers";
const DOCUMENTS: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", DEPENDENCIES];
/// The page that says what each dependency is for.
const DEPENDENCIES: &str = "docs/dependencies.md";
const README_LINES_MAX: usize = 200;

/// Checks the whole tree.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = missing_documents(tree);
    findings.extend(tree.file("README.md").and_then(readme_length));
    findings.extend(arrows::manifests(tree).filter_map(licence));
    findings.extend(unexplained_dependencies(tree));
    findings
}

fn missing_documents(tree: &Tree) -> Vec<Finding> {
    let missing = DOCUMENTS.iter().filter(|path| tree.file(path).is_none());
    missing.map(|path| Finding::error((path, 1), RULE, "missing", "write it")).collect()
}

fn readme_length(readme: &SourceFile) -> Option<Finding> {
    let lines = readme.lines().count();
    (lines >= README_LINES_MAX).then(|| {
        let message = format!("{lines} lines, fewer than {README_LINES_MAX} allowed");
        Finding::error((&readme.path, lines), RULE, message, "move detail to docs/")
    })
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
    fn the_readme_is_short() {
        assert!(messages(&[("README.md", &"\n".repeat(199))]).is_empty());
        assert_eq!(messages(&[("README.md", &"\n".repeat(200))]).len(), 1);
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
