//! Writing the log: whoever waits for a tombstone first writes for all who wait.

use larder_device::{Io, IoBuffer, IoFuture, PlacementHandle};

use super::block::{BLOCK_BYTES, ENTRIES_MAX, LogBlock, Tombstone};
use super::{Full, Receipt, Tombstones, Trust, Turn, Unfinished};
use crate::error::Error;
use crate::flash::{SUPERBLOCK_BYTES, Superblock};

impl Tombstones {
    /// Waits until a tombstone is durable.
    ///
    /// # Errors
    /// If neither it nor the superblock can be written.
    pub(crate) async fn commit(&self, receipt: Receipt) -> Result<(), Error> {
        while !self.is_durable(receipt) {
            let mut turn = self.turn.lock().await;
            self.finish(&mut turn).await?;
            if self.is_durable(receipt) {
                break;
            }
            self.make_room(&mut turn).await?;
            self.write_block(&mut turn);
            self.finish(&mut turn).await?;
        }
        Ok(())
    }

    /// What an operation that found nothing on flash has to wait for: a log that lacks something must
    /// be mended first.
    ///
    /// # Errors
    /// As [`Tombstones::commit`].
    pub(crate) async fn settle_debt(&self) -> Result<(), Error> {
        let owed = {
            let state = self.lock();
            (state.trust == Trust::Owed).then(|| state.receipt())
        };
        match owed {
            Some(receipt) => self.commit(receipt).await,
            None => Ok(()),
        }
    }

    fn is_durable(&self, receipt: Receipt) -> bool {
        let state = self.lock();
        match state.trust {
            Trust::Nothing => true,
            Trust::Log | Trust::Owed => state.durable >= receipt.0,
        }
    }

    /// Opens the next block if the open one is full and written. Frees the oldest ones where the ring
    /// needs them.
    async fn make_room(&self, turn: &mut Turn) -> Result<(), Error> {
        let mut oldest = {
            let mut state = self.lock();
            if state.durable >= state.first + ENTRIES_MAX as u64 {
                state.entries.drain(..ENTRIES_MAX);
                state.first += ENTRIES_MAX as u64;
                state.number += 1;
            }
            state.block_to_free(self.place.blocks)
        };
        while let Some(number) = oldest {
            let Some(block) = self.read_block(number).await else {
                return self.give_up(turn).await;
            };
            match self.log_again(number, block) {
                Ok(next) => oldest = next,
                Err(Full) => return self.give_up(turn).await,
            }
        }
        Ok(())
    }

    /// Logs what is still needed of the oldest block once more. Returns the next one that must give
    /// way.
    fn log_again(&self, number: u64, block: LogBlock) -> Result<Option<u64>, Full> {
        let needed: Vec<_> =
            block.entries.into_iter().filter(|entry| self.is_needed(entry)).collect();
        self.counters.tombstones_logged_again.add(needed.len() as u64);
        let mut state = self.lock();
        needed.into_iter().for_each(|entry| state.enqueue(entry));
        state.oldest = number + 1;
        if state.entries.len() as u64 > self.place.entries() {
            return Err(Full);
        }
        Ok(state.block_to_free(self.place.blocks))
    }

    fn is_needed(&self, tombstone: &Tombstone) -> bool {
        match *tombstone {
            Tombstone::Key { hash, index } => self.lock().dead.needs(hash, index),
            Tombstone::Record { region, sequence, .. } => {
                self.fillings.needs_record(region, sequence)
            }
            Tombstone::Region { region, sequence } => self.fillings.needs_region(region, sequence),
            Tombstone::Lost { hash, sequence } => self.lost.needs(hash, sequence),
        }
    }

    async fn read_block(&self, number: u64) -> Option<LogBlock> {
        let buffer = IoBuffer::zeroed(BLOCK_BYTES);
        let read = Io::Read { offset: self.place.slot_offset(number), buffer };
        let block = match self.device.submit(read).await {
            Ok(buffer) => LogBlock::parse(buffer.as_slice()),
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                None
            }
        };
        block.filter(|block| (block.ring, block.number) == (self.superblock.ring, number))
    }

    /// Begins to write the open block.
    fn write_block(&self, turn: &mut Turn) {
        let state = self.lock();
        let entries: Vec<_> = state.entries.iter().take(ENTRIES_MAX).copied().collect();
        let up_to = state.first + entries.len() as u64;
        let (number, oldest, clock) = (state.number, state.oldest, state.clock);
        drop(state);
        let mut buffer = IoBuffer::zeroed(BLOCK_BYTES);
        LogBlock { ring: self.superblock.ring, number, oldest, clock, entries }
            .encode(buffer.as_mut_slice());
        let write = self.submit_write(self.place.slot_offset(number), buffer);
        *turn = Some(Unfinished::Block(write, up_to));
    }

    /// Waits for the end of what is under way.
    async fn finish(&self, turn: &mut Turn) -> Result<(), Error> {
        match turn {
            None => Ok(()),
            Some(Unfinished::Block(write, up_to)) => {
                let (ended, up_to) = (write.await, *up_to);
                *turn = None;
                match ended {
                    Ok(_) => {
                        let mut state = self.lock();
                        let durable = up_to.max(state.durable);
                        state.durable = durable;
                        state.on_their_way.retain(|_, position| *position > durable);
                        if state.trust == Trust::Owed && state.durable >= state.receipt().0 {
                            state.trust = Trust::Log;
                        }
                        Ok(())
                    }
                    Err(failure) => {
                        self.counters.device_failed(&failure.error);
                        self.give_up(turn).await
                    }
                }
            }
            Some(Unfinished::Superblock(_)) => self.finish_giving_up(turn).await,
        }
    }

    /// Tells the superblock that nothing is to be believed after a crash.
    async fn give_up(&self, turn: &mut Turn) -> Result<(), Error> {
        // Until that is done, somebody who forgets something may not be the only one to know.
        self.lock().trust = Trust::Owed;
        let mut buffer = IoBuffer::zeroed(SUPERBLOCK_BYTES);
        Superblock { clean: false, recoverable: false, ..self.superblock }
            .encode(buffer.as_mut_slice());
        *turn = Some(Unfinished::Superblock(self.submit_write(0, buffer)));
        self.finish_giving_up(turn).await
    }

    async fn finish_giving_up(&self, turn: &mut Turn) -> Result<(), Error> {
        let Some(Unfinished::Superblock(write)) = turn else { return Ok(()) };
        let ended = write.await;
        *turn = None;
        match ended {
            Ok(_) => {
                self.lock().trust = Trust::Nothing;
                self.counters.tombstone_logs_given_up.add(1);
                Ok(())
            }
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                let message = "cannot write down that an older value on flash is void, and after a \
                               crash it would come back";
                Err(Error::device(message, failure.error))
            }
        }
    }

    fn submit_write(&self, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.counters.tombstone_log_written_bytes.add(buffer.len() as u64);
        self.device.submit(Io::Write { offset, buffer, handle: PlacementHandle::DEFAULT })
    }
}
