//! Sets that wait for nothing.

use std::sync::Arc;
use std::time::Duration;

use larder::{Config, ErrorKind, Larder, RealClock, SetOptions, Shards, VirtualClock, block_on};
use larder_device::{Device, MemoryDevice};

const FOR_AN_HOUR: SetOptions = SetOptions {
    ttl: Some(Duration::from_secs(3600)),
    flags: 7,
    tiers: larder::Tiers::Both,
    version: None,
    stale: false,
    won: false,
    binary_key: false,
};

fn memory(bytes: usize) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::holding(vec![0; bytes]))
}

fn value_of(cache: &Larder, key: &[u8]) -> Option<Vec<u8>> {
    block_on(cache.get(key)).unwrap().map(|value| value.to_vec())
}

#[test]
fn they_store_in_a_cache_without_flash_what_a_set_stores() {
    let clock = Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, clock)).unwrap();
    assert!(cache.set_at_once(b"bread", b"rye", FOR_AN_HOUR).unwrap());
    let meta = block_on(cache.get_with(b"bread", |_, meta| meta)).unwrap().unwrap();
    assert_eq!(meta.flags, 7);
    assert!(meta.remaining(cache.now()).unwrap() > Duration::from_secs(3590));
    assert!(cache.set_at_once(b"bread", b"oat", SetOptions::default()).unwrap());
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"oat"[..]));
    let stats = cache.stats();
    assert_eq!((stats.sets, stats.replaced_objects), (2, 1));
}

#[test]
fn they_change_nothing_if_they_would_wait_or_fail() {
    let clock = Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, clock)).unwrap();
    assert!(cache.set_at_once(b"bread", b"rye", SetOptions::default()).unwrap());
    let huge = vec![0; usize::try_from(Config::default().dram_bytes).unwrap()];
    assert!(!cache.set_at_once(b"bread", &huge, SetOptions::default()).unwrap());
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"rye"[..]), "a set would remove it");
    let too_long = vec![b'k'; 1 << 17];
    let refused = cache.set_at_once(&too_long, b"rye", SetOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(cache.stats().sets, 1);
    block_on(cache.close()).unwrap();
    assert!(!cache.set_at_once(b"bread", b"oat", SetOptions::default()).unwrap());
    let closed = block_on(cache.set(b"bread", b"oat", None)).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

/// A version on flash must be void before the new one is there: that may need a write.
#[test]
fn they_leave_a_key_that_flash_holds_to_a_set_that_waits() {
    let device = memory(64 << 20);
    let open = || {
        let clock = Arc::new(RealClock);
        block_on(Larder::open(Config::default(), Some(Arc::clone(&device)), clock)).unwrap()
    };
    let cache = open();
    assert!(cache.set_at_once(b"bread", b"rye", SetOptions::default()).unwrap(), "a new key");
    block_on(cache.close()).unwrap();
    let cache = open();
    block_on(cache.rebuild());
    assert!(!cache.set_at_once(b"bread", b"oat", SetOptions::default()).unwrap());
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"rye"[..]));
    block_on(cache.set(b"bread", b"oat", None)).unwrap();
    assert!(cache.set_at_once(b"bread", b"spelt", SetOptions::default()).unwrap());
    assert!(cache.set_at_once(b"cake", b"plum", SetOptions::default()).unwrap());
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"spelt"[..]));
    block_on(cache.close()).unwrap();
    let cache = open();
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"spelt"[..]));
}

#[test]
fn a_key_of_several_shards_has_none() {
    let clock = Arc::new(VirtualClock::default());
    let devices = vec![Some(memory(32 << 20)), Some(memory(32 << 20))];
    let shards = block_on(Shards::open(Config::default(), devices, clock)).unwrap();
    assert!(!shards.set_at_once(b"bread", b"rye", SetOptions::default()).unwrap());
    block_on(shards.set(b"bread", b"rye", None)).unwrap();
    assert!(block_on(shards.contains(b"bread")).unwrap());
}

#[test]
fn a_miss_is_told_at_once_only_if_it_is_certain() {
    let clock = || Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, clock())).unwrap();
    assert!(cache.set_at_once(b"bread", b"rye", FOR_AN_HOUR).unwrap());
    let misses = |key: &[u8]| cache.misses_at_once(key).unwrap();
    assert_eq!((misses(b"bread"), misses(b"cake"), misses(b"pie")), (false, true, true));
    let stats = cache.stats();
    assert_eq!((stats.gets, stats.dram_hits), (2, 0), "no answer is not counted");

    let device = memory(64 << 20);
    let open =
        || block_on(Larder::open(Config::default(), Some(Arc::clone(&device)), clock())).unwrap();
    let cache = open();
    block_on(cache.set(b"bread", b"rye", None)).unwrap();
    assert!(!cache.misses_at_once(b"bread").unwrap() && cache.misses_at_once(b"cake").unwrap());
    block_on(cache.close()).unwrap();
    let cache = open();
    assert!(!cache.misses_at_once(b"bread").unwrap(), "flash has it");
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"rye"[..]));
    block_on(cache.close()).unwrap();
    assert!(!cache.misses_at_once(b"cake").unwrap(), "the slow path returns the error");
}
