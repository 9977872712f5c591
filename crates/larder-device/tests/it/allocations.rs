//! A request allocates nothing once the first requests have filled the pools.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use allocation_counter::measure;
use larder_device::{
    BufferPool, Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, PlacementHandle,
};

const BLOCK: usize = 4096;
const MANY: usize = 32;

/// Writes, reads and deallocates for `rounds` rounds with `MANY` requests in flight. The memory it needs itself comes
/// from `spare` and `under_way`.
fn work(
    device: &dyn Device,
    rounds: usize,
    spare: &mut Vec<IoBuffer>,
    under_way: &mut Vec<larder_device::IoFuture>,
) {
    for round in 0..rounds {
        for slot in 0..MANY as u64 {
            let offset = slot * BLOCK as u64;
            let buffer = spare.pop().unwrap();
            under_way.push(device.submit(match round % 2 {
                0 => Io::write(offset, buffer, PlacementHandle::DEFAULT),
                _ => Io::Read { offset, buffer },
            }));
        }
        spare.extend(under_way.drain(..).map(|future| future.wait().unwrap()));
        device.submit(Io::Deallocate { offset: 0, bytes: BLOCK as u64 }).wait().unwrap();
    }
}

/// Buffers that a pool has handed out before, so that a ring may have registered them.
fn pooled(pool: &BufferPool) -> Vec<IoBuffer> {
    drop((0..MANY).map(|_| pool.take(BLOCK)).collect::<Vec<_>>());
    (0..MANY).map(|_| pool.take(BLOCK)).collect()
}

#[test]
fn requests_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let options =
        FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
    let device = FileDevice::open(&path, &options).unwrap();
    if device.engine() != IoEngine::IoUring {
        println!("not tested: {:?}", device.engine_fallback());
        return;
    }
    let mut spare: Vec<_> = (0..MANY).map(|_| IoBuffer::zeroed(BLOCK)).collect();
    let mut under_way = Vec::with_capacity(MANY);
    work(&device, 4, &mut spare, &mut under_way);
    let counted = measure(|| work(&device, 50, &mut spare, &mut under_way));
    assert_eq!(counted.count_total, 0, "of {} requests", 50 * (MANY + 1));
    let before = device.stats().fixed_buffer_pieces;
    spare = pooled(&BufferPool::new());
    work(&device, 4, &mut spare, &mut under_way);
    let counted = measure(|| work(&device, 50, &mut spare, &mut under_way));
    assert_eq!(counted.count_total, 0, "of {} requests with pooled buffers", 50 * (MANY + 1));
    let fixed = device.stats().fixed_buffer_pieces - before;
    println!("{fixed} of them with registered buffers");
    assert!(!device.registered_buffers() || fixed == 54 * MANY as u64);
    // Check that the counter counts.
    assert!(measure(|| drop(IoBuffer::zeroed(BLOCK))).count_total > 0);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Like `work`, but for an executor that only sleeps and gets woken: the requests are completed by another thread, that
/// of the ring.
fn work_for_sleeper(
    device: &dyn Device,
    rounds: usize,
    spare: &mut Vec<IoBuffer>,
    under_way: &mut Vec<larder_device::IoFuture>,
    waker: &Waker,
) {
    let mut context = Context::from_waker(waker);
    for _ in 0..rounds {
        for (slot, buffer) in (0..).zip(spare.drain(..)) {
            let offset = slot * BLOCK as u64;
            let handle = PlacementHandle::DEFAULT;
            under_way.push(device.submit(Io::write(offset, buffer, handle)));
        }
        while !under_way.is_empty() {
            let mut at = 0;
            let before = under_way.len();
            while let Some(future) = under_way.get_mut(at) {
                match Pin::new(future).poll(&mut context) {
                    Poll::Ready(result) => {
                        spare.push(result.unwrap());
                        under_way.swap_remove(at);
                    }
                    Poll::Pending => at += 1,
                }
            }
            if under_way.len() == before {
                std::thread::park();
            }
        }
    }
}

/// On every engine and at a queue depth of 64, only the first requests allocate.
#[test]
fn requests_that_another_thread_ends_allocate_nothing() {
    const DEPTH: usize = 64;
    const ROUNDS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    for engine in [IoEngine::Auto, IoEngine::Threads] {
        let capacity_bytes = Some(1 << 20);
        let options =
            FileOptions { capacity_bytes, create: true, engine, ..FileOptions::default() };
        let device = FileDevice::open(&path, &options).unwrap();
        let mut spare: Vec<_> = (0..DEPTH).map(|_| IoBuffer::zeroed(BLOCK)).collect();
        let mut under_way = Vec::with_capacity(DEPTH);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut work = |rounds| {
            work_for_sleeper(&device, rounds, &mut spare, &mut under_way, &waker);
        };
        work(ROUNDS / 5);
        let counted = measure(|| work(ROUNDS)).count_total;
        // How full the pools of the threads are is chance: each thread fills its pools once, with 64 entries of two
        // kinds. Without sharing between the pools, each request would cost one or two allocations.
        assert!(counted < (DEPTH * ROUNDS / 10) as u64, "{counted}, {:?}", device.engine());
    }
}
