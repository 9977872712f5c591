//! A block that is full, on its way to where the device itself says that it has it.
//!
//! What need only outlive the process is in the kernel's page cache, and if the kernel cannot write it later, nobody
//! hears of it. So a full block is written once more, past the page cache. Nobody waits for that but who seals the next
//! one; until then what is in it is kept, to be logged anew if it fails. So no more than the open block can be lost in
//! silence.

use larder_device::{Durability, IoBuffer, IoFuture};

use super::block::Tombstone;
use super::number::BlockNumber;
use super::{Tombstones, Turn};

/// The block that is being sealed.
pub(super) struct Sealing {
    future: IoFuture,
    number: BlockNumber,
    entries: Vec<Tombstone>,
}

/// A block that outlives the process and is to be sealed when the one before is.
pub(super) struct FullBlock {
    pub(super) number: BlockNumber,
    pub(super) entries: Vec<Tombstone>,
    pub(super) buffer: IoBuffer,
}

impl Tombstones {
    /// Begins to seal the full block, if there is one. Says whether the one before was sealed; if not, what was in
    /// it waits to be logged anew.
    pub(super) async fn seal(&self, turn: &mut Turn) -> bool {
        if turn.full.is_none() {
            return true;
        }
        let is_sealed = self.is_sealed(&mut turn.sealing).await;
        // Only now: whoever waits may be dropped, and its successor finds the block where it was.
        if let Some(FullBlock { number, entries, buffer }) = turn.full.take() {
            assert!(turn.sealing.is_none(), "one block is sealed at a time");
            debug_assert_eq!(entries.len(), super::ENTRIES_MAX, "it is full");
            let offset = self.place.slot_offset(number);
            let future = self.submit_write(offset, buffer, Durability::Device);
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
}
