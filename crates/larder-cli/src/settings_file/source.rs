//! Where settings come from: the command line, a file, or defaults.

use std::ops::Range;
use std::path::{Path, PathBuf};

use larder_workload::Error;

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    CommandLine,
    File,
    Default,
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CommandLine => "command line",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// A setting, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T>(pub(crate) T, pub(crate) From);

/// The first value that is given.
pub(crate) fn pick<T>(said: Option<T>, file: Option<T>, default: impl FnOnce() -> T) -> Setting<T> {
    match (said, file) {
        (Some(said), _) => Setting(said, From::CommandLine),
        (None, Some(file)) => Setting(file, From::File),
        (None, None) => Setting(default(), From::Default),
    }
}

/// The same for a setting without a default.
pub(crate) fn pick_some<T>(said: Option<T>, file: Option<T>) -> Setting<Option<T>> {
    pick(said.map(Some), file.map(Some), Option::default)
}

/// A file that was read, for messages that name a place in it.
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    pub(crate) fn of(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// An error about a place in the file, with its line and column.
    pub(crate) fn refuse(&self, span: Option<Range<usize>>, message: &str) -> Error {
        let before = span.and_then(|span| self.text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        Error::usage(format!("{}:{line}:{column}: {message}", self.path.display()))
    }
}
