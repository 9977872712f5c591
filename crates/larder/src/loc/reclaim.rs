//! From a full region to the next one: sealing, choosing, saving what is hot.

use larder_device::Io;

use super::footer::{self, FooterEntry, RegionIdentity};
use super::regions::{ActiveRegion, Piece, RegionState};
use super::{Loc, append};
use crate::key::KeyHash;
use crate::value::Item;

/// At most this part of a region is filled with objects saved from the region that it replaces: a
/// set must not start a chain of reclaims that ends only when nothing is hot any more.
const SAVED_PART: usize = 2;

/// How long a tail to read at first when looking for a footer.
const FOOTER_GUESS_BYTES: usize = 4096;

impl Loc {
    /// Makes sure that the active region has room for an object of this size. `false` if no region
    /// can be had: all are retired.
    pub(super) async fn rotate(&self, object_bytes: usize) -> bool {
        let _turn = self.turn.lock().await;
        if self.lock().active.as_ref().is_some_and(|active| active.has_room_for(object_bytes)) {
            return true; // somebody else's turn made room
        }
        self.seal_active().await;
        self.open_next().await
    }

    /// Writes what has come together of the active region. Says whether the object of `hash`, just
    /// appended, is still stored: a failed write takes its region with it.
    pub(super) async fn write_pieces(&self, hash: KeyHash) -> bool {
        let _turn = self.turn.lock().await;
        while let Some((identity, piece)) = self.next_piece() {
            if !self.write(identity, piece).await {
                break;
            }
        }
        self.holds(hash)
    }

    fn next_piece(&self) -> Option<(RegionIdentity, Piece)> {
        let mut state = self.lock();
        let active = state.active.as_mut()?;
        let piece = active.next_piece(self.place.piece_bytes as usize, &self.pool)?;
        Some((active.identity, piece))
    }

    /// Writes the end of the active region, whatever is in it. The caller has the turn.
    pub(super) async fn seal_active(&self) {
        let Some((identity, piece)) = self.close_active() else { return };
        if self.write(identity, piece).await {
            let mut state = self.lock();
            state.regions.set_state(identity.region, RegionState::Sealed);
            state.active = None;
            self.counters.loc_sealed_regions.add(1);
        }
    }

    fn close_active(&self) -> Option<(RegionIdentity, Piece)> {
        let mut state = self.lock();
        let active = state.active.as_mut()?;
        Some((active.identity, active.close(&self.pool)))
    }

    /// Writes a piece of the active region. If that fails the region is retired.
    async fn write(&self, identity: RegionIdentity, piece: Piece) -> bool {
        let mut unfinished = Retire { loc: self, armed: true };
        self.counters.loc_written_bytes.add(piece.buffer.len() as u64);
        let write = Io::Write {
            offset: self.offset_of(identity.region) + piece.offset,
            buffer: piece.buffer,
            handle: self.place.handle,
        };
        match self.device.submit(write).await {
            Ok(_) => {
                unfinished.armed = false;
                true
            }
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                false
            }
        }
    }

    async fn open_next(&self) -> bool {
        let (region, reclaimed) = {
            let state = self.lock();
            let Some(region) = state.regions.next(self.place.eviction) else { return false };
            let before = state.regions.get(region);
            let identity = RegionIdentity { region, sequence: before.sequence };
            (region, (before.state == RegionState::Sealed).then_some(identity))
        };
        let mut listed = Some(Vec::new());
        let mut saved = Vec::new();
        if let Some(identity) = reclaimed {
            self.counters.loc_reclaimed_regions.add(1);
            listed = self.read_footer(identity).await;
            saved = self.read_hot(identity, listed.as_deref().unwrap_or(&[])).await;
        }
        self.replace(region, listed.as_deref(), &saved);
        true
    }

    /// Forgets what is in `region`, activates it, and appends what was saved and is still current.
    /// One step for everybody else.
    fn replace(&self, region: u32, listed: Option<&[FooterEntry]>, saved: &[(u32, Item)]) {
        let buffer = self.pool.take(self.place.region_bytes as usize);
        let state = &mut *self.lock();
        let current: Vec<&Item> = saved
            .iter()
            .filter(|(offset, item)| state.index.points_to(item.hash, region, *offset))
            .map(|(_, item)| item)
            .collect();
        let forgotten = match listed {
            Some(entries) => entries
                .iter()
                .filter(|e| state.index.remove_if_at(KeyHash(e.hash), region, e.offset))
                .count() as u64,
            None => state.index.remove_region(region),
        };
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

    /// Reads those objects of a region that have earned to stay, with their offsets.
    async fn read_hot(&self, identity: RegionIdentity, listed: &[FooterEntry]) -> Vec<(u32, Item)> {
        let mut saved = Vec::new();
        if self.place.reinsertion_hits == 0 {
            return saved;
        }
        let mut room = self.place.region_bytes as usize / SAVED_PART;
        for entry in listed {
            let hash = KeyHash(entry.hash);
            let location = self.lock().index.get(hash).copied();
            let Some(location) = location.filter(|location| {
                location.region == identity.region
                    && location.offset == entry.offset
                    && location.hits >= self.place.reinsertion_hits
            }) else {
                continue;
            };
            // The footer's share of the room is small beside the half that stays free.
            let Some(left) = room.checked_sub(location.length as usize) else { break };
            room = left;
            if let Some(item) = self.read(hash, location, identity).await {
                saved.push((location.offset, item));
            }
        }
        saved
    }
}

/// Retires the active region unless its write is known to have ended well, and forgets what was in
/// it: after a failed write, or one whose end nobody waited for, what is on flash is unknown.
struct Retire<'a> {
    loc: &'a Loc,
    armed: bool,
}

impl Drop for Retire<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let state = &mut *self.loc.lock();
        let Some(active) = state.active.take() else { return };
        let region = active.identity.region;
        state.regions.set_state(region, RegionState::Retired);
        let lost = active
            .entries()
            .iter()
            .filter(|entry| state.index.remove_if_at(KeyHash(entry.hash), region, entry.offset))
            .count();
        self.loc.counters.lost_to_device_errors_objects.add(lost as u64);
        self.loc.counters.loc_retired_regions.add(1);
    }
}
