//! Pieces of regions on their way to flash: several at a time, never waited for without need.
//!
//! Whoever holds the [`Writer`] sends pieces off as long as fewer than [`PIECES_IN_FLIGHT`] are on their
//! way, and goes on. It waits for the end of one only when there are as many as may be and more to write.
//! The ends of the others are seen to by whoever holds it next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_lock::MutexGuard;
use larder_device::{Durability, Io, IoFuture, IoResult};

use crate::active::Piece;
use crate::footer::FooterEntry;
use crate::host::{Entries, Event, Host};
use crate::in_flight::PIECES_IN_FLIGHT;
use crate::log::RegionLog;
use crate::region::{RegionId, RegionIdentity, RegionState};

/// What is still under way on flash. It outlives the caller that began it: one that is dropped
/// leaves it here, and whoever comes next goes on with it.
#[derive(Default)]
pub struct Writer {
    /// Pieces of active regions, and where in these they belong.
    pieces: VecDeque<(RegionIdentity, usize, IoFuture)>,
    /// Fillings of which a piece failed: their regions are given up.
    failed: Vec<RegionIdentity>,
    /// The deallocation of as many bytes. What is written there later must not die with them.
    pub(crate) deallocation: Option<(IoFuture, u64)>,
}

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Waits for the writer, and for what of an earlier holder's work nobody may run beside.
    pub async fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock().await;
        self.finish_deallocation(&mut writer).await;
        self.note_ends(&mut writer, true).await;
        writer
    }

    /// Whether enough has come together to be written.
    pub fn has_pieces(&self) -> bool {
        self.lock().active.has_pieces()
    }

    /// Sends off what is to be written. Waits only where more is than may be under way.
    pub async fn write_due(&self, writer: &mut Writer) {
        self.send_pieces(writer).await;
        while writer.pieces.len() >= PIECES_IN_FLIGHT && self.has_pieces() {
            self.note_ends(writer, false).await;
            self.send_pieces(writer).await;
        }
    }

    /// The same for who does not have the writer, if it is enough for a write.
    pub async fn write_what_is_due(&self) {
        if self.has_pieces() {
            let mut writer = self.writer().await;
            self.write_due(&mut writer).await;
        }
    }

    /// Writes all that the active regions hold, and waits for it. They go on to be filled: what was
    /// written is found again after a crash, as far as records are whole. A region of which something
    /// cannot be written is retired.
    pub async fn write_out(&self) {
        let mut writer = self.writer().await;
        self.lock().active.want_rest();
        self.drain(&mut writer).await;
    }

    /// Waits for all writes that are under way. Sends none off.
    pub async fn finish_writes(&self) {
        let mut writer = self.writer().await;
        while !writer.pieces.is_empty() {
            self.note_ends(&mut writer, false).await;
        }
    }

    /// Writes the ends of all open regions, whatever is in them, and waits for it.
    pub async fn seal_all(&self, writer: &mut Writer) {
        self.lock().active.close_all();
        self.drain(writer).await;
    }

    /// Waits until all that is to be written is on flash, or given up.
    async fn drain(&self, writer: &mut Writer) {
        loop {
            self.send_pieces(writer).await;
            if writer.pieces.is_empty() {
                return;
            }
            self.note_ends(writer, false).await;
        }
    }

    /// Waits until at most so many closed regions are not on flash.
    pub(crate) async fn drain_closed(&self, writer: &mut Writer, most: usize) {
        loop {
            self.send_pieces(writer).await;
            if writer.pieces.is_empty() || self.lock().active.closed() <= most {
                return;
            }
            self.note_ends(writer, false).await;
        }
    }

    /// Sends off what is to be written, as much as may be under way.
    pub(crate) async fn send_pieces(&self, writer: &mut Writer) {
        while writer.pieces.len() < PIECES_IN_FLIGHT {
            let (next, handle) = {
                let mut state = self.lock();
                let next = state.active.next_piece(&self.pool, self.host.now_s());
                let region = next.as_ref().map(|piece| piece.identity.region);
                (next, region.and_then(|region| state.regions.get(region).handle()))
            };
            let Some(Piece { identity, stream, offset, buffer }) = next else { return };
            self.host.note(Event::Wrote { stream, bytes: buffer.len() as u64 });
            // The last piece has the footer, which takes the place of what was written down of earlier fillings.
            let is_last = offset + buffer.len() == self.region_bytes();
            // What stays is relied upon as soon as it is written: what is older gives way to it.
            let must_last = is_last || self.place.streams[stream].stays;
            let durability = if must_last { self.place.durability } else { Durability::Device };
            let write = self.device.submit(Io::Write {
                offset: self.offset_of(identity.region) + offset as u64,
                buffer,
                handle: handle.unwrap_or(self.place.streams[stream].handle),
                durability,
            });
            writer.pieces.push_back((identity, offset, write));
            // A device drives what somebody has asked for: nobody may for a while.
            self.note_ends(writer, true).await;
        }
    }

    /// Sees to the pieces that have ended. Waits for one, if there are some, unless `only_look`.
    async fn note_ends(&self, writer: &mut Writer, only_look: bool) {
        poll_fn(|context| {
            if self.collect(writer, context) || only_look || writer.pieces.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // In the writer until it is done: a caller may be dropped in the middle.
        while let Some(&identity) = writer.failed.last() {
            self.retire(identity).await;
            writer.failed.pop();
        }
    }

    /// Says whether a piece has ended.
    fn collect(&self, writer: &mut Writer, context: &mut Context<'_>) -> bool {
        let Writer { pieces, failed, .. } = writer;
        let before = pieces.len();
        pieces.retain_mut(|(identity, offset, write)| match Pin::new(write).poll(context) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                if !self.piece_ended(*identity, *offset, &ended) && !failed.contains(identity) {
                    failed.push(*identity);
                }
                false
            }
        });
        pieces.len() < before
    }

    /// Says whether the piece is on flash. A closed region all of whose pieces are is Sealed.
    fn piece_ended(&self, identity: RegionIdentity, offset: usize, ended: &IoResult) -> bool {
        let outcome = ended.as_ref().map(drop).map_err(|failure| &failure.error);
        self.host.note(Event::WriteEnded(outcome));
        let state = &mut *self.lock();
        if ended.is_ok() {
            if state.active.piece_written(identity, offset) {
                let filled = state.active.remove(identity.region).expect("it was just written");
                let segment = self.place.streams[filled.stream].segment;
                state.regions.seal(identity.region, segment, filled.latest_expiry_s);
                self.host.note(Event::Sealed);
                self.host.filling_sealed(identity);
            }
            return true;
        }
        // Of a region that was given up meanwhile, nothing is to be done.
        let active = state.active.get_mut(identity.region);
        active.filter(|active| active.identity() == identity).is_none_or(|active| {
            active.fail();
            false
        })
    }

    /// Gives an active region up for a while and forgets what was in it: after a failed write, what is
    /// on flash is unknown.
    async fn retire(&self, identity: RegionIdentity) {
        let region = identity.region;
        let sequence = match self.void_regions(&[region]).await {
            Ok(sequence) => sequence,
            // The tombstone waits, and whoever needs one after it waits with it.
            Err(_) => self.lock().emptying.take().map_or(0, |(_, sequence)| sequence),
        };
        self.host.filling_began(region, sequence);
        let lost: Vec<FooterEntry> = {
            let state = &mut *self.lock();
            let Some(filled) = state.active.remove(region) else { return };
            state.regions.retire(region, sequence, self.host.now_s());
            let entries = &mut state.entries;
            let stream = Some(filled.stream);
            let current = |e: &FooterEntry| entries.remove_if_at(stream, e.hash, region, e.offset);
            filled.entries.into_iter().filter(current).collect()
        };
        self.host.note(Event::Retired(region, &lost));
    }

    /// Numbers a filling, and makes sure that nothing of earlier ones of these regions comes back
    /// after a crash.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub async fn void_regions(&self, regions: &[RegionId]) -> Result<u64, H::Error> {
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
        self.void_before(regions, sequence).await?;
        self.lock().emptying = None;
        Ok(sequence)
    }

    /// Makes sure that nothing comes back of what an earlier opening has left in these regions: they are Free.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub async fn empty_regions(&self, regions: &[RegionId]) -> Result<(), H::Error> {
        let sequence = self.void_regions(regions).await?;
        let mut state = self.lock();
        for &region in regions {
            state.regions.empty(region, sequence, RegionState::Free);
        }
        Ok(())
    }

    /// Makes sure that nothing of fillings before this number of these regions comes back.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub async fn void_before(&self, regions: &[RegionId], sequence: u64) -> Result<(), H::Error> {
        self.host.invalidate_before(regions, sequence).await?;
        regions.iter().for_each(|&region| self.host.filling_began(region, sequence));
        Ok(())
    }

    pub(crate) async fn finish_deallocation(&self, writer: &mut Writer) {
        let Some((future, bytes)) = &mut writer.deallocation else { return };
        let (ended, bytes) = (future.await, *bytes);
        writer.deallocation = None;
        match ended {
            Ok(_) => self.host.note(Event::Deallocated(bytes)),
            // The bytes stay until they are overwritten; nobody looks at them any more.
            Err(failure) => self.host.note(Event::Failed(&failure.error)),
        }
    }
}
