//! Sending items to flash that stay in DRAM, and making sure that all that was sent is there.

use super::Flash;
use super::engines::call;
use crate::cache::Tiers;
use crate::error::Error;
use crate::item::ItemRef;

/// How an attempt to send an item to flash ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Flash holds this version of the key.
    Stored,
    /// Admission turned it away, no engine can hold it, or it is for DRAM only. Flash holds what it held before.
    Refused,
    /// A device error: flash holds no version of the key.
    Lost,
    /// Nothing is written now, since writes have failed: flash holds no version of the key.
    InOutage,
}

impl Flash {
    /// Sends an item that stays in DRAM, and hides there what flash holds of the key. The caller holds
    /// the key's lock.
    pub(crate) async fn send(&self, item: &ItemRef<'_>, now_s: u32) -> Sent {
        if item.tiers == Tiers::DramOnly {
            return Sent::Refused;
        }
        match self.admit(item, now_s) {
            Err(_) => Sent::Refused,
            Ok(engine) => match self.store(item, engine, now_s).await {
                Ok(()) => Sent::Stored,
                // What an engine has lost it has counted; this it has never seen.
                Err(Some(_)) => Sent::InOutage,
                Err(None) => Sent::Lost,
            },
        }
    }

    /// Writes what the engines hold in memory, and has the device write what it holds in its own.
    ///
    /// # Errors
    /// If the device cannot flush. What its other errors cost is counted.
    pub(crate) async fn persist(&self) -> Result<(), Error> {
        for any in self.engines.iter() {
            call!(any, persist().await);
        }
        self.flush().await
    }
}
