//! Writes that need only outlive this process: the kernel's page cache has them at once.
//!
//! The file is opened once more, without `O_DIRECT`. Reads past the page cache still see what is in it: the kernel
//! writes it first. Nor does a flush leave it out, for that is of the file and not of one opening of it. Only write
//! streams do not pass through: the kernel writes a page back as nobody's.

use std::fs::File;
use std::sync::atomic::Ordering;

use super::ledger::Ledger;
use super::sys;
use crate::io::{Durability, Io};
use crate::placement::PlacementHandle;

/// The file by way of the page cache.
#[derive(Debug)]
pub(super) struct PageCache {
    file: File,
    /// The handles but the default one stand for write streams.
    has_streams: bool,
}

impl PageCache {
    /// `None` where the file cannot be opened so.
    pub(super) fn of(file: &File, has_streams: bool) -> Option<Self> {
        Some(Self { file: sys::open_again(file).ok()?, has_streams })
    }

    /// Writes `io` if it is a write that need only outlive the process. `false`: it has to go the way of all, also if
    /// it failed here: errors are told there.
    pub(super) fn has_taken(&self, io: &Io, ledger: &Ledger) -> bool {
        let Io::Write { offset, buffer, handle, durability: Durability::Process } = io else {
            return false;
        };
        // It would arrive without its stream, beside bytes of another lifetime.
        if self.has_streams && *handle != PlacementHandle::DEFAULT {
            return false;
        }
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
