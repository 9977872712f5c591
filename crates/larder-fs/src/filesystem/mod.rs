//! The calls of a file system, by the numbers of inodes, as kernels have them.
//!
//! One lock is around all of it: calls come one after another, and each is whole.

mod files;
mod inodes;
mod names;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Uuid;
use larder_device::{BlockStore, Clock, RealClock};

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

/// How a file system is opened.
#[derive(Clone)]
pub struct Options {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Nothing is written, also where a loss of power has left something to tidy up.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(RealClock), read_only: false }
    }
}

/// How much there is, and how much of it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of a page; the other numbers count pages.
    pub page_bytes: u32,
    /// Pages that files, names and inodes may have together.
    pub pages: u64,
    /// Pages of these that are free. As many can be written.
    pub free_pages: u64,
    /// Inodes that there are.
    pub inodes: u64,
}

/// A file system on blocks that are written in order.
///
/// Numbers of inodes lead to files; [`FileSystem::find`] gives that of a name. What has changed is durable after
/// [`FileSystem::sync`], and calls become durable in their order, each whole: a loss of power leaves the state between
/// two calls, not before the last sync. (A write of very many pages is several calls in this sense: of more than a 64th
/// of the store, or of 1024 pages.) Whoever drops it without [`FileSystem::close`] loses what came after the last sync,
/// as a loss of power does.
///
/// ```
/// use std::sync::Arc;
///
/// use larder_device::MemoryBlocks;
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
    /// Makes a file system on a store. With `overwrite`, blocks that it has are freed first, whatever they hold.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if none fits the store, or it has blocks already; what the store reports.
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
        volume.insert_inode(ROOT, root);
        volume.settle()?;
        Ok(Self { volume: Mutex::new(volume) })
    }

    /// Opens the file system that is on a store, and tidies up behind a loss of power.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none, or another version; [`ErrorKind::Damaged`] if what is there cannot come
    /// from a loss of power. Nothing was written then. What the store reports.
    pub fn open(store: Arc<dyn BlockStore>, options: Options) -> Result<Self> {
        let flash = Flash::new(store)?;
        let recovered = recover::recover(&flash)?;
        let is_behind = recovered.is_behind;
        let mut volume = Volume::new(flash, recovered, options.clock);
        let root = volume.inode(ROOT)?;
        if root.kind != Kind::Directory {
            return Err(Error::damaged("the root is no directory"));
        }
        if options.read_only {
            volume.failed = Some("it was opened to be read alone".to_owned());
            return Ok(Self { volume: Mutex::new(volume) });
        }
        if is_behind || !volume.orphans.is_empty() {
            // Before the first batch: what a loss of power left behind the runs of a block is skipped from now on.
            volume.settle()?;
            volume.drop_orphans()?;
            volume.commit_and_clean()?;
        }
        Ok(Self { volume: Mutex::new(volume) })
    }

    /// Everything that has happened is durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if writing has failed before; what the store reports. Then nothing more can be written.
    pub fn sync(&self) -> Result<()> {
        let mut volume = self.lock();
        volume.commit_and_clean()?;
        volume.flash.flush()
    }

    /// As [`FileSystem::sync`], for a file: its bytes, its length, and the names that lead to it. Others come along,
    /// for a batch has all that has changed.
    ///
    /// # Errors
    /// As [`FileSystem::sync`]; [`ErrorKind::NotFound`] if there is no such inode.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        self.lock().inode(ino)?;
        self.sync()
    }

    /// Writes all that has changed, and a checkpoint, so that the next opening has nothing to do.
    ///
    /// # Errors
    /// As [`FileSystem::sync`].
    pub fn close(&self) -> Result<()> {
        let mut volume = self.lock();
        if volume.failed.is_none() {
            volume.settle()?;
        }
        volume.flash.flush()
    }

    /// How much there is, and how much of it is free.
    pub fn space(&self) -> Space {
        let volume = self.lock();
        let capacity = volume.capacity_pages(0);
        Space {
            page_bytes: u32::try_from(volume.page_bytes()).unwrap_or(u32::MAX),
            pages: capacity,
            free_pages: capacity.saturating_sub(volume.used_pages()),
            inodes: volume.inodes(),
        }
    }

    /// What its clock says.
    pub fn now(&self) -> Time {
        self.lock().now()
    }

    /// What it has done since it was opened.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who makes the files of tests and examples: root, with the usual permissions.
impl Default for Owner {
    fn default() -> Self {
        Self { uid: 0, gid: 0, permissions: 0o644 }
    }
}
