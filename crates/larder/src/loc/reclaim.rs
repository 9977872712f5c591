//! From a full region to the next one: sealing, choosing, saving what is hot.

use larder_device::Io;

use super::footer::{self, FooterEntry, RegionIdentity};
use super::regions::{ActiveRegion, RegionState};
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

    /// Writes the active region out, whatever is in it.
    pub(super) async fn seal_active(&self) {
        let Some(mut active) = self.begin_sealing() else { return };
        active.finish();
        let ActiveRegion { identity, buffer, entries, .. } = active;
        let mut unfinished = Retire { loc: self, identity, entries, armed: true };
        let offset = self.offset_of(identity.region);
        self.counters.loc_sealed_regions.add(1);
        self.counters.loc_written_bytes.add(u64::from(self.place.region_bytes));
        let write = Io::Write { offset, buffer, handle: self.place.handle };
        match self.device.submit(write).await {
            Ok(_) => {
                unfinished.armed = false;
                self.lock().regions.set_state(identity.region, RegionState::Sealed);
            }
            Err(failure) => self.counters.device_failed(&failure.error),
        }
    }

    fn begin_sealing(&self) -> Option<ActiveRegion> {
        let mut state = self.lock();
        let active = state.active.take()?;
        state.regions.set_state(active.identity.region, RegionState::Sealing);
        Some(active)
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

/// Retires a region unless its write is known to have ended well, and forgets what was in it: after
/// a failed write, or one whose end nobody waited for, what is on flash is unknown.
struct Retire<'a> {
    loc: &'a Loc,
    identity: RegionIdentity,
    entries: Vec<FooterEntry>,
    armed: bool,
}

impl Drop for Retire<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let region = self.identity.region;
        let mut state = self.loc.lock();
        state.regions.set_state(region, RegionState::Retired);
        let lost = self
            .entries
            .iter()
            .filter(|entry| state.index.remove_if_at(KeyHash(entry.hash), region, entry.offset))
            .count();
        self.loc.counters.lost_to_device_errors_objects.add(lost as u64);
        self.loc.counters.loc_retired_regions.add(1);
    }
}
