//! The large-object engine (LOC): regions filled in order and dropped whole.
//!
//! Objects are appended to a region in memory, which is written piece by piece as it fills.
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

pub(crate) mod footer;
mod index;
mod reclaim;
pub(crate) mod record;
mod regions;
pub(crate) mod snapshot;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Io, IoBuffer, IoFuture, PlacementHandle};

use crate::config::RegionEviction;
use crate::key::KeyHash;
use crate::stats::Counters;
use crate::value::{Fetched, ItemRef};
use footer::{FooterEntry, RegionIdentity};
pub(crate) use index::{BYTES_MAX, HITS_MAX};
use index::{Index, Location};
use record::RecordIdentity;
use regions::{ActiveRegion, RegionState, Regions};

/// Where the engine lives, what it may touch and how it evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocPlace {
    /// Byte address of region 0.
    pub(crate) offset: u64,
    pub(crate) regions: u32,
    pub(crate) region_bytes: u32,
    /// How much of a region is written at a time; whole blocks.
    pub(crate) piece_bytes: u32,
    pub(crate) handle: PlacementHandle,
    pub(crate) eviction: RegionEviction,
    /// How many regions share a reclaim unit, and are reclaimed and deallocated together; a
    /// divisor of `regions`. `None` reclaims one at a time and deallocates nothing.
    pub(crate) regions_per_unit: Option<u32>,
    pub(crate) reinsertion_hits: u8,
    /// Larger than any sequence number that was ever used on the device.
    pub(crate) first_sequence: u64,
}

/// Longest object (key and value) that fits a region of this size.
pub(crate) fn object_bytes_max(region_bytes: u32) -> usize {
    (region_bytes as usize).saturating_sub(record::record_bytes_max(0) + footer::footer_bytes(1))
}

/// What is still under way on flash. It outlives the caller who began it: a caller that is dropped
/// leaves it here, and whoever takes the turn next waits for its end first.
type Turn = Option<Unfinished>;

enum Unfinished {
    /// The write of a piece of the active region.
    Piece(IoFuture),
    /// The deallocation of as many bytes. What is written there later must not die with them.
    Deallocation(IoFuture, u64),
}

pub(crate) struct Loc {
    device: Arc<dyn Device>,
    pool: BufferPool,
    place: LocPlace,
    state: Mutex<State>,
    /// Held by whoever writes to flash: pieces of the active region, its end, the change to the
    /// next. Never taken while `state` is locked.
    turn: async_lock::Mutex<Turn>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct State {
    index: Index,
    regions: Regions,
    active: Option<ActiveRegion>,
}

/// Where a look-up has to go.
enum Found {
    /// In memory, and here it is.
    Here(Fetched),
    /// On flash, in this filling of the region.
    OnFlash(RegionIdentity),
}

impl Loc {
    pub(crate) fn new(device: Arc<dyn Device>, place: LocPlace, counters: Arc<Counters>) -> Self {
        let regions = Regions::new(place.regions, place.first_sequence);
        let index = Index::new(place.regions, place.region_bytes);
        let state = State { index, regions, active: None };
        Self {
            device,
            pool: BufferPool::new(),
            place,
            state: Mutex::new(state),
            turn: async_lock::Mutex::new(None),
            counters,
        }
    }

    /// Whether an object of this hash is stored. Costs no I/O.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.lock().index.get(hash).is_some()
    }

    /// Objects in the index.
    pub(crate) fn len(&self) -> usize {
        self.lock().index.len()
    }

