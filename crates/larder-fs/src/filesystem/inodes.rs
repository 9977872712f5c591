//! Inodes: attributes, extended attributes, and open counts.

use super::FileSystem;
use crate::attributes::{Attributes, Ino, Kind, SetAttributes};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::attributes::{self as page, NAME_BYTES_MAX};
use crate::formats::node::PART_ATTRIBUTES;

/// Whether an extended attribute may exist before it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Setting {
    /// Either way.
    #[default]
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

impl FileSystem {
    /// The attributes of an inode, as for `stat`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Damaged`].
    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        self.lock().nodes().stat(ino)
    }

    /// Changes attributes. Returns the new ones.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; for a new length [`ErrorKind::IsDirectory`], [`ErrorKind::InvalidRequest`] if it is not
    /// a file, [`ErrorKind::FileTooLarge`].
    pub fn set_attributes(&self, ino: Ino, set: SetAttributes) -> Result<Attributes> {
        let mut volume = self.lock();
        volume.before_change()?;
        if let Some(bytes) = set.size {
            match volume.nodes().inode(ino)?.kind {
                Kind::File => volume.resize(ino, bytes)?,
                Kind::Directory => {
                    let context = format!("inode {ino} is a directory");
                    return Err(Error::new(ErrorKind::IsDirectory, context));
                }
                _ => {
                    let context = format!("inode {ino} has no length");
                    return Err(Error::new(ErrorKind::InvalidRequest, context));
                }
            }
            volume.data_changed(ino)?;
        }
        let now = volume.now();
        let inode = volume.nodes().inode_mut(ino)?;
        if let Some(permissions) = set.permissions {
            inode.permissions = permissions & 0o7777;
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.accessed = set.accessed.unwrap_or(inode.accessed);
        inode.modified = set.modified.unwrap_or(inode.modified);
        inode.changed = now;
        volume.nodes().stat(ino)
    }

    /// Increases the open count of an inode by `times`. The inode stays until it is released as many times, even if its
    /// last name is removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub fn hold(&self, ino: Ino, times: u64) -> Result<()> {
        self.lock().hold(ino, times)
    }

    /// Decreases the open count of an inode by `times`.
    ///
    /// # Errors
    /// Errors of freeing its pages, after the last release of an inode without a name.
    pub fn release(&self, ino: Ino, times: u64) -> Result<()> {
        self.lock().release(ino, times)
    }

    /// Reads an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] if there is none with this name; [`ErrorKind::NotFound`].
    pub fn extended(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let mut volume = self.lock();
        volume.nodes().inode(ino)?;
        let value = volume.nodes().attributes(ino)?.get(name).map(|value| value.to_vec());
        value.ok_or_else(|| no_attribute(ino))
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub fn extended_names(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let mut volume = self.lock();
        volume.nodes().inode(ino)?;
        Ok(volume.nodes().attributes(ino)?.keys().map(|name| name.to_vec()).collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] or [`ErrorKind::NoAttribute`], depending on `how`; [`ErrorKind::NoSpace`] if all
    /// attributes of an inode do not fit a page; [`ErrorKind::NameTooLong`] for a name of more than 255 bytes or an
    /// empty one.
    pub fn set_extended(&self, ino: Ino, name: &[u8], value: &[u8], how: Setting) -> Result<()> {
        let mut volume = self.lock();
        volume.before_change()?;
        volume.nodes().inode(ino)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let context = format!("an attribute's name of {} bytes", name.len());
            return Err(Error::new(ErrorKind::NameTooLong, context));
        }
        let mut all = volume.nodes().attributes(ino)?;
        match (how, all.contains_key(name)) {
            (Setting::Create, true) => {
                return Err(Error::new(ErrorKind::Exists, "the attribute is there"));
            }
            (Setting::Replace, false) => return Err(no_attribute(ino)),
            _ => drop(all.insert(name.into(), value.into())),
        }
        if page::encode(ino, &all, volume.geometry().page_bytes).is_none() {
            let context = format!("the attributes of inode {ino} do not fit a page");
            return Err(Error::new(ErrorKind::NoSpace, context));
        }
        let is_new = !volume.nodes().contains((ino, PART_ATTRIBUTES));
        volume.need_room(0, u64::from(is_new))?;
        volume.nodes().set_attributes(ino, all);
        volume.touch(ino)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] if there is none with this name.
    pub fn remove_extended(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let mut volume = self.lock();
        volume.before_change()?;
        volume.nodes().inode(ino)?;
        let mut all = volume.nodes().attributes(ino)?;
        if all.remove(name).is_none() {
            return Err(no_attribute(ino));
        }
        // Keep the node even if it is empty: a single node of an inode cannot be removed without all that follow.
        volume.nodes().set_attributes(ino, all);
        volume.touch(ino)
    }
}

fn no_attribute(ino: Ino) -> Error {
    Error::new(ErrorKind::NoAttribute, format!("inode {ino} has no such attribute"))
}
