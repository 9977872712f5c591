//! Rungs of the ladder: how placement reaches a device, and why a rung did not hold.

use std::fmt;
use std::path::PathBuf;

use crate::placement::PlacementInfo;

/// How placement reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RungKind {
    /// Write streams of the block layer.
    WriteStreams,
    /// Commands with a data placement directive.
    Passthrough,
    /// Not at all.
    None,
}

impl RungKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteStreams => "write streams",
            Self::Passthrough => "passthrough",
            Self::None => "none",
        }
    }
}

impl fmt::Display for RungKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteStreams => "write streams",
            Self::Passthrough => "NVMe passthrough",
            Self::None => "none",
        })
    }
}

/// Where on the ladder a device stands. Its `Display` is one line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rung {
    /// How placement reaches it.
    pub kind: RungKind,
    /// The node that takes the writes.
    pub node: PathBuf,
    /// What it offers.
    pub placement: PlacementInfo,
    /// Why there is no placement; empty where there is.
    pub why: String,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.display();
        match self.kind {
            RungKind::None => return write!(f, "placement: none on {node} ({})", self.why),
            kind => write!(f, "placement: {kind} of {node}")?,
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

/// Bytes for people: whole in the largest unit that divides them.
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

/// A rung that was tried and did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// Which.
    pub kind: RungKind,
    /// Why not.
    pub why: String,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.why)
    }
}
