//! The change from a full region to the next one: closes a region, chooses the next, keeps the hot records.
//!
//! # Regions that are given up whole
//! The log gives up a region without reading its footer if all its records have expired. The index still has entries
//! that point into the region, and the log does not know them: an entry names a place, not a filling. If the region
//! were filled again at once, an entry of the old filling might point to a record of the new one. So the region is
//! Expired first, and all entries that point into it count as absent. It becomes Free when the index has been swept,
//! part by part: no new entry points into an Expired region, so a part that was swept stays clean. One sweep serves all
//! regions that were Expired when it began.

use larder_device::Io;

use super::{LogState, RegionLog};
use crate::footer::FooterEntry;
use crate::host::{AsRecord, Entries, Event, Host, Kept, Rescue};
use crate::in_flight::Writer;
use crate::region::{RegionId, RegionIdentity, RegionState};
use crate::regions::Next;
use crate::sweep::PARTS_AT_ONCE;

/// At most `1 / KEPT_PART` of a region is filled with records kept from the region, or from all regions of the unit,
/// that it replaces. Otherwise an append could start a chain of reclaims that ends only when no record is hot any more.
/// For the same reason the object that asks for room comes before the kept records.
const KEPT_PART: usize = 2;

/// Each opening of a region sweeps `1 / PARTS_OF_A_SWEEP` of the index, if there is something to sweep.
const PARTS_OF_A_SWEEP: usize = 8;

