//! A log-structured file system on sequentially written storage: erase blocks, zones, regions of any device.
//!
//! It works on any [`BlockStore`](larder_blocks::BlockStore), and is used in process ([`FileSystem`]) or mounted
//! (`mount`, Linux). Changes go to a log in batches; a power loss leaves the state between two calls. Inodes and data
//! are only in the log, and are found by a map in memory, of which a checkpoint is written from time to time. A cleaner
//! empties blocks that are mostly dead.
//!
//! | module | what it is |
//! |---|---|
//! | [`FileSystem`] | the calls |
//! | [`mod@fsck`] | consistency check of a store |
//! | `mount` | the kernel interface, by FUSE |
//! | [`attributes`] | the attributes of an inode |
//! | [`error`] | errors |
//! | `volume` | the state in memory, and how it goes to the log and comes back |
//! | `formats` | the bytes on the blocks |
//! | `flash`, `address` | the store in pages; the address of a page with its checksum |
//! | `table`, `geometry` | the blocks of the log and their live pages; sizes and capacity |
//!
//! This crate does not check permissions: the kernel does (`default_permissions`).

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
