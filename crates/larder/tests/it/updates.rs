//! Changes that depend on the current value, with and without flash.

use std::sync::Arc;
use std::time::Duration;

use larder::{Cas, Change, Config, ErrorKind, Larder, SetOptions, VirtualClock, block_on};

use crate::rig::{Rig, config, drive};

fn dram_only() -> Rig {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::clone(&clock) as _)).unwrap();
    Rig { cache, clock }
}

/// Pushes all earlier keys to flash by setting many others.
fn push_out(rig: &Rig) {
    (5000..5600).for_each(|key| rig.set(key, 1, 100));
}

pub(crate) fn both(test: impl Fn(&Rig, &dyn Fn())) {
    let rig = dram_only();
    test(&rig, &|| ());
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    test(&rig, &|| push_out(&rig));
    assert!(rig.cache.stats().soc_bucket_reads > 0, "flash was asked");
}

fn options(flags: u32) -> SetOptions {
    SetOptions { flags, ..SetOptions::default() }
}

#[test]
fn add_stores_only_what_is_not_there_and_replace_only_what_is() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert!(!block_on(cache.replace(b"k", b"0", options(0))).unwrap());
        assert!(block_on(cache.add(b"k", b"1", options(7))).unwrap());
        push_out();
        assert!(!block_on(cache.add(b"k", b"2", options(0))).unwrap());
        let value = block_on(cache.get(b"k")).unwrap().unwrap();
        assert_eq!(&*value, b"1");
        push_out();
        assert!(block_on(cache.replace(b"k", b"3", options(9))).unwrap());
        let value = block_on(cache.get(b"k")).unwrap().unwrap();
        assert_eq!((&*value, value.flags()), (&b"3"[..], 9));
    });
}

#[test]
fn cas_stores_over_its_own_version_only() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert_eq!(block_on(cache.cas(b"k", b"x", 1, options(0))).unwrap(), Cas::NotFound);
        block_on(cache.set(b"k", b"1", None)).unwrap();
        push_out();
        let first = block_on(cache.get(b"k")).unwrap().unwrap().version();
        assert_eq!(block_on(cache.cas(b"k", b"2", first, options(0))).unwrap(), Cas::Stored);
        assert_eq!(block_on(cache.cas(b"k", b"3", first, options(0))).unwrap(), Cas::OtherVersion);
        push_out();
        assert_eq!(block_on(cache.get(b"k")).unwrap().as_deref(), Some(&b"2"[..]));
    });
}

#[test]
fn numbers_count_and_other_values_do_not() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert_eq!(block_on(cache.incr(b"n", 1)).unwrap(), None);
        block_on(cache.set_with(b"n", b"10", options(5))).unwrap();
        push_out();
        assert_eq!(block_on(cache.incr(b"n", 5)).unwrap(), Some(15));
        assert_eq!(block_on(cache.decr(b"n", 16)).unwrap(), Some(0));
        block_on(cache.set(b"n", u64::MAX.to_string().as_bytes(), None)).unwrap();
        assert_eq!(block_on(cache.incr(b"n", 2)).unwrap(), Some(1));
        block_on(cache.set(b"n", b"ten", None)).unwrap();
        let refusal = block_on(cache.incr(b"n", 1)).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidInput);
        assert_eq!(block_on(cache.get(b"n")).unwrap().as_deref(), Some(&b"ten"[..]));
    });
}

#[test]
fn append_and_prepend_keep_flags_and_expiry() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert!(!block_on(cache.append(b"k", b"x")).unwrap());
        let ttl = Some(Duration::from_secs(50));
        block_on(cache.set_with(b"k", b"b", SetOptions { ttl, flags: 3, ..SetOptions::default() }))
            .unwrap();
        assert!(block_on(cache.append(b"k", b"c")).unwrap());
        push_out();
        assert!(block_on(cache.prepend(b"k", b"a")).unwrap());
        let value = block_on(cache.get(b"k")).unwrap().unwrap();
        assert_eq!((&*value, value.flags()), (&b"abc"[..], 3));
        rig.clock.advance_to(Duration::from_secs(1050));
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
        rig.clock.advance_to(Duration::from_secs(1000));
    });
}

