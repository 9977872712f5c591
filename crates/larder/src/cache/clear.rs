//! Emptying the cache.

use super::Larder;
use crate::error::Error;

impl Larder {
    /// Empties the cache. When this has returned, nothing comes back that was there when it was called: not
    /// to this process, and not after a restart or a crash. Calls that are under way come to their end
    /// first, and those that come meanwhile wait; what they store is kept if they were called after this had
    /// returned, and is kept or not if they ran beside it. What a fetch brings that began before is not
    /// stored.
    ///
    /// Nothing of flash is looked at: it costs one write of 4 KiB and, in memory, a walk over the items of
    /// DRAM and 16 bytes for each small-object bucket. Flash is not deallocated; it is overwritten as the
    /// cache fills. If the future is dropped everything is as it was, and a crash may empty flash.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if flash cannot be told: then everything is as it was, and a crash may empty
    /// flash. [`ErrorKind::InvalidInput`] from inside the closure of an update, which it would wait for.
    /// [`ErrorKind::Closed`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// block_on(cache.clear())?;
    /// assert!(block_on(cache.get(b"bread"))?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    /// [`ErrorKind::Closed`]: crate::ErrorKind::Closed
    pub async fn clear(&self) -> Result<(), Error> {
        self.check_reentry()?;
        let held = match &self.core.flash {
            Some(flash) => {
                let held = self.core.gate.hold().await?;
                flash.clear().await?;
                Some(held)
            }
            None => {
                self.core.gate.check()?;
                None
            }
        };
        // No await from where flash is void to the end: who gives up has cleared all or nothing.
        //
        // First these: what was read or fetched before does not come to DRAM behind the walk over it.
        self.reads.overtake_all();
        self.fetches.overtake_all();
        self.core.dram.clear();
        debug_assert!(
            held.is_none() || self.core.dram.len() == 0,
            "nobody brings anything while the gate is held"
        );
        self.core.counters.clears.add(1);
        drop(held);
        // What was noted by who gave up.
        self.core.counters.removals.tell();
        Ok(())
    }
}
