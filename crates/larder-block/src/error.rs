//! What can go wrong in a block cache.

use std::fmt;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Options or a device that no cache can be made of.
    Setup,
    /// What lies on the cache device is not what it has to be.
    Format,
    /// What lies on the cache device is damaged, and data may be lost with it.
    Damaged,
    /// A core is not what the cache has of it.
    Changed,
    /// A device has failed.
    Device,
}

/// What went wrong: the field, its value, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A device has failed in the course of something.
    pub(crate) fn of_device(doing: &str, error: &larder_device::Error) -> Self {
        Self::new(ErrorKind::Device, format!("{doing}: {error}"))
    }

    /// What kind of error it is.
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
