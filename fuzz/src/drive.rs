//! A small memory device, with the data that a cache leaves on it after a clean shutdown.

use std::sync::Arc;

use larder::{
    Config, CrashSafety, Larder, LocConfig, SocConfig, SocLayout, VirtualClock, block_on,
};
use larder_device::{Device, MemoryDevice};

/// Offset of the snapshot.
pub const SNAPSHOT_AT: usize = 32 << 10;
/// Offset of the superblock's content, after the header of its label.
const CONTENT_AT: usize = 64;
/// The epoch of the shutdown.
pub const EPOCH: u64 = 1;
/// Number of keys that were set. The first [`SMALL`] of them have small values.
pub const KEYS: u32 = 24;
/// Number of keys with small values.
pub const SMALL: u32 = 16;

/// The tombstone log alone takes 64 KiB. Pages by set have none, and larger regions.
const CAPACITY_BYTES: [usize; 2] = [192 << 10, 320 << 10];

/// The configuration of all caches here. With pages, what is gone is in the snapshot.
pub fn config(layout: SocLayout) -> Config {
    let (percent, crash_safety) = match layout {
        SocLayout::Buckets => (30.0, CrashSafety::Process),
        _ => (50.0, CrashSafety::Off),
    };
    Config {
        dram_bytes: 8 << 10,
        soc: SocConfig { percent: Some(percent), layout: Some(layout), ..SocConfig::default() },
        crash_safety,
        loc: LocConfig { region_bytes: Some(8192), ..LocConfig::default() },
        hash_seed: Some(0),
        ..Config::default()
    }
}

/// The key with this number.
pub fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// The values that a key had, in order.
pub fn versions(number: u32) -> impl Iterator<Item = Vec<u8>> {
    let length = if number < SMALL { 50 } else { 2000 };
    (1..=2).map(move |version| format!("{version} of {number} ").into_bytes().repeat(length / 10))
}

/// The bytes of a device after some sets, deletes and a clean shutdown. They are the same in each call.
pub fn after_clean_shutdown(layout: SocLayout) -> Vec<u8> {
    let capacity = CAPACITY_BYTES[usize::from(layout == SocLayout::Pages)];
    let device = Arc::new(MemoryDevice::holding(vec![0; capacity]));
    let shared: Arc<dyn Device> = Arc::clone(&device) as _;
    let cache =
        block_on(Larder::open(config(layout), Some(shared), Arc::new(VirtualClock::default())))
            .expect("the configuration fits the device");
    for round in 0..2 {
        for number in (0..KEYS).filter(|number| round == 0 || number % 3 == 0) {
            let value = versions(number).nth(round).expect("there are two versions");
            block_on(cache.set(&key(number), &value, None)).expect("the object fits");
        }
    }
    for number in [5, KEYS - 5] {
        block_on(cache.delete(&key(number))).expect("the key is fine");
    }
    block_on(cache.close()).expect("the device does not fail");
    device.bytes()
}

/// Bytes that the layout reserves for the snapshot.
pub fn snapshot_room(image: &[u8]) -> usize {
    number(image, CONTENT_AT + 64) - SNAPSHOT_AT
}

/// The identity of the cache that wrote the image: the start of the UUID in its label.
pub fn identity(image: &[u8]) -> [u8; 6] {
    *image[24..].first_chunk().expect("within the label")
}

/// Offset of the regions, from the second section of the superblock.
pub fn regions_at(image: &[u8]) -> usize {
    number(image, CONTENT_AT + 80 + 32 + 8)
}

/// An 8-byte field of a device, as an address or a length.
pub fn number(image: &[u8], at: usize) -> usize {
    let bytes = image[at..].first_chunk().expect("within the device");
    usize::try_from(u64::from_le_bytes(*bytes)).expect("the device is in memory")
}
