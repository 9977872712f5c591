//! The log: what it is made of, and how records come into it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Durability, PlacementHandle};

use crate::active::ActiveRegions;
use crate::chunks::CHUNK_BYTES_MAX;
use crate::eviction::RegionEviction;
use crate::expired::Sweep;
use crate::form::RecordForm;
use crate::host::{Entries, Host};
use crate::identity::CacheId;
use crate::in_flight::PIECES_IN_FLIGHT;
use crate::record::NewRecord;
use crate::region::{RegionId, RegionIdentity, RegionState};
use crate::regions::Regions;
use crate::writer::Writer;
use crate::{BLOCK_BYTES, SEGMENTS};

/// Where a log lies, what it may touch and how it evicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlace {
    /// Byte address of region 0.
    pub offset: u64,
    /// How many there are, at least one.
    pub regions: u32,
    /// Length of one; whole blocks.
    pub region_bytes: u32,
    /// How much of a region is written at a time; whole blocks.
    pub piece_bytes: u32,
    /// How many bytes of all open regions may wait until they fill a piece. Beyond that, pieces are
    /// written that are not full.
    pub budget_bytes: usize,
    /// What records are like.
    pub form: RecordForm,
    /// What shares a region, at least one.
    pub streams: Vec<Stream>,
    /// Which region gives way.
    pub eviction: RegionEviction,
    /// How many regions share a reclaim unit, and are reclaimed and deallocated together; a
    /// divisor of `regions`. `None` reclaims one at a time and deallocates nothing.
    pub regions_per_unit: Option<u32>,
    /// What the end of a region, with its footer, must survive before the region counts as sealed.
    pub durability: Durability,
    /// Whose records to write and to believe.
    pub cache: CacheId,
    /// Larger than any sequence number that was ever used on the device.
    pub first_sequence: u64,
}

/// Records that will die together, and fill regions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Which placement handle they are written with.
    pub handle: PlacementHandle,
    /// Which segment their regions come to, below [`SEGMENTS`].
    pub segment: usize,
    /// Whether its regions give way only to whoever gives them up by name ([`RegionLog::give_up_region`]): no other
    /// stream can do without what is in them.
    pub stays: bool,
}

/// A log with an index of kind `E`, run by a host of kind `H`.
pub struct RegionLog<E, H> {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) pool: BufferPool,
    pub(crate) place: LogPlace,
    pub(crate) state: Mutex<LogState<E>>,
    /// Held by whoever writes to flash: pieces of active regions, their ends, the change to the
    /// next. Never taken while `state` is locked.
    pub(crate) writer: async_lock::Mutex<Writer>,
    pub(crate) host: H,
}

/// What changes in one step: where records lie, and in what.
#[derive(Debug)]
pub struct LogState<E> {
    /// Where they lie.
    pub entries: E,
    /// All regions.
    pub regions: Regions,
    /// Those that are being filled.
    pub active: ActiveRegions,
    /// Regions that are being emptied for the filling of this number: a caller that gave up and comes
    /// again goes on with it.
    pub(crate) emptying: Option<(Vec<RegionId>, u64)>,
    pub(crate) sweep: Sweep,
    /// Of each stream.
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

    /// With which placement handle a region of this stream is written that is begun now.
    pub fn handle(&self, stream: usize) -> PlacementHandle {
        self.handles[stream]
    }

    /// Regions of this stream that are begun from now on are written with this placement handle, and no longer with
    /// that of [`LogPlace::streams`], until the log is cleared.
    pub fn set_handle(&mut self, stream: usize, handle: PlacementHandle) {
        self.handles[stream] = handle;
    }

    /// Which filling is in a region.
    pub fn filling(&self, region: RegionId) -> RegionIdentity {
        RegionIdentity { region, sequence: self.regions.get(region).sequence() }
    }

    /// Whether entries that point into a region do not count any more.
    pub fn is_gone(&self, region: RegionId) -> bool {
        self.regions.get(region).state() == RegionState::Expired
    }
}

