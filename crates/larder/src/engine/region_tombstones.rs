//! Tombstones of regions that are filled anew, for every engine that keeps a log of regions.

use std::sync::Arc;

use larder_log::{RegionId, RegionIdentity};

use crate::base::error::Error;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::tombstones::Tombstones;

/// Tombstones of an engine's regions. The tombstone log numbers the regions of all engines consecutively.
pub(crate) struct RegionTombstones {
    /// `None`: a crash empties flash.
    pub(crate) tombstones: Option<Arc<Tombstones>>,
    pub(crate) breaker: Arc<CircuitBreaker>,
    /// Number of the engine's first region in that numbering.
    pub(crate) first: u32,
}

impl RegionTombstones {
    /// The region's number among the regions of all engines.
    pub(crate) fn number(&self, region: RegionId) -> u32 {
        self.first + region.number()
    }

    /// The engine's region with this number among the regions of all engines. It may be beyond the engine's last.
    pub(crate) fn own(&self, number: u32) -> Option<RegionId> {
        number.checked_sub(self.first).map(RegionId::new)
    }

    /// Voids for good all fills of these regions with a number below `sequence`.
    ///
    /// # Errors
    /// If that cannot be recorded.
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
            // Tell the breaker here: no region is written before this commit, so no failing region write would report
            // the outage.
            self.breaker.ended(false);
        }
        committed
    }

    /// Fill number `sequence` of a region begins, or no fill after it.
    pub(crate) fn filling_began(&self, region: RegionId, sequence: u64) {
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_began(self.number(region), sequence);
        }
    }

    /// All of a fill is on flash.
    pub(crate) fn filling_sealed(&self, RegionIdentity { region, sequence }: RegionIdentity) {
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_sealed(self.number(region), sequence);
        }
    }
}
