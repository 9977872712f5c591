//! Random requests, derived from a seed, compared with bytes in memory.

use std::sync::Arc;

use larder_blocks::{BlockStore, BlocksOnDevice, DeviceOnBlocks, MemoryBlocks};
use larder_device::{Device, ErrorKind, Io, IoBuffer, IoFuture, block_on};

use super::{
    BLOCK_BYTES, OPTIONS, PAGE, SLOTS, blocks_on_memory, format, open, read, slot_offset, write,
};

struct Trial {
    device: DeviceOnBlocks,
    /// The expected content, and how far each slot is written.
    bytes: Vec<u8>,
    written: Vec<u64>,
    padded: u64,
    rng: fastrand::Rng,
}

fn first_seed() -> u64 {
    std::env::var("LARDER_ORACLE_SEED").map_or(0, |seed| seed.parse().unwrap())
}

/// Prints the seed of a test that panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "LARDER_ORACLE_SEED={} cargo test -p larder-blocks --test it device_on_blocks::oracle",
                self.0
            );
        }
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Trial {
    fn random(&mut self, pages: usize) -> Vec<u8> {
        let mut bytes = vec![0; pages * PAGE];
        self.rng.fill(&mut bytes);
        bytes
    }

    fn note(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[at(offset)..at(offset) + bytes.len()].copy_from_slice(bytes);
    }

    /// A random run of pages in the front or the tail.
    fn pages(&mut self) -> (u64, usize) {
        let (front, tail) = (OPTIONS.front_bytes, OPTIONS.tail_bytes);
        let (start, bytes) = match self.rng.bool() {
            true => (0, front),
            false => (OPTIONS.capacity_bytes - tail, tail),
        };
        let pages = usize::try_from(bytes).unwrap() / PAGE;
        let first = self.rng.usize(..pages);
        (start + (first * PAGE) as u64, self.rng.usize(1..=(pages - first).min(6)))
    }

    fn write_pages(&mut self) {
        let mut under_way: Vec<(IoFuture, Vec<u8>)> = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let (offset, pages) = self.pages();
            let bytes = self.random(pages);
            self.note(offset, &bytes);
            under_way.push((write(&self.device, offset, &bytes), bytes));
        }
        for (written, bytes) in under_way {
            assert!(written.wait().unwrap().as_slice() == bytes, "its buffer comes back");
        }
    }

    /// Writes from the start of the slot or from its written end, sometimes with a gap, in up to three pieces in order.
    fn write_slot(&mut self) {
        let slot = self.rng.u64(..SLOTS);
        let (start, mut end) = (slot_offset(slot), self.written[at(slot)]);
        if end == BLOCK_BYTES || self.rng.u32(..4) == 0 {
            end = 0;
            let whole = at(BLOCK_BYTES);
            self.note(start, &vec![0; whole]);
        } else if end > 0 && self.rng.u32(..4) == 0 {
            let gap = self.rng.u64(..(BLOCK_BYTES - end) / PAGE as u64) * PAGE as u64;
            self.padded += gap;
            end += gap;
        }
        let mut writes: Vec<(u64, Vec<u8>)> = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let room = at(BLOCK_BYTES - end) / PAGE;
            if room == 0 {
                break;
            }
            let pages = self.rng.usize(1..=room.min(3));
            let bytes = self.random(pages);
            self.note(start + end, &bytes);
            writes.push((start + end, bytes));
            end += (pages * PAGE) as u64;
        }
        self.written[at(slot)] = end;
        let under_way: Vec<IoFuture> =
            writes.iter().map(|(offset, bytes)| write(&self.device, *offset, bytes)).collect();
        under_way.into_iter().for_each(|write| drop(write.wait().unwrap()));
    }

    /// Existing content may be written again, followed by more. Different content is refused.
    fn write_again(&mut self) {
        let slot = self.rng.u64(..SLOTS);
        let (start, end) = (slot_offset(slot), self.written[at(slot)]);
        let pages = end / PAGE as u64;
        if pages < 2 {
            return;
        }
        let from = self.rng.u64(1..pages) * PAGE as u64;
        let more = self.rng.usize(..=at((BLOCK_BYTES - end) / PAGE as u64).min(2));
        let mut bytes = self.bytes[at(start + from)..at(start + end)].to_vec();
        let other = self.rng.usize(..bytes.len());
        bytes.extend(self.random(more));
        bytes[other] ^= 1;
        let refused = write(&self.device, start + from, &bytes).wait().unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::NotSequential, "{refused}");
        let says = format!("is written up to {}; go on there", start + end);
        assert!(refused.to_string().contains(&says), "{refused}, not {says}");
        assert!(refused.buffer.as_slice() == bytes, "its buffer comes back");
        bytes[other] ^= 1;
        self.note(start + from, &bytes);
        self.written[at(slot)] = end + (more * PAGE) as u64;
        write(&self.device, start + from, &bytes).wait().unwrap();
    }

    /// A write from the last pages of the front into the first slot, which it restarts.
    fn write_across(&mut self) {
        let bytes = self.random(3);
        let start = slot_offset(0) - 2 * PAGE as u64;
        let whole = at(BLOCK_BYTES);
        self.note(slot_offset(0), &vec![0; whole]);
        self.note(start, &bytes);
        self.written[0] = PAGE as u64;
        assert!(write(&self.device, start, &bytes).wait().unwrap().as_slice() == bytes);
    }

    fn give_up(&mut self) {
        let io = |zeroes, offset, bytes| match zeroes {
            true => Io::WriteZeroes { offset, bytes },
            false => Io::Deallocate { offset, bytes },
        };
        let zeroes = self.rng.bool();
        if self.rng.bool() {
            let (offset, pages) = self.pages();
            self.note(offset, &vec![0; pages * PAGE]);
            let bytes = (pages * PAGE) as u64;
            self.device.submit(io(zeroes, offset, bytes)).wait().unwrap();
            return;
        }
        let slot = self.rng.u64(..SLOTS);
        let (whole, start) = (at(BLOCK_BYTES), slot_offset(slot));
        self.note(start, &vec![0; whole]);
        self.written[at(slot)] = 0;
        self.device.submit(io(zeroes, start, BLOCK_BYTES)).wait().unwrap();
    }

    fn compare(&mut self) {
        let all = at(OPTIONS.capacity_bytes) / PAGE;
        let first = self.rng.usize(..all);
        let pages = self.rng.usize(1..=all - first);
        let (from, length) = (first * PAGE, pages * PAGE);
        let found = if pages > 1 && self.rng.bool() {
            let list = vec![IoBuffer::zeroed(PAGE), IoBuffer::zeroed(length - PAGE)];
            let buffer = IoBuffer::list(list);
            let io = Io::Read { offset: from as u64, buffer };
            let list = self.device.submit(io).wait().unwrap().into_list();
            list.iter().flat_map(|buffer| buffer.as_slice().to_vec()).collect()
        } else {
            let found = read(&self.device, from as u64, length).wait().unwrap();
            found.as_slice().to_vec()
        };
        let differs = (0..pages).find(|page| {
            let page = page * PAGE;
            found[page..page + PAGE] != self.bytes[from + page..from + page + PAGE]
        });
        assert!(differs.is_none(), "page {differs:?} behind {from} has other bytes");
    }
}

