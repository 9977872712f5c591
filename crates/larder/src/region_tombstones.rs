//! What a log of regions has written down of regions that are filled anew: for every engine that has such a log.

use std::sync::Arc;

use larder_log::{RegionId, RegionIdentity};

use crate::breaker::CircuitBreaker;
use crate::error::Error;
use crate::tombstones::Tombstones;

/// Tombstones of regions. In their log, regions of all engines are numbered in a row.
pub(crate) struct RegionTombstones {
    /// `None`: a crash empties flash.
    pub(crate) tombstones: Option<Arc<Tombstones>>,
    pub(crate) breaker: Arc<CircuitBreaker>,
    /// Number of the engine's first region there.
    pub(crate) first: u32,
}

impl RegionTombstones {
    /// Its number among the regions of all engines.
    pub(crate) fn number(&self, region: RegionId) -> u32 {
        self.first + region.number()
    }

    /// Makes sure that nothing of fillings of these regions before number `sequence` comes back.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub(crate) async fn invalidate_before(
        &self,
        regions: &[RegionId],
        sequence: u64,
    ) -> Result<(), Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        let mut last = None;
        for &region in regions {
            last = Some(tombstones.invalidate_region(self.number(region), sequence));
        }
        let Some(last) = last else { return Ok(()) };
        let committed = tombstones.commit(last).await;
        if committed.is_err() {
            // No region is written before this is, so that none would fail and tell of the outage.
            self.breaker.ended(false);
        }
        committed
    }

    /// Filling number `sequence` of a region, or none after it, begins.
    pub(crate) fn filling_began(&self, region: RegionId, sequence: u64) {
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_began(self.number(region), sequence);
        }
    }

    /// All of a filling is on flash.
    pub(crate) fn filling_sealed(&self, RegionIdentity { region, sequence }: RegionIdentity) {
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_sealed(self.number(region), sequence);
        }
    }
}
