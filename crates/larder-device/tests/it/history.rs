//! Random histories on every backend, compared with an array in memory.

use larder_device::{
    Device, Durability, FaultDevice, FaultPlan, FileOptions, Io, IoBuffer, IoEngine, IoFuture,
    PlacementHandle,
};

use crate::support::{BLOCK, block_on, engines, file, model, options, pattern};

const BLOCKS: usize = 256;
const CAPACITY: u64 = (BLOCKS * BLOCK) as u64;

/// The device, its expected content, and the ranges in flight.
struct History<'a> {
    device: &'a dyn Device,
    rng: fastrand::Rng,
    shadow: Vec<u8>,
    /// Whether the content of a block is specified. After a deallocation it is not, until the next write.
    known: Vec<bool>,
    under_way: Vec<(usize, usize, Expected, IoFuture)>,
    zeroed: u64,
}

enum Expected {
    Nothing,
    Bytes(Vec<u8>, Vec<bool>),
}

impl<'a> History<'a> {
    fn new(device: &'a dyn Device, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let (shadow, known) = (vec![0; BLOCKS * BLOCK], vec![true; BLOCKS]);
        Self { device, rng, shadow, known, under_way: Vec::new(), zeroed: 0 }
    }

    /// Submits one random request. Several may be in flight, on ranges that do not overlap.
    fn step(&mut self) {
        let blocks = if self.rng.u8(..8) == 0 { 128 } else { 8 };
        let blocks = self.rng.usize(1..=blocks);
        let first = self.rng.usize(..=BLOCKS - blocks);
        let overlaps = |(at, len, ..): &(usize, usize, Expected, IoFuture)| {
            first < at + len && *at < first + blocks
        };
        while self.under_way.iter().any(overlaps) || self.under_way.len() > 8 {
            self.finish_one();
        }
        let offset = (first * BLOCK) as u64;
        let bytes = first * BLOCK..(first + blocks) * BLOCK;
        let (io, expected) = match self.rng.u8(..16) {
            0..7 => {
                let buffer = pattern(self.rng.u64(..), blocks);
                self.shadow[bytes].copy_from_slice(buffer.as_slice());
                self.known[first..first + blocks].fill(true);
                let buffer = self.cut(buffer);
                let handle = self.rng.u16(..self.device.info().placement.handles);
                let handle = PlacementHandle::new(handle);
                let durability =
                    [Durability::Process, Durability::Device][usize::from(self.rng.bool())];
                (Io::Write { offset, buffer, handle, durability }, Expected::Nothing)
            }
            7..13 => {
                let known = self.known[first..first + blocks].to_vec();
                let buffer = self.cut(IoBuffer::zeroed(blocks * BLOCK));
                let expected = Expected::Bytes(self.shadow[bytes].to_vec(), known);
                (Io::Read { offset, buffer }, expected)
            }
            13 => {
                self.shadow[bytes.clone()].fill(0);
                self.known[first..first + blocks].fill(true);
                self.zeroed += bytes.len() as u64;
                (Io::WriteZeroes { offset, bytes: bytes.len() as u64 }, Expected::Nothing)
            }
            14 => {
                self.known[first..first + blocks].fill(false);
                let bytes = (blocks * BLOCK) as u64;
                (Io::Deallocate { offset, bytes }, Expected::Nothing)
            }
            _ => (Io::Flush, Expected::Nothing),
        };
        self.under_way.push((first, blocks, expected, self.device.submit(io)));
    }

    /// The same bytes, every other time as a list of buffers.
    fn cut(&mut self, buffer: IoBuffer) -> IoBuffer {
        if self.rng.bool() {
            return buffer;
        }
        let (mut parts, mut rest) = (Vec::new(), buffer.as_slice());
        while !rest.is_empty() {
            let blocks = self.rng.usize(1..=rest.len() / BLOCK);
            let (part, behind) = rest.split_at(blocks * BLOCK);
            let mut copy = IoBuffer::zeroed(part.len());
            copy.as_mut_slice().copy_from_slice(part);
            parts.push(copy);
            rest = behind;
        }
        IoBuffer::list(parts)
    }

    fn finish_one(&mut self) {
        let at = self.rng.usize(..self.under_way.len());
        let (first, _, expected, future) = self.under_way.swap_remove(at);
        let polled = self.rng.bool();
        let buffer = if polled { block_on(future) } else { future.wait() }.unwrap();
        if let Expected::Bytes(bytes, known) = expected {
            let got = buffer.runs().collect::<Vec<_>>().concat();
            let blocks = got.chunks(BLOCK).zip(bytes.chunks(BLOCK)).zip(known);
            for (i, ((got, expected), known)) in blocks.enumerate() {
                assert!(!known || got == expected, "block {} differs", first + i);
            }
        }
    }
}

pub(crate) fn run(device: &dyn Device, seed: u64, steps: usize) {
    println!("seed {seed} on {}", device.info().name);
    let mut history = History::new(device, seed);
    (0..steps).for_each(|_| history.step());
    while !history.under_way.is_empty() {
        history.finish_one();
    }
    assert_eq!(device.stats().failed_requests, 0);
    assert_eq!(device.stats().zeroed_bytes, history.zeroed);
}

fn seeds() -> impl Iterator<Item = u64> {
    let fresh = fastrand::u64(..);
    [1, 2, fresh].into_iter()
}

#[test]
fn model_holds_what_was_written() {
    seeds().for_each(|seed| run(&model(CAPACITY), seed, 2000));
}

#[test]
fn files_hold_what_was_written_through_every_engine() {
    for engine in engines() {
        for seed in seeds() {
            let (device, _directory) = file(&options(CAPACITY, engine));
            run(&device, seed, 600);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn mapped_memory_holds_what_was_written() {
    seeds().for_each(|seed| run(&crate::mapped::mapped(CAPACITY).0, seed, 2000));
}

#[test]
fn tiny_pieces_and_a_shallow_ring_change_nothing() {
    for engine in engines() {
        let options = FileOptions {
            max_transfer_bytes: 8192,
            queue_depth: 2,
            threads: 2,
            ..options(CAPACITY, engine)
        };
        let (device, _directory) = file(&options);
        run(&device, fastrand::u64(..), 300);
    }
}

#[test]
fn a_plan_without_faults_changes_nothing() {
    let seed = fastrand::u64(..);
    run(&FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed)), seed, 1000);
    let (device, _directory) = file(&options(CAPACITY, IoEngine::Auto));
    run(&FaultDevice::new(device, &FaultPlan::new(seed)), seed, 200);
}

#[test]
fn several_threads_share_a_device() {
    for engine in engines() {
        let (device, _directory) = file(&options(CAPACITY, engine));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..50 {
                        let block = thread * 64 + round;
                        let tag = thread << 32 | round;
                        crate::support::write(device, block, pattern(tag, 2)).unwrap();
                        let back = crate::support::read(device, block, 2).unwrap();
                        assert_eq!(back.as_slice(), pattern(tag, 2).as_slice());
                    }
                });
            }
        });
    }
}
