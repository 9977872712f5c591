//! Errors of the simulated drive.

use std::fmt;

/// Why the drive refused, for callers that branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No drive with this configuration could work.
    Config,
    /// A logical page beyond the capacity, or a placement that the drive does not have.
    OutOfRange,
    /// Every full reclaim unit of the group is entirely live, so nothing can be reclaimed there. A drive with one
    /// reclaim group never gets here; a group fills up when the host puts more into it than it holds. Deallocating or
    /// overwriting data in the group helps.
    NoSpace,
    /// The drive (on an open-channel drive: the die) has lost more units or blocks than its spare covers and accepts no
    /// more writes. Its data can still be read.
    ReadOnly,
    /// A program that does not start at the next page of its block.
    OutOfOrder,
    /// A program of pages that already hold data, or of a block that must be erased first.
    NotErased,
    /// A read of pages that were not programmed, or a use of a block that is not allocated.
    NotWritten,
    /// The block failed, now or before. Other blocks still work; the pages programmed before the failure can be read.
    BadBlock,
    /// There are not enough free channels, dies or soft planes for a virtual SSD.
    NoResources,
    /// A virtual SSD that does not exist, or a block that it does not own (any longer).
    NotOwned,
    /// An append to a block that is full, or of more pages than it has room for.
    BlockFull,
    /// The target is in use, so it cannot be ended, replaced or started a second time.
    InUse,
    /// The catalogue of an array of drives is invalid. Nothing was written.
    Catalogue,
    /// The stored state of a drive is invalid or cannot be read. Nothing was written.
    Image,
    /// The power failed during or before this command, and has not been restored.
    PowerLoss,
}

/// A refusal: a kind to match on, and a message that names the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// A refusal of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind, to match on.
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
