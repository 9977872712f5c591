//! A file system in memory: what is known of its nodes, what is not written yet, and what is free.
//!
//! Changes happen in memory first. A batch takes all of them to the log at once (`commit`), so whatever a loss of power
//! leaves is the state between two calls. Until then:
//!
//! 1. A page that was changed is in `pages`, and the node that points to it is among the dirty ones.
//! 2. Every page and node counts as used from the call that makes it; calls that would use more than there is are
//!    refused before they change anything. So a batch always finds room.
//! 3. `nodes` has every node that there is; one without a pointer was never written.
//! 4. Whatever is dirty is in the caches; what is clean may be dropped from there at any time.
//!
//! | module | what it is |
//! |---|---|
//! | `node_cache` | inodes and leaves, read when they are needed |
//! | `content` | pages of files |
//! | `directory` | names |
//! | `commit` | a batch goes to the log |
//! | `checkpoint` | the state goes to blocks of its own, and what is dead is freed |
//! | `cleaner` | live pages leave blocks that are mostly dead |
//! | `recover` | from blocks to a state |

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

/// An inode and which part of it.
pub(crate) type NodeKey = (u64, u32);

/// A page that is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct DirtyPage {
    pub(crate) bytes: Vec<u8>,
    /// The cleaner moves it, and nobody has changed it since.
    pub(crate) moved: bool,
    /// It was damaged when the cleaner read it: it keeps the checksum that it fails.
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
    /// Of which inodes the parts from this one on are gone, and no batch says so yet.
    pub(crate) gone: BTreeMap<u64, u32>,
    /// Inodes without a name that somebody has open.
    pub(crate) orphans: BTreeSet<u64>,
    /// How often each inode is held open.
    pub(crate) pins: HashMap<u64, u64>,
    pub(crate) next_ino: u64,
    pub(crate) next_batch: u64,
    /// Of the newest checkpoint.
    pub(crate) sequence: u64,
    /// Pages of data that files have, written or not.
    pub(crate) data_pages: u64,
    /// Pages that the log has got since the newest checkpoint.
    pub(crate) logged_pages: u64,
    /// Why nothing can be written any more.
    pub(crate) failed: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counts: Counts,
}

/// What the file system has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Batches that went to the log.
    pub batches: u64,
    /// Pages of these batches, with those that list them.
    pub logged_pages: u64,
    /// Pages of data that the cleaner moved.
    pub moved_pages: u64,
    /// Blocks that the cleaner emptied.
    pub cleaned_blocks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Pages of these.
    pub checkpoint_pages: u64,
    /// Blocks that were freed.
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

    /// Pages of data and nodes that there are.
    pub(crate) fn used_pages(&self) -> u64 {
        self.data_pages + self.nodes.len() as u64
    }

    /// Pages that there may be, if so many nodes more are among them.
    pub(crate) fn capacity_pages(&self, more_nodes: u64) -> u64 {
        self.geometry().capacity_pages(self.nodes.len() as u64 + more_nodes)
    }

    /// Whether so many pages of data and nodes more have room.
    pub(crate) fn has_room(&self, pages: u64, nodes: u64) -> bool {
        let used = self.used_pages() + pages + nodes;
        pages + nodes == 0 || used <= self.capacity_pages(nodes)
    }

    /// # Errors
    /// [`ErrorKind::NoSpace`] if they have none.
    pub(crate) fn need_room(&self, pages: u64, nodes: u64) -> Result<()> {
        if self.has_room(pages, nodes) {
            return Ok(());
        }
        let free = self.capacity_pages(nodes).saturating_sub(self.used_pages());
        let context = format!("{} pages are needed and {free} are free", pages + nodes);
        Err(Error::new(ErrorKind::NoSpace, context))
    }

    /// Pages of the log that the next batch takes, about.
    fn pending_pages(&self) -> usize {
        self.pages.len() + self.cache.dirty_count() + self.gone.len() / 64
    }

    /// Whether nothing waits for a batch.
    pub(crate) fn is_clean(&self) -> bool {
        self.pages.is_empty() && self.cache.dirty_count() == 0 && self.gone.is_empty()
    }

    /// To be called before each change of few pages: a batch is not to become longer than the reserve has room for.
    /// Of what follows until the next such call a loss of power leaves all or nothing.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if writing has failed before; whatever goes wrong with the batch.
    pub(crate) fn before_change(&mut self) -> Result<()> {
        self.before_changes(0)
    }

    /// As [`Volume::before_change`], of so many pages of data.
    pub(crate) fn before_changes(&mut self, pages: usize) -> Result<()> {
        self.must_write()?;
        if self.pending_pages() + pages >= self.geometry().batch_pages_max() {
            self.commit_and_clean()?;
        }
        Ok(())
    }

    /// Pages of data that one change may have.
    pub(crate) fn change_pages_max(&self) -> usize {
        self.geometry().batch_pages_max() / 2
    }

    /// # Errors
    /// [`ErrorKind::ReadOnly`] if writing has failed before.
    pub(crate) fn must_write(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                let context = format!("no more changes, for writing failed: {why}");
                Err(Error::new(ErrorKind::ReadOnly, context))
            }
        }
    }

    /// Everything that has happened is in the log when this returns, and there is room for the next batch.
    ///
    /// # Errors
    /// Whatever the store reports. Then nothing more can be written.
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
    /// Whatever the store reports. Then nothing more can be written.
    pub(crate) fn checkpoint_now(&mut self) -> Result<()> {
        let done = self.checkpoint();
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }

    /// A loss of power has left inodes that nobody can name or has open: they go.
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