#[test]
fn touch_changes_how_long_a_value_lives() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert!(!block_on(cache.touch(b"k", None)).unwrap());
        block_on(cache.set(b"k", b"v", Some(Duration::from_secs(10)))).unwrap();
        push_out();
        assert!(block_on(cache.touch(b"k", Some(Duration::from_secs(100)))).unwrap());
        rig.clock.advance_to(Duration::from_secs(1099));
        assert!(block_on(cache.contains(b"k")).unwrap());
        rig.clock.advance_to(Duration::from_secs(1100));
        assert!(!block_on(cache.contains(b"k")).unwrap());
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
    });
}

#[test]
fn contains_sees_both_tiers() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        assert!(!block_on(cache.contains(b"k")).unwrap());
        block_on(cache.set(b"k", b"v", None)).unwrap();
        assert!(block_on(cache.contains(b"k")).unwrap());
        push_out();
        assert!(block_on(cache.contains(b"k")).unwrap());
        assert_eq!(block_on(cache.get(b"k")).unwrap().as_deref(), Some(&b"v"[..]));
    });
}

#[test]
fn many_keys_are_answered_in_their_order() {
    both(|rig, push_out| {
        (0..50).for_each(|key| rig.set(key, key, 100));
        push_out();
        let keys: Vec<_> = [3, 7000, 49, 0].map(crate::rig::key_of).into();
        let values = block_on(rig.cache.get_many(&keys)).unwrap();
        let versions = [3, 7000, 49, 0].into_iter().zip(&values);
        let versions: Vec<_> = versions
            .map(|(key, value)| value.as_ref().map(|value| crate::rig::version_in(key, value)))
            .collect();
        assert_eq!(versions, [Some(3), None, Some(49), Some(0)]);
        assert!(block_on(rig.cache.get_many(&[&[7; 65_536][..]])).is_err());
    });
}

/// Threads increment the same numbers; no step is lost, with set, cas and update mixed in.
#[test]
fn concurrent_updates_lose_nothing() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set(b"n", b"0", None)).unwrap();
        block_on(cache.set(b"m", b"0", None)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for step in 0..2000 {
                        block_on(cache.incr(b"n", 1)).unwrap().unwrap();
                        let counted = block_on(cache.update(b"m", |current| {
                            let number: u64 =
                                std::str::from_utf8(current.unwrap()).unwrap().parse().unwrap();
                            Change::Store((number + 1).to_string().into_bytes().into(), options(0))
                        }));
                        assert!(counted.unwrap().is_some());
                        if step % 500 == 0 {
                            (6000..6100).for_each(|key| rig.set(key, 1, 30));
                        }
                    }
                });
            }
        });
        push_out();
        assert_eq!(block_on(cache.get(b"n")).unwrap().as_deref(), Some(&b"6000"[..]));
        assert_eq!(block_on(cache.get(b"m")).unwrap().as_deref(), Some(&b"6000"[..]));
    });
}

#[test]
fn every_future_can_move_between_threads() {
    fn is_send<T: Send>(_: T) {}
    let rig = dram_only();
    let cache = &rig.cache;
    is_send(cache.get(b"k"));
    is_send(cache.set(b"k", b"v", None));
    is_send(cache.delete(b"k"));
    is_send(cache.get_many(&[b"k"]));
    is_send(cache.contains(b"k"));
    is_send(cache.peek_with(b"k", |value, _| value.len()));
    is_send(cache.get_stream(b"k"));
    is_send(cache.incr(b"k", 1));
    is_send(cache.get_or_fetch(b"k", options(0), || async { Ok::<_, std::io::Error>(vec![]) }));
    is_send(rig.cache.close());
}

#[test]
fn version_0_names_no_value() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set(b"k", b"1", None)).unwrap();
        push_out();
        assert_eq!(block_on(cache.cas(b"k", b"2", 0, options(0))).unwrap(), Cas::OtherVersion);
        let fetch = async || Ok::<_, std::io::Error>(b"f".to_vec());
        let fetched = block_on(cache.get_or_fetch(b"f", options(0), fetch)).unwrap();
        let stored = cache.cas(b"f", b"g", fetched.version(), options(0));
        assert_eq!(block_on(stored).unwrap(), Cas::Stored, "what was fetched has a version");
    });
}

