//! Names: look-up, creation and removal.

use super::FileSystem;
use crate::attributes::{Attributes, Ino, Kind, Owner};
use crate::error::{Error, ErrorKind, Result};
use crate::volume::Renaming;

/// Targets of symbolic links are shorter than this.
const PATH_BYTES: usize = 4096;
/// Number of cookies of "." and "..", before those of names.
const DOTS: u64 = 2;

/// An entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode of the name.
    pub ino: Ino,
    /// The kind of the inode.
    pub kind: Kind,
    /// A listing continues after this cookie.
    pub cookie: u64,
}

impl FileSystem {
    /// Looks up a name in a directory, also "." and "..".
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NameTooLong`], [`ErrorKind::Damaged`].
    pub fn find(&self, parent: Ino, name: &[u8]) -> Result<Attributes> {
        let mut volume = self.lock();
        let ino = match name {
            b"." => parent,
            b".." => volume.nodes().inode(parent)?.parent,
            _ => volume.find(parent, name)?.ino,
        };
        volume.nodes().stat(ino)
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NameTooLong`],
    /// [`ErrorKind::InvalidRequest`] for an invalid name, [`ErrorKind::NoSpace`], [`ErrorKind::ReadOnly`].
    pub fn create(&self, parent: Ino, name: &[u8], owner: Owner) -> Result<Attributes> {
        self.make_node(parent, name, Kind::File, owner, 0)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::TooManyLinks`].
    pub fn mkdir(&self, parent: Ino, name: &[u8], owner: Owner) -> Result<Attributes> {
        self.make_node(parent, name, Kind::Directory, owner, 0)
    }

    /// Creates a file of any kind except a symbolic link; devices have a number.
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
        volume.nodes().stat(ino)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::NameTooLong`] for a target of more than 4095 bytes, and
    /// [`ErrorKind::InvalidRequest`] for an empty one.
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
        volume.nodes().stat(ino)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] if it is not a symbolic link; [`ErrorKind::NotFound`], [`ErrorKind::Damaged`].
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut volume = self.lock();
        if volume.nodes().inode(ino)?.kind != Kind::Symlink {
            let context = format!("inode {ino} is no symbolic link");
            return Err(Error::new(ErrorKind::InvalidRequest, context));
        }
        volume.accessed(ino);
        volume.read(ino, 0, PATH_BYTES)
    }

    /// Adds a name for a file.
    ///
    /// # Errors
    /// As [`FileSystem::create`]; [`ErrorKind::NotPermitted`] for a directory, [`ErrorKind::TooManyLinks`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attributes> {
        let mut volume = self.lock();
        volume.link(ino, parent, name)?;
        volume.nodes().stat(ino)
    }

    /// Removes a name. A file without names is removed, or once it is no longer open.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::IsDirectory`], [`ErrorKind::ReadOnly`]. Never
    /// [`ErrorKind::NoSpace`].
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock().unlink(parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotEmpty`], [`ErrorKind::ReadOnly`].
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock().rmdir(parent, name)
    }

    /// Renames atomically: at any time, also after a power loss, the file has exactly one of the two names.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Exists`], depending on `how`; [`ErrorKind::NotDirectory`],
    /// [`ErrorKind::IsDirectory`] and [`ErrorKind::NotEmpty`] if the source cannot replace the target;
    /// [`ErrorKind::InvalidRequest`] for moving a directory into itself; [`ErrorKind::NoSpace`],
    /// [`ErrorKind::ReadOnly`].
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming) -> Result<()> {
        self.lock().rename(from, to, how)
    }

    /// Lists at most `at_most` names of a directory after the cookie `behind`, 0 for all. "." and ".." come first. A
    /// name that exists during a whole listing is returned exactly once, whatever is added or removed between two
    /// calls.
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
        let above = volume.nodes().inode(ino)?.parent;
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
