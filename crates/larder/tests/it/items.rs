//! Metadata of an item: lifetime, version, stale, won, fetched, last access.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder::{
    Cas, Change, Config, ErrorKind, Larder, RealClock, SetOptions, Tiers, ValueMeta, VirtualClock,
    block_on,
};

use crate::rig::{Rig, config, drive, key_of};
use crate::updates::both;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn meta(cache: &Larder, key: &[u8]) -> Option<ValueMeta> {
    block_on(cache.get_with(key, |_, meta| meta)).unwrap()
}

fn there(cache: &Larder, key: &[u8]) -> ValueMeta {
    meta(cache, key).unwrap()
}

fn set(cache: &Larder, key: &[u8], options: SetOptions) {
    block_on(cache.set_with(key, b"rye", options)).unwrap();
}

fn versioned(version: u64) -> SetOptions {
    SetOptions { version: NonZeroU64::new(version), ..SetOptions::default() }
}

/// In DRAM only, and with flash from which nothing comes back.
fn each(test: impl Fn(&Rig)) {
    test(&in_dram(false));
    test(&Rig::open(config(), &drive()));
}

/// In DRAM only, with or without access times.
fn in_dram(access_times: bool) -> Rig {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let config = Config { dram_bytes: 1 << 20, access_times, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::clone(&clock) as _)).unwrap();
    Rig { cache, clock }
}

#[test]
fn a_value_in_dram_lives_to_the_millisecond() {
    each(|rig| {
        let (cache, begin) = (&rig.cache, rig.cache.now());
        let alive = || block_on(cache.contains(b"k")).unwrap();
        block_on(cache.set(b"k", b"v", Some(ms(1300)))).unwrap();
        assert_eq!(there(cache, b"k").remaining(cache.now()), Some(ms(1300)));
        rig.clock.advance_to(begin + ms(1299));
        assert_eq!(there(cache, b"k").remaining(cache.now()), Some(ms(1)));
        assert!(alive());
        rig.clock.advance_to(begin + ms(1300));
        assert!(!alive() && meta(cache, b"k").is_none() && !alive());
        // Fractions of a millisecond are rounded up, but never to an endless lifetime.
        block_on(cache.set(b"k", b"v", Some(Duration::from_micros(1)))).unwrap();
        assert!(alive());
        rig.clock.advance_to(begin + ms(1301));
        assert!(!alive());
        block_on(cache.set(b"k", b"v", Some(Duration::ZERO))).unwrap();
        assert!(!alive() && meta(cache, b"k").is_none());
    });
}

#[test]
fn touch_gives_milliseconds_and_keeps_the_version() {
    both(|rig, push_out| {
        let (cache, begin) = (&rig.cache, rig.cache.now());
        set(cache, b"k", SetOptions { flags: 7, ..versioned(1 << 40) });
        assert!(block_on(cache.touch(b"k", Some(ms(2500)))).unwrap());
        let touched = there(cache, b"k");
        assert_eq!((touched.remaining(cache.now()), touched.flags), (Some(ms(2500)), 7));
        assert_eq!(touched.version, 1 << 40);
        push_out();
        // Flash stores whole seconds, rounded up.
        let back = there(cache, b"k").remaining(cache.now()).unwrap();
        assert!((ms(2500)..ms(3500)).contains(&back), "{back:?}");
        assert!(block_on(cache.touch(b"k", None)).unwrap());
        assert_eq!(there(cache, b"k").remaining(cache.now()), None);
        rig.clock.advance_to(begin + ms(9000));
        assert_eq!(there(cache, b"k").flags, 7);
    });
}

#[test]
fn what_expired_in_dram_does_not_come_back_from_flash_for_the_rest_of_the_second() {
    let rig = Rig::open(config(), &drive());
    let cache = &rig.cache;
    let begin = rig.cache.now();
    block_on(cache.set(b"k", b"v", Some(ms(1200)))).unwrap();
    assert_eq!(block_on(cache.flush()).unwrap().objects, 1);
    rig.clock.advance_to(begin + ms(1200));
    assert!(meta(cache, b"k").is_none());
    rig.clock.advance_to(begin + ms(1300));
    assert!(meta(cache, b"k").is_none() && !block_on(cache.contains(b"k")).unwrap());
}

