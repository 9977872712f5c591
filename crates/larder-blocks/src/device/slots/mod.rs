//! Slots: data written in order, each slot in a block of its own. The tags of the blocks are the map.
//!
//! ```text
//!   a write at the start     frees the block, then those of the slots that belong together with it if it is their
//!                            first; allocates another, appends
//!   … where the last ended   appends
//!   … behind it              appends zeros first
//!   … before it              is refused, unless the same bytes are there
//!   zeros at the start,
//!   or the whole deallocated frees the block
//! ```
//!
//! 1. Appends of a slot go to the store in order. One that comes before its predecessors waits while any request of the
//!    slot is in flight.
//! 2. A request that changes the block of a slot waits for the appends in flight, and later requests wait for it. The
//!    old block is gone before the new one is allocated. Only a slot that is being moved has two blocks; the longer one
//!    counts.
//! 3. Bytes after the written part of a slot are zeros.

mod queue;
mod read;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{Completer, Error, ErrorKind, IoBuffer, IoFailure, IoFuture, IoResult, steps};

use super::counts::{Counters, add};
use super::shape::Shape;
use super::tag::Purpose;
use crate::info::{BlockId, Stream};
use crate::store::BlockStore;
use queue::{Active, Change, DiscardedSlot, SlotRequest};

/// Bytes of zeros that are appended at a time.
const PADDING_BYTES: u64 = 1 << 20;
/// Bytes that are compared or copied at a time.
const COPIED_BYTES: usize = 1 << 20;

/// The slots of a device on blocks.
pub(super) struct BlockSlots {
    store: Arc<dyn BlockStore>,
    shape: Shape,
    counters: Arc<Counters>,
    state: Mutex<SlotsState>,
}

struct SlotsState {
    blocks: Vec<Option<BlockId>>,
    /// Slots with requests waiting or in flight.
    active: HashMap<u32, Active>,
    /// Slots whose block takes no more appends after a loss of power. The slot moves to a new block at the next write.
    cut: HashSet<u32>,
    /// Blocks that could not be freed after their slot had moved.
    left: HashMap<u32, BlockId>,
}

/// The next step for a slot.
enum SlotStep {
    /// Nothing can be begun now.
    Rest,
    Append {
        block: BlockId,
        request: SlotRequest,
    },
    /// No other request of the slot is in flight.
    Alone {
        block: Option<BlockId>,
        end: u64,
        request: SlotRequest,
    },
}

