//! Names: what they lead to, and how they come and go.

use super::FileSystem;
use crate::attributes::{Attributes, Ino, Kind, Owner};
use crate::error::{Error, ErrorKind, Result};
use crate::volume::Renaming;

/// The target of a symbolic link is shorter than this.
const PATH_BYTES: usize = 4096;
/// Cookies of "." and "..", in front of those of names.
const DOTS: u64 = 2;

/// A name, as a reading of a directory gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name.
    pub name: Vec<u8>,
    /// Where it leads.
    pub ino: Ino,
    /// What is there.
    pub kind: Kind,
    /// The reading goes on behind this one.
    pub cookie: u64,
}

impl FileSystem {
    /// What a name in a directory leads to. "." and ".." are there, too.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NameTooLong`], [`ErrorKind::Damaged`].
    pub fn find(&self, parent: Ino, name: &[u8]) -> Result<Attributes> {
        let mut volume = self.lock();
        let ino = match name {
            b"." => parent,
            b".." => volume.inode(parent)?.parent,
            _ => volume.find(parent, name)?.ino,
        };
        volume.stat(ino)
    }

    /// A new, empty file.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NameTooLong`],
    /// [`ErrorKind::InvalidRequest`] for what is no name, [`ErrorKind::NoSpace`], [`ErrorKind::ReadOnly`].
    pub fn create(&self, parent: Ino, name: &[u8], owner: Owner) -> Result<Attributes> {
        self.make_node(parent, name, Kind::File, owner, 0)
    }

    /// A new directory.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::TooManyLinks`].
    pub fn mkdir(&self, parent: Ino, name: &[u8], owner: Owner) -> Result<Attributes> {
        self.make_node(parent, name, Kind::Directory, owner, 0)
    }

    /// A new file of any kind but a symbolic link; devices have a number.
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn make_node(
        &self,
        parent: Ino,
        name: &[u8],
        kind: Kind,
        owner: Owner,
        rdev: u32,
    ) -> Result<Attributes> {
        if kind == Kind::Symlink {
            let context = "a symbolic link without a target";
            return Err(Error::new(ErrorKind::InvalidRequest, context));
        }
        let mut volume = self.lock();
        let ino = volume.make((parent, name), (kind, rdev), owner, b"")?;
        volume.stat(ino)
    }

    /// A new symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::NameTooLong`] for a target of more than 4095 bytes, and
    /// [`ErrorKind::InvalidRequest`] for one without any.
    pub fn symlink(
        &self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        owner: Owner,
    ) -> Result<Attributes> {
        if target.is_empty() {
            let context = "a symbolic link to nowhere";
            return Err(Error::new(ErrorKind::InvalidRequest, context));
        }
        if target.len() >= PATH_BYTES {
            let context = format!("a path of {} bytes", target.len());
            return Err(Error::new(ErrorKind::NameTooLong, context));
        }
        let owner = Owner { permissions: 0o777, ..owner };
        let mut volume = self.lock();
        let ino = volume.make((parent, name), (Kind::Symlink, 0), owner, target)?;
        volume.stat(ino)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] if it is none; [`ErrorKind::NotFound`], [`ErrorKind::Damaged`].
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut volume = self.lock();
        if volume.inode(ino)?.kind != Kind::Symlink {
            let context = format!("inode {ino} is no symbolic link");
            return Err(Error::new(ErrorKind::InvalidRequest, context));
        }
        volume.accessed(ino);
        volume.read(ino, 0, PATH_BYTES)
    }

    /// A further name for a file.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::NotPermitted`] for a directory, [`ErrorKind::TooManyLinks`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attributes> {
        let mut volume = self.lock();
        volume.link(ino, parent, name)?;
        volume.stat(ino)
    }

    /// Takes a name away. With its last name a file goes, or when the last one releases it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::IsDirectory`], [`ErrorKind::ReadOnly`]. Never
    /// for want of room.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock().unlink(parent, name)
    }

    /// Takes an empty directory away.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotEmpty`], [`ErrorKind::ReadOnly`].
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock().rmdir(parent, name)
    }

    /// Gives what a name leads to another name, in one step: whoever looks, also after a loss of power, finds it under
    /// the one or the other.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Exists`] by `how`; [`ErrorKind::NotDirectory`],
    /// [`ErrorKind::IsDirectory`] and [`ErrorKind::NotEmpty`] if the one cannot replace the other;
    /// [`ErrorKind::InvalidRequest`] for a directory within itself; [`ErrorKind::NoSpace`], [`ErrorKind::ReadOnly`].
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming) -> Result<()> {
        self.lock().rename(from, to, how)
    }

    /// Names of a directory behind a cookie, 0 for all, as many as asked for at most. "." and ".." come first. Each
    /// name that is there all the time comes once, whatever comes and goes between two readings.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::Damaged`].
    pub fn read_directory(
        &self,
        ino: Ino,
        behind: u64,
        at_most: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let mut volume = self.lock();
        volume.directory(ino)?;
        volume.accessed(ino);
        let above = volume.inode(ino)?.parent;
        let dots = [(1, b".".as_slice(), ino), (2, b"..".as_slice(), above)];
        let mut entries: Vec<DirectoryEntry> = dots
            .into_iter()
            .filter(|(cookie, ..)| *cookie > behind)
            .map(|(cookie, name, ino)| DirectoryEntry {
                name: name.to_vec(),
                ino,
                kind: Kind::Directory,
                cookie,
            })
            .take(at_most)
            .collect();
        let directory = volume.directory(ino)?;
        let mut at = behind.saturating_sub(DOTS);
        while entries.len() < at_most
            && let Some((name, place)) = directory.after(at)
        {
            at = place.cookie;
            let cookie = place.cookie.saturating_add(DOTS);
            let (name, ino, kind) = (name.to_vec(), place.ino, place.kind);
            entries.push(DirectoryEntry { name, ino, kind, cookie });
        }
        Ok(entries)
    }
}