#[test]
fn versions_of_a_key_grow() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        let mut last = 0;
        for round in 0..50_u32 {
            match round % 5 {
                0 => set(cache, b"k", SetOptions::default()),
                1 => assert!(block_on(cache.append(b"k", b"x")).unwrap()),
                2 => push_out(),
                3 => assert!(block_on(cache.invalidate(b"k", None)).unwrap()),
                _ => {
                    assert!(block_on(cache.delete(b"k")).unwrap());
                    set(cache, b"k", SetOptions::default());
                }
            }
            let version = there(cache, b"k").version;
            assert!(version > last || version == last && round % 5 == 2, "{version} after {last}");
            last = version;
        }
    });
}

#[test]
fn a_version_that_is_given_is_told_and_makes_later_ones_larger() {
    each(|rig| {
        let cache = &rig.cache;
        set(cache, b"k", versioned(5));
        assert_eq!(there(cache, b"k").version, 5);
        for given in [1 << 40, 1 << 49, (1 << 62) + 3, u64::MAX] {
            set(cache, b"k", versioned(given));
            assert_eq!(there(cache, b"k").version, given);
            set(cache, b"k", SetOptions::default());
            let later = there(cache, b"k").version;
            assert!(later > given || given == u64::MAX, "{later} after {given}");
            assert!(block_on(cache.delete(b"k")).unwrap());
            set(cache, b"k", SetOptions::default());
            assert!(there(cache, b"k").version > later);
        }
        set(cache, b"k", versioned(9));
        let swap =
            |version, given| block_on(cache.cas(b"k", b"oat", version, versioned(given))).unwrap();
        assert_eq!(
            [swap(8, 10), swap(9, 10), swap(9, 11)],
            [Cas::OtherVersion, Cas::Stored, Cas::OtherVersion]
        );
        assert_eq!(there(cache, b"k").version, 10);
        let touch = |_: Option<&_>| Change::Invalidate { ttl: None, version: NonZeroU64::new(77) };
        block_on(cache.update(b"k", touch)).unwrap();
        assert_eq!(there(cache, b"k").version, 77);
    });
}

/// Two values with the same version: an update that has seen the first must not overwrite the second.
#[test]
fn an_update_is_one_step_although_versions_come_twice() {
    each(|rig| {
        let cache = &rig.cache;
        block_on(cache.set_with(b"k", b"1", versioned(5))).unwrap();
        let mut looks = 0;
        let before = block_on(cache.update(b"k", |value| {
            looks += 1;
            if looks == 1 && cache.layout().is_none() {
                block_on(cache.set_with(b"k", b"2", versioned(5))).unwrap();
            }
            Change::StoreKeepingExpiry([&value.unwrap()[..], b"+"].concat().into())
        }));
        let newest = if cache.layout().is_none() { "2" } else { "1" };
        assert_eq!(before.unwrap().as_deref(), Some(newest.as_bytes()));
        let value = block_on(cache.get(b"k")).unwrap().unwrap();
        assert_eq!(&*value, format!("{newest}+").as_bytes());
    });
}

