//! File systems on virtual SSDs with the timing of a drive: the code is unchanged, and each run gives the same times.

use std::sync::Arc;

use larder_blocks::TimedBlocks;
use larder_fs::{FileSystem, Options, Owner, ROOT};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::timed::{DriveTiming, NandTiming, open_channel};
use larder_vssd::timed::{SharePolicy, TimedVssds};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId, Vssds};

const OWNER: Owner = Owner { uid: 1, gid: 2, permissions: 0o644 };

/// Two vSSDs in a drive of two channels.
fn clients(isolation: Isolation, units: u32) -> Vec<TimedBlocks> {
    let nand = NandTiming { planes: 1, block_stripes: 32, ..open_channel().nand };
    let timing = DriveTiming { channels: 2, nand, ..open_channel() };
    let drive = RawSsd::new(RawConfig::new(timing.geometry(128).unwrap())).unwrap();
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let mut array = Vssds::create(vec![drive], MemoryImages::default(), [7; 16], rates).unwrap();
    let request = Request { isolation, mb_s: units, bytes: 1 };
    let ids: Vec<VssdId> = (0..2).map(|_| array.alloc(request).unwrap()).collect();
    let timed = TimedVssds::new(array, &timing, &SharePolicy::None).unwrap();
    TimedBlocks::of(timed, &ids).unwrap()
}

/// Works in files, and returns the time when it was done.
fn work(store: TimedBlocks, with: u8) -> u64 {
    store.enter();
    let store = Arc::new(store);
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    for number in 0..8_u8 {
        let file = fs.create(ROOT, &[b'a' + number], OWNER).unwrap().ino;
        fs.write(file, 0, &vec![with ^ number; 100_000]).unwrap();
        fs.fsync(file).unwrap();
    }
    fs.close().unwrap();
    drop(fs);
    let fs = FileSystem::open(store.clone(), Options::default()).unwrap();
    for number in 0..8_u8 {
        let file = fs.find(ROOT, &[b'a' + number]).unwrap().ino;
        let bytes = fs.read(file, 0, 100_000).unwrap();
        assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == with ^ number));
    }
    store.now_ns()
}

fn run(isolation: Isolation, units: u32) -> Vec<u64> {
    std::thread::scope(|scope| {
        let stores = (1..).zip(clients(isolation, units));
        let threads: Vec<_> =
            stores.map(|(with, store)| scope.spawn(move || work(store, with))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_file_system_takes_the_time_of_its_dies() {
    let own = run(Isolation::Channel, 1);
    assert_eq!(own, run(Isolation::Channel, 1), "the same run");
    assert_eq!(own[0], own[1], "with channels of their own neither waits for the other");
    // Lower bound: 8 files of 7 pages of 16 KiB are programmed one after the other, on four dies in parallel.
    assert!(own[0] > 8 * 2 * 700_000, "{own:?} ns");
    let shared = run(Isolation::None, 4);
    assert!(shared.iter().max() >= own.iter().max(), "{shared:?}, {own:?}");
}