/// A region that is reclaimed, with its records if its footer could be read.
struct ReclaimedRegion {
    region: RegionId,
    listed: Option<Vec<FooterEntry>>,
}

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Whether the open region of a stream has room for an object of this size.
    pub fn has_room_for(&self, stream: usize, object_bytes: usize) -> bool {
        self.lock().active.open(stream).is_some_and(|active| active.has_room_for(object_bytes))
    }

    /// Closes the open region of a stream. On return the last pieces of at most [`RegionLog::closed_max`] closed
    /// regions are still under way.
    pub async fn close_open(&self, writer: &mut Writer, stream: usize) {
        if let Some(active) = self.lock().active.open(stream) {
            active.close();
        }
        self.drain_closed(writer, self.closed_max()).await;
    }

    /// How many closed regions may wait for their ends to be on flash while another one is filled. With reclaim units
    /// there is none: which regions share a unit follows from the order in which they are written.
    pub fn closed_max(&self) -> usize {
        usize::from(self.place.regions_per_unit.is_none())
    }

    /// How many regions are reclaimed together.
    fn together(&self) -> u32 {
        self.place.regions_per_unit.unwrap_or(1)
    }

    /// Whether there is a region to fill: a free one, or one that can give way.
    pub fn has_next(&self) -> bool {
        self.lock().regions.next(self.place.eviction, self.together()).is_some()
    }

    /// The fillings that are reclaimed when the next region is opened, as far as that is known now. Empty if a region
    /// is free.
    pub fn next_reclaimed(&self) -> Vec<RegionIdentity> {
        let next = self.lock().regions.next(self.place.eviction, self.together());
        next.map(|next| next.reclaimed).unwrap_or_default()
    }

    /// Chooses the next region to fill. If all regions are being filled, seals them first.
    async fn choose_next(&self, writer: &mut Writer, now_s: u32) -> Option<Next> {
        self.give_up_expired(now_s).await;
        let revived = self.lock().regions.revive(self.host.now_s());
        self.host.note(Event::Revived(revived));
        let next = self.lock().regions.next(self.place.eviction, self.together());
        if next.is_some() {
            return next;
        }
        self.seal_all(writer).await;
        self.lock().regions.next(self.place.eviction, self.together())
    }

    /// Opens a region for a stream whose open region was closed. A record that is kept from a reclaimed region may
    /// belong to another stream: if that stream has no room, it gets this region, and the next region is for the first
    /// stream. Each other stream gets at most one, so this ends. `false` if there is no region to open: all are
    /// retired, or the host cannot store what is dead.
    pub async fn open_next(
        &self,
        writer: &mut Writer,
        (stream, object_bytes): (usize, usize),
        now_s: u32,
        rescue: &impl Rescue,
    ) -> bool {
        let mut helped = Vec::new();
        loop {
            let Some(next) = self.choose_next(writer, now_s).await else { return false };
            let mut room = self.room_to_keep(object_bytes);
            let mut reclaimed = Vec::with_capacity(next.reclaimed.len());
            let mut kept = Vec::new();
            for identity in next.reclaimed {
                let listed = self.read_footer(identity).await.map(|footer| footer.entries);
                let records = listed.as_deref().unwrap_or(&[]);
                room = rescue.rescue(identity, records, room, &mut kept).await;
                reclaimed.push(ReclaimedRegion { region: identity.region, listed });
            }
            let served = |other: usize| other == stream || helped.contains(&other);
            let in_need = self.stream_in_need(&kept, served);
            if let Some(other) = in_need {
                self.close_open(writer, other).await;
                helped.push(other);
            }
            let opened = in_need.unwrap_or(stream);
            let mut regions: Vec<RegionId> = reclaimed.iter().map(|it| it.region).collect();
            if reclaimed.is_empty() {
                regions.push(next.region);
            }
            // This comes before any write of the new filling: a crash must not leave both fillings valid.
            let Ok(sequence) = self.void_regions(&regions).await else { return false };
            let identity = RegionIdentity { region: next.region, sequence };
            self.replace((identity, opened), &reclaimed, &kept);
            if !reclaimed.is_empty() {
                self.deallocate_reclaimed(writer, next.region).await;
            }
            if opened == stream {
                // Kept records may have gone to other regions, which now have pieces to write.
                self.send_pieces(writer).await;
                return true;
            }
        }
    }

    /// Bytes of records and footer that kept records may take in the next region, which is opened for an object of this
    /// size.
    fn room_to_keep(&self, object_bytes: usize) -> usize {
        let region_bytes = self.region_bytes();
        let form = self.place.form;
        let wanted = form.bytes_in_region(object_bytes) + form.footer_bytes(0);
        (region_bytes / KEPT_PART).min(region_bytes.saturating_sub(wanted))
    }

    /// The first stream that has no room for the records kept for it.
    fn stream_in_need<R: AsRecord>(
        &self,
        kept: &[Kept<R>],
        is_served: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut state = self.lock();
        (0..self.place.streams.len()).filter(|&stream| !is_served(stream)).find(|&stream| {
            let here = kept.iter().filter(|kept| kept.stream == stream);
            let form = self.place.form;
            let bytes =
                here.map(|kept| form.bytes_in_region(kept.record.as_record().object_bytes()));
            bytes.sum::<usize>() > state.active.open(stream).map_or(0, |active| active.room())
        })
    }

    /// Forgets the content of the `reclaimed` regions, begins the next filling, and appends the kept records that are
    /// still current: each to its own stream, or to the new filling if its stream has no room. Other tasks see all this
    /// as one step.
    fn replace<R: AsRecord>(
        &self,
        (next, stream): (RegionIdentity, usize),
        reclaimed: &[ReclaimedRegion],
        kept: &[Kept<R>],
    ) {
        let state = &mut *self.lock();
        let is_current = |kept: &&Kept<R>| {
            let hash = kept.record.as_record().hash;
            state.entries.points_to(kept.stream, hash, kept.region, kept.offset)
        };
        let current: Vec<&Kept<R>> = kept.iter().filter(is_current).collect();
        let mut gone = Vec::new();
        let emptied = reclaimed.iter().map(|it| self.empty(state, it, next.sequence, &mut gone));
        let forgotten: u64 = emptied.sum();
        self.begin(state, next, stream);
        let mut stayed = 0;
        for Kept { record, stream: own, .. } in current {
            let record = record.as_record();
            let place = [*own, stream].into_iter().find(|&stream| {
                let open = state.active.open(stream);
                open.is_some_and(|active| active.has_room_for(record.object_bytes()))
            });
            let Some(place) = place else { continue };
            state.append(place, &record);
            gone.retain(|entry: &FooterEntry| entry.hash != record.hash);
            stayed += 1;
            self.host.note(Event::Reinserted(record.object_bytes() as u64));
        }
        self.host.note(Event::Evicted { records: forgotten - stayed, listed: &gone });
    }

    /// Forgets the content of a region and sets it free. Returns the number of its records that were current, and adds
    /// them to `gone` if the host wants them.
    fn empty(
        &self,
        state: &mut LogState<E>,
        reclaimed: &ReclaimedRegion,
        sequence: u64,
        gone: &mut Vec<FooterEntry>,
    ) -> u64 {
        let ReclaimedRegion { region, listed } = reclaimed;
        let stream = state.regions.get(*region).stream();
        state.regions.empty(*region, sequence, RegionState::Free);
        self.host.note(Event::Reclaimed);
        let entries = &mut state.entries;
        let Some(listed) = listed else {
            let records = entries.remove_region(*region);
            self.host.note(Event::ReclaimedUnlisted(records));
            return records;
        };
        let wants_removals = self.host.wants_removals();
        let is_current = |e: &&FooterEntry| entries.remove_if_at(stream, e.hash, *region, e.offset);
        let current = listed.iter().filter(is_current);
        let named = current.inspect(|entry| {
            if wants_removals {
                gone.push(**entry);
            }
        });
        named.count() as u64
    }

    /// Empties a sealed region before its turn. Returns whether the region was sealed and is now empty.
    pub async fn give_up_region(&self, region: RegionId) -> bool {
        let _writer = self.writer().await;
        let sealed = self.lock().regions.sealed().find(|identity| identity.region == region);
        let Some(identity) = sealed else { return false };
        let listed = self.read_footer(identity).await.map(|footer| footer.entries);
        let Ok(sequence) = self.void_regions(&[region]).await else { return false };
        let mut gone = Vec::new();
        let reclaimed = ReclaimedRegion { region, listed };
        let records = self.empty(&mut self.lock(), &reclaimed, sequence, &mut gone);
        self.host.note(Event::Evicted { records, listed: &gone });
        true
    }

    /// Gives up the regions all of whose records have expired. The caller must hold the writer.
    async fn give_up_expired(&self, now_s: u32) {
        // Reclaim units are only reclaimed whole.
        if self.place.regions_per_unit.is_some() {
            return;
        }
        let regions = self.lock().regions.expired(now_s);
        if !regions.is_empty()
            && let Ok(sequence) = self.void_regions(&regions).await
        {
            let mut state = self.lock();
            for &region in &regions {
                state.regions.empty(region, sequence, RegionState::Expired);
            }
            self.host.note(Event::ExpiredRegions(regions.len() as u64));
        }
        self.sweep_on();
    }

    /// Sweeps a share of the index; if no region is Free, goes on until one is.
    fn sweep_on(&self) {
        let parts = self.lock().entries.parts();
        let mut swept = 0;
        loop {
            let state = &mut *self.lock();
            let is_urgent = state.regions.in_state(RegionState::Free).is_empty();
            if !is_urgent && swept >= parts.div_ceil(PARTS_OF_A_SWEEP) {
                return;
            }
            let LogState { entries, regions, sweep, .. } = state;
            let Some(forgotten) = sweep.step(entries, regions) else { return };
            self.host.note(Event::ExpiredRecords(forgotten));
            swept += PARTS_AT_ONCE;
        }
    }

    /// Deallocates the dead bytes around `region`, which was reclaimed. If regions are reclaimed by units, these bytes
    /// are its unit. If streams have different placement handles, they are the region itself: the regions of one stream
    /// lie among those of others in the order of reclaim, and fill at their own pace. Until the last piece of the new
    /// filling is written, the device would keep and copy what is left of the old one. If all streams have the same
    /// handle, nothing is deallocated: the next pieces overwrite the old filling in the order in which it was written.
    ///
    /// None of these bytes is in use: the regions are free or retired, and no piece of the region that was just opened
    /// is written before this has ended, because the caller holds the writer.
    async fn deallocate_reclaimed(&self, writer: &mut Writer, region: RegionId) {
        let (first, regions) = match self.place.regions_per_unit {
            Some(together) => (region.number() - region.number() % together, together),
            None if self.separates_streams() => (region.number(), 1),
            None => return,
        };
        let bytes = u64::from(regions) * u64::from(self.place.region_bytes);
        let offset = self.offset_of(RegionId::new(first));
        let deallocation = self.device.submit(Io::Deallocate { offset, bytes });
        writer.deallocation = Some((deallocation, bytes));
        self.finish_deallocation(writer).await;
    }

    /// Whether the log asks the device to keep streams apart.
    fn separates_streams(&self) -> bool {
        let mut handles = self.place.streams.iter().map(|stream| stream.handle);
        let first = handles.next();
        handles.any(|handle| Some(handle) != first)
    }
}
