//! Names in a directory: an index in memory of its pages, which are stored like those of a file.
//!
//! A name has a cookie. Cookies increase from name to name and are never reused. Listings continue after a cookie, so
//! each name that exists during the whole listing is returned exactly once, whatever is added or removed during it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::attributes::Kind;
use crate::formats::directory::{self as page, Name};

/// The inode of a name, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
    pub(crate) cookie: u64,
    /// The page of the directory that holds it.
    pub(super) page: u64,
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

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether a name or its cookie is there already.
    pub(super) fn conflicts(&self, name: &Name) -> bool {
        self.by_name.contains_key(&name.name) || self.by_cookie.contains_key(&name.cookie)
    }

    pub(super) fn insert(&mut self, name: Name, page: u64) {
        let place = Place { ino: name.ino, kind: name.kind, cookie: name.cookie, page };
        self.by_cookie.insert(name.cookie, name.name.clone());
        self.by_name.insert(name.name, place);
    }

    /// Removes a name. If pages at the end have no names left, forgets them and returns how many pages remain.
    pub(super) fn remove(&mut self, name: &[u8], page_bytes: usize) -> Option<usize> {
        let place = self.by_name.remove(name)?;
        self.by_cookie.remove(&place.cookie);
        let pages = self.pages();
        (pages < self.used_bytes.len()).then(|| {
            self.cut(pages, page_bytes);
            pages
        })
    }

    /// Changes the inode of an existing name.
    pub(super) fn point(&mut self, name: &[u8], ino: u64, kind: Kind) {
        if let Some(place) = self.by_name.get_mut(name) {
            (place.ino, place.kind) = (ino, kind);
        }
    }

    pub(super) fn set_used(&mut self, page: u64, used: usize, page_bytes: usize) {
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
    pub(super) fn page_for(&self, name_bytes: usize) -> u64 {
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
