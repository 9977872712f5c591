//! Writes the log: the first caller that waits for a tombstone writes for all callers that wait.
//!
//! A full block is sealed: written again so that the device itself confirms it.
//!
//! A write that only has to survive the process is in the kernel's page cache, and if the kernel cannot write it later,
//! the cache gets no error. So a full block is written again, past the page cache. Only the seal of the next block
//! waits for this write; until then its entries are kept, to be logged again if it fails. So at most the open block can
//! be lost without an error.

use larder_device::{IoBuffer, IoFuture};

use super::block::{ENTRIES_MAX, Tombstone};
use super::number::BlockNumber;
use super::ring::NewBlock;
use super::{
    BlockWrite, KeysIn, LogFull, Receipt, Tombstones, TombstonesState, Trust, Turn, UnfinishedStep,
};
use crate::base::error::Error;

/// The block that is being sealed.
pub(super) struct Sealing {
    future: IoFuture,
    number: BlockNumber,
    entries: Vec<Tombstone>,
}

/// A block that survives the process; it is sealed when the previous one is.
pub(super) struct FullBlock {
    number: BlockNumber,
    entries: Vec<Tombstone>,
    buffer: IoBuffer,
}

impl Tombstones {
    /// Waits until a tombstone is durable.
    ///
    /// # Errors
    /// If neither the tombstone nor the superblock can be written.
    pub(crate) async fn commit(&self, receipt: Receipt) -> Result<(), Error> {
        while !self.is_durable(receipt) {
            let end = self.combining.end();
            let Some(mut turn) = self.combining.try_lock() else {
                if !self.is_durable(receipt) {
                    end.await;
                }
                continue;
            };
            self.finish(&mut turn).await?;
            if !self.is_durable(receipt) && self.make_room(&mut turn).await? {
                self.write_block(&mut turn);
                self.finish(&mut turn).await?;
            }
        }
        self.regain().await;
        Ok(())
    }

    /// Waits for the log to be repaired if it lacks something. An operation that found nothing on flash must call this.
    ///
    /// # Errors
    /// As [`Tombstones::commit`].
    pub(crate) async fn settle_debt(&self) -> Result<(), Error> {
        let (trust, receipt) = {
            let state = self.lock();
            (state.trust, state.receipt())
        };
        match trust {
            Trust::Log => Ok(()),
            Trust::Owed | Trust::Nothing => self.commit(receipt).await,
        }
    }

    /// Whether everything that expires in this second will also have expired for every later opening; then it can be
    /// forgotten without a tombstone. If flash does not have the current time yet, it is written, unless another caller
    /// is writing.
    pub(crate) async fn is_over(&self, expiry_s: u32) -> bool {
        if self.time_is_durable(expiry_s) || !self.is_trusted() {
            return self.time_is_durable(expiry_s);
        }
        let Some(mut turn) = self.combining.try_lock() else { return false };
        // Best effort: callers that need the log get its errors themselves.
        if matches!(self.finish(&mut turn).await, Ok(true))
            && !self.time_is_durable(expiry_s)
            && matches!(self.make_room(&mut turn).await, Ok(true))
        {
            self.write_block(&mut turn);
            let _ = self.finish(&mut turn).await;
        }
        self.time_is_durable(expiry_s)
    }

    fn time_is_durable(&self, expiry_s: u32) -> bool {
        let state = self.lock();
        state.trust == Trust::Nothing && !state.retry.is_possible() || expiry_s <= state.second
    }

    fn is_durable(&self, receipt: Receipt) -> bool {
        let state = self.lock();
        match state.trust {
            Trust::Nothing => true,
            Trust::Log | Trust::Owed => state.durable >= receipt.0,
        }
    }

    /// Opens the next block if the open one is full, and frees the oldest blocks if the ring needs their slots: entries
    /// of theirs that are still needed are copied to the open block as long as there is room. Frees at least one block
    /// for each that is opened. Returns whether there is room; if not, the log has been given up.
    pub(super) async fn make_room(&self, turn: &mut Turn) -> Result<bool, Error> {
        let mut oldest = {
            let mut state = self.lock();
            state.open_next();
            // Only once for each opened block: entries that are already in it need no more room.
            if state.open.is_empty() { state.block_to_free(self.place.blocks) } else { None }
        };
        while let Some(number) = oldest {
            // If the device did not take a block, its entries are waiting to be logged again: there is nothing to copy.
            let is_sealed = !self.lock().not_sealed.remove(&number);
            let entries = if is_sealed { self.ring.read(number).await } else { Some(Vec::new()) };
            // Rule 4: a log that has lost entries is worse than none.
            let Some(entries) = entries else {
                return self.give_up(turn).await.map(|()| false);
            };
            match self.copy_needed(number, entries) {
                Ok(next) => oldest = next,
                Err(LogFull) => return self.give_up(turn).await.map(|()| false),
            }
        }
        Ok(true)
    }

    /// Copies the entries of the oldest block that are still needed to the open block. Returns the next block to free,
    /// if the open block has room for more.
    fn copy_needed(
        &self,
        number: BlockNumber,
        entries: Vec<Tombstone>,
    ) -> Result<Option<BlockNumber>, LogFull> {
        let needed: Vec<_> = entries.into_iter().filter(|entry| self.is_needed(entry)).collect();
        let mut state = self.lock();
        if state.open.len() + needed.len() > ENTRIES_MAX {
            return Ok(None); // it is freed for the next block that is opened
        }
        self.counters.tombstones_logged_again.add(needed.len() as u64);
        // Rule 3: copy all entries or none, and before any new ones: the original is overwritten when this block is
        // durable, without waiting for another one.
        state.open.extend(needed);
        debug_assert_eq!(number, state.oldest, "blocks give way in order");
        debug_assert!(number < state.number, "the open block does not give way");
        state.oldest = number.next();
        let is_full = state.open.len() == ENTRIES_MAX;
        state.blocks_of_copies = if is_full { state.blocks_of_copies + 1 } else { 0 };
        // The copies went once around the ring, and there was no room for anything new.
        if state.blocks_of_copies > self.place.blocks {
            return Err(LogFull);
        }
        Ok(state.block_to_free(self.place.blocks))
    }

