//! From a full region to the next one: sealing, choosing, saving what is hot.

use larder_device::Io;

use super::active::{ActiveRegion, bytes_in_region};
use super::footer::{FooterEntry, RegionIdentity};
use super::pieces::Turn;
use super::regions::{Next, RegionState};
use super::saved::Saved;
use super::{Loc, State, append};
use crate::events;
use crate::key::KeyHash;
use crate::removal::RemovalReason;
use crate::tier::Tier;

/// A region that gives way, with its records if its footer could be read.
struct Reclaimed {
    region: u32,
    listed: Option<Vec<FooterEntry>>,
}

impl Loc {
    /// Makes sure that the open region of a shelf has room for an object of this size. `false` if no
    /// region can be had: all are retired.
    pub(super) async fn rotate(&self, shelf: usize, object_bytes: usize, now_s: u32) -> bool {
        let mut turn = self.take_turn().await;
        if self.lock().active.open(shelf).is_some_and(|active| active.has_room_for(object_bytes)) {
            return true; // somebody else's turn made room
        }
        self.close_open(&mut turn, shelf).await;
        self.find_room().await;
        self.open_next(&mut turn, shelf, object_bytes, now_s).await
    }

    /// Closes the open region of a shelf. Its last pieces may still be under way afterwards, but no
    /// more regions than [`Loc::closed_max`].
    async fn close_open(&self, turn: &mut Turn, shelf: usize) {
        if let Some(active) = self.lock().active.open(shelf) {
            active.close();
        }
        self.drain_closed(turn, self.closed_max()).await;
    }

    /// How many closed regions may be in memory while another one is filled. Which regions share a
    /// reclaim unit follows from the order in which they are written: there, none.
    pub(super) fn closed_max(&self) -> usize {
        usize::from(self.place.regions_per_unit.is_none())
    }

    /// Writes the ends of all open regions, whatever is in them.
    pub(super) async fn seal_all(&self, turn: &mut Turn) {
        self.lock().active.iter_mut().for_each(ActiveRegion::close);
        self.drain(turn).await;
    }

    /// What to fill next. Where there is nothing but regions that others fill, those are sealed.
    async fn choose_next(&self, turn: &mut Turn, now_s: u32) -> Option<Next> {
        let together = self.place.regions_per_unit.unwrap_or(1);
        self.give_up_expired(now_s).await;
        let revived = self.lock().regions.revive(self.breaker.now_s());
        self.counters.loc_revived_regions.add(revived);
        events::revived(events::Place::Region, revived);
        let next = self.lock().regions.next(self.place.eviction, together);
        if next.is_some() {
            return next;
        }
        self.seal_all(turn).await;
        self.lock().regions.next(self.place.eviction, together)
    }

    /// Opens a region for a shelf. What is saved from a region that gives way may belong on another
    /// shelf: where that has no room, it gets this region, and the next one is for the first. Each
    /// shelf gets one at most, so that this ends.
    async fn open_next(
        &self,
        turn: &mut Turn,
        shelf: usize,
        object_bytes: usize,
        now_s: u32,
    ) -> bool {
        let mut helped = Vec::new();
        loop {
            let Some(next) = self.choose_next(turn, now_s).await else { return false };
            let mut room = self.room_to_save(object_bytes);
            let mut reclaimed = Vec::with_capacity(next.reclaimed.len());
            let mut saved = Vec::new();
            for identity in next.reclaimed {
                let listed = self.read_footer(identity).await.map(|footer| footer.entries);
                let records = (identity, listed.as_deref().unwrap_or(&[]));
                room = self.read_hot(records, room, now_s, &mut saved).await;
                reclaimed.push(Reclaimed { region: identity.region, listed });
            }
            let in_need =
                self.shelf_in_need(&saved, |other| other == shelf || helped.contains(&other));
            if let Some(other) = in_need {
                self.close_open(turn, other).await;
                helped.push(other);
            }
            let opened = in_need.unwrap_or(shelf);
            let mut regions: Vec<u32> =
                reclaimed.iter().map(|reclaimed| reclaimed.region).collect();
            if reclaimed.is_empty() {
                regions.push(next.region);
            }
            let Ok(sequence) = self.bury_regions(&regions).await else { return false };
            let identity = RegionIdentity { region: next.region, sequence };
            self.replace(identity, opened, &reclaimed, &saved);
            if !reclaimed.is_empty() {
                self.deallocate_reclaimed(turn, next.region).await;
            }
            if opened == shelf {
                // Other regions may have taken in what was saved.
                self.hand_out(turn).await;
                return true;
            }
        }
    }

    /// The first shelf that has no room for what is saved for it.
    fn shelf_in_need(&self, saved: &[Saved], is_served: impl Fn(usize) -> bool) -> Option<usize> {
        let mut state = self.lock();
        (0..self.place.shelves()).filter(|&shelf| !is_served(shelf)).find(|&shelf| {
            let here = saved.iter().filter(|saved| saved.shelf == shelf);
            let needed: usize =
                here.map(|saved| bytes_in_region(saved.fetched.item().object_bytes())).sum();
            needed > state.active.open(shelf).map_or(0, |active| active.room())
        })
    }

