//! From an item to a page of its set, and from a full page to a region.

use larder_log::{FooterEntry, Kept, RecordForm, RegionIdentity, RegionState, Rescue};

use super::page::{BODY_BYTES, OpenPage, PAGE_BYTES, SLOTS_MAX};
use super::set::{PagePlace, SlotPlace};
use super::{Page, Pages, State, item_of};
use crate::base::item::{FlashItem, ItemRef, is_expired};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::small_record;

/// Objects that ride along take at most this part of a page, in tenths.
const RIDING_TENTHS: usize = 3;
/// Hit objects of the oldest `1 / LEAVE_SOON_PART` of the regions ride along. A set has 24 pages or more, so almost
/// always one of its pages is full while the oldest is in that part.
const LEAVE_SOON_PART: usize = 10;
/// Most pages whose objects ride along with one page.
const PAGES_AT_ONCE: usize = 4;

/// Result of an attempt to give a waiting page its place.
enum Placed {
    /// The page has its place. `piece_is_due`: enough data has been collected for a write.
    Yes { piece_is_due: bool },
    /// No page of the set waits.
    NoneWaits,
    /// The open region has no room for the page with this number of slots.
    Full { slots: usize },
}

/// What became of an object with hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Riding {
    /// It is in the page in memory too.
    Rode,
    /// There is no use in it: a newer version exists, or it is over.
    Stays,
    NoRoom,
}

/// Keeps nothing of a region that is reclaimed: what was hit has left it before.
struct KeepsNothing;

impl Rescue for KeepsNothing {
    type Record = FlashItem;

    async fn rescue(
        &self,
        _filling: RegionIdentity,
        _listed: &[FooterEntry],
        room: usize,
        _kept: &mut Vec<Kept<FlashItem>>,
    ) -> usize {
        room
    }
}

impl Pages {
    /// Stores `item` in place of an older version. Returns whether it is stored; if not, no version of the key is
    /// stored.
    pub(super) async fn put(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let set = self.set_number(item.hash);
        let record_bytes = small_record::record_bytes(item);
        // With tombstones, the request that set the item has voided older versions. Without, they would be found if the
        // new page were lost.
        let forgets_older = self.tombstones().is_none();
        loop {
            let pushed = self.sets.change(set, |it| {
                let is_new = self.absent.is_absent(item.hash);
                self.absent.forget(item.hash);
                it.remove_in_memory(item.hash, Some(item.key));
                if forgets_older && !is_new {
                    it.clear_all(item.hash);
                }
                if it.waiting().is_some() {
                    return false;
                }
                match it.open_with_room(record_bytes, || first_full_bytes(set)) {
                    Some(page) => {
                        page.push(item);
                        true
                    }
                    None => {
                        it.close_open();
                        false
                    }
                }
            });
            if pushed {
                return true;
            }
            if !self.place_waiting(set, record_bytes, now_s).await {
                break;
            }
        }
        self.counters().lost_to_device_errors_objects.add(1);
        let bytes = item.object_bytes();
        self.counters().removals.key(RemovalReason::Lost, Tier::SmallObjects, item.key, bytes);
        if self.tombstones().is_none() {
            self.forget_hash(item.hash);
        }
        false
    }

    /// Gives all waiting pages of a set their places. The next page keeps room for a record of `wanted_bytes`. `false`
    /// if no region is available: all are retired. Then their objects are lost.
    async fn place_waiting(&self, set: u32, wanted_bytes: usize, now_s: u32) -> bool {
        loop {
            match self.try_to_place(set) {
                Placed::NoneWaits => return true,
                Placed::Yes { piece_is_due } => {
                    if piece_is_due {
                        self.log.write_what_is_due().await;
                    }
                    let most = (BODY_BYTES * RIDING_TENTHS / 10).min(BODY_BYTES - wanted_bytes);
                    self.take_along(set, most, now_s).await;
                }
                Placed::Full { slots } if self.next_region(slots, now_s).await => {}
                Placed::Full { .. } => {
                    self.lose_waiting(set);
                    return false;
                }
            }
        }
    }

    fn try_to_place(&self, set: u32) -> Placed {
        let state = &mut *self.log.lock();
        self.sets.change(set, |it| {
            let Some(page) = it.waiting() else { return Placed::NoneWaits };
            let slots = page.len();
            if slots == 0 {
                it.pop_waiting(); // all of it has been changed meanwhile
                return Placed::Yes { piece_is_due: false };
            }
            if !has_room(state, slots) {
                return Placed::Full { slots };
            }
            let fingerprints = page.fingerprints();
            let region = page.as_record(set, |new| {
                let place = state.active.next_place(0, new).expect("a region is open");
                state.append_indexed(0, new, place);
                (place.0, place.1)
            });
            state.entries.directory.push(&fingerprints);
            self.counters().soc_page_writes.add(1);
            it.push_page(self.geometry.place(region.0, region.1), &fingerprints);
            it.pop_waiting();
            Placed::Yes { piece_is_due: state.active.is_due(region.0) }
        })
    }

    /// Makes sure that the open region has room for a page with this number of slots. `false` if no region is
    /// available.
    async fn next_region(&self, slots: usize, now_s: u32) -> bool {
        let mut writer = self.log.writer().await;
        if has_room(&mut self.log.lock(), slots) {
            return true; // an earlier holder of the writer made room
        }
        self.end_region();
        self.log.close_open(&mut writer, 0).await;
        if !self.log.open_next(&mut writer, (0, BODY_BYTES), now_s, &KeepsNothing).await {
            return false;
        }
        self.note_what_leaves_soon();
        true
    }

