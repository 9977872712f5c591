//! The byte formats on the blocks. `docs/formats.md` shows them.
//!
//! | module | content |
//! |---|---|
//! | [`tag`] | the use of a block of the store |
//! | [`run`] | a page before other pages, with their kinds and their batch |
//! | [`node`] | inodes, and leaves that point to the pages of longer files |
//! | [`directory`] | pages of names |
//! | [`attributes`] | extended attributes of an inode |
//! | [`checkpoint`] | the addresses of all nodes, and the number of live pages of each block |
//!
//! All decoders treat their input as hostile: lengths are checked against the data present, and a failed check counts
//! as damage.

pub(crate) mod attributes;
pub(crate) mod checkpoint;
pub(crate) mod directory;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod tag;

pub(crate) use checkpoint::HEADER_BYTES as CHECKPOINT_HEADER_BYTES;
pub(crate) use node::{INODE_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES};
pub(crate) use run::{ENTRY_BYTES as RUN_ENTRY_BYTES, HEADER_BYTES as RUN_HEADER_BYTES};
