//! Making what flash holds of a key void.

use super::Flash;
use super::engines::call;
use crate::error::Error;
use crate::key::KeyHash;

impl Flash {
    /// Whatever flash holds of this hash is older than what the caller is about to do: it must not
    /// come back after a crash. The caller holds the key's lock.
    ///
    /// Without tombstones there is nothing to do: DRAM hides what flash holds, and a crash empties
    /// flash.
    ///
    /// # Errors
    /// If that cannot be written down. Then it comes back if there is a crash before something can.
    pub(crate) async fn invalidate(&self, hash: KeyHash) -> Result<(), Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        let (mut was_there, mut receipt) = (false, None);
        for any in self.engines.iter() {
            let invalidated = call!(any, invalidate(hash).await)?;
            was_there |= invalidated.was_there;
            // The later one stands for both.
            receipt = receipt.max(invalidated.receipt);
        }
        if let Some(receipt) = receipt {
            tombstones.commit(receipt).await?;
            was_there = true;
        }
        if was_there {
            self.relieve(hash).await;
        } else {
            // Somebody else's may be owed still.
            tombstones.settle_debt().await?;
        }
        Ok(())
    }

    /// Whoever adds a tombstone helps to do without others, where there are too many.
    async fn relieve(&self, hash: KeyHash) {
        for any in self.engines.iter() {
            call!(any, relieve_tombstones(hash).await);
        }
        self.index_a_little().await;
    }

    /// As [`Flash::remove`], for who does not ask whether there was a version: nobody reads flash to
    /// find out.
    pub(crate) async fn forget(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        // With tombstones there is nothing left to remove: who made the item saw to that. If it could
        // not be written down then, it is owed, and it was told.
        if self.tombstones.is_some() {
            let _ = self.invalidate(hash).await;
        } else {
            let _ = self.remove(hash, key, now_s).await;
        }
    }

    /// Makes sure that no version of `key` is on flash. Says whether there was one; of a large object
    /// it is not known whether it had expired. The caller holds the key's lock.
    ///
    /// # Errors
    /// As [`Flash::invalidate`].
    pub(crate) async fn remove(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Result<bool, Error> {
        let mut was_there = false;
        if self.tombstones.is_none() {
            for any in self.engines.iter() {
                was_there |= call!(any, remove(hash, key, now_s).await);
            }
            return Ok(was_there);
        }
        for any in self.engines.iter() {
            was_there = call!(any, holds(hash, key, now_s).await);
            if was_there {
                break;
            }
        }
        self.invalidate(hash).await?;
        Ok(was_there)
    }
}
