//! Seals a full block: writes it so that the device itself confirms it.
//!
//! A write that only has to survive the process is in the kernel's page cache, and if the kernel cannot write it later,
//! the cache gets no error. So a full block is written again, past the page cache. Only the seal of the next block
//! waits for this write; until then its entries are kept, to be logged again if it fails. So at most the open block can
//! be lost without an error.

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

/// A block that survives the process; it is sealed when the previous one is.
pub(super) struct FullBlock {
    pub(super) number: BlockNumber,
    pub(super) entries: Vec<Tombstone>,
    pub(super) buffer: IoBuffer,
}

impl Tombstones {
    /// Starts sealing the full block, if there is one. Returns whether the previous one was sealed; if not, its entries
    /// wait to be logged again.
    pub(super) async fn seal(&self, turn: &mut Turn) -> bool {
        if turn.full.is_none() {
            return true;
        }
        let is_sealed = self.is_sealed(&mut turn.sealing).await;
        // Not earlier: the caller may be dropped while it waits, and the next one must still find the block.
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
