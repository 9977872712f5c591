//! Loss of power at any moment: acknowledged data is there, and freed blocks stay away.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder_blocks::{BlockId, BlockStore, BlocksOnDevice, BlocksOptions, Stream};
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, IoBuffer, IoFuture, MemoryDevice,
};

use super::on_device::{BLOCK_BYTES, DEVICE_BYTES};

const PAGE: usize = 4096;
const SEEDS: u64 = 1000;
/// Losses of power in the run of each seed.
const LOSSES: u64 = 3;

/// What the test knows of a block.
#[derive(Debug, Default)]
struct Known {
    tag: u64,
    bytes: Vec<u8>,
    /// Number of its bytes that are acknowledged.
    acknowledged: usize,
    /// A free was begun.
    freeing: bool,
}

/// A device that can lose its power.
pub(super) trait Power {
    fn is_down(&self) -> bool;

    /// Completes held-back requests.
    fn release(&self);
}

impl Power for FaultDevice<MemoryDevice> {
    fn is_down(&self) -> bool {
        FaultDevice::is_down(self)
    }

    fn release(&self) {
        self.release_delayed();
    }
}

/// The operations on a store over such a device, and what is known of the store.
pub(super) struct Trial<D> {
    device: Arc<D>,
    known: BTreeMap<BlockId, Known>,
    /// Tags of allocations that were never acknowledged.
    unheard: BTreeSet<u64>,
    freed: BTreeSet<BlockId>,
    newest: BlockId,
    rng: fastrand::Rng,
}

/// Completes held-back requests until `future` is done; its output is an error after a loss of power.
pub(super) fn finish<F: Future>(device: &impl Power, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => return output,
            Poll::Pending => device.release(),
        }
    }
}

