//! Byte-addressable persistent memory as a device: a mapped file on a file system with DAX.
//!
//! A request is a copy between memory and memory, without a system call, and has ended when `submit` returns. A block
//! is a cache line of the processor, 64 bytes. Writes bypass the caches and end with one fence: what has completed
//! stays ([`VolatileCache::No`]). Of a write in flight when power is lost, any subset of its 8-byte words may remain.
//!
//! That needs `MAP_SYNC`, which the kernel grants for ext4 and xfs mounted with `-o dax` on persistent memory, and for
//! its character devices (`/dev/dax0.0`). Any other file, in memory or on a disk, is mapped all the same: *emulated*.
//! Its writes always survive the process. They survive a loss of power when that is asked for ([`Durability::Power`], a
//! flush), by `msync` and `fdatasync`. [`MappedDevice::is_emulated`] and the device's name say so.
//!
//! The file's space is reserved when it is opened, and a deallocation does not give it back: if a page were missing
//! later, a store to it would end the process (`SIGBUS`), because a store cannot return an error. The same happens if
//! the file is shortened while it is mapped. The file is locked against other caches, but nothing keeps other programs
//! away, and no kernel offers that. An uncorrectable error of the memory also raises `SIGBUS`.

mod memory;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::file::setup;
use crate::file_options::{DirectIo, FileOptions};
use crate::identity::Identity;
use crate::info::{DeviceInfo, DeviceStats, VolatileCache};
use crate::io::{CheckedIo, Durability, Io, IoFailure, IoFuture};
use crate::sys;
use crate::transfer::ledger::Ledger;
use memory::{Mapping, WORD_BYTES, fence};

/// Size of a block in bytes: a cache line of the processor.
pub const LINE_BYTES: u32 = 64;

const TRANSFER_BYTES: u32 = 1 << 20;
/// Source of zeros to copy.
static ZEROS: [u8; 4096] = [0; 4096];

/// A mapped file as a device.
///
/// # Examples
/// ```
/// use larder_device::{Device, FileOptions, Io, IoBuffer, MappedDevice, PlacementHandle};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let directory = tempfile::tempdir()?;
/// let options = FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
/// let device = MappedDevice::open(directory.path().join("cache"), &options)?;
/// assert_eq!(device.info().block_bytes, 64);
/// let write = Io::write(192, IoBuffer::zeroed(64), PlacementHandle::DEFAULT);
/// device.submit(write).wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MappedDevice {
    info: DeviceInfo,
    memory: Mapping,
    file: File,
    ledger: Ledger,
}

