//! Links between documents name existing files, and the list of decisions is complete.

use super::finding::Finding;
use super::tree::{SourceFile, Tree};

const RULE: &str = "links";
/// The folder of the pages of decisions, and its list.
const DECISIONS: &str = "docs/decisions/";
const LIST_OF_DECISIONS: &str = "docs/decisions/README.md";

/// Checks all documents.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let documents = || tree.files().iter().filter(|file| file.has_extension("md"));
    let mut findings: Vec<Finding> = documents().flat_map(|file| dead_links(tree, file)).collect();
    let listed: Vec<String> = tree
        .file(LIST_OF_DECISIONS)
        .map(|list| links(list).into_iter().filter_map(|(_, link)| target(list, link)).collect())
        .unwrap_or_default();
    let is_page = |file: &&SourceFile| {
        file.path.starts_with(DECISIONS) && file.path.as_str() != LIST_OF_DECISIONS
    };
    findings.extend(documents().filter(is_page).filter(|page| !listed.contains(&page.path)).map(
        |page| {
            let message = format!("{LIST_OF_DECISIONS} does not link it");
            Finding::error((&page.path, 1), RULE, message, "add a line there")
        },
    ));
    findings
}

fn dead_links(tree: &Tree, file: &SourceFile) -> Vec<Finding> {
    let dead = |(line, link): (usize, &str)| {
        let target = target(file, link)?;
        let folder = format!("{target}/");
        let exists =
            tree.files().iter().any(|it| it.path == target || it.path.starts_with(&folder));
        (!exists).then(|| {
            let message = format!("the link to {link} leads nowhere");
            Finding::error((&file.path, line), RULE, message, "name an existing file or folder")
        })
    };
    links(file).into_iter().filter_map(dead).collect()
}

/// The targets of all links outside of code blocks, with their lines.
fn links(file: &SourceFile) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (number, line) in file.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            links.extend(targets.map(|(target, _)| (number, target)));
        }
    }
    links
}

/// The path from the root to which a link of `file` leads. `None` for other sites, and for places in the same page.
fn target(file: &SourceFile, link: &str) -> Option<String> {
    let path = link.split('#').next().filter(|path| !path.is_empty() && !path.contains(':'))?;
    let mut parts: Vec<&str> = file.path.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_and_folders() {
        let page = "[a](../src/a.rs), [b](../src/), [c](b.md#part), [d](#here), [e](https://e.org/f)\n\
                    ```\n[f](nowhere)\n```\n";
        let files = [("docs/a.md", page), ("docs/b.md", ""), ("src/a.rs", "")];
        assert!(findings(&files).is_empty());
        let found = findings(&files[..2]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("docs/a.md:1: error: links: the link to ../src/a.rs leads"));
    }

    #[test]
    fn every_decision_is_listed() {
        let pages = [("docs/decisions/0001-a.md", ""), ("docs/decisions/0002-b.md", "")];
        let list = |text| [pages[0], pages[1], (LIST_OF_DECISIONS, text)];
        assert!(findings(&list("[1](0001-a.md)\n[2](0002-b.md)\n")).is_empty());
        let found = findings(&list("[1](0001-a.md)\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/decisions/0002-b.md:1: error: links: docs/decisions/"));
        assert_eq!(findings(&pages).len(), 2);
    }
}
