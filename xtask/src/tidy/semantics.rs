//! Every guarantee of the cache must have a test, and the test must exist.

use super::finding::Finding;
use super::tree::{SourceFile, Tree};

/// The page.
const PAGE: &str = "docs/semantics.md";
/// The places of its tests: integration tests by file, others by module.
const PLACES: [&str; 2] = ["crates/larder/tests/it/", "crates/larder/src/"];
const RULE: &str = "semantics";

/// Checks the guarantees against the tests that they name.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let mut findings: Vec<Finding> = promises(page)
        .into_iter()
        .filter(|promise| promise.tests.is_empty())
        .map(|promise| {
            let message = format!("promise {} names no test", promise.number);
            Finding::error((PAGE, promise.line), RULE, message, "name the test that holds it")
        })
        .collect();
    let lost = promises(page).into_iter().flat_map(|promise| {
        let line = promise.line;
        promise.tests.into_iter().filter(|test| !exists(tree, test)).map(move |test| {
            let message = format!("there is no test {test}");
            Finding::error((PAGE, line), RULE, message, "write it, or name another")
        })
    });
    findings.extend(lost);
    findings
}

#[derive(Debug, PartialEq, Eq)]
struct Promise {
    number: u32,
    line: usize,
    tests: Vec<String>,
}

/// Numbered paragraphs, with the texts in backquotes that look like `file::test`.
fn promises(page: &SourceFile) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    for (line, text) in (1..).zip(page.text.lines()) {
        if let Some(number) = text.split_once(". ").and_then(|(front, _)| front.parse().ok()) {
            promises.push(Promise { number, line, tests: Vec::new() });
        }
        if text.starts_with('#') {
            continue;
        }
        if let Some(promise) = promises.last_mut() {
            let quoted = text.split('`').skip(1).step_by(2);
            promise.tests.extend(quoted.filter(|name| name.contains("::")).map(str::to_owned));
        }
    }
    promises
}

/// Whether `file::test` or `module::tests::test` is a function in such a file.
fn exists(tree: &Tree, test: &str) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else { return false };
    let place = place.replace("::", "/");
    let function = format!("fn {name}(");
    tree.rust().any(|file| {
        let here = PLACES.iter().any(|root| file.path == format!("{root}{place}.rs"));
        here && file.text.contains(&function)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(page: &str) -> Tree {
        let reads = "//! Reads.\n#[test]\nfn it_holds() {}\n";
        Tree::of(&[(PAGE, page), ("crates/larder/tests/it/reads.rs", reads)])
    }

    #[test]
    fn a_promise_needs_a_test_that_exists() {
        assert!(check(&tree("1. **So.**\n   `reads::it_holds`\n")).is_empty());
        assert_eq!(check(&tree("1. **So.**\n   `reads::it_breaks`\n")).len(), 1);
        assert_eq!(check(&tree("1. **So.**\n2. **And so.** `reads::it_holds`\n")).len(), 1);
    }
}
