//! Voiding everything at once.
//!
//! The superblock says which epoch is the oldest that counts. Buckets carry the epoch in which they were
//! written, the numbers of fillings of regions and of segments of the log begin with it, and a snapshot
//! belongs to one. So one write of the superblock, with a new epoch as the current and the oldest one,
//! voids all that flash holds, whoever reads it: this opening, the next one, or one after a crash. Then
//! memory forgets it too.
//!
//! Before the write the caller's alone-ness is made true of the device: what was under way would land in
//! places that the new epoch fills. Where the write fails nothing is forgotten. It may have happened all
//! the same: then a crash finds everything void, for what this opening goes on to write is of the old epoch.

use std::sync::PoisonError;

use super::Flash;
use super::engines::call;
use crate::error::{Error, ErrorKind};
use crate::superblock::{EPOCH_MAX, Superblock};

impl Flash {
    /// Voids everything that flash holds. Nobody else uses it meanwhile. It is done when the superblock is
    /// written: from there on nothing is waited for.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if it cannot be written; everything is as it was, and a crash may void it.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        for any in self.engines.iter() {
            call!(any, finish_writes().await);
        }
        let before = self.superblock();
        assert!(before.oldest_epoch <= before.epoch, "what is written is believed: {before:?}");
        assert!(!before.clean, "the label of a cache that is open vouches for nothing");
        let epoch = before.epoch + 1;
        // The next opening adds 1.
        if epoch + 1 >= EPOCH_MAX {
            let message = "the cache has used up its epochs; erase the first 128 KiB of its device";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let second = self.clock.now_s().max(before.second);
        let after = Superblock { clean: false, epoch, oldest_epoch: epoch, second, ..before };
        match &self.tombstones {
            Some(tombstones) => tombstones.begin_epoch(after).await?,
            None => self.write_superblock(after).await?,
        }
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner) = after;
        self.engines.iter().for_each(|any| call!(any, clear(epoch)));
        Ok(())
    }
}
