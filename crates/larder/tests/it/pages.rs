//! `scan_from`: everything that is there, page by page, whatever happens between two pages.

use std::collections::HashMap;
use std::sync::Arc;

use larder::{Config, ErrorKind, Larder, Routed, block_on};

use crate::rig::{Rig, config, drive, key_of, value_of, version_in};

fn number_in(key: &[u8]) -> u32 {
    std::str::from_utf8(&key[4..]).unwrap().parse().unwrap()
}

fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(9) { 4_000 } else { 100 }
}

/// Reads all pages, of `count` items each; calls `between` after each. Returns how many times each key came, and the
/// number of pages.
fn paged(cache: &Larder, count: usize, mut between: impl FnMut(u64)) -> (HashMap<u32, u32>, u64) {
    let (mut all, mut cursor, mut pages) = (HashMap::new(), 0, 0);
    loop {
        let page = block_on(cache.scan_from(cursor, count)).unwrap();
        for item in &page.items {
            *all.entry(number_in(item.key())).or_default() += 1;
        }
        pages += 1;
        between(pages);
        assert!(page.next == 0 || page.next > cursor, "it goes on");
        cursor = page.next;
        if cursor == 0 {
            return (all, pages);
        }
    }
}

#[test]
fn pages_have_everything_once_in_every_tier() {
    for dram_bytes in [20 << 10, 300 << 10] {
        let rig = Rig::open(Config { dram_bytes, ..config() }, &drive());
        (0..800).for_each(|key| rig.set(key, 7, bytes_of(key)));
        for count in [1, 10, 10_000] {
            let (all, pages) = paged(&rig.cache, count, |_| ());
            assert!((0..800).all(|key| all.get(&key) == Some(&1)), "{count} {dram_bytes}");
            assert!(pages > 1 || count > 800, "{pages} pages of {count}");
        }
        assert_eq!(rig.cache.stats().gets, 0, "a scan is no use");
        let about = rig.cache.estimated_len();
        assert!((700..900).contains(&about), "{about} of 800");
    }
}

#[test]
fn items_are_counted_by_where_they_are_and_whether_they_have_a_lifetime() {
    let rig = Rig::open(Config { dram_bytes: 300 << 10, ..config() }, &drive());
    let hour = Some(std::time::Duration::from_secs(3600));
    for key in 0..2000_u32 {
        let lifetime = hour.filter(|_| key % 4 == 0);
        block_on(rig.cache.set(&key_of(key), &[7; 500], lifetime)).unwrap();
    }
    let items = rig.cache.estimated_items();
    assert_eq!(items.total(), items.on_flash + items.in_dram_alone);
    assert!((1700..2300).contains(&items.total()), "{items:?}");
    assert!(items.on_flash > 500 && items.in_dram_alone > 50, "{items:?}");
    assert!((400..600).contains(&items.with_lifetime), "{items:?}");
    // All of them are on flash, and DRAM has copies of some.
    let _ = block_on(rig.cache.flush()).unwrap();
    let items = rig.cache.estimated_items();
    assert_eq!(items.in_dram_alone, 0);
    assert!((400..600).contains(&items.with_lifetime), "{items:?}");
}

#[test]
fn in_dram_alone_pages_are_as_long_as_was_asked() {
    let cache = Larder::in_memory(32 << 20).unwrap();
    for key in 0..50_000_u32 {
        block_on(cache.set(&key_of(key), b"x", None)).unwrap();
    }
    assert_eq!(cache.estimated_len(), 50_000);
    let (all, pages) = paged(&cache, 100, |_| ());
    assert!(all.len() == 50_000 && all.values().all(|&often| often == 1));
    assert!((200..=500).contains(&pages), "{pages} pages of 100");
}

#[test]
fn what_is_changed_between_two_pages_is_in_one_of_them() {
    let rig = Rig::open(Config { dram_bytes: 60 << 10, ..config() }, &drive());
    (0..800).for_each(|key| rig.set(key, 1, bytes_of(key)));
    // Replaced, brought to DRAM and sent to flash during the scan, while other keys come and go.
    let mut key = 0;
    let (all, pages) = paged(&rig.cache, 5, |page| {
        for _ in 0..20 {
            key = (key + 37) % 800;
            match page % 3 {
                0 => rig.set(key, 2, bytes_of(key)),
                1 => drop(block_on(rig.cache.get(&key_of(key)))),
                _ => rig.set(800 + key, 1, 100),
            }
        }
    });
    let missing: Vec<_> = (0..800).filter(|key| !all.contains_key(key)).collect();
    assert!(pages > 5 && missing.is_empty(), "{missing:?} in {pages} pages");
}

#[test]
fn a_cursor_goes_on_when_the_index_has_grown() {
    let cache = Larder::in_memory(1 << 20).unwrap();
    let set = |key: u32| block_on(cache.set(&key_of(key), b"x", None)).unwrap();
    (0..1000).for_each(set);
    let (all, pages) = paged(&cache, 100, |page| {
        cache.set_dram_bytes((1 + page * 7) << 20);
        (1000..1000 + u32::try_from(page).unwrap() * 500).for_each(set);
    });
    assert!((0..1000).all(|key| all.get(&key) == Some(&1)), "{pages} pages");
}

#[test]
fn cursors_that_no_page_has_given_are_harmless() {
    let rig = Rig::open(config(), &drive());
    (0..100).for_each(|key| rig.set(key, 1, bytes_of(key)));
    for cursor in [1, 12_345, (1 << 56) - 1] {
        let page = block_on(rig.cache.scan_from(cursor, 10)).unwrap();
        assert!(page.next == 0 || page.next > cursor);
        assert!(page.items.iter().all(|item| version_in(number_in(item.key()), item.value()) == 1));
    }
    let refused = block_on(rig.cache.scan_from(1 << 56, 10)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let refused = block_on(Routed::new(&rig.cache).scan_from(u64::MAX, 10)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn over_shards_each_key_is_in_one_page() {
    let devices = (0..3).map(|_| Some(drive() as Arc<_>)).collect();
    let clock = Arc::new(larder::RealClock);
    let config = Config { dram_bytes: 60 << 10, ..config() };
    let shards = block_on(larder::Shards::open(config, devices, clock)).unwrap();
    for key in 0..600 {
        block_on(shards.set(&key_of(key), &value_of(key, 1, bytes_of(key)), None)).unwrap();
    }
    let (mut all, mut cursor) = (HashMap::new(), 0);
    loop {
        let page = block_on(shards.scan_from(cursor, 10)).unwrap();
        page.items.iter().for_each(|item| *all.entry(number_in(item.key())).or_insert(0) += 1);
        cursor = page.next;
        if cursor == 0 {
            break;
        }
    }
    assert!((0..600).all(|key| all.get(&key) == Some(&1)));
}
