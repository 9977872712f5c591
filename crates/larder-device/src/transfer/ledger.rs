//! State that the transfers of one device share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::info::DeviceStats;

/// After this number of consecutive failed requests the device counts as gone, whatever error the kernel gives: a disk
/// that was pulled may fail with `EIO` forever.
pub(crate) const FAILURES_IN_ROW_MAX: u32 = 64;

/// State that the transfers of one device share: the device's name for messages, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) name: String,
    /// Binary logarithm of the block size in bytes.
    block_shift: u32,
    pub(crate) read_bytes: AtomicU64,
    /// Bytes written that went to the page cache.
    pub(crate) page_cache_written_bytes: AtomicU64,
    /// Bytes written, per placement handle.
    pub(crate) written_bytes: Box<[AtomicU64]>,
    /// Bytes written that survive a loss of power.
    pub(crate) durable_written_bytes: AtomicU64,
    /// Pieces of durable writes that needed a flush after them.
    pub(crate) durable_flushes: AtomicU64,
    /// The kernel has refused the flag that makes a write survive a loss of power.
    pub(crate) durable_flag_refused: AtomicBool,
    pub(crate) deallocated_bytes: AtomicU64,
    pub(crate) zeroed_bytes: AtomicU64,
    /// Bytes of `zeroed_bytes` for which zeros had to be written.
    pub(crate) zeroes_written_bytes: AtomicU64,
    /// Neither the kernel nor the drive can make zeros without a transfer.
    pub(crate) zeroing_refused: AtomicBool,
    pub(crate) failed_requests: AtomicU64,
    /// Failed requests that found the device too busy.
    pub(crate) shed_requests: AtomicU64,
    /// Deallocations that the filesystem does not support.
    pub(crate) ignored_deallocations: AtomicU64,
    /// Requests that the device has failed since one last succeeded.
    failures_in_row: AtomicU32,
    /// The sysfs path that exists as long as the device does.
    shown_at: Option<PathBuf>,
}

impl Ledger {
    /// A ledger for a device of that name with `handles` placement handles.
    pub(crate) fn new(name: String, handles: u16) -> Self {
        let written_bytes = (0..handles).map(|_| AtomicU64::new(0)).collect();
        Self { name, written_bytes, ..Self::default() }
    }

    /// The same, for a device with blocks of `block_bytes`, a power of two.
    pub(crate) fn in_blocks(self, block_bytes: u32) -> Self {
        assert!(
            block_bytes.is_power_of_two(),
            "whole blocks are counted by a shift: {block_bytes}"
        );
        Self { block_shift: block_bytes.trailing_zeros(), ..self }
    }

    /// `bytes` rounded down to whole blocks.
    pub(crate) fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes >> self.block_shift << self.block_shift
    }

    /// The same, for a device that is gone once `path` does not exist any more.
    pub(crate) fn shown_at(self, path: Option<PathBuf>) -> Self {
        Self { shown_at: path, ..self }
    }

    /// The same, for a device that has no command to make zeros.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn writing_zeroes(self) -> Self {
        Self { zeroing_refused: AtomicBool::new(true), ..self }
    }

    pub(crate) fn written_by(&self, handle: u16) -> Option<&AtomicU64> {
        self.written_bytes.get(usize::from(handle))
    }

    /// Records the outcome of a request that the device was asked to carry out. Returns `true` if the device must be
    /// gone, because too many requests have failed or sysfs does not show it any more.
    pub(crate) fn is_gone_after(&self, failed: bool) -> bool {
        if !failed {
            // Read before writing: the counter is shared by all threads and nearly always 0.
            if self.failures_in_row.load(Ordering::Relaxed) > 0 {
                self.failures_in_row.store(0, Ordering::Relaxed);
            }
            return false;
        }
        let before = self.failures_in_row.load(Ordering::Relaxed);
        self.failures_in_row.store(before.saturating_add(1), Ordering::Relaxed);
        before >= FAILURES_IN_ROW_MAX || !self.is_shown()
    }

    /// Whether sysfs shows the device. `true` for a device without a sysfs path.
    pub(crate) fn is_shown(&self) -> bool {
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
