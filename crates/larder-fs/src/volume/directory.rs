//! Names in a directory: an index in memory of its pages, which are stored like those of a file.
//!
//! A name has a cookie. Cookies increase from name to name and are never reused. Listings continue after a cookie, so
//! each name that exists during the whole listing is returned exactly once, whatever is added or removed during it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Volume;
use crate::attributes::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::directory::{self as page, Name};

/// Approximate limit of names kept in memory, for all directories together.
const NAMES_MAX: usize = 1 << 20;

/// The inode of a name, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
    pub(crate) cookie: u64,
    page: u64,
}

/// The names of a directory.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    by_name: HashMap<Box<[u8]>, Place>,
    by_cookie: BTreeMap<u64, Box<[u8]>>,
    /// Used bytes of each page.
    used_bytes: Vec<usize>,
    /// Pages by their free bytes.
    roomy: BTreeSet<(usize, u64)>,
}

impl Directory {
    pub(crate) fn get(&self, name: &[u8]) -> Option<Place> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The first name after a cookie.
    pub(crate) fn after(&self, cookie: u64) -> Option<(&[u8], Place)> {
        let (_, name) = self.by_cookie.range(cookie.checked_add(1)?..).next()?;
        Some((name, *self.by_name.get(name)?))
    }

    fn insert(&mut self, name: Name, page: u64) {
        let place = Place { ino: name.ino, kind: name.kind, cookie: name.cookie, page };
        self.by_cookie.insert(name.cookie, name.name.clone());
        self.by_name.insert(name.name, place);
    }

    fn set_used(&mut self, page: u64, used: usize, page_bytes: usize) {
        let Ok(index) = usize::try_from(page) else { return };
        if self.used_bytes.len() <= index {
            self.used_bytes.resize(index + 1, page::used_bytes(&[]));
        }
        if let Some(before) = self.used_bytes.get_mut(index) {
            self.roomy.remove(&(page_bytes.saturating_sub(*before), page));
            *before = used;
            self.roomy.insert((page_bytes.saturating_sub(used), page));
        }
    }

    /// The fullest page with room for a name of `name_bytes` bytes, or a new one.
    fn page_for(&self, name_bytes: usize) -> u64 {
        let fits = self.roomy.range((page::entry_bytes(name_bytes), 0)..).next();
        fits.map_or(self.used_bytes.len() as u64, |(_, page)| *page)
    }

    /// Number of pages up to the last one with names.
    fn pages(&self) -> usize {
        let empty = page::used_bytes(&[]);
        self.used_bytes.iter().rposition(|used| *used > empty).map_or(0, |last| last + 1)
    }

    fn cut(&mut self, pages: usize, page_bytes: usize) {
        for page in pages..self.used_bytes.len() {
            let free = page_bytes.saturating_sub(self.used_bytes[page]);
            self.roomy.remove(&(free, page as u64));
        }
        self.used_bytes.truncate(pages);
    }
}

impl Volume {
    /// The names of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotDirectory`]; [`ErrorKind::Damaged`].
    pub(crate) fn directory(&mut self, ino: u64) -> Result<&Directory> {
        if !self.directories.contains_key(&ino) {
            let directory = self.read_directory(ino)?;
            let kept: usize = self.directories.values().map(|it| it.by_name.len()).sum();
            if kept > NAMES_MAX {
                self.directories.clear();
            }
            self.directories.insert(ino, directory);
        }
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no directory {ino}"));
        self.directories.get(&ino).ok_or_else(missing)
    }

    fn read_directory(&mut self, ino: u64) -> Result<Directory> {
        let inode = self.inode(ino)?;
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
                let twice = directory.by_name.contains_key(&name.name)
                    || directory.by_cookie.contains_key(&name.cookie);
                if twice || name.cookie >= next {
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
        let cookie = self.inode(ino)?.next_cookie.max(1);
        let following = cookie.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::NoSpace, format!("directory {ino} has no cookies left"))
        })?;
        let entry = Name { cookie, ino: to, kind, name: name.into() };
        self.change_names(ino, index, |names| names.push(entry.clone()))?;
        let page_bytes = self.page_bytes();
        let inode = self.inode_mut(ino)?;
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
        let page_bytes = self.page_bytes();
        let Some(directory) = self.directories.get_mut(&ino) else { return Ok(()) };
        directory.by_name.remove(name);
        directory.by_cookie.remove(&place.cookie);
        let pages = directory.pages();
        if pages < directory.used_bytes.len() {
            directory.cut(pages, usize::try_from(page_bytes).unwrap_or(usize::MAX));
            self.cut(ino, pages as u64)?;
            self.inode_mut(ino)?.size = pages as u64 * page_bytes;
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
            directory.by_name.insert(name.into(), Place { ino: to, kind, ..place });
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
