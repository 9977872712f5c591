//! Pages of files: read, write, truncate.
//!
//! After the end of a file, its last page is always zeros: a write to a hole fills the rest of the page with them, and
//! a truncation clears the rest of its page. So a file that grows never exposes old data.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{DirtyPage, NodeKey, Volume};
use crate::address::Pointer;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::node::{PART_ATTRIBUTES, PART_INODE, PART_LEAVES};
use crate::geometry::size;

/// The part of a page that is in a range of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Index of the page in its file.
    pub(crate) index: u64,
    /// Bytes within the page.
    pub(crate) within: Range<usize>,
    /// Bytes within the range.
    pub(crate) of_range: Range<usize>,
}

impl Span {
    /// The pages of a range, in order.
    pub(crate) fn of(offset: u64, length: usize, page_bytes: u64) -> impl Iterator<Item = Self> {
        let end = offset + length as u64;
        let pages = offset / page_bytes..end.div_ceil(page_bytes);
        pages.filter(move |_| length > 0).map(move |index| {
            let (first, behind) = (index * page_bytes, (index + 1) * page_bytes);
            let (from, to) = (first.max(offset), behind.min(end));
            Self {
                index,
                within: size(from - first)..size(to - first),
                of_range: size(from - offset)..size(to - offset),
            }
        })
    }
}

impl Volume {
    /// Pages of data and nodes that a write to this page of a file would add.
    pub(crate) fn page_adds(&mut self, ino: u64, index: u64) -> Result<(u64, u64)> {
        if self.pages.contains_key(&(ino, index)) || self.nodes.pointer(ino, index)?.is_some() {
            return Ok((0, 0));
        }
        let (part, _) = self.nodes.holder(index);
        Ok((1, u64::from(!self.nodes.contains((ino, part)))))
    }

    /// The current content of a page of a file. `None` is a hole.
    pub(crate) fn page(&mut self, ino: u64, index: u64) -> Result<Option<Vec<u8>>> {
        if let Some(page) = self.pages.get(&(ino, index)) {
            return match page.damaged {
                None => Ok(Some(page.bytes.clone())),
                Some(_) => Err(damaged(ino, index)),
            };
        }
        let pointer = self.nodes.pointer(ino, index)?;
        pointer.map(|pointer| self.flash.read_checked(pointer)).transpose()
    }

    /// A page of a file for a change. A hole becomes zeros, and so does a page that will be overwritten completely. The
    /// caller must have checked for room.
    pub(crate) fn page_mut(&mut self, ino: u64, index: u64, whole: bool) -> Result<&mut [u8]> {
        let key = (ino, index);
        if !self.pages.contains_key(&key) {
            let pointer = self.nodes.pointer(ino, index)?;
            let bytes = match pointer {
                Some(pointer) if !whole => self.flash.read_checked(pointer)?,
                _ => vec![0; self.geometry().page_bytes],
            };
            self.insert_page(key, pointer.is_none(), bytes)?;
        }
        let page = self.pages.get_mut(&key).ok_or_else(|| damaged(ino, index))?;
        if page.damaged.is_some() && !whole {
            return Err(damaged(ino, index));
        }
        (page.moved, page.damaged) = (false, None);
        Ok(&mut page.bytes)
    }

    fn insert_page(&mut self, key: (u64, u64), is_new: bool, bytes: Vec<u8>) -> Result<()> {
        let (part, _) = self.nodes.holder(key.1);
        self.nodes.pointers_mut(key.0, part)?;
        if is_new {
            self.data_pages += 1;
            let inode = self.nodes.inode_mut(key.0)?;
            inode.pages = inode.pages.saturating_add(1);
        }
        self.pages.insert(key, DirtyPage { bytes, moved: false, damaged: None });
        Ok(())
    }

