//! The large-object engine (LOC): objects in a log of regions (`larder-log`), with an index in DRAM that maps each
//! object to its place.
//!
//! Objects that will die together share a stream of regions (`streams.rs`). When a region is reclaimed, its objects are
//! forgotten, or appended again if they have enough hits (`rescue.rs`). The drive sees large sequential writes that
//! overwrite one another in order. They cause no write amplification as long as no other data is mixed in: that is why
//! the engine has its own placement handle.
//!
//! If configured, all regions of a reclaim unit of the device are reclaimed together and the unit's bytes are
//! deallocated. Which regions share a unit follows from the order in which they are written: under a handle of its own,
//! a unit holds its number of bytes in write order. This is exact if the device was empty at the start. A failed write,
//! or a unit that an earlier cache left half full, shifts it; then it takes two consecutive reclaims to empty a unit
//! instead of one.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | look-ups, stores and invalidations of single records |
//! | `engine` | the implementation of [`Engine`](super::Engine) |
//! | `long` | values in parts |
//! | `iterate` | scans |
//! | `appending` | stores many objects of a closing cache in order |
//! | `streams`, `rescue`, `reinsertion` | which objects share a stream of regions, and which stay at a reclaim |
//! | `index` | the place of each object |
//! | `host` | what the log asks of the engine |
//! | `snapshot` | the list of regions for the next opening |
//! | `left_regions`, `death_source` | regions that an earlier opening has left, on their way to the index |

mod appending;
mod death_source;
mod engine;
mod host;
mod index;
mod iterate;
mod left_regions;
mod long;
mod reinsertion;
mod rescue;
pub(crate) mod snapshot;
pub(crate) mod streams;

use std::sync::{Arc, MutexGuard};

use larder_device::{Device, IoBuffer};
use larder_log::{
    LogPlace, LogState, RecordForm, RecordIdentity, RegionId, RegionIdentity, RegionLog,
    RegionState,
};

use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::config::Reinsertion;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::long::Stamps;
use crate::engine::region_tombstones::RegionTombstones;
use crate::engine::stored::record_of;
use crate::engine::tombstones::{Receipt, Tombstones};
use crate::observe::stats::Counters;
use host::LogHost;
pub(crate) use index::BYTES_MAX;
use index::{LocIndex, Location};
use left_regions::LeftRegions;
use rescue::HotObjects;

/// Where the engine's data lies, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocPlace {
    /// Location and settings of its regions.
    pub(crate) log: LogPlace,
    pub(crate) reinsertion: Reinsertion,
    /// Upper bounds of the TTL classes, in seconds, ascending.
    pub(crate) ttl_classes: Vec<u32>,
    /// Hashes keys for the index.
    pub(crate) hasher: KeyHasher,
    /// See [`LocConfig::eager_index_objects`](crate::LocConfig::eager_index_objects).
    pub(crate) eager_index_objects: u64,
    /// Oldest valid sequence number of a filling.
    pub(crate) oldest_sequence: u64,
}

/// Longest object (key and value) that fits into a region of this size.
pub(crate) fn object_bytes_max(region_bytes: u32) -> usize {
    RecordForm::PLAIN.object_bytes_max(region_bytes as usize)
}

pub(crate) struct Loc {
    log: LocLog,
    place: LocPlace,
    /// What an earlier opening has left and the index does not know yet.
    left: LeftRegions,
    /// Number of objects that a clean shutdown has left, if it says so.
    listed_objects: Option<u64>,
    /// Stamps of values in parts.
    stamps: Stamps,
}

type State = LogState<LocIndex>;

type LocLog = RegionLog<LocIndex, LogHost>;

/// Where a look-up finds the record.
enum LookUp {
    /// In memory: a copy of it.
    InMemory(FlashItem),
    OnFlash,
}

/// Result of an attempt to append.
enum AppendOutcome {
    /// Appended. `piece_is_due`: enough data has been collected for a write.
    Yes { piece_is_due: bool },
    /// The open region of this stream has no room.
    Full(usize),
    /// The index has an object in the same slot, which needs a tombstone first.
    Taken,
}

