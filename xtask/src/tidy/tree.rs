//! The text files of the workspace, read once.

use std::fs;
use std::path::Path;

use crate::files;

/// Files larger than this count as data.
const TEXT_BYTES_MAX: u64 = 2 << 20;

/// A text file.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// Path from the root, with `/` between names.
    pub(super) path: String,
    /// Its content.
    pub(super) text: String,
}

impl SourceFile {
    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Whether the name ends with `.` and `extension`.
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        let tests = |part: &str| part == "tests" || part == "tests.rs";
        self.path.split('/').any(tests)
    }
}

/// All text files of the workspace, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    /// Reads the files that git tracks or would track; without git, all files except build output.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut paths = match files::tracked(root) {
            Ok(paths) => paths,
            Err(_) => files::walk(root)?,
        };
        paths.sort();
        paths.dedup();
        // Skip files that were deleted since they were listed, and files that are not text.
        let files = paths.into_iter().filter_map(|path| {
            let text = read_text(&root.join(&path))?;
            Some(SourceFile { path, text })
        });
        Ok(Self { files: files.collect() })
    }

    /// All files.
    pub(super) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The Rust files.
    pub(super) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.has_extension("rs"))
    }

    /// The file at this path.
    pub(super) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree that exists only in a test.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: (*path).into(), text: (*text).into() };
        Self { files: files.iter().map(file).collect() }
    }
}

fn read_text(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    if size > TEXT_BYTES_MAX { None } else { fs::read_to_string(path).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_found_with_and_without_git() {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tree = Tree::read(xtask).unwrap();
        assert!(tree.file("src/tidy/tree.rs").is_some_and(|f| f.text.contains("struct Tree")));
        let paths = files::walk(xtask).unwrap();
        assert!(paths.contains(&"src/tidy/tree.rs".to_owned()));
    }

    #[test]
    fn tests_are_told_by_their_place() {
        let tree = Tree::of(&[("a/tests/it/x.rs", ""), ("a/src/tests.rs", ""), ("a/src/x.rs", "")]);
        let tests: Vec<bool> = tree.rust().map(SourceFile::is_test).collect();
        assert_eq!(tests, [true, true, false]);
    }
}
