//! From a full region to the next one: sealing, choosing, saving what is hot.

use larder_device::Io;

use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::{Location, UNIT_BYTES};
use super::regions::{ActiveRegion, Piece, RegionState};
use super::{Loc, State, Turn, Unfinished, append, record};
use crate::error::Error;
use crate::key::KeyHash;
use crate::value::{Fetched, ItemRef};

/// At most this part of a region is filled with objects saved from the region, or from all regions
/// of the unit, that it replaces: a set must not start a chain of reclaims that ends only when
/// nothing is hot any more. For the same reason the object that asks for room comes before those
/// that are saved.
const SAVED_PART: usize = 2;

/// How long a tail to read at first when looking for a footer.
const FOOTER_GUESS_BYTES: usize = 4096;

/// A region that gives way, with its records if its footer could be read.
struct Reclaimed {
    region: u32,
    listed: Option<Vec<FooterEntry>>,
}

impl Loc {
    /// Makes sure that the active region has room for an object of this size. `false` if no region
    /// can be had: all are retired.
    pub(super) async fn rotate(&self, object_bytes: usize, now_s: u32) -> bool {
        let mut turn = self.take_turn().await;
        if self.lock().active.as_ref().is_some_and(|active| active.has_room_for(object_bytes)) {
            return true; // somebody else's turn made room
        }
        self.seal_active(&mut turn).await;
        self.find_room().await;
        self.open_next(&mut turn, object_bytes, now_s).await
    }

    /// Writes what has come together of the active region. Says whether the object of `hash`, just
    /// appended, is still stored: a failed write takes its region with it.
    pub(super) async fn write_pieces(&self, hash: KeyHash) -> bool {
        let mut turn = self.take_turn().await;
        while let Some((identity, piece)) = self.next_piece() {
            if !self.write(&mut turn, identity, piece).await {
                break;
            }
        }
        self.holds(hash)
    }

