//! Writes that need only outlive this process: they complete as soon as the kernel's page cache has them.
//!
//! The file is opened a second time, without `O_DIRECT`. Reads past the page cache still see the data in it, because
//! the kernel writes it out first. A flush covers it too, because a flush applies to the file and not to one opening of
//! it. Only write streams do not pass through: the kernel writes a page back without a stream.
//!
//! A thread makes such a write itself, which takes microseconds. But the write waits while other writes hold the file's
//! lock in the kernel, which is tens of milliseconds on a drive that cannot keep up. So a thread that hosts a ring, and
//! has other work to do, sends the write through its ring: a kernel thread then does the waiting.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::file_options::FileOptions;
use crate::io::{Durability, Io};
use crate::placement::PlacementHandle;
#[cfg(target_os = "linux")]
use crate::ring::{member::Member, wire::FileWire};
use crate::sys;
use crate::transfer::Pieces;
use crate::transfer::ledger::Ledger;

/// The file, opened through the page cache.
pub(super) struct PageCache {
    #[cfg(target_os = "linux")]
    file: Arc<File>,
    #[cfg(not(target_os = "linux"))]
    file: File,
    /// Connection to the rings of threads that host one.
    #[cfg(target_os = "linux")]
    member: Member,
    /// All handles but the default one stand for write streams.
    has_streams: bool,
}

impl PageCache {
    /// `None` where the file cannot be opened this way, or is opened read-only.
    #[cfg(target_os = "linux")]
    pub(super) fn of(file: &File, has_streams: bool, options: &FileOptions) -> Option<Self> {
        if options.read_only {
            return None;
        }
        let file = Arc::new(sys::open_again(file).ok()?);
        // The wire is used only for writes, which are the same for a block device.
        let member = Member::new(Arc::new(FileWire::new(false, false)), &file, options);
        Some(Self { file, member, has_streams })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(file: &File, has_streams: bool, _: &FileOptions) -> Option<Self> {
        Some(Self { file: sys::open_again(file).ok()?, has_streams })
    }

    /// Bytes of `io`, if it is a write that need only outlive the process and may go through the page cache.
    pub(super) fn bytes_of(&self, io: &Io) -> Option<u64> {
        let Io::Write { buffer, handle, durability: Durability::Process, .. } = io else {
            return None;
        };
        // The write would lose its stream and land among bytes of another lifetime.
        let passes = !self.has_streams || *handle == PlacementHandle::DEFAULT;
        passes.then_some(buffer.len() as u64)
    }

    /// Sends a write through the ring that this thread hosts. `Err` if the thread hosts no ring that takes it.
    #[cfg(target_os = "linux")]
    pub(super) fn send(&self, pieces: Pieces, bytes: u64, ledger: &Ledger) -> Result<(), Pieces> {
        self.member.submit(pieces)?;
        ledger.page_cache_written_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn send(&self, pieces: Pieces, _: u64, _: &Ledger) -> Result<(), Pieces> {
        Err(pieces)
    }

    /// Writes on this thread, unless the thread hosts a ring. Returns `false` if the write must go through the engine,
    /// which also reports errors.
    pub(super) fn has_written(&self, io: &Io, ledger: &Ledger) -> bool {
        #[cfg(target_os = "linux")]
        if crate::ring::is_hosted() {
            return false;
        }
        debug_assert!(self.bytes_of(io).is_some(), "{io:?}");
        let Io::Write { offset, buffer, handle, .. } = io else { return false };
        let mut at = *offset;
        for run in buffer.runs() {
            if sys::write_at(&self.file, run, at).ok() != Some(run.len()) {
                return false;
            }
            at += run.len() as u64;
        }
        let bytes = buffer.len() as u64;
        if let Some(written) = ledger.written_by(handle.index()) {
            written.fetch_add(bytes, Ordering::Relaxed);
        }
        ledger.page_cache_written_bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

#[cfg(target_os = "linux")]
impl Drop for PageCache {
    fn drop(&mut self) {
        // The rings keep the file open for writes that they could not end.
        self.member.leave();
    }
}
