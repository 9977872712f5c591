//! The state of a file system in memory: its nodes, unwritten changes, and free space.
//!
//! Changes are made in memory first. A batch writes all of them to the log at once (`commit`), so a power loss always
//! leaves the state between two calls. Until then:
//!
//! 1. A changed page is in `pages`, and the node that points to it is among the dirty ones.
//! 2. Every page and node counts as used from the call that creates it. Calls that would exceed the capacity are
//!    refused before they change anything. So a batch always finds room.
//! 3. `nodes` has every existing node; one without a pointer was never written.
//! 4. Everything dirty is in the caches; clean entries may be dropped from them at any time.
//!
//! | module | content |
//! |---|---|
//! | `node_cache` | inodes and leaves, read on demand |
//! | `content` | pages of files |
//! | `directory` | names |
//! | `commit` | writes a batch to the log |
//! | `checkpoint` | writes the state to separate blocks, and frees dead ones |
//! | `cleaner` | moves live pages out of blocks that are mostly dead |
//! | `recover` | rebuilds the state from the blocks |

mod checkpoint;
mod cleaner;
mod commit;
mod content;
mod directory;
mod links;
mod node_cache;
pub(crate) mod recover;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use larder_device::Clock;
use larder_device::label::Uuid;

use crate::address::Pointer;
use crate::attributes::{ROOT, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::node::PART_INODE;
use crate::geometry::Geometry;
use crate::table::Table;
pub(crate) use directory::Directory;
pub use links::Renaming;
pub(crate) use node_cache::NodeCache;
use recover::Recovered;

/// An inode, and one of its parts.
pub(crate) type NodeKey = (u64, u32);

/// A page that is not yet written.
#[derive(Debug, Clone)]
pub(crate) struct DirtyPage {
    pub(crate) bytes: Vec<u8>,
    /// The cleaner moves it, and it has not been changed since.
    pub(crate) moved: bool,
    /// Set if it was damaged when the cleaner read it: it keeps the checksum that it fails.
    pub(crate) damaged: Option<u32>,
}

/// A file system in memory.
pub(crate) struct Volume {
    pub(crate) flash: Flash,
    pub(crate) uuid: Uuid,
    pub(crate) table: Table,
    pub(crate) nodes: BTreeMap<NodeKey, Option<Pointer>>,
    pub(crate) cache: NodeCache,
    pub(crate) directories: HashMap<u64, Directory>,
    pub(crate) pages: BTreeMap<(u64, u64), DirtyPage>,
    /// Per inode: the first part from which on all parts are gone, not yet recorded in a batch.
    pub(crate) gone: BTreeMap<u64, u32>,
    /// Inodes without a name that are open.
    pub(crate) orphans: BTreeSet<u64>,
    /// Open count of each inode.
    pub(crate) pins: HashMap<u64, u64>,
    pub(crate) next_ino: u64,
    pub(crate) next_batch: u64,
    /// Sequence of the newest checkpoint.
    pub(crate) sequence: u64,
    /// Pages of data of all files, written or not.
    pub(crate) data_pages: u64,
    /// Pages written to the log since the newest checkpoint.
    pub(crate) logged_pages: u64,
    /// Why nothing can be written any more.
    pub(crate) failed: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counts: Counts,
}

/// Counters since the file system was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Batches written to the log.
    pub batches: u64,
    /// Pages of these batches, including the pages that list the others.
    pub logged_pages: u64,
    /// Pages of data that the cleaner moved.
    pub moved_pages: u64,
    /// Blocks that the cleaner emptied.
    pub cleaned_blocks: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Pages of these checkpoints.
    pub checkpoint_pages: u64,
    /// Blocks freed.
    pub freed_blocks: u64,
}

