//! Voids flash's version of a key, or everything at once.
//!
//! The superblock names the oldest valid epoch. Each bucket carries the epoch in which it was written. The numbers of
//! region fillings and of log segments start with the epoch, and a snapshot belongs to one epoch. So a single
//! superblock write that makes a new epoch both the current and the oldest one voids everything on flash for every
//! later reader: this opening, the next one, or one after a crash. After the write, the engines drop what they have in
//! memory.
//!
//! Before that write, all writes in flight must end: otherwise they would land in places that the new epoch fills. If
//! the superblock write fails, memory keeps everything. The write may have reached the device nevertheless: then
//! everything is void after a crash, because this opening continues to write with the old epoch.

use super::Flash;
use super::engines::call;
use crate::base::error::{Error, ErrorKind};
use crate::base::key::KeyHash;
use crate::engine::superblock::{EPOCH_MAX, Superblock};

impl Flash {
    /// Makes sure that flash's version of this hash, which is older than what the caller is about to do, does not come
    /// back after a crash. The caller holds the key's lock.
    ///
    /// Without tombstones there is nothing to do: DRAM hides flash's version, and a crash empties flash.
    ///
    /// # Errors
    /// If the tombstone cannot be written. Then a crash brings the old version back, unless a later tombstone write
    /// succeeds first.
    pub(crate) async fn invalidate(&self, hash: KeyHash) -> Result<(), Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        let (mut was_there, mut receipt) = (false, None);
        for any in self.engines.iter() {
            let invalidated = call!(any, invalidate(hash).await)?;
            was_there |= invalidated.was_there;
            // The later receipt covers both.
            receipt = receipt.max(invalidated.receipt);
        }
        if let Some(receipt) = receipt {
            tombstones.commit(receipt).await?;
            was_there = true;
        }
        if was_there {
            self.relieve(hash).await;
        } else {
            // Another caller's tombstone may still be owed.
            tombstones.settle_debt().await?;
        }
        Ok(())
    }

    /// Whether [`Flash::invalidate`] may have something to do for this hash. Costs no I/O; "no" is certain while the
    /// caller holds the key's lock.
    pub(crate) fn has_to_void(&self, hash: KeyHash) -> bool {
        self.tombstones.as_ref().is_some_and(|tombstones| {
            self.engines.iter().any(|any| call!(any, has_to_void(hash))) || !tombstones.is_trusted()
        })
    }

    /// Each caller that adds a tombstone helps to make tombstones unnecessary if there are too many.
    async fn relieve(&self, hash: KeyHash) {
        for any in self.engines.iter() {
            call!(any, relieve_tombstones(hash).await);
        }
        self.index_a_little().await;
    }

    /// As [`Flash::remove`], for a caller that does not need to know whether there was a version: no read of flash is
    /// made to find out.
    pub(crate) async fn forget(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        // With tombstones there is nothing left to remove: the request that set the item has voided older versions. If
        // that could not be written, it is owed, and that request got the error.
        if self.tombstones.is_some() {
            let _ = self.invalidate(hash).await;
        } else {
            let _ = self.remove(hash, key, now_s).await;
        }
    }

    /// Makes sure that no version of `key` is on flash. Returns whether there was one; a large object may count
    /// although it had expired. The caller holds the key's lock.
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

    /// Voids everything on flash. The caller makes sure that no other request uses flash. The clear is complete when
    /// the superblock is written; there is no wait after that.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the superblock cannot be written. Then everything is as before, but a crash may void
    /// it.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        for any in self.engines.iter() {
            call!(any, finish_writes().await);
        }
        let before = self.front.superblock();
        assert!(before.oldest_epoch <= before.epoch, "what is written is believed: {before:?}");
        assert!(!before.clean, "the label of a cache that is open vouches for nothing");
        let epoch = before.epoch + 1;
        // Leave room for the next opening, which adds 1.
        if epoch + 1 >= EPOCH_MAX {
            let message = "the cache has used up its epochs; erase the first 128 KiB of its device";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let second = self.clock.now_s().max(before.second);
        let after = Superblock { clean: false, epoch, oldest_epoch: epoch, second, ..before };
        match &self.tombstones {
            Some(tombstones) => tombstones.begin_epoch(after).await?,
            None => self.front.write_superblock(after).await?,
        }
        self.front.began(after);
        self.engines.iter().for_each(|any| call!(any, clear(epoch)));
        Ok(())
    }
}
