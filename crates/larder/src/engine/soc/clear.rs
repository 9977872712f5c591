//! Forgets everything when a new epoch has voided it.

use std::sync::atomic::Ordering;

use super::{Knowledge, Soc};

impl Soc {
    /// Waits for all writes in flight.
    pub(crate) async fn finish_writes(&self) {
        if let Some(log) = &self.log {
            drop(self.take_turn(log).await);
        }
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().await;
            // The result does not matter to the next holder of the stripe.
            self.finish(&mut stripe).await;
        }
    }

    /// Voids everything that was written before this epoch, in buckets and in the log. The caller makes sure that no
    /// other request uses the engine and that nothing is in flight. Buckets with a failed write continue their
    /// back-off.
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
            // An empty bucket is not read before it is written.
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
