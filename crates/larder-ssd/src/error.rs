//! What the simulated drive refuses.

use std::fmt;

/// Why the drive refused, for callers that choose what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration describes no drive that could work.
    Config,
    /// A logical page beyond the capacity, or a placement that the drive does not have.
    OutOfRange,
    /// Every full reclaim unit of the group is entirely live: nothing can be reclaimed there. A
    /// drive with one reclaim group never gets here; a group fills up when the host puts more into
    /// it than it holds. Deallocating or overwriting what lies there helps.
    NoSpace,
    /// The drive (of an open-channel drive: the die) has lost more units or blocks than its spare
    /// covers and takes no more. What it holds can still be read.
    ReadOnly,
    /// A program that does not go on where its block was programmed last.
    OutOfOrder,
    /// A program of pages that hold data, or of a block that must be erased first.
    NotErased,
    /// A read of pages that hold nothing, or a use of a block that nobody allocated.
    NotWritten,
    /// The block failed, now or before. Other blocks go on; what a failed program left behind can
    /// be read.
    BadBlock,
    /// There are not enough free channels, dies or soft planes for a virtual SSD.
    NoResources,
    /// A virtual SSD that does not exist, or a block that is not one of its own, or no longer.
    NotOwned,
    /// An append to a block that is full, or of more than it has room for.
    BlockFull,
    /// Something that is in use cannot be ended, replaced or begun a second time.
    InUse,
    /// The catalogue of an array of drives cannot be believed. Nothing was written.
    Catalogue,
    /// What was kept of a drive cannot be believed, or not be read. Nothing was written.
    Image,
    /// The power failed during or before this command, and has not come back.
    PowerLoss,
}

/// A refusal: a kind to match on and a message that names the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Why, to match on.
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
