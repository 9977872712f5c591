//! What the index asks of somebody who puts a record under a key.

use super::readers::{Locked, LockedAlone};
use super::table::Location;

/// What became of a record that was to be put under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is there.
    Done,
    /// What is there stays.
    Refused,
    /// It could not be written.
    NoRoom,
}

/// Somebody who puts a record under a key, and is asked with the lock of its shard. Who says nothing else
/// overwrites none, and does not mind if it is of no use.
pub(crate) trait Putting {
    /// Whether the record there may be overwritten.
    fn fits(&mut self, _old: Location, _locked: &Locked) -> bool {
        false
    }

    /// Overwrites the record there, which fits; readers without a lock are kept away. `None`: it has to be
    /// appended.
    fn overwrite(&mut self, _old: Location, _locked: &LockedAlone) -> Option<Put> {
        None
    }

    /// Writes the record to another place than that of the old one, if there is one; or why not.
    fn append(&mut self, old: Option<Location>, locked: &Locked) -> Result<Location, Put>;

    /// The record that was appended is of no use.
    fn take_back(&mut self, _appended: Location, _locked: &Locked) {}
}
