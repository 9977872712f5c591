//! Pieces of regions on their way to flash: several at a time, never waited for without need.
//!
//! Who holds the turn hands pieces out as long as fewer than [`PIECES_UNDER_WAY`] are on their way,
//! and goes on. He waits for the end of one only when there are as many as may be and more to write.
//! The ends of the others are seen to by whoever has the turn next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use larder_device::{Durability, Io, IoFuture, IoResult};

use super::Loc;
use super::footer::{FooterEntry, RegionIdentity};
use crate::error::Error;
use crate::events;
use crate::key::KeyHash;
use crate::removal::RemovalReason;
use crate::tier::Tier;

/// So many pieces are on their way at once, of all regions together.
pub(super) const PIECES_UNDER_WAY: usize = 4;

/// What is still under way on flash. It outlives the caller who began it: a caller that is dropped
/// leaves it here, and whoever takes the turn next goes on with it.
#[derive(Default)]
pub(super) struct Turn {
    /// Pieces of active regions.
    pieces: VecDeque<(RegionIdentity, IoFuture)>,
    /// Fillings of which a piece failed: their regions are given up.
    failed: Vec<RegionIdentity>,
    /// The deallocation of as many bytes. What is written there later must not die with them.
    pub(super) deallocation: Option<(IoFuture, u64)>,
}