/// Returns how much was cleaned: blocks, and bytes moved.
fn try_with(
    seed: u64,
    store: Arc<dyn BlockStore>,
    reopen: impl Fn(Arc<dyn BlockStore>) -> Arc<dyn BlockStore>,
) -> (u64, u64) {
    let mut trial = Trial {
        device: format(Arc::clone(&store)),
        bytes: vec![0; at(OPTIONS.capacity_bytes)],
        written: vec![0; at(SLOTS)],
        padded: 0,
        rng: fastrand::Rng::with_seed(seed),
    };
    let mut store = store;
    let mut counts = (0, 0);
    for _ in 0..300 {
        match trial.rng.u32(..100) {
            0..35 => trial.write_pages(),
            35..60 => trial.write_slot(),
            60..66 => trial.write_again(),
            66..70 => trial.write_across(),
            70..80 => trial.give_up(),
            80..96 => trial.compare(),
            96..98 => drop(trial.device.submit(Io::Flush).wait().unwrap()),
            _ => {
                let counted = trial.device.counts();
                assert_eq!(counted.padded_bytes, trial.padded);
                counts.0 += counted.cleaned_blocks;
                counts.1 += counted.moved_bytes;
                trial.padded = 0;
                let Trial { device, bytes, written, padded, rng } = trial;
                drop(device);
                store = reopen(store);
                let device = open(Arc::clone(&store)).unwrap();
                trial = Trial { device, bytes, written, padded, rng };
            }
        }
    }
    trial.compare();
    let counted = trial.device.counts();
    counts.0 += counted.cleaned_blocks;
    counts.1 += counted.moved_bytes;
    counts
}

#[test]
fn memory_blocks_make_a_device() {
    let mut cleaned = (0, 0);
    for seed in first_seed()..first_seed() + 150 {
        let page_bytes = [512, 1024, 4096][at(seed % 3)];
        let store = MemoryBlocks::new(20, BLOCK_BYTES, page_bytes).unwrap();
        let _seed = Seed(seed);
        let counts = try_with(seed, Arc::new(store), |same| same);
        cleaned = (cleaned.0 + counts.0, cleaned.1 + counts.1);
    }
    assert!(cleaned.0 > 1000 && cleaned.1 > 1 << 20, "cleaning is part of it: {cleaned:?}");
}

#[test]
fn blocks_on_a_device_make_a_device() {
    for seed in first_seed()..first_seed() + 60 {
        let (below, store) = blocks_on_memory();
        let _seed = Seed(seed);
        try_with(seed, store, |before| {
            drop(before);
            Arc::new(block_on(BlocksOnDevice::open(below.clone())).unwrap())
        });
    }
}