    /// Reads data of a file from `offset` on, up to its end.
    pub(crate) fn read(&mut self, ino: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = self.nodes.inode(ino)?.size;
        let length = length.min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        let mut stored: Vec<(Pointer, Span)> = Vec::new();
        for span in Span::of(offset, length, self.page_bytes()) {
            if let Some(page) = self.pages.get(&(ino, span.index)) {
                if page.damaged.is_some() {
                    return Err(damaged(ino, span.index));
                }
                bytes[span.of_range].copy_from_slice(&page.bytes[span.within]);
            } else if let Some(pointer) = self.nodes.pointer(ino, span.index)? {
                stored.push((pointer, span));
            }
        }
        for group in stored.chunk_by(|(one, _), (next, _)| follows(*one, *next)) {
            self.read_group(ino, group, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Reads consecutive pages in one request.
    fn read_group(&self, ino: u64, group: &[(Pointer, Span)], into: &mut [u8]) -> Result<()> {
        let Some((first, _)) = group.first() else { return Ok(()) };
        let pages = u32::try_from(group.len()).unwrap_or(u32::MAX);
        let read = self.flash.read(first.address, pages)?;
        for (page, (pointer, span)) in read.chunks(self.geometry().page_bytes).zip(group) {
            if larder_checksum::crc32c(page) != pointer.checksum {
                return Err(damaged(ino, span.index));
            }
            into[span.of_range.clone()].copy_from_slice(&page[span.within.clone()]);
        }
        Ok(())
    }

    /// Writes data to a file: all of it, or as much as there is room for. A write of at most
    /// [`Volume::change_pages_max`] pages is atomic with respect to power loss.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is no room at all.
    pub(crate) fn write(&mut self, ino: u64, offset: u64, bytes: &[u8]) -> Result<usize> {
        let max = self.geometry().file_bytes_max();
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > max) {
            let context = format!("a write ends behind byte {max}, where files end");
            return Err(Error::new(ErrorKind::FileTooLarge, context));
        }
        let change = size((self.change_pages_max() as u64).saturating_mul(self.page_bytes()));
        // The first change ends at a page boundary, so that all others are whole pages.
        let first = change - size(offset % self.page_bytes());
        let mut written = 0;
        while written < bytes.len() {
            let end = bytes.len().min(if written == 0 { first } else { written + change });
            let part = &bytes[written..end];
            let pages = part.len().div_ceil(self.geometry().page_bytes) + 1;
            let begun = self.before_changes(pages);
            let done = begun.and_then(|()| self.write_at_once(ino, offset + written as u64, part));
            match done {
                Ok(count) => written += count,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
            if written < end {
                break;
            }
        }
        Ok(written)
    }

    /// Writes data as one change: all of it, or as much as there is room for.
    pub(super) fn write_at_once(&mut self, ino: u64, offset: u64, bytes: &[u8]) -> Result<usize> {
        let mut written = 0;
        for span in Span::of(offset, bytes.len(), self.page_bytes()) {
            match self.write_span(ino, &span, bytes) {
                Ok(()) => written = span.of_range.end,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        let end = offset + written as u64;
        if self.nodes.inode(ino)?.size < end {
            self.nodes.inode_mut(ino)?.size = end;
        }
        Ok(written)
    }

    fn write_span(&mut self, ino: u64, span: &Span, bytes: &[u8]) -> Result<()> {
        let (pages, nodes) = self.page_adds(ino, span.index)?;
        self.need_room(pages, nodes)?;
        let whole = span.within.len() == self.geometry().page_bytes;
        let page = self.page_mut(ino, span.index, whole)?;
        page[span.within.clone()].copy_from_slice(&bytes[span.of_range.clone()]);
        Ok(())
    }

    /// Truncates a file, or extends it by a hole.
    pub(crate) fn resize(&mut self, ino: u64, bytes: u64) -> Result<()> {
        if bytes > self.geometry().file_bytes_max() {
            let context = format!("inode {ino}: {bytes} bytes are longer than files can be");
            return Err(Error::new(ErrorKind::FileTooLarge, context));
        }
        if bytes < self.nodes.inode(ino)?.size {
            self.clear_rest(ino, bytes)?;
            self.cut(ino, bytes.div_ceil(self.page_bytes()))?;
        }
        self.nodes.inode_mut(ino)?.size = bytes;
        Ok(())
    }

    /// Zeros the bytes from `from` to the end of its page, if that page exists.
    fn clear_rest(&mut self, ino: u64, from: u64) -> Result<()> {
        let index = from / self.page_bytes();
        let within = size(from % self.page_bytes());
        if within > 0 && self.page_adds(ino, index)? == (0, 0) {
            self.page_mut(ino, index, false)?[within..].fill(0);
        }
        Ok(())
    }

    /// Drops all pages of a file from `from` on.
    pub(crate) fn cut(&mut self, ino: u64, from: u64) -> Result<()> {
        for index in self.existing(ino, from..u64::MAX)? {
            self.drop_page(ino, index)?;
        }
        let first = match self.nodes.holder(from) {
            (PART_INODE, _) => PART_LEAVES,
            (part, 0) => part,
            (part, _) => part.saturating_add(1),
        };
        let leaves = self.nodes.parts(ino, first..=u32::MAX);
        if !leaves.is_empty() {
            leaves.into_iter().for_each(|part| self.drop_node((ino, part)));
            self.parts_gone(ino, first);
        }
        Ok(())
    }

    /// The pages in this range of a file that are not holes.
    pub(crate) fn existing(&mut self, ino: u64, range: Range<u64>) -> Result<BTreeSet<u64>> {
        let dirty = self.pages.range((ino, range.start)..(ino, range.end));
        let mut found: BTreeSet<u64> = dirty.map(|((_, index), _)| *index).collect();
        let first = self.nodes.holder(range.start).0;
        let last = self.nodes.holder(range.end - 1).0.max(first);
        let parts = self.nodes.parts(ino, first..=last).into_iter();
        for part in parts.filter(|part| *part != PART_ATTRIBUTES) {
            let (inode_pointers, leaf_pointers) =
                (self.geometry().inode_pointers() as u64, self.geometry().leaf_pointers() as u64);
            let begins = match part.checked_sub(PART_LEAVES) {
                Some(leaf) => inode_pointers + u64::from(leaf) * leaf_pointers,
                None => 0,
            };
            let pointers = match self.nodes.pointers(ino, part) {
                Ok(pointers) => pointers.map(Vec::as_slice).unwrap_or_default(),
                // The pages of a damaged leaf are lost, but the file can still be truncated and deleted.
                Err(error) if error.kind() == ErrorKind::Damaged && part != PART_INODE => &[],
                Err(error) => return Err(error),
            };
            let there = (begins..).zip(pointers).filter(|(_, pointer)| pointer.is_some());
            found.extend(there.map(|(index, _)| index).filter(|index| range.contains(index)));
        }
        Ok(found)
    }

    /// Turns a page into a hole.
    pub(crate) fn drop_page(&mut self, ino: u64, index: u64) -> Result<()> {
        let (part, slot) = self.nodes.holder(index);
        let pointer = self.nodes.pointer(ino, index)?;
        let dirty = self.pages.remove(&(ino, index));
        if pointer.is_none() && dirty.is_none() {
            return Ok(());
        }
        if let Some(pointer) = pointer {
            if let Some(slot) = self.nodes.pointers_mut(ino, part)?.get_mut(slot) {
                *slot = None;
            }
            self.table.died(pointer.address);
        }
        self.data_pages = self.data_pages.saturating_sub(1);
        let inode = self.nodes.inode_mut(ino)?;
        inode.pages = inode.pages.saturating_sub(1);
        Ok(())
    }

    /// Removes a node. The caller must also record it for the next batch (`parts_gone`).
    fn drop_node(&mut self, key: NodeKey) {
        if let Some(pointer) = self.nodes.remove(key) {
            self.table.died(pointer.address);
        }
    }

    fn parts_gone(&mut self, ino: u64, first: u32) {
        let from = self.gone.entry(ino).or_insert(first);
        *from = (*from).min(first);
    }

    /// Removes an inode with all its pages and nodes.
    pub(crate) fn remove_inode(&mut self, ino: u64) -> Result<()> {
        self.cut(ino, 0)?;
        self.drop_node((ino, PART_ATTRIBUTES));
        self.drop_node((ino, PART_INODE));
        self.parts_gone(ino, PART_INODE);
        self.directories.remove(&ino);
        self.open.removed(ino);
        Ok(())
    }

    /// Zeros a range of a file; whole pages become holes.
    pub(crate) fn punch(&mut self, ino: u64, range: Range<u64>) -> Result<()> {
        let range = range.start
            ..range.end.min(self.nodes.inode(ino)?.size.next_multiple_of(self.page_bytes()));
        if range.is_empty() {
            return Ok(());
        }
        let page_bytes = self.page_bytes();
        let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
        let (there, most) = (self.existing(ino, pages)?, self.change_pages_max());
        for (number, index) in there.iter().copied().enumerate() {
            if number % most == 0 {
                self.before_changes((there.len() - number).min(most))?;
            }
            let first = index * page_bytes;
            let from = size(range.start.max(first) - first);
            let to = size(range.end.min(first + page_bytes) - first);
            if to - from == self.geometry().page_bytes {
                self.drop_page(ino, index)?;
            } else {
                self.page_mut(ino, index, false)?[from..to].fill(0);
            }
        }
        Ok(())
    }

    /// Ensures that later writes to a range of a file find room: its holes become pages of zeros.
    pub(crate) fn allocate(&mut self, ino: u64, range: Range<u64>) -> Result<()> {
        let page_bytes = self.page_bytes();
        let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
        if pages.is_empty() {
            return Ok(());
        }
        let there = self.existing(ino, pages.clone())?;
        let missing = (pages.end - pages.start) - there.len() as u64;
        self.need_room(missing, 0)?;
        let parts =
            self.nodes.holder(pages.start).0.max(PART_LEAVES)..=self.nodes.holder(pages.end - 1).0;
        let leaves = parts.filter(|part| !self.nodes.contains((ino, *part))).count();
        self.need_room(missing, leaves as u64)?;
        let (missing, most) = (size(missing), self.change_pages_max());
        for (number, index) in pages.filter(|index| !there.contains(index)).enumerate() {
            if number % most == 0 {
                self.before_changes((missing - number).min(most))?;
            }
            self.page_mut(ino, index, true)?;
        }
        Ok(())
    }
}

/// Whether a page directly follows another.
fn follows(one: Pointer, next: Pointer) -> bool {
    next.address.raw() == one.address.raw() + 1 && next.address.block() == one.address.block()
}

fn damaged(ino: u64, index: u64) -> Error {
    Error::damaged(format!("page {index} of inode {ino} fails its checksum"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_its_spans() {
        let spans: Vec<Span> = Span::of(4000, 4300, 4096).collect();
        let span = |index, within, of_range| Span { index, within, of_range };
        let wanted =
            [span(0, 4000..4096, 0..96), span(1, 0..4096, 96..4192), span(2, 0..108, 4192..4300)];
        assert_eq!(spans, wanted);
        assert_eq!(Span::of(4096, 0, 4096).count(), 0);
    }
}
