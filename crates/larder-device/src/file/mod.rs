//! A plain file, or a block device, as device.
//!
//! The file is locked, so that two caches never share one; its space is reserved, so that a full
//! disk is found at start; and the page cache is bypassed where the filesystem grants it, for a
//! cache below a cache only wastes memory. Requests travel through io_uring or, where that is
//! refused, a pool of threads. What was granted is reported: [`FileDevice::engine`],
//! [`FileDevice::direct`], [`FileDevice::preallocated`].
//!
//! A block is what the kernel asks for: of direct I/O what the filesystem says that it needs (`statx`), or 4096 bytes
//! where it does not say; of a block device its logical block; of the page cache 512 bytes.
//!
//! Of a block device nothing is locked or reserved: it is opened for us alone, which a mounted one
//! refuses, and always without the page cache. Where it has write streams, [`mod@crate::opening`] has
//! the handles for them.

pub(crate) mod engine;
mod join;
pub(crate) mod ledger;
pub(crate) mod options;
mod page_cache;
pub(crate) mod setup;
pub(crate) mod sys;
mod threads;
pub(crate) mod transfer;
#[cfg(target_os = "linux")]
pub(crate) mod uring;
pub(crate) mod waiting;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use options::{DirectIo, FileOptions, IoEngine};

use crate::claim::{DeviceIdentity, Extent};
use crate::device::{Device, DeviceInfo, DeviceStats, VolatileCache};
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::io::{CheckedIo, IoFuture};
use crate::placement::PlacementInfo;
use engine::{Chosen, Engine, Reach};
use ledger::Ledger;
use page_cache::PageCache;
use transfer::Pieces;

/// A file as device. Dropping it waits for the requests under way and then releases the file.
///
/// A flush covers the writes that had ended when it was submitted. A deallocated range is given
/// back to the filesystem and reads as zeros, where the filesystem knows how; elsewhere
/// deallocation does nothing and is counted.
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
    /// For what need only outlive the process. `None`: it goes the way of all.
    page_cache: Option<PageCache>,
    kind: IoEngine,
    fallback: Option<String>,
    direct: bool,
    preallocated: bool,
    ledger: Arc<Ledger>,
}

impl FileDevice {
    /// Makes a file of `capacity_bytes` (a positive multiple of its block; 4096 suits all) at `path`, or
    /// opens the one that is there, whose content is kept; a smaller one grows, unless another
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

    /// Opens the file at `path`. A larger file than asked for is accepted, its end is not used. One
    /// that is in use is waited for ([`FileOptions::lock_wait`]), on this thread.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the file is missing, neither a regular file nor a block
    /// device, too small, or too small and another program's, or if
    /// an option is out of range or asks for what the system refuses;
    /// [`ErrorKind::InUse`] if another cache has it; [`ErrorKind::NoSpace`] if its space cannot be
    /// reserved. A file made for this is removed again.
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<Self, Error> {
        Self::open_placing(path.as_ref(), options, PlacementInfo::none())
    }

    /// As [`FileDevice::open`], on a block device whose write streams are as `streams` says: the
    /// default handle writes without a stream, handle `n` with stream `n + 1`. Where the engine cannot
    /// carry streams, the device has none.
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
            // What the filesystem itself has to write for a block of a file may still wait.
            Some(VolatileCache::No) if !prepared.block => VolatileCache::Unknown,
            said => said.unwrap_or_default(),
        };
        // Nor does a filesystem promise what its device does with the blocks of a file.
        let atomic_write_bytes =
            queue.as_deref().filter(|_| prepared.block).and_then(sys::atomic_write_bytes);
        let metadata_bytes =
            queue.as_deref().filter(|_| prepared.block).map_or(0, sys::metadata_bytes);
        let page_cache = PageCache::of(&prepared.file, reach.streams, options);
        let chosen = engine::choose(&Arc::new(prepared.file), reach, options)
            .map_err(|why| Error::new(ErrorKind::Setup, format!("file device {name}: {why}")))?;
        let Chosen { engine, kind, fallback } = chosen;
        let placement = match kind {
            IoEngine::IoUring => streams,
            _ => PlacementInfo::none(),
        };
        let (capacity_bytes, block_bytes) = (prepared.capacity_bytes, prepared.block_bytes);
        // Blocks of more than 4096 bytes are possible, too.
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

    /// The engine that serves: [`IoEngine::IoUring`] or [`IoEngine::Threads`].
    pub fn engine(&self) -> IoEngine {
        self.kind
    }

    /// Why [`IoEngine::Auto`] had to settle for threads, if it had to.
    pub fn engine_fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Whether the kernel was told of the file once and for all, which saves it a look-up with
    /// every request. Only io_uring can, and it serves without where this is refused.
    pub fn registered_file(&self) -> bool {
        self.engine.registered_file()
    }

    /// Whether the kernel is told of buffers once and for all, which saves it looking up their pages
    /// with every request: those of a [`BufferPool`](crate::BufferPool) of up to 256 KiB, from their
    /// second use on. `false` where that is switched off
    /// ([`FileOptions::registered_buffers`]), no ring serves, the kernel is too old, or it has refused a
    /// buffer (`RLIMIT_MEMLOCK`): the other requests then name their memory each time.
    /// [`DeviceStats::fixed_buffer_pieces`] counts those that did not.
    pub fn registered_buffers(&self) -> bool {
        self.engine.registered_buffers()
    }

    /// Whether transfers bypass the page cache.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Whether the file's space is reserved. If not, a write may still find the disk full.
    pub fn preallocated(&self) -> bool {
        self.preallocated
    }

    /// Deallocations that did nothing because the filesystem does not know how.
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

    /// The kernel's boot identifier: what it has taken survives every process.
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
