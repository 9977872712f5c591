//! The large-object engine (LOC): regions filled in order and dropped whole.
//!
//! Objects are appended to a region in memory, which is written piece by piece as it fills, several
//! pieces at a time; the next region is filled while the last ones are on their way.
//! When no region is free, one is reclaimed: its objects are forgotten (or, with enough hits,
//! appended again) and the region is filled anew. To the drive this is large sequential writes that
//! overwrite each other in order, which cost no write amplification as long as nothing else is
//! mixed in: hence a placement handle of its own.
//!
//! Where the configuration asks for it, all regions of a reclaim unit of the device are reclaimed
//! together and the unit's bytes are deallocated. Which regions share a unit follows from the order
//! in which they are written: under a handle of its own, as many bytes in a row as a unit holds.
//! That is exact from an empty device on. A write that failed, or a unit that an earlier cache left
//! half full, shifts it; then two reclaims in a row empty a unit instead of one.

mod active;
mod clear;
mod engine;
mod expiry;
pub(crate) mod footer;
mod index;
mod iterate;
pub(crate) mod long;
mod persist;
mod pieces;
mod reclaim;
pub(crate) mod record;
mod recover;
mod regions;
mod reinsertion;
mod saved;
pub(crate) mod shelves;
pub(crate) mod snapshot;
mod together;
mod unsealed;
mod witness;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Durability, Io, IoBuffer, PlacementHandle};

use crate::breaker::CircuitBreaker;
use crate::config::{RegionEviction, Reinsertion};
use crate::error::Error;
use crate::identity::CacheId;
use crate::key::{KeyHash, KeyHasher};
use crate::removal::RemovalReason;
use crate::stats::Counters;
use crate::tier::Tier;
use crate::tombstones::{Lost, Receipt, Tombstones};
use crate::value::{Fetched, ItemRef, Kind};
use active::{ActiveRegion, ActiveRegions};
use expiry::Sweep;
use footer::{FooterEntry, RegionIdentity};
pub(crate) use index::{BYTES_MAX, HITS_MAX};
use index::{Index, Location};
use pieces::{PIECES_UNDER_WAY, Turn};
use record::RecordIdentity;
use recover::Rebuild;
use regions::{RegionState, Regions};
pub(crate) use together::Appending;

/// Where the engine lives, what it may touch and how it evicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocPlace {
    /// Byte address of region 0.
    pub(crate) offset: u64,
    pub(crate) regions: u32,
    pub(crate) region_bytes: u32,
    /// How much of a region is written at a time; whole blocks.
    pub(crate) piece_bytes: u32,
    /// One for each shelf.
    pub(crate) handles: Vec<PlacementHandle>,
    pub(crate) eviction: RegionEviction,
    /// How many regions share a reclaim unit, and are reclaimed and deallocated together; a
    /// divisor of `regions`. `None` reclaims one at a time and deallocates nothing.
    pub(crate) regions_per_unit: Option<u32>,
    pub(crate) reinsertion: Reinsertion,
    /// Upper bounds of the classes of times to live, in seconds, ascending.
    pub(crate) ttl_classes: Vec<u32>,
    /// What the end of a region, with its footer, must survive before the region counts as sealed.
    pub(crate) durability: Durability,
    /// Whose records to write and to believe.
    pub(crate) cache: CacheId,
    /// Under which hash the index knows a key.
    pub(crate) hasher: KeyHasher,
    /// See [`Config::eager_index_objects`](crate::Config::eager_index_objects).
    pub(crate) eager_index_objects: u64,
    /// Smaller than any sequence number that may be believed.
    pub(crate) oldest_sequence: u64,
    /// Larger than any sequence number that was ever used on the device.
    pub(crate) first_sequence: u64,
}

/// Longest object (key and value) that fits a region of this size.
pub(crate) fn object_bytes_max(region_bytes: u32) -> usize {
    (region_bytes as usize).saturating_sub(record::record_bytes_max(0) + footer::footer_bytes(1))
}

