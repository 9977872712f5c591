//! Forgetting everything, when a new epoch has made it void.

use std::sync::atomic::Ordering;

use super::{Knowledge, Soc};

impl Soc {
    /// Waits for all writes that are under way.
    pub(crate) async fn finish_writes(&self) {
        if let Some(log) = &self.log {
            drop(self.take_turn(log).await);
        }
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().await;
            // How it ends, the stripe's next holder need not know.
            self.finish(&mut stripe).await;
        }
    }

    /// What was written before this epoch is void, be it in buckets or in the log. Nobody else uses the
    /// engine, and nothing is under way. Buckets that a write has failed in wait on for theirs.
    pub(crate) fn clear(&self, epoch: u64) {
        let before = self.epoch.load(Ordering::Acquire);
        assert!(epoch > before, "epoch {epoch} after {before}: what was written is void");
        debug_assert!(
            self.stripes.iter().all(|stripe| stripe.try_lock().is_some_and(|it| it.is_none())),
            "nothing is under way"
        );
        self.oldest_epoch.store(epoch, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
        for number in 0..self.place.buckets {
            // An empty one is not read before it is written.
            self.filters.clear(number);
            if self.knows(number) == Knowledge::Unknown {
                self.know(number, Knowledge::Known);
            }
        }
        if let Some(log) = &self.log {
            log.clear(epoch << 32);
        }
    }
}
