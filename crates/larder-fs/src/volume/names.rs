//! Looks up, creates, removes and renames names. Each of these is one change: a batch has all of it or nothing.

use super::Volume;
use super::directory::{Directory, Place};
use crate::attributes::{Kind, Owner};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::directory::{self as page, NAME_BYTES_MAX, Name, is_name};
use crate::formats::node::{Inode, PART_INODE};
use crate::geometry::size;

/// Approximate limit of names kept in memory, for all directories together.
const NAMES_MAX: usize = 1 << 20;
/// Maximum number of links of an inode.
const LINKS_MAX: u32 = i32::MAX.unsigned_abs();
/// Set-group-ID: files created in a directory with this bit get its group.
const SET_GROUP_ID: u16 = 0o2000;

/// The inode of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
}

/// What to do if the new name already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Renaming {
    /// Replace it: the name leads to the renamed file only.
    #[default]
    Replace,
    /// Refuse to rename.
    NoReplace,
    /// It must exist, and the two are exchanged.
    Exchange,
}

fn error(kind: ErrorKind, what: &str, name: &[u8]) -> Error {
    Error::new(kind, format!("{what}: {}", String::from_utf8_lossy(name)))
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(error(ErrorKind::NameTooLong, "a name of more than 255 bytes", name));
    }
    if !is_name(name) {
        return Err(error(ErrorKind::InvalidRequest, "no name for a file", name));
    }
    Ok(())
}

