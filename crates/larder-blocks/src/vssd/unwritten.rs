//! An image that is inspected and stays unchanged: writes to it are kept in memory until it is dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use larder_device::Error;
use larder_vssd::ImageFailed;
use larder_vssd::image::ImageIo;

use super::image::ImageFile;

/// Bytes that are kept together.
const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;

/// See the module. The file is opened read-only, so it may lie on a file system that is mounted read-only.
#[derive(Debug)]
pub struct UnwrittenImage {
    file: ImageFile,
    /// Its length, including changes.
    bytes: u64,
    /// Pages that were written, by number.
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl UnwrittenImage {
    /// Opens the file. While it is open, others may read it too, but not change it.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](larder_device::ErrorKind::Setup) if it does not exist or may not be opened,
    /// [`ErrorKind::InUse`](larder_device::ErrorKind::InUse) if another process has it open for writing.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)
            .map_err(|error| Error::from_os(format!("image {}", path.display()), error))?;
        let mut file = ImageFile::locked_for_reading(file, path)?;
        let bytes = file.bytes().map_err(|ImageFailed(why)| {
            Error::new(larder_device::ErrorKind::Io, format!("image {}: {why}", path.display()))
        })?;
        Ok(Self { file, bytes, pages: BTreeMap::new() })
    }

    /// The current content of the page of this number.
    fn page(&mut self, number: u64) -> Result<Box<[u8]>, ImageFailed> {
        if let Some(page) = self.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE_BYTES].into_boxed_slice();
        let at = number * PAGE;
        let there = self.file.bytes()?.saturating_sub(at).min(PAGE);
        let there = usize::try_from(there).unwrap_or(0);
        self.file.read_at(at, page.get_mut(..there).unwrap_or_default())?;
        Ok(page)
    }
}

/// Splits `bytes` bytes from `at` on by pages: page number, offset in the page, offset in the bytes, count.
fn parts(at: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0_usize;
    std::iter::from_fn(move || {
        let from = at + done as u64;
        let within = usize::try_from(from % PAGE).unwrap_or(0);
        let count = (PAGE_BYTES - within).min(bytes - done);
        let part = (from / PAGE, within, done, count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl ImageIo for UnwrittenImage {
    fn bytes(&mut self) -> Result<u64, ImageFailed> {
        Ok(self.bytes)
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<(), ImageFailed> {
        self.bytes = bytes;
        Ok(())
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed> {
        if at.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(ImageFailed(format!("{} bytes at {at} are not there", into.len())));
        }
        for (number, within, done, count) in parts(at, into.len()) {
            let page = self.page(number)?;
            into[done..done + count].copy_from_slice(&page[within..within + count]);
        }
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed> {
        for (number, within, done, count) in parts(at, bytes.len()) {
            let mut page = self.page(number)?;
            page[within..within + count].copy_from_slice(&bytes[done..done + count]);
            self.pages.insert(number, page);
        }
        self.bytes = self.bytes.max(at + bytes.len() as u64);
        Ok(())
    }

    fn release(&mut self, _: u64, _: u64) -> Result<(), ImageFailed> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ImageFailed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("image");
        let before: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &before).unwrap();
        let mut image = UnwrittenImage::open(&path).unwrap();
        let mut expected = before.clone();
        for (at, bytes) in [(0, 1), (4095, 2), (4096, 4096), (9990, 100), (20_000, 5)] {
            let end = at + bytes;
            expected.resize(expected.len().max(end), 0);
            expected[at..end].fill(7);
            image.write_at(at as u64, &vec![7; bytes]).unwrap();
        }
        let mut found = vec![0; expected.len()];
        image.read_at(0, &mut found).unwrap();
        assert!(found == expected && image.bytes() == Ok(20_005));
        assert!(image.read_at(20_000, &mut [0; 6]).is_err());
        assert!(std::fs::read(&path).unwrap() == before);
        // Others may read it too, and none may change it.
        assert!(UnwrittenImage::open(&path).is_ok() && ImageFile::open(&path).is_err());
    }
}