#[test]
fn versions_do_not_begin_anew_with_an_opening() {
    let drive = drive();
    let versions: Vec<u64> = (0..3)
        .map(|opening| {
            // Even if the clock stands still.
            let rig = Rig::open_at(config(), &drive, 1000 + opening / 2);
            block_on(rig.cache.set(b"k", b"v", None)).unwrap();
            let version = block_on(rig.cache.get(b"k")).unwrap().unwrap().version();
            block_on(rig.cache.close()).unwrap();
            version
        })
        .collect();
    let grow = |versions: &[u64]| versions[0] + 1000 < versions[1];
    assert!(versions.windows(2).all(grow), "{versions:?}");
}

#[test]
fn deleting_a_small_object_that_has_expired_deletes_nothing() {
    both(|rig, push_out| {
        rig.set_for(1, 1, 100, Duration::from_secs(5));
        push_out();
        rig.clock.advance_to(Duration::from_secs(1010));
        assert!(!rig.delete(1));
        rig.clock.advance_to(Duration::from_secs(1000));
    });
}

#[test]
fn what_an_update_gives_no_time_is_gone_at_once() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        // Within a millisecond; lifetimes are rounded up to its end.
        rig.clock.advance_to(Duration::from_micros(1_000_001_300));
        block_on(cache.set(b"k", b"1", None)).unwrap();
        push_out();
        let over = SetOptions { ttl: Some(Duration::ZERO), ..SetOptions::default() };
        let before = block_on(cache.update(b"k", |_| Change::Store(b"".into(), over))).unwrap();
        assert_eq!(before.as_deref(), Some(&b"1"[..]));
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
        push_out();
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
    });
}

#[test]
fn a_version_that_was_drawn_is_the_one_that_is_stored() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        let seen = || block_on(cache.get(b"k")).unwrap().map(|value| value.version());
        block_on(cache.set(b"k", b"1", None)).unwrap();
        let before = seen().unwrap();
        push_out();
        let drawn = cache.draw_version(b"k");
        assert!(drawn.get() > before);
        let change =
            |_: Option<&larder::Value>| Change::StoreKeepingExpiryAs(b"2"[..].into(), drawn);
        block_on(cache.update(b"k", change)).unwrap();
        assert_eq!(seen(), Some(drawn.get()));
        assert!(cache.draw_version(b"k") > drawn);
    });
}

#[test]
fn what_is_stored_with_a_drawn_version_lives_as_long_as_before() {
    let rig = dram_only();
    let cache = &rig.cache;
    let options = SetOptions { ttl: Some(Duration::from_secs(60)), ..options(7) };
    block_on(cache.set_with(b"k", b"1", options)).unwrap();
    let meta = || block_on(cache.peek_with(b"k", |_, meta| meta)).unwrap().unwrap();
    let expires_at = meta().expires_at;
    let drawn = cache.draw_version(b"k");
    let change = |_: Option<&larder::Value>| Change::StoreKeepingExpiryAs(b"2"[..].into(), drawn);
    block_on(cache.update(b"k", change)).unwrap();
    assert!(expires_at.is_some());
    assert_eq!((meta().expires_at, meta().flags), (expires_at, 7));
}

#[test]
fn a_peek_sees_both_tiers_and_is_nobodys_use() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        let peek = || block_on(cache.peek_with(b"k", |value, meta| (value.to_vec(), meta.fetched)));
        assert_eq!(peek().unwrap(), None);
        block_on(cache.set(b"k", b"1", Some(Duration::from_secs(60)))).unwrap();
        assert_eq!(peek().unwrap(), Some((b"1".to_vec(), false)));
        assert_eq!(peek().unwrap(), Some((b"1".to_vec(), false)));
        push_out();
        let gets = cache.stats().gets;
        assert_eq!(peek().unwrap().map(|seen| seen.0), Some(b"1".to_vec()));
        assert_eq!(cache.stats().gets, gets);
        rig.clock.advance_to(cache.now() + Duration::from_secs(61));
        assert_eq!(peek().unwrap(), None);
    });
}
