//! Loss of power at any moment, including during an opening: acknowledged data is there, in pages and in slots.
//!
//! `LARDER_CRASH_POINTS` is the number of power losses (default 6,000), `LARDER_CRASH_SEED` the first seed.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder_blocks::{
    BlockStore, BlocksOnDevice, DeviceOnBlocks, DeviceOnBlocksOptions, MemoryBlocks,
};
use larder_device::{
    Device, Error, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoFuture, MemoryDevice,
};

use super::cut_blocks::{Cut, CutBlocks};
use super::{
    APART, BLOCK_BYTES, OPTIONS, PAGE, SLOTS, blocks_options, bytes_below, read, slot_offset,
    write, write_with,
};

const LOSSES_A_SEED: u64 = 4;
const SLOT_PAGES: usize = 8;
const _: () = assert!(SLOT_PAGES as u64 * PAGE as u64 == BLOCK_BYTES);

/// A store whose power can be lost.
trait Below {
    fn store(&self) -> Arc<dyn BlockStore>;
    fn is_down(&self) -> bool;
    /// Completes held-back requests until `future` is done.
    fn finish<F: Future>(&self, future: F) -> F::Output;
    /// Makes one of the next requests lose the power.
    fn lose_power_soon(&self, rng: &mut fastrand::Rng);
    fn restart(&mut self, rng: &mut fastrand::Rng);
}

/// Blocks on a device that loses power.
struct OnFaults {
    device: Arc<FaultDevice<MemoryDevice>>,
    store: Arc<BlocksOnDevice>,
}

fn finish_on<F: Future>(device: &FaultDevice<MemoryDevice>, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => return output,
            Poll::Pending => device.release_delayed(),
        }
    }
}

impl OnFaults {
    fn new(seed: u64) -> Self {
        let info = MemoryBlocks::new(1, BLOCK_BYTES, 4096).unwrap().info().clone();
        let below = MemoryDevice::holding(vec![0; bytes_below(&info)]);
        let order = if seed.is_multiple_of(2) { 0 } else { 6 };
        let plan = FaultPlan::new(seed).completing_out_of_order(order);
        let device = Arc::new(FaultDevice::new(below, &plan));
        let options = blocks_options();
        let store = BlocksOnDevice::format(device.clone(), &options);
        let store = Arc::new(finish_on(&device, store).unwrap());
        Self { device, store }
    }
}

impl Below for OnFaults {
    fn store(&self) -> Arc<dyn BlockStore> {
        self.store.clone()
    }

    fn is_down(&self) -> bool {
        self.device.is_down()
    }

    fn finish<F: Future>(&self, future: F) -> F::Output {
        finish_on(&self.device, future)
    }

    fn lose_power_soon(&self, rng: &mut fastrand::Rng) {
        let crash = FaultRule::new(Fault::Crash);
        let crash = match rng.u32(..4) {
            0 => crash.on_deallocates().at_match(rng.u64(..8)),
            _ => crash.on_writes().at_match(rng.u64(..120)),
        };
        let plan = FaultPlan::new(rng.u64(..)).with(crash);
        let plan = if rng.bool() { plan.completing_out_of_order(6) } else { plan };
        self.device.set_plan(&plan);
    }

    fn restart(&mut self, rng: &mut fastrand::Rng) {
        self.device.restart().unwrap();
        self.device.set_plan(&FaultPlan::new(rng.u64(..)));
        let store = BlocksOnDevice::open(Arc::clone(&self.device) as Arc<dyn Device>);
        self.store = Arc::new(finish_on(&self.device, store).unwrap());
    }
}

struct OnCut(Arc<CutBlocks>);

impl Below for OnCut {
    fn store(&self) -> Arc<dyn BlockStore> {
        self.0.clone()
    }

    fn is_down(&self) -> bool {
        self.0.is_down()
    }

    fn finish<F: Future>(&self, future: F) -> F::Output {
        self.0.finish(future)
    }

    fn lose_power_soon(&self, rng: &mut fastrand::Rng) {
        self.0.lose_power_after(rng.u64(1..80));
    }

    fn restart(&mut self, rng: &mut fastrand::Rng) {
        self.0 = Arc::new(self.0.restarted(rng.u64(..)));
    }
}

/// Identifies one write: the page is filled with this number.
type Stamp = u64;

/// What the test knows of a slot.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Pages that must be there.
    acknowledged: Vec<Stamp>,
    /// Pages that may follow: written, not acknowledged.
    maybe: Vec<Stamp>,
    /// Earlier contents that may still be there, because their replacement was not acknowledged.
    older: Vec<Vec<Stamp>>,
}

struct Trial {
    pages: Vec<BTreeSet<Stamp>>,
    slots: Vec<Known>,
    next_stamp: Stamp,
    options: DeviceOnBlocksOptions,
    rng: fastrand::Rng,
    cleaned_blocks: u64,
}

