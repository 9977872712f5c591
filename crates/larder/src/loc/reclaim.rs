//! From a full region to the next one: sealing, choosing, saving what is hot.

use larder_device::Io;

use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::{Location, UNIT_BYTES};
use super::regions::{ActiveRegion, Piece, RegionState};
use super::{Loc, Turn, Unfinished, append, record};
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
    async fn write(&self, turn: &mut Turn, identity: RegionIdentity, piece: Piece) -> bool {
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
        let (ended, deallocated_bytes) = match turn {
            None => return true,
            Some(Unfinished::Piece(future)) => (future.await, None),
            Some(Unfinished::Deallocation(future, bytes)) => (future.await, Some(*bytes)),
        };
        *turn = None;
        if let Err(failure) = &ended {
            self.counters.device_failed(&failure.error);
        }
        match (deallocated_bytes, &ended) {
            (None, Ok(_)) => self.piece_written(),
            (None, Err(_)) => self.retire_active(),
            (Some(bytes), Ok(_)) => self.counters.loc_deallocated_bytes.add(bytes),
            // The bytes stay until they are overwritten; nobody looks at them any more.
            (Some(_), Err(_)) => {}
        }
        ended.is_ok()
    }

    /// Pieces are written one after another, so a closed region whose piece is written is whole.
    fn piece_written(&self) {
        let state = &mut *self.lock();
        if let Some(active) = state.active.take_if(|active| active.is_closed()) {
            state.regions.set_state(active.identity.region, RegionState::Sealed);
            self.counters.loc_sealed_regions.add(1);
        }
    }

    /// Gives the active region up and forgets what was in it: after a failed write, what is on
    /// flash is unknown.
    fn retire_active(&self) {
        let state = &mut *self.lock();
        let Some(active) = state.active.take() else { return };
        let region = active.identity.region;
        state.regions.set_state(region, RegionState::Retired);
        let current =
            |e: &&FooterEntry| state.index.remove_if_at(KeyHash(e.hash), region, e.offset);
        let lost = active.entries().iter().filter(current).count();
        self.counters.lost_to_device_errors_objects.add(lost as u64);
        self.counters.loc_retired_regions.add(1);
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
        self.replace(next.region, &reclaimed, &saved);
        if !reclaimed.is_empty() {
            self.deallocate_unit_of(turn, next.region).await;
        }
        true
    }

    /// Forgets what is in the `reclaimed` regions, activates `region`, and appends what was saved
    /// and is still current. One step for everybody else.
    fn replace(&self, region: u32, reclaimed: &[Reclaimed], saved: &[(Location, Fetched)]) {
        let buffer = self.pool.take(self.place.region_bytes as usize);
        let state = &mut *self.lock();
        let current: Vec<ItemRef<'_>> = saved
            .iter()
            .filter(|(at, saved)| state.index.points_to(saved.hash, at.region, at.offset))
            .map(|(_, saved)| saved.item())
            .collect();
        let mut forgotten = 0;
        for Reclaimed { region, listed } in reclaimed {
            forgotten += match listed {
                Some(entries) => entries
                    .iter()
                    .filter(|e| state.index.remove_if_at(KeyHash(e.hash), *region, e.offset))
                    .count() as u64,
                None => state.index.remove_region(*region),
            };
            state.regions.set_state(*region, RegionState::Free);
            self.counters.loc_reclaimed_regions.add(1);
        }
        let sequence = state.regions.activate(region);
        let active =
            state.active.insert(ActiveRegion::new(RegionIdentity { region, sequence }, buffer));
        for item in &current {
            append(active, &mut state.index, item);
            self.counters.loc_reinserted_bytes.add(item.object_bytes() as u64);
        }
        self.counters.loc_reinserted_objects.add(current.len() as u64);
        self.counters.loc_evicted_objects.add(forgotten - current.len() as u64);
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
        let region_bytes = self.place.region_bytes as usize;
        let end = self.offset_of(identity.region) + u64::from(self.place.region_bytes);
        let mut wanted = FOOTER_GUESS_BYTES.min(region_bytes);
        loop {
            let (buffer, skip) = self.read_span(end - wanted as u64, wanted).await?;
            let tail = &buffer.as_slice()[skip..skip + wanted];
            let announced = footer::announced_bytes(tail, region_bytes);
            let parsed = match announced {
                Some(bytes) if bytes > wanted => {
                    wanted = bytes;
                    continue; // at most once: the same trailer announces the same length
                }
                _ => footer::parse(tail, identity, region_bytes),
            };
            if parsed.is_none() {
                self.counters.loc_bad_records.add(1);
            }
            return parsed;
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