impl Volume {
    pub(crate) fn new(flash: Flash, recovered: Recovered, clock: Arc<dyn Clock>) -> Self {
        let nodes: BTreeMap<_, _> =
            recovered.nodes.into_iter().map(|(key, pointer)| (key, Some(pointer))).collect();
        let data_pages = recovered.table.live_pages().saturating_sub(nodes.len() as u64);
        Self {
            flash,
            uuid: recovered.uuid,
            table: recovered.table,
            nodes,
            cache: NodeCache::default(),
            directories: HashMap::new(),
            pages: BTreeMap::new(),
            gone: BTreeMap::new(),
            orphans: recovered.orphans,
            pins: HashMap::new(),
            next_ino: recovered.next_ino,
            next_batch: recovered.next_batch,
            sequence: recovered.sequence,
            data_pages,
            logged_pages: 0,
            failed: None,
            clock,
            counts: Counts::default(),
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.flash.geometry
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.geometry().page_bytes as u64
    }

    pub(crate) fn now(&self) -> Time {
        Time::after_epoch(self.clock.now())
    }

    /// Number of pages of data and nodes.
    pub(crate) fn used_pages(&self) -> u64 {
        self.data_pages + self.nodes.len() as u64
    }

    /// Capacity in pages, if it includes `more_nodes` more nodes.
    pub(crate) fn capacity_pages(&self, more_nodes: u64) -> u64 {
        self.geometry().capacity_pages(self.nodes.len() as u64 + more_nodes)
    }

    /// Whether there is room for `pages` more pages of data and `nodes` more nodes.
    pub(crate) fn has_room(&self, pages: u64, nodes: u64) -> bool {
        let used = self.used_pages() + pages + nodes;
        pages + nodes == 0 || used <= self.capacity_pages(nodes)
    }

    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is no room for them.
    pub(crate) fn need_room(&self, pages: u64, nodes: u64) -> Result<()> {
        if self.has_room(pages, nodes) {
            return Ok(());
        }
        let free = self.capacity_pages(nodes).saturating_sub(self.used_pages());
        let context = format!("{} pages are needed and {free} are free", pages + nodes);
        Err(Error::new(ErrorKind::NoSpace, context))
    }

    /// Approximate number of pages of the next batch in the log.
    fn pending_pages(&self) -> usize {
        self.pages.len() + self.cache.dirty_count() + self.gone.len() / 64
    }

    /// Whether there is nothing to write in a batch.
    pub(crate) fn is_clean(&self) -> bool {
        self.pages.is_empty() && self.cache.dirty_count() == 0 && self.gone.is_empty()
    }

    /// Must be called before each change of a few pages, so that a batch does not exceed the reserve. Changes until the
    /// next call are atomic with respect to power loss.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if a write has failed before; any error of writing the batch.
    pub(crate) fn before_change(&mut self) -> Result<()> {
        self.before_changes(0)
    }

    /// Like [`Volume::before_change`], for a change of `pages` pages of data.
    pub(crate) fn before_changes(&mut self, pages: usize) -> Result<()> {
        self.must_write()?;
        if self.pending_pages() + pages >= self.geometry().batch_pages_max() {
            self.commit_and_clean()?;
        }
        Ok(())
    }

    /// Maximum pages of data in one change.
    pub(crate) fn change_pages_max(&self) -> usize {
        self.geometry().batch_pages_max() / 2
    }

    /// # Errors
    /// [`ErrorKind::ReadOnly`] if a write has failed before.
    pub(crate) fn must_write(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                let context = format!("no more changes, for writing failed: {why}");
                Err(Error::new(ErrorKind::ReadOnly, context))
            }
        }
    }

    /// Writes all changes to the log, and makes room for the next batch.
    ///
    /// # Errors
    /// Errors of the store. After such an error nothing more can be written.
    pub(crate) fn commit_and_clean(&mut self) -> Result<()> {
        self.must_write()?;
        let done = self.commit().and_then(|()| self.make_room());
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    /// Writes a checkpoint of a state that is in the log.
    ///
    /// # Errors
    /// Errors of the store. After such an error nothing more can be written.
    pub(crate) fn checkpoint_now(&mut self) -> Result<()> {
        let done = self.checkpoint();
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    /// Removes inodes that a power loss has left without a name and without an open handle.
    pub(crate) fn drop_orphans(&mut self) -> Result<()> {
        for ino in std::mem::take(&mut self.orphans) {
            if self.nodes.contains_key(&(ino, PART_INODE)) && ino != ROOT {
                self.before_change()?;
                self.remove_inode(ino)?;
            }
        }
        Ok(())
    }
}
