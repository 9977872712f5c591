//! Counters of what a device on blocks has written in addition to its users' data.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a device on blocks has written in addition to what it was asked to, since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OnBlocksCounts {
    /// Zeros that fill the gap before a write beyond the end of a slot, in bytes.
    pub padded_bytes: u64,
    /// Bytes of the host's pages in front and tail.
    pub page_bytes: u64,
    /// Headers of batches, in bytes.
    pub header_bytes: u64,
    /// Pages that cleaning copied, in bytes.
    pub moved_bytes: u64,
    /// Blocks of pages that were freed.
    pub cleaned_blocks: u64,
}

/// The counters while they change.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) padded: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) headers: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) cleaned_blocks: AtomicU64,
    pub(super) failed_requests: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub(super) fn snapshot(&self) -> OnBlocksCounts {
        OnBlocksCounts {
            padded_bytes: get(&self.padded),
            page_bytes: get(&self.pages),
            header_bytes: get(&self.headers),
            moved_bytes: get(&self.moved),
            cleaned_blocks: get(&self.cleaned_blocks),
        }
    }
}
