//! The small-object engine in its layout of pages by set: each small object is written once, in a page of its set that
//! is full.
//!
//! A key's hash selects its set. A set has a page in memory, which takes what DRAM evicts. When it is full, it is
//! appended to a log of regions (`larder-log`), and never changed. Regions are reclaimed in the order in which they
//! were written, whole. So nothing is rewritten, and to the drive this is a sequential stream that overwrites itself in
//! order.
//!
//! ```text
//!   set ──► page of its set in memory ──full──► open region ──► sealed regions, oldest first ──► reclaimed
//!                     ▲                                              │ oldest tenth
//!                     └────────── objects with hits, up to 3/10 ◄────┘
//! ```
//!
//! DRAM knows where each page lies and a fingerprint of each object. So a look-up reads one page, and most misses none.
//! The price is 20 to 28 bits of DRAM an object, where buckets take 8.
//!
//! 1. A key's newest object is in memory, or in the newest of the pages that have it.
//! 2. What the index forgets while its page is on flash has a durable tombstone of its place: region, page and slot.
//!    Reclaiming a region voids all of it first.
//! 3. An object that rides along is in two pages with the same version. A change of its key voids both.
//! 4. A region ends with a directory of its fingerprints. After a crash, a region without one has its pages read.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | look-ups and invalidations |
//! | `write` | from an item to a page, and from a page to a region |
//! | `engine` | the implementation of [`Engine`](super::Engine) |
//! | `page` | a page: in memory, and its bytes |
//! | `set`, `sets` | what DRAM knows of a set, and of all sets |
//! | `absent` | keys that were just looked for in vain |
//! | `directory` | the list of fingerprints at the end of a region |
//! | `host` | what the log asks of the engine |
//! | `recovery`, `snapshot` | takes over what a crash or a shutdown has left |

mod absent;
mod directory;
mod engine;
mod host;
mod page;
mod recovery;
mod set;
mod sets;
mod snapshot;
mod write;

use std::collections::HashSet;
use std::sync::Arc;

use larder_device::{Device, IoBuffer};
use larder_log::{
    LogPlace, LogState, RecordIdentity, RegionIdentity, RegionLog, RegionState, record,
};

use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef, Kind, is_expired};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::Judge;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::region_tombstones::RegionTombstones;
use crate::engine::small_record::SmallRecord;
use crate::engine::tombstones::{Inheritance, Receipt, Tombstones};
use crate::observe::stats::Counters;
use absent::AbsentKeys;
use host::LogHost;
use page::{BODY_AT, records, set_of};
pub(crate) use page::{OBJECT_BYTES_MAX, PAGE_BYTES};
use set::{PagePlace, SlotPlace};
use sets::{Geometry, PageEntries, PageSets};
pub(crate) use snapshot::snapshot_bytes_max;

/// Where the engine's data lies, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagesPlace {
    /// Location and settings of its regions, with one stream.
    pub(crate) log: LogPlace,
    pub(crate) sets: u32,
    /// Longest object (key and value) that it takes; up to [`OBJECT_BYTES_MAX`].
    pub(crate) object_bytes_max: usize,
    /// Hashes keys to sets.
    pub(crate) hasher: KeyHasher,
    /// Oldest valid sequence number of a filling.
    pub(crate) oldest_sequence: u64,
    /// Number of the first region among the regions of all engines.
    pub(crate) first_region_number: u32,
}

pub(crate) struct Pages {
    log: PageLog,
    sets: Arc<PageSets>,
    absent: AbsentKeys,
    geometry: Geometry,
    place: PagesPlace,
    /// What the tombstone log says of the time before a crash, until it was taken over.
    inheritance: Option<Arc<Inheritance>>,
}

type State = LogState<PageEntries>;

type PageLog = RegionLog<PageEntries, LogHost>;

/// A page that was read and passed its checks.
struct Page {
    buffer: IoBuffer,
    /// Where its objects begin in the buffer.
    body_at: usize,
}

impl Page {
    fn record(&self, slot: u8) -> Option<SmallRecord<'_>> {
        records(self.buffer.as_slice(), self.body_at).nth(usize::from(slot))
    }
}

