//! Forgets everything when a new epoch has voided it.

use std::sync::atomic::Ordering;

use super::Loc;
use super::index::LocIndex;

impl Loc {
    /// Waits for all writes in flight.
    pub(crate) async fn finish_writes(&self) {
        self.log.finish_writes().await;
    }

    /// Voids all fillings before this epoch. The caller makes sure that no other request uses the engine and that
    /// nothing is in flight.
    pub(crate) fn clear(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        let first = self.place.log.first_sequence;
        assert!(first_sequence > first, "epoch {epoch}: fillings from {first} on are void");
        // The lock is free. A task that held it and was dropped has left what it had read.
        if let Some(mut rebuild) = self.rebuild.try_lock() {
            *rebuild = None;
        }
        self.forgotten.end();
        let index = LocIndex::new(self.place.log.regions, self.place.log.region_bytes);
        self.log.clear(first_sequence, index);
        self.stamps.restart(first_sequence);
        self.unindexed.store(0, Ordering::Release);
        self.indexed.store(true, Ordering::Release);
        debug_assert_eq!(self.len(), 0, "nothing is found that is void");
    }
}
