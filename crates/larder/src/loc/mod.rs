//! The large-object engine (LOC): objects in a log of regions (`larder-log`), and an index in DRAM that says
//! where each lies.
//!
//! Objects that will die together share a stream of regions (`streams.rs`). When a region gives way, its
//! objects are forgotten, or with enough hits appended again (`rescue.rs`). To the drive this is large
//! sequential writes that overwrite each other in order, which cost no write amplification as long as
//! nothing else is mixed in: hence a placement handle of its own.
//!
//! Where the configuration asks for it, all regions of a reclaim unit of the device are reclaimed
//! together and the unit's bytes are deallocated. Which regions share a unit follows from the order
//! in which they are written: under a handle of its own, as many bytes in a row as a unit holds.
//! That is exact from an empty device on. A write that failed, or a unit that an earlier cache left
//! half full, shifts it; then two reclaims in a row empty a unit instead of one.

mod appending;
mod clear;
pub(crate) mod config;
mod engine;
mod expiry;
mod host;
mod index;
mod iterate;
mod long;
mod recover;
mod reinsertion;
mod rescue;
mod rotate;
pub(crate) mod snapshot;
pub(crate) mod streams;
mod witness;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, MutexGuard};

use larder_device::{Device, IoBuffer};
use larder_log::{
    LogPlace, LogState, RecordForm, RecordIdentity, RegionIdentity, RegionLog, RegionState,
};

use crate::breaker::CircuitBreaker;
use crate::config::Reinsertion;
use crate::error::Error;
use crate::item::{Fetched, ItemRef, Kind};
use crate::key::{KeyHash, KeyHasher};
use crate::long::Stamps;
use crate::region_tombstones::RegionTombstones;
use crate::removal::RemovalReason;
use crate::stats::Counters;
use crate::stored::record_of;
use crate::tier::Tier;
use crate::tombstones::{Lost, Receipt, Tombstones};
use host::LogHost;
pub(crate) use index::BYTES_MAX;
use index::{Index, Location};
use recover::Rebuild;

/// Where the engine lives, what it may touch and how it evicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocPlace {
    /// Of its regions.
    pub(crate) log: LogPlace,
    pub(crate) reinsertion: Reinsertion,
    /// Upper bounds of the classes of times to live, in seconds, ascending.
    pub(crate) ttl_classes: Vec<u32>,
    /// Under which hash the index knows a key.
    pub(crate) hasher: KeyHasher,
    /// See [`LocConfig::eager_index_objects`](crate::LocConfig::eager_index_objects).
    pub(crate) eager_index_objects: u64,
    /// Smaller than any sequence number that may be believed.
    pub(crate) oldest_sequence: u64,
}

/// Longest object (key and value) that fits a region of this size.
pub(crate) fn object_bytes_max(region_bytes: u32) -> usize {
    RecordForm::PLAIN.object_bytes_max(region_bytes as usize)
}

pub(crate) struct Loc {
    log: RegionLog<Index, LogHost>,
    place: LocPlace,
    /// What a crash has left, until all of it is in the index. Taken after the log's writer, if with it,
    /// and never while its state is locked.
    rebuild: async_lock::Mutex<Option<Rebuild>>,
    /// Whether all of it is.
    indexed: AtomicBool,
    /// How many threads put a batch of records into the index that `rebuild` has not any more.
    batches: AtomicU32,
    /// Regions that are Unknown.
    unindexed: AtomicU32,
    /// Objects found in others that were.
    found: AtomicU64,
    /// Objects that a clean shutdown has left, if it says how many.
    left: Option<u64>,
    /// Without tombstones: hashes of which Unknown regions hold nothing that counts.
    forgotten: Lost,
    /// Of values in parts.
    stamps: Stamps,
}

type State = LogState<Index>;

/// Where a look-up has to go.
enum LookUp {
    /// In memory, and here it is.
    InMemory(Fetched),
    OnFlash,
}