impl Pages {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: PagesPlace,
        tombstones: Option<Arc<Tombstones>>,
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        assert!(place.object_bytes_max <= OBJECT_BYTES_MAX, "what it takes fits a page");
        assert!(place.sets > 0 && place.log.streams.len() == 1, "{place:?}");
        let geometry = Geometry::of_region(place.log.region_bytes);
        let sets = Arc::new(PageSets::new(place.sets, geometry));
        let regions = RegionTombstones { tombstones, breaker, first: place.first_region_number };
        let host = LogHost { regions, sets: Arc::clone(&sets), counters };
        let log = RegionLog::new(device, place.log.clone(), PageEntries::of(&sets), host);
        Self { log, sets, absent: AbsentKeys::none(), geometry, place, inheritance: None }
    }

    fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.log.host().tombstones()
    }

    fn counters(&self) -> &Counters {
        &self.log.host().counters
    }

    fn set_number(&self, hash: KeyHash) -> u32 {
        self.sets.number_of(hash)
    }

    /// Whether an object of this hash may be stored. Costs no I/O. "No" is certain; "yes" is wrong for one key in
    /// 65,536 for each object of the set.
    fn holds_hash(&self, hash: KeyHash) -> bool {
        self.sets.look(self.set_number(hash), |set| set.may_hold(hash))
    }

    /// Looks `key` up: no read if no fingerprint is its own or the object is in memory, else almost always one.
    async fn find(&self, hash: KeyHash, key: &[u8], now_s: u32, hit: bool) -> Option<FlashItem> {
        let set = self.set_number(hash);
        let (in_memory, candidates) = self.sets.look(set, |it| {
            let newest = it.in_memory().find_map(|page| page.find(hash, key));
            let copied = newest.map(|record| self.copy_of(hash, &record));
            let candidates = if copied.is_some() { Vec::new() } else { it.candidates(hash) };
            (copied, candidates)
        });
        if let Some(item) = in_memory {
            return (!self.has_expired(&item, now_s)).then_some(item);
        }
        let mut others = 0;
        for &at in &candidates {
            let Some((page, filling)) = self.read_page(set, at.page).await else { continue };
            let Some(record) = page.record(at.slot) else { continue };
            if record.key != key {
                self.counters().soc_filter_false_positives.add(1);
                others += usize::from(self.place.hasher.hash(record.key) != hash);
                continue;
            }
            // After the read: the key may have been changed since, or the place filled anew.
            let is_there = self.sets.change(set, |set| set.is_there(hash, at, hit));
            if !is_there {
                continue;
            }
            let item = fetched(hash, page, at.slot)?;
            if self.has_expired(&item, now_s) {
                self.forget_expired(set, (hash, at), (filling, item.expiry_s)).await;
                return None;
            }
            return Some(item);
        }
        if others > 0 && others == candidates.len() {
            self.sets.look(set, |it| {
                // Nothing has come since.
                if !it.holds_in_memory(hash) && it.candidates(hash) == candidates {
                    self.absent.remember(hash);
                }
            });
        }
        None
    }

    fn has_expired(&self, item: &FlashItem, now_s: u32) -> bool {
        let expired = is_expired(item.expiry_s, now_s);
        if expired {
            self.counters().expired.add(1);
            let (key, bytes) = (item.item().key, item.item().object_bytes());
            self.counters().removals.key(RemovalReason::Expired, Tier::SmallObjects, key, bytes);
        }
        expired
    }

    /// Forgets an object that has expired, once it is expired for every later opening too: the next look-up should not
    /// read in vain.
    async fn forget_expired(
        &self,
        set: u32,
        (hash, at): (KeyHash, SlotPlace),
        (filling, expiry_s): (RegionIdentity, u32),
    ) {
        if let Some(tombstones) = self.tombstones()
            && !tombstones.is_over(expiry_s).await
        {
            return;
        }
        self.clear_slot(set, (hash, at), filling);
    }

    /// Forgets the object at a place of this filling.
    fn clear_slot(&self, set: u32, (hash, at): (KeyHash, SlotPlace), filling: RegionIdentity) {
        let state = self.log.lock();
        // In a later filling another page lies there.
        if state.filling(filling.region) == filling {
            self.sets.change(set, |set| set.clear(hash, at));
        }
    }

    /// A copy of an object in memory.
    fn copy_of(&self, hash: KeyHash, record: &SmallRecord<'_>) -> FlashItem {
        let SmallRecord { key, value, expiry_s, flags, tiers, .. } = *record;
        let mut buffer = self.log.pool().take(key.len() + value.len());
        let (front, back) = buffer.as_mut_slice().split_at_mut(key.len());
        front.copy_from_slice(key);
        back.copy_from_slice(value);
        let (key_bytes, value_bytes, kind) = (key.len(), value.len(), Kind::Whole);
        FlashItem { buffer, hash, at: 0, key_bytes, value_bytes, expiry_s, flags, kind, tiers }
    }

    /// Reads a page of a set: from memory while its region is being filled, else from flash. Also returns its filling.
    /// Forgets a page that fails its checks, unless its region was reclaimed meanwhile.
    async fn read_page(&self, set: u32, place: PagePlace) -> Option<(Page, RegionIdentity)> {
        let (region, offset) = (self.geometry.region(place), self.geometry.offset(place));
        let span = u32::try_from(PAGE_BYTES).expect("4096");
        let (filling, in_memory) = {
            let state = self.log.lock();
            let in_memory = match state.regions.get(region).state() {
                RegionState::Active => {
                    state.active.in_memory(region, (offset, span), self.log.pool())
                }
                RegionState::Sealed => None,
                _ => return None,
            };
            (state.filling(region), in_memory)
        };
        let (buffer, skip) = match in_memory {
            Some(buffer) => (buffer, 0),
            None => {
                self.counters().soc_page_reads.add(1);
                self.log.read(region, offset, span).await?
            }
        };
        let LogPlace { cache, .. } = self.place.log;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset };
        let bytes = buffer.as_slice().get(skip..)?;
        if record::parse_first(bytes, identity).as_ref().and_then(set_of) == Some(set) {
            return Some((Page { buffer, body_at: skip + BODY_AT }, filling));
        }
        self.forget_page(set, place, filling).await;
        None
    }

    /// Forgets a page that cannot be used. It may become readable again, so its objects need tombstones.
    async fn forget_page(&self, set: u32, place: PagePlace, filling: RegionIdentity) {
        let slots: Vec<u8> = {
            let state = self.log.lock();
            if state.filling(filling.region) != filling {
                return;
            }
            let listed = self.sets.look(set, |set| set.slots_of(place).map(<[u16]>::to_vec));
            let Some(listed) = listed else { return };
            (0..).zip(listed).filter(|(_, it)| *it != 0).map(|(slot, _)| slot).collect()
        };
        if let Some(tombstones) = self.tombstones() {
            let dead =
                slots.iter().map(|&slot| self.dead(SlotPlace { page: place, slot }, filling));
            if let Some(receipt) = dead.max()
                && tombstones.commit(receipt).await.is_err()
            {
                return;
            }
        }
        let state = self.log.lock();
        let is_current = state.filling(filling.region) == filling;
        if is_current && self.sets.change(set, |set| set.remove_page(place)).is_some() {
            self.counters().soc_bad_pages.add(1);
            let objects = slots.len() as u64;
            self.counters().removals.unknown(RemovalReason::Damaged, Tier::SmallObjects, objects);
        }
    }

    /// Marks the object at a place of this filling dead. Only with tombstones.
    fn dead(&self, at: SlotPlace, filling: RegionIdentity) -> Receipt {
        let tombstones = self.tombstones().expect("the caller has asked");
        let number = self.log.host().regions.number(filling.region);
        let offset = self.geometry.offset(at.page) + u32::from(at.slot);
        tombstones.invalidate_record(number, offset, filling.sequence)
    }

    /// Makes sure that no object of this hash is stored, not even after a crash. May also forget an object whose
    /// fingerprint is the same. Returns whether one was there.
    ///
    /// # Errors
    /// If a tombstone cannot be written; then a crash may bring the object back.
    async fn invalidate_hash(&self, hash: KeyHash) -> Result<bool, Error> {
        let set = self.set_number(hash);
        let mut was_there = false;
        // Again, if the object rode along to another page meanwhile, or if its page came to flash.
        while self.may_have(set, hash) {
            was_there = true;
            let found: Vec<(SlotPlace, RegionIdentity)> = {
                let state = self.log.lock();
                let candidates = self.sets.change(set, |set| {
                    set.remove_in_memory(hash, None);
                    set.candidates(hash)
                });
                let filled = |at: SlotPlace| (at, state.filling(self.geometry.region(at.page)));
                candidates.into_iter().map(filled).collect()
            };
            let mut committed = Ok(());
            if let Some(tombstones) = self.tombstones()
                && let Some(receipt) =
                    found.iter().map(|&(at, filling)| self.dead(at, filling)).max()
            {
                committed = tombstones.commit(receipt).await;
            }
            // Not earlier: a request that does not find the object needs no tombstone. If the tombstone is still owed,
            // all later requests wait for it.
            found.into_iter().for_each(|(at, filling)| self.clear_slot(set, (hash, at), filling));
            committed?;
        }
        Ok(was_there)
    }

    /// Whether the set may hold an object of this hash, as far as fingerprints and the latest look-ups tell.
    fn may_have(&self, set: u32, hash: KeyHash) -> bool {
        self.sets.look(set, |set| !self.absent.is_absent(hash) && set.may_hold(hash))
    }

    /// Forgets the objects of this hash for as long as the cache is open. May also forget one whose fingerprint is the
    /// same. Only without tombstones.
    fn forget_hash(&self, hash: KeyHash) {
        self.sets.change(self.set_number(hash), |set| {
            set.remove_in_memory(hash, None);
            set.clear_all(hash);
        });
    }

    /// Voids everything before this epoch. The caller makes sure that no other request uses the engine and that nothing
    /// is in flight.
    fn clear_all(&self, epoch: u64) {
        self.sets.clear();
        self.log.clear(epoch << 32, PageEntries::of(&self.sets));
    }

    /// Applies `judge` to the objects of a set, expired or not, newest first. Counts no hit.
    async fn peek<T>(&self, set: u32, judge: Judge<'_, T>) -> Vec<T> {
        let (in_memory, pages) = self.sets.look(set, |it| {
            let objects = it.in_memory().flat_map(|page| page.objects());
            let copies: Vec<_> =
                objects.map(|(hash, record)| self.copy_of(hash, &record)).collect();
            (copies, it.pages().rev().collect::<Vec<_>>())
        });
        let mut seen: HashSet<u64> = in_memory.iter().map(|item| item.hash.0).collect();
        let mut judged = Vec::new();
        for item in &in_memory {
            // No set is locked here: `judge` looks into DRAM.
            let result = judge(&item.item());
            // After that: a key that was changed there is gone here before. If its page has left memory, a look-up
            // tells.
            let stays = self.sets.look(set, |set| set.holds_in_memory(item.hash))
                || self.find(item.hash, item.item().key, 0, false).await.is_some();
            judged.extend(result.filter(|_| stays));
        }
        for place in pages {
            let Some((page, _)) = self.read_page(set, place).await else { continue };
            for (slot, record) in (0..).zip(records(page.buffer.as_slice(), page.body_at)) {
                let hash = self.place.hasher.hash(record.key);
                let at = SlotPlace { page: place, slot };
                if seen.contains(&hash.0) {
                    continue;
                }
                let result = judge(&item_of(hash, &record));
                if self.sets.change(set, |set| set.is_there(hash, at, false)) {
                    judged.extend(result);
                    seen.insert(hash.0);
                }
            }
        }
        judged
    }
}

