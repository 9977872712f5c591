//! Maintains the fingerprint of a core while its cache runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Uuid;
use larder_device::{
    Device, DeviceInfo, Durability, Error, Identifier, IdentifierKind, Identity, Io, IoBuffer,
    IoFuture, PlacementHandle, steps,
};
use slab::Slab;

use super::blocks::{self, SPREAD_MAX, SUPERBLOCKS};
use super::blocks_of;
use super::slot::{Content, ENTRIES_MAX, Entry, Origin, SLOT_BYTES, Slot};
use crate::layout::CoreId;

/// Most blocks that were destaged recently or that have dirty data.
const RECENT_MAX: usize = ENTRIES_MAX - 170;
const _: () = assert!(SPREAD_MAX == 170, "both fill a slot");
/// Attempts to write a slot before the error of the cache device is returned.
const ATTEMPTS: u64 = 3;
/// Destaged blocks that are remembered until the fingerprint is written.
const DESTAGED_MAX: usize = 64;

/// The place of the two slots of a core.
#[derive(Clone)]
pub struct Home {
    /// The cache device.
    pub device: Arc<dyn Device>,
    /// The UUID of the cache.
    pub uuid: Uuid,
    /// Where the first slot begins; the second one follows it.
    pub offset: u64,
}

impl Home {
    fn slot(&self, sequence: u64) -> u64 {
        self.offset + sequence % 2 * SLOT_BYTES as u64
    }

    /// Erases the fingerprint durably.
    ///
    /// # Errors
    /// The error of the device.
    pub async fn clear(&self) -> Result<(), Error> {
        let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
        let (offset, buffer) = (self.offset, IoBuffer::zeroed(2 * SLOT_BYTES));
        let write = Io::Write { offset, buffer, handle, durability };
        self.device.submit(write).await.map(drop).map_err(|failure| failure.error)
    }
}

/// Reads the latest whole fingerprint of a core. `None` if there is none.
///
/// # Errors
/// That of the device. Then there may be an outdated fingerprint, which counts again once it can be read.
pub async fn read(home: &Home, core: CoreId) -> Result<Option<Slot>, Error> {
    let buffer = IoBuffer::zeroed(2 * SLOT_BYTES);
    let found = home.device.submit(Io::Read { offset: home.offset, buffer }).await;
    let found = found.map_err(|failure| failure.error)?;
    let (first, second) = found.as_slice().split_at(SLOT_BYTES);
    let whole = [(first, 0), (second, 1)].into_iter().filter_map(|(bytes, number)| {
        Slot::parse(bytes, home.slot(number), (home.uuid, core))
            .filter(|slot| slot.sequence % 2 == number)
    });
    Ok(whole.max_by_key(|slot| slot.sequence))
}

/// Maintains the fingerprint of a core: blocks become void before they change, and [`refresh`](Self::refresh) reads
/// them again.
pub struct Watch {
    home: Home,
    core: CoreId,
    device: Arc<dyn Device>,
    state: Mutex<FingerprintState>,
    /// Held while a slot is written.
    writer: async_lock::Mutex<()>,
}

#[derive(Debug, Default)]
struct FingerprintState {
    entries: BTreeMap<u64, WatchedBlock>,
    /// Recent blocks, the oldest first.
    recent: VecDeque<u64>,
    /// Blocks destaged since the fingerprint was last written, the oldest first.
    destaged: VecDeque<u64>,
    /// Blocks being read; `true` if a block has changed since its read began.
    reading: BTreeMap<u64, bool>,
    /// Blocks that are being changed on the core.
    under_way: Slab<Range<u64>>,
    /// The number of changes of the fingerprint. `durable`: the changes up to this one are on the cache device.
    changes: u64,
    durable: u64,
    /// The sequence number of the last written slot.
    sequence: u64,
    /// The UUID of the file system, as long as its superblocks have not changed.
    file_system: Option<Identifier>,
}

#[derive(Clone, Copy, Debug)]
struct WatchedBlock {
    origin: Origin,
    content: Content,
    /// The number of the change that made it void.
    void_since: u64,
}

impl Watch {
    /// Continues from the stored slot, or starts with nothing known.
    pub fn new(home: Home, core: CoreId, device: Arc<dyn Device>, stored: Option<Slot>) -> Self {
        let mut state = FingerprintState::default();
        let void = WatchedBlock { origin: Origin::Spread, content: Content::Void, void_since: 0 };
        let spread = blocks::spread(home.uuid, device.info().capacity_bytes);
        state.entries.extend(spread.into_iter().map(|block| (block, void)));
        if let Some(slot) = stored {
            state.sequence = slot.sequence;
            state.file_system = slot.identity.of_kind(IdentifierKind::FileSystem).cloned();
            for Entry { block, origin, content } in slot.entries {
                if origin == Origin::Recent {
                    state.recent.push_back(block);
                }
                state.entries.insert(block, WatchedBlock { origin, content, void_since: 0 });
            }
        }
        Self { home, core, device, state: Mutex::new(state), writer: async_lock::Mutex::new(()) }
    }

