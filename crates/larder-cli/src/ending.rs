//! How a command ended.

/// How a command that did not fail ended.
pub(crate) enum Ending {
    Complete,
    Interrupted,
}
