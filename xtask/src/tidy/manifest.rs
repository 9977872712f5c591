//! A line-by-line parser for the parts of `Cargo.toml` that the rules need.

use super::tree::SourceFile;

/// A line `key = value` of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The table that it is in, without brackets.
    pub(super) table: &'a str,
    /// The text before the `=`.
    pub(super) key: &'a str,
    /// The text after the `=`.
    pub(super) value: &'a str,
    /// Line, counted from 1.
    pub(super) line: usize,
}

/// All entries of a manifest. Continuation lines of lists are not entries.
pub(super) fn entries(file: &SourceFile) -> Vec<Entry<'_>> {
    let mut table = "";
    let mut entries = Vec::new();
    for (line, text) in file.lines() {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('[').and_then(|text| text.split(']').next()) {
            table = name.trim();
        } else if text.starts_with('#') {
        } else if let Some((key, value)) = text.split_once('=') {
            entries.push(Entry { table, key: key.trim(), value: value.trim(), line });
        }
    }
    entries
}

/// Name of the crate of a manifest.
pub(super) fn package_name(file: &SourceFile) -> Option<&str> {
    let name = entries(file).into_iter().find(|e| e.table == "package" && e.key == "name")?;
    Some(name.value.trim_matches('"'))
}

/// A dependency on a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency<'a> {
    /// Name of the crate, even if it is renamed.
    pub(super) name: &'a str,
    /// Whether only tests, examples and benches use it.
    pub(super) dev: bool,
    /// Line, counted from 1.
    pub(super) line: usize,
}

/// All dependencies of a manifest: normal, dev and build, for all targets.
pub(super) fn dependencies(file: &SourceFile) -> Vec<Dependency<'_>> {
    entries(file).iter().filter_map(dependency).collect()
}

fn dependency<'a>(entry: &Entry<'a>) -> Option<Dependency<'a>> {
    // `[dependencies]`, `[target.'…'.dependencies]`, and `[dependencies.name]` with one key on each line.
    let last = entry.table.rsplit('.').next()?;
    let (kind, name) = if last.ends_with("dependencies") {
        (last, entry.key.split('.').next()?)
    } else {
        let (before, name) = entry.table.rsplit_once('.')?;
        let kind = before.rsplit('.').next().filter(|kind| kind.ends_with("dependencies"))?;
        (kind, name)
    };
    if entry.table.starts_with("workspace") {
        return None;
    }
    let name = renamed(entry).unwrap_or(name).trim_matches(['"', '\'']);
    Some(Dependency { name, dev: kind == "dev-dependencies", line: entry.line })
}

/// The real name in `x = { package = "name" }`.
fn renamed<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    let value = if entry.key == "package" {
        entry.value
    } else {
        let (_, after) = entry.value.split_once("package")?;
        after.trim_start().strip_prefix('=')?
    };
    value.trim_start().strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile { path: "Cargo.toml".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn every_form_of_dependency_is_seen() {
        let file = file(
            "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n# b = 1\n\
             c = { package = \"d\", path = \"..\" }\n[dev-dependencies]\ne = \"1\"\n\
             [target.'cfg(unix)'.dependencies]\nf = \"1\"\n[dependencies.g]\nversion = \"1\"\n\
             [workspace.dependencies]\nh = \"1\"\n",
        );
        let found: Vec<_> = dependencies(&file).iter().map(|d| (d.name, d.dev, d.line)).collect();
        assert_eq!(
            found,
            [("a", false, 4), ("d", false, 6), ("e", true, 8), ("f", false, 10), ("g", false, 12)]
        );
        assert_eq!(package_name(&file), Some("x"));
    }
}