impl BlockSlots {
    pub(super) fn new(
        store: Arc<dyn BlockStore>,
        shape: Shape,
        counters: Arc<Counters>,
        blocks: Vec<Option<BlockId>>,
    ) -> Self {
        assert_eq!(blocks.len(), shape.slots as usize);
        let ledger = store.ledger();
        let takes_no_more = |block: BlockId| ledger.get(block).is_some_and(|known| known.closed);
        let cut = (0..).zip(&blocks).filter(|(_, block)| block.is_some_and(takes_no_more));
        let cut = cut.map(|(slot, _)| slot).collect();
        let state = SlotsState { blocks, active: HashMap::new(), cut, left: HashMap::new() };
        Self { store, shape, counters, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes whole pages.
    pub(super) fn write(
        self: &Arc<Self>,
        (slot, at): (u32, u64),
        buffer: IoBuffer,
        stream: Stream,
    ) -> IoFuture {
        let together = self.shape.options.slots_together;
        let begins = at == 0 && slot.is_multiple_of(together);
        // Submit these before any request that the host may send to those slots next.
        let others = if begins { slot + 1..slot + together } else { 0..0 };
        let given_up = others.map(|slot| self.give_up_behind(slot)).collect();
        self.submit(slot, Change::Write { at, buffer, stream, given_up })
    }

    /// Makes the bytes from `at` on zeros: either they were not written, or the whole slot is discarded.
    pub(super) fn clear(self: &Arc<Self>, slot: u32, at: u64) -> IoFuture {
        self.submit(slot, Change::Zeros { at })
    }

    /// Discards the content of the slot.
    pub(super) fn free(self: &Arc<Self>, slot: u32) -> IoFuture {
        self.submit(slot, Change::Free { behind: None })
    }

    fn give_up_behind(self: &Arc<Self>, slot: u32) -> DiscardedSlot {
        let (behind, go) = IoFuture::pending();
        DiscardedSlot { go, gone: self.submit(slot, Change::Free { behind: Some(behind) }) }
    }

    fn submit(self: &Arc<Self>, slot: u32, change: Change) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        {
            let state = &mut *self.lock();
            let active = state.active.entry(slot).or_insert_with(|| {
                let block = state.blocks[slot as usize];
                let known = block.and_then(|block| self.store.ledger().get(block));
                Active { end: known.map_or(0, |it| it.written_bytes), ..Active::default() }
            });
            active.queue.push_back(SlotRequest { change, completer });
        }
        self.carry_on(slot);
        future
    }

    /// Continues the requests of a slot, unless another thread already does.
    fn carry_on(self: &Arc<Self>, slot: u32) {
        {
            let mut state = self.lock();
            let Entry::Occupied(mut entry) = state.active.entry(slot) else { return };
            let active = entry.get_mut();
            if active.is_carried {
                return;
            }
            if active.queue.is_empty() {
                if active.in_flight == 0 {
                    entry.remove();
                }
                return;
            }
            active.is_carried = true;
        }
        steps::carry_on(Arc::clone(self).carry(slot));
    }

    async fn carry(self: Arc<Self>, slot: u32) {
        loop {
            let step = self.next_step(slot);
            match step {
                SlotStep::Rest => return,
                SlotStep::Append { block, request } => self.append(slot, block, request),
                SlotStep::Alone { block, end, request } => {
                    self.alone(slot, (block, end), request).await;
                }
            }
        }
    }

    fn next_step(&self, slot: u32) -> SlotStep {
        let state = &mut *self.lock();
        let block = state.blocks[slot as usize];
        let Entry::Occupied(mut entry) = state.active.entry(slot) else { return SlotStep::Rest };
        let active = entry.get_mut();
        if let (Some(at), Some(block), false) =
            (active.in_order(), block, state.cut.contains(&slot))
        {
            let request = active.queue.remove(at).expect("it was found there");
            return SlotStep::Append { block, request };
        }
        if active.in_flight == 0
            && let Some(at) = active.first_alone()
        {
            let request = active.queue.remove(at).expect("it was found there");
            return SlotStep::Alone { block, end: active.end, request };
        }
        active.is_carried = false;
        if active.in_flight == 0 {
            entry.remove();
        }
        SlotStep::Rest
    }

    /// Begins an append that is next in order.
    fn append(self: &Arc<Self>, slot: u32, block: BlockId, request: SlotRequest) {
        let SlotRequest { change, completer } = request;
        let Change::Write { at, buffer, .. } = change else {
            unreachable!("writes alone are in order")
        };
        self.append_at(slot, (block, at), buffer, move |ended| completer.complete(ended));
    }

    /// Begins an append, and calls `then` with its result.
    fn append_at(
        self: &Arc<Self>,
        slot: u32,
        (block, at): (BlockId, u64),
        buffer: IoBuffer,
        then: impl FnOnce(IoResult) + Send + 'static,
    ) {
        if let Some(active) = self.lock().active.get_mut(&slot) {
            active.in_flight += 1;
            active.end = at + buffer.len() as u64;
        }
        let append = self.store.append(block, at, buffer);
        let slots = Arc::clone(self);
        steps::carry_on(async move {
            let ended = append.await.map_err(|failure| slots.failure(slot, "write", failure));
            if let Some(active) = slots.lock().active.get_mut(&slot) {
                active.in_flight -= 1;
            }
            then(ended);
            slots.carry_on(slot);
        });
    }

    /// Carries out, or begins, a request that must run while no other request of the slot does.
    async fn alone(
        self: &Arc<Self>,
        slot: u32,
        (block, end): (Option<BlockId>, u64),
        request: SlotRequest,
    ) {
        let SlotRequest { change, completer } = request;
        match change {
            Change::Free { behind: Some(behind) } => match behind.await {
                Ok(_) => completer.complete(self.given_up(slot, block).await),
                Err(failure) => completer.complete(Err(failure)),
            },
            Change::Free { behind: None } | Change::Zeros { at: 0 } => {
                completer.complete(self.given_up(slot, block).await);
            }
            Change::Zeros { at } if at >= end => completer.complete(Ok(IoBuffer::empty())),
            Change::Zeros { at } => {
                let error = self.not_in_order(slot, at, end);
                completer.complete(Err(IoFailure::without_buffer(error)));
            }
            Change::Write { at, buffer, .. } if at > 0 && at < end => {
                self.repeat(slot, (block, end), (at, buffer), completer).await;
            }
            Change::Write { at, buffer, stream, given_up } => {
                let begun = match block {
                    Some(block) if at > 0 => {
                        self.usable(slot, (block, end), stream).await.map(|block| (block, end))
                    }
                    old => self.begin(slot, (old, given_up), stream).await.map(|block| (block, 0)),
                };
                match begun {
                    Ok((block, end)) => {
                        self.pad(slot, block, end..at);
                        self.append_at(slot, (block, at), buffer, move |ended| {
                            completer.complete(ended);
                        });
                    }
                    Err(error) => completer.complete(Err(IoFailure { error, buffer })),
                }
            }
        }
    }

    /// Gives the slot an empty block. The slot's old block goes first, and then the slots that are discarded with it.
    /// If power is lost in between, the start of the unit is gone, so the rest is not mistaken for a whole.
    async fn begin(
        &self,
        slot: u32,
        (old, others): (Option<BlockId>, Vec<DiscardedSlot>),
        stream: Stream,
    ) -> Result<BlockId, Error> {
        let first = self.give_up(slot, old).await;
        let mut under_way = Vec::with_capacity(others.len());
        for DiscardedSlot { go, gone } in others {
            let ended = first.as_ref().map(|()| IoBuffer::empty()).map_err(|error| {
                let context = format!("given up behind slot {slot}: {error}");
                IoFailure::without_buffer(Error::new(error.kind(), context))
            });
            go.complete(ended);
            under_way.push(gone);
        }
        all(under_way).await?;
        first?;
        // If it vanishes, the slot is zeros, as one that was never written.
        let block = self.store.alloc_clean(stream, Purpose::Slot(slot).tag()).await;
        let block = block.map_err(|error| self.error(slot, "write", &error))?;
        let state = &mut *self.lock();
        state.blocks[slot as usize] = Some(block);
        Ok(block)
    }

    async fn given_up(&self, slot: u32, block: Option<BlockId>) -> IoResult {
        let gone = self.give_up(slot, block).await;
        gone.map(|()| IoBuffer::empty()).map_err(IoFailure::without_buffer)
    }

    async fn give_up(&self, slot: u32, block: Option<BlockId>) -> Result<(), Error> {
        let left = self.lock().left.get(&slot).copied();
        // Free this one first: recovery would find it again, and it is longer than the new block.
        for block in left.into_iter().chain(block) {
            let freed = self.store.free(block).await;
            freed.map_err(|failure| self.error(slot, "freeing", &failure.error))?;
            self.lock().left.remove(&slot);
        }
        let state = &mut *self.lock();
        state.blocks[slot as usize] = None;
        state.cut.remove(&slot);
        if let Some(active) = state.active.get_mut(&slot) {
            active.end = 0;
        }
        Ok(())
    }

    /// The block of the slot. If that takes no more appends after a loss of power, another block with a copy of what
    /// was written.
    async fn usable(
        &self,
        slot: u32,
        (block, end): (BlockId, u64),
        stream: Stream,
    ) -> Result<BlockId, Error> {
        if !self.lock().cut.contains(&slot) {
            return Ok(block);
        }
        let moved = self.store.alloc(stream, Purpose::Slot(slot).tag()).await;
        let moved = moved.map_err(|error| self.error(slot, "write", &error))?;
        if let Err(error) = self.copy(block, moved, end).await {
            let error = self.error(slot, "write", &error);
            if self.store.free(moved).await.is_err() {
                self.lock().left.insert(slot, moved);
            }
            return Err(error);
        }
        {
            let state = &mut *self.lock();
            state.blocks[slot as usize] = Some(moved);
            state.cut.remove(&slot);
        }
        if self.store.free(block).await.is_err() {
            self.lock().left.insert(slot, block);
        }
        Ok(moved)
    }

    async fn copy(&self, from: BlockId, to: BlockId, bytes: u64) -> Result<(), Error> {
        let mut at = 0;
        while at < bytes {
            let count = usize::try_from(bytes - at).map_or(COPIED_BYTES, |it| it.min(COPIED_BYTES));
            let read = self.store.read(from, at, IoBuffer::zeroed(count)).await;
            let read = read.map_err(|failure| failure.error)?;
            self.store.append(to, at, read).await.map_err(|failure| failure.error)?;
            add(&self.counters.moved, count as u64);
            at += count as u64;
        }
        Ok(())
    }

    fn pad(self: &Arc<Self>, slot: u32, block: BlockId, gap: std::ops::Range<u64>) {
        let mut at = gap.start;
        while at < gap.end {
            let bytes = (gap.end - at).min(PADDING_BYTES);
            let zeros = IoBuffer::zeroed(usize::try_from(bytes).expect("they are few"));
            self.append_at(slot, (block, at), zeros, |_the_write_behind_fails_too| {});
            add(&self.counters.padded, bytes);
            at += bytes;
        }
    }

    /// A write over bytes that may be the same: the host rewrites the known part of a region together with the end that
    /// was cut off.
    async fn repeat(
        self: &Arc<Self>,
        slot: u32,
        (block, end): (Option<BlockId>, u64),
        (at, buffer): (u64, IoBuffer),
        completer: Completer,
    ) {
        let same = usize::try_from(end - at).map_or(buffer.len(), |there| there.min(buffer.len()));
        let block = block.expect("what was written is in one");
        match self.is_there(block, at, (&buffer, same)).await {
            Err(error) => {
                let error = self.error(slot, "write", &error);
                completer.complete(Err(IoFailure { error, buffer }));
            }
            Ok(false) => {
                let error = self.not_in_order(slot, at, end);
                completer.complete(Err(IoFailure { error, buffer }));
            }
            Ok(true) if same == buffer.len() => completer.complete(Ok(buffer)),
            Ok(true) => {
                let mut rest = IoBuffer::zeroed(buffer.len() - same);
                buffer.copy_out(same, rest.as_mut_slice());
                self.append_at(slot, (block, end), rest, move |ended| {
                    completer.complete(match ended {
                        Ok(_) => Ok(buffer),
                        Err(failure) => Err(IoFailure { error: failure.error, buffer }),
                    });
                });
            }
        }
    }

    /// Whether the first `bytes` of a buffer equal what is stored at `at`.
    async fn is_there(
        &self,
        block: BlockId,
        at: u64,
        (buffer, bytes): (&IoBuffer, usize),
    ) -> Result<bool, Error> {
        let mut compared = 0;
        while compared < bytes {
            let count = COPIED_BYTES.min(bytes - compared);
            let read = self.store.read(block, at + compared as u64, IoBuffer::zeroed(count)).await;
            let there = read.map_err(|failure| failure.error)?;
            let mut here = vec![0; count];
            buffer.copy_out(compared, &mut here);
            if here != there.as_slice() {
                return Ok(false);
            }
            compared += count;
        }
        Ok(true)
    }

    #[cold]
    fn error(&self, slot: u32, what: &str, cause: &Error) -> Error {
        let (offset, store) = (self.shape.slot_offset(slot), &self.store.info().name);
        let mut context = format!("{what} of slot {slot} of device on {store}: {cause}");
        if cause.kind() == ErrorKind::NotOpen {
            context += &format!("; write it anew from its start at {offset}");
        }
        Error::new(cause.kind(), context)
    }

    fn failure(&self, slot: u32, what: &str, failure: IoFailure) -> IoFailure {
        add(&self.counters.failed_requests, 1);
        IoFailure { error: self.error(slot, what, &failure.error), buffer: failure.buffer }
    }

    #[cold]
    fn not_in_order(&self, slot: u32, at: u64, end: u64) -> Error {
        add(&self.counters.failed_requests, 1);
        let (offset, store) = (self.shape.slot_offset(slot), &self.store.info().name);
        let context = format!(
            "write at {} of device on {store}: slot {slot} is written up to {}; go on there, or begin anew at its \
             start, {offset}",
            offset + at,
            offset + end
        );
        Error::new(ErrorKind::NotSequential, context)
    }
}

/// Waits for all of them. Returns the first failure.
async fn all(under_way: Vec<IoFuture>) -> Result<(), Error> {
    let mut ended = Ok(());
    for request in under_way {
        ended = ended.and(request.await.map(drop).map_err(|failure| failure.error));
    }
    ended
}
