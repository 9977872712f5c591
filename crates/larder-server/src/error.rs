//! Failures of a server as a whole. A failure of one connection only ends that connection.

use std::fmt;

use larder_net::tls::TlsFault;

/// The kind of failure, to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or an address is invalid.
    Config,
    /// An address cannot be listened on: it is in use, or not allowed.
    Listen,
    /// The operating system refuses a thread, a descriptor or a ring.
    System,
    /// The cache cannot be opened or closed.
    Cache,
}

/// Why a server did not start, or did not end well.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// `doing` says what could not be done.
    pub(crate) fn system(
        kind: ErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, message: doing.into(), source: Some(source.into()) }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<TlsFault> for Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(ErrorKind::Config, format!("TLS: {fault}"))
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
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

impl From<larder::Error> for Error {
    fn from(error: larder::Error) -> Self {
        Self::system(ErrorKind::Cache, "the cache", error)
    }
}
