//! What can go wrong below the cache.

use std::fmt;

/// What went wrong, for callers that choose what to do next.
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
    /// The device is too busy: the request would have had to wait behind too many others, or has
    /// waited for too long. It was not carried out, or only in part; later ones may succeed.
    Busy,
    /// The request did not end in the time that it was given. It may still happen, at any time later.
    TimedOut,
    /// The device is gone; nothing more will succeed.
    Gone,
    /// Another cache has the device, or a part of it.
    InUse,
    /// The device could not be opened or does not fit its configuration.
    Setup,
    /// Of a block store: the append does not begin where what was submitted to the block ends.
    NotSequential,
    /// Of a block store: the append ends behind the end of the block.
    BlockFull,
    /// Of a block store: there is no such block, it was freed, or it takes no more since an append failed.
    NotOpen,
    /// Of a block store: the range ends behind what was written of the block, or there is no such stream.
    OutOfRange,
    /// Of a block store: the offset or the length is no multiple of the page, or the length is zero.
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
    /// An error of `kind` while doing what `context` says.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// An error that the operating system reported while doing what `context` says.
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

    /// The same error under another kind, which its cause does not tell.
    #[must_use]
    pub(crate) fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// The same error, said of a part: `whole` is put in front of its message.
    #[must_use]
    pub fn within(mut self, whole: &str) -> Self {
        self.context = format!("{whole}: {}", self.context);
        self
    }

    /// What went wrong, to match on.
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