#[test]
fn a_stale_value_is_served_and_won_once() {
    each(|rig| {
        let cache = &rig.cache;
        assert!(!block_on(cache.invalidate(b"k", None)).unwrap());
        set(cache, b"k", SetOptions { ttl: Some(ms(90_000)), flags: 7, ..SetOptions::default() });
        let fresh = there(cache, b"k");
        assert!(!fresh.stale && !fresh.won);
        assert!(block_on(cache.invalidate(b"k", None)).unwrap());
        let stale = there(cache, b"k");
        assert!(stale.stale && !stale.won && stale.version > fresh.version && stale.flags == 7);
        assert_eq!(stale.remaining(cache.now()), Some(ms(90_000)));
        assert!(!cache.win(b"k", fresh.version).unwrap(), "a version that is gone");
        assert!(
            cache.win(b"k", stale.version).unwrap() && !cache.win(b"k", stale.version).unwrap()
        );
        let won = there(cache, b"k");
        assert!(won.stale && won.won && won.version == stale.version);
        // Derived values stay stale, and the win is kept.
        assert!(block_on(cache.touch(b"k", Some(ms(5000)))).unwrap());
        assert!(block_on(cache.append(b"k", b"!")).unwrap());
        let derived = there(cache, b"k");
        assert!(derived.stale && derived.won && derived.version > won.version);
        assert_eq!(derived.remaining(cache.now()), Some(ms(5000)));
        // Another invalidation allows another win, and the value gets the given lifetime.
        assert!(block_on(cache.invalidate(b"k", Some(ms(30_000)))).unwrap());
        let again = there(cache, b"k");
        assert!(again.stale && !again.won);
        assert_eq!(again.remaining(cache.now()), Some(ms(30_000)));
        set(cache, b"k", SetOptions::default());
        let new = there(cache, b"k");
        assert!(!new.stale && !new.won);
        assert!(!cache.win(b"k", 0).unwrap() && cache.win(b"k", new.version).unwrap());
        assert_eq!(cache.win(&[7; 65_536], 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

/// Flash does not store staleness: a stale value that leaves DRAM is gone, and an older one does not come back.
#[test]
fn a_stale_value_never_comes_back_as_a_fresh_one() {
    let stub = SetOptions { won: true, ..SetOptions::default() };
    let stale = SetOptions { stale: true, tiers: Tiers::FlashOnly, ..SetOptions::default() };
    let flash_only = SetOptions { tiers: Tiers::FlashOnly, ..SetOptions::default() };
    for way in 0..4 {
        let drive = drive();
        let rig = Rig::open(config(), &drive);
        let cache = &rig.cache;
        set(cache, b"k", if way == 3 { flash_only } else { SetOptions::default() });
        let _ = block_on(cache.flush()).unwrap();
        match way {
            0 | 3 => assert!(block_on(cache.invalidate(b"k", None)).unwrap()),
            1 => set(cache, b"k", stale),
            _ => set(cache, b"k", stub),
        }
        let seen = there(cache, b"k");
        assert!(seen.stale == (way != 2) && seen.won == (way == 2), "{way}");
        let sent = block_on(cache.flush()).unwrap();
        assert_eq!((sent.objects, sent.refused), (0, 1), "{way}");
        let found = if way % 2 == 0 {
            // Used as frequently as the key, so that the key is evicted.
            for key in (5000..8000).flat_map(|key| [key; 3]) {
                rig.set(key, 1, 100);
            }
            meta(cache, b"k")
        } else {
            block_on(cache.close()).unwrap();
            drop(rig);
            meta(&Rig::open(config(), &drive).cache, b"k")
        };
        assert_eq!(found, None, "{way}");
    }
}

#[test]
fn a_hit_is_told_to_the_next_one() {
    let rig = in_dram(true);
    let (cache, begin) = (&rig.cache, rig.cache.now());
    let known = || {
        let meta = there(cache, b"k");
        (meta.fetched, meta.since_access(cache.now()).map(|idle| idle.as_secs()))
    };
    set(cache, b"k", SetOptions::default());
    rig.clock.advance_to(begin + ms(7000));
    assert_eq!(known(), (false, Some(7)));
    assert_eq!(known(), (true, Some(0)));
    rig.clock.advance_to(begin + ms(11_500));
    // A look-up that is not an access changes nothing.
    assert!(block_on(cache.contains(b"k")).unwrap());
    assert_eq!(block_on(cache.scan().next()).unwrap().len(), 1);
    assert_eq!(known(), (true, Some(4)));
    block_on(cache.touch(b"k", None)).unwrap();
    assert_eq!(known(), (true, Some(0)));
    set(cache, b"k", SetOptions::default());
    assert_eq!(known(), (false, Some(0)));
    let value = block_on(cache.get(b"k")).unwrap().unwrap();
    rig.clock.advance_to(begin + ms(60_000));
    known();
    assert_eq!(
        value.meta().since_access(cache.now()),
        Some(ms(49_000)),
        "it is what was seen then"
    );
}

#[test]
fn without_access_times_none_is_told() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        set(cache, b"k", SetOptions::default());
        let known = || (there(cache, b"k").fetched, there(cache, b"k").since_access(cache.now()));
        assert_eq!((known(), known()), ((false, None), (true, None)));
        block_on(cache.set(b"other", b"v", None)).unwrap();
        push_out();
        assert!(!there(cache, b"other").fetched, "flash does not know");
    });
}

/// Marks are kept when an item is copied to make room, and when other items are written next to it.
#[test]
fn marks_outlive_the_moves_of_their_items() {
    let rig = in_dram(true);
    let cache = &rig.cache;
    let keys = 600_u32;
    for key in 0..keys {
        rig.set(key, 1, 100);
    }
    let look = |key| there(cache, &key_of(key)).version;
    let won: Vec<_> = (0..keys).map(|key| look(key).max(look(key))).collect();
    for (key, version) in (0..keys).zip(&won) {
        assert!(cache.win(&key_of(key), *version).unwrap());
    }
    // Most of the tier dies and is compacted, repeatedly; items with hits stay.
    for round in 0..40 {
        (0..2000).for_each(|key| rig.set(10_000 + 2000 * round + key, round, 400));
        for key in (0..keys).step_by(2) {
            let _ = block_on(cache.get(&key_of(key))).unwrap();
        }
    }
    let kept = (0..keys).filter_map(|key| Some((key, meta(cache, &key_of(key))?)));
    let kept: Vec<_> = kept.filter(|(key, it)| it.version == won[*key as usize]).collect();
    assert!(kept.len() > 100, "{} were kept", kept.len());
    assert!(kept.iter().all(|(_, meta)| meta.won && meta.fetched), "{kept:?}");
}

/// Threads that evict, compact and overwrite run next to threads that try to win: each version is won at most once.
#[test]
fn of_all_callers_that_ask_one_wins() {
    const KEYS: u32 = 40;
    let config = Config { dram_bytes: 128 << 10, access_times: true, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
    // By key: the number of wins of the current version.
    let wins: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    for round in 1..=300_u64 {
        for key in 0..KEYS {
            set(&cache, &key_of(key), versioned(round));
            wins[key as usize].store(0, Ordering::SeqCst);
        }
        std::thread::scope(|scope| {
            for thread in 0..3_u32 {
                let (cache, wins) = (&cache, &wins);
                scope.spawn(move || {
                    for turn in 0..4 * KEYS {
                        let key = turn % KEYS;
                        let _ = block_on(cache.get(&key_of(key))).unwrap();
                        if cache.win(&key_of(key), round).unwrap() {
                            wins[key as usize].fetch_add(1, Ordering::SeqCst);
                        }
                        let other = key_of(100 + (turn * 3 + thread) % 400);
                        block_on(cache.set(&other, &[7; 300], None)).unwrap();
                    }
                });
            }
        });
        assert!(wins.iter().all(|wins| wins.load(Ordering::SeqCst) <= 1));
    }
}

#[test]
fn versions_of_a_key_grow_among_threads() {
    let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let cache = &cache;
            scope.spawn(move || {
                for turn in 0..60_000_usize {
                    // Some overwrite, some append.
                    let value = vec![7; 40 + 8 * ((turn + thread) % 5 / 4)];
                    block_on(cache.set(b"k", &value, None)).unwrap();
                }
            });
        }
        let cache = &cache;
        scope.spawn(move || {
            let mut last = 0;
            for _ in 0..200_000 {
                if let Some(meta) = meta(cache, b"k") {
                    assert!(meta.version >= last, "{} after {last}", meta.version);
                    last = meta.version;
                }
            }
        });
    });
}

#[test]
fn many_values_are_copied_in_order_or_none() {
    both(|rig, push_out| {
        let cache = &rig.cache;
        block_on(cache.set_with(b"a", b"one", SetOptions { flags: 7, ..SetOptions::default() }))
            .unwrap();
        push_out();
        block_on(cache.set(b"b", b"three", None)).unwrap();
        let keys = [&b"b"[..], b"none", b"a", b"b"];
        let mut reply = b">".to_vec();
        let copied = block_on(cache.get_many_into(&keys, &mut reply)).unwrap();
        assert_eq!(reply, b">threeonethree");
        let told: Vec<_> = copied.iter().map(|it| it.map(|it| (it.bytes, it.meta.flags))).collect();
        assert_eq!(told, [Some((5, 0)), None, Some((3, 7)), Some((5, 0))]);
        let mut room = [0; 12];
        let error = block_on(cache.get_many_into(&keys, &mut &mut room[..])).unwrap_err();
        assert_eq!((error.kind(), room), (ErrorKind::InvalidInput, [0; 12]));
        let mut room = [0; 13];
        assert!(block_on(cache.get_many_into(&keys, &mut &mut room[..])).is_ok());
    });
}
