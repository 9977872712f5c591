//! Words that have no meaning outside of the place where they were written.

use super::finding::Finding;
use super::tree::{SourceFile, Tree};

/// This file must contain the words that it looks for.
const SELF: &str = "xtask/src/tidy/words.rs";
/// Cargo itself writes the names of registries there.
const LOCK: &str = "Cargo.lock";

/// Registries belong into each user's own configuration.
const REGISTRIES: [&str; 5] =
    ["crates.io", "pypi.org", "pythonhosted.org", "registry.npmjs.org", "proxy.golang.org"];

/// Directories of machines on which this was built.
const MACHINE_PATHS: [&str; 2] = ["/work/", "/root/"];

/// A field of rustls, whose name cannot be changed.
const FIELD_OF_RUSTLS: &str = "session_storage";

/// Django's own name for what a visitor of a site has, in the programs that use Django.
const PROGRAMS_OF_DJANGO: &str = "harness/src/frameworks/programs/django_";

/// Checks every text file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files().iter().filter(|file| file.path != SELF);
    files.flat_map(|file| file.lines().flat_map(|(line, text)| of_line(file, line, text))).collect()
}

fn of_line(file: &SourceFile, line: usize, text: &str) -> Vec<Finding> {
    let mut found: Vec<(String, &str)> = Vec::new();
    if !file.path.ends_with(LOCK) {
        let registries = REGISTRIES.into_iter().filter(|host| text.contains(host));
        found.extend(registries.map(|host| (host.to_owned(), "name no registry")));
    }
    let paths = MACHINE_PATHS.into_iter().filter(|path| has_path(text, path));
    found.extend(paths.map(|path| (path.to_owned(), "use a path that others have")));
    let own = text.to_ascii_lowercase().replace(FIELD_OF_RUSTLS, "");
    if has_word(&own, "session") && !file.path.starts_with(PROGRAMS_OF_DJANGO) {
        found.push(("session".to_owned(), "say connection, run or process"));
    }
    if let Some(reference) = issue(text, file.has_extension("md")) {
        found.push((reference, "say what it was about"));
    }
    let finding = |(word, fix): (String, &str)| {
        let message = format!("`{word}` means nothing to a reader elsewhere");
        Finding::error((&file.path, line), "words", message, fix)
    };
    found.into_iter().map(finding).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].trim_start_matches('s').chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Whether an absolute path begins with `path`; `network/work/` does not count.
fn has_path(text: &str, path: &str) -> bool {
    let within = |c: char| c.is_alphanumeric() || "._-~}*".contains(c);
    text.match_indices(path).any(|(at, _)| !text[..at].chars().next_back().is_some_and(within))
}

/// A number of an issue: `issue 12` anywhere, `#12` in prose.
fn issue(text: &str, prose: bool) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let spoken = lower.match_indices("issue ").find_map(|(at, word)| {
        let number = digits(&lower[at + word.len()..])?;
        Some(format!("issue {number}"))
    });
    spoken.or_else(|| if prose { hash_number(text) } else { None })
}

/// `#12`, but not the `#12-title` of a link, the `&#12;` of an entity, or a colour.
fn hash_number(text: &str) -> Option<String> {
    text.match_indices('#').find_map(|(at, _)| {
        let number = digits(&text[at + 1..])?;
        let before = text[..at].chars().next_back();
        let after = text[at + 1 + number.len()..].chars().next();
        let part = |c: char| c.is_alphanumeric() || "-_&/;".contains(c);
        let alone = !before.is_some_and(part) && !after.is_some_and(|c| part(c) && c != '/');
        (alone && number.len() < 6).then(|| format!("#{number}"))
    })
}

fn digits(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).filter(|digits| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn registries_are_named_by_the_lock_file_only() {
        assert_eq!(count("README.md", "see https://crates.io/x"), 1);
        assert_eq!(count("Cargo.lock", "registry+https://github.com/rust-lang/crates.io-index"), 0);
    }

    #[test]
    fn machine_paths_are_found_where_they_begin() {
        for text in ["cd /work/main", "`/root/x`", "path=/work/x"] {
            assert_eq!(count("a.md", text), 1, "{text}");
        }
        for text in ["network/work/x", "at /workload/x", "$HOME/work/", "~/work/x", "${x}/root/y"] {
            assert_eq!(count("a.md", text), 0, "{text}");
        }
    }

    #[test]
    fn sessions_are_found_as_words() {
        assert_eq!(count("a.rs", "// in this Session."), 1);
        assert_eq!(count("a.rs", "// two sessions"), 1);
        assert_eq!(count("a.rs", "// obsession"), 0);
        assert_eq!(count(&format!("{PROGRAMS_OF_DJANGO}core.py"), "two sessions"), 0);
    }

    #[test]
    fn numbers_of_issues_are_found_in_prose() {
        assert_eq!(count("a.md", "see #12"), 1);
        assert_eq!(count("a.rs", "// Issue 3 says"), 1);
        for text in ["[x](#3-house)", "&#39;", "#123456", "# 1. Title", "issue it"] {
            assert_eq!(count("a.md", text), 0, "{text}");
        }
        assert_eq!(count("a.rs", "\"#12\""), 0);
    }
}
