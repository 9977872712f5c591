//! NVMe drives on Linux: finding them, reading their Flexible Data Placement (FDP), and writing to their reclaim unit
//! handles.
//!
//! | module | content |
//! |---|---|
//! | `access` | the user's permissions on a device node (Linux) |
//! | [`commands`] | drives that carry out commands: one behind the kernel, or the model's controller |
//! | [`fdp`] | a drive's FDP configurations, handles and counters |
//! | `ioctl` | admin and I/O commands through the kernel's pass-through ioctls (Linux) |
//! | [`live`] | the counters of a drive while a cache runs on it |
//! | [`prepare`] | enabling FDP and creating a namespace with placement handles |
//! | [`DriveReport`] | the report that [`live`] returns |
//! | `paths` | the ways of placement that this user can use (Linux) |
//! | [`smart`] | health, wear, and how long a drive will last |
//! | [`survey`] | everything that the user may read of a namespace's placement |
//! | [`watch`] | write amplification while it happens |
//! | [`node`] | device nodes, partitions and namespaces, found in sysfs (Linux) |
//! | [`passthrough`] | a namespace, or a partition of one, as a device past the block layer (Linux) |
//!
//! [`larder_ssd::nvme`] encodes commands and decodes answers: the same code with which the model's controller answers.

#[cfg(target_os = "linux")]
pub mod access;
pub mod commands;
pub mod fdp;
#[cfg(target_os = "linux")]
mod ioctl;
pub mod live;
#[cfg(target_os = "linux")]
pub mod node;
#[cfg(target_os = "linux")]
pub mod passthrough;
#[cfg(target_os = "linux")]
pub mod paths;
pub mod prepare;
pub mod smart;
pub mod survey;
pub mod watch;

pub use crate::drive_report::{
    DriveReport, FdpCounters, HandleEvents, MOVES_MAX, Move, Unsaid, Written, event_name,
};
pub use commands::{CommandError, Commands, ModelDrive};
#[cfg(target_os = "linux")]
pub use ioctl::{DriveFile, discard};
pub use live::LiveCounters;
#[cfg(target_os = "linux")]
pub use node::{Node, NodeKind};
#[cfg(target_os = "linux")]
pub use passthrough::PassthroughDevice;
pub use survey::{Asked, Silence, Survey};
pub use watch::Watch;
