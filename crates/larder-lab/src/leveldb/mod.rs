//! LevelDB on blocks: an environment for `rusty-leveldb` on any [`BlockStore`].
//!
//! A file has its own blocks, whose tags identify it, and only grows at its end, as all of LevelDB's files do. A log
//! (`directory`) records where its bytes lie. Deleting a file frees its blocks: only LevelDB's own compaction ever
//! copies data.
//!
//! Flushed data and every change of a name are durable when the call returns, and survive a loss of power.
//!
//! | module | what it is |
//! |---|---|
//! | `directory` | the list of files |
//! | [`file`] | a file for appending, and one for reading |
//! | `files` | the store and its directory together |
//! | `pages` | where bytes lie |

mod directory;
mod file;
mod files;
mod pages;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use larder_blocks::BlockStore;
use rusty_leveldb::env::{Env, FileLock, Logger, RandomAccess};
use rusty_leveldb::{Status, StatusCode};

pub use directory::lists_files;
use directory::{Change, Directory};
use file::{Reader, Writer};
use files::Files;
use pages::{Result, length};

/// The clock of an environment.
pub trait Time {
    /// Microseconds since an arbitrary moment.
    fn micros(&self) -> u64;
    /// Sleeps for `micros` microseconds.
    fn sleep(&self, micros: u32);
}

/// An environment of LevelDB on blocks.
pub struct BlockEnv {
    files: Rc<RefCell<Files>>,
    time: Box<dyn Time>,
}

impl std::fmt::Debug for BlockEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEnv").finish_non_exhaustive()
    }
}

/// Lines of code between LevelDB and blocks, without comments and empty lines.
pub fn glue_lines() -> usize {
    let rooms = [
        include_str!("mod.rs"),
        include_str!("directory.rs"),
        include_str!("file.rs"),
        include_str!("files.rs"),
        include_str!("pages.rs"),
    ];
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    rooms.iter().flat_map(|room| room.lines()).filter(is_code).count()
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl BlockEnv {
    /// Opens the files on `store`, which must hold nothing else. A store without blocks has no files.
    ///
    /// # Errors
    /// If the store has foreign blocks, if none of its directories is complete, or if the store fails.
    pub fn open(store: Arc<dyn BlockStore>, time: Box<dyn Time>) -> Result<Self> {
        let directory = Directory::open(Arc::clone(&store))?;
        let files = Files::new(store, directory);
        Ok(Self { files: Rc::new(RefCell::new(files)), time })
    }

    fn reader(&self, path: &Path) -> Result<Reader> {
        let pieces = self.files.borrow().pieces(&name(path))?;
        Ok(Reader::new(Rc::clone(&self.files), pieces))
    }

    fn writer(&self, path: &Path, keeps: bool) -> Result<Box<dyn Write>> {
        let name = name(path);
        let known = self.files.borrow().directory.table.names.get(&name).copied();
        let file = match known.filter(|_| keeps) {
            Some(file) => file,
            None => {
                self.files.borrow_mut().change(&Change::Make(name.clone()))?;
                self.files.borrow().directory.table.names[&name]
            }
        };
        Ok(Box::new(Writer::new(Rc::clone(&self.files), file)))
    }
}

impl Env for BlockEnv {
    fn open_sequential_file(&self, path: &Path) -> Result<Box<dyn Read>> {
        Ok(Box::new(self.reader(path)?))
    }

    fn open_random_access_file(&self, path: &Path) -> Result<Box<dyn RandomAccess>> {
        Ok(Box::new(self.reader(path)?))
    }

    fn open_writable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        self.writer(path, false)
    }

    fn open_appendable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        self.writer(path, true)
    }

    /// A directory exists as soon as it contains something.
    fn exists(&self, path: &Path) -> Result<bool> {
        let (files, name) = (self.files.borrow(), name(path));
        let names = &files.directory.table.names;
        Ok(names.keys().any(|known| *known == name || Path::new(known).starts_with(path)))
    }

    fn children(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let files = self.files.borrow();
        let inside = files.directory.table.names.keys();
        Ok(inside
            .filter_map(|known| Some(Path::new(known).strip_prefix(path).ok()?.into()))
            .collect())
    }

    fn size_of(&self, path: &Path) -> Result<usize> {
        let pieces = self.files.borrow().pieces(&name(path))?;
        Ok(usize::try_from(length(&pieces)).unwrap_or(usize::MAX))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let mut files = self.files.borrow_mut();
        files.pieces(&name(path))?;
        files.change(&Change::Remove(name(path)))
    }

    fn mkdir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rmdir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.files.borrow_mut();
        files.pieces(&name(from))?;
        files.change(&Change::Rename(name(from), name(to)))
    }

    fn lock(&self, path: &Path) -> Result<FileLock> {
        let id = name(path);
        if !self.files.borrow_mut().locked.insert(id.clone()) {
            return Err(Status::new(StatusCode::LockError, &id));
        }
        Ok(FileLock { id })
    }

    fn unlock(&self, lock: FileLock) -> Result<()> {
        self.files.borrow_mut().locked.remove(&lock.id);
        Ok(())
    }

    fn new_logger(&self, path: &Path) -> Result<Logger> {
        Ok(Logger::new(self.open_appendable_file(path)?))
    }

    fn micros(&self) -> u64 {
        self.time.micros()
    }

    fn sleep_for(&self, micros: u32) {
        self.time.sleep(micros);
    }
}
