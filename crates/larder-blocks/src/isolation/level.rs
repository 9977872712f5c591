//! What tenants of a drive share, from nothing to everything.

use std::fmt;

/// What a tenant of a drive shares with the others; the first level shares nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// Channels of its own: neither bus nor dies are shared.
    Channels,
    /// Dies of its own, on channels that others use.
    Dies,
    /// Shares of the time of dies that others use.
    Software,
    /// Dies that others use, without any division of their time.
    Shared,
    /// Reclaim units that only this tenant writes to.
    ReclaimGroups,
    /// A namespace of a drive.
    Namespace,
    /// A range of a device's addresses.
    Partition,
    /// Unknown.
    Unknown,
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channels => "channels",
            Self::Dies => "dies",
            Self::Software => "software",
            Self::Shared => "none",
            Self::ReclaimGroups => "reclaim groups",
            Self::Namespace => "namespace",
            Self::Partition => "partition",
            Self::Unknown => "unknown",
        })
    }
}
