//! Errors of the file system, with their POSIX names.

use std::fmt;

/// The kind of an error, to match on. Most kinds are errors of POSIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file, directory or inode (`ENOENT`).
    NotFound,
    /// The name is already in use (`EEXIST`).
    Exists,
    /// A directory was expected (`ENOTDIR`).
    NotDirectory,
    /// A directory was not expected (`EISDIR`).
    IsDirectory,
    /// The directory is not empty (`ENOTEMPTY`).
    NotEmpty,
    /// There is no room for what the call would add; nothing was changed (`ENOSPC`).
    NoSpace,
    /// A name is longer than 255 bytes, or the target of a symbolic link longer than 4095 (`ENAMETOOLONG`).
    NameTooLong,
    /// The arguments are invalid: for example an empty name, a name with `/`, a directory moved into itself (`EINVAL`).
    InvalidRequest,
    /// The inode has the maximum number of links (`EMLINK`).
    TooManyLinks,
    /// The file would exceed the maximum length (`EFBIG`).
    FileTooLarge,
    /// The call is not permitted for this kind of file (`EPERM`).
    NotPermitted,
    /// There is no such extended attribute (`ENODATA`).
    NoAttribute,
    /// Data on the blocks fails its checks (`EIO`).
    Damaged,
    /// The underlying store failed (`EIO`).
    Io,
    /// A write has failed before, and the file system accepts no more changes (`EROFS`).
    ReadOnly,
    /// The store holds no file system or a foreign one, or cannot hold one. Nothing was written.
    Setup,
}

/// An error: a kind to match on, the operation that failed, and the underlying cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<larder_device::Error>,
}

/// Result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` during the operation `context`.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// Data on the blocks that fails its checks.
    pub(crate) fn damaged(context: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, context)
    }

    /// An error of the underlying store during the operation `context`.
    pub(crate) fn below(context: impl Into<String>, source: larder_device::Error) -> Self {
        let kind = match source.kind() {
            larder_device::ErrorKind::NoSpace => ErrorKind::NoSpace,
            larder_device::ErrorKind::NotOpen | larder_device::ErrorKind::OutOfRange => {
                ErrorKind::Damaged
            }
            _ => ErrorKind::Io,
        };
        Self { kind, context: context.into(), source: Some(source) }
    }

    /// The kind, to match on.
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
        self.source.as_ref().map(|error| error as _)
    }
}
