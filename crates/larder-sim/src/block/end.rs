//! Why a thread of a round ends.

use super::shadow::Wrong;

/// Why a thread ends: a client, or one that compares files or moves the visitor.
pub(super) enum End {
    /// The server was told to end.
    Gone,
    Wrong(Wrong),
    Failed(String),
}