/// How an attempt to append ended.
enum Appended {
    /// Whether enough has come together to be written.
    Yes { piece_is_due: bool },
    /// The open region of this stream has no room.
    Full(usize),
    /// The index has an object in its place, which needs a tombstone first.
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
        let index = Index::new(place.log.regions, place.log.region_bytes);
        let regions = RegionTombstones { tombstones, breaker, first: 0 };
        let host = LogHost { regions, counters };
        let stamps = Stamps::from(place.log.first_sequence);
        Self {
            log: RegionLog::new(device, place.log.clone(), index, host),
            place,
            rebuild: async_lock::Mutex::new(None),
            indexed: AtomicBool::new(true),
            batches: AtomicU32::new(0),
            unindexed: AtomicU32::new(0),
            found: AtomicU64::new(0),
            left: None,
            forgotten: Lost::default(),
            stamps,
        }
    }

    /// Where it is written down what is dead, if that shall outlive a crash.
    fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.log.host().regions.tombstones.as_ref()
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

    /// So many more objects are about to come: the index need not grow little by little.
    pub(crate) fn expect(&self, objects: u64) {
        let index = &mut self.lock().entries;
        index.expect(index.len() as u64 + objects);
    }

    /// Memory of what is being filled, on its way, and read.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.log.buffer_bytes()
    }

    /// As much as that becomes when a region of each stream is filled.
    pub(crate) fn buffer_bytes_expected(&self) -> u64 {
        self.log.buffer_bytes_expected()
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.lock().entries.memory_bytes()
    }

    /// Looks `key` up: no read if the index does not know it or the object is still in memory, one
    /// otherwise, and one for each part of a long value.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Fetched> {
        let (fetched, location, identity) = self.head_or_whole(hash, key, now_s).await?;
        match fetched.kind {
            Kind::Head => self.complete(fetched, location, identity).await,
            Kind::Whole | Kind::Part => Some(fetched),
        }
    }

    /// The record of `key`, which is the head of a long value or has all of it, and where it is: one read at most.
    async fn head_or_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(Fetched, Location, RegionIdentity)> {
        let (location, identity, look_up) = self.find(hash)?;
        let fetched = self.fetch(hash, location, identity, look_up).await?;
        // A user's key may be the same as a part's.
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
    ) -> Option<Fetched> {
        match look_up {
            LookUp::InMemory(fetched) => Some(fetched),
            LookUp::OnFlash => self.read(hash, at, identity).await,
        }
    }

    /// Stores `item` in place of an older version. Says whether it is stored; if not, no version of
    /// the key is.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        if item.object_bytes() > object_bytes_max(self.region_bytes()) {
            self.set_long(item, now_s).await
        } else {
            self.set_record(item, now_s).await
        }
    }

    /// As [`Loc::set`], for what fits a region.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let stored = loop {
            match self.append(item, now_s) {
                Appended::Yes { piece_is_due } => {
                    return !piece_is_due || self.write_pieces(item.hash).await;
                }
                Appended::Full(stream) if self.rotate(stream, item.object_bytes(), now_s).await => {
                }
                Appended::Taken if self.invalidate(item.hash).await.is_ok() => {}
                Appended::Full(_) | Appended::Taken => break false,
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
    fn append(&self, item: &ItemRef<'_>, now_s: u32) -> Appended {
        let state = &mut *self.lock();
        let new = record_of(item, None);
        let there = location_of(state, item.hash);
        let already = there.filter(|Location { region, offset, span, .. }| {
            let active = state.active.get(*region);
            active.is_some_and(|active| active.holds(*offset, *span, &new))
        });
        if let Some(Location { region, .. }) = already {
            // A caller gave up after appending it.
            return Appended::Yes { piece_is_due: state.active.is_due(region) };
        }
        let stream = self.place.stream_of(item.expiry_s, now_s);
        let Some(active) = state.active.open(stream) else { return Appended::Full(stream) };
        if there.is_some() && self.tombstones().is_some() {
            return Appended::Taken; // another key's, which the index cannot tell from this one
        }
        if !active.has_room_for(item.object_bytes()) {
            return Appended::Full(stream);
        }
        let region = state.append(stream, &new);
        debug_assert!(
            state.entries.get(item.hash).is_some_and(|at| at.region == region),
            "the index knows what was appended"
        );
        let piece_is_due = state.active.is_due(region);
        self.void_unindexed(state, item.hash);
        Appended::Yes { piece_is_due }
    }

    /// Writes what has come together of the active regions. Says whether the object of `hash`, just
    /// appended, is still stored: a failed write takes its region with it.
    async fn write_pieces(&self, hash: KeyHash) -> bool {
        let mut writer = self.log.writer().await;
        self.log.write_due(&mut writer).await;
        drop(writer);
        self.has(hash)
    }

    /// Without tombstones: what Unknown regions hold of this hash does not count any more.
    fn void_unindexed(&self, _under_its_lock: &mut State, hash: KeyHash) {
        if !self.is_indexed() && self.tombstones().is_none() {
            self.forgotten.add(hash.0, self.place.log.first_sequence);
        }
    }

    /// As long as there are Unknown regions: declares dead what fillings of earlier openings hold of
    /// this hash. Before [`Loc::invalidate`], which sees to what the index knows.
    pub(crate) fn invalidate_unindexed(&self, hash: KeyHash) -> Option<Receipt> {
        self.tombstones()?.invalidate_hash(hash.0, self.place.log.first_sequence)
    }

    /// Makes sure that no version of the key is stored, not even after a crash. Says whether one was.
    ///
    /// # Errors
    /// If that cannot be written down; a crash may bring it back then.
    pub(crate) async fn invalidate(&self, hash: KeyHash) -> Result<bool, Error> {
        let Some(tombstones) = self.tombstones() else { return Ok(self.remove_entry(hash)) };
        let mut was_there = false;
        // Once more if it was moved in the meantime.
        while let Some((location, identity)) = self.place_of(hash) {
            was_there = true;
            let Location { region, offset, .. } = location;
            let receipt = tombstones.invalidate_record(region.number(), offset, identity.sequence);
            let committed = tombstones.commit(receipt).await;
            // Not before: whoever does not find it here needs no tombstone. If it is still owed, all
            // wait for it.
            self.forget(hash, location, identity);
            committed?;
        }
        Ok(was_there)
    }

    fn place_of(&self, hash: KeyHash) -> Option<(Location, RegionIdentity)> {
        let state = self.lock();
        let location = location_of(&state, hash)?;
        Some((location, state.filling(location.region)))
    }

    /// Makes sure that no version of the key is stored. Says whether one was. Costs no I/O.
    pub(crate) fn remove_entry(&self, hash: KeyHash) -> bool {
        let state = &mut *self.lock();
        let was_there = location_of(state, hash).is_some();
        state.entries.remove(hash);
        debug_assert!(location_of(state, hash).is_none(), "what is removed is not found");
        self.void_unindexed(state, hash);
        was_there
    }

    /// The record of a place that begins `skip` bytes into the buffer.
    fn parse(
        &self,
        buffer: IoBuffer,
        skip: usize,
        (at, filling): (Location, RegionIdentity),
    ) -> Option<Fetched> {
        debug_assert_eq!(at.region, filling.region, "a record is of a filling of its region");
        let LocPlace { log: LogPlace { cache, .. }, hasher, .. } = self.place;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset: at.offset };
        Fetched::parse(buffer, skip, identity, hasher)
    }

    /// What all regions have room for.
    pub(crate) fn region_bytes_of_all(&self) -> u64 {
        u64::from(self.place.log.regions) * u64::from(self.region_bytes())
    }

    /// Takes the object at this place of this filling out of the index. Says whether it was there.
    fn forget(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> bool {
        debug_assert_eq!(at.region, identity.region, "a place is of a filling of its region");
        let state = &mut *self.lock();
        // What lies at the same place of a later filling is another object, even of the same key.
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
            // Unknown: its objects are just coming.
            RegionState::Sealed | RegionState::Unknown => LookUp::OnFlash,
            RegionState::Active => match self.copy_in_memory(state, location) {
                Some(buffer) => LookUp::InMemory(self.parse(buffer, 0, (location, identity))?),
                None => LookUp::OnFlash,
            },
            RegionState::Free | RegionState::Retired | RegionState::Expired => return None,
        };
        Some((location, identity, look_up))
    }

    /// The bytes there, if they are in a region that is being filled, and not on flash yet.
    fn copy_in_memory(&self, state: &State, at: Location) -> Option<IoBuffer> {
        state.active.in_memory(at.region, (at.offset, at.span), self.log.pool())
    }

    /// Reads one record from flash. A bad one is forgotten, unless its region was reclaimed while
    /// it was read.
    async fn read(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> Option<Fetched> {
        self.counters().loc_record_reads.add(1);
        let (buffer, skip) = self.log.read(at.region, at.offset, at.span).await?;
        let fetched = self.parse(buffer, skip, (at, identity));
        if fetched.is_none() && self.log.is_filling(identity) {
            // It may be readable another time.
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
}

/// Where the object of `hash` lies, if there is one that has not gone with its region.
fn location_of(state: &State, hash: KeyHash) -> Option<Location> {
    let location = state.entries.get(hash)?;
    (!state.is_gone(location.region)).then_some(location)
}