    /// The cache is about to change these bytes of the core. The caller must not submit the change before
    /// [`voided`](Change::voided) has ended.
    pub(crate) fn begin(self: &Arc<Self>, bytes: Range<u64>, kind: ChangeKind) -> Change {
        let blocks = blocks_of(bytes);
        let mut state = self.lock();
        let key = state.under_way.insert(blocks.clone());
        for (_, has_changed) in state.reading.range_mut(blocks.clone()) {
            *has_changed = true;
        }
        let needed = state.make_void(&blocks, kind);
        if kind == ChangeKind::Destage {
            state.destaged.push_back(blocks.start);
            if state.destaged.len() > DESTAGED_MAX {
                state.destaged.pop_front();
            }
        }
        drop(state);
        Change { watch: Arc::clone(self), key, needed }
    }

    /// Reads void, recently destaged and `dirty` blocks, and writes the fingerprint if it has changed. Clients
    /// continue during this.
    ///
    /// # Errors
    /// Those of the devices; the durable fingerprint is then still valid.
    pub async fn refresh(self: &Arc<Self>, dirty: &[u64]) -> Result<(), Error> {
        let wanted = self.lock().begin_reading(dirty, self.device.info().capacity_bytes);
        if !wanted.is_empty() {
            let contents = blocks::contents(&self.device, wanted.keys().copied()).await;
            let superblocks = SUPERBLOCKS.into_iter().filter(|block| wanted.contains_key(block));
            let of_device: Vec<u64> = superblocks.collect();
            let file_system = blocks::file_system_of(&self.device, of_device.iter().copied()).await;
            // Content that a power loss can revert must not be recorded.
            let flushed = self.device.submit(Io::Flush).await;
            let mut state = self.lock();
            let is_as_read = |block: &u64| state.reading.get(block) == Some(&false);
            if !of_device.is_empty() && of_device.iter().all(is_as_read) && flushed.is_ok() {
                state.file_system = file_system;
            }
            for ((block, origin), content) in wanted.into_iter().zip(contents) {
                let has_changed = state.reading.remove(&block).unwrap_or(true);
                if let Some(content) = content.filter(|_| !has_changed && flushed.is_ok()) {
                    state.know(block, origin, content);
                }
            }
            drop(state);
            flushed.map_err(|failure| failure.error)?;
        }
        let needed = self.lock().changes;
        self.persist(needed).await.map(drop).map_err(|failure| failure.error)
    }

    /// Writes a slot unless the cache device has all changes up to `needed`. The write runs to its end even if the
    /// future is dropped. Changes made during the write go to the next slot.
    fn persist(self: &Arc<Self>, needed: u64) -> IoFuture {
        let watch = Arc::clone(self);
        steps::request(async move {
            let _writes = watch.writer.lock().await;
            let mut written = Ok(IoBuffer::empty());
            for attempt in 0..ATTEMPTS {
                let Some((slot, changes)) = watch.next_slot(needed, attempt) else {
                    return Ok(IoBuffer::empty());
                };
                let offset = watch.home.slot(slot.sequence);
                let mut buffer = IoBuffer::zeroed(SLOT_BYTES);
                buffer.copy_in(0, &slot.encode(offset));
                let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
                let write = Io::Write { offset, buffer, handle, durability };
                written = watch.home.device.submit(write).await;
                if written.is_ok() {
                    watch.lock().is_written(slot.sequence, changes);
                    break;
                }
            }
            written
        })
    }

    /// The next slot to write. The first attempt keeps the latest whole slot. The second attempt overwrites it: no
    /// fingerprint is better than one of blocks that have changed since.
    fn next_slot(&self, needed: u64, attempt: u64) -> Option<(Slot, u64)> {
        let state = self.lock();
        if state.durable >= needed && state.sequence > 0 {
            return None;
        }
        let is_stored =
            |it: &WatchedBlock| it.origin == Origin::Spread || it.content != Content::Void;
        let entries = state.entries.iter().filter(|(_, watched)| is_stored(watched));
        let entry = |(block, watched): (&u64, &WatchedBlock)| Entry {
            block: *block,
            origin: watched.origin,
            content: watched.content,
        };
        let info = self.device.info();
        let slot = Slot {
            core: self.core,
            uuid: self.home.uuid,
            sequence: state.sequence + 1 + attempt,
            core_bytes: info.capacity_bytes,
            identity: state.identity(info),
            entries: entries.map(entry).collect(),
        };
        Some((slot, state.changes))
    }

