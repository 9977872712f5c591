//! Data written with different placement handles is kept apart, so that cleaning copies less.

use std::sync::Arc;

use larder_blocks::{BlockStore, DeviceOnBlocks, DeviceOnBlocksOptions, MemoryBlocks, StoreInfo};
use larder_device::{Device, Io, IoBuffer, PlacementHandle, block_on};

use super::{APART, BLOCK_BYTES, OPTIONS, PAGE, format, read, write_with};

const LOG_PAGES: u64 = 64;
const BUCKETS: u64 = 960;

fn device(handles: u16) -> DeviceOnBlocks {
    let options = DeviceOnBlocksOptions {
        capacity_bytes: (LOG_PAGES + BUCKETS) * PAGE as u64,
        front_bytes: LOG_PAGES * PAGE as u64,
        tail_bytes: BUCKETS * PAGE as u64,
        spare_percent: 25,
        slots_together: 1,
        handles,
    };
    let store = Arc::new(MemoryBlocks::new(64, 64 * PAGE as u64, 4096).unwrap());
    block_on(DeviceOnBlocks::format(store, &options)).unwrap()
}

/// Bytes that cleaning copies while a log wraps around and buckets change at random, each with a handle of its own.
fn moved(handles: u16, seed: u64) -> u64 {
    let device = device(handles);
    let mut rng = fastrand::Rng::with_seed(seed);
    let write = |page: u64, handle: u16| {
        let handle = PlacementHandle::new(handle.min(handles - 1));
        let io = Io::write(page * PAGE as u64, IoBuffer::zeroed(PAGE), handle);
        device.submit(io).wait().unwrap();
    };
    for step in 0..20_000 {
        write(step % LOG_PAGES, 0);
        write(LOG_PAGES + rng.u64(..BUCKETS), 1);
    }
    device.counts().moved_bytes
}

/// With blocks of its own, the log dies block by block (FDP-enabled CacheLib, section 4).
#[test]
fn less_is_copied_where_handles_are_apart() {
    for seed in 0..3 {
        let (together, apart) = (moved(1, seed), moved(2, seed));
        println!("seed {seed}: {together} bytes moved, {apart} with two handles");
        assert!(apart * 10 < together * 9, "seed {seed}: {apart} against {together}");
    }
}

fn store(streams: u16) -> Arc<MemoryBlocks> {
    let info = MemoryBlocks::new(40, BLOCK_BYTES, 4096).unwrap().info().clone();
    Arc::new(MemoryBlocks::with_info(StoreInfo { streams, ..info }).unwrap())
}

#[test]
fn handles_have_blocks_of_their_own() {
    let store = store(1);
    let device = block_on(DeviceOnBlocks::format(store.clone(), &APART)).unwrap();
    assert_eq!(device.info().placement.handles, 3);
    let first = store.list().len();
    write_with(&device, 0, &[1; PAGE], 1).wait().unwrap();
    write_with(&device, PAGE as u64, &[2; PAGE], 2).wait().unwrap();
    assert_eq!(store.list().len(), first + 2);
    write_with(&device, 0, &[3; PAGE], 2).wait().unwrap();
    write_with(&device, PAGE as u64, &[4; PAGE], 1).wait().unwrap();
    assert_eq!(store.list().len(), first + 2, "they go on where they were");
    drop(device);
    let device = block_on(DeviceOnBlocks::open(store.clone(), &APART)).unwrap();
    let found = read(&device, 0, 2 * PAGE).wait().unwrap();
    assert_eq!((found.as_slice()[0], found.as_slice()[PAGE]), (3, 4));
    drop(device);
    let refused = block_on(DeviceOnBlocks::open(store, &OPTIONS)).err().unwrap();
    assert!(refused.to_string().contains("handles 3; open it with these"), "{refused}");
}

/// With one handle for pages, all pages are written with it, even if a request names another handle that the store has.
#[test]
fn handles_that_pages_do_not_have_are_the_default_one() {
    let store = store(4);
    let device = format(store.clone());
    assert_eq!(device.info().placement.handles, 4, "slots have those of the store");
    let first = store.list().len();
    write_with(&device, 0, &[1; PAGE], 3).wait().unwrap();
    write_with(&device, PAGE as u64, &[2; PAGE], 0).wait().unwrap();
    assert_eq!(store.list().len(), first);
}
