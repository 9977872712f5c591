//! Writes the pieces of regions: several at a time, and without needless waits for them.
//!
//! The task that holds the [`Writer`] sends pieces off while fewer than [`PIECES_IN_FLIGHT`] are on their way, and goes
//! on. It waits for the end of a piece only when this number of pieces is on its way and there is more to write. The
//! next holder handles the ends of the other pieces.

use std::future::poll_fn;
use std::task::{Context, Poll};

use async_lock::MutexGuard;
use larder_device::{Durability, Io, IoResult};

use super::RegionLog;
use crate::active::Piece;
use crate::footer::FooterEntry;
use crate::host::{Entries, Event, Host};
use crate::in_flight::Writer;
use crate::region::{RegionId, RegionIdentity, RegionState};

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Waits for the writer, and for an earlier holder's deallocation, which must not run at the same time as other
    /// work.
    pub async fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock().await;
        self.finish_deallocation(&mut writer).await;
        self.note_ends(&mut writer, true).await;
        writer
    }

    /// Whether there are enough bytes for a write.
    pub fn has_pieces(&self) -> bool {
        self.lock().active.has_pieces()
    }

    /// Sends off the pieces that are due. Waits only if there are more than may be under way.
    pub async fn write_due(&self, writer: &mut Writer) {
        self.send_pieces(writer).await;
        while !writer.has_room() && self.has_pieces() {
            self.note_ends(writer, false).await;
            self.send_pieces(writer).await;
        }
    }

    /// The same for a caller that does not hold the writer, if there are enough bytes for a write.
    pub async fn write_what_is_due(&self) {
        if self.has_pieces() {
            let mut writer = self.writer().await;
            self.write_due(&mut writer).await;
        }
    }

    /// Writes everything that the active regions hold, and waits for it. The regions stay open: after a crash the
    /// written records are found again, as far as they are whole. A region of which a piece cannot be written is
    /// retired.
    pub async fn write_out(&self) {
        let mut writer = self.writer().await;
        self.lock().active.want_rest();
        self.drain(&mut writer).await;
    }

    /// Waits for all writes that are under way. Sends no new ones.
    pub async fn finish_writes(&self) {
        let mut writer = self.writer().await;
        while !writer.is_idle() {
            self.note_ends(&mut writer, false).await;
        }
    }

    /// Writes the ends of all open regions, whatever they hold, and waits for them.
    pub async fn seal_all(&self, writer: &mut Writer) {
        self.lock().active.close_all();
        self.drain(writer).await;
    }

    /// Waits until everything that is to be written is on flash or given up.
    async fn drain(&self, writer: &mut Writer) {
        loop {
            self.send_pieces(writer).await;
            if writer.is_idle() {
                return;
            }
            self.note_ends(writer, false).await;
        }
    }

    /// Waits until at most `most` closed regions are not completely on flash.
    pub(super) async fn drain_closed(&self, writer: &mut Writer, most: usize) {
        loop {
            self.send_pieces(writer).await;
            if writer.is_idle() || self.lock().active.closed() <= most {
                return;
            }
            self.note_ends(writer, false).await;
        }
    }

    /// Sends off pieces that are due, as many as may be under way.
    pub(super) async fn send_pieces(&self, writer: &mut Writer) {
        while writer.has_room() {
            let (next, handle) = {
                let mut state = self.lock();
                let next = state.active.next_piece(&self.pool, self.host.now_s());
                let region = next.as_ref().map(|piece| piece.identity.region);
                (next, region.and_then(|region| state.regions.get(region).handle()))
            };
            let Some(Piece { identity, stream, offset, buffer }) = next else { return };
            self.host.note(Event::Wrote { stream, bytes: buffer.len() as u64 });
            // The last piece has the footer, which replaces what the host has stored about earlier fillings.
            let is_last = offset + buffer.len() == self.region_bytes();
            // The content of a stream that stays is relied on as soon as it is written: older content is given up for
            // it.
            let must_last = is_last || self.place.streams[stream].stays;
            let durability = if must_last { self.place.durability } else { Durability::Device };
            let write = self.device.submit(Io::Write {
                offset: self.offset_of(identity.region) + offset as u64,
                buffer,
                handle: handle.unwrap_or(self.place.streams[stream].handle),
                durability,
            });
            writer.push(identity, offset, write);
            // A device may only make progress on operations that were polled, and the next poll may come late. So poll
            // now.
            self.note_ends(writer, true).await;
        }
    }

    /// Handles the pieces that have ended. Waits for one, if there are any, unless `only_look`.
    async fn note_ends(&self, writer: &mut Writer, only_look: bool) {
        poll_fn(|context| {
            if self.collect(writer, context) || only_look || writer.is_idle() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // The filling stays in the writer until it is retired: the caller may be dropped in the middle.
        while let Some(identity) = writer.failed() {
            self.retire(identity).await;
            writer.retired(identity);
        }
    }

    /// Takes the pieces that have ended. Returns whether there was one.
    fn collect(&self, writer: &mut Writer, context: &mut Context<'_>) -> bool {
        writer.collect(context, |identity, offset, ended| self.piece_ended(identity, offset, ended))
    }

    /// Returns whether the piece is on flash. A closed region becomes Sealed when all its pieces are.
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
        // If the region was given up since, there is nothing to do.
        let active = state.active.get_mut(identity.region);
        active.filter(|active| active.identity() == identity).is_none_or(|active| {
            active.fail();
            false
        })
    }

    /// Gives an active region up for a while and forgets its records: after a failed write, the content on flash is
    /// unknown.
    async fn retire(&self, identity: RegionIdentity) {
        let region = identity.region;
        let sequence = match self.void_regions(&[region]).await {
            Ok(sequence) => sequence,
            // The tombstone is still waiting to be stored; later tombstones wait behind it.
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

    /// Takes a number for a filling, and makes sure that nothing from earlier fillings of these regions comes back
    /// after a crash.
    ///
    /// # Errors
    /// If the host cannot store that.
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

    /// Makes sure that nothing comes back of what an earlier opening has left in these regions, and makes them Free.
    ///
    /// # Errors
    /// If the host cannot store that.
    pub async fn empty_regions(&self, regions: &[RegionId]) -> Result<(), H::Error> {
        let sequence = self.void_regions(regions).await?;
        let mut state = self.lock();
        for &region in regions {
            state.regions.empty(region, sequence, RegionState::Free);
        }
        Ok(())
    }

    /// Makes sure that nothing from fillings of these regions before this number comes back.
    ///
    /// # Errors
    /// If the host cannot store that.
    pub async fn void_before(&self, regions: &[RegionId], sequence: u64) -> Result<(), H::Error> {
        self.host.invalidate_before(regions, sequence).await?;
        regions.iter().for_each(|&region| self.host.filling_began(region, sequence));
        Ok(())
    }

    pub(super) async fn finish_deallocation(&self, writer: &mut Writer) {
        let Some((future, bytes)) = &mut writer.deallocation else { return };
        let (ended, bytes) = (future.await, *bytes);
        writer.deallocation = None;
        match ended {
            Ok(_) => self.host.note(Event::Deallocated(bytes)),
            // The bytes stay on the device until they are overwritten, but are never read again.
            Err(failure) => self.host.note(Event::Failed(&failure.error)),
        }
    }
}
