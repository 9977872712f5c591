//! Threads that host a ring, and threads that do not, on the same files.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use larder_device::ring::{self, HostedRing};
use larder_device::{BufferPool, Device, FileDevice, Io, IoEngine, IoFuture};

use crate::support::{
    BLOCK, block_on, file, options, pattern, read, start_read, start_write, write,
};

const MIB: u64 = 1 << 20;

/// A ring hosted by this thread; `None` if the kernel has none for us.
fn hosted() -> Option<HostedRing> {
    ring::host().inspect_err(|why| println!("hosted rings are not tested: {why}")).ok()
}

#[test]
fn one_thread_waits_for_eight_files() {
    let Some(ring) = hosted() else { return };
    let files: Vec<_> = (0..8).map(|_| file(&options(MIB, IoEngine::IoUring))).collect();
    for (tag, (device, _)) in (0..).zip(&files) {
        write(device, 3, pattern(tag, 2)).unwrap();
    }
    let before = ring.stats();
    let reads: Vec<IoFuture> = files.iter().map(|(device, _)| start_read(device, 3, 2)).collect();
    ring.block_on(async {
        for (tag, read) in (0..).zip(reads) {
            assert!(read.await.unwrap().as_slice() == pattern(tag, 2).as_slice());
        }
    });
    let after = ring.stats();
    let (enters, ended) = (after.enters - before.enters, after.ended_pieces - before.ended_pieces);
    println!("{enters} calls for 8 reads of 8 files");
    // The first sleep submits all reads; at worst the drive completes them one by one.
    assert!(ended == 8 && enters <= 8, "{enters} calls");
    drop(files);
    assert_eq!(ring.stats().pending_pieces, 0);
}

/// Each thread has a part of each device, which it writes and reads in every possible way.
fn many_ways(devices: &[&FileDevice], thread: u64, ring: Option<&HostedRing>) {
    let mut rng = fastrand::Rng::with_seed(thread);
    let mut shadow = vec![vec![0_u64; 32]; devices.len()];
    for round in 1..400 {
        let (which, slot) = (rng.usize(..devices.len()), rng.usize(..32));
        let (device, block) = (devices[which], thread * 64 + 2 * slot as u64);
        if rng.bool() {
            let tag = thread << 32 | round;
            let mut future = start_write(device, block, pattern(tag, 2));
            shadow[which][slot] = tag;
            match (ring, rng.u8(..4)) {
                (Some(ring), way @ 0..2) => {
                    if way == 1 {
                        let mut context = Context::from_waker(Waker::noop());
                        let _ = Pin::new(&mut future).poll(&mut context);
                    }
                    drop(future);
                    // A later request is not ordered after one in flight, so wait until none is left.
                    while ring.stats().pending_pieces > 0 {
                        ring.turn(None);
                    }
                }
                (_, 0) => drop(block_on(future).unwrap()),
                (_, 1 | 2) => drop(larder_device::block_on(future).unwrap()),
                _ => drop(future.wait().unwrap()),
            }
        } else if shadow[which][slot] > 0 {
            let back = read(device, block, 2).unwrap();
            assert!(back.as_slice() == pattern(shadow[which][slot], 2).as_slice());
        }
    }
}

#[test]
fn devices_serve_threads_with_a_hosted_ring_and_without_one_at_once() {
    let files: Vec<_> = (0..3).map(|_| file(&options(16 * MIB, IoEngine::IoUring))).collect();
    let devices: Vec<&FileDevice> = files.iter().map(|(device, _)| device).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let devices = &devices;
            scope.spawn(move || {
                let ring = if thread < 2 { hosted() } else { None };
                many_ways(devices, thread, ring.as_ref());
            });
        }
    });
}

#[test]
fn futures_may_end_on_other_threads_than_their_host() {
    let Some(ring) = hosted() else { return };
    let (device, _directory) = file(&options(16 * MIB, IoEngine::IoUring));
    write(&device, 0, pattern(1, 64)).unwrap();
    for round in 0..50 {
        let reads: Vec<_> = (0..4).map(|at| (at, start_read(&device, at, 1))).collect();
        let whole = pattern(1, 64);
        let waiters: Vec<_> = reads
            .into_iter()
            .map(|(at, read)| {
                std::thread::spawn(move || match (at + round) % 3 {
                    0 => read.wait().unwrap(),
                    1 => block_on(read).unwrap(),
                    _ => larder_device::block_on(read).unwrap(),
                })
            })
            .collect();
        while ring.stats().pending_pieces > 0 {
            ring.turn(None);
        }
        for (at, waiter) in waiters.into_iter().enumerate() {
            let part = &whole.as_slice()[at * BLOCK..(at + 1) * BLOCK];
            assert!(waiter.join().unwrap().as_slice() == part);
        }
    }
}

#[test]
fn dropping_a_device_waits_for_what_is_under_way_in_hosted_rings() {
    let Some(ring) = hosted() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let options = options(16 * MIB, IoEngine::IoUring);
    for elsewhere in [false, true, false, true] {
        let device = FileDevice::open(&path, &options).unwrap();
        let writes: Vec<_> =
            (0..64).map(|at| start_write(&device, at * 64, pattern(at, 64))).collect();
        if elsewhere {
            // The host waits for that thread and does not run its ring.
            std::thread::spawn(move || drop(device)).join().unwrap();
        } else {
            drop(device);
        }
        let device = FileDevice::open(&path, &options).unwrap();
        for (at, write) in (0..).zip(writes) {
            write.wait().unwrap();
            assert!(read(&device, at * 64, 64).unwrap().as_slice() == pattern(at, 64).as_slice());
        }
    }
    assert_eq!(ring.stats().pending_pieces, 0);
}

#[test]
fn buffers_are_registered_with_hosted_rings_too() {
    let Some(ring) = hosted() else { return };
    let (device, _directory) = file(&options(16 * MIB, IoEngine::IoUring));
    let pool = BufferPool::new();
    for round in 0..50 {
        let mut buffer = pool.take(4 * BLOCK);
        buffer.as_mut_slice().fill(round);
        let handle = larder_device::PlacementHandle::DEFAULT;
        device.submit(Io::write(0, buffer, handle)).wait().unwrap();
        let buffer = pool.take(4 * BLOCK);
        let back = device.submit(Io::Read { offset: 0, buffer }).wait().unwrap();
        assert!(back.as_slice().iter().all(|byte| *byte == round));
    }
    let pieces = device.stats().fixed_buffer_pieces;
    assert_eq!(ring.stats().ended_pieces, 100);
    assert!(!device.registered_buffers() || (90..=100).contains(&pieces), "{pieces}");
}