    /// Waits for the turn, and for the write that an earlier holder may have left under way.
    pub(super) async fn take_turn(&self) -> async_lock::MutexGuard<'_, Turn> {
        let mut turn = self.turn.lock().await;
        self.finish(&mut turn).await;
        turn
    }

    /// Writes the end of the active region, whatever is in it.
    pub(super) async fn seal_active(&self, turn: &mut Turn) {
        if let Some((identity, piece)) = self.close_active() {
            self.write(turn, identity, piece).await;
        }
    }

    fn next_piece(&self) -> Option<(RegionIdentity, Piece)> {
        let mut state = self.lock();
        let active = state.active.as_mut()?;
        let piece = active.next_piece(self.place.piece_bytes as usize, &self.pool)?;
        Some((active.identity, piece))
    }

    fn close_active(&self) -> Option<(RegionIdentity, Piece)> {
        let mut state = self.lock();
        let active = state.active.as_mut()?;
        Some((active.identity, active.close(&self.pool)))
    }

    /// Writes a piece of the active region. If that fails the region is retired.
    pub(super) async fn write(
        &self,
        turn: &mut Turn,
        identity: RegionIdentity,
        piece: Piece,
    ) -> bool {
        self.counters.loc_written_bytes.add(piece.buffer.len() as u64);
        *turn = Some(Unfinished::Piece(self.device.submit(Io::Write {
            offset: self.offset_of(identity.region) + piece.offset,
            buffer: piece.buffer,
            handle: self.place.handle,
        })));
        self.finish(turn).await
    }

    /// Waits for the end of what is under way. Says whether it went well.
    async fn finish(&self, turn: &mut Turn) -> bool {
        loop {
            let (ended, deallocated_bytes) = match turn {
                None => return true,
                Some(Unfinished::Retirement) => {
                    self.retire_active().await;
                    *turn = None;
                    return false;
                }
                Some(Unfinished::Piece(future)) => (future.await, None),
                Some(Unfinished::Deallocation(future, bytes)) => (future.await, Some(*bytes)),
            };
            *turn = None;
            if let Err(failure) = &ended {
                self.counters.device_failed(&failure.error);
            }
            match (deallocated_bytes, &ended) {
                (None, Ok(_)) => self.piece_written(),
                (None, Err(_)) => {
                    *turn = Some(Unfinished::Retirement);
                    continue;
                }
                (Some(bytes), Ok(_)) => self.counters.loc_deallocated_bytes.add(bytes),
                // The bytes stay until they are overwritten; nobody looks at them any more.
                (Some(_), Err(_)) => {}
            }
            return ended.is_ok();
        }
    }

    /// Pieces are written one after another, so a closed region whose piece is written is whole.
    fn piece_written(&self) {
        let state = &mut *self.lock();
        if let Some(active) = state.active.take_if(|active| active.is_closed()) {
            let RegionIdentity { region, sequence } = active.identity;
            state.regions.set_state(region, RegionState::Sealed);
            self.counters.loc_sealed_regions.add(1);
            if let Some(tombstones) = &self.tombstones {
                tombstones.filling_sealed(region, sequence);
            }
        }
    }

    /// Gives the active region up and forgets what was in it: after a failed write, what is on
    /// flash is unknown.
    async fn retire_active(&self) {
        let region = self.lock().active.as_ref().map(|active| active.identity.region);
        let Some(region) = region else { return };
        let sequence = match self.bury_regions(&[region]).await {
            Ok(sequence) => sequence,
            // The tombstone waits, and who needs one after it waits with it.
            Err(_) => self.lock().emptying.take().map_or(0, |(_, sequence)| sequence),
        };
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_began(region, sequence);
        }
        let state = &mut *self.lock();
        let Some(active) = state.active.take() else { return };
        state.regions.empty(region, sequence, RegionState::Retired);
        let current =
            |e: &&FooterEntry| state.index.remove_if_at(KeyHash(e.hash), region, e.offset);
        let lost = active.entries().iter().filter(current).count();
        self.counters.lost_to_device_errors_objects.add(lost as u64);
        self.counters.loc_retired_regions.add(1);
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

    async fn open_next(&self, turn: &mut Turn, object_bytes: usize, now_s: u32) -> bool {
        let together = self.place.regions_per_unit.unwrap_or(1);
        let Some(next) = self.lock().regions.next(self.place.eviction, together) else {
            return false;
        };
        let mut room = self.room_to_save(object_bytes);
        let mut reclaimed = Vec::with_capacity(next.reclaimed.len());
        let mut saved = Vec::new();
        for identity in next.reclaimed {
            let listed = self.read_footer(identity).await;
            let records = (identity, listed.as_deref().unwrap_or(&[]));
            room = self.read_hot(records, room, now_s, &mut saved).await;
            reclaimed.push(Reclaimed { region: identity.region, listed });
        }
        let mut regions: Vec<u32> = reclaimed.iter().map(|reclaimed| reclaimed.region).collect();
        if reclaimed.is_empty() {
            regions.push(next.region);
        }
        let Ok(sequence) = self.bury_regions(&regions).await else { return false };
        self.replace(RegionIdentity { region: next.region, sequence }, &reclaimed, &saved);
        if !reclaimed.is_empty() {
            self.deallocate_unit_of(turn, next.region).await;
        }
        true
    }

    /// Forgets what is in the `reclaimed` regions, begins the `next` filling, and appends what was
    /// saved and is still current. One step for everybody else.
    fn replace(
        &self,
        next: RegionIdentity,
        reclaimed: &[Reclaimed],
        saved: &[(Location, Fetched)],
    ) {
        let buffer = self.pool.take(self.place.region_bytes as usize);
        let state = &mut *self.lock();
        let current: Vec<ItemRef<'_>> = saved
            .iter()
            .filter(|(at, saved)| state.index.points_to(saved.hash, at.region, at.offset))
            .map(|(_, saved)| saved.item())
            .collect();
        let forgotten: u64 =
            reclaimed.iter().map(|reclaimed| self.empty(state, reclaimed, next.sequence)).sum();
        state.regions.activate(next.region, next.sequence);
        let active = state.active.insert(ActiveRegion::new(next, buffer));
        for item in &current {
            append(active, &mut state.index, item);
            self.counters.loc_reinserted_bytes.add(item.object_bytes() as u64);
        }
        self.counters.loc_reinserted_objects.add(current.len() as u64);
        self.counters.loc_evicted_objects.add(forgotten - current.len() as u64);
    }

    /// Forgets what is in a region and sets it free. Returns how many objects there were.
    fn empty(&self, state: &mut State, reclaimed: &Reclaimed, sequence: u64) -> u64 {
        let Reclaimed { region, listed } = reclaimed;
        state.regions.empty(*region, sequence, RegionState::Free);
        self.counters.loc_reclaimed_regions.add(1);
        match listed {
            Some(entries) => entries
                .iter()
                .filter(|e| state.index.remove_if_at(KeyHash(e.hash), *region, e.offset))
                .count() as u64,
            None => state.index.remove_region(*region),
        }
    }

    /// Empties a sealed region before its time: the tombstone log is full of its dead.
    pub(crate) async fn give_up_region(&self, region: u32) {
        let _turn = self.take_turn().await;
        let sealed = self.lock().regions.sealed().find(|identity| identity.region == region);
        let Some(identity) = sealed else { return };
        let listed = self.read_footer(identity).await;
        let Ok(sequence) = self.bury_regions(&[region]).await else { return };
        let evicted = self.empty(&mut self.lock(), &Reclaimed { region, listed }, sequence);
        self.counters.loc_given_up_regions.add(1);
        self.counters.loc_evicted_objects.add(evicted);
    }

    /// Tells the device that the reclaim unit of `region` is dead, where units are reclaimed whole.
    /// Nothing of it is in use: its regions are free or retired, and of the active one nothing is
    /// written before the turn's holder has seen the end of this.
    async fn deallocate_unit_of(&self, turn: &mut Turn, region: u32) {
        let Some(together) = self.place.regions_per_unit else { return };
        let offset = self.offset_of(region - region % together);
        let bytes = u64::from(together) * u64::from(self.place.region_bytes);
        let deallocation = self.device.submit(Io::Deallocate { offset, bytes });
        *turn = Some(Unfinished::Deallocation(deallocation, bytes));
        self.finish(turn).await;
    }

    /// Lists the records of a sealed region. `None` if its footer cannot be read or believed.
    pub(super) async fn read_footer(&self, identity: RegionIdentity) -> Option<Vec<FooterEntry>> {
        let found = self.read_any_footer(identity.region, FOOTER_GUESS_BYTES).await;
        let listed = found.filter(|(sequence, _)| *sequence == identity.sequence);
        if listed.is_none() {
            self.counters.loc_bad_records.add(1);
        }
        Some(listed?.1)
    }

    /// The footer of a region, with the number of the filling that it belongs to. Its length is not
    /// known, or `wanted` is what it announces.
    pub(super) async fn read_any_footer(
        &self,
        region: u32,
        wanted: usize,
    ) -> Option<(u64, Vec<FooterEntry>)> {
        let region_bytes = self.place.region_bytes as usize;
        let end = self.offset_of(region) + u64::from(self.place.region_bytes);
        let mut wanted = wanted.min(region_bytes);
        loop {
            let (buffer, skip) = self.read_span(end - wanted as u64, wanted).await?;
            let tail = &buffer.as_slice()[skip..skip + wanted];
            match footer::announced_bytes(tail, region_bytes) {
                // At most once: the same trailer announces the same length.
                Some(bytes) if bytes > wanted => wanted = bytes,
                _ => return footer::parse_any(tail, region, region_bytes),
            }
        }
    }

    /// Bytes of records and footer that objects saved from a region may take in the next one, which
    /// is opened for an object of this size.
    fn room_to_save(&self, object_bytes: usize) -> usize {
        let region_bytes = self.place.region_bytes as usize;
        let wanted = record::record_bytes_max(object_bytes) + footer::footer_bytes(1);
        (region_bytes / SAVED_PART).min(region_bytes.saturating_sub(wanted))
    }

    /// Reads those objects of a region that have earned to stay, as long as there is `room`. Adds
    /// them to `saved` with their places, and returns how much room is left.
    async fn read_hot(
        &self,
        (identity, listed): (RegionIdentity, &[FooterEntry]),
        mut room: usize,
        now_s: u32,
        saved: &mut Vec<(Location, Fetched)>,
    ) -> usize {
        if self.place.reinsertion_hits == 0 {
            return room;
        }
        let entry_bytes = footer::footer_bytes(1) - footer::footer_bytes(0);
        for entry in listed {
            let hash = KeyHash(entry.hash);
            let location = self.lock().index.get(hash);
            let Some(location) = location.filter(|location| {
                location.region == identity.region
                    && location.offset == entry.offset
                    && location.hits >= self.place.reinsertion_hits
            }) else {
                continue;
            };
            let Some(left) = room.checked_sub(entry.length as usize + UNIT_BYTES + entry_bytes)
            else {
                break;
            };
            match self.read(hash, location, identity).await {
                Some(fetched) if !fetched.item().is_expired(now_s) => {
                    room = left;
                    saved.push((location, fetched));
                }
                _ => {}
            }
        }
        room
    }
}