impl Volume {
    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`].
    pub(crate) fn find(&mut self, parent: u64, name: &[u8]) -> Result<Found> {
        self.look_up(parent, name)?.ok_or_else(|| error(ErrorKind::NotFound, "no such name", name))
    }

    fn look_up(&mut self, parent: u64, name: &[u8]) -> Result<Option<Found>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(error(ErrorKind::NameTooLong, "a name of more than 255 bytes", name));
        }
        let found = self.directory(parent)?.get(name);
        Ok(found.map(|place| Found { ino: place.ino, kind: place.kind }))
    }

    /// Creates an inode with a name. `bytes` is its initial content: the target of a symbolic link.
    pub(crate) fn make(
        &mut self,
        (parent, name): (u64, &[u8]),
        (kind, rdev): (Kind, u32),
        owner: Owner,
        bytes: &[u8],
    ) -> Result<u64> {
        check_name(name)?;
        let holds = (bytes.len() as u64).div_ceil(self.page_bytes());
        self.before_changes(size(holds))?;
        if self.look_up(parent, name)?.is_some() {
            return Err(error(ErrorKind::Exists, "the name is taken", name));
        }
        let above = self.nodes.inode(parent)?;
        if above.links == 0 {
            return Err(error(ErrorKind::NotFound, "the directory is gone, for", name));
        }
        if kind == Kind::Directory && above.links >= LINKS_MAX {
            return Err(error(ErrorKind::TooManyLinks, "too many directories beside", name));
        }
        let hands_on = above.permissions & SET_GROUP_ID != 0;
        let gid = if hands_on { above.gid } else { owner.gid };
        let inherited = if hands_on && kind == Kind::Directory { SET_GROUP_ID } else { 0 };
        let (pages, nodes) = self.name_adds(parent, name.len())?;
        self.need_room(pages + holds, nodes + 1)?;

        let ino = self.next_ino;
        self.next_ino = ino.saturating_add(1);
        let now = self.now();
        let owner = Owner { gid, permissions: owner.permissions | inherited, ..owner };
        let pointers = self.geometry().inode_pointers();
        let inode = Inode { rdev, ..Inode::new(kind, owner, parent, now, pointers) };
        self.nodes.insert_inode(ino, inode);
        self.write_at_once(ino, 0, bytes)?;
        self.add_name(parent, name, ino, kind)?;
        self.count_link(parent, if kind == Kind::Directory { 1 } else { 0 })?;
        self.data_changed(parent)?;
        Ok(ino)
    }

    /// Adds a name for a file that is not a directory.
    pub(crate) fn link(&mut self, ino: u64, parent: u64, name: &[u8]) -> Result<()> {
        check_name(name)?;
        self.before_change()?;
        let inode = self.nodes.inode(ino)?;
        let (kind, links) = (inode.kind, inode.links);
        if kind == Kind::Directory {
            return Err(error(ErrorKind::NotPermitted, "a directory has one name, not", name));
        }
        if links == 0 {
            return Err(error(ErrorKind::NotFound, "what has lost its last name gets none", name));
        }
        if links >= LINKS_MAX {
            return Err(error(ErrorKind::TooManyLinks, "too many names beside", name));
        }
        if self.look_up(parent, name)?.is_some() {
            return Err(error(ErrorKind::Exists, "the name is taken", name));
        }
        if self.nodes.inode(parent)?.links == 0 {
            return Err(error(ErrorKind::NotFound, "the directory is gone, for", name));
        }
        let (pages, nodes) = self.name_adds(parent, name.len())?;
        self.need_room(pages, nodes)?;
        self.add_name(parent, name, ino, kind)?;
        self.count_link(ino, 1)?;
        self.touch(ino)?;
        self.data_changed(parent)
    }

    /// Removes a name. Removes the file with its last name, unless it is open.
    pub(crate) fn unlink(&mut self, parent: u64, name: &[u8]) -> Result<()> {
        self.before_change()?;
        let found = self.find(parent, name)?;
        if found.kind == Kind::Directory {
            return Err(error(ErrorKind::IsDirectory, "a directory", name));
        }
        self.remove_name(parent, name)?;
        self.data_changed(parent)?;
        self.lost_name(found.ino)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&mut self, parent: u64, name: &[u8]) -> Result<()> {
        self.before_change()?;
        let found = self.find(parent, name)?;
        if found.kind != Kind::Directory {
            return Err(error(ErrorKind::NotDirectory, "no directory", name));
        }
        if !self.directory(found.ino)?.is_empty() {
            return Err(error(ErrorKind::NotEmpty, "the directory has names", name));
        }
        self.remove_name(parent, name)?;
        self.count_link(parent, -1)?;
        self.data_changed(parent)?;
        self.lost_name(found.ino)
    }

    /// Records that an inode has lost a name; a directory has lost its only one.
    fn lost_name(&mut self, ino: u64) -> Result<()> {
        let inode = match self.nodes.inode_mut(ino) {
            Ok(inode) => inode,
            // The inode is missing or damaged: the name can be removed nevertheless.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let is_directory = inode.kind == Kind::Directory;
        inode.links = if is_directory { 0 } else { inode.links.saturating_sub(1) };
        if inode.links > 0 {
            return self.touch(ino);
        }
        if self.open.lost_last_name(ino) {
            return self.touch(ino);
        }
        self.remove_inode(ino)
    }

    /// Renames in one step.
    pub(crate) fn rename(
        &mut self,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
        how: Renaming,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        self.before_change()?;
        let source = self.find(parent, name)?;
        let target = self.look_up(new_parent, new_name)?;
        if source.kind == Kind::Directory && self.is_within(new_parent, source.ino)? {
            return Err(error(ErrorKind::InvalidRequest, "a directory within itself", new_name));
        }
        if self.nodes.inode(new_parent)?.links == 0 {
            return Err(error(ErrorKind::NotFound, "the directory is gone, for", new_name));
        }
        match (how, target) {
            (Renaming::NoReplace, Some(_)) => {
                Err(error(ErrorKind::Exists, "the name is taken", new_name))
            }
            (Renaming::Exchange, None) => Err(error(ErrorKind::NotFound, "no such name", new_name)),
            (_, Some(target)) if target.ino == source.ino => Ok(()),
            (Renaming::Exchange, Some(target)) => {
                if target.kind == Kind::Directory && self.is_within(parent, target.ino)? {
                    let what = "a directory within itself";
                    return Err(error(ErrorKind::InvalidRequest, what, name));
                }
                self.point_name(new_parent, new_name, source.ino, source.kind)?;
                self.point_name(parent, name, target.ino, target.kind)?;
                self.moved(source, parent, new_parent)?;
                self.moved(target, new_parent, parent)?;
                self.data_changed(new_parent)?;
                self.data_changed(parent)
            }
            (_, Some(target)) => {
                self.may_replace(source, target, new_name)?;
                self.point_name(new_parent, new_name, source.ino, source.kind)?;
                if target.kind == Kind::Directory {
                    self.count_link(new_parent, -1)?;
                }
                self.lost_name(target.ino)?;
                self.left(source, (parent, name), new_parent)
            }
            (_, None) => {
                let (pages, nodes) = self.name_adds(new_parent, new_name.len())?;
                self.need_room(pages, nodes)?;
                self.add_name(new_parent, new_name, source.ino, source.kind)?;
                self.left(source, (parent, name), new_parent)
            }
        }
    }

    fn may_replace(&mut self, source: Found, target: Found, name: &[u8]) -> Result<()> {
        match (source.kind == Kind::Directory, target.kind == Kind::Directory) {
            (true, false) => Err(error(ErrorKind::NotDirectory, "no directory", name)),
            (false, true) => Err(error(ErrorKind::IsDirectory, "a directory", name)),
            (true, true) if !self.directory(target.ino)?.is_empty() => {
                Err(error(ErrorKind::NotEmpty, "the directory has names", name))
            }
            _ => Ok(()),
        }
    }

    /// Removes the old name after the new one was added.
    fn left(&mut self, source: Found, (parent, name): (u64, &[u8]), to: u64) -> Result<()> {
        self.remove_name(parent, name)?;
        self.moved(source, parent, to)?;
        self.data_changed(parent)?;
        self.data_changed(to)
    }

    /// Updates the parent and link counts after a move between directories.
    fn moved(&mut self, what: Found, from: u64, to: u64) -> Result<()> {
        if what.kind == Kind::Directory && from != to {
            self.nodes.inode_mut(what.ino)?.parent = to;
            self.count_link(from, -1)?;
            self.count_link(to, 1)?;
        }
        self.touch(what.ino)
    }

    /// Whether `directory` is `above`, or below it.
    fn is_within(&mut self, directory: u64, above: u64) -> Result<bool> {
        let mut at = directory;
        // Damage may have created a cycle of directories: bound the walk by the number of nodes.
        for _ in 0..=self.nodes.count() {
            if at == above {
                return Ok(true);
            }
            let parent = self.nodes.inode(at)?.parent;
            if parent == at || !self.nodes.contains((parent, PART_INODE)) {
                return Ok(false);
            }
            at = parent;
        }
        Err(Error::damaged(format!("directory {directory} is above itself")))
    }

    fn count_link(&mut self, ino: u64, by: i32) -> Result<()> {
        if by != 0 {
            let inode = self.nodes.inode_mut(ino)?;
            inode.links = inode.links.saturating_add_signed(by);
        }
        Ok(())
    }

    /// The names of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotDirectory`]; [`ErrorKind::Damaged`].
    pub(crate) fn directory(&mut self, ino: u64) -> Result<&Directory> {
        if !self.directories.contains_key(&ino) {
            let directory = self.read_directory(ino)?;
            let kept: usize = self.directories.values().map(Directory::len).sum();
            if kept > NAMES_MAX {
                self.directories.clear();
            }
            self.directories.insert(ino, directory);
        }
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no directory {ino}"));
        self.directories.get(&ino).ok_or_else(missing)
    }

    fn read_directory(&mut self, ino: u64) -> Result<Directory> {
        let inode = self.nodes.inode(ino)?;
        if inode.kind != Kind::Directory {
            return Err(Error::new(
                ErrorKind::NotDirectory,
                format!("inode {ino} is no directory"),
            ));
        }
        let (next, bytes) = (inode.next_cookie, inode.size);
        let (page_bytes, pages) = (self.geometry().page_bytes, bytes.div_ceil(self.page_bytes()));
        let mut directory = Directory::default();
        for index in self.existing(ino, 0..pages.max(1))? {
            let page = self.page(ino, index)?.unwrap_or_default();
            let names = self.names_of(ino, index, &page)?;
            directory.set_used(index, page::used_bytes(&names), page_bytes);
            for name in names {
                if directory.conflicts(&name) || name.cookie >= next {
                    let context = format!("directory {ino} has a name or a cookie twice");
                    return Err(Error::damaged(context));
                }
                directory.insert(name, index);
            }
        }
        Ok(directory)
    }

    fn names_of(&self, ino: u64, index: u64, bytes: &[u8]) -> Result<Vec<Name>> {
        let damaged = || Error::damaged(format!("page {index} of directory {ino} has no names"));
        page::decode(bytes).ok_or_else(damaged)
    }

    /// Pages of data and nodes that one more name would add.
    pub(crate) fn name_adds(&mut self, ino: u64, name_bytes: usize) -> Result<(u64, u64)> {
        let page = self.directory(ino)?.page_for(name_bytes);
        self.page_adds(ino, page)
    }

    /// Adds a name that does not exist yet. The caller must have checked for room.
    pub(crate) fn add_name(&mut self, ino: u64, name: &[u8], to: u64, kind: Kind) -> Result<()> {
        let index = self.directory(ino)?.page_for(name.len());
        let cookie = self.nodes.inode(ino)?.next_cookie.max(1);
        let following = cookie.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::NoSpace, format!("directory {ino} has no cookies left"))
        })?;
        let entry = Name { cookie, ino: to, kind, name: name.into() };
        self.change_names(ino, index, |names| names.push(entry.clone()))?;
        let page_bytes = self.page_bytes();
        let inode = self.nodes.inode_mut(ino)?;
        inode.next_cookie = following;
        inode.size = inode.size.max((index + 1) * page_bytes);
        if let Some(directory) = self.directories.get_mut(&ino) {
            directory.insert(entry, index);
        }
        Ok(())
    }

    /// Removes an existing name, and with it pages at the end that have no names left.
    pub(crate) fn remove_name(&mut self, ino: u64, name: &[u8]) -> Result<()> {
        let place = self.place(ino, name)?;
        self.change_names(ino, place.page, |names| names.retain(|it| *it.name != *name))?;
        let page_bytes = self.geometry().page_bytes;
        let Some(directory) = self.directories.get_mut(&ino) else { return Ok(()) };
        if let Some(pages) = directory.remove(name, page_bytes) {
            self.cut(ino, pages as u64)?;
            self.nodes.inode_mut(ino)?.size = pages as u64 * page_bytes as u64;
        }
        Ok(())
    }

    /// Changes the inode of an existing name.
    pub(crate) fn point_name(&mut self, ino: u64, name: &[u8], to: u64, kind: Kind) -> Result<()> {
        let place = self.place(ino, name)?;
        self.change_names(ino, place.page, |names| {
            for it in names.iter_mut().filter(|it| *it.name == *name) {
                (it.ino, it.kind) = (to, kind);
            }
        })?;
        if let Some(directory) = self.directories.get_mut(&ino) {
            directory.point(name, to, kind);
        }
        Ok(())
    }

    fn place(&mut self, ino: u64, name: &[u8]) -> Result<Place> {
        let missing = || Error::new(ErrorKind::NotFound, format!("no such name in {ino}"));
        self.directory(ino)?.get(name).ok_or_else(missing)
    }

    fn change_names(
        &mut self,
        ino: u64,
        index: u64,
        change: impl FnOnce(&mut Vec<Name>),
    ) -> Result<()> {
        let before = self.page(ino, index)?;
        let mut names = match before {
            Some(page) => self.names_of(ino, index, &page)?,
            None => Vec::new(),
        };
        change(&mut names);
        let page_bytes = self.geometry().page_bytes;
        let encoded = page::encode(&names, page_bytes);
        self.page_mut(ino, index, true)?.copy_from_slice(&encoded);
        if let Some(directory) = self.directories.get_mut(&ino) {
            directory.set_used(index, page::used_bytes(&names), page_bytes);
        }
        Ok(())
    }
}