pub(crate) struct Loc {
    device: Arc<dyn Device>,
    pool: BufferPool,
    place: LocPlace,
    state: Mutex<State>,
    /// Held by whoever writes to flash: pieces of active regions, their ends, the change to the
    /// next. Never taken while `state` is locked.
    turn: async_lock::Mutex<Turn>,
    /// What a crash has left, until all of it is in the index. Taken after `turn`, if with it, and
    /// never while `state` is locked.
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
    /// Where it is written down what is dead, if that shall outlive a crash.
    tombstones: Option<Arc<Tombstones>>,
    /// Without those: hashes of which Unknown regions hold nothing that counts.
    forgotten: Lost,
    /// Of a value in parts. Begins anew with each epoch, above all that were used.
    next_stamp: AtomicU64,
    breaker: Arc<CircuitBreaker>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct State {
    index: Index,
    regions: Regions,
    active: ActiveRegions,
    /// Regions that are being emptied for the filling of this number: a caller that gave up and comes
    /// again goes on with it.
    emptying: Option<(Vec<u32>, u64)>,
    sweep: Sweep,
}

/// Where a look-up has to go.
enum Found {
    /// In memory, and here it is.
    Here(Fetched),
    OnFlash,
}

/// How an attempt to append ended.
enum Appended {
    /// Whether enough has come together to be written.
    Yes { piece_is_due: bool },
    /// The open region of this shelf has no room.
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
        let regions = Regions::new(place.regions, place.first_sequence);
        let index = Index::new(place.regions, place.region_bytes);
        debug_assert_eq!(place.handles.len(), place.shelves());
        let active = ActiveRegions::default();
        let next_stamp = AtomicU64::new(place.first_sequence);
        let state = State { index, regions, active, emptying: None, sweep: Sweep::default() };
        Self {
            device,
            pool: BufferPool::new(),
            place,
            state: Mutex::new(state),
            turn: async_lock::Mutex::new(Turn::default()),
            rebuild: async_lock::Mutex::new(None),
            indexed: AtomicBool::new(true),
            batches: AtomicU32::new(0),
            unindexed: AtomicU32::new(0),
            found: AtomicU64::new(0),
            left: None,
            tombstones,
            forgotten: Lost::default(),
            next_stamp,
            breaker,
            counters,
        }
    }

    /// Whether an object of this hash is stored. Costs no I/O.
    pub(crate) fn has(&self, hash: KeyHash) -> bool {
        self.lock().get(hash).is_some()
    }

    /// Objects in the index.
    pub(crate) fn len(&self) -> usize {
        self.lock().index.len()
    }

    /// So many more objects are about to come: the index need not grow little by little.
    pub(crate) fn expect(&self, objects: u64) {
        let index = &mut self.lock().index;
        index.expect(index.len() as u64 + objects);
    }

