//! Errors of a block cache.

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The options or the device cannot be used for a cache.
    Setup,
    /// The content of the cache device is not in the expected format.
    Format,
    /// The content of the cache device is damaged. Data may be lost.
    Damaged,
    /// A core has changed: it no longer matches what the cache knows of it.
    Changed,
    /// A device has failed.
    Device,
}

/// An error. The message names the field and its value, and says what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error of a device while the cache was `doing` something.
    pub(crate) fn of_device(doing: &str, error: &larder_device::Error) -> Self {
        Self::new(ErrorKind::Device, format!("{doing}: {error}"))
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
