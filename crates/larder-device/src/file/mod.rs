//! A device on a plain file or a block device.
//!
//! The file is locked, so that two caches never share it. Its space is reserved, so that a full disk is found at start.
//! The page cache is bypassed where the filesystem allows it, because a cache below a cache only wastes memory.
//! Requests travel through io_uring or, where that is refused, a pool of threads. The device reports what was granted:
//! [`FileDevice::engine`], [`FileDevice::direct`], [`FileDevice::preallocated`].
//!
//! The block size depends on the kernel. With direct I/O it is what the filesystem says that it needs (`statx`), or
//! 4096 bytes where it does not say. For a block device it is the logical block. With the page cache it is 512 bytes.
//!
//! A block device is not locked and no space is reserved on it. It is opened exclusively, which fails while it is
//! mounted, and always without the page cache. Where it has write streams, [`mod@crate::opening`] provides the
//! placement handles for them.

pub(crate) mod choice;
pub(crate) mod engine;
mod join;
mod page_cache;
pub(crate) mod setup;
mod threads;
#[cfg(target_os = "linux")]
pub(crate) mod uring;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::{Device, DeviceIdentity, Extent};
use crate::error::{Error, ErrorKind};
use crate::file_options::{FileOptions, IoEngine};
use crate::identity::Identity;
use crate::info::{DeviceInfo, DeviceStats, VolatileCache};
use crate::io::{CheckedIo, IoFuture};
use crate::placement::PlacementInfo;
use crate::sys;
use crate::transfer::Pieces;
use crate::transfer::ledger::Ledger;
use choice::ChosenEngine;
use engine::{Engine, Reach};
use page_cache::PageCache;

/// A file as a device. Dropping it waits for the requests in flight and then releases the file.
///
/// A flush covers the writes that had ended when it was submitted. A deallocated range is given back to the filesystem
/// and reads as zeros, where the filesystem supports that. Elsewhere a deallocation does nothing and is counted.
///
/// # Examples
/// ```
/// use larder_device::{Device, FileDevice, Io, IoBuffer, PlacementHandle};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let directory = tempfile::tempdir()?;
/// let device = FileDevice::create(directory.path().join("cache"), 1 << 20)?;
/// let buffer = IoBuffer::zeroed(4096);
/// let write = Io::write(0, buffer, PlacementHandle::DEFAULT);
/// let buffer = device.submit(write).wait()?;
/// device.submit(Io::Read { offset: 0, buffer }).wait()?;
/// # Ok(())
/// # }
/// ```
pub struct FileDevice {
    info: DeviceInfo,
    identity: DeviceIdentity,
    engine: Box<dyn Engine>,
    /// For writes that need only outlive the process. `None`: they go through the engine like all others.
    page_cache: Option<PageCache>,
    kind: IoEngine,
    fallback: Option<String>,
    direct: bool,
    preallocated: bool,
    ledger: Arc<Ledger>,
}