impl<E: Entries> LogState<E> {
    /// Appends a record to the open region of its stream, and points the index to it. Says in which region
    /// it lies.
    ///
    /// # Panics
    /// If that region has no room for it: see [`ActiveRegion::has_room_for`](crate::ActiveRegion::has_room_for).
    pub fn append(&mut self, stream: usize, new: &NewRecord<'_>) -> RegionId {
        let (region, entry) = self.active.append(stream, new);
        let filling = self.filling(region);
        self.entries.set(stream, filling, &entry);
        region
    }

    /// The same where the index points to its `place` already: see [`ActiveRegions::next_place`].
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

    /// Where it lies.
    pub fn place(&self) -> &LogPlace {
        &self.place
    }

    /// Whoever runs it.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Memory for what is read and written.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Its state, as long as nobody waits for anything.
    pub fn lock(&self) -> MutexGuard<'_, LogState<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Length of a region.
    pub(crate) fn region_bytes(&self) -> usize {
        self.place.region_bytes as usize
    }

    /// Byte address of a region.
    pub fn offset_of(&self, region: RegionId) -> u64 {
        assert!(region.number() < self.place.regions);
        self.place.offset + u64::from(region.number()) * u64::from(self.place.region_bytes)
    }

    /// Whether this is what the region is filled with now.
    pub fn is_filling(&self, identity: RegionIdentity) -> bool {
        self.lock().filling(identity.region) == identity
    }

    /// Memory of what is being filled, on its way, and read.
    pub fn buffer_bytes(&self) -> u64 {
        (self.pool.memory_bytes() + self.lock().active.memory_bytes()) as u64
    }

    /// As much as that becomes when a region of each stream is filled, and the device takes its time.
    pub fn buffer_bytes_expected(&self) -> u64 {
        let LogPlace { region_bytes, piece_bytes, budget_bytes, .. } = self.place;
        let closed_max = self.closed_max() as u64;
        let streams = self.place.streams.len() as u64;
        buffer_bytes((streams, closed_max), (region_bytes, piece_bytes), budget_bytes as u64)
    }

    /// A region is Active now, and open for its stream.
    pub(crate) fn begin(&self, state: &mut LogState<E>, filling: RegionIdentity, stream: usize) {
        state.regions.activate(filling.region, filling.sequence);
        let stays = self.place.streams[stream].stays;
        let handle = state.handle(stream);
        state.regions.note_filling(filling.region, (stream, stays, handle), self.host.now_s());
        state.active.begin(self.place.cache, filling, (stream, self.region_bytes()));
    }

    /// Forgets everything: fillings before this number are void, and so is what `entries` had. Nobody
    /// else uses the log, and nothing is under way.
    pub fn clear(&self, first_sequence: u64, entries: E) {
        let mut fresh = LogState::new(&self.place, entries);
        let state = &mut *self.lock();
        // Regions that were given up wait on, and numbers are not used twice.
        std::mem::swap(&mut fresh.regions, &mut state.regions);
        fresh.regions.clear(first_sequence);
        *state = fresh;
    }
}

/// Memory that a log needs when a region of each of so many streams is filled, and the device takes its time, beside so
/// many closed regions.
#[must_use]
pub fn buffer_bytes(
    (streams, closed_max): (u64, u64),
    (region_bytes, piece_bytes): (u32, u32),
    budget_bytes: u64,
) -> u64 {
    let (region_bytes, piece_bytes) = (u64::from(region_bytes), u64::from(piece_bytes));
    let waiting = (streams * piece_bytes).min(budget_bytes + piece_bytes);
    // The first chunk of a region may begin before what is needed of it, or the last one end behind.
    let around = (streams + 1) * piece_bytes.min(CHUNK_BYTES_MAX as u64);
    // What is on its way is here and in the device's hands.
    let in_flight = PIECES_IN_FLIGHT as u64 * piece_bytes;
    let regions = (streams + closed_max) * region_bytes;
    (waiting + around + in_flight).min(regions) + in_flight.min(regions)
}
