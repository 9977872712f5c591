//! Voids the whole content of flash at once.
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

use std::sync::PoisonError;

use super::Flash;
use super::engines::call;
use crate::base::error::{Error, ErrorKind};
use crate::engine::superblock::{EPOCH_MAX, Superblock};

impl Flash {
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
        let before = self.superblock();
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
            None => self.write_superblock(after).await?,
        }
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner) = after;
        self.engines.iter().for_each(|any| call!(any, clear(epoch)));
        Ok(())
    }
}