fn item_of<'a>(hash: KeyHash, record: &SmallRecord<'a>) -> ItemRef<'a> {
    let SmallRecord { key, value, expiry_s, flags, tiers, .. } = *record;
    ItemRef { flags, tiers, clean: true, ..ItemRef::new(hash, key, value, expiry_s) }
}

/// The object of this hash in a slot of the page.
fn fetched(hash: KeyHash, page: Page, slot: u8) -> Option<FlashItem> {
    let SmallRecord { at, key, value, expiry_s, flags, tiers } = page.record(slot)?;
    let (key_bytes, value_bytes, kind) = (key.len(), value.len(), Kind::Whole);
    let buffer = page.buffer;
    Some(FlashItem { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
}

/// Parses any bytes as the value of a page, and as the directory of a region with this number of pages.
pub(crate) fn fuzz_parts(bytes: &[u8], pages: u8) {
    let lengths = records(bytes, 0).map(|record| record.key.len() + record.value.len());
    assert!(lengths.sum::<usize>() <= PAGE_BYTES);
    if let Some(listed) = directory::parse(bytes, pages.into()) {
        assert_eq!(listed.len(), usize::from(pages));
        assert!(listed.iter().map(|page| 1 + 2 * page.len()).sum::<usize>() == bytes.len());
    }
}
