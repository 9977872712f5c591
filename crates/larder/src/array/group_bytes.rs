//! Bytes that were written of each group of times to live.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes written of each group.
#[derive(Debug)]
pub(super) struct GroupBytes(Box<[AtomicU64]>);

impl GroupBytes {
    pub(super) fn of(groups: usize) -> Self {
        Self((0..groups).map(|_| AtomicU64::new(0)).collect())
    }

    /// Nothing, if there is no such group.
    pub(super) fn add(&self, group: usize, bytes: u64) {
        if let Some(written) = self.0.get(group) {
            written.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self) -> Vec<u64> {
        self.0.iter().map(|written| written.load(Ordering::Relaxed)).collect()
    }

    /// What was counted before counts for nothing, or as this.
    pub(super) fn begin_with(&self, bytes: &[u64]) {
        for (group, written) in self.0.iter().enumerate() {
            written.store(bytes.get(group).copied().unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// What was written so far counts half. What is added meanwhile may be lost.
    pub(super) fn fade(&self) {
        for written in &self.0 {
            written.store(written.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }
}
