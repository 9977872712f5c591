//! From what a user names to an open device, and how far placement reaches it.
//!
//! There are three placement paths, the best first: the write streams of the block layer (Linux 6.16), NVMe
//! passthrough, none. [`open`] takes the first that can be had and says which, and why not those before it. It
//! never falls back in silence.
//!
//! | target | what is opened | placement paths |
//! |---|---|---|
//! | `file:PATH` | a regular file, or a block device as one | none |
//! | `block:PATH` | a block device or a partition | write streams (not of a partition), none |
//! | `nvme:PATH` | a namespace or a partition, past the block layer | passthrough, none |
//! | `dax:PATH` | a file or a region of persistent memory, mapped ([`mapped`](crate::mapped)) | none |
//! | `PATH` | the file, block or character device that is there | all that it can have |

mod choose;
mod opened;
mod path;
mod target;
#[cfg(target_os = "linux")]
mod watched;

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::nvme::live;

pub use opened::{OpenOptions, Opened, PlacementMode};
pub use path::{Missed, PlacementPath, PlacementStatus};
pub use target::{Target, TargetKind};
#[cfg(target_os = "linux")]
pub use watched::drive_counters;

/// Opens `target` with the best placement path that can be had. If it is on an NVMe drive, a thread asks that for
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
    choose::open(&target, options, interval.map(|it| it.max(Duration::from_millis(1))))
}

#[cfg(test)]
mod tests;
