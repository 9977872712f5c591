//! Forgetting everything, when a new epoch has made it void.

use std::sync::atomic::Ordering;

use super::Loc;
use super::index::Index;

impl Loc {
    /// Waits for all writes that are under way.
    pub(crate) async fn finish_writes(&self) {
        self.log.finish_writes().await;
    }

    /// Fillings before this epoch are void. Nobody else uses the engine, and nothing is under way.
    pub(crate) fn clear(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        let first = self.place.log.first_sequence;
        assert!(first_sequence > first, "epoch {epoch}: fillings from {first} on are void");
        // Nobody holds it; whoever held it and gave up has left what it had read.
        if let Some(mut rebuild) = self.rebuild.try_lock() {
            *rebuild = None;
        }
        self.forgotten.end();
        let index = Index::new(self.place.log.regions, self.place.log.region_bytes);
        self.log.clear(first_sequence, index);
        self.stamps.restart(first_sequence);
        self.unindexed.store(0, Ordering::Release);
        self.indexed.store(true, Ordering::Release);
        debug_assert_eq!(self.len(), 0, "nothing is found that is void");
    }
}