impl MappedDevice {
    /// Maps the file at `path`, or the character device of a region of memory. Of `options`, those on capacity,
    /// creation and locking apply.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is no such file, it is a block device, it cannot be mapped, or its space cannot be
    /// reserved; [`ErrorKind::InUse`] if another cache has it; [`ErrorKind::NoSpace`] if there is no space for it.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let refuse = |complaint: String| {
            Error::new(ErrorKind::Setup, format!("mapped device {}: {complaint}", path.display()))
        };
        let found = std::fs::metadata(path);
        if found.as_ref().is_ok_and(sys::is_block) {
            return Err(refuse(
                "a block device, which cannot be mapped past the page cache; make a file system on it that can \
                 (mkfs.ext4, mount -o dax) and name a file there"
                    .to_owned(),
            ));
        }
        let (file, capacity_bytes) = match found {
            Ok(found) if sys::is_character(&found) => open_region(path, options)?,
            _ => open_file(path, options)?,
        };
        let bytes = usize::try_from(capacity_bytes).map_err(|_| {
            refuse(format!("{capacity_bytes} bytes are more than can be addressed"))
        })?;
        let memory = Mapping::new(&file, bytes).map_err(|error| {
            refuse(format!("the kernel does not map it: {error}; name it as file:"))
        })?;
        let is_emulated = !memory.is_synchronous();
        let name =
            format!("dax:{}{}", path.display(), if is_emulated { " (emulated)" } else { "" });
        let info = DeviceInfo {
            volatile_cache: if is_emulated { VolatileCache::Unknown } else { VolatileCache::No },
            atomic_write_bytes: u32::try_from(WORD_BYTES).ok(),
            identity: Identity::of_path(path),
            ..DeviceInfo::new(name.clone(), capacity_bytes, LINE_BYTES, TRANSFER_BYTES)
        };
        let ledger = Ledger::new(name, info.placement.handles).in_blocks(LINE_BYTES);
        Ok(Self { info, memory, file, ledger })
    }

    /// Whether the kernel has not granted `MAP_SYNC`: then the kernel makes writes durable, not the processor.
    pub fn is_emulated(&self) -> bool {
        !self.memory.is_synchronous()
    }

    fn carry_out(&self, io: &mut Io) -> Result<(), std::io::Error> {
        let place = |offset: u64| usize::try_from(offset).expect("the range was checked");
        match io {
            Io::Read { offset, buffer } => {
                let mut at = place(*offset);
                for run in buffer.runs_mut() {
                    self.memory.read(at, run);
                    at += run.len();
                }
                self.ledger.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            }
            Io::Write { offset, buffer, durability, .. } => {
                let mut at = place(*offset);
                for run in buffer.runs() {
                    self.memory.write(at, run);
                    at += run.len();
                }
                fence();
                self.ledger.written_bytes[0].fetch_add(buffer.len() as u64, Ordering::Relaxed);
                if *durability == Durability::Power {
                    self.memory.persist(place(*offset), buffer.len())?;
                    let durable = &self.ledger.durable_written_bytes;
                    durable.fetch_add(buffer.len() as u64, Ordering::Relaxed);
                }
            }
            Io::WriteZeroes { offset, bytes } => {
                let end = place(*offset + *bytes);
                for at in (place(*offset)..end).step_by(ZEROS.len()) {
                    self.memory.write(at, &ZEROS[..ZEROS.len().min(end - at)]);
                }
                fence();
                for counter in [
                    &self.ledger.zeroed_bytes,
                    &self.ledger.zeroes_written_bytes,
                    &self.ledger.written_bytes[0],
                ] {
                    counter.fetch_add(*bytes, Ordering::Relaxed);
                }
            }
            Io::Deallocate { bytes, .. } => {
                self.ledger.deallocated_bytes.fetch_add(*bytes, Ordering::Relaxed);
            }
            Io::Flush if self.is_emulated() => self.file.sync_data()?,
            // Each write has ended with a fence.
            Io::Flush => self.memory.persist(0, self.memory.bytes())?,
        }
        Ok(())
    }
}

/// Opens a file, locked, with all its space reserved.
fn open_file(path: &Path, options: &FileOptions) -> Result<(File, u64), Error> {
    let options = FileOptions { preallocate: true, direct: DirectIo::Off, ..options.clone() };
    let prepared = setup::prepare(path, &options)?;
    if !prepared.preallocated {
        let context = format!(
            "mapped device {}: its file system cannot reserve its room, and a store that finds none would end the \
             process; put it on ext4, xfs or tmpfs",
            path.display()
        );
        return Err(Error::new(ErrorKind::Setup, context));
    }
    Ok((prepared.file, prepared.capacity_bytes))
}

/// Opens a whole region of persistent memory as its character device.
fn open_region(path: &Path, options: &FileOptions) -> Result<(File, u64), Error> {
    let os = |doing: &str, error| {
        Error::from_os(format!("mapped device {}: {doing}", path.display()), error)
            .of_kind(ErrorKind::Setup)
    };
    let opened = File::options().read(true).write(true).open(path);
    let file = opened.map_err(|error| os("opening the device", error))?;
    setup::lock(path, &file, options.lock_wait)?;
    let shown =
        sys::character_shown_at(&file).map_err(|error| os("looking at the device", error))?;
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(shown.join(name)).ok()?.trim().parse().ok().filter(|it| *it > 0)
    };
    match (number("size"), number("align")) {
        (Some(bytes), Some(align)) if bytes >= align => Ok((file, bytes - bytes % align)),
        _ => {
            let context = format!(
                "mapped device {}: sysfs says no size of it; name a character device of memory, such as /dev/dax0.0, \
                 or a file on a file system with DAX",
                path.display()
            );
            Err(Error::new(ErrorKind::Setup, context))
        }
    }
}

impl Device for MappedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let done = self.carry_out(&mut io);
        let (verb, offset, bytes) = io.extent();
        IoFuture::ready(match done {
            Ok(()) => Ok(io.into_buffer()),
            Err(error) => {
                self.ledger.failed_requests.fetch_add(1, Ordering::Relaxed);
                let context = format!("{verb} of {bytes} bytes at {offset} on {}", self.info.name);
                Err(IoFailure { error: Error::from_os(context, error), buffer: io.into_buffer() })
            }
        })
    }

    fn stats(&self) -> DeviceStats {
        self.ledger.stats()
    }

    /// The kernel's boot identifier: stored bytes survive every process.
    fn boot(&self) -> Option<u64> {
        sys::boot()
    }
}
