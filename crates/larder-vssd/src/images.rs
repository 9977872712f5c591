//! The two images of an array's catalogue and journal, which the caller that runs the drives stores.
//!
//! An image is a catalogue and the records of the changes since. Each change goes to both images, image 0 first. A
//! rewritten catalogue replaces both, one after the other; the image that was not in use is replaced first. So one of
//! them is intact at any time. The longest history of the latest epoch has all acknowledged changes, and at most one
//! more.

use larder_ssd::{Error, ErrorKind};

use super::catalogue;
use super::record::{self, Change, JournalId, RECORD_BYTES};
use super::state::{Shape, State};

/// Number of images of a catalogue.
pub const IMAGES: usize = 2;

/// Minimum bytes of records after which the catalogue is rewritten; if the catalogue is longer than this, its length is
/// the limit.
const JOURNAL_BYTES_MIN: usize = 64 << 10;

/// The reason why an image could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFailed(pub String);

/// Storage of two independent images: two files, or two areas of a boot device.
pub trait Images {
    /// All bytes of image `image`, 0 or 1; empty if it was never written.
    ///
    /// # Errors
    /// If it cannot be read. Then the other image is used.
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed>;

    /// Replaces all bytes of image `image`. They are durable when this returns; a power loss before that may leave any
    /// content.
    ///
    /// # Errors
    /// If durability is not certain. Then the array must be opened again.
    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed>;

    /// Appends to image `image`. Durable when this returns; a power loss before that may leave any bytes after the old
    /// ones.
    ///
    /// # Errors
    /// As [`Self::replace`].
    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed>;
}

impl<I: Images + ?Sized> Images for Box<I> {
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        (**self).read(image)
    }

    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        (**self).replace(image, bytes)
    }

    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        (**self).append(image, bytes)
    }
}

/// Images in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryImages(pub [Vec<u8>; IMAGES]);

impl Images for MemoryImages {
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        Ok(self.0[image].clone())
    }

    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        self.0[image] = bytes.to_vec();
        Ok(())
    }

    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        self.0[image].extend_from_slice(bytes);
        Ok(())
    }
}

/// Writes both images of an array.
#[derive(Debug)]
pub(super) struct Journal<I> {
    images: I,
    id: JournalId,
    /// The image to replace first.
    first: usize,
    catalogue_bytes: usize,
    /// Number of records after the catalogue.
    records: u64,
    /// A write failed, so the content of the images is unknown.
    broken: bool,
}

/// The content of an image.
struct ImageContent {
    id: JournalId,
    state: State,
    records: u64,
}

impl<I: Images> Journal<I> {
    /// Takes the images of a new array. Nothing is written yet.
    pub(super) fn create(mut images: I, identity: [u8; 16]) -> Result<Self, (I, Error)> {
        match Self::check_unused(&mut images) {
            Err(error) => Err((images, error)),
            Ok(()) => Ok(Self::new(images, JournalId { identity, epoch: 0 }, 0)),
        }
    }

    fn new(images: I, id: JournalId, first: usize) -> Self {
        Self { images, id, first, catalogue_bytes: 0, records: 0, broken: false }
    }

    fn check_unused(images: &mut I) -> Result<(), Error> {
        for image in 0..IMAGES {
            let bytes = images.read(image).map_err(|failed| unreadable(image, &failed))?;
            if catalogue::content(&bytes).is_ok() {
                let message = format!(
                    "image {image} is of an array already: open that, or clear both images first"
                );
                return Err(Error::new(ErrorKind::InUse, message));
            }
        }
        Ok(())
    }

    /// Reads both images and returns the state of the better one. Nothing is written.
    pub(super) fn open(mut images: I, drives: &Shape) -> Result<(Self, State), (I, Error)> {
        match Self::better_image(&mut images, drives) {
            Err(error) => Err((images, error)),
            Ok((best, ImageContent { id, state, .. })) => {
                Ok((Self::new(images, id, 1 - best), state))
            }
        }
    }

