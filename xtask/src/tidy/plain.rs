//! Words that make prose hard to read, in comments and documents.
//!
//! The list is short on purpose: each entry was a habit of this house, and other projects of its kind do without.

use super::finding::Finding;
use super::scan;
use super::tree::{SourceFile, Tree};

/// This file names the words that it looks for.
const SELF: &str = "xtask/src/tidy/plain.rs";

/// Words and phrases, and what to write in their place.
const PHRASES: [(&str, &str); 7] = [
    ("whoever", "name the actor: the caller, the client, a thread"),
    ("whomever", "name the actor: the caller, the client, a thread"),
    ("somebody", "name the actor: the caller, the client, a thread"),
    ("nobody", "name the actor, or say that no caller does it"),
    ("so many", "give the number, or name the constant that has it"),
    ("so much", "give the number, or name the constant that has it"),
    ("what of", "begin with the subject"),
];

/// A sentence that begins with it has no subject that a reader could find.
const BEGINNINGS: [(&str, &str); 2] =
    [("Who ", "begin with the actor: \"a client that …\""), ("Whom ", "begin with the actor")];

/// Comments of Rust files, and documents.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_judged = |file: &&SourceFile| file.path != SELF;
    let of_file = |file: &SourceFile| match (file.has_extension("rs"), file.has_extension("md")) {
        (true, _) => findings(file, &scan::comments_only(&file.text)),
        (_, true) => findings(file, &prose_only(&file.text)),
        _ => Vec::new(),
    };
    tree.files().iter().filter(is_judged).flat_map(of_file).collect()
}

/// A document without its blocks of code; lines stay lines.
fn prose_only(text: &str) -> String {
    let mut is_code = false;
    let prose = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(prose).collect::<Vec<_>>().join("\n")
}

fn findings(file: &SourceFile, prose: &str) -> Vec<Finding> {
    let of_line = |(index, line): (usize, &str)| {
        let lower = line.to_lowercase();
        let phrases = PHRASES.iter().filter(|(phrase, _)| !scan::words(&lower, phrase).is_empty());
        let begins = |(word, _): &&(&str, &str)| {
            line.trim_start_matches(['#', '*', '-', '/', '!', ' ']).starts_with(word)
                && !line.ends_with('?')
                || line.contains(&format!(". {word}"))
        };
        let beginnings = BEGINNINGS.iter().filter(begins);
        let finding = |(word, fix): &(&str, &str)| {
            let message = format!("`{}` hides who does what, or how much", word.trim());
            Finding::error((&file.path, index + 1), "plain", message, *fix)
        };
        phrases.chain(beginnings).map(finding).collect::<Vec<_>>()
    };
    prose.lines().enumerate().flat_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_phrase_is_found_in_comments_and_documents() {
        for (phrase, _) in PHRASES {
            assert_eq!(lines("a.rs", &format!("//! a\nfn f() {{}} // {phrase} calls")), [2]);
            assert_eq!(lines("a.rs", &format!("/* a\n{phrase} calls */")), [2]);
            let document = format!("# A\nThere {phrase} waits.\n```\n{phrase}\n```\n");
            assert_eq!(lines("a.md", &document), [2]);
        }
    }

    #[test]
    fn sentences_without_a_subject_are_found() {
        assert_eq!(lines("a.rs", "//! It waits. Who asks is told.\n/// Whom it wakes."), [1, 2]);
        assert_eq!(lines("a.md", "- Who waits is told."), [1]);
        assert!(lines("a.md", "Who is it for?").is_empty());
    }

    #[test]
    fn code_and_longer_names_are_left_alone() {
        for (phrase, _) in PHRASES {
            let code = format!("let a = \"é // {phrase}\"; f('/');\nlet b = r\"\n// {phrase}\";");
            assert!(lines("a.rs", &code).is_empty());
            assert!(lines("a.rs", &format!("// the name {phrase}_else")).is_empty());
            assert!(lines("a.toml", &format!("# {phrase}")).is_empty());
        }
    }
}
