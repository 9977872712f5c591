//! Writes items that stay in DRAM to flash, and makes everything that was sent durable.

use super::Flash;
use super::engines::call;
use crate::base::error::Error;
use crate::base::item::ItemRef;
use crate::base::tier::Tiers;

/// Result of sending an item to flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlashOutcome {
    /// Flash holds this version of the key.
    Stored,
    /// Admission refused it, no engine can hold it, or it is for DRAM only. Flash holds what it held before.
    Refused,
    /// A device error: flash holds no version of the key.
    Lost,
    /// Writes are suspended because writes have failed: flash holds no version of the key.
    InOutage,
}

impl Flash {
    /// Writes an item that stays in DRAM and hides there what flash holds of the key. The caller holds the key's lock.
    pub(crate) async fn send(&self, item: &ItemRef<'_>, now_s: u32) -> FlashOutcome {
        if item.tiers == Tiers::DramOnly {
            return FlashOutcome::Refused;
        }
        match self.admit(item, now_s) {
            Err(_) => FlashOutcome::Refused,
            Ok(engine) => match self.store(item, engine, now_s).await {
                Ok(()) => FlashOutcome::Stored,
                // `None`: the engine has counted the loss. `Some`: the item never reached an engine.
                Err(Some(_)) => FlashOutcome::InOutage,
                Err(None) => FlashOutcome::Lost,
            },
        }
    }

    /// Writes what the engines hold in memory, then flushes the device's volatile cache.
    ///
    /// # Errors
    /// If the flush fails. Losses from other device errors are counted.
    pub(crate) async fn persist(&self) -> Result<(), Error> {
        for any in self.engines.iter() {
            call!(any, persist().await);
        }
        self.flush().await
    }
}