fn stamped(stamps: &[Stamp]) -> Vec<u8> {
    stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(PAGE / 8)).collect()
}

fn stamps_of(bytes: &[u8]) -> Vec<Stamp> {
    let stamp = |page: &[u8]| {
        let mut words = page.chunks(8).map(|word| Stamp::from_le_bytes(word.try_into().unwrap()));
        let first = words.next().unwrap();
        assert!(words.all(|word| word == first), "a page of two writes");
        first
    };
    bytes.chunks(PAGE).map(stamp).collect()
}

fn page_offset(page: usize) -> u64 {
    let front = usize::try_from(OPTIONS.front_bytes).unwrap() / PAGE;
    let at = (page * PAGE) as u64;
    if page < front { at } else { at + SLOTS * BLOCK_BYTES }
}

impl Trial {
    fn new(seed: u64) -> Self {
        let pages = usize::try_from(OPTIONS.front_bytes + OPTIONS.tail_bytes).unwrap() / PAGE;
        Self {
            pages: vec![BTreeSet::from([0]); pages],
            slots: vec![Known::default(); usize::try_from(SLOTS).unwrap()],
            next_stamp: 1,
            options: if seed.is_multiple_of(3) { OPTIONS } else { APART },
            rng: fastrand::Rng::with_seed(seed),
            cleaned_blocks: 0,
        }
    }

    fn stamps(&mut self, count: usize) -> Vec<Stamp> {
        let first = self.next_stamp;
        self.next_stamp += count as u64;
        (first..self.next_stamp).collect()
    }

    fn work(&mut self, below: &impl Below, device: &DeviceOnBlocks) {
        while !below.is_down() {
            match self.rng.u32(..10) {
                0..4 => self.write_pages(below, device),
                4..6 => self.write_versions(below, device),
                6 => self.clear_pages(below, device),
                _ => self.write_slots(below, device),
            }
        }
        self.cleaned_blocks += device.counts().cleaned_blocks;
    }

    fn some_pages(&mut self) -> (usize, usize) {
        let front = usize::try_from(OPTIONS.front_bytes).unwrap() / PAGE;
        let first = self.rng.usize(..self.pages.len());
        let end = if first < front { front } else { self.pages.len() };
        (first, self.rng.usize(1..=(end - first).min(5)))
    }

    /// Several writes in flight, to different pages.
    fn write_pages(&mut self, below: &impl Below, device: &DeviceOnBlocks) {
        let mut under_way: Vec<(usize, Vec<Stamp>, IoFuture)> = Vec::new();
        let mut taken = BTreeSet::new();
        for _ in 0..self.rng.usize(1..4) {
            let (first, count) = self.some_pages();
            if (first..first + count).any(|page| !taken.insert(page)) {
                break;
            }
            let stamps = self.stamps(count);
            for (page, stamp) in (first..).zip(&stamps) {
                self.pages[page].insert(*stamp);
            }
            let handle = self.rng.u16(..device.info().placement.handles);
            let write = write_with(device, page_offset(first), &stamped(&stamps), handle);
            under_way.push((first, stamps, write));
        }
        for (first, stamps, write) in under_way {
            if below.finish(write).is_ok() {
                for (page, stamp) in (first..).zip(stamps) {
                    self.pages[page] = BTreeSet::from([stamp]);
                }
            }
        }
    }

    /// Writes a page again and again, mostly with the same handle, as a log does with its open block.
    fn write_versions(&mut self, below: &impl Below, device: &DeviceOnBlocks) {
        let page = self.rng.usize(..self.pages.len());
        let mut handle = self.rng.u16(..device.info().placement.handles);
        for stamp in self.stamps(4) {
            if self.rng.u32(..6) == 0 {
                handle = self.rng.u16(..device.info().placement.handles);
            }
            self.pages[page].insert(stamp);
            let write = write_with(device, page_offset(page), &stamped(&[stamp]), handle);
            if below.finish(write).is_ok() {
                self.pages[page] = BTreeSet::from([stamp]);
            }
        }
    }

    fn clear_pages(&mut self, below: &impl Below, device: &DeviceOnBlocks) {
        let (first, count) = self.some_pages();
        let io = Io::WriteZeroes { offset: page_offset(first), bytes: (count * PAGE) as u64 };
        for page in first..first + count {
            self.pages[page].insert(0);
        }
        if below.finish(device.submit(io)).is_ok() {
            (first..first + count).for_each(|page| self.pages[page] = BTreeSet::from([0]));
        }
    }

