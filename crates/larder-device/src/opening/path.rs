//! Which placement path a device uses, and why others are unavailable.

use std::fmt;
use std::path::PathBuf;

use crate::placement::{PlacementInfo, PlacementPath};

/// The placement of a device. Its `Display` is one line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacementStatus {
    /// The placement path in use.
    pub path: PlacementPath,
    /// The node that takes the writes.
    pub node: PathBuf,
    /// The placement that the device offers.
    pub placement: PlacementInfo,
    /// Why there is no placement; empty if there is.
    pub why: String,
}

impl fmt::Display for PlacementStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.display();
        match self.path {
            PlacementPath::None => return write!(f, "placement: none on {node} ({})", self.why),
            path => write!(f, "placement: {path} of {node}")?,
        }
        let handles = self.placement.handles.saturating_sub(1);
        let plural = if handles == 1 { "" } else { "s" };
        write!(f, ", {handles} handle{plural} beside the default")?;
        match self.placement.reclaim_unit_bytes {
            Some(bytes) => write!(f, ", reclaim units of {}", Size(bytes)),
            None => f.write_str(", reclaim units of unknown size"),
        }
    }
}

/// Bytes for people: a whole number of the largest unit that divides them.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let (mut amount, mut unit) = (self.0, 0);
        while amount > 0 && amount.is_multiple_of(1024) && unit + 1 < UNITS.len() {
            (amount, unit) = (amount / 1024, unit + 1);
        }
        write!(f, "{amount} {}", UNITS[unit])
    }
}

/// A placement path that was tried and is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The path.
    pub path: PlacementPath,
    /// Why it is unavailable.
    pub why: String,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}
