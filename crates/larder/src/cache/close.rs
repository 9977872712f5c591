//! How a cache ends.

use std::sync::PoisonError;

use super::Larder;
use crate::error::Error;
use crate::stats::Stats;

impl Larder {
    /// Shuts down cleanly: what DRAM holds goes to flash as if evicted, and the next
    /// [`Larder::open`] goes on with it. Calls that are under way come to their end first; those that come
    /// later are refused, and what cannot fail tells of what there was. The device is free for the
    /// next cache when this returns; memory is given back when the cache is dropped.
    ///
    /// On a closed cache it does nothing. If the future is dropped the cache is closed all the same, and
    /// the next call goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the metadata cannot be written; the next opening then starts empty, unless
    /// another call succeeds before. The device is free when the cache is dropped.
    /// [`ErrorKind::InvalidInput`] from inside the closure of an update, which it would wait for.
    ///
    /// ```
    /// # use larder::{ErrorKind, Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.close())?.sets, 1);
    /// let late = block_on(cache.set(b"cake", b"plum", None));
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    /// assert!(block_on(cache.close()).is_ok());
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub async fn close(&self) -> Result<Stats, Error> {
        self.check_reentry()?;
        let closing = self.gate.close().await;
        if !closing.is_done() {
            self.dram.evict_all();
            self.settle_departures(usize::MAX).await;
            if let Some(flash) = &self.flash {
                flash.close().await?;
            }
            // From here on nothing is written.
            let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
            closing.done();
            drop(claim);
        }
        self.counters.removals.tell();
        let latencies = self.stopwatch.latencies();
        Ok(Stats { latencies, ..self.counters.snapshot() })
    }
}
