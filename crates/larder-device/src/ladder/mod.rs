//! From what a user names to an open device, and how far placement reaches it.
//!
//! Placement has a ladder: the write streams of the block layer (Linux 6.16), NVMe passthrough, none.
//! [`open`] takes the first rung that holds and says which, and why not those above it. It never
//! falls in silence.
//!
//! | target | what is opened | rungs |
//! |---|---|---|
//! | `file:PATH` | a regular file, or a block device as one | none |
//! | `block:PATH` | a block device or a partition | write streams (not of a partition), none |
//! | `nvme:PATH` | a namespace or a partition, past the block layer | passthrough, none |
//! | `PATH` | the file, block or character device that is there | all that it can have |

mod climb;
#[cfg(target_os = "linux")]
mod watched;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::file::FileOptions;
use crate::nvme::live;
use crate::placement::PlacementInfo;

/// What a user wants of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PlacementMode {
    /// Opening fails where no rung holds.
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
    /// Where on the ladder it stands.
    pub rung: Rung,
    /// The rungs above it, and why they did not hold.
    pub missed: Vec<Missed>,
    /// What the user must be told: placement was preferred and there is none.
    pub notice: Option<String>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("rung", &self.rung)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

/// What a user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The prefix, if there is one.
    pub kind: Option<TargetKind>,
    /// The path behind it.
    pub path: PathBuf,
}

/// What a target's prefix asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetKind {
    /// `file:`
    File,
    /// `block:`
    Block,
    /// `nvme:`
    Nvme,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefixes = [
            ("file:", TargetKind::File),
            ("block:", TargetKind::Block),
            ("nvme:", TargetKind::Nvme),
        ];
        let found =
            prefixes.iter().find_map(|(prefix, kind)| Some((*kind, text.strip_prefix(prefix)?)));
        let (kind, path) = found.map_or((None, text), |(kind, path)| (Some(kind), path));
        if path.is_empty() {
            return Err(format!("\"{text}\" names no path, such as block:/dev/nvme0n1"));
        }
        Ok(Self { kind, path: path.into() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Some(TargetKind::File) => "file:",
            Some(TargetKind::Block) => "block:",
            Some(TargetKind::Nvme) => "nvme:",
            None => "",
        })?;
        write!(f, "{}", self.path.display())
    }
}

#[cfg(target_os = "linux")]
pub use watched::drive_counters;

/// Opens `target` on the highest rung that holds. If it is on an NVMe drive, a thread asks that for
/// its counters every [`live::DEFAULT_INTERVAL`] ([`DeviceStats::drives`]).
///
/// # Errors
/// [`ErrorKind::Setup`] if the target cannot be opened, or cannot place although that is required:
/// with what was tried, why it did not hold, and the way out.
///
/// [`DeviceStats::drives`]: crate::DeviceStats::drives
pub fn open(target: &str, options: &OpenOptions) -> Result<Opened, Error> {
    open_asking(target, options, Some(live::DEFAULT_INTERVAL))
}

/// The same, asking every `interval` (a millisecond at least), or, without one, never: there is no
/// thread then, and no counters. A drive that may not be asked is none either; its report says why.
///
/// # Errors
/// As [`open`].
pub fn open_asking(
    target: &str,
    options: &OpenOptions,
    interval: Option<Duration>,
) -> Result<Opened, Error> {
    let target = target.parse().map_err(|why: String| Error::new(ErrorKind::Setup, why))?;
    climb::open(&target, options, interval.map(|it| it.max(Duration::from_millis(1))))
}

#[cfg(test)]
mod tests;
