//! The errors of the cache. A miss is not an error.

use std::fmt;

/// The kind of an error, for callers that choose how to react.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// assert_eq!(block_on(cache.get(&[7; 65_536])).unwrap_err().kind(), larder::ErrorKind::InvalidInput);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration cannot work, or does not fit the device.
    Config,
    /// The length of a key or a value exceeds what any tier can hold.
    InvalidInput,
    /// There is no room now: values in use pin all of it.
    Busy,
    /// The device failed a request that the cache depends on: its metadata at open and close, or the record that a
    /// value is void.
    Device,
    /// Another cache is using the device, or a part of it.
    InUse,
    /// The device does not contain a cache of this program and version.
    Foreign,
    /// A value that is read in chunks has lost a chunk that was not read yet.
    Incomplete,
    /// The cache was closed.
    Closed,
}

/// An error of the cache: a kind to match on, the operation that failed, and the cause.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let error = block_on(cache.get(&[7; 65_536])).unwrap_err();
/// assert_eq!(error.to_string(), "key of 65536 bytes: must be at most 65535");
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

    /// Prefixes the message with the name of the part that failed, where there are several.
    pub(crate) fn of(self, whose: &str) -> Self {
        let joint = if self.message.is_empty() { "" } else { ": " };
        Self { message: format!("{whose}{joint}{}", self.message), ..self }
    }

    /// The kind of error, to match on.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(block_on(cache.get(&[7; 65_536])).unwrap_err().kind(), larder::ErrorKind::InvalidInput);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// Lets `?` convert the error when a program opens a device for a cache.
///
/// ```
/// use larder::{Error, ErrorKind, FileDevice, FileOptions};
///
/// fn open() -> Result<FileDevice, Error> {
///     Ok(FileDevice::open("/no/such/file", &FileOptions::default())?)
/// }
/// let error = open().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Device);
/// assert!(error.to_string().starts_with("file device /no/such/file: opening the file"));
/// ```
impl From<larder_device::Error> for Error {
    fn from(source: larder_device::Error) -> Self {
        let kind = match source.kind() {
            larder_device::ErrorKind::InUse => ErrorKind::InUse,
            larder_device::ErrorKind::InvalidRequest => ErrorKind::InvalidInput,
            _ => ErrorKind::Device,
        };
        Self { kind, message: String::new(), source: Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) if self.message.is_empty() => source.fmt(f),
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