    /// Makes the next [`refresh`](Self::refresh) write the fingerprint if the device had another identity.
    pub fn is_known_by(&self, identity: &Identity) {
        let mut state = self.lock();
        if *identity != state.identity(self.device.info()) {
            state.changes += 1;
        }
    }

    /// The current identity of the device.
    pub fn identity(&self) -> Identity {
        self.lock().identity(self.device.info())
    }

    /// Whether the cache device has the latest fingerprint and identity.
    pub fn is_stored(&self) -> bool {
        let state = self.lock();
        state.sequence > 0 && state.durable == state.changes
    }

    fn lock(&self) -> MutexGuard<'_, FingerprintState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FingerprintState {
    fn identity(&self, info: &DeviceInfo) -> Identity {
        Identity::new(info.identity.identifiers().iter().chain(&self.file_system).cloned())
    }

    /// Makes blocks void because they are about to change. Returns the change that must be durable before that.
    fn make_void(&mut self, blocks: &Range<u64>, kind: ChangeKind) -> Option<u64> {
        let mut needed = 0;
        if SUPERBLOCKS.iter().any(|block| blocks.contains(block)) {
            self.file_system = None;
        }
        for (_, watched) in self.entries.range_mut(blocks.clone()) {
            if matches!(watched.content, Content::Known { .. }) {
                self.changes += 1;
                watched.void_since = self.changes;
            }
            let is_trim = kind == ChangeKind::Trim;
            watched.content = if is_trim { Content::Trimmed } else { Content::Void };
            needed = needed.max(watched.void_since);
        }
        (needed > self.durable).then_some(needed)
    }

    /// Selects the blocks to read; excludes blocks that are being changed.
    fn begin_reading(&mut self, dirty: &[u64], core_bytes: u64) -> BTreeMap<u64, Origin> {
        let ends = core_bytes / super::BLOCK_BYTES;
        let is_void = |watched: &WatchedBlock| watched.content == Content::Void;
        let void = self.entries.iter().filter(|(_, watched)| is_void(watched));
        let mut wanted: BTreeMap<u64, Origin> =
            void.map(|(block, watched)| (*block, watched.origin)).collect();
        // The file system is determined from all superblocks together.
        if SUPERBLOCKS.iter().any(|block| wanted.contains_key(block)) {
            let others = SUPERBLOCKS.into_iter().filter_map(|block| {
                let watched = self.entries.get(&block)?;
                (watched.content != Content::Trimmed).then_some((block, watched.origin))
            });
            wanted.extend(others);
        }
        let lately: BTreeSet<u64> = self.destaged.drain(..).chain(dirty.iter().copied()).collect();
        for block in lately.into_iter().filter(|block| *block < ends) {
            if !self.entries.contains_key(&block) {
                wanted.insert(block, Origin::Recent);
            }
        }
        let changing = &self.under_way;
        wanted.retain(|block, _| changing.iter().all(|(_, range)| !range.contains(block)));
        self.reading = wanted.keys().map(|block| (*block, false)).collect();
        wanted
    }

    fn know(&mut self, block: u64, origin: Origin, content: Content) {
        self.changes += 1;
        let before = self.entries.insert(block, WatchedBlock { origin, content, void_since: 0 });
        if origin == Origin::Spread || before.is_some_and(|it| it.origin == Origin::Recent) {
            return;
        }
        self.recent.push_back(block);
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
            && let Some(watched) = self.entries.get_mut(&oldest)
        {
            // The stored slot still has this block until the next slot is written.
            (watched.content, watched.void_since) = (Content::Void, self.changes);
        }
    }

    /// The cache device has all changes up to `changes`.
    fn is_written(&mut self, sequence: u64, changes: u64) {
        (self.sequence, self.durable) = (sequence, changes);
        let is_left = |watched: &WatchedBlock| {
            watched.origin == Origin::Recent
                && watched.content == Content::Void
                && watched.void_since <= changes
        };
        self.entries.retain(|_, watched| !is_left(watched));
        let entries = &self.entries;
        self.recent.retain(|block| entries.contains_key(block));
    }
}

/// The kind of a change of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// Destaging of dirty data.
    Destage,
    /// A write of a client to the core, around the cache or in addition to it.
    Write,
    /// A trim: the content is no longer needed.
    Trim,
}

/// A change of a core that has begun.
pub(crate) struct Change {
    watch: Arc<Watch>,
    key: usize,
    needed: Option<u64>,
}

impl Change {
    /// Ends when the fingerprint of the changed blocks is durably void. If the cache device refuses the write, the
    /// change goes on nevertheless: a start may then find the core changed, and ask the operator.
    pub(crate) async fn voided(&self) {
        if let Some(needed) = self.needed {
            let _ = self.watch.persist(needed).await;
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.watch.lock().under_way.remove(self.key);
    }
}
