//! Blocks of a virtual SSD below a cache: an array in memory whose channels are swapped continuously, and whose power
//! fails in the middle of media operations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_blocks::vssd::MemoryKeeper;
use larder_blocks::{
    AllocFuture, BlockId, BlockIo, BlockStore, CheckedBlockIo, Ledger, StoreInfo, Stream,
    VssdArray, VssdBlocks,
};
use larder_device::{DeviceStats, Error, ErrorKind, IoBuffer, IoFuture, IoResult};
use larder_ssd::nand::{ChannelIndex, DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{Isolation, MemoryImages, Request, Swap, Throughputs, VssdId, channel_pairs};

use super::device::StagedDevice;

/// Bytes of blocks below a cache: a divisor of every region.
pub(super) const BLOCK_BYTES: u64 = 32 << 10;
const CHANNELS: u32 = 4;
const PAGE_BYTES: u32 = 4096;
/// Pages that a die programs at once.
const STRIPE_PAGES: u32 = 2;
/// When a swap waits, one step in this number abandons it.
const ABANDONED_ONE_IN: u32 = 16;
/// Maximum number of media operations before the power fails.
const OPERATIONS_MAX: u64 = 40;

/// An array with the cache's vSSD, and a neighbour whose blocks must not change.
pub(super) struct OnVssd {
    array: VssdArray,
    cache: VssdId,
    pub(super) moved_parts: u64,
}

impl OnVssd {
    /// A vSSD with a channel of `bytes`, in blocks of [`BLOCK_BYTES`].
    pub(super) fn new(bytes: u64) -> Self {
        let block_pages = u32::try_from(BLOCK_BYTES).expect("it is small") / PAGE_BYTES;
        let geometry = NandGeometry {
            array: DieArray { channels: CHANNELS, dies_per_channel: 1 },
            planes: 1,
            bits: STRIPE_PAGES,
            blocks_per_die: u32::try_from(bytes / BLOCK_BYTES).expect("it is small"),
            pages_per_block: block_pages,
            page_bytes: PAGE_BYTES,
            mapping_bytes: PAGE_BYTES,
        };
        let config = RawConfig { page_words: true, ..RawConfig::new(geometry) };
        let drives = vec![RawSsd::new(config).expect("such a drive can be")];
        let rates = Throughputs { channel_mb_s: 400, die_mb_s: 400, soft_plane_mb_s: 100 };
        let (images, keeper) = (Box::<MemoryImages>::default(), Box::<MemoryKeeper>::default());
        let array = VssdArray::create(drives, images, keeper, [1; 16], rates);
        let array = array.expect("the drives are ours");
        let request = Request { isolation: Isolation::Channel, mb_s: 0, bytes: 1 };
        let alloc = || array.alloc(request).expect("there are channels");
        let (cache, neighbour) = (alloc(), alloc());
        let store = array.store(neighbour).expect("it has none");
        for tag in 0..8 {
            let block = store.alloc(Stream::DEFAULT, tag).wait().expect("there is room");
            let pages = IoBuffer::zeroed((3 * PAGE_BYTES) as usize);
            store.append(block, 0, pages).wait().expect("it is new");
        }
        drop(store);
        Self { array, cache, moved_parts: 0 }
    }

    /// The store of the cache, with requests that `stage` releases. It is closed through `closed`.
    pub(super) fn store(
        &self,
        stage: &Arc<StagedDevice>,
        closed: &Arc<AtomicBool>,
    ) -> Result<StagedBlocks, Error> {
        let store = Arc::new(self.array.store(self.cache)?);
        let (stage, closed) = (Arc::clone(stage), Arc::clone(closed));
        Ok(StagedBlocks { store, stage, closed, appends: Arc::default() })
    }

    /// The properties of the store.
    pub(super) fn info(&self) -> Result<StoreInfo, Error> {
        Ok(self.array.store(self.cache)?.info().clone())
    }

    /// Moves a part of a block, or begins another swap of two channels.
    pub(super) fn swap_step(&mut self, rng: &mut fastrand::Rng) -> Result<(), Error> {
        match self.array.swap_step()? {
            Swap::Moved { .. } => self.moved_parts += 1,
            Swap::Waiting if rng.u32(..ABANDONED_ONE_IN) > 0 => {}
            Swap::Waiting => self.array.swap_abandon()?,
            Swap::Done => {
                let one = rng.u32(..CHANNELS);
                let other = (one + rng.u32(1..CHANNELS)) % CHANNELS;
                let dies = DieArray { channels: CHANNELS, dies_per_channel: 1 };
                let pairs = channel_pairs(dies, ChannelIndex(one), ChannelIndex(other), None);
                let pairs = pairs.expect("there are two of them");
                self.array.swap_begin(0, &pairs)?;
            }
        }
        Ok(())
    }

    /// Makes the power fail soon.
    pub(super) fn cut_power_soon(&self, rng: &mut fastrand::Rng) {
        self.array.cut_power_after(0, rng.u64(..OPERATIONS_MAX));
    }

    /// Restores the power. It may fail once more during recovery.
    pub(super) fn power_cycle(&self, rng: &mut fastrand::Rng) -> Result<(), Error> {
        if rng.bool() && self.array.power_cycle().is_ok() {
            self.cut_power_soon(rng);
        }
        self.array.power_cycle().map(drop)
    }

    /// Checks the whole state: the map, and each page by its checksum.
    pub(super) fn verify(&self) -> Result<(), String> {
        let verified = self.array.verify().map_err(|error| error.to_string())?;
        verified.wrong.is_empty().then_some(()).ok_or_else(|| verified.wrong.join("; "))
    }
}

/// The blocks of a vSSD, with requests that are executed and end when the simulation decides; appends to a block stay
/// in order.
pub(super) struct StagedBlocks {
    store: Arc<VssdBlocks>,
    stage: Arc<StagedDevice>,
    closed: Arc<AtomicBool>,
    appends: Arc<Mutex<Appends>>,
}

/// Appends that were not executed yet, and results of those that were, but whose callers have no answer yet.
#[derive(Default)]
struct Appends {
    number: u64,
    waiting: BTreeMap<BlockId, VecDeque<(u64, CheckedBlockIo)>>,
    ended: BTreeMap<u64, IoResult>,
}

impl StagedBlocks {
    /// Holds an append; it is executed when it, or a later one to the same block, is released.
    fn hold_append(&self, block: BlockId, io: CheckedBlockIo) -> IoFuture {
        let number = {
            let mut appends = lock(&self.appends);
            appends.number += 1;
            let number = appends.number;
            appends.waiting.entry(block).or_default().push_back((number, io));
            number
        };
        let (store, appends) = (Arc::clone(&self.store), Arc::clone(&self.appends));
        self.stage.hold(move || {
            append_up_to(&store, &appends, block, number);
            lock(&appends).ended.remove(&number).expect("it has happened")
        })
    }
}

/// Executes the appends to `block` up to this one.
fn append_up_to(store: &VssdBlocks, appends: &Mutex<Appends>, block: BlockId, last: u64) {
    loop {
        let next = {
            let mut appends = lock(appends);
            let waiting = appends.waiting.get_mut(&block);
            waiting
                .filter(|it| it.front().is_some_and(|(number, _)| *number <= last))
                .and_then(VecDeque::pop_front)
        };
        let Some((number, io)) = next else { return };
        // It ends at once, because no earlier append is left.
        let ended = store.start(io).wait();
        lock(appends).ended.insert(number, ended);
    }
}

fn lock(appends: &Mutex<Appends>) -> MutexGuard<'_, Appends> {
    appends.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockStore for StagedBlocks {
    fn info(&self) -> &StoreInfo {
        self.store.info()
    }

    fn ledger(&self) -> &Ledger {
        self.store.ledger()
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        if self.closed.load(Ordering::Relaxed) {
            return io.fail(Error::new(ErrorKind::Gone, "its process is no more"));
        }
        match *io.get() {
            BlockIo::Append { block, .. } => self.hold_append(block, io),
            BlockIo::Free { block } => {
                append_up_to(&self.store, &self.appends, block, u64::MAX);
                self.stage.hold_begun(self.store.start(io))
            }
            _ => {
                let store = Arc::clone(&self.store);
                self.stage.hold(move || store.start(io).wait())
            }
        }
    }

    fn stats(&self) -> DeviceStats {
        self.store.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.store.boot()
    }

    /// The array allocates the number at once.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        if self.closed.load(Ordering::Relaxed) {
            return AllocFuture::refused(Error::new(ErrorKind::Gone, "its process is no more"));
        }
        self.store.alloc(stream, tag)
    }
}
