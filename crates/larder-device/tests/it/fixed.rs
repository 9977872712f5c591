//! Registered buffers change the cost of a request and nothing else.

use larder_device::{
    BufferPool, Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, IoFuture, PlacementHandle,
};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::support::{BLOCK, file, options};

const MIB: usize = 1 << 20;

/// A file device over io_uring; `None` if the kernel has no ring for us.
fn device(registered_buffers: bool, max_transfer_bytes: u32) -> Option<(FileDevice, impl Drop)> {
    let options = FileOptions {
        registered_buffers,
        max_transfer_bytes,
        ..options(16 * MIB as u64, IoEngine::Auto)
    };
    let (device, directory) = file(&options);
    match device.engine_fallback() {
        None => Some((device, directory)),
        Some(why) => {
            println!("io_uring is not tested: {why}");
            None
        }
    }
}

/// Random writes and reads with pooled buffers and several requests in flight, compared with a shadow of the device.
struct Shadow<'a> {
    device: &'a dyn Device,
    bytes: Vec<u8>,
    rng: fastrand::Rng,
}

impl<'a> Shadow<'a> {
    fn new(device: &'a dyn Device, seed: u64) -> Self {
        let bytes = vec![0; usize::try_from(device.info().capacity_bytes).unwrap()];
        Self { device, bytes, rng: fastrand::Rng::with_seed(seed) }
    }

    /// Writes a part of each sixteenth of the device, then reads parts of the same length.
    fn step(&mut self, pool: &BufferPool) {
        let part = self.bytes.len() / 16;
        let ranges: Vec<_> = (0..16)
            .map(|at| {
                let blocks = self.rng.usize(1..=70);
                let first = self.rng.usize(..part / BLOCK - blocks);
                let start = at * part + first * BLOCK;
                start..start + blocks * BLOCK
            })
            .collect();
        let writes: Vec<IoFuture> = ranges
            .iter()
            .map(|range| {
                let mut buffer = pool.take(range.len());
                self.rng.fill(buffer.as_mut_slice());
                self.bytes[range.clone()].copy_from_slice(buffer.as_slice());
                let handle = PlacementHandle::DEFAULT;
                self.device.submit(Io::write(range.start as u64, buffer, handle))
            })
            .collect();
        writes.into_iter().for_each(|write| drop(write.wait().unwrap()));
        let reads: Vec<(usize, IoFuture)> = ranges
            .iter()
            .map(|range| {
                let start = range.start.saturating_sub(8 * BLOCK);
                let mut buffer = pool.take(range.len());
                // Prefill the buffer, so that the content of an earlier request cannot pass for data that was read.
                buffer.as_mut_slice().fill(0xa5);
                (start, self.device.submit(Io::Read { offset: start as u64, buffer }))
            })
            .collect();
        for (start, read) in reads {
            let buffer = read.wait().unwrap();
            assert!(buffer.as_slice() == &self.bytes[start..start + buffer.len()], "at {start}");
        }
    }
}

#[test]
fn registered_buffers_hold_what_was_written() {
    for max_transfer_bytes in [1 << 20, 3 * 4096] {
        let Some((device, _directory)) = device(true, max_transfer_bytes) else { return };
        let pool = BufferPool::new();
        let mut shadow = Shadow::new(&device, 1);
        (0..100).for_each(|_| shadow.step(&pool));
        let pieces = device.stats().fixed_buffer_pieces;
        println!("{pieces} pieces with registered buffers, all: {}", device.registered_buffers());
        assert!(!device.registered_buffers() || pieces > 100);
    }
}

/// The memory of a dropped pool returns in the next pool, at the same addresses or at others.
#[test]
fn pools_come_and_go_while_the_ring_lives() {
    let Some((device, _directory)) = device(true, 1 << 20) else { return };
    let mut shadow = Shadow::new(&device, 2);
    let mut counted = 0;
    for _ in 0..30 {
        let pool = BufferPool::new();
        (0..4).for_each(|_| shadow.step(&pool));
        let pieces = device.stats().fixed_buffer_pieces;
        assert!(!device.registered_buffers() || pieces > counted);
        counted = pieces;
    }
}

#[test]
fn registered_buffers_can_be_switched_off() {
    let Some((device, _directory)) = device(false, 1 << 20) else { return };
    assert!(!device.registered_buffers());
    let pool = BufferPool::new();
    let mut shadow = Shadow::new(&device, 3);
    (0..5).for_each(|_| shadow.step(&pool));
    assert_eq!(device.stats().fixed_buffer_pieces, 0);
}

/// Threads that write and read buffers which other threads have used before.
#[test]
fn threads_share_registered_buffers() {
    let Some((device, _directory)) = device(true, 2 * 4096) else { return };
    let pool = BufferPool::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (device, pool) = (&device, &pool);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(number);
                for _ in 0..300 {
                    let offset = number * 4 * MIB as u64 + rng.u64(..500) * BLOCK as u64;
                    let mut buffer = pool.take(rng.usize(1..=8) * BLOCK);
                    rng.fill(buffer.as_mut_slice());
                    let copy = buffer.as_slice().to_vec();
                    let handle = PlacementHandle::DEFAULT;
                    device.submit(Io::write(offset, buffer, handle)).wait().unwrap();
                    let buffer = pool.take(copy.len());
                    let back = device.submit(Io::Read { offset, buffer }).wait().unwrap();
                    assert!(back.as_slice() == copy);
                }
            });
        }
    });
}

/// Makes the kernel count this thread's memory against `RLIMIT_MEMLOCK`. `None` if that does not limit it here.
fn limited() -> Option<usize> {
    let limit = usize::try_from(getrlimit(Resource::Memlock).current?).ok()?;
    let mut sets = capabilities(None).ok()?;
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).ok()?;
    (limit <= 12 * MIB).then_some(limit)
}

#[test]
fn memory_that_must_not_be_held_is_named_each_time() {
    // In a thread of its own, because the capabilities are per thread.
    let tested = std::thread::spawn(|| {
        let Some(limit) = limited() else { return println!("no limit: not tested") };
        let Some((device, _directory)) = device(true, 1 << 20) else { return };
        let pool = BufferPool::new();
        let many = || -> Vec<IoBuffer> { (0..64).map(|_| pool.take(MIB / 4)).collect() };
        // The memory that the pool keeps exceeds the limit.
        drop(many());
        for round in 0..3 {
            let requests: Vec<IoFuture> = (0..)
                .zip(many())
                .map(|(at, mut buffer)| {
                    buffer.as_mut_slice().fill(at + round);
                    let offset = u64::from(at) * MIB as u64 / 4;
                    let handle = PlacementHandle::DEFAULT;
                    device.submit(Io::write(offset, buffer, handle))
                })
                .collect();
            requests.into_iter().for_each(|request| drop(request.wait().unwrap()));
            for (at, buffer) in (0_u8..).zip(many()) {
                let offset = u64::from(at) * MIB as u64 / 4;
                let back = device.submit(Io::Read { offset, buffer }).wait().unwrap();
                assert!(back.as_slice().iter().all(|byte| *byte == at + round));
            }
        }
        let pieces = device.stats().fixed_buffer_pieces;
        println!("a limit of {limit} bytes: {pieces} of {} pieces", 3 * 2 * 64);
        assert!(!device.registered_buffers(), "the kernel has refused none");
        assert!(pieces < 3 * 2 * 64);
    });
    tested.join().unwrap();
}
