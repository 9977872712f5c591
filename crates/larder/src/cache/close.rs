//! How a cache ends.

use std::sync::Arc;

use super::Larder;
use crate::error::Error;
use crate::stats::Stats;

impl Larder {
    /// Shuts down cleanly: what DRAM holds goes to flash as if evicted, and the next
    /// [`Larder::open`] goes on with it.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the
    /// metadata cannot be written; the next opening then starts empty.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.close())?.sets, 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn close(self) -> Result<Stats, Error> {
        self.dram.evict_all();
        self.settle_departures(usize::MAX).await;
        let (counters, latencies) = (Arc::clone(&self.counters), self.stopwatch.latencies());
        if let Some(flash) = self.flash {
            flash.close().await?;
        }
        Ok(Stats { latencies, ..counters.snapshot() })
    }
}
