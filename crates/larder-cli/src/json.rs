//! JSON to a file or to standard output: whole, or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use larder_lab::Error;
use serde::Serialize;
use tempfile::NamedTempFile;

/// Where JSON goes. Made before a long run, so that a bad place is found before the work is done.
pub(crate) enum JsonTarget {
    Nowhere,
    Stdout,
    File { path: PathBuf, temporary: NamedTempFile },
}

impl JsonTarget {
    pub(crate) fn prepare(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::Nowhere) };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let refuse = |error: &dyn std::fmt::Display| {
            Error::run(format!("--json {}: cannot write: {error}", path.display()))
        };
        if path.is_dir() {
            return Err(refuse(&"it is a directory"));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let temporary = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")));
        Ok(Self::File { path: path.to_owned(), temporary: temporary.map_err(|e| refuse(&e))? })
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    pub(crate) fn write(self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::run(format!("--json: {error}")))?;
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => print(&format!("{text}\n")),
            Self::File { path, mut temporary } => {
                let written = writeln!(temporary, "{text}").and_then(|()| {
                    temporary.persist(&path).map_err(|error| error.error)?;
                    Ok(())
                });
                written.map_err(|e| Error::run(format!("--json {}: {e}", path.display())))
            }
        }
    }
}

/// Prints to standard output. A reader who has seen enough (a closed pipe) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
