//! A log-structured file system on storage that is written in order: erase blocks, zones, regions of any device.
//!
//! It takes any [`BlockStore`](larder_device::BlockStore), and is used in process ([`FileSystem`]) or mounted
//! (`mount`, Linux). All that has changed goes to a log in batches; what a loss of power leaves is the state between
//! two calls. Inodes and data live in the log alone, and are found by a map in memory, of which a checkpoint is
//! written now and then. A cleaner empties blocks that are mostly dead.
//!
//! | module | what it is |
//! |---|---|
//! | [`FileSystem`] | the calls |
//! | [`mod@fsck`] | whether all that is on a store fits together |
//! | `mount` | the calls for the kernel, by FUSE |
//! | [`attributes`] | what is known of an inode |
//! | [`error`] | what can go wrong |
//!
//! What is not checked here are permissions: the kernel does that (`default_permissions`).

mod address;
pub mod attributes;
pub mod error;
mod filesystem;
mod flash;
mod formats;
pub mod fsck;
#[cfg(target_os = "linux")]
mod fuse;
mod geometry;
mod table;
mod volume;

pub use attributes::{Attributes, Ino, Kind, Owner, ROOT, SetAttributes, Time};
pub use error::{Error, ErrorKind};
pub use filesystem::{DirectoryEntry, FileSystem, Options, SeekTo, Setting, Space};
pub use fsck::{Report, fsck};
#[cfg(target_os = "linux")]
pub use fuse::{MountOptions, Mounted, mount};
pub use volume::{Counts, Renaming};
