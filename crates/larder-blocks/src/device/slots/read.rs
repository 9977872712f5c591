//! Reads of slots: the written bytes, and zeros after them. A slot whose data have vanished is zeros.

use std::sync::Arc;

use larder_device::{Error, ErrorKind, IoBuffer, IoFailure, IoResult};

use super::BlockSlots;
use crate::device::counts::add;
use crate::device::shape::PAGE_BYTES;
use crate::info::BlockId;

impl BlockSlots {
    /// Reads whole pages.
    pub(in crate::device) async fn read(
        self: Arc<Self>,
        slot: u32,
        at: u64,
        mut buffer: IoBuffer,
    ) -> IoResult {
        let wanted = buffer.len() as u64;
        loop {
            let block = self.lock().blocks[slot as usize];
            let known = block.and_then(|block| self.store.ledger().get(block));
            let (Some(block), Some(known)) = (block, known) else {
                if self.lock().blocks[slot as usize] != block {
                    continue;
                }
                fill_with_zeros(&mut buffer, 0);
                return Ok(buffer);
            };
            let there = known.written_bytes.saturating_sub(at).min(wanted);
            let is_cut = self.lock().cut.contains(&slot);
            if there < wanted && known.closed && !is_cut && self.store.ledger().is_there(block) {
                let error = self.unreadable(slot, at, known.written_bytes);
                return Err(IoFailure { error, buffer });
            }
            let there = usize::try_from(there).expect("a request is in memory");
            let read = match there {
                0 => Ok(buffer),
                _ if there == buffer.len() => self.store.read(block, at, buffer).await,
                _ => self.read_part((block, at), buffer, there).await,
            };
            match read {
                Ok(read) => {
                    buffer = read;
                    fill_with_zeros(&mut buffer, there);
                    return Ok(buffer);
                }
                Err(failure) if failure.error.kind() == ErrorKind::NotOpen => {
                    buffer = failure.buffer;
                    // The slot was discarded while the read ran, and the discard is about to update the slot's block;
                    // or its data have vanished.
                    let gone = self.store.is_gone(block);
                    if (gone || self.store.ledger().get(block).is_none_or(|it| it.closed))
                        && self.lock().blocks[slot as usize] == Some(block)
                    {
                        fill_with_zeros(&mut buffer, 0);
                        return Ok(buffer);
                    }
                }
                Err(failure) => return Err(self.failure(slot, "read", failure)),
            }
        }
    }

    async fn read_part(
        &self,
        (block, at): (BlockId, u64),
        mut buffer: IoBuffer,
        bytes: usize,
    ) -> IoResult {
        match self.store.read(block, at, IoBuffer::zeroed(bytes)).await {
            Ok(read) => {
                buffer.copy_in(0, read.as_slice());
                Ok(buffer)
            }
            Err(failure) => Err(IoFailure { error: failure.error, buffer }),
        }
    }

    #[cold]
    fn unreadable(&self, slot: u32, at: u64, end: u64) -> Error {
        add(&self.counters.failed_requests, 1);
        let (offset, store) = (self.shape.slot_offset(slot), &self.store.info().name);
        let context = format!(
            "read at {} of device on {store}: a write of slot {slot} failed, and only what lies before {} can be read; \
             write it anew from its start at {offset}",
            offset + at,
            offset + end
        );
        Error::new(ErrorKind::Io, context)
    }
}

fn fill_with_zeros(buffer: &mut IoBuffer, from: usize) {
    let zeros = [0; PAGE_BYTES];
    let end = buffer.len();
    let mut at = from;
    while at < end {
        let count = PAGE_BYTES.min(end - at);
        buffer.copy_in(at, &zeros[..count]);
        at += count;
    }
}
