//! Length of files, functions and lines.

use super::finding::Finding;
use super::scan;
use super::tree::{SourceFile, Tree};

const FILE_LINES_MAX: usize = 800;
const FILE_LINES_NOTE: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 120;

/// Checks every Rust file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = scan::code_only(&file.text);
        findings.extend(file_length(file, &code));
        findings.extend(function_lengths(file, &code));
        findings.extend(line_lengths(file));
    }
    findings
}

/// The limit does not apply to tests at the end of a file, or to files of tests.
fn file_length(file: &SourceFile, code: &str) -> Option<Finding> {
    if file.is_test() {
        return None;
    }
    let lines = scan::before_tests(code).lines().count();
    let message = format!("{lines} lines without tests");
    let fix = "split off one concept into a file named after it";
    let finding = Finding::error((&file.path, lines), "file-length", message, fix);
    if lines > FILE_LINES_MAX {
        Some(finding)
    } else {
        (lines > FILE_LINES_NOTE).then(|| finding.into_note())
    }
}

fn function_lengths(file: &SourceFile, code: &str) -> Vec<Finding> {
    scan::functions(code)
        .into_iter()
        .map(|(begin, end)| (scan::line_of(code, begin), scan::line_of(code, end)))
        .filter(|(first, last)| last - first + 1 > FUNCTION_LINES_MAX)
        .map(|(first, last)| {
            let message = format!("{} lines, {FUNCTION_LINES_MAX} allowed", last - first + 1);
            let fix = "name its parts and make them functions";
            Finding::error((&file.path, first), "function-length", message, fix)
        })
        .collect()
}

fn line_lengths(file: &SourceFile) -> Vec<Finding> {
    file.lines()
        .map(|(line, text)| (line, text.chars().count()))
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .map(|(line, columns)| {
            let message = format!("{columns} columns, {COLUMNS_MAX} allowed");
            Finding::error((&file.path, line), "columns", message, "break the line")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::Weight;

    fn check_text(text: &str) -> Vec<Finding> {
        check(&Tree::of(&[("crates/x/src/a.rs", text)]))
    }

    #[test]
    fn long_files_are_noted_and_very_long_ones_refused() {
        assert!(check_text(&"\n".repeat(500)).is_empty());
        assert_eq!(check_text(&"\n".repeat(501))[0].weight, Weight::Note);
        assert_eq!(check_text(&"\n".repeat(800))[0].weight, Weight::Note);
        assert_eq!(check_text(&"\n".repeat(801))[0].weight, Weight::Error);
        let tested = format!("//! x\n#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(900));
        assert!(check_text(&tested).is_empty());
    }

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let function =
            |lines: usize| format!("fn f(a: [u8; 2]) {{\n{}}}\n", "\n".repeat(lines - 2));
        assert!(check_text(&function(70)).is_empty());
        let findings = check_text(&function(71));
        assert_eq!((findings[0].rule, findings[0].line), ("function-length", 1));
        assert!(findings[0].message.starts_with("71 lines"));
    }

    #[test]
    fn lines_are_counted_in_characters() {
        assert!(check_text(&format!("//{}", "é".repeat(118))).is_empty());
        assert_eq!(check_text(&format!("//{}", "é".repeat(119)))[0].rule, "columns");
    }
}