    /// Forgets what is in the `reclaimed` regions, begins the `next` filling, and appends what was
    /// saved and is still current: on its own shelf, or where that has no room to the new filling.
    /// One step for everybody else.
    fn replace(
        &self,
        next: RegionIdentity,
        shelf: usize,
        reclaimed: &[Reclaimed],
        saved: &[Saved],
    ) {
        let spare = self.lock().active.take_spare();
        let memory =
            spare.unwrap_or_else(|| self.pool.take(self.place.region_bytes as usize).into());
        let state = &mut *self.lock();
        let current: Vec<&Saved> = saved
            .iter()
            .filter(|saved| {
                state.index.points_to(saved.fetched.hash, saved.at.region, saved.at.offset)
            })
            .collect();
        let mut gone = Vec::new();
        let forgotten: u64 = reclaimed
            .iter()
            .map(|reclaimed| self.empty(state, reclaimed, next.sequence, &mut gone))
            .sum();
        state.regions.activate(next.region, next.sequence);
        state.active.add(ActiveRegion::new(self.place.cache, next, shelf, memory));
        let mut kept = 0;
        for Saved { fetched, shelf: own, .. } in current {
            let item = fetched.item();
            let place = [*own, shelf].into_iter().find(|&shelf| {
                let open = state.active.open(shelf);
                open.is_some_and(|active| active.has_room_for(item.object_bytes()))
            });
            let Some(active) = place.and_then(|shelf| state.active.open(shelf)) else { continue };
            append(active, &mut state.index, &item);
            gone.retain(|entry| entry.hash != item.hash.0);
            kept += 1;
            self.counters.loc_reinserted_bytes.add(item.object_bytes() as u64);
        }
        self.counters.loc_reinserted_objects.add(kept);
        self.counters.loc_evicted_objects.add(forgotten - kept);
        gone.iter().for_each(|entry| self.note(RemovalReason::RegionReclaimed, entry));
    }

    /// Forgets what is in a region and sets it free. Returns how many objects there were; which, only
    /// if somebody wants to know.
    fn empty(
        &self,
        state: &mut State,
        reclaimed: &Reclaimed,
        sequence: u64,
        gone: &mut Vec<FooterEntry>,
    ) -> u64 {
        let Reclaimed { region, listed } = reclaimed;
        state.regions.empty(*region, sequence, RegionState::Free);
        self.counters.loc_reclaimed_regions.add(1);
        match listed {
            Some(entries) => entries
                .iter()
                .filter(|e| state.index.remove_if_at(KeyHash(e.hash), *region, e.offset))
                .inspect(|entry| {
                    if self.counters.removals.wanted() {
                        gone.push(**entry);
                    }
                })
                .count() as u64,
            None => {
                let count = state.index.remove_region(*region);
                let (reason, tier) = (RemovalReason::RegionReclaimed, Tier::LargeObjects);
                self.counters.removals.unknown(reason, tier, count);
                count
            }
        }
    }

    /// Empties a sealed region before its time: the tombstone log is full of its dead.
    pub(crate) async fn give_up_region(&self, region: u32) {
        let _turn = self.take_turn().await;
        let sealed = self.lock().regions.sealed().find(|identity| identity.region == region);
        let Some(identity) = sealed else { return };
        let listed = self.read_footer(identity).await.map(|footer| footer.entries);
        let Ok(sequence) = self.bury_regions(&[region]).await else { return };
        let mut gone = Vec::new();
        let evicted =
            self.empty(&mut self.lock(), &Reclaimed { region, listed }, sequence, &mut gone);
        gone.iter().for_each(|entry| self.note(RemovalReason::RegionReclaimed, entry));
        self.counters.loc_given_up_regions.add(1);
        self.counters.loc_evicted_objects.add(evicted);
    }

    /// Tells the device what is dead with `region`, which gave way: its reclaim unit, where units are
    /// reclaimed whole; itself, where shelves have handles of their own. There regions of one shelf
    /// wait in line among those of others and fill at their own pace: until the last piece of the new
    /// filling is written, the device would keep and copy what is left of the old one. With one
    /// shelf the next pieces overwrite it in the order in which it was written.
    ///
    /// Nothing of it is in use: its regions are free or retired, and of the one that was just opened
    /// nothing is written before the turn's holder has seen the end of this.
    async fn deallocate_reclaimed(&self, turn: &mut Turn, region: u32) {
        let (first, regions) = match self.place.regions_per_unit {
            Some(together) => (region - region % together, together),
            None if self.place.separates_shelves() => (region, 1),
            None => return,
        };
        let bytes = u64::from(regions) * u64::from(self.place.region_bytes);
        let offset = self.offset_of(first);
        let deallocation = self.device.submit(Io::Deallocate { offset, bytes });
        turn.deallocation = Some((deallocation, bytes));
        self.finish_deallocation(turn).await;
    }
}
