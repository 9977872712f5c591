//! An array in a model image: a file, or any other byte storage.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{Error, ErrorKind, create_private_file};
use larder_ssd::raw::RawSsd;
use larder_vssd::image::{ImageConfig, ImageIo, ModelImage, TailRecord};
use larder_vssd::{ImageFailed, Images, LogicalBlock, Recovered, Throughputs};

use super::array::VssdArray;
use super::errors::of_model;
use super::holder::holder;
use super::keeper::{Keeper, Tail};

/// The file of an image. It is locked while it is open, so that an image has one array at a time.
#[derive(Debug)]
pub struct ImageFile(File);

impl ImageFile {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it exists, or cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = create_private_file(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let context =
                    format!("image {}: it is there: name another, or remove it", path.display());
                Error::new(ErrorKind::Setup, context)
            }
            _ => Error::from_os(format!("image {}", path.display()), error),
        })?;
        Self::locked(file, path)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it does not exist or may not be opened, [`ErrorKind::InUse`] if another process has it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file =
            file.map_err(|error| Error::from_os(format!("image {}", path.display()), error))?;
        Self::locked(file, path)
    }

    fn locked(file: File, path: &Path) -> Result<Self, Error> {
        let locked = file.try_lock();
        Self::of_lock(file, locked, path)
    }

    /// Locks a file so that others may read it, but not change it, while it is open.
    pub(super) fn locked_for_reading(file: File, path: &Path) -> Result<Self, Error> {
        let locked = file.try_lock_shared();
        Self::of_lock(file, locked, path)
    }

    fn of_lock(file: File, locked: Result<(), TryLockError>, path: &Path) -> Result<Self, Error> {
        match locked {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                let (path, who) = (path.display(), holder(&file));
                let who = who.unwrap_or_else(|| "another process".to_owned());
                let context = format!(
                    "image {path}: it is in use by {who}: end that, or wait until it has ended"
                );
                Err(Error::new(ErrorKind::InUse, context))
            }
            Err(TryLockError::Error(error)) => {
                Err(Error::from_os(format!("lock of image {}", path.display()), error))
            }
        }
    }
}

fn failed(error: std::io::Error) -> ImageFailed {
    ImageFailed(error.to_string())
}

impl ImageIo for ImageFile {
    fn bytes(&mut self) -> Result<u64, ImageFailed> {
        self.0.metadata().map(|metadata| metadata.len()).map_err(failed)
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<(), ImageFailed> {
        self.0.set_len(bytes).map_err(failed)
    }

    #[cfg(unix)]
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, into, at).map_err(failed)
    }

    #[cfg(not(unix))]
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed> {
        use std::io::{Read, Seek, SeekFrom};
        self.0.seek(SeekFrom::Start(at)).and_then(|_| self.0.read_exact(into)).map_err(failed)
    }

    #[cfg(unix)]
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, at).map_err(failed)
    }

    #[cfg(not(unix))]
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed> {
        use std::io::{Seek, SeekFrom, Write};
        self.0.seek(SeekFrom::Start(at)).and_then(|_| self.0.write_all(bytes)).map_err(failed)
    }

    /// Punches a hole, where the system can; otherwise the space stays allocated.
    fn release(&mut self, at: u64, bytes: u64) -> Result<(), ImageFailed> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.0, hole, at, bytes);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (at, bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ImageFailed> {
        self.0.sync_data().map_err(failed)
    }
}

/// An image that the catalogue and the keeper share.
struct SharedImage<F>(Arc<Mutex<ModelImage<F>>>);

impl<F> Clone for SharedImage<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> SharedImage<F> {
    fn lock(&self) -> MutexGuard<'_, ModelImage<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn not_kept(ImageFailed(why): ImageFailed) -> Error {
    Error::new(ErrorKind::Io, format!("model image: {why}"))
}

impl<F: ImageIo> Images for SharedImage<F> {
    fn read(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        self.lock().read_catalogue(image)
    }

    fn replace(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        self.lock().replace_catalogue(image, bytes)
    }

    fn append(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        self.lock().append_catalogue(image, bytes)
    }
}

impl<F: ImageIo + Send> Keeper for SharedImage<F> {
    fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), Error> {
        self.lock().write_page(slot, page).map_err(not_kept)
    }

    fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), Error> {
        self.lock().read_page(slot, page).map_err(not_kept)
    }

    fn release(&mut self, slots: &[u32]) -> Result<(), Error> {
        self.lock().release(slots).map_err(not_kept)
    }

    fn write_tail(&mut self, entry: u32, tail: Option<&Tail>) -> Result<(), Error> {
        let record = tail.map(|Tail { block, at, words }| TailRecord {
            block: block.number(),
            at: *at,
            words: words.clone(),
        });
        self.lock().write_tail(entry, record.as_ref()).map_err(not_kept)
    }

    fn tails(&mut self) -> Result<Vec<(u32, Tail)>, Error> {
        let tails = self.lock().tails().map_err(|error| of_model("model image", &error))?;
        let tail = |(entry, TailRecord { block, at, words })| {
            (entry, Tail { block: LogicalBlock::from_number(block), at, words })
        };
        Ok(tails.into_iter().map(tail).collect())
    }

    fn after_operation(&mut self, drives: &mut [RawSsd]) -> Result<(), Error> {
        let mut image = self.lock();
        for (drive, raw) in (0..).zip(drives) {
            image.write_changes(drive, &raw.take_changes()).map_err(not_kept)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.lock().sync().map_err(not_kept)
    }
}

impl VssdArray {
    /// Makes an image of new drives on `io`, and an array on them. The old content of `io` is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for drives that an image cannot hold, or rates of 0; [`ErrorKind::Io`] if `io` fails.
    pub fn format_image(
        io: impl ImageIo + Send + 'static,
        config: ImageConfig,
        throughputs: Throughputs,
    ) -> Result<Self, Error> {
        let identity = config.identity;
        let made = ModelImage::format(io, config);
        let (image, mut drives) = made.map_err(|error| of_model("new model image", &error))?;
        drives.iter_mut().for_each(|drive| drive.record_changes(true));
        let image = SharedImage(Arc::new(Mutex::new(image)));
        let array = Self::create(
            drives,
            Box::new(image.clone()),
            Box::new(image.clone()),
            identity,
            throughputs,
        )?;
        image.lock().finish().map_err(|error| of_model("new model image", &error))?;
        Ok(array)
    }

    /// Opens the array of the image on `io`, as if its drives had lost power after the last write to it. From then on,
    /// requests that have returned survive any end of this process. [`VssdArray::sync`], or a flush of a store, makes
    /// them survive a loss of power of the computer.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it is no image, has another version, is cut short, or is damaged beyond its copies:
    /// nothing was written; [`ErrorKind::Io`] if `io` fails.
    pub fn open_image(io: impl ImageIo + Send + 'static) -> Result<(Self, Recovered), Error> {
        let opened = ModelImage::open(io);
        let (image, mut drives) = opened.map_err(|error| of_model("model image", &error))?;
        drives.iter_mut().for_each(|drive| drive.record_changes(true));
        let image = SharedImage(Arc::new(Mutex::new(image)));
        Self::open(drives, Box::new(image.clone()), Box::new(image))
    }
}
