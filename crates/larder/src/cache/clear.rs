//! Emptying the cache.

use super::Larder;
use crate::base::error::Error;

impl Larder {
    /// Empties the cache. After this has returned, nothing that was there at the time of the call comes back: not to
    /// this process, and not after a restart or a crash. Calls in flight complete first, and new calls wait. A value
    /// stored by a concurrent call may be kept or not; a value stored by a call after the return is kept. The result
    /// of a fetch that began before is not stored.
    ///
    /// The content of flash is not read. The cost is one write of 4 KiB and, in memory, a walk over the items of DRAM
    /// and 16 bytes for each small-object bucket. Flash is not deallocated; it is overwritten as the cache fills. If
    /// the future is dropped, the content is unchanged, but a crash may empty flash.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if flash could not record the clear: then the content is unchanged, but a crash may
    /// empty flash. [`ErrorKind::InvalidInput`] inside the closure of an update, for which the clear would wait.
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
        // No await from the clear of flash to the end: a dropped future has cleared all or nothing.
        //
        // First stop reads and fetches that are in flight, so that they bring nothing to DRAM behind the walk over
        // it.
        self.reads.overtake_all();
        self.fetches.overtake_all();
        self.core.dram.clear();
        debug_assert!(
            held.is_none() || self.core.dram.len() == 0,
            "no call brings an item while the gate is held"
        );
        self.core.counters.clears.add(1);
        drop(held);
        // Includes what calls with dropped futures had noted.
        self.core.counters.removals.tell();
        Ok(())
    }
}
