//! Bytes written, by TTL group.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes written in each group.
#[derive(Debug)]
pub(super) struct GroupBytes(Box<[AtomicU64]>);

impl GroupBytes {
    pub(super) fn of(groups: usize) -> Self {
        Self((0..groups).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds bytes. Does nothing if there is no such group.
    pub(super) fn add(&self, group: usize, bytes: u64) {
        if let Some(written) = self.0.get(group) {
            written.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self) -> Vec<u64> {
        self.0.iter().map(|written| written.load(Ordering::Relaxed)).collect()
    }

    /// Replaces all counts by `bytes`; 0 for groups that it lacks.
    pub(super) fn begin_with(&self, bytes: &[u64]) {
        for (group, written) in self.0.iter().enumerate() {
            written.store(bytes.get(group).copied().unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Halves all counts. Concurrent additions may be lost.
    pub(super) fn fade(&self) {
        for written in &self.0 {
            written.store(written.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }
}