impl<D: Power> Trial<D> {
    pub(super) fn new(device: &Arc<D>, seed: u64) -> Self {
        Self {
            device: Arc::clone(device),
            known: BTreeMap::new(),
            unheard: BTreeSet::new(),
            freed: BTreeSet::new(),
            newest: BlockId::new(0),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    fn finish<F: Future>(&self, future: F) -> F::Output {
        finish(&*self.device, future)
    }

    /// Works until power is lost.
    pub(super) fn work(&mut self, store: &dyn BlockStore) {
        while !self.device.is_down() {
            match self.rng.u32(..10) {
                0..2 => self.alloc(store),
                2..8 => self.append(store),
                _ => self.free(store),
            }
        }
    }

    fn alloc(&mut self, store: &dyn BlockStore) {
        let tag = self.rng.u64(..);
        match self.finish(store.alloc(Stream::DEFAULT, tag)) {
            Ok(block) => {
                assert!(block > self.newest, "{block} after {}", self.newest);
                self.newest = block;
                self.known.insert(block, Known { tag, ..Known::default() });
            }
            Err(_) => drop(self.unheard.insert(tag)),
        }
    }

    /// Appends to several blocks, with all appends in flight at the same time.
    fn append(&mut self, store: &dyn BlockStore) {
        let mut under_way: Vec<(BlockId, usize, IoFuture)> = Vec::new();
        let blocks: Vec<BlockId> = self.known.keys().copied().collect();
        for _ in 0..self.rng.usize(1..6) {
            let Some(block) = self.rng.choice(&blocks) else { return };
            let known = self.known.get_mut(block).unwrap();
            let at = known.bytes.len();
            let room = (usize::try_from(store.info().block_bytes).unwrap() - at) / PAGE;
            if room == 0 || known.freeing {
                continue;
            }
            let mut buffer = IoBuffer::zeroed(self.rng.usize(1..=room.min(3)) * PAGE);
            self.rng.fill(buffer.as_mut_slice());
            known.bytes.extend(buffer.as_slice());
            let end = known.bytes.len();
            under_way.push((*block, end, store.append(*block, at as u64, buffer)));
        }
        for (block, end, append) in under_way {
            if self.finish(append).is_ok() {
                let known = self.known.get_mut(&block).unwrap();
                known.acknowledged = known.acknowledged.max(end);
            }
        }
    }

    fn free(&mut self, store: &dyn BlockStore) {
        let blocks: Vec<BlockId> = self.known.keys().copied().collect();
        let Some(block) = self.rng.choice(blocks) else { return };
        self.known.get_mut(&block).unwrap().freeing = true;
        if self.finish(store.free(block)).is_ok() {
            self.known.remove(&block);
            self.freed.insert(block);
        }
    }

    /// Compares the store with what is known. What was found becomes the known state.
    pub(super) fn judge(&mut self, store: &dyn BlockStore, at: &str) {
        let listed = store.list();
        for state in &listed {
            assert!(!self.freed.contains(&state.block), "{at}: {state:?} was freed");
            self.newest = self.newest.max(state.block);
        }
        for (block, known) in &self.known {
            let is_there = listed.iter().any(|state| state.block == *block);
            assert!(is_there || known.freeing, "{at}: block {block} is gone: {}", known.tag);
        }
        let mut found = BTreeMap::new();
        for state in listed {
            let known = self.known.remove(&state.block).unwrap_or_default();
            let is_known = known.tag == state.tag || self.unheard.contains(&state.tag);
            assert!(is_known, "{at}: {state:?} and {}", known.tag);
            let written = usize::try_from(state.written_bytes).unwrap();
            assert!((known.acknowledged..=known.bytes.len()).contains(&written), "{at}: {state:?}");
            let mut bytes = known.bytes;
            bytes.truncate(written);
            if written > 0 {
                let read = self.finish(store.read(state.block, 0, IoBuffer::zeroed(written)));
                assert!(read.unwrap().as_slice() == bytes, "{at}: {state:?} has other bytes");
            }
            let tag = state.tag;
            let known = Known { tag, bytes, acknowledged: written, freeing: false };
            found.insert(state.block, known);
        }
        self.freed.extend(std::mem::replace(&mut self.known, found).into_keys());
    }
}

fn plan(seed: u64, loss: u64) -> FaultPlan {
    let mut rng = fastrand::Rng::with_seed(seed << 8 | loss);
    let crash = FaultRule::new(Fault::Crash);
    let crash = match rng.u32(..3) {
        // Most requests are writes; some of the losses must hit deallocations.
        0 => crash.on_deallocates().at_match(rng.u64(..8)),
        _ => crash.on_writes().at_match(rng.u64(..200)),
    };
    let plan = FaultPlan::new(rng.u64(..)).with(crash);
    if rng.bool() { plan.completing_out_of_order(6) } else { plan }
}

#[test]
fn what_was_acknowledged_survives_losses_of_power() {
    let (mut torn, mut lost) = (0, 0);
    for seed in 0..SEEDS {
        let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
        // The plan that the device is created with; each loss replaces it.
        let order = if seed % 2 == 0 { 0 } else { 6 };
        let first = FaultPlan::new(seed).completing_out_of_order(order);
        let device = Arc::new(FaultDevice::new(below, &first));
        let options = BlocksOptions { block_bytes: BLOCK_BYTES, journal_log_pages: Some(5) };
        let store = finish(&*device, BlocksOnDevice::format(device.clone(), &options)).unwrap();
        let mut trial = Trial::new(&device, seed);
        let mut store = store;
        for loss in 0..LOSSES {
            device.set_plan(&plan(seed, loss));
            trial.work(&store);
            drop(store);
            device.restart().unwrap();
            device.set_plan(&FaultPlan::new(seed));
            let opening = BlocksOnDevice::open(Arc::clone(&device) as Arc<dyn Device>);
            store = finish(&*device, opening).unwrap_or_else(|error| {
                panic!("seed {seed}, loss {loss}: {error}");
            });
            trial.judge(&store, &format!("seed {seed}, loss {loss}"));
        }
        torn += device.counts().torn_by_crash;
        lost += device.counts().lost_by_crash;
    }
    println!("{} losses of power, {torn} writes torn, {lost} lost", SEEDS * LOSSES);
    assert!(torn > SEEDS && lost > SEEDS / 10, "{torn} torn, {lost} lost");
}