    /// Memory of regions that are filled or on their way, and of what is read.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.pool.memory_bytes() as u64
    }

    /// As much as that becomes when one region of each shelf is filled, and the last one is on its way.
    pub(crate) fn buffer_bytes_expected(&self) -> u64 {
        let regions = (self.place.shelves() + self.closed_max()) as u64;
        let regions = regions * u64::from(self.place.region_bytes);
        let pieces = PIECES_UNDER_WAY as u64 * u64::from(self.place.piece_bytes);
        regions + pieces.min(regions)
    }

    /// Keeps the memory of the region that was written last, for the next one: what buffers take stays
    /// about the same.
    pub(crate) fn keep_spare(&self) {
        self.lock().active.keep_spare(true);
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.lock().index.memory_bytes()
    }

    /// Looks `key` up: no read if the index does not know it or the object is still in memory, one
    /// otherwise, and one for each part of a long value.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Fetched> {
        let (location, identity, found) = self.find(hash)?;
        let fetched = self.fetch(hash, location, identity, found).await?;
        // A user's key may be the same as a part's.
        if fetched.item().key != key || fetched.kind == Kind::Part {
            return None;
        }
        if fetched.item().is_expired(now_s) {
            self.counters.expired.add(1);
            let bytes = fetched.item().object_bytes();
            self.counters.removals.key(RemovalReason::Expired, Tier::LargeObjects, key, bytes);
            let expiry_s = fetched.expiry_s;
            self.forget_expired(hash, location, (identity, expiry_s)).await;
            return None;
        }
        match fetched.kind {
            Kind::Head => self.complete(fetched, location, identity).await,
            Kind::Whole | Kind::Part => Some(fetched),
        }
    }

    async fn fetch(
        &self,
        hash: KeyHash,
        at: Location,
        identity: RegionIdentity,
        found: Found,
    ) -> Option<Fetched> {
        match found {
            Found::Here(fetched) => Some(fetched),
            Found::OnFlash => self.read(hash, at, identity).await,
        }
    }

    /// Stores `item` in place of an older version. Says whether it is stored; if not, no version of
    /// the key is.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        if item.object_bytes() > object_bytes_max(self.place.region_bytes) {
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
                Appended::Full(shelf) if self.rotate(shelf, item.object_bytes(), now_s).await => {}
                Appended::Taken if self.bury(item.hash).await.is_ok() => {}
                Appended::Full(_) | Appended::Taken => break false,
            }
        };
        self.counters.lost_to_device_errors_objects.add(1);
        let (hash, bytes) = (item.hash.0, item.object_bytes());
        self.counters.removals.hash(RemovalReason::Lost, Tier::LargeObjects, hash, bytes);
        if self.tombstones.is_none() {
            self.remove_entry(item.hash);
        }
        stored
    }

    /// Appends `item` to the open region of its shelf.
    fn append(&self, item: &ItemRef<'_>, now_s: u32) -> Appended {
        let state = &mut *self.lock();
        let piece_bytes = self.place.piece_bytes as usize;
        let there = state.get(item.hash);
        let already = there.and_then(|at| Some((at, state.active.get(at.region)?)));
        if let Some((_, active)) = already.filter(|(at, active)| active.is_at(*at, item)) {
            // A caller gave up after appending it.
            return Appended::Yes { piece_is_due: active.has_piece(piece_bytes) };
        }
        let shelf = self.place.shelf_of(item.expiry_s, now_s);
        let Some(active) = state.active.open(shelf) else { return Appended::Full(shelf) };
        if there.is_some() && self.tombstones.is_some() {
            return Appended::Taken; // another key's, which the index cannot tell from this one
        }
        if !active.has_room_for(item.object_bytes()) {
            return Appended::Full(shelf);
        }
        append(active, &mut state.index, item);
        let piece_is_due = active.has_piece(piece_bytes);
        self.void_unindexed(state, item.hash);
        Appended::Yes { piece_is_due }
    }

    /// Without tombstones: what Unknown regions hold of this hash does not count any more.
    fn void_unindexed(&self, _under_its_lock: &mut State, hash: KeyHash) {
        if !self.is_indexed() && self.tombstones.is_none() {
            self.forgotten.add(hash.0, self.place.first_sequence);
        }
    }

    /// As long as there are Unknown regions: declares dead what fillings of earlier openings hold of
    /// this hash. Before [`Loc::bury`], which sees to what the index knows.
    pub(crate) fn bury_unindexed(&self, hash: KeyHash) -> Option<Receipt> {
        self.tombstones.as_ref()?.bury_hash(hash.0, self.place.first_sequence)
    }

    /// Makes sure that no version of the key is stored, not even after a crash. Says whether one was.
    ///
    /// # Errors
    /// If that cannot be written down; a crash may bring it back then.
    pub(crate) async fn bury(&self, hash: KeyHash) -> Result<bool, Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(self.remove_entry(hash)) };
        let mut was_there = false;
        // Once more if it was moved in the meantime.
        while let Some((location, identity)) = self.place_of(hash) {
            was_there = true;
            let Location { region, offset, .. } = location;
            let receipt = tombstones.bury_record(region, offset, identity.sequence);
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
        let location = state.get(hash)?;
        let sequence = state.regions.get(location.region).sequence;
        Some((location, RegionIdentity { region: location.region, sequence }))
    }

    /// Makes sure that no version of the key is stored. Says whether one was. Costs no I/O.
    pub(crate) fn remove_entry(&self, hash: KeyHash) -> bool {
        let state = &mut *self.lock();
        let was_there = state.get(hash).is_some();
        state.index.remove(hash);
        self.void_unindexed(state, hash);
        was_there
    }

    /// The record that begins `skip` bytes into the buffer. The index cannot tell all keys apart: whose
    /// it is, the record says.
    fn parse(
        &self,
        buffer: IoBuffer,
        skip: usize,
        (at, filling): (Location, RegionIdentity),
    ) -> Option<Fetched> {
        let LocPlace { cache, hasher, .. } = self.place;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset: at.offset };
        let record = record::parse_first(buffer.as_slice().get(skip..)?, identity)?;
        let hash = hasher.hash(record.key());
        let record::Record { key_bytes, expiry_s, flags, kind, tiers, .. } = record;
        let value_bytes = record.body.len() - key_bytes;
        let at = skip + record.body_at();
        Some(Fetched { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all regions have room for.
    pub(crate) fn region_bytes_of_all(&self) -> u64 {
        u64::from(self.place.regions) * u64::from(self.place.region_bytes)
    }

    fn offset_of(&self, region: u32) -> u64 {
        self.place.offset + u64::from(region) * u64::from(self.place.region_bytes)
    }

    /// Takes the object at this place of this filling out of the index. Says whether it was there.
    fn forget(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> bool {
        let state = &mut *self.lock();
        // What lies at the same place of a later filling is another object, even of the same key.
        state.regions.get(at.region).sequence == identity.sequence
            && state.index.remove_if_at(hash, at.region, at.offset)
    }

    fn find(&self, hash: KeyHash) -> Option<(Location, RegionIdentity, Found)> {
        let state = &mut *self.lock();
        let State { index, regions, .. } = state;
        let reinsertion = self.place.reinsertion;
        let mark = |at: &Location| reinsertion.mark(at.hits, regions.quarter(at.region));
        let location = index.touch(hash, mark)?;
        regions.touch(location.region);
        let region = regions.get(location.region);
        let identity = RegionIdentity { region: location.region, sequence: region.sequence };
        let found = match region.state {
            // Unknown: its objects are just coming.
            RegionState::Sealed | RegionState::Unknown => Some(Found::OnFlash),
            RegionState::Active => {
                let active = state.active.get(location.region)?;
                let bytes = active.records_from(location.offset, location.span);
                let mut buffer = self.pool.take(bytes.len());
                buffer.as_mut_slice().copy_from_slice(bytes);
                self.parse(buffer, 0, (location, identity)).map(Found::Here)
            }
            RegionState::Free | RegionState::Retired | RegionState::Expired => None,
        };
        Some((location, identity, found?))
    }

    /// Reads one record from flash. A bad one is forgotten, unless its region was reclaimed while
    /// it was read.
    async fn read(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> Option<Fetched> {
        self.counters.loc_record_reads.add(1);
        let start = self.offset_of(at.region) + u64::from(at.offset);
        let span = at.span.min(self.place.region_bytes - at.offset);
        let (buffer, skip) = self.read_span(start, span as usize).await?;
        let fetched = self.parse(buffer, skip, (at, identity));
        if fetched.is_none() && self.is_filling(identity) {
            // It may be readable another time.
            if let Some(tombstones) = &self.tombstones {
                let receipt = tombstones.bury_record(at.region, at.offset, identity.sequence);
                tombstones.commit(receipt).await.ok()?;
            }
            if self.forget(hash, at, identity) {
                self.counters.loc_bad_records.add(1);
                let (reason, tier) = (RemovalReason::Damaged, Tier::LargeObjects);
                self.counters.removals.hash(reason, tier, hash.0, at.span as usize);
            }
        }
        fetched
    }

    /// Whether this is what the region is filled with now.
    fn is_filling(&self, identity: RegionIdentity) -> bool {
        self.lock().regions.get(identity.region).sequence == identity.sequence
    }

    /// Reads the blocks around `length` bytes at `start`; returns them and where in them the bytes
    /// begin.
    async fn read_span(&self, start: u64, length: usize) -> Option<(IoBuffer, usize)> {
        let block = u64::from(self.device.info().block_bytes);
        let offset = start - start % block;
        let skip = usize::try_from(start - offset).expect("less than a block");
        let blocks = (skip + length).next_multiple_of(usize::try_from(block).ok()?);
        let read = Io::Read { offset, buffer: self.pool.take(blocks) };
        match self.device.submit(read).await {
            Ok(buffer) => Some((buffer, skip)),
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                None
            }
        }
    }
}

impl State {
    /// Where the object of `hash` lies, if there is one that has not gone with its region.
    fn get(&self, hash: KeyHash) -> Option<Location> {
        let location = self.index.get(hash)?;
        let state = self.regions.get(location.region).state;
        (state != RegionState::Expired).then_some(location)
    }
}

/// Puts `item` into an open region, which has room, and points the index to it.
fn append(active: &mut ActiveRegion, index: &mut Index, item: &ItemRef<'_>) {
    let FooterEntry { offset, length, .. } = active.append(item);
    index.set(item.hash, active.identity.region, offset, length);
}