impl Loc {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: LocPlace,
        tombstones: Option<Arc<Tombstones>>,
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        assert_eq!(place.log.streams.len(), place.streams(), "each stream has a handle");
        assert!(place.log.regions > 0, "{:?}", place.log.region_bytes);
        assert!(
            place.oldest_sequence <= place.log.first_sequence,
            "what is written from now on is believed"
        );
        let index = LocIndex::new(place.log.regions, place.log.region_bytes);
        let regions = RegionTombstones { tombstones, breaker, first: 0 };
        let host = LogHost { regions, counters };
        let stamps = Stamps::from(place.log.first_sequence);
        Self {
            log: RegionLog::new(device, place.log.clone(), index, host),
            left: LeftRegions::none_in(&place),
            listed_objects: None,
            place,
            stamps,
        }
    }

    /// Records what is dead, if the content must survive a crash.
    fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.log.host().tombstones()
    }

    fn counters(&self) -> &Counters {
        &self.log.host().counters
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.log.lock()
    }

    fn region_bytes(&self) -> u32 {
        self.place.log.region_bytes
    }

    /// Whether an object of this hash is stored. Costs no I/O.
    pub(crate) fn has(&self, hash: KeyHash) -> bool {
        location_of(&self.lock(), hash).is_some()
    }

    /// Objects in the index.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Announces this number of further objects, so that the index need not grow step by step.
    pub(crate) fn expect(&self, objects: u64) {
        let index = &mut self.lock().entries;
        index.expect(index.len() as u64 + objects);
    }

    /// Memory of buffers for open regions, writes in flight and reads.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.log.buffer_bytes()
    }

    /// The same when each stream has an open region.
    pub(crate) fn buffer_bytes_expected(&self) -> u64 {
        self.log.buffer_bytes_expected()
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.lock().entries.memory_bytes()
    }

    /// Looks `key` up. Costs no read if the index does not know it or the object is still in memory; otherwise one
    /// read, and one for each part of a long value.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        let (fetched, location, identity) = self.head_or_whole(hash, key, now_s).await?;
        match fetched.kind {
            Kind::Head => self.complete(fetched, location, identity).await,
            Kind::Whole | Kind::Part => Some(fetched),
        }
    }

    /// The record of `key` and its place: the head of a long value, or the whole object. One read at most.
    async fn head_or_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(FlashItem, Location, RegionIdentity)> {
        let (location, identity, look_up) = self.find(hash)?;
        let fetched = self.fetch(hash, location, identity, look_up).await?;
        // A user's key may be equal to a part's key.
        if fetched.item().key != key || fetched.kind == Kind::Part {
            return None;
        }
        if fetched.item().is_expired(now_s) {
            self.counters().expired.add(1);
            let bytes = fetched.item().object_bytes();
            self.counters().removals.key(RemovalReason::Expired, Tier::LargeObjects, key, bytes);
            let expiry_s = fetched.expiry_s;
            self.forget_expired(hash, location, (identity, expiry_s)).await;
            return None;
        }
        Some((fetched, location, identity))
    }

    async fn fetch(
        &self,
        hash: KeyHash,
        at: Location,
        identity: RegionIdentity,
        look_up: LookUp,
    ) -> Option<FlashItem> {
        match look_up {
            LookUp::InMemory(fetched) => Some(fetched),
            LookUp::OnFlash => self.read(hash, at, identity).await,
        }
    }

    /// Stores `item` in place of an older version. Returns whether it is stored; if not, no version of the key is
    /// stored.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        if item.object_bytes() > object_bytes_max(self.region_bytes()) {
            self.set_long(item, now_s).await
        } else {
            self.set_record(item, now_s).await
        }
    }

    /// As [`Loc::set`], for an object that fits into a region.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let stored = loop {
            match self.append(item, now_s) {
                AppendOutcome::Yes { piece_is_due } => {
                    return !piece_is_due || self.write_pieces(item.hash).await;
                }
                AppendOutcome::Full(stream)
                    if self.rotate(stream, item.object_bytes(), now_s).await => {}
                AppendOutcome::Taken if self.invalidate(item.hash).await.is_ok() => {}
                AppendOutcome::Full(_) | AppendOutcome::Taken => break false,
            }
        };
        self.counters().lost_to_device_errors_objects.add(1);
        let (hash, bytes) = (item.hash.0, item.object_bytes());
        self.counters().removals.hash(RemovalReason::Lost, Tier::LargeObjects, hash, bytes);
        if self.tombstones().is_none() {
            self.remove_entry(item.hash);
        }
        stored
    }

    /// Appends `item` to the open region of its stream.
    fn append(&self, item: &ItemRef<'_>, now_s: u32) -> AppendOutcome {
        let state = &mut *self.lock();
        let new = record_of(item, None);
        let there = location_of(state, item.hash);
        let already = there.filter(|Location { region, offset, span, .. }| {
            let active = state.active.get(*region);
            active.is_some_and(|active| active.holds(*offset, *span, &new))
        });
        if let Some(Location { region, .. }) = already {
            // An earlier call appended it and was dropped.
            return AppendOutcome::Yes { piece_is_due: state.active.is_due(region) };
        }
        let stream = self.place.stream_of(item.expiry_s, now_s);
        let Some(active) = state.active.open(stream) else { return AppendOutcome::Full(stream) };
        if there.is_some() && self.tombstones().is_some() {
            return AppendOutcome::Taken; // another key's entry, which the index cannot tell from this one
        }
        if !active.has_room_for(item.object_bytes()) {
            return AppendOutcome::Full(stream);
        }
        let region = state.append(stream, &new);
        debug_assert!(
            state.entries.get(item.hash).is_some_and(|at| at.region == region),
            "the index knows what was appended"
        );
        let piece_is_due = state.active.is_due(region);
        self.left.void(&self.log, item.hash);
        AppendOutcome::Yes { piece_is_due }
    }

    /// Writes the data that is due of the active regions. Returns whether the object of `hash`, just appended, is still
    /// stored: a failed write loses its whole region.
    async fn write_pieces(&self, hash: KeyHash) -> bool {
        let mut writer = self.log.writer().await;
        self.log.write_due(&mut writer).await;
        drop(writer);
        self.has(hash)
    }

    /// Makes sure that the open region of a stream has room for an object of this size. `false` if no region is
    /// available: all are retired.
    async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert!(stream < self.place.streams(), "stream {stream} has a handle");
        debug_assert!(
            object_bytes <= object_bytes_max(self.region_bytes()),
            "an empty region has room for {object_bytes} bytes, or the caller's loop never ends"
        );
        let mut writer = self.log.writer().await;
        if self.log.has_room_for(stream, object_bytes) {
            return true; // the previous holder of the writer made room
        }
        // First submit the rest of the open region: a stream has only one open region.
        self.log.close_open(&mut writer, stream).await;
        // After a crash regions are Unknown, and an Unknown region is not reclaimed (`left_regions.rs`, rule 1):
        // without this, a cache that has not read any region yet would find none to fill.
        self.left.find_room(&self.log).await;
        // Still holding the writer: two concurrent reclaims would both empty a region where one is enough.
        let hot = HotObjects { loc: self, now_s };
        self.log.open_next(&mut writer, (stream, object_bytes), now_s, &hot).await
    }

    /// Empties a sealed region early, because the tombstone log is full of tombstones of its records.
    async fn give_up_region(&self, region: u32) {
        if self.log.give_up_region(RegionId::new(region)).await {
            self.counters().loc_given_up_regions.add(1);
        }
    }

    /// While there are Unknown regions: declares dead what fillings of earlier openings hold of this hash. Call it
    /// before [`Loc::invalidate`], which handles what the index knows.
    pub(crate) fn invalidate_unindexed(&self, hash: KeyHash) -> Option<Receipt> {
        self.tombstones()?.invalidate_hash(hash.0, self.place.log.first_sequence)
    }

    /// Makes sure that no version of the key is stored, not even after a crash. Returns whether one was.
    ///
    /// # Errors
    /// If the tombstone cannot be written; then a crash may bring the object back.
    pub(crate) async fn invalidate(&self, hash: KeyHash) -> Result<bool, Error> {
        let Some(tombstones) = self.tombstones() else { return Ok(self.remove_entry(hash)) };
        let mut was_there = false;
        // Repeat if a reclaim has moved the object.
        while let Some((location, identity)) = self.place_of(hash) {
            was_there = true;
            let Location { region, offset, .. } = location;
            let receipt = tombstones.invalidate_record(region.number(), offset, identity.sequence);
            let committed = tombstones.commit(receipt).await;
            // Not earlier: a request that does not find the object here needs no tombstone. If the tombstone is still
            // owed, all later requests wait for it.
            self.forget(hash, location, identity);
            committed?;
        }
        Ok(was_there)
    }

    /// Forgets an object that expired in this second. With one stream, no tombstone is necessary once the current time
    /// is recorded on flash: the object is still expired after a crash, and any later object of the key is newer. This
    /// does not hold with several streams, see `streams.rs`.
    async fn forget_expired(
        &self,
        hash: KeyHash,
        at: Location,
        (identity, expiry_s): (RegionIdentity, u32),
    ) {
        if let Some(tombstones) = self.tombstones() {
            let is_over = if self.place.streams() > 1 {
                let receipt =
                    tombstones.invalidate_record(at.region.number(), at.offset, identity.sequence);
                tombstones.commit(receipt).await.is_ok()
            } else {
                tombstones.is_over(expiry_s).await
            };
            if !is_over {
                return; // it stays; a set of the same key will invalidate it
            }
        }
        self.forget(hash, at, identity);
    }

    fn place_of(&self, hash: KeyHash) -> Option<(Location, RegionIdentity)> {
        let state = self.lock();
        let location = location_of(&state, hash)?;
        Some((location, state.filling(location.region)))
    }

    /// Makes sure that no version of the key is in the index. Returns whether one was. Costs no I/O.
    pub(crate) fn remove_entry(&self, hash: KeyHash) -> bool {
        let state = &mut *self.lock();
        let was_there = location_of(state, hash).is_some();
        state.entries.remove(hash);
        debug_assert!(location_of(state, hash).is_none(), "what is removed is not found");
        self.left.void(&self.log, hash);
        was_there
    }

    /// Parses the record of a place; it starts `skip` bytes into the buffer.
    fn parse(
        &self,
        buffer: IoBuffer,
        skip: usize,
        (at, filling): (Location, RegionIdentity),
    ) -> Option<FlashItem> {
        debug_assert_eq!(at.region, filling.region, "a record is of a filling of its region");
        let LocPlace { log: LogPlace { cache, .. }, hasher, .. } = self.place;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset: at.offset };
        FlashItem::parse(buffer, skip, identity, hasher)
    }

    /// Bytes of all regions.
    pub(crate) fn region_bytes_of_all(&self) -> u64 {
        u64::from(self.place.log.regions) * u64::from(self.region_bytes())
    }

    /// Removes the object at this place of this filling from the index. Returns whether it was there.
    fn forget(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> bool {
        debug_assert_eq!(at.region, identity.region, "a place is of a filling of its region");
        let state = &mut *self.lock();
        // In a later filling, another object may lie at the same place, even one of the same key.
        state.filling(at.region) == identity
            && state.entries.remove_if_at(hash, at.region, at.offset)
    }

    fn find(&self, hash: KeyHash) -> Option<(Location, RegionIdentity, LookUp)> {
        let state = &mut *self.lock();
        let State { entries, regions, .. } = state;
        let reinsertion = self.place.reinsertion;
        let mark = |at: &Location| reinsertion.mark(at.hits, regions.quarter(at.region));
        let location = entries.touch(hash, mark)?;
        regions.touch(location.region);
        debug_assert!(location.offset < self.region_bytes(), "{location:?} is in its region");
        let identity = state.filling(location.region);
        let look_up = match state.regions.get(location.region).state() {
            // Unknown: its objects are being indexed now.
            RegionState::Sealed | RegionState::Unknown => LookUp::OnFlash,
            RegionState::Active => match self.copy_in_memory(state, location) {
                Some(buffer) => LookUp::InMemory(self.parse(buffer, 0, (location, identity))?),
                None => LookUp::OnFlash,
            },
            RegionState::Free | RegionState::Retired | RegionState::Expired => return None,
        };
        Some((location, identity, look_up))
    }

    /// A copy of the record, if its region is being filled and it is not on flash yet.
    fn copy_in_memory(&self, state: &State, at: Location) -> Option<IoBuffer> {
        state.active.in_memory(at.region, (at.offset, at.span), self.log.pool())
    }

    /// Reads one record from flash. Forgets a bad one, unless its region was reclaimed while the read ran.
    async fn read(
        &self,
        hash: KeyHash,
        at: Location,
        identity: RegionIdentity,
    ) -> Option<FlashItem> {
        self.counters().loc_record_reads.add(1);
        let (buffer, skip) = self.log.read(at.region, at.offset, at.span).await?;
        let fetched = self.parse(buffer, skip, (at, identity));
        if fetched.is_none() && self.log.is_filling(identity) {
            // The record may become readable again, so it needs a tombstone.
            if let Some(tombstones) = self.tombstones() {
                let (region, sequence) = (at.region.number(), identity.sequence);
                let receipt = tombstones.invalidate_record(region, at.offset, sequence);
                tombstones.commit(receipt).await.ok()?;
            }
            if self.forget(hash, at, identity) {
                self.counters().loc_bad_records.add(1);
                let (reason, tier) = (RemovalReason::Damaged, Tier::LargeObjects);
                self.counters().removals.hash(reason, tier, hash.0, at.span as usize);
            }
        }
        fetched
    }

    /// Voids all fillings before this epoch. The caller makes sure that no other request uses the engine and that
    /// nothing is in flight.
    fn clear(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        let first = self.place.log.first_sequence;
        assert!(first_sequence > first, "epoch {epoch}: fillings from {first} on are void");
        self.left.clear();
        let index = LocIndex::new(self.place.log.regions, self.place.log.region_bytes);
        self.log.clear(first_sequence, index);
        self.stamps.restart(first_sequence);
        debug_assert_eq!(self.len(), 0, "nothing is found that is void");
    }
}

/// Where the object of `hash` lies, if there is one and its region has not been reclaimed.
fn location_of(state: &State, hash: KeyHash) -> Option<Location> {
    let location = state.entries.get(hash)?;
    (!state.is_gone(location.region)).then_some(location)
}