impl Loc {
    /// Waits for the turn, and for what of an earlier holder's work nobody may run beside.
    pub(super) async fn take_turn(&self) -> async_lock::MutexGuard<'_, Turn> {
        let mut turn = self.turn.lock().await;
        self.finish_deallocation(&mut turn).await;
        self.note_ends(&mut turn, true).await;
        turn
    }

    /// Writes what has come together of the active regions. Says whether the object of `hash`, just
    /// appended, is still stored: a failed write takes its region with it.
    pub(super) async fn write_pieces(&self, hash: KeyHash) -> bool {
        let mut turn = self.take_turn().await;
        self.write_due(&mut turn).await;
        self.has(hash)
    }

    /// Sends off what is to be written. Waits only where more is than may be under way.
    pub(super) async fn write_due(&self, turn: &mut Turn) {
        self.hand_out(turn).await;
        while turn.pieces.len() >= PIECES_UNDER_WAY && self.has_pieces() {
            self.note_ends(turn, false).await;
            self.hand_out(turn).await;
        }
    }

    /// Waits until all that is to be written is on flash, or given up.
    pub(super) async fn drain(&self, turn: &mut Turn) {
        loop {
            self.hand_out(turn).await;
            if turn.pieces.is_empty() {
                return;
            }
            self.note_ends(turn, false).await;
        }
    }

    /// Waits until no piece is under way. Sends none off.
    pub(super) async fn end_pieces(&self, turn: &mut Turn) {
        while !turn.pieces.is_empty() {
            self.note_ends(turn, false).await;
        }
    }

    /// Waits until at most so many closed regions are in memory.
    pub(super) async fn drain_closed(&self, turn: &mut Turn, most: usize) {
        loop {
            self.hand_out(turn).await;
            if turn.pieces.is_empty() || self.lock().active.closed() <= most {
                return;
            }
            self.note_ends(turn, false).await;
        }
    }

    /// Sends off what is to be written, as much as may be under way.
    pub(super) async fn hand_out(&self, turn: &mut Turn) {
        while turn.pieces.len() < PIECES_UNDER_WAY {
            let piece_bytes = self.place.piece_bytes as usize;
            let next = self.lock().active.next_piece(piece_bytes, &self.pool);
            let Some((identity, shelf, piece)) = next else { return };
            self.counters.loc_written_bytes.add(piece.buffer.len() as u64);
            // The last piece has the footer, which takes the place of the tombstones of earlier fillings.
            let is_last =
                piece.offset + piece.buffer.len() as u64 == self.place.region_bytes.into();
            let durability = if is_last { self.place.durability } else { Durability::Device };
            let write = self.device.submit(Io::Write {
                offset: self.offset_of(identity.region) + piece.offset,
                buffer: piece.buffer,
                handle: self.place.handles[shelf],
                durability,
            });
            turn.pieces.push_back((identity, write));
            // A device drives what somebody has asked for: nobody may for a while.
            self.note_ends(turn, true).await;
        }
    }

    pub(super) fn has_pieces(&self) -> bool {
        self.lock().active.has_pieces(self.place.piece_bytes as usize)
    }

    /// Sees to the pieces that have ended. Waits for one, if there are some, unless `only_look`.
    async fn note_ends(&self, turn: &mut Turn, only_look: bool) {
        poll_fn(|context| {
            if self.collect(turn, context) || only_look || turn.pieces.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // In the turn until it is done: a caller may be dropped in the middle.
        while let Some(&identity) = turn.failed.last() {
            self.retire(identity).await;
            turn.failed.pop();
        }
    }

    /// Says whether a piece has ended.
    fn collect(&self, turn: &mut Turn, context: &mut Context<'_>) -> bool {
        let Turn { pieces, failed, .. } = turn;
        let before = pieces.len();
        pieces.retain_mut(|(identity, write)| match Pin::new(write).poll(context) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                if !self.piece_ended(*identity, &ended) && !failed.contains(identity) {
                    failed.push(*identity);
                }
                false
            }
        });
        pieces.len() < before
    }

    /// Says whether the piece is on flash. A closed region all of whose pieces are is Sealed.
    fn piece_ended(&self, identity: RegionIdentity, ended: &IoResult) -> bool {
        let RegionIdentity { region, sequence } = identity;
        self.breaker.ended(ended.is_ok());
        if let Err(failure) = ended {
            self.counters.device_failed(&failure.error);
        }
        let state = &mut *self.lock();
        let active = state.active.get_mut(region).filter(|active| active.identity == identity);
        match (ended, active) {
            (Ok(_), Some(active)) => {
                if active.piece_written() {
                    let segment = self.place.segment_of(active.shelf);
                    state.regions.seal(region, segment, active.latest_expiry_s());
                    state.active.written(region);
                    self.counters.loc_sealed_regions.add(1);
                    if let Some(tombstones) = &self.tombstones {
                        tombstones.filling_sealed(region, sequence);
                    }
                }
                true
            }
            // Of a region that was given up meanwhile.
            (Ok(_), None) => true,
            (Err(_), active) => active.is_none_or(|active| {
                active.fail();
                false
            }),
        }
    }

    /// Gives an active region up for a while and forgets what was in it: after a failed write, what is
    /// on flash is unknown.
    async fn retire(&self, identity: RegionIdentity) {
        let region = identity.region;
        let sequence = match self.bury_regions(&[region]).await {
            Ok(sequence) => sequence,
            // The tombstone waits, and who needs one after it waits with it.
            Err(_) => self.lock().emptying.take().map_or(0, |(_, sequence)| sequence),
        };
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_began(region, sequence);
        }
        let lost = {
            let state = &mut *self.lock();
            let Some(active) = state.active.remove(region) else { return };
            state.regions.retire(region, sequence, self.breaker.now_s());
            let current =
                |e: &&FooterEntry| state.index.remove_if_at(KeyHash(e.hash), region, e.offset);
            let lost = active.entries().iter().filter(current);
            lost.inspect(|entry| self.note(RemovalReason::Lost, entry)).count() as u64
        };
        self.counters.lost_to_device_errors_objects.add(lost);
        self.counters.loc_retired_regions.add(1);
        events::retired(events::Place::Region, region.into(), lost);
    }

    /// The object of this entry is gone.
    pub(super) fn note(&self, reason: RemovalReason, entry: &FooterEntry) {
        let (hash, bytes) = (entry.hash, entry.length as usize);
        self.counters.removals.hash(reason, Tier::LargeObjects, hash, bytes);
    }

    /// Numbers a filling, and makes sure that nothing of earlier ones of these regions comes back
    /// after a crash.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub(super) async fn bury_regions(&self, regions: &[u32]) -> Result<u64, Error> {
        let sequence = {
            let state = &mut *self.lock();
            match &state.emptying {
                Some((same, sequence)) if same == regions => *sequence,
                _ => {
                    let sequence = state.regions.number_filling();
                    state.emptying = Some((regions.to_vec(), sequence));
                    sequence
                }
            }
        };
        self.bury_before(regions, sequence).await?;
        self.lock().emptying = None;
        Ok(sequence)
    }

    pub(super) async fn bury_before(&self, regions: &[u32], sequence: u64) -> Result<(), Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        let mut last = None;
        for &region in regions {
            last = Some(tombstones.bury_region(region, sequence));
        }
        if let Some(last) = last {
            tombstones.commit(last).await?;
        }
        regions.iter().for_each(|&region| tombstones.filling_began(region, sequence));
        Ok(())
    }

    pub(super) async fn finish_deallocation(&self, turn: &mut Turn) {
        let Some((future, bytes)) = &mut turn.deallocation else { return };
        let (ended, bytes) = (future.await, *bytes);
        turn.deallocation = None;
        match ended {
            Ok(_) => self.counters.loc_deallocated_bytes.add(bytes),
            // The bytes stay until they are overwritten; nobody looks at them any more.
            Err(failure) => self.counters.device_failed(&failure.error),
        }
    }
}
