//! Options for opening a target, and the result.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::path::{Missed, PlacementStatus};
use crate::device::Device;
use crate::file_options::FileOptions;

/// Whether a user wants placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlacementMode {
    /// Opening fails if there is no placement.
    Required,
    /// If there is none, the device opens without placement and with a notice.
    #[default]
    Preferred,
    /// Only the default handle is used, whatever the device has.
    Off,
}

impl FromStr for PlacementMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "required" => Ok(Self::Required),
            "preferred" => Ok(Self::Preferred),
            "off" => Ok(Self::Off),
            _ => Err("use required, preferred or off".to_owned()),
        }
    }
}

impl fmt::Display for PlacementMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::Preferred => "preferred",
            Self::Off => "off",
        })
    }
}

/// Options for opening a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Whether placement is wanted.
    pub placement: PlacementMode,
    /// Capacity, queue and transfers, and whether to create a file. Options that only files need are ignored for
    /// devices.
    pub file: FileOptions,
}

/// An open device and its placement.
#[non_exhaustive]
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// The placement that was reached.
    pub status: PlacementStatus,
    /// The better placement paths, and why they are unavailable.
    pub missed: Vec<Missed>,
    /// Whether transfers bypass the page cache of the system.
    pub direct: bool,
    /// A notice for the user: placement was preferred but there is none, or memory is emulated.
    pub notice: Option<String>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("status", &self.status)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
