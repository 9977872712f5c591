//! Writes JSON to a file or to standard output: complete, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use larder_workload::Error;
use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

/// The destination of JSON. Opened before a long run, so that a bad path is found before the work is done.
pub(crate) enum JsonTarget {
    Nowhere,
    Stdout,
    /// A regular file, new or existing, is replaced when the new content is complete.
    File {
        path: PathBuf,
        temporary: NamedTempFile,
    },
    /// A pipe or a device is written to, never replaced.
    Stream {
        path: PathBuf,
        stream: File,
    },
}

impl JsonTarget {
    pub(crate) fn prepare(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::Nowhere) };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        // We replace the target of a link, not the link.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let prepared = match std::fs::metadata(&target) {
            Ok(found) if found.is_dir() => Err(io::Error::other("it is a directory")),
            Ok(found) if !found.is_file() => OpenOptions::new()
                .write(true)
                .open(&target)
                .map(|stream| Self::Stream { path: path.to_owned(), stream }),
            _ => temporary_beside(&target).map(|temporary| Self::File { path: target, temporary }),
        };
        prepared.map_err(|error| {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists());
            if let Some(dir) = dir {
                return Error::run(format!(
                    "--json {}: there is no directory {}; create it, or name another",
                    path.display(),
                    dir.display()
                ));
            }
            Error::run(format!("--json {}: cannot write: {error}", path.display()))
        })
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Prints the text for people: on standard error, if the JSON goes to standard output.
    pub(crate) fn tell(&self, text: &str) -> Result<(), Error> {
        if self.is_stdout() {
            eprint!("{text}");
            return Ok(());
        }
        print(text)
    }

    pub(crate) fn write(self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::run(format!("--json: {error}")))?;
        let (path, written) = match self {
            Self::Nowhere => return Ok(()),
            Self::Stdout => return print(&format!("{text}\n")),
            Self::Stream { path, mut stream } => (path, writeln!(stream, "{text}")),
            Self::File { path, mut temporary } => {
                let written = writeln!(temporary, "{text}").and_then(|()| {
                    temporary.persist(&path).map_err(|error| error.error)?;
                    Ok(())
                });
                (path, written)
            }
        };
        written.map_err(|error| Error::run(format!("--json {}: {error}", path.display())))
    }
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = Builder::new();
    #[cfg(unix)]
    {
        // Others may read the result, as far as the user's umask allows.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let made = builder.tempfile_in(parent.unwrap_or(Path::new(".")));
    made.map_err(|error| match error.get_ref().and_then(|with_path| with_path.source()) {
        // The name of the temporary file means nothing to the user, so leave it out.
        Some(cause) => io::Error::other(cause.to_string()),
        None => error,
    })
}

/// Prints to standard output. A closed pipe is no failure: the reader has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
