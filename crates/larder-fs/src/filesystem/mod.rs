//! The calls of a file system, by inode numbers, as in a kernel.
//!
//! One lock covers everything: calls run one after another, and each is atomic.

mod files;
mod inodes;
mod names;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_blocks::BlockStore;
use larder_device::label::Uuid;
use larder_device::{Clock, RealClock};

use crate::attributes::{Ino, Kind, Owner, ROOT, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::node::Inode;
use crate::table::Table;
use crate::volume::recover::{self, Recovered};
use crate::volume::{Counts, Volume};
pub use files::SeekTo;
pub use inodes::Setting;
pub use names::DirectoryEntry;

/// Options for opening a file system.
#[derive(Clone)]
pub struct Options {
    /// The clock for file times.
    pub clock: Arc<dyn Clock>,
    /// Writes nothing, not even the clean-up after a power loss.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(RealClock), read_only: false }
    }
}

/// Total and free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes per page; the other numbers count pages.
    pub page_bytes: u32,
    /// Pages for files, names and inodes together.
    pub pages: u64,
    /// The free ones among these pages. That number can be written.
    pub free_pages: u64,
    /// Number of inodes.
    pub inodes: u64,
}

/// A file system on blocks that are written sequentially.
///
/// Files are accessed by inode number; [`FileSystem::find`] looks up the number of a name. Changes are durable after
/// [`FileSystem::sync`]. Calls become durable in their order and atomically: a power loss leaves the state between two
/// calls, not before the last sync. (A large write counts as several calls here: one of more than a 64th of the store,
/// or of more than 1024 pages.) Dropping it without [`FileSystem::close`] loses the changes since the last sync, like a
/// power loss.
///
/// ```
/// use std::sync::Arc;
///
/// use larder_blocks::MemoryBlocks;
/// use larder_fs::{FileSystem, Options, Owner, ROOT};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryBlocks::new(64, 256 << 10, 4096)?);
/// let fs = FileSystem::format(store.clone(), false, Options::default())?;
/// let owner = Owner { uid: 0, gid: 0, permissions: 0o644 };
/// let file = fs.create(ROOT, b"notes", owner)?.ino;
/// fs.write(file, 0, b"flour, eggs")?;
/// fs.sync()?;
/// drop(fs);
/// let fs = FileSystem::open(store, Options::default())?;
/// assert_eq!(fs.read(fs.find(ROOT, b"notes")?.ino, 7, 100)?, b"eggs");
/// # Ok(())
/// # }
/// ```
pub struct FileSystem {
    volume: Mutex<Volume>,
}

impl FileSystem {
    /// Creates a file system on a store. With `overwrite`, existing blocks are freed first, whatever they hold.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the store cannot hold one, or has blocks already; errors of the store.
    pub fn format(store: Arc<dyn BlockStore>, overwrite: bool, options: Options) -> Result<Self> {
        let flash = Flash::new(store)?;
        let blocks = flash.list();
        if !blocks.is_empty() && !overwrite {
            let context = format!("the store has {} blocks already", blocks.len());
            return Err(Error::new(ErrorKind::Setup, context));
        }
        for state in blocks {
            flash.free(state.block.number())?;
        }
        let recovered = Recovered {
            uuid: Uuid::draw(),
            sequence: 0,
            next_batch: 1,
            next_ino: ROOT + 1,
            nodes: std::collections::BTreeMap::new(),
            table: Table::default(),
            orphans: BTreeSet::new(),
            is_behind: true,
            batches: 0,
        };
        let mut volume = Volume::new(flash, recovered, options.clock);
        let now = volume.now();
        let owner = Owner { permissions: 0o755, ..Owner::default() };
        let pointers = volume.geometry().inode_pointers();
        let root = Inode::new(Kind::Directory, owner, ROOT, now, pointers);
        volume.nodes().insert_inode(ROOT, root);
        volume.settle()?;
        Ok(Self { volume: Mutex::new(volume) })
    }

    /// Opens the file system on a store, and cleans up after a power loss.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none, or one of another version; [`ErrorKind::Damaged`] if the state cannot
    /// result from a power loss. Nothing was written in these cases. Errors of the store.
    pub fn open(store: Arc<dyn BlockStore>, options: Options) -> Result<Self> {
        let flash = Flash::new(store)?;
        let recovered = recover::recover(&flash)?;
        let is_behind = recovered.is_behind;
        let mut volume = Volume::new(flash, recovered, options.clock);
        let root = volume.nodes().inode(ROOT)?;
        if root.kind != Kind::Directory {
            return Err(Error::damaged("the root is no directory"));
        }
        if options.read_only {
            volume.make_read_only("it was opened to be read alone");
            return Ok(Self { volume: Mutex::new(volume) });
        }
        if is_behind || volume.has_orphans() {
            // Write a checkpoint before the first batch, so that remains of the power loss after the runs of a block
            // are skipped from now on.
            volume.settle()?;
            volume.drop_orphans()?;
            volume.commit_and_clean()?;
        }
        Ok(Self { volume: Mutex::new(volume) })
    }

    /// Makes all previous changes durable.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if a write has failed before; errors of the store. After such an error nothing more can
    /// be written.
    pub fn sync(&self) -> Result<()> {
        let mut volume = self.lock();
        volume.commit_and_clean()?;
        volume.flush()
    }

    /// Like [`FileSystem::sync`], for a file: its data, its length, and the names that lead to it. Other changes become
    /// durable too, because a batch contains all changes.
    ///
    /// # Errors
    /// As [`FileSystem::sync`]; [`ErrorKind::NotFound`] if there is no such inode.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        self.lock().nodes().inode(ino)?;
        self.sync()
    }

    /// Writes all changes and a checkpoint, so that the next opening has no work.
    ///
    /// # Errors
    /// As [`FileSystem::sync`].
    pub fn close(&self) -> Result<()> {
        let mut volume = self.lock();
        if !volume.is_read_only() {
            volume.settle()?;
        }
        volume.flush()
    }

    /// Total and free space.
    pub fn space(&self) -> Space {
        let mut volume = self.lock();
        let capacity = volume.capacity_pages(0);
        Space {
            page_bytes: u32::try_from(volume.page_bytes()).unwrap_or(u32::MAX),
            pages: capacity,
            free_pages: capacity.saturating_sub(volume.used_pages()),
            inodes: volume.nodes().inode_count(),
        }
    }

    /// The current time of its clock.
    pub fn now(&self) -> Time {
        self.lock().now()
    }

    /// Counters since it was opened.
    pub fn counts(&self) -> Counts {
        self.lock().counts()
    }

    fn lock(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner of files in tests and examples: root, with the usual permissions.
impl Default for Owner {
    fn default() -> Self {
        Self { uid: 0, gid: 0, permissions: 0o644 }
    }
}