    /// The number of the better image, and its content.
    fn better_image(images: &mut I, drives: &Shape) -> Result<(usize, ImageContent), Error> {
        let mut found = look(images, drives);
        let rank = |found: &Result<ImageContent, String>| {
            found.as_ref().map_or((0, 0), |found| (found.id.epoch, found.records))
        };
        let best = usize::from(rank(&found[1]) > rank(&found[0]));
        let other = found[1 - best].as_ref().map(|found| found.id.identity).ok();
        let Ok(serves) = found.swap_remove(best) else { return Err(no_catalogue(images, drives)) };
        if other.is_some_and(|identity| identity != serves.id.identity) {
            let message = "the images are of two arrays: bring those that belong together";
            return Err(Error::new(ErrorKind::Catalogue, message));
        }
        Ok((best, serves))
    }

    /// Refuses changes after a write to an image has failed.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.broken {
            let message = "an image could not be written, or the power failed: open the array anew";
            return Err(Error::new(ErrorKind::PowerLoss, message));
        }
        Ok(())
    }

    /// Writes a catalogue of `state` to both images.
    pub(super) fn write_catalogue(&mut self, state: &State) -> Result<(), Error> {
        self.check()?;
        self.id.epoch += 1;
        let bytes = catalogue::encode(&self.id, state);
        for image in [self.first, 1 - self.first] {
            let written = self.images.replace(image, &bytes);
            written.map_err(|failed| self.failed(image, &failed))?;
        }
        (self.catalogue_bytes, self.records, self.first) = (bytes.len(), 0, 0);
        Ok(())
    }

    /// Appends `change` to both images. Returns whether it is time for a new catalogue.
    pub(super) fn append(&mut self, change: &Change) -> Result<bool, Error> {
        self.check()?;
        assert!(self.catalogue_bytes > 0, "a journal is behind a catalogue of its own");
        let record = record::encode(&self.id, self.records, change);
        for image in 0..IMAGES {
            let written = self.images.append(image, &record);
            written.map_err(|failed| self.failed(image, &failed))?;
        }
        self.records += 1;
        let journal_bytes = self.records.saturating_mul(RECORD_BYTES as u64);
        Ok(journal_bytes >= self.catalogue_bytes.max(JOURNAL_BYTES_MIN) as u64)
    }

    pub(super) fn into_images(self) -> I {
        self.images
    }

    pub(super) fn images_mut(&mut self) -> &mut I {
        &mut self.images
    }

    pub(super) fn identity(&self) -> [u8; 16] {
        self.id.identity
    }

    #[cold]
    fn failed(&mut self, image: usize, ImageFailed(why): &ImageFailed) -> Error {
        self.broken = true;
        let message = format!("image {image} was not written ({why}): open the array anew");
        Error::new(ErrorKind::PowerLoss, message)
    }
}

/// Reads an image: its catalogue, and all valid records.
fn read(bytes: &[u8], drives: &Shape) -> Result<ImageContent, String> {
    let mut decoded = catalogue::decode(bytes, drives)?;
    let mut records = 0;
    for record in bytes[decoded.bytes..].chunks(RECORD_BYTES) {
        let change = record::decode(&decoded.journal, records, record);
        if !change.is_some_and(|change| decoded.state.apply(&change)) {
            break;
        }
        records += 1;
    }
    Ok(ImageContent { id: decoded.journal, state: decoded.state, records })
}

#[cold]
fn unreadable(image: usize, ImageFailed(why): &ImageFailed) -> Error {
    Error::new(ErrorKind::Catalogue, format!("image {image} cannot be read: {why}"))
}

/// Reads each image.
fn look<I: Images>(images: &mut I, drives: &Shape) -> Vec<Result<ImageContent, String>> {
    let image = |image| {
        let bytes = images.read(image).map_err(|ImageFailed(why)| why);
        bytes.and_then(|bytes| read(&bytes, drives))
    };
    (0..IMAGES).map(image).collect()
}

#[cold]
fn no_catalogue<I: Images>(images: &mut I, drives: &Shape) -> Error {
    let found = look(images, drives);
    let why = |image: usize| found[image].as_ref().err().map_or("", String::as_str);
    let message = format!(
        "no image has a catalogue that can be believed (image 0: {}; image 1: {}): nothing was \
         written; bring back one of them, or make the array anew, which erases it",
        why(0),
        why(1)
    );
    Error::new(ErrorKind::Catalogue, message)
}