    /// Writes to one or two slots, in order, one or two pieces of each in flight.
    fn write_slots(&mut self, below: &impl Below, device: &DeviceOnBlocks) {
        let mut under_way: Vec<(usize, usize, IoFuture)> = Vec::new();
        let slots: BTreeSet<usize> =
            (0..self.rng.usize(1..3)).map(|_| self.rng.usize(..self.slots.len())).collect();
        for slot in slots {
            let known = &mut self.slots[slot];
            let written = known.acknowledged.len();
            if written == SLOT_PAGES || self.rng.u32(..4) == 0 {
                known.older.push(std::mem::take(&mut known.acknowledged));
            }
            let mut end = self.slots[slot].acknowledged.len();
            for _ in 0..self.rng.usize(1..3) {
                let count = self.rng.usize(1..=4).min(SLOT_PAGES - end);
                if count == 0 {
                    break;
                }
                let stamps = self.stamps(count);
                self.slots[slot].maybe.extend(&stamps);
                let offset = slot_offset(slot as u64) + (end * PAGE) as u64;
                end += count;
                under_way.push((slot, end, write(device, offset, &stamped(&stamps))));
            }
        }
        for (slot, end, write) in under_way {
            if below.finish(write).is_ok() {
                let known = &mut self.slots[slot];
                let more = end - known.acknowledged.len();
                known.acknowledged.extend(known.maybe.drain(..more));
                known.older.clear();
            }
        }
    }

    /// Compares the device with what is known. What was found becomes the known state.
    fn judge(&mut self, below: &impl Below, device: &DeviceOnBlocks, at: &str) {
        for page in 0..self.pages.len() {
            let found = below.finish(read(device, page_offset(page), PAGE)).unwrap();
            let found = stamps_of(found.as_slice())[0];
            let allowed = &self.pages[page];
            assert!(allowed.contains(&found), "{at}: page {page} holds {found}, not {allowed:?}");
            self.pages[page] = BTreeSet::from([found]);
        }
        for slot in 0..self.slots.len() {
            let whole = usize::try_from(BLOCK_BYTES).unwrap();
            let found = below.finish(read(device, slot_offset(slot as u64), whole)).unwrap();
            let mut found = stamps_of(found.as_slice());
            let end = found.iter().rposition(|stamp| *stamp != 0).map_or(0, |last| last + 1);
            found.truncate(end);
            let known = &self.slots[slot];
            let all = [&known.acknowledged[..], &known.maybe[..]].concat();
            let is_new = found.len() >= known.acknowledged.len() && all.starts_with(&found);
            assert!(
                is_new || known.older.contains(&found),
                "{at}: slot {slot} holds {found:?}, not {known:?}"
            );
            self.slots[slot] = Known { acknowledged: found, ..Known::default() };
        }
    }
}