    /// Appends the directory to the open region, which takes no more pages.
    pub(super) fn end_region(&self) {
        let state = &mut *self.log.lock();
        let Some(active) = state.active.open(0) else { return };
        state.entries.ended = Some(active.identity());
        let directory = std::mem::take(&mut state.entries.directory);
        if directory.is_empty() {
            return;
        }
        let new = directory.as_record();
        if let Some(place) = state.active.next_place(0, &new) {
            state.append_indexed(0, &new, place);
        }
    }

    /// Finds the regions that are reclaimed during the next tenth of a round.
    fn note_what_leaves_soon(&self) {
        let state = &mut *self.log.lock();
        let soon = (self.place.log.regions as usize).div_ceil(LEAVE_SOON_PART);
        // Free regions are filled first.
        let free = state.regions.in_state(RegionState::Free).len();
        let mut sealed: Vec<u64> = state.regions.sealed().map(|it| it.sequence).collect();
        sealed.sort_unstable();
        let leave = soon.saturating_sub(free).min(sealed.len());
        let stays = sealed.get(leave).copied().unwrap_or(u64::MAX);
        state.entries.leave_soon = if leave > 0 { stays } else { 0 };
    }

    /// Copies objects with hits from pages that will soon be reclaimed to the set's page in memory, oldest first, until
    /// it has `most` bytes. Call it when the page in memory is new.
    async fn take_along(&self, set: u32, most: usize, now_s: u32) {
        let leave_soon: Vec<PagePlace> = {
            let state = self.log.lock();
            let soon = state.entries.leave_soon;
            let leaves =
                |place: &PagePlace| state.filling(self.geometry.region(*place)).sequence < soon;
            self.sets.look(set, |set| {
                set.pages_with_hits().take_while(leaves).take(PAGES_AT_ONCE).collect()
            })
        };
        for place in leave_soon {
            let Some((page, _)) = self.read_page(set, place).await else { continue };
            let slots = self.sets.look(set, |set| set.hits_of(place));
            let is_full = slots.into_iter().any(|slot| {
                let at = SlotPlace { page: place, slot };
                let rode = self.take_object_along(set, most, (&page, at), now_s);
                rode == Riding::NoRoom
            });
            if is_full {
                return;
            }
            self.sets.change(set, |set| set.forget_hits(place));
        }
    }

    fn take_object_along(
        &self,
        set: u32,
        most: usize,
        (page, at): (&Page, SlotPlace),
        now_s: u32,
    ) -> Riding {
        let Some(record) = page.record(at.slot) else { return Riding::Stays };
        let hash = self.place.hasher.hash(record.key);
        let item = item_of(hash, &record);
        let record_bytes = small_record::record_bytes(&item);
        if is_expired(item.expiry_s, now_s) {
            return Riding::Stays;
        }
        let rode = self.sets.change(set, |it| {
            // The newest of the key, and not gone since it was read.
            if it.holds_in_memory(hash) || it.candidates(hash).first() != Some(&at) {
                return Riding::Stays;
            }
            let has_room = |page: &&mut OpenPage| page.used_bytes() + record_bytes <= most;
            let waits = it.waiting().is_some();
            let open = it.open_with_room(record_bytes, || BODY_BYTES);
            let Some(page) = open.filter(|page| !waits && has_room(page)) else {
                return Riding::NoRoom;
            };
            page.push(&item);
            Riding::Rode
        });
        if rode == Riding::Rode {
            self.counters().soc_carried_objects.add(1);
            self.counters().soc_carried_bytes.add(item.object_bytes() as u64);
        }
        rode
    }

    fn lose_waiting(&self, set: u32) {
        self.sets.change(set, |it| {
            while let Some(page) = it.waiting() {
                self.counters().lost_to_device_errors_objects.add(page.len() as u64);
                for (_, record) in page.objects() {
                    let bytes = record.key.len() + record.value.len();
                    let (reason, tier) = (RemovalReason::Lost, Tier::SmallObjects);
                    self.counters().removals.key(reason, tier, record.key, bytes);
                }
                it.pop_waiting();
            }
        });
    }

    /// Appends the pages in memory to regions, full or not.
    pub(super) async fn place_all(&self, now_s: u32) {
        for set in 0..self.sets.count() {
            let waits = self.sets.change(set, |it| {
                it.close_open();
                it.waiting().is_some()
            });
            if waits {
                self.place_waiting(set, 0, now_s).await;
            }
        }
    }
}

/// Whether the open region has room for a page with this number of slots, and for the directory with it.
fn has_room(state: &mut State, slots: usize) -> bool {
    debug_assert!(slots <= SLOTS_MAX, "a page has few slots");
    let ended = state.entries.ended;
    let directory_bytes = state.entries.directory.object_bytes_with(slots);
    let form = RecordForm::PLAIN;
    let needed = form.bytes_in_region(PAGE_BYTES) + form.bytes_in_region(directory_bytes);
    state
        .active
        .open(0)
        .is_some_and(|active| Some(active.identity()) != ended && active.room() >= needed)
}

/// How many bytes the first page of a set takes: from a part to all of a page, in a fixed order without a pattern. So
/// the pages of all sets are full at different times, and memory for pages is half of what it would be.
fn first_full_bytes(set: u32) -> usize {
    let part = u64::from(set.wrapping_mul(0x9e37_79b9)) * BODY_BYTES as u64;
    usize::try_from(part >> 32).unwrap_or(BODY_BYTES)
}
