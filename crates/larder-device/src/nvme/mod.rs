//! NVMe drives of Linux: what they are, what they say of Flexible Data Placement, and how to write
//! to their reclaim unit handles.
//!
//! | module | what it is |
//! |---|---|
//! | `access` | what this user may do with a device node (Linux) |
//! | [`commands`] | who carries commands out: a drive behind the kernel, or the model's controller |
//! | [`fdp`] | what a drive says of its placement, and its counters |
//! | `ioctl` | admin and I/O commands through the kernel's pass-through ioctls (Linux) |
//! | [`live`] | the counters of a drive while a cache runs on it |
//! | [`prepare`] | FDP enabled and a namespace with handles made |
//! | [`report`] | what they are |
//! | `paths` | which ways of placement there are for this user (Linux) |
//! | [`smart`] | health, wear, and how long a drive will last |
//! | [`survey`] | all that a user may know of a namespace's placement |
//! | [`watch`] | write amplification while it happens |
//! | [`node`] | device nodes, partitions and namespaces, found in sysfs (Linux) |
//! | [`passthrough`] | a namespace, or a partition of one, as device past the block layer (Linux) |
//!
//! Commands are encoded, and answers decoded, by [`larder_ssd::nvme`]: the same code that the model's
//! controller answers with.

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
pub mod report;
pub mod smart;
pub mod survey;
pub mod watch;

pub use commands::{CommandError, Commands, ModelDrive};
pub use fdp::FdpCounters;
#[cfg(target_os = "linux")]
pub use ioctl::{DriveFile, discard};
pub use live::LiveCounters;
#[cfg(target_os = "linux")]
pub use node::{Node, NodeKind};
#[cfg(target_os = "linux")]
pub use passthrough::PassthroughDevice;
pub use report::{DriveReport, Move, Unsaid, Written};
pub use survey::{Asked, Silence, Survey};
pub use watch::Watch;
