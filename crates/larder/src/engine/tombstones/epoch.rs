//! Starts a new epoch, which voids everything before it, so that nothing is left that could be dead.

use super::dead::DeadByPlace;
use super::{Retry, Said, Tombstones, Trust, Turn, UnfinishedStep};
use crate::base::error::Error;
use crate::engine::superblock::Superblock;

impl Tombstones {
    /// Writes a superblock that voids everything before its epoch, and forgets all dead keys. The caller makes sure
    /// that no other request uses the engines. The log continues: its entries affect nothing of the new epoch, because
    /// they name older fillings, or keys with indices below the stamps of new buckets.
    ///
    /// # Errors
    /// If the superblock cannot be written. Then nothing is forgotten; the write may have reached the device
    /// nevertheless.
    pub(crate) async fn begin_epoch(&self, superblock: Superblock) -> Result<(), Error> {
        let mut turn = self.combining.lock().await;
        self.finish(&mut turn).await?;
        // If the log lacks something, the superblock continues to say so: the log may be damaged, not only incomplete.
        let recoverable = self.is_trusted();
        let (epoch, _) = self.lock().epochs;
        assert!(superblock.epoch > epoch, "epoch {} after {epoch}", superblock.epoch);
        assert_eq!(superblock.oldest_epoch, superblock.epoch, "everything before it is void");
        let superblock = Superblock { recoverable, ..superblock };
        turn.unfinished = Some(UnfinishedStep::Epoch(self.begin_label(&superblock)));
        self.finish_epoch(&mut turn).await?;
        let first_sequence = superblock.epoch << 32;
        for region in 0..superblock.layout.regions() {
            self.fillings.begin(region, first_sequence);
        }
        self.lost.end();
        let mut state = self.lock();
        state.epochs = (superblock.epoch, superblock.oldest_epoch);
        state.dead = DeadByPlace::default();
        state.oldest = state.number;
        if !recoverable {
            (state.trust, state.said) = (Trust::Nothing, Said::Nothing);
            state.waiting.clear();
            state.on_their_way.clear();
            state.retry = Retry::new(self.place.entries());
        }
        Ok(())
    }

    pub(super) async fn finish_epoch(&self, turn: &mut Turn) -> Result<(), Error> {
        let Some(UnfinishedStep::Epoch(write)) = &mut turn.unfinished else { return Ok(()) };
        let ended = write.await;
        turn.unfinished = None;
        ended.map_err(|error| {
            self.counters.device_failed(&error);
            Error::device("cannot write down that everything is void", error)
        })
    }
}
