//! NVMe drives of Linux: what they are, what they say of Flexible Data Placement, and how to write
//! to their reclaim unit handles.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | who carries commands out: a drive behind the kernel, or the model's controller |
//! | [`fdp`] | what a drive says of its placement, and its counters |
//! | `ioctl` | admin and I/O commands through the kernel's pass-through ioctls (Linux) |
//! | [`node`] | device nodes, partitions and namespaces, found in sysfs (Linux) |
//!
//! Commands are encoded, and answers decoded, by [`larder_ssd::nvme`]: the same code that the model's
//! controller answers with.

pub mod commands;
pub mod fdp;
#[cfg(target_os = "linux")]
mod ioctl;
#[cfg(target_os = "linux")]
pub mod node;

pub use commands::{CommandError, Commands, ModelDrive};
pub use fdp::{FdpCounters, FdpState};
#[cfg(target_os = "linux")]
pub use ioctl::DriveFile;
#[cfg(target_os = "linux")]
pub use node::{Node, NodeKind};
