//! What lies on the blocks, byte by byte. `docs/formats.md` draws it.
//!
//! | module | what it is |
//! |---|---|
//! | [`tag`] | what a block of the store is for |
//! | [`run`] | a page in front of pages: what they are, and the batch that they belong to |
//! | [`node`] | inodes, and leaves that point to the pages of longer files |
//! | [`directory`] | pages of names |
//! | [`attributes`] | extended attributes of an inode |
//! | [`checkpoint`] | where all nodes are, and how much of each block is live |
//!
//! All of it is hostile when it is read: lengths are compared with what is there, and what fails is damage.

pub(crate) mod attributes;
pub(crate) mod checkpoint;
pub(crate) mod directory;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod tag;

pub(crate) use checkpoint::HEADER_BYTES as CHECKPOINT_HEADER_BYTES;
pub(crate) use node::{INODE_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES};
pub(crate) use run::{ENTRY_BYTES as RUN_ENTRY_BYTES, HEADER_BYTES as RUN_HEADER_BYTES};
