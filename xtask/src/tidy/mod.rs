//! The house rules, and their violations in the tree.
//!
//! | rule | file |
//! |---|---|
//! | which crate may use which | `arrows` |
//! | which files of a crate may import each other | `circles` |
//! | length of files, functions and lines | `sizes` |
//! | a module doc in every file | `module_doc` |
//! | `unsafe`, unfinished code, meaningless names | `banned` |
//! | each magic number is listed in the page of formats | `formats` |
//! | each guarantee of the cache names an existing test | `semantics` |
//! | links between documents, the list of decisions | `links` |
//! | licence, documents, dependencies with a reason | `papers` |
//! | words that make prose hard to read | `plain` |
//! | words that have no meaning outside of the place where they were written | `words` |

mod arrows;
mod banned;
mod circles;
mod counts;
mod finding;
mod formats;
mod links;
mod manifest;
mod module_doc;
mod papers;
mod plain;
mod scan;
mod semantics;
mod sizes;
mod tree;
mod words;

use std::process::ExitCode;

use clap::Args;
use larder_harness::step::Verdict;
use larder_harness::workspace;

use self::finding::{Finding, Weight};
use self::tree::Tree;

/// The checks. A new rule needs a file and a line here.
const CHECKS: [fn(&Tree) -> Vec<Finding>; 11] = [
    arrows::check,
    circles::check,
    sizes::check,
    module_doc::check,
    banned::check,
    formats::check,
    links::check,
    papers::check,
    plain::check,
    semantics::check,
    words::check,
];

/// Options of `tidy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct TidyOptions {
    /// Print lengths of files and functions, number of assertions, and import cycles: one row for each crate
    #[arg(long)]
    counts: bool,
}

/// Prints every finding, or the counts. The exit code says whether there was an error.
pub(crate) fn command(options: TidyOptions) -> ExitCode {
    if options.counts {
        return match Tree::read(&workspace::root()) {
            Ok(tree) => {
                print!("{}", counts::table(&tree));
                ExitCode::SUCCESS
            }
            Err(message) => {
                eprintln!("tidy: {message}");
                ExitCode::FAILURE
            }
        };
    }
    match verdict() {
        Verdict::Passed(text) => {
            println!("tidy: {text}");
            ExitCode::SUCCESS
        }
        Verdict::Failed(text) | Verdict::Skipped(text) => {
            eprintln!("tidy: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Prints every finding and a summary.
pub(crate) fn verdict() -> Verdict {
    let tree = match Tree::read(&workspace::root()) {
        Ok(tree) => tree,
        Err(message) => return Verdict::Failed(message),
    };
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    let files = tree.files().len();
    if errors == 0 {
        Verdict::Passed(format!("{files} files, {} notes", findings.len()))
    } else {
        Verdict::Failed(format!("{errors} errors in {files} files"))
    }
}

/// All findings, sorted by path, line and rule.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn house_is_tidy() {
        let tree = Tree::read(&workspace::root()).unwrap();
        let errors: Vec<String> = findings(&tree)
            .iter()
            .filter(|finding| finding.weight == Weight::Error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
    }
}
