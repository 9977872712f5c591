//! Background work. It depends only on the time that the driver of the cache passes in.

use std::time::Duration;

use super::state::{Cache, RETRY};
use crate::layout::SECTOR_BYTES;
use crate::policy::cleaning::CleaningFacts;

impl Cache {
    /// Sets the time. A time before the current one is ignored, so a clock that was set back does no harm.
    pub fn at(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if self.router.at(now) {
            self.statistics.saturations += 1;
            self.saturated_sectors = self.layout.usage().valid_sectors;
        }
    }

    /// The time that was set last.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Does the work that is due at `now`. Returns when work is due next, if that is known. Call [`turn`](Self::turn)
    /// afterwards.
    pub fn work(&mut self, now: Duration) -> Option<Duration> {
        self.at(now);
        if self.held.is_some() {
            return None;
        }
        if self.retry_at.is_some_and(|at| at <= self.now) {
            // Retry periodically: an I/O that a device has refused may still be in flight now.
            self.retry_at = Some(self.now + RETRY);
            self.layout.retry();
        }
        let loads_at = self.go_on_loading();
        let relieves_at = self.relieve_full_classes();
        let facts = CleaningFacts {
            dirty_sectors: self.layout.usage().dirty_sectors,
            capacity_sectors: self.shape.capacity_bytes / SECTOR_BYTES as u64,
            idle: self.now - self.asked_at,
        };
        let mut pieces = Vec::new();
        let cleans_at = self.cleaning.work(self.now, &facts, &mut pieces);
        pieces.into_iter().for_each(|piece| self.destage(piece));
        let dues = [self.retry_at, loads_at, relieves_at, cleans_at, self.router.due()];
        dues.into_iter().flatten().min()
    }
}
