//! What can go wrong in the cache. A miss is not an error.

use std::fmt;

/// What went wrong, for callers that choose what to do next.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// assert_eq!(block_on(cache.get(b"")).unwrap_err().kind(), larder::ErrorKind::InvalidInput);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration cannot work, or does not fit the device.
    Config,
    /// A key or a value is of a length that no tier can hold.
    InvalidInput,
    /// There is no room for now: values in use pin all of it.
    Busy,
    /// The device refused what the cache cannot do without: its metadata at open and close, or to
    /// write down that a value is void.
    Device,
    /// Another cache of this process has the device, or a part of it.
    InUse,
    /// The device holds something else than a cache of this program and version.
    Foreign,
}

/// An error of the cache: a kind to match on, what was being done, and the cause.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let error = block_on(cache.get(b"")).unwrap_err();
/// assert_eq!(error.to_string(), "key of 0 bytes: must be 1 to 65535");
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<larder_device::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn device(message: impl Into<String>, source: larder_device::Error) -> Self {
        Self { kind: ErrorKind::Device, message: message.into(), source: Some(source) }
    }

    /// Another cache has the device.
    pub(crate) fn in_use(source: larder_device::Error) -> Self {
        let (kind, message) = (ErrorKind::InUse, "cannot claim the device".to_owned());
        Self { kind, message, source: Some(source) }
    }

    /// The same of one of several.
    pub(crate) fn of(self, whose: &str) -> Self {
        Self { message: format!("{whose}: {}", self.message), ..self }
    }

    /// What went wrong, to match on.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(block_on(cache.get(b"")).unwrap_err().kind(), larder::ErrorKind::InvalidInput);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
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
