//! Errors below the cache.

use std::fmt;

/// The kind of an error, for callers that decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request was never sent: out of bounds, misaligned, too large, or an unknown handle.
    InvalidRequest,
    /// The device has no room for the bytes (`ENOSPC`, or a simulated drive that can reclaim
    /// nothing).
    NoSpace,
    /// The device reported that this transfer failed; others may still succeed.
    Io,
    /// The device is too busy: the request would have had to wait behind too many others, or has waited too long. It
    /// was not carried out, or only in part. Later requests may succeed.
    Busy,
    /// The request did not end within its timeout. It may still happen, at any later time.
    TimedOut,
    /// The device is gone; no further request will succeed.
    Gone,
    /// Another cache has the device, or a part of it.
    InUse,
    /// The device could not be opened, or does not fit its configuration.
    Setup,
    /// Block store: the append does not begin where the submitted part of the block ends.
    NotSequential,
    /// Block store: the append ends beyond the end of the block.
    BlockFull,
    /// Block store: there is no such block, it was freed, or it takes no more appends because one failed.
    NotOpen,
    /// Block store: the range ends beyond the written part of the block, or there is no such stream.
    OutOfRange,
    /// Block store: the offset or the length is no multiple of the page size, or the length is zero.
    Misaligned,
}

/// An error of the device layer: a kind to match on, what was being done and where, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error of `kind` that happened during `context`.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// An error of the operating system that happened during `context`.
    pub fn from_os(context: impl Into<String>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::NoSpace
            }
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => ErrorKind::Setup,
            _ => ErrorKind::Io,
        };
        Self { kind, context: context.into(), source: Some(source) }
    }

    /// The same error with another kind, which its cause does not show.
    #[must_use]
    pub(crate) fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// The same error as part of `whole`, which is put in front of its message.
    #[must_use]
    pub fn within(mut self, whole: &str) -> Self {
        self.context = format!("{whole}: {}", self.context);
        self
    }

    /// The kind of the error, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
