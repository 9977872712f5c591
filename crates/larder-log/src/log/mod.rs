//! The log: its parts, and how records are appended to it.
//!
//! | file | content |
//! |---|---|
//! | `writer` | sends pieces |
//! | `reclaim` | from a full region to the next one; regions that are given up whole |
//! | `read` | reads records and footers |
//! | `unsealed` | seals a region that a crash left open |

mod read;
mod reclaim;
mod unsealed;
mod writer;

pub use read::Unreadable;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Durability, PlacementHandle};

use crate::active::ActiveRegions;
use crate::chunks::CHUNK_BYTES_MAX;
use crate::eviction::RegionEviction;
use crate::form::RecordForm;
use crate::host::{Entries, Host};
use crate::identity::CacheId;
use crate::in_flight::{PIECES_IN_FLIGHT, Writer};
use crate::record::NewRecord;
use crate::region::{RegionId, RegionIdentity, RegionState};
use crate::regions::Regions;
use crate::sweep::Sweep;
use crate::{BLOCK_BYTES, SEGMENTS};

/// The place of a log, the form of its content, and how it evicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlace {
    /// Byte address of region 0.
    pub offset: u64,
    /// Number of regions, at least one.
    pub regions: u32,
    /// Length of a region; a multiple of a block.
    pub region_bytes: u32,
    /// Length of one write to a region; a multiple of a block.
    pub piece_bytes: u32,
    /// How many bytes of all open regions may wait until they fill a piece. Beyond that, the log writes pieces that are
    /// not full.
    pub budget_bytes: usize,
    /// The form of the records.
    pub form: RecordForm,
    /// The streams, at least one. The records of one stream share regions.
    pub streams: Vec<Stream>,
    /// The rule that chooses which region is reclaimed.
    pub eviction: RegionEviction,
    /// How many regions share a reclaim unit, and are reclaimed and deallocated together; a divisor of `regions`.
    /// `None` reclaims one region at a time, and deallocates it only if streams have different placement handles.
    pub regions_per_unit: Option<u32>,
    /// What the end of a region, with its footer, must survive before the region counts as sealed.
    pub durability: Durability,
    /// The cache whose records the log writes and accepts.
    pub cache: CacheId,
    /// Larger than any sequence number that was ever used on the device.
    pub first_sequence: u64,
}

/// Records that will die together, and fill regions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// The placement handle with which they are written.
    pub handle: PlacementHandle,
    /// The segment that their regions belong to, below [`SEGMENTS`].
    pub segment: usize,
    /// Whether its regions are only reclaimed by [`RegionLog::give_up_region`], which names them: the other streams
    /// cannot do without their content.
    pub stays: bool,
}

/// A log with an index of type `E`, owned by a host of type `H`.
pub struct RegionLog<E, H> {
    device: Arc<dyn Device>,
    pool: BufferPool,
    place: LogPlace,
    state: Mutex<LogState<E>>,
    /// Held by the task that writes to flash: pieces of active regions, their ends, the change to the next region. It
    /// is never locked while `state` is locked.
    writer: async_lock::Mutex<Writer>,
    host: H,
}

/// The state that changes in one step: the index, and the regions with the records.
#[derive(Debug)]
pub struct LogState<E> {
    /// The index.
    pub entries: E,
    /// All regions.
    pub regions: Regions,
    /// The regions that are being filled.
    pub active: ActiveRegions,
    /// Regions that are being emptied, and the number of the filling that needs them. A caller that gave up and comes
    /// again goes on with this number.
    emptying: Option<(Vec<RegionId>, u64)>,
    sweep: Sweep,
    /// The placement handle of each stream.
    handles: Vec<PlacementHandle>,
}

impl<E> LogState<E> {
    fn new(place: &LogPlace, entries: E) -> Self {
        let (piece_bytes, budget_bytes) = (place.piece_bytes as usize, place.budget_bytes);
        Self {
            entries,
            regions: Regions::new(place.regions, place.first_sequence),
            active: ActiveRegions::new(place.form, piece_bytes, budget_bytes),
            emptying: None,
            sweep: Sweep::default(),
            handles: place.streams.iter().map(|stream| stream.handle).collect(),
        }
    }

    /// The placement handle of a region of this stream that begins now.
    pub fn handle(&self, stream: usize) -> PlacementHandle {
        self.handles[stream]
    }

    /// Sets the placement handle of regions of this stream that begin from now on. It replaces the one of
    /// [`LogPlace::streams`] until the log is cleared.
    pub fn set_handle(&mut self, stream: usize, handle: PlacementHandle) {
        self.handles[stream] = handle;
    }

    /// The current filling of a region.
    pub fn filling(&self, region: RegionId) -> RegionIdentity {
        RegionIdentity { region, sequence: self.regions.get(region).sequence() }
    }

    /// Whether index entries that point into a region no longer count.
    pub fn is_gone(&self, region: RegionId) -> bool {
        self.regions.get(region).state() == RegionState::Expired
    }
}

