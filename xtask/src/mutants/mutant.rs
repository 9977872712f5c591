//! One mutant: a change to one place of the source.

use std::path::Path;

use serde_json::Value;

/// Where the mutated folders are.
const SOURCES: &str = "crates/larder/src/";

/// A change to one place of the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mutant {
    /// What the tool calls it: file, line, column and change.
    pub(super) name: String,
    /// Below `SOURCES`.
    pub(super) file: String,
    /// What is changed into what, and in which function.
    pub(super) change: String,
    /// The line that it is on, without the blanks around it.
    pub(super) line: String,
}

impl Mutant {
    /// Reads an entry of the tool's list, and the line from the tree that the list is of.
    pub(super) fn read(entry: &Value, tree: &Path) -> Result<Self, String> {
        let text = |field: &str| entry.get(field)?.as_str();
        let number = entry.pointer("/span/start/line").and_then(Value::as_u64);
        let (Some(name), Some(path), Some(number)) = (text("name"), text("file"), number) else {
            return Err(format!("cargo-mutants lists what we cannot read: {entry}"));
        };
        let file = path.strip_prefix(SOURCES).unwrap_or(path);
        // The name is PATH:LINE:COLUMN: CHANGE.
        let change = name.split_once(": ").map_or(name, |(_, change)| change);
        let source = std::fs::read_to_string(tree.join(path))
            .map_err(|cause| format!("cannot read {path}: {cause}"))?;
        let at = usize::try_from(number).unwrap_or(0).saturating_sub(1);
        let line = source.lines().nth(at).unwrap_or_default().trim();
        Ok(Self {
            name: name.to_owned(),
            file: file.to_owned(),
            change: change.to_owned(),
            line: line.to_owned(),
        })
    }

    /// The folder of its file.
    pub(super) fn folder(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }

    /// Whether one of these is a part of its name.
    pub(super) fn is_named(&self, parts: &[String]) -> bool {
        parts.iter().any(|part| self.name.contains(part))
    }

    /// Its name as a regular expression that matches nothing else.
    pub(super) fn pattern(&self) -> String {
        let mut pattern = String::from("^");
        for letter in self.name.chars() {
            if letter.is_ascii_punctuation() {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push('$');
        pattern
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::mutants) fn mutant(file: &str, change: &str) -> Mutant {
        Mutant {
            name: format!("{SOURCES}{file}:1:2: {change}"),
            file: file.to_owned(),
            change: change.to_owned(),
            line: format!("the line of {change}"),
        }
    }

    #[test]
    fn the_tools_list_is_read() {
        let name = "src/mutants/mutant.rs:1:5: replace < with <= in Mutant::read";
        let entry = serde_json::json!({
            "name": name, "file": "src/mutants/mutant.rs", "span": {"start": {"line": 1}}
        });
        let mutant = Mutant::read(&entry, Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert_eq!(mutant.change, "replace < with <= in Mutant::read");
        assert_eq!(mutant.line, "//! One mutant: a change to one place of the source.");
        assert!(Mutant::read(&serde_json::json!({ "name": 1 }), Path::new("")).is_err());
    }

    #[test]
    fn a_pattern_is_the_name_letter_by_letter() {
        assert_eq!(
            mutant("a/b.rs", "replace f -> Option<u8> with Some(1)").pattern(),
            r"^crates\/larder\/src\/a\/b\.rs\:1\:2\: replace f \-\> Option\<u8\> with Some\(1\)$"
        );
    }
}
