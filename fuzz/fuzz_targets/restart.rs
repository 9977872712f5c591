//! Caches, with buckets and with pages by set, that open on a device whose snapshot has arbitrary content under a valid
//! checksum.
//!
//! The regions and buckets are those of a clean shutdown. Whatever the snapshot says about them, the cache must open,
//! return only values that their keys once had, and continue to work.
#![no_main]

use std::sync::{Arc, LazyLock};

use larder::{Larder, SocLayout, VirtualClock, block_on};
use larder_device::MemoryDevice;
use larder_fuzz::drive::{self, SMALL, SNAPSHOT_AT};
use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

static LEFT: LazyLock<[(SocLayout, Vec<u8>); 2]> = LazyLock::new(|| {
    [SocLayout::Buckets, SocLayout::Pages]
        .map(|layout| (layout, drive::after_clean_shutdown(layout)))
});

fuzz_target!(|content: &[u8]| {
    for (layout, left) in &*LEFT {
        restart(*layout, left.clone(), content);
    }
});

fn restart(layout: SocLayout, mut image: Vec<u8>, content: &[u8]) {
    let room = drive::snapshot_room(&image);
    let header = &image[SNAPSHOT_AT..SNAPSHOT_AT + seal::SNAPSHOT_HEADER_BYTES];
    let length = content.len().min(room - header.len());
    let mut snapshot = [header, &content[..length]].concat();
    snapshot[16..24].copy_from_slice(&(length as u64).to_le_bytes());
    let snapshot = seal::snapshot(&snapshot, drive::EPOCH, drive::identity(&image));
    image[SNAPSHOT_AT..SNAPSHOT_AT + snapshot.len()].copy_from_slice(&snapshot);

    let device = Arc::new(MemoryDevice::holding(image));
    let clock = Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(drive::config(layout), Some(device), clock)).unwrap();
    for key in 0..drive::KEYS {
        if let Some(value) = block_on(cache.get(&drive::key(key))).unwrap() {
            assert!(drive::versions(key).any(|known| known == *value), "key {key}");
        }
    }
    for key in 0..SMALL {
        block_on(cache.set(&drive::key(key), b"new", None)).unwrap();
    }
    for key in 0..SMALL {
        if let Some(value) = block_on(cache.get(&drive::key(key))).unwrap() {
            assert_eq!(&*value, b"new");
        }
    }
    block_on(cache.close()).unwrap();
}
