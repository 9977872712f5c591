//! Updates that wait for nothing.

use std::sync::Arc;
use std::time::Duration;

use larder::{
    Change, Config, ErrorKind, Larder, RealClock, SetOptions, Value, VirtualClock, block_on,
};
use larder_device::{Device, MemoryDevice};

fn memory() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::holding(vec![0; 64 << 20]))
}

fn open(device: Option<&Arc<dyn Device>>) -> Larder {
    block_on(Larder::open(Config::default(), device.cloned(), Arc::new(RealClock))).unwrap()
}

fn value_of(cache: &Larder, key: &[u8]) -> Option<Vec<u8>> {
    block_on(cache.get(key)).unwrap().map(|value| value.to_vec())
}

/// Adds a letter, or begins with one; the lifetime stays.
fn longer(current: Option<&Value>) -> Change<'static> {
    match current {
        None => Change::Store(b"a"[..].into(), SetOptions { flags: 7, ..SetOptions::default() }),
        Some(value) => Change::StoreKeepingExpiry([value, &b"a"[..]].concat().into()),
    }
}

/// What was there before, if it was done.
fn adds(cache: &Larder, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let before = cache.update_at_once(key, longer).unwrap();
    before.map(|before| before.map(|value| value.to_vec()))
}

#[test]
fn they_change_what_dram_has_as_an_update_does() {
    for device in [None, Some(memory())] {
        let cache = open(device.as_ref());
        assert_eq!(adds(&cache, b"bread"), Some(None));
        assert_eq!(adds(&cache, b"bread"), Some(Some(b"a".to_vec())));
        let meta = block_on(cache.get_with(b"bread", |value, meta| (value.to_vec(), meta)));
        let (value, meta) = meta.unwrap().unwrap();
        assert_eq!((&value[..], meta.flags, meta.expires_at), (&b"aa"[..], 7, None));
        let ttl = Some(Duration::from_secs(100));
        assert!(cache.update_at_once(b"bread", |_| Change::Touch(ttl)).unwrap().is_some());
        assert_eq!(adds(&cache, b"bread"), Some(Some(b"aa".to_vec())));
        let end = block_on(cache.get_with(b"bread", |_, meta| meta.expires_at)).unwrap().unwrap();
        assert!(end.is_some(), "the lifetime stays");
        let kept = cache.update_at_once(b"bread", |_| Change::Keep).unwrap();
        assert_eq!(kept.flatten().as_deref(), Some(&b"aaa"[..]));
        assert_eq!(cache.stats().replaced_objects, 3);
        if device.is_some() {
            block_on(cache.close()).unwrap();
            let cache = open(device.as_ref());
            assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"aaa"[..]));
        }
    }
}

#[test]
fn they_change_nothing_if_they_would_wait_or_fail() {
    let device = memory();
    let cache = open(Some(&device));
    block_on(cache.set(b"bread", b"rye", None)).unwrap();
    let huge = vec![0; usize::try_from(Config::default().dram_bytes).unwrap()];
    let stores = |_: Option<&Value>| Change::Store(huge.clone().into(), SetOptions::default());
    assert!(cache.update_at_once(b"bread", stores).unwrap().is_none());
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"rye"[..]));
    let refused = cache.update_at_once(&[b'k'; 1 << 17], longer).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    // A value on flash must be read, and then be void.
    block_on(cache.close()).unwrap();
    let cache = open(Some(&device));
    block_on(cache.rebuild());
    assert_eq!(adds(&cache, b"bread"), None);
    block_on(cache.update(b"bread", longer)).unwrap();
    assert_eq!(adds(&cache, b"bread"), Some(Some(b"ryea".to_vec())));
    block_on(cache.close()).unwrap();
    assert_eq!(adds(&cache, b"bread"), None);
}

#[test]
fn what_has_expired_is_left_to_an_update_that_waits() {
    let clock = Arc::new(VirtualClock::default());
    let cache = block_on(Larder::open(Config::default(), None, Arc::<VirtualClock>::clone(&clock)))
        .unwrap();
    block_on(cache.set(b"bread", b"rye", Some(Duration::from_secs(1)))).unwrap();
    clock.advance_to(Duration::from_secs(3));
    assert_eq!(adds(&cache, b"bread"), None);
    block_on(cache.update(b"bread", longer)).unwrap();
    assert_eq!(value_of(&cache, b"bread").as_deref(), Some(&b"a"[..]));
}

/// Beside updates that wait, no change is lost.
#[test]
fn no_change_is_lost() {
    const EACH: usize = 2000;
    for device in [None, Some(memory())] {
        let cache = open(device.as_ref());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        if thread == 0 || adds(cache, b"bread").is_none() {
                            block_on(cache.update(b"bread", longer)).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(value_of(&cache, b"bread").map(|value| value.len()), Some(4 * EACH));
    }
}