impl FileDevice {
    /// Creates a file of `capacity_bytes` at `path`, or opens the existing file and keeps its content. The capacity is
    /// a positive multiple of the file's block; a multiple of 4096 always works. A smaller file grows, unless another
    /// program wrote it. All other options have their defaults.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn create(path: impl AsRef<Path>, capacity_bytes: u64) -> Result<Self, Error> {
        let options = FileOptions {
            capacity_bytes: Some(capacity_bytes),
            create: true,
            ..FileOptions::default()
        };
        Self::open(path, &options)
    }

    /// Opens the file at `path`. If the file is larger than asked for, its end is not used. If the file is in use, this
    /// blocks the thread until it is free, at most [`FileOptions::lock_wait`].
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the file is missing, is neither a regular file nor a block device, or is too small (also
    /// where it may not grow because it holds another program's data), or if an option is out of range or asks for what
    /// the system refuses; [`ErrorKind::InUse`] if another cache has it; [`ErrorKind::NoSpace`] if its space cannot be
    /// reserved. A file that this call created is removed again.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self, Error> {
        Self::open_placing(path.as_ref(), options, PlacementInfo::none())
    }

    /// Like [`FileDevice::open`], on a block device with the write streams of `streams`: the default handle writes
    /// without a stream, handle `n` with stream `n + 1`. Where the engine cannot carry streams, the device has none.
    pub(crate) fn open_placing(
        path: &Path,
        options: &FileOptions,
        streams: PlacementInfo,
    ) -> Result<Self, Error> {
        let prepared = setup::prepare(path, options)?;
        let name = path.display().to_string();
        let reach = Reach { block: prepared.block, streams: streams.is_active() };
        let shown_at = sys::shown_at(&prepared.file);
        let queue = sys::queue_below(&prepared.file);
        let volatile_cache = match queue.as_deref().map(sys::volatile_cache) {
            // The filesystem's own data that a block of a file depends on may still be unwritten.
            Some(VolatileCache::No) if !prepared.block => VolatileCache::Unknown,
            said => said.unwrap_or_default(),
        };
        // A filesystem does not pass its device's guarantees on to the blocks of a file.
        let atomic_write_bytes =
            queue.as_deref().filter(|_| prepared.block).and_then(sys::atomic_write_bytes);
        let metadata_bytes =
            queue.as_deref().filter(|_| prepared.block).map_or(0, sys::metadata_bytes);
        let page_cache = PageCache::of(&prepared.file, reach.streams, options);
        let chosen = choice::choose(&Arc::new(prepared.file), reach, options)
            .map_err(|why| Error::new(ErrorKind::Setup, format!("file device {name}: {why}")))?;
        let ChosenEngine { engine, kind, fallback } = chosen;
        let placement = match kind {
            IoEngine::IoUring => streams,
            _ => PlacementInfo::none(),
        };
        let (capacity_bytes, block_bytes) = (prepared.capacity_bytes, prepared.block_bytes);
        // Blocks may be larger than 4096 bytes.
        let transfer = (options.max_transfer_bytes / block_bytes).max(1) * block_bytes;
        assert!(transfer.is_multiple_of(block_bytes), "pieces are cut between blocks");
        let info = DeviceInfo {
            placement,
            volatile_cache,
            atomic_write_bytes,
            metadata_bytes,
            identity: Identity::of_path(path),
            ..DeviceInfo::new(name.clone(), capacity_bytes, block_bytes, transfer)
        };
        let ledger = Ledger::new(name, info.placement.handles).in_blocks(block_bytes);
        let ledger = Arc::new(ledger.shown_at(shown_at));
        let (direct, preallocated) = (prepared.direct, prepared.preallocated);
        let identity = DeviceIdentity::draw();
        Ok(Self {
            info,
            identity,
            engine,
            page_cache,
            kind,
            fallback,
            direct,
            preallocated,
            ledger,
        })
    }

    /// The engine in use: [`IoEngine::IoUring`] or [`IoEngine::Threads`].
    pub fn engine(&self) -> IoEngine {
        self.kind
    }

    /// Why [`IoEngine::Auto`] fell back to threads, if it did.
    pub fn engine_fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Whether the file is registered with the kernel, which saves a look-up with every request. Only io_uring supports
    /// this, and where the kernel refuses, the device works without.
    pub fn registered_file(&self) -> bool {
        self.engine.registered_file()
    }

    /// Whether buffers are registered with the kernel, which saves it looking up their pages with every request.
    /// Buffers of a [`BufferPool`](crate::BufferPool) of up to 256 KiB are registered from their second use on. `false`
    /// where this is switched off ([`FileOptions::registered_buffers`]), the engine is not io_uring, the kernel is too
    /// old, or it has refused a buffer (`RLIMIT_MEMLOCK`). The other requests then name their memory each time.
    /// [`DeviceStats::fixed_buffer_pieces`] counts the pieces with a registered buffer.
    pub fn registered_buffers(&self) -> bool {
        self.engine.registered_buffers()
    }

    /// Whether transfers bypass the page cache.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Whether the file's space is reserved. If not, a write may fail because the disk is full.
    pub fn preallocated(&self) -> bool {
        self.preallocated
    }

    /// Deallocations that did nothing because the filesystem does not support them.
    pub fn ignored_deallocations(&self) -> u64 {
        self.ledger.ignored_deallocations.load(Ordering::Relaxed)
    }
}

impl Device for FileDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let by_page_cache =
            self.page_cache.as_ref().and_then(|it| Some((it, it.bytes_of(io.get())?)));
        if by_page_cache.is_some_and(|(it, _)| it.has_written(io.get(), &self.ledger)) {
            return IoFuture::ready(Ok(io.into_inner().into_buffer()));
        }
        let (future, completer) = IoFuture::pending();
        let piece_bytes = self.info.max_transfer_bytes;
        let pieces = Pieces::new(io.into_inner(), completer, piece_bytes, &self.ledger);
        let pieces = match by_page_cache {
            Some((page_cache, bytes)) => page_cache.send(pieces, bytes, &self.ledger),
            None => Err(pieces),
        };
        if let Err(pieces) = pieces {
            self.engine.submit(pieces);
        }
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats { fixed_buffer_pieces: self.engine.fixed_pieces(), ..self.ledger.stats() }
    }

    /// The kernel's boot identifier: data that the kernel has taken survives every process.
    fn boot(&self) -> Option<u64> {
        sys::boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::on(self.identity, range)]
    }
}

impl std::fmt::Debug for FileDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileDevice")
            .field("info", &self.info)
            .field("engine", &self.kind)
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}
