//! A vSSD that a command asks for, here or of the process that has the image.

use serde::{Deserialize, Serialize};

/// A vSSD that a user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Name of its owner; may be empty.
    pub(super) name: String,
    /// "channel", "die", "software" or "none".
    pub(super) isolation: String,
    pub(super) weight: Option<u32>,
    pub(super) mb_s: u32,
    pub(super) capacity: u64,
}
