//! Opens the device that a user names, with the best placement available.
//!
//! There are three placement paths, best first: the write streams of the block layer (Linux 6.16), NVMe passthrough,
//! and none. [`open`] takes the first that works and reports which one it is, and why the better ones do not work. It
//! never falls back silently.
//!
//! | target | what is opened | placement paths |
//! |---|---|---|
//! | `file:PATH` | a regular file, or a block device as one | none |
//! | `block:PATH` | a block device or a partition | write streams (not of a partition), none |
//! | `nvme:PATH` | a namespace or a partition, past the block layer | passthrough, none |
//! | `dax:PATH` | a file or a region of persistent memory, mapped ([`mapped`](crate::mapped)) | none |
//! | `model:SPEC` | a simulated drive in memory ([`ModelSpec`](crate::ModelSpec)) | the model's own |
//! | `PATH` | the file, block or character device at that path | all that it can have |

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
pub use path::{Missed, PlacementStatus};
pub use target::{Target, TargetKind};
#[cfg(target_os = "linux")]
pub use watched::drive_counters;

/// Opens `target` with the best placement path available. If it is on an NVMe drive, a thread reads the drive's
/// counters every [`live::DEFAULT_INTERVAL`] ([`DeviceStats::drives`]).
///
/// # Errors
/// [`ErrorKind::Setup`] if the target cannot be opened, or cannot place although that is required. The message has what
/// was tried, why it failed, and what to do.
///
/// [`DeviceStats::drives`]: crate::DeviceStats::drives
pub fn open(target: &str, options: &OpenOptions) -> Result<Opened, Error> {
    open_asking(target, options, Some(live::DEFAULT_INTERVAL))
}

/// Like [`open`], but reads the counters every `interval` (at least a millisecond). Without an interval there is no
/// such thread, and no counters. If the user may not read the drive, there is no thread either, and the drive's report
/// says why.
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
