//! Stream data that is held in memory until it is on the core, so that it is destaged without a read.

use std::collections::BTreeMap;

use crate::layout::{CoreId, Data, Span};

/// Data of sectors that are at `location` on the cache device.
#[derive(Clone, Debug)]
pub(super) struct BufferedWrite {
    pub(super) span: Span,
    pub(super) location: u64,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) struct WriteBuffer {
    /// By core and first sector. Entries do not overlap.
    held: BTreeMap<(CoreId, u64), BufferedWrite>,
    held_bytes: u64,
    /// Bytes in flight to the core.
    leaving_bytes: u64,
    limit_bytes: u64,
}

impl WriteBuffer {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self { held: BTreeMap::new(), held_bytes: 0, leaving_bytes: 0, limit_bytes }
    }

    /// Holds the data if there is room.
    pub(super) fn add(&mut self, held: BufferedWrite) {
        let bytes = held.span.bytes() as u64;
        if self.held_bytes + self.leaving_bytes + bytes > self.limit_bytes {
            return;
        }
        self.held_bytes += bytes;
        let before = self.held.insert((held.span.core, held.span.first), held);
        debug_assert!(before.is_none(), "what is overwritten was forgotten before");
    }

    /// Drops what overlaps `span`, which is or will be void. No entry may be longer than `line_sectors`.
    pub(super) fn forget(&mut self, span: Span, line_sectors: u32) {
        let low = span.first.saturating_sub(u64::from(line_sectors) - 1);
        let range = (span.core, low)..(span.core, span.end());
        let overlapping: Vec<_> = self
            .held
            .range(range)
            .filter(|(_, held)| held.span.overlaps(span))
            .map(|(key, _)| *key)
            .collect();
        for key in overlapping {
            self.remove(key);
        }
    }

    /// Removes and returns the data of exactly these sectors at exactly this location.
    pub(super) fn take(&mut self, span: Span, location: u64) -> Option<Data> {
        let key = (span.core, span.first);
        let held = self.held.get(&key)?;
        let is_this = held.span == span && held.location == location;
        is_this.then(|| self.remove(key)).flatten().map(|held| held.data)
    }

    /// Takes out everything, ordered by core and sector, once half of the limit is used.
    pub(super) fn take_if_worth_it(&mut self) -> Vec<BufferedWrite> {
        if self.held_bytes == 0 || self.held_bytes < self.limit_bytes / 2 {
            return Vec::new();
        }
        self.leaving_bytes += self.held_bytes;
        self.held_bytes = 0;
        std::mem::take(&mut self.held).into_values().collect()
    }

    /// Data that was taken out has arrived, or need not.
    pub(super) fn has_left(&mut self, bytes: usize) {
        self.leaving_bytes -= bytes as u64;
    }

    fn remove(&mut self, key: (CoreId, u64)) -> Option<BufferedWrite> {
        let held = self.held.remove(&key)?;
        self.held_bytes -= held.span.bytes() as u64;
        Some(held)
    }
}