    /// Memory of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.lock().index.memory_bytes()
    }

    /// Looks `key` up: no read if the index does not know it or the object is still in memory, one
    /// otherwise.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Fetched> {
        let (location, found) = self.find(hash)?;
        let fetched = match found {
            Found::Here(fetched) => fetched,
            Found::OnFlash(identity) => self.read(hash, location, identity).await?,
        };
        if fetched.item().key != key {
            return None;
        }
        if fetched.item().is_expired(now_s) {
            self.counters.expired.add(1);
            self.lock().index.remove_if_at(hash, location.region, location.offset);
            return None;
        }
        Some(fetched)
    }

    /// Stores `item` in place of an older version. Says whether it is stored; if not, no version of
    /// the key is.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        debug_assert!(item.object_bytes() <= object_bytes_max(self.place.region_bytes));
        loop {
            if let Some(piece_is_due) = self.append(item) {
                return !piece_is_due || self.write_pieces(item.hash).await;
            }
            if !self.rotate(item.object_bytes(), now_s).await {
                self.counters.lost_to_device_errors_objects.add(1);
                self.remove(item.hash);
                return false;
            }
        }
    }

    /// Appends `item` to the active region. `None` if it has no room; otherwise whether enough has
    /// come together to be written.
    fn append(&self, item: &ItemRef<'_>) -> Option<bool> {
        let state = &mut *self.lock();
        let active = state.active.as_mut()?;
        let piece_bytes = self.place.piece_bytes as usize;
        if state.index.get(item.hash).is_some_and(|location| active.is_at(location, item)) {
            return Some(active.has_piece(piece_bytes)); // a caller gave up after appending it
        }
        active.has_room_for(item.object_bytes()).then(|| {
            append(active, &mut state.index, item);
            active.has_piece(piece_bytes)
        })
    }

    /// Makes sure that no version of the key is stored. Says whether one was. Costs no I/O.
    pub(crate) fn remove(&self, hash: KeyHash) -> bool {
        self.lock().index.remove(hash)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offset_of(&self, region: u32) -> u64 {
        self.place.offset + u64::from(region) * u64::from(self.place.region_bytes)
    }

    fn find(&self, hash: KeyHash) -> Option<(Location, Found)> {
        let state = &mut *self.lock();
        let location = state.index.touch(hash)?;
        state.regions.touch(location.region);
        let region = state.regions.get(location.region);
        let identity = RegionIdentity { region: location.region, sequence: region.sequence };
        let found = match region.state {
            RegionState::Sealed => Some(Found::OnFlash(identity)),
            RegionState::Active => {
                let active = state.active.as_ref()?;
                let bytes = active.records_from(location.offset, location.span);
                let mut buffer = self.pool.take(bytes.len());
                buffer.as_mut_slice().copy_from_slice(bytes);
                parse(buffer, 0, location, identity).map(Found::Here)
            }
            RegionState::Free | RegionState::Retired => None,
        };
        Some((location, found?))
    }

    /// Reads one record from flash. A bad one is forgotten, unless its region was reclaimed while
    /// it was read.
    async fn read(&self, hash: KeyHash, at: Location, identity: RegionIdentity) -> Option<Fetched> {
        self.counters.loc_record_reads.add(1);
        let start = self.offset_of(at.region) + u64::from(at.offset);
        let span = at.span.min(self.place.region_bytes - at.offset);
        let (buffer, skip) = self.read_span(start, span as usize).await?;
        let fetched = parse(buffer, skip, at, identity);
        if fetched.is_none() {
            let mut state = self.lock();
            let same_filling = state.regions.get(at.region).sequence == identity.sequence;
            if same_filling && state.index.remove_if_at(hash, at.region, at.offset) {
                self.counters.loc_bad_records.add(1);
            }
        }
        fetched
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

/// Puts `item` into the active region, which has room, and points the index to it.
fn append(active: &mut ActiveRegion, index: &mut Index, item: &ItemRef<'_>) {
    let FooterEntry { offset, length, .. } = active.append(item);
    index.set(item.hash, active.identity.region, offset, length);
}

/// The record that begins `skip` bytes into the buffer. The index cannot tell all keys apart: whose
/// it is, the record says.
fn parse(buffer: IoBuffer, skip: usize, at: Location, identity: RegionIdentity) -> Option<Fetched> {
    let identity = RecordIdentity { sequence: identity.sequence, offset: at.offset };
    let record = record::parse_first(buffer.as_slice().get(skip..)?, identity)?;
    let hash = KeyHash::of(record.key());
    let record::Record { key_bytes, expiry_s, flags, .. } = record;
    let value_bytes = record.body.len() - key_bytes;
    let at = skip + record.body_at();
    Some(Fetched { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags })
}
