//! How a target is opened, and what came of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::path::{Missed, PlacementStatus};
use crate::device::Device;
use crate::file::FileOptions;

/// What a user wants of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlacementMode {
    /// Opening fails where there is no placement.
    Required,
    /// Without, if there is none, and with a notice.
    #[default]
    Preferred,
    /// No handle but the default one, whatever the device has.
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

/// How a target is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// What is wanted of placement.
    pub placement: PlacementMode,
    /// Capacity, queue and transfers; whether a file is made. What a file alone needs is ignored for
    /// devices.
    pub file: FileOptions,
}

/// An open device and how placement reaches it.
#[non_exhaustive]
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// How far placement reaches it.
    pub status: PlacementStatus,
    /// The better placement paths, and why they cannot be had.
    pub missed: Vec<Missed>,
    /// What the user must be told: placement was preferred and there is none, or memory is emulated.
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
