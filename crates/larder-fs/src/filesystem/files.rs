//! File data.

use std::ops::Range;

use super::FileSystem;
use crate::attributes::{Ino, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::volume::Volume;

/// What a seek looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekTo {
    /// Written data.
    Data,
    /// A hole, or the end of the file.
    Hole,
}

impl FileSystem {
    /// Reads data of a file: `length` bytes from `offset` on, or fewer at the end of the file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`], [`ErrorKind::Damaged`] if the data fails its checksum.
    pub fn read(&self, ino: Ino, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut volume = self.lock();
        must_have_bytes(&mut volume, ino)?;
        volume.accessed(ino);
        volume.read(ino, offset, length)
    }

    /// Writes data to a file from `offset` on. Returns the number of written bytes, which is less than the length of
    /// `bytes` if room runs out.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is no room at all; [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`],
    /// [`ErrorKind::FileTooLarge`], [`ErrorKind::ReadOnly`].
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<usize> {
        let mut volume = self.lock();
        must_have_bytes(&mut volume, ino)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = volume.write(ino, offset, bytes)?;
        volume.data_changed(ino)?;
        Ok(written)
    }

    /// Allocates pages for a range of a file, so that later writes to it cannot run out of room. The file grows to the
    /// end of the range unless `keeps_size`.
    ///
    /// # Errors
    /// As [`FileSystem::write`]; [`ErrorKind::InvalidRequest`] for an empty range.
    pub fn allocate(&self, ino: Ino, range: Range<u64>, keeps_size: bool) -> Result<()> {
        let mut volume = self.lock();
        must_be_range(&mut volume, ino, &range)?;
        volume.before_change()?;
        volume.allocate(ino, range.clone())?;
        if !keeps_size && volume.nodes().inode(ino)?.size < range.end {
            volume.nodes().inode_mut(ino)?.size = range.end;
        }
        volume.data_changed(ino)
    }

    /// Zeros a range of a file, and frees whole pages of it. The length of the file does not change.
    ///
    /// # Errors
    /// As [`FileSystem::allocate`].
    pub fn punch(&self, ino: Ino, range: Range<u64>) -> Result<()> {
        let mut volume = self.lock();
        must_be_range(&mut volume, ino, &range)?;
        volume.before_change()?;
        volume.punch(ino, range)?;
        volume.data_changed(ino)
    }

    /// The next byte from `offset` on that is data or in a hole, by `to`; the end of the file counts as a hole.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`] if there is none; [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`].
    pub fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let mut volume = self.lock();
        must_have_bytes(&mut volume, ino)?;
        let (end, page) = (volume.nodes().inode(ino)?.size, volume.page_bytes());
        if offset >= end {
            let context = format!("inode {ino} ends at {end}");
            return Err(Error::new(ErrorKind::NoAttribute, context));
        }
        let first = offset / page;
        let pages = volume.existing(ino, first..end.div_ceil(page))?;
        let found = match to {
            SeekTo::Data => pages.first().copied(),
            SeekTo::Hole => (first..).find(|index| !pages.contains(index)),
        };
        match (found, to) {
            (Some(index), _) => Ok((index * page).clamp(offset, end)),
            (None, SeekTo::Hole) => Ok(end),
            (None, SeekTo::Data) => {
                let context = format!("inode {ino} has no data behind {offset}");
                Err(Error::new(ErrorKind::NoAttribute, context))
            }
        }
    }
}

fn must_have_bytes(volume: &mut Volume, ino: Ino) -> Result<()> {
    match volume.nodes().inode(ino)?.kind {
        Kind::File | Kind::Symlink => Ok(()),
        Kind::Directory => {
            Err(Error::new(ErrorKind::IsDirectory, format!("inode {ino} is a directory")))
        }
        _ => Err(Error::new(ErrorKind::InvalidRequest, format!("inode {ino} has no bytes"))),
    }
}

fn must_be_range(volume: &mut Volume, ino: Ino, range: &Range<u64>) -> Result<()> {
    must_have_bytes(volume, ino)?;
    if range.is_empty() {
        return Err(Error::new(ErrorKind::InvalidRequest, "a range without bytes"));
    }
    if range.end > volume.geometry().file_bytes_max() {
        let context = format!("inode {ino}: files are not as long as {} bytes", range.end);
        return Err(Error::new(ErrorKind::FileTooLarge, context));
    }
    Ok(())
}