    fn is_needed(&self, tombstone: &Tombstone) -> bool {
        match *tombstone {
            Tombstone::Key { hash, index } => {
                self.lock().dead.of(KeysIn::Buckets).needs(hash, index)
            }
            Tombstone::TableKey { hash, index } => {
                self.lock().dead.of(KeysIn::Tables).needs(hash, index)
            }
            Tombstone::Record { region, sequence, .. } => {
                self.fillings.needs_record(region, sequence)
            }
            Tombstone::Region { region, sequence } => self.fillings.needs_region(region, sequence),
            Tombstone::Lost { hash, sequence } => self.lost.needs(hash, sequence),
        }
    }

    /// Starts writing the open block, filled with as many waiting tombstones as fit.
    pub(super) fn write_block(&self, turn: &mut Turn) {
        assert!(
            turn.unfinished.is_none(),
            "one write at a time: the holder of a turn ends the one before"
        );
        let second = self.clock.now_s();
        let mut state = self.lock();
        state.fill_open();
        assert!(
            state.blocks_that_count() < self.place.blocks,
            "block {} would be written over block {}, which counts",
            state.number.get(),
            state.oldest.get()
        );
        let (up_to, entries) = (state.taken, state.open.clone());
        let (number, oldest, clock) = (state.number, state.oldest, state.clock);
        drop(state);
        let count = entries.len();
        let future = self.ring.write(NewBlock { number, oldest, clock, second, entries });
        let write = BlockWrite { future, number, up_to, entries: count, second };
        turn.unfinished = Some(UnfinishedStep::Block(write));
    }

    /// Waits for the end of the write in flight. Returns whether it succeeded; if not, the log has been given up.
    pub(super) async fn finish(&self, turn: &mut Turn) -> Result<bool, Error> {
        match &mut turn.unfinished {
            None => self.finish_full(turn).await,
            Some(UnfinishedStep::Block(write)) => {
                let ended = (&mut write.future).await;
                let Some(UnfinishedStep::Block(write)) = turn.unfinished.take() else {
                    return Ok(true);
                };
                match ended {
                    Ok(buffer) => {
                        let full = self.lock().block_written(&write, buffer);
                        // A block that survives a power loss is sealed already.
                        turn.full = full.filter(|_| self.ring.seals());
                        self.finish_full(turn).await
                    }
                    Err(failure) => {
                        self.counters.device_failed(&failure.error);
                        self.give_up(turn).await.map(|()| false)
                    }
                }
            }
            Some(UnfinishedStep::Superblock(..)) => {
                self.finish_superblock(turn).await.map(|()| true)
            }
            Some(UnfinishedStep::Epoch(_)) => {
                // The caller was dropped. Its result would only matter after a crash.
                _ = self.finish_epoch(turn).await;
                Ok(true)
            }
        }
    }

    /// Starts sealing the full block, if there is one. Returns whether the previous one was sealed; if not, its entries
    /// wait to be logged again.
    async fn seal(&self, turn: &mut Turn) -> bool {
        if turn.full.is_none() {
            return true;
        }
        let is_sealed = self.is_sealed(&mut turn.sealing).await;
        // Not earlier: the caller may be dropped while it waits, and the next one must still find the block.
        if let Some(FullBlock { number, entries, buffer }) = turn.full.take() {
            assert!(turn.sealing.is_none(), "one block is sealed at a time");
            debug_assert_eq!(entries.len(), ENTRIES_MAX, "it is full");
            let future = self.ring.seal(number, buffer);
            turn.sealing = Some(Sealing { future, number, entries });
        }
        is_sealed
    }

    async fn is_sealed(&self, sealing: &mut Option<Sealing>) -> bool {
        let Some(under_way) = sealing else { return true };
        let ended = (&mut under_way.future).await;
        let (Some(Sealing { number, entries, .. }), Err(failure)) = (sealing.take(), ended) else {
            return true;
        };
        self.counters.device_failed(&failure.error);
        let mut state = self.lock();
        state.not_sealed.insert(number);
        for tombstone in entries {
            state.enqueue(tombstone);
        }
        false
    }

    /// Seals the full block, if there is one.
    async fn finish_full(&self, turn: &mut Turn) -> Result<bool, Error> {
        if self.seal(turn).await {
            return Ok(true);
        }
        self.give_up(turn).await.map(|()| false)
    }
}

impl TombstonesState {
    /// Notes that the open block is on flash, as it was when it was submitted. Returns it if it is full, to be sealed.
    fn block_written(&mut self, written: &BlockWrite, buffer: IoBuffer) -> Option<FullBlock> {
        assert!(
            written.up_to <= self.taken && written.entries <= self.open.len(),
            "one block at a time is written, and nothing leaves it during the write"
        );
        self.open_durable = written.entries.max(self.open_durable);
        self.second = written.second.max(self.second);
        let durable = written.up_to.max(self.durable);
        assert_eq!(written.number, self.number, "the open block is written, and no other");
        assert!(durable <= self.taken, "{durable} of {} that are in blocks", self.taken);
        self.durable = durable;
        self.on_their_way.retain(|_, position| *position > durable);
        self.dead.durable_up_to(durable);
        let is_full = written.entries == ENTRIES_MAX;
        is_full.then(|| FullBlock { number: written.number, entries: self.open.clone(), buffer })
    }
}