/// Opens the device; sometimes power is lost before the opening is done.
fn open(below: &mut impl Below, trial: &mut Trial, losses: &mut u64, at: &str) -> DeviceOnBlocks {
    loop {
        below.restart(&mut trial.rng);
        if trial.rng.u32(..4) == 0 {
            below.lose_power_soon(&mut trial.rng);
        }
        let opening = DeviceOnBlocks::open(below.store(), &trial.options);
        let opened: Result<DeviceOnBlocks, Error> = below.finish(opening);
        match opened {
            Ok(device) if !below.is_down() => return device,
            _ if below.is_down() => *losses += 1,
            Ok(_) => unreachable!("it is up"),
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

/// Returns the number of power losses and of cleaned blocks.
fn lives(seed: u64, mut below: impl Below) -> (u64, u64) {
    let mut trial = Trial::new(seed);
    let mut losses = 0;
    let format = DeviceOnBlocks::format(below.store(), &trial.options);
    let mut device = below.finish(format).unwrap();
    for loss in 0..LOSSES_A_SEED {
        below.lose_power_soon(&mut trial.rng);
        trial.work(&below, &device);
        drop(device);
        losses += 1;
        let at = format!("LARDER_CRASH_SEED={seed} LARDER_CRASH_POINTS=1, loss {loss}");
        device = open(&mut below, &mut trial, &mut losses, &at);
        // This replaces a loss that the opening has left pending. With this seed the power stays on while `judge`
        // reads.
        below.lose_power_soon(&mut fastrand::Rng::with_seed(0));
        trial.judge(&below, &device, &at);
    }
    (losses, trial.cleaned_blocks)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn all_lives(points: u64, mut live: impl FnMut(u64) -> (u64, u64)) {
    let (mut lost, mut cleaned) = (0, 0);
    let mut seed = setting("LARDER_CRASH_SEED", 1);
    while lost < points {
        let (losses, blocks) = live(seed);
        lost += losses;
        cleaned += blocks;
        seed += 1;
    }
    println!("{lost} losses of power, {cleaned} blocks cleaned");
    assert!(points < 100 || cleaned > points, "cleaning was interrupted: {cleaned}");
}

fn points() -> u64 {
    setting("LARDER_CRASH_POINTS", 6000)
}

#[test]
fn on_blocks_on_a_device_what_was_acknowledged_is_there() {
    all_lives(points() / 3, |seed| lives(seed, OnFaults::new(seed)));
}

fn on_cut(seed: u64, cut: Cut) -> (u64, u64) {
    let info = MemoryBlocks::new(1, BLOCK_BYTES, 4096).unwrap().info().clone();
    // A slot that moves needs two blocks for a while.
    let blocks = APART.blocks_needed(&info).unwrap() + 1;
    lives(seed, OnCut(Arc::new(CutBlocks::new(blocks, cut, seed))))
}

#[test]
fn on_blocks_that_take_more_after_it_what_was_acknowledged_is_there() {
    all_lives(points() / 3, |seed| on_cut(seed, Cut::Whole));
}

#[test]
fn on_blocks_that_take_no_more_after_it_what_was_acknowledged_is_there() {
    all_lives(points() / 3, |seed| on_cut(seed, Cut::Torn));
}

/// Slots that the writer treats as one are restarted together. If a power loss interrupts this, the rest of the old
/// content is not there without its start, and the old start is not there without all the rest.
#[test]
fn what_is_given_up_together_goes_from_its_start() {
    const TOGETHER: usize = 4;
    let options = DeviceOnBlocksOptions {
        capacity_bytes: OPTIONS.capacity_bytes - BLOCK_BYTES,
        slots_together: 4,
        ..OPTIONS
    };
    let mut cut_between = 0;
    for seed in 0..400 {
        let mut below = OnCut(Arc::new(CutBlocks::new(20, Cut::Whole, seed)));
        let device = below.finish(DeviceOnBlocks::format(below.store(), &options)).unwrap();
        let whole = usize::try_from(BLOCK_BYTES).unwrap();
        for slot in 0..TOGETHER as u64 {
            below.finish(write(&device, slot_offset(slot), &vec![1; whole])).unwrap();
        }
        below.0.lose_power_after(1 + seed % 8);
        let again = write(&device, slot_offset(0), &[2; PAGE]);
        let _ = below.finish(again);
        drop(device);
        below.restart(&mut fastrand::Rng::with_seed(seed));
        let device = below.finish(DeviceOnBlocks::open(below.store(), &options)).unwrap();
        let first = |slot: usize| {
            let read = below.finish(read(&device, slot_offset(slot as u64), PAGE)).unwrap();
            read.as_slice()[0]
        };
        let found: Vec<u8> = (0..TOGETHER).map(first).collect();
        assert!(found[0] != 1 || found == [1; TOGETHER], "seed {seed}: {found:?}");
        cut_between += u32::from(found[0] == 0 && found[1..].contains(&1));
    }
    assert!(cut_between > 20, "{cut_between} were cut between");
}

/// Whatever is left of the old device, a half-formatted new one is never opened.
#[test]
fn a_formatting_that_was_cut_short_is_begun_again() {
    let mut refused = 0;
    for seed in 0..200 {
        let mut below = OnCut(Arc::new(CutBlocks::new(20, Cut::Whole, seed)));
        let mut trial = Trial::new(seed);
        let device = below.finish(DeviceOnBlocks::format(below.store(), &OPTIONS)).unwrap();
        for _ in 0..20 {
            trial.write_pages(&below, &device);
            trial.write_slots(&below, &device);
        }
        drop(device);
        below.0.lose_power_after(1 + seed % 20);
        let cut_short = below.finish(DeviceOnBlocks::format(below.store(), &OPTIONS));
        let is_down = below.is_down();
        below.restart(&mut trial.rng);
        let found = below.finish(DeviceOnBlocks::open(below.store(), &OPTIONS));
        match found {
            Err(error) => {
                refused += 1;
                assert!(is_down, "seed {seed}: {error}");
                below.finish(DeviceOnBlocks::format(below.store(), &OPTIONS)).unwrap();
            }
            // Either all of the old pages, or none.
            Ok(device) if cut_short.is_err() => {
                let found = below.finish(read(&device, 0, PAGE)).unwrap();
                let old = trial.pages[0].contains(&stamps_of(found.as_slice())[0]);
                let pages = (0..trial.pages.len()).map(|page| {
                    let found = below.finish(read(&device, page_offset(page), PAGE)).unwrap();
                    stamps_of(found.as_slice())[0]
                });
                let found: Vec<Stamp> = pages.collect();
                let is_old = found.iter().zip(&trial.pages).all(|(it, known)| known.contains(it));
                let is_new = found.iter().all(|stamp| *stamp == 0);
                assert!(old && is_old || is_new, "seed {seed}: {found:?}, not {:?}", trial.pages);
            }
            Ok(_) => {}
        }
    }
    assert!(refused > 50, "{refused} were cut short");
}
