//! One mutant: a change to one place of the source.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Folders of `crates/larder/src` that are mutated.
pub(super) const FOLDERS: [&str; 5] =
    ["engine/tombstones", "engine/soc", "engine/loc", "flash", "cache"];

/// The parent directory of the mutated folders.
const SOURCES: &str = "crates/larder/src/";

/// A change to one place of the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mutant {
    /// The tool's name for it: file, line, column and change.
    pub(super) name: String,
    /// File, below `SOURCES`.
    pub(super) file: String,
    /// The change, and the function it is in.
    pub(super) change: String,
    /// The trimmed source line.
    pub(super) line: String,
    place: SourceRange,
    replacement: String,
}

/// Start and end, as line and column, each counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SourceRange {
    start: (u64, u64),
    end: (u64, u64),
}

impl Mutant {
    /// Reads an entry of the tool's list, and its source line from the tree of that list.
    pub(super) fn read(entry: &Value, tree: &Path) -> Result<Self, String> {
        Self::read_from(entry, |path| {
            fs::read_to_string(tree.join(path)).map_err(|cause| format!("{path}: {cause}"))
        })
    }

    fn read_from(
        entry: &Value,
        source: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let text = |field: &str| entry.get(field)?.as_str();
        let (Some(name), Some(path), Some(replacement), Some(place)) =
            (text("name"), text("file"), text("replacement"), SourceRange::read(entry))
        else {
            return Err(format!("cargo-mutants lists what we cannot read: {entry}"));
        };
        let source = source(path)?;
        let at = usize::try_from(place.start.0).unwrap_or(0).saturating_sub(1);
        // The name is PATH:LINE:COLUMN: CHANGE.
        let change = name.split_once(": ").map_or(name, |(_, change)| change);
        Ok(Self {
            name: name.to_owned(),
            file: path.strip_prefix(SOURCES).unwrap_or(path).to_owned(),
            change: change.to_owned(),
            line: source.lines().nth(at).unwrap_or_default().trim().to_owned(),
            place,
            replacement: replacement.to_owned(),
        })
    }

    /// The folder of its file: a wing, or a part of the wing `engine`.
    pub(super) fn folder(&self) -> &str {
        let inside = self.file.strip_prefix("engine/").unwrap_or(&self.file);
        let name = inside.split('/').next().unwrap_or_default();
        &self.file[..self.file.len() - inside.len() + name.len()]
    }

    /// Whether its name contains one of these parts.
    pub(super) fn is_named(&self, parts: &[String]) -> bool {
        parts.iter().any(|part| self.name.contains(part))
    }

    /// Runs a function while the tree has this change. The change is undone afterwards.
    pub(super) fn applied<T>(
        &self,
        tree: &Path,
        run: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let path = tree.join(SOURCES).join(&self.file);
        let told = |cause| format!("{}: {cause}", path.display());
        let source = fs::read_to_string(&path).map_err(told)?;
        let changed = self.place.replaced(&source, &self.replacement);
        let changed = changed.ok_or_else(|| format!("{}: no such place", self.name))?;
        fs::write(&path, changed).map_err(told)?;
        let result = run();
        fs::write(&path, source).map_err(told)?;
        result
    }
}

impl SourceRange {
    fn read(entry: &Value) -> Option<Self> {
        let number = |field: &str| entry.pointer(field)?.as_u64();
        let point = |line, column| Some((number(line)?, number(column)?));
        Some(Self {
            start: point("/span/start/line", "/span/start/column")?,
            end: point("/span/end/line", "/span/end/column")?,
        })
    }

    /// The source with the text at this place replaced.
    fn replaced(&self, source: &str, replacement: &str) -> Option<String> {
        let (start, end) = (byte_of(source, self.start)?, byte_of(source, self.end)?);
        Some([source.get(..start)?, replacement, source.get(end..)?].concat())
    }
}

/// The byte offset of a line and a column. A column counts characters.
fn byte_of(source: &str, (line, column): (u64, u64)) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let letters = source.get(start..)?.char_indices().map(|(at, _)| at);
    letters.chain([source.len() - start]).nth(column).map(|at| start + at)
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
            place: SourceRange { start: (1, 1), end: (1, 1) },
            replacement: String::new(),
        }
    }

    const SOURCE: &str = "// Über uns\nfn f() -> u8 {\n    a < b\n}\n";

    fn entry(start: (u64, u64), end: (u64, u64), replacement: &str) -> Value {
        serde_json::json!({
            "name": "crates/larder/src/engine/loc/x.rs:3:7: replace < with <= in f",
            "file": "crates/larder/src/engine/loc/x.rs",
            "replacement": replacement,
            "span": {
                "start": {"line": start.0, "column": start.1},
                "end": {"line": end.0, "column": end.1},
            },
        })
    }

    fn read(entry: &Value) -> Mutant {
        Mutant::read_from(entry, |_| Ok(SOURCE.to_owned())).unwrap()
    }

    #[test]
    fn the_tools_list_is_read() {
        let mutant = read(&entry((3, 7), (3, 8), "<="));
        assert_eq!((mutant.file.as_str(), mutant.folder()), ("engine/loc/x.rs", "engine/loc"));
        assert_eq!(mutant.change, "replace < with <= in f");
        assert_eq!(mutant.line, "a < b");
        assert!(mutant.is_named(&["nowhere".to_owned(), "x.rs:3".to_owned()]));
        assert!(Mutant::read(&serde_json::json!({ "name": 1 }), Path::new("")).is_err());
    }

    #[test]
    fn a_change_is_made_in_its_place_alone_and_undone() {
        let tree = std::env::temp_dir().join(format!("xtask-mutant-{}", std::process::id()));
        let file = tree.join(SOURCES).join("engine/loc/x.rs");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, SOURCE).unwrap();
        let seen =
            |mutant: &Mutant| mutant.applied(&tree, || Ok(fs::read_to_string(&file).unwrap()));
        let changed = [
            (entry((3, 7), (3, 8), "<="), SOURCE.replace('<', "<=")),
            (entry((3, 5), (3, 10), "0"), SOURCE.replace("a < b", "0")),
            (entry((1, 4), (1, 8), "Of"), SOURCE.replace("Über", "Of")),
            (entry((2, 14), (4, 2), "{ 1 }"), "// Über uns\nfn f() -> u8 { 1 }\n".to_owned()),
        ];
        for (entry, expected) in changed {
            assert_eq!(seen(&read(&entry)).unwrap(), expected);
            assert_eq!(fs::read_to_string(&file).unwrap(), SOURCE);
        }
        assert!(seen(&read(&entry((9, 1), (9, 2), ""))).unwrap_err().contains("no such place"));
        fs::remove_dir_all(&tree).unwrap();
    }
}
