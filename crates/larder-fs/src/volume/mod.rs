//! The state of a file system in memory: its nodes, unwritten changes, and free space.
//!
//! Changes are made in memory first. A batch writes all of them to the log at once (`commit`), so a power loss always
//! leaves the state between two calls. Until then:
//!
//! 1. A changed page is in `pages`, and the node that points to it is among the dirty ones.
//! 2. Every page and node counts as used from the call that creates it. Calls that would exceed the capacity are
//!    refused before they change anything. So a batch always finds room.
//!
//! | module | content |
//! |---|---|
//! | `nodes` | inodes, attributes and leaves: their places, and those in memory |
//! | `content` | pages of files |
//! | `names` | looks up, creates, removes and renames names |
//! | `directory` | the index of the names of a directory |
//! | `open_inodes` | open counts, and inodes without a name |
//! | `commit` | writes a batch to the log |
//! | `reclaim` | frees blocks of the log: the cleaner and checkpoints |
//! | `recover` | rebuilds the state from the blocks |

mod commit;
mod content;
mod directory;
mod names;
mod nodes;
mod open_inodes;
mod reclaim;
pub(crate) mod recover;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use larder_device::Clock;
use larder_device::label::Uuid;

use crate::attributes::{ROOT, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::node::{Inode, PART_INODE};
use crate::geometry::Geometry;
use crate::table::Table;
use directory::Directory;
pub use names::Renaming;
use nodes::NodeMap;
use open_inodes::OpenInodes;
use recover::Recovered;

/// Seconds after which a read updates the access time even if nothing has changed.
const ACCESS_IS_OLD_SECONDS: i64 = 24 * 60 * 60;

/// An inode, and one of its parts.
pub(crate) type NodeKey = (u64, u32);

/// A page that is not yet written.
#[derive(Debug, Clone)]
struct DirtyPage {
    bytes: Vec<u8>,
    /// The cleaner moves it, and it has not been changed since.
    moved: bool,
    /// Set if it was damaged when the cleaner read it: it keeps the checksum that it fails.
    damaged: Option<u32>,
}

/// A file system in memory.
pub(crate) struct Volume {
    flash: Flash,
    uuid: Uuid,
    table: Table,
    nodes: NodeMap,
    directories: HashMap<u64, Directory>,
    pages: BTreeMap<(u64, u64), DirtyPage>,
    /// Per inode: the first part from which on all parts are gone, not yet recorded in a batch.
    gone: BTreeMap<u64, u32>,
    open: OpenInodes,
    next_ino: u64,
    next_batch: u64,
    /// Sequence of the newest checkpoint.
    sequence: u64,
    /// Pages of data of all files, written or not.
    data_pages: u64,
    /// Pages written to the log since the newest checkpoint.
    logged_pages: u64,
    /// Why nothing can be written any more.
    failed: Option<String>,
    clock: Arc<dyn Clock>,
    counts: Counts,
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
        let nodes = NodeMap::new(flash.clone(), recovered.nodes);
        let data_pages = recovered.table.live_pages().saturating_sub(nodes.count());
        Self {
            flash,
            uuid: recovered.uuid,
            table: recovered.table,
            nodes,
            directories: HashMap::new(),
            pages: BTreeMap::new(),
            gone: BTreeMap::new(),
            open: OpenInodes::new(recovered.orphans),
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

    /// The inodes and their attributes. A caller that changes one has called [`Volume::before_change`].
    pub(crate) fn nodes(&mut self) -> &mut NodeMap {
        &mut self.nodes
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
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
        self.data_pages + self.nodes.count()
    }

    /// Capacity in pages, if it includes `more_nodes` more nodes.
    pub(crate) fn capacity_pages(&self, more_nodes: u64) -> u64 {
        self.geometry().capacity_pages(self.nodes.count() + more_nodes)
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
        self.pages.len() + self.nodes.dirty_count() + self.gone.len() / 64
    }

    /// Whether there is nothing to write in a batch.
    pub(crate) fn is_clean(&self) -> bool {
        self.pages.is_empty() && self.nodes.dirty_count() == 0 && self.gone.is_empty()
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

    /// Records a change of attributes, but not of data.
    pub(crate) fn touch(&mut self, ino: u64) -> Result<()> {
        let now = self.now();
        self.nodes.inode_mut(ino)?.changed = now;
        Ok(())
    }

    /// Records that the data of a file, or the names of a directory, have changed.
    pub(crate) fn data_changed(&mut self, ino: u64) -> Result<()> {
        let now = self.now();
        let inode = self.nodes.inode_mut(ino)?;
        (inode.modified, inode.changed) = (now, now);
        Ok(())
    }

    /// Records a read as with `relatime`. If that fails, the read succeeds nevertheless.
    pub(crate) fn accessed(&mut self, ino: u64) {
        let now = self.now();
        let is_old = |inode: &Inode| {
            inode.accessed <= inode.modified.max(inode.changed)
                || inode.accessed < Time { seconds: now.seconds - ACCESS_IS_OLD_SECONDS, ..now }
        };
        let is_due = self.nodes.inode(ino).is_ok_and(is_old);
        if is_due
            && self.before_change().is_ok()
            && let Ok(inode) = self.nodes.inode_mut(ino)
        {
            inode.accessed = now;
        }
    }

    /// Writes all changes to the log, and then a checkpoint.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.commit_and_clean()?;
        self.checkpoint_now()
    }

    /// Makes what the store has acknowledged durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.flash.flush()
    }

    /// Refuses all changes from now on, because of `why`.
    pub(crate) fn make_read_only(&mut self, why: &str) {
        self.failed = Some(why.to_owned());
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.failed.is_some()
    }

    /// Increases the open count of an inode by `times`.
    pub(crate) fn hold(&mut self, ino: u64, times: u64) -> Result<()> {
        self.nodes.inode(ino)?;
        self.open.hold(ino, times);
        Ok(())
    }

    /// Decreases the open count of an inode by `times`. Removes the inode after its last release if it has no name.
    pub(crate) fn release(&mut self, ino: u64, times: u64) -> Result<()> {
        if self.open.release(ino, times) && !self.is_read_only() {
            self.before_change()?;
            self.remove_inode(ino)?;
        }
        Ok(())
    }

    pub(crate) fn has_orphans(&self) -> bool {
        self.open.orphans().next().is_some()
    }

    /// Removes inodes that a power loss has left without a name and without an open handle.
    pub(crate) fn drop_orphans(&mut self) -> Result<()> {
        for ino in self.open.take_orphans() {
            if self.nodes.contains((ino, PART_INODE)) && ino != ROOT {
                self.before_change()?;
                self.remove_inode(ino)?;
            }
        }
        Ok(())
    }
}