impl<E: Entries> LogState<E> {
    /// Appends a record to the open region of its stream, and points the index to it. Returns the region.
    ///
    /// # Panics
    /// If that region has no room for it: see [`ActiveRegion::has_room_for`](crate::ActiveRegion::has_room_for).
    pub fn append(&mut self, stream: usize, new: &NewRecord<'_>) -> RegionId {
        let (region, entry) = self.active.append(stream, new);
        let filling = self.filling(region);
        self.entries.set(stream, filling, &entry);
        region
    }

    /// Appends a record whose `place` is already in the index: see [`ActiveRegions::next_place`].
    ///
    /// # Panics
    /// If that is not its place, or there is no room.
    pub fn append_indexed(
        &mut self,
        stream: usize,
        new: &NewRecord<'_>,
        place: (RegionId, u32, u32),
    ) {
        let (region, entry) = self.active.append(stream, new);
        assert_eq!((region, entry.offset, entry.length), place, "nothing came between");
    }
}

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// A log whose regions are Free.
    ///
    /// # Panics
    /// If `place` contradicts itself.
    pub fn new(device: Arc<dyn Device>, place: LogPlace, entries: E, host: H) -> Self {
        let blocks = [place.region_bytes, place.piece_bytes];
        assert!(blocks.iter().all(|&bytes| (bytes as usize).is_multiple_of(BLOCK_BYTES)));
        assert!(
            place.regions > 0 && 0 < place.piece_bytes && place.piece_bytes <= place.region_bytes
        );
        assert!(place.regions.is_multiple_of(place.regions_per_unit.unwrap_or(1)));
        assert!(!place.streams.is_empty());
        assert!(place.streams.iter().all(|stream| stream.segment < SEGMENTS));
        Self {
            device,
            pool: BufferPool::new(),
            state: Mutex::new(LogState::new(&place, entries)),
            place,
            writer: async_lock::Mutex::new(Writer::default()),
            host,
        }
    }

    /// The place of the log.
    pub fn place(&self) -> &LogPlace {
        &self.place
    }

    /// The host of the log.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The buffers for reads and writes.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Locks the state. The caller must not wait for anything while it holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, LogState<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Length of a region.
    fn region_bytes(&self) -> usize {
        self.place.region_bytes as usize
    }

    /// Byte address of a region.
    pub fn offset_of(&self, region: RegionId) -> u64 {
        assert!(region.number() < self.place.regions);
        self.place.offset + u64::from(region.number()) * u64::from(self.place.region_bytes)
    }

    /// Whether this is the current filling of the region.
    pub fn is_filling(&self, identity: RegionIdentity) -> bool {
        self.lock().filling(identity.region) == identity
    }

    /// Memory of the regions that are being filled, of writes on their way, and of reads.
    pub fn buffer_bytes(&self) -> u64 {
        (self.pool.memory_bytes() + self.lock().active.memory_bytes()) as u64
    }

    /// The value that [`RegionLog::buffer_bytes`] reaches when a region of each stream is being filled and the device
    /// is slow.
    pub fn buffer_bytes_expected(&self) -> u64 {
        let LogPlace { region_bytes, piece_bytes, budget_bytes, .. } = self.place;
        let closed_max = self.closed_max() as u64;
        let streams = self.place.streams.len() as u64;
        buffer_bytes((streams, closed_max), (region_bytes, piece_bytes), budget_bytes as u64)
    }

    /// Makes a region Active, and open for its stream.
    fn begin(&self, state: &mut LogState<E>, filling: RegionIdentity, stream: usize) {
        state.regions.activate(filling.region, filling.sequence);
        let stays = self.place.streams[stream].stays;
        let handle = state.handle(stream);
        state.regions.note_filling(filling.region, (stream, stays, handle), self.host.now_s());
        state.active.begin(self.place.cache, filling, (stream, self.region_bytes()));
    }

    /// Forgets everything: fillings before this number are void, and so is the content of the old `entries`. The caller
    /// makes sure that nothing else uses the log and no operation is under way.
    pub fn clear(&self, first_sequence: u64, entries: E) {
        let mut fresh = LogState::new(&self.place, entries);
        let state = &mut *self.lock();
        // Regions that were given up keep waiting, and no number is used twice.
        std::mem::swap(&mut fresh.regions, &mut state.regions);
        fresh.regions.clear(first_sequence);
        *state = fresh;
    }
}

/// Memory that a log needs when it fills a region of each stream and the device is slow, with `closed_max` closed
/// regions in addition.
#[must_use]
pub fn buffer_bytes(
    (streams, closed_max): (u64, u64),
    (region_bytes, piece_bytes): (u32, u32),
    budget_bytes: u64,
) -> u64 {
    let (region_bytes, piece_bytes) = (u64::from(region_bytes), u64::from(piece_bytes));
    let waiting = (streams * piece_bytes).min(budget_bytes + piece_bytes);
    // The first chunk of a region may begin before the needed bytes, and the last one may end after them.
    let around = (streams + 1) * piece_bytes.min(CHUNK_BYTES_MAX as u64);
    // The bytes of writes on their way exist here and in the device's buffers.
    let in_flight = PIECES_IN_FLIGHT as u64 * piece_bytes;
    let regions = (streams + closed_max) * region_bytes;
    (waiting + around + in_flight).min(regions) + in_flight.min(regions)
}
