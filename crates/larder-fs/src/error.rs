//! What can go wrong in a file system, by the names that programs know.

use std::fmt;

/// What went wrong, to match on. Most kinds are errors of POSIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file, directory or inode (`ENOENT`).
    NotFound,
    /// The name is taken (`EEXIST`).
    Exists,
    /// What should be a directory is none (`ENOTDIR`).
    NotDirectory,
    /// What should not be a directory is one (`EISDIR`).
    IsDirectory,
    /// The directory has entries (`ENOTEMPTY`).
    NotEmpty,
    /// There is no room for what the call would add; nothing of it was done (`ENOSPC`).
    NoSpace,
    /// A name is longer than 255 bytes, or a symbolic link's target than 4095 (`ENAMETOOLONG`).
    NameTooLong,
    /// The arguments mean nothing: an empty name, one with `/`, a directory moved into itself (`EINVAL`).
    InvalidRequest,
    /// The inode has as many names as it can (`EMLINK`).
    TooManyLinks,
    /// The file would be longer than files can be (`EFBIG`).
    FileTooLarge,
    /// The call is not for this kind of file (`EPERM`).
    NotPermitted,
    /// There is no such extended attribute (`ENODATA`).
    NoAttribute,
    /// What is on the blocks fails its checks (`EIO`).
    Damaged,
    /// The storage below failed (`EIO`).
    Io,
    /// Writing has failed before, and the file system takes no more changes (`EROFS`).
    ReadOnly,
    /// The store holds no file system, another one, or cannot hold one. Nothing was written.
    Setup,
}

/// An error: a kind to match on, what was being done, and the cause below.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<larder_device::Error>,
}

/// What calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` while doing what `context` says.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// Something on the blocks that fails its checks.
    pub(crate) fn damaged(context: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, context)
    }

    /// What the storage below reported while doing what `context` says.
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
        self.source.as_ref().map(|error| error as _)
    }
}
