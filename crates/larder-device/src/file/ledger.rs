//! What the transfers of one device share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::device::DeviceStats;

/// So many requests that failed one after another mean that the device is gone, whatever the
/// kernel says of each: a disk that was pulled may fail with `EIO` for ever.
pub(super) const FAILURES_IN_ROW_MAX: u32 = 64;

/// What the transfers of one device share: its name for messages, its counters.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) name: String,
    /// Binary logarithm of the bytes of a block.
    block_shift: u32,
    pub(crate) read_bytes: AtomicU64,
    /// Those of the bytes written that the page cache has.
    pub(super) page_cache_written_bytes: AtomicU64,
    /// By placement handle.
    pub(crate) written_bytes: Box<[AtomicU64]>,
    /// Those of the bytes written that survive a loss of power.
    pub(crate) durable_written_bytes: AtomicU64,
    /// Pieces of such writes that a flush had to follow.
    pub(crate) durable_flushes: AtomicU64,
    /// The kernel has refused to be told with a write that it is to survive a loss of power.
    pub(super) durable_flag_refused: AtomicBool,
    pub(crate) deallocated_bytes: AtomicU64,
    pub(crate) zeroed_bytes: AtomicU64,
    /// Those of them that had to be written.
    pub(crate) zeroes_written_bytes: AtomicU64,
    /// Neither kernel nor drive knows how to make zeros without a transfer.
    pub(super) zeroing_refused: AtomicBool,
    pub(crate) failed_requests: AtomicU64,
    /// Those of them that found the device too busy.
    pub(crate) shed_requests: AtomicU64,
    /// Deallocations that the filesystem does not know how to carry out.
    pub(crate) ignored_deallocations: AtomicU64,
    /// Requests that the device has failed since one succeeded.
    failures_in_row: AtomicU32,
    /// What sysfs shows as long as the device is there.
    shown_at: Option<PathBuf>,
}

impl Ledger {
    /// For a device of that name with so many placement handles.
    pub(crate) fn new(name: String, handles: u16) -> Self {
        let written_bytes = (0..handles).map(|_| AtomicU64::new(0)).collect();
        Self { name, written_bytes, ..Self::default() }
    }

    /// The same, for a device with blocks of so many bytes, a power of two.
    pub(crate) fn in_blocks(self, block_bytes: u32) -> Self {
        assert!(
            block_bytes.is_power_of_two(),
            "whole blocks are counted by a shift: {block_bytes}"
        );
        Self { block_shift: block_bytes.trailing_zeros(), ..self }
    }

    /// The whole blocks of `bytes` bytes.
    pub(super) fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes >> self.block_shift << self.block_shift
    }

    /// The same, for a device that is gone once `path` is.
    pub(crate) fn shown_at(self, path: Option<PathBuf>) -> Self {
        Self { shown_at: path, ..self }
    }

    /// The same, for a device that has no command to make zeros.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn writing_zeroes(self) -> Self {
        Self { zeroing_refused: AtomicBool::new(true), ..self }
    }

    pub(super) fn written_by(&self, handle: u16) -> Option<&AtomicU64> {
        self.written_bytes.get(usize::from(handle))
    }

    /// Takes note of how a request ended that the device was asked to carry out. `true`: so many
    /// have failed that it must be gone.
    pub(super) fn is_gone_after(&self, failed: bool) -> bool {
        if !failed {
            // Read before it is written: it is hardly ever other than 0, and shared by all.
            if self.failures_in_row.load(Ordering::Relaxed) > 0 {
                self.failures_in_row.store(0, Ordering::Relaxed);
            }
            return false;
        }
        let before = self.failures_in_row.load(Ordering::Relaxed);
        self.failures_in_row.store(before.saturating_add(1), Ordering::Relaxed);
        before >= FAILURES_IN_ROW_MAX || !self.is_shown()
    }

    /// Whether sysfs shows the device. `true` of what it does not know.
    pub(super) fn is_shown(&self) -> bool {
        self.shown_at.as_ref().is_none_or(|path| path.exists())
    }

    /// The counters, as a device reports them.
    pub(crate) fn stats(&self) -> DeviceStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let by_handle: Vec<u64> = self.written_bytes.iter().map(get).collect();
        DeviceStats {
            host_read_bytes: get(&self.read_bytes),
            host_written_bytes: by_handle.iter().sum(),
            host_written_bytes_by_handle: by_handle,
            deallocated_bytes: get(&self.deallocated_bytes),
            zeroed_bytes: get(&self.zeroed_bytes),
            zeroes_written_bytes: get(&self.zeroes_written_bytes),
            failed_requests: get(&self.failed_requests),
            shed_requests: get(&self.shed_requests),
            page_cache_written_bytes: get(&self.page_cache_written_bytes),
            durable_written_bytes: get(&self.durable_written_bytes),
            durable_flushes: get(&self.durable_flushes),
            ..DeviceStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_sysfs_does_not_show_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().join("259:1");
        let ledger = Ledger::new("test".to_owned(), 1).shown_at(Some(shown.clone()));
        std::fs::create_dir(&shown).unwrap();
        assert!(!ledger.is_gone_after(true));
        std::fs::remove_dir(&shown).unwrap();
        assert!(ledger.is_gone_after(true));
    }
}
