//! Forgetting everything, when a new epoch has made it void.

use std::sync::atomic::Ordering;

use super::active::ActiveRegions;
use super::expiry::Sweep;
use super::index::Index;
use super::{Loc, State};

impl Loc {
    /// Waits for all writes that are under way.
    pub(crate) async fn finish_writes(&self) {
        let mut turn = self.take_turn().await;
        self.end_pieces(&mut turn).await;
    }

    /// Fillings before this epoch are void. Nobody else uses the engine, and nothing is under way.
    pub(crate) fn clear(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        // Nobody holds it; who held it and gave up has left what he had read.
        if let Some(mut rebuild) = self.rebuild.try_lock() {
            *rebuild = None;
        }
        self.forgotten.end();
        let state = &mut *self.lock();
        let State { index, regions, active, emptying, sweep } = state;
        *index = Index::new(self.place.regions, self.place.region_bytes);
        regions.clear(first_sequence);
        *active = ActiveRegions::default();
        *emptying = None;
        *sweep = Sweep::default();
        self.next_stamp.store(first_sequence, Ordering::Relaxed);
        self.unindexed.store(0, Ordering::Release);
        self.indexed.store(true, Ordering::Release);
    }
}
