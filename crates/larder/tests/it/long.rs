//! Values longer than a region: whole or not at all. Tests that apply to all engines are used for the array too
//! (`array_long.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use larder::{
    Config, Layout, LocConfig, Recovery, RegionEviction, Reinsertion, SocConfig, Stats, Tier,
    block_on,
};
use larder_device::{MemoryDevice, ModelDevice};

use crate::rig::{Rig, config, drive, key_of, value_of, version_in};

pub(crate) const REGION: usize = 64 << 10;

/// Every object goes to flash at once; most are longer than a region.
fn small_regions() -> Config {
    let region_bytes = Some(u32::try_from(REGION).unwrap());
    Config {
        dram_bytes: 0,
        soc: SocConfig { percent: Some(5.0), ..config().soc },
        loc: LocConfig { region_bytes, ..config().loc },
        ..config()
    }
}

/// Content that shows if a part is in the place of another one.
pub(crate) fn patterned(key: u32, version: u32, bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(key) << 32 | u64::from(version));
    (0..bytes).map(|_| rng.u8(..)).collect()
}

pub(crate) fn set(rig: &Rig, key: u32, value: &[u8]) {
    block_on(rig.cache.set(&key_of(key), value, None)).unwrap();
}

pub(crate) fn get(rig: &Rig, key: u32) -> Option<Vec<u8>> {
    block_on(rig.cache.get(&key_of(key))).unwrap().map(|value| value.to_vec())
}

/// Sets a value of each length, finds it, and deletes it.
pub(crate) fn all_lengths_come_back(rig: &Rig, lengths: impl IntoIterator<Item = usize>) -> Stats {
    let regions = (1..=20).map(|regions| regions * REGION);
    for (key, bytes) in (0..).zip(regions.chain(lengths)) {
        let value = patterned(key, 1, bytes);
        set(rig, key, &value);
        assert!(get(rig, key).as_ref() == Some(&value), "{bytes} bytes");
        let found = block_on(rig.cache.get(&key_of(key))).unwrap().unwrap();
        assert_eq!((found.flags(), found.len()), (0, bytes));
        assert!(block_on(rig.cache.contains(&key_of(key))).unwrap());
        assert!(rig.delete(key) && get(rig, key).is_none());
    }
    let stats = rig.cache.stats();
    assert_eq!((stats.rejected_too_large_objects, stats.dram_hits), (0, 0));
    stats
}

#[test]
fn all_lengths_around_regions_and_parts_come_back() {
    let rig = Rig::open(small_regions(), &drive());
    let around_region = (REGION - 120)..(REGION - 80);
    let around_parts = [8000, 8100, 8192, 2 * 8100, 65_537, 100_001].map(|n| n + REGION);
    let stats = all_lengths_come_back(&rig, around_region.chain(around_parts));
    assert_eq!((stats.loc_bad_records, stats.loc_incomplete_objects), (0, 0));
}

/// A long value with a key of `key_bytes` bytes, and one whose key is too long for a head.
pub(crate) fn a_long_key_and_flags_stay(rig: &Rig, key_bytes: usize) {
    let (key, value) = (vec![7; key_bytes], patterned(1, 1, 3 * REGION));
    let options = larder::SetOptions { flags: 77, ..Default::default() };
    block_on(rig.cache.set_with(&key, &value, options)).unwrap();
    let found = block_on(rig.cache.get(&key)).unwrap().unwrap();
    assert!(found[..] == value[..] && found.flags() == 77);
    let error = block_on(rig.cache.set(&vec![7; 65_535], &value, None)).unwrap_err();
    assert!(error.to_string().contains("flash holds at most"), "{error}");
}

/// Checks that objects of `most` bytes are the longest.
pub(crate) fn the_longest_is(rig: &Rig, most: usize) {
    let longest = patterned(2, 1, most - key_of(2).len());
    set(rig, 2, &longest);
    assert!(get(rig, 2) == Some(longest));
    assert!(block_on(rig.cache.set(&key_of(2), &vec![0; most], None)).is_err());
    assert_eq!(get(rig, 2), None, "a refused value leaves no older one behind");
}

#[test]
fn a_long_key_and_flags_stay_with_a_long_value() {
    let rig = Rig::open(small_regions(), &drive());
    // A head needs a region, too.
    a_long_key_and_flags_stay(&rig, REGION - 200);
    // The maximum is a quarter of the engine.
    the_longest_is(&rig, rig.cache.layout().unwrap().loc_regions as usize * REGION / 4);
}

/// A long value and one of `short_bytes` bytes expire.
pub(crate) fn a_time_to_live_ends(rig: &Rig, short_bytes: usize) -> Stats {
    let ttl = Duration::from_secs(10);
    rig.set_for(1, 5, 5 * REGION, ttl);
    rig.set_for(2, 6, short_bytes, ttl);
    assert_eq!((rig.get(1), rig.get(2)), (Some(5), Some(6)));
    rig.clock.advance_to(Duration::from_secs(1011));
    assert_eq!((rig.get(1), rig.get(2)), (None, None));
    rig.cache.stats()
}

#[test]
fn a_time_to_live_ends_for_all_parts() {
    let stats = a_time_to_live_ends(&Rig::open(small_regions(), &drive()), 300);
    assert_eq!(stats.loc_incomplete_objects, 0);
}

/// Short and long values under the same keys, far more than flash holds; deletes, crashes, clean restarts; reclaims
/// that keep objects with hits.
pub(crate) fn nothing_old_comes_back(config: &Config, seed: u64) {
    let drive = drive();
    let mut rig = Rig::open(config.clone(), &drive);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut newest: HashMap<u32, Option<u32>> = HashMap::new();
    let (mut hits, mut long_hits) = (0, 0);
    for version in 1..900 {
        let key = rng.u32(..24);
        match rng.u8(..10) {
            0 => {
                rig.delete(key);
                newest.insert(key, None);
            }
            1..6 => {
                let long = rng.bool();
                let bytes = if long { rng.usize(REGION..10 * REGION) } else { rng.usize(12..5000) };
                rig.set(key, version, bytes);
                newest.insert(key, Some(version));
            }
            _ => {}
        }
        for key in 0..24 {
            if rng.u8(..4) > 0 {
                continue;
            }
            let value = block_on(rig.cache.get(&key_of(key))).unwrap();
            let found = value.as_ref().map(|value| version_in(key, value));
            let known = newest.get(&key).copied().flatten();
            assert!(found.is_none() || found == known, "key {key}: {found:?} for {known:?}");
            hits += usize::from(found.is_some());
            long_hits += usize::from(value.is_some_and(|value| value.len() > REGION));
        }
        match rng.u8(..60) {
            0 => {
                drop(rig);
                rig = Rig::open(config.clone(), &drive);
                assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
                if rng.bool() {
                    block_on(rig.cache.rebuild());
                }
            }
            1 => {
                block_on(rig.cache.close()).unwrap();
                rig = Rig::open(config.clone(), &drive);
                assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
            }
            _ => {}
        }
    }
    assert!(hits > 1000 && long_hits > 300, "{hits} hits, {long_hits} of long values");
}

#[test]
fn nothing_old_comes_back_from_regions_in_order() {
    (0..3).for_each(|seed| nothing_old_comes_back(&small_regions(), seed));
}

#[test]
fn nothing_old_comes_back_where_hits_keep_parts() {
    let reinsertion = Reinsertion::Hits(1);
    let region_eviction = RegionEviction::SegmentedFifo;
    nothing_old_comes_back(
        &Config {
            loc: LocConfig { reinsertion, eviction: region_eviction, ..small_regions().loc },
            ..small_regions()
        },
        10,
    );
    let reinsertion = Reinsertion::Percent(40);
    nothing_old_comes_back(
        &Config { loc: LocConfig { reinsertion, ..small_regions().loc }, ..small_regions() },
        11,
    );
}

/// Checks that all long values that [`flushed_after_restart`] has left are found, and nothing else.
pub(crate) fn check_flushed(rig: &Rig) {
    for key in 0..4 {
        assert_eq!(rig.get(key), Some(9), "key {key}");
    }
    assert_eq!(rig.get(4), None);
}

/// Long values across a clean restart; then they are flushed, and the cache is dropped as in a crash.
pub(crate) fn flushed_after_restart(config: &Config) -> Arc<ModelDevice> {
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    (0..5).for_each(|key| rig.set(key, 9, (key as usize + 1) * 2 * REGION));
    rig.delete(4);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config.clone(), &drive);
    check_flushed(&rig);
    let _ = block_on(rig.cache.flush()).unwrap();
    drop(rig);
    drive
}

#[test]
fn a_restart_keeps_long_values_and_so_does_a_crash_after_a_flush() {
    let drive = flushed_after_restart(&small_regions());
    let rig = Rig::open(small_regions(), &drive);
    block_on(rig.cache.rebuild());
    check_flushed(&rig);
    // Not all regions have been read.
    drop(rig);
    let rig = Rig::open(small_regions(), &drive);
    (0..1000).for_each(|_| assert_eq!(rig.get(4), None));
    check_flushed(&rig);
    assert_eq!(rig.cache.stats().loc_incomplete_objects, 0);
}

/// What a cache has left that shut down cleanly with one value of four regions.
pub(crate) struct LeftBehind {
    config: Config,
    value: Vec<u8>,
    bytes: Vec<u8>,
    pub(crate) layout: Layout,
}

impl LeftBehind {
    pub(crate) fn by(config: Config) -> Self {
        let value = patterned(1, 1, 4 * REGION);
        let device = Arc::new(MemoryDevice::holding(vec![0; 3 << 20]));
        let rig = Rig::open(config.clone(), &device);
        set(&rig, 1, &value);
        let layout = *rig.cache.layout().unwrap();
        block_on(rig.cache.close()).unwrap();
        Self { config, value, bytes: device.bytes(), layout }
    }

    fn reopened(&self, bytes: &[u8]) -> Rig {
        let device = Arc::new(MemoryDevice::holding(bytes.to_vec()));
        let rig = Rig::open(self.config.clone(), &device);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
        rig
    }

    /// Damages each block that is not blank in `regions` regions from `start` on. A look-up must find the value or
    /// nothing, and must continue to find nothing if a record was bad. Returns how many times it was found, and how
    /// many times it was forgotten.
    pub(crate) fn with_each_block_damaged(
        &self,
        (start, regions): (u64, u32),
        bad_records: fn(&Stats) -> u64,
        on_miss: impl Fn(&Stats) -> u64,
    ) -> (u64, u64) {
        let start = usize::try_from(start).unwrap();
        let (mut hits, mut incomplete) = (0, 0);
        for at in (start..start + regions as usize * REGION).step_by(4096) {
            if self.bytes[at..at + 4096].iter().all(|&byte| byte == 0) {
                continue;
            }
            let mut damaged = self.bytes.clone();
            damaged[at + 2000] ^= 0x10;
            let rig = self.reopened(&damaged);
            match get(&rig, 1) {
                Some(found) => {
                    assert!(found == self.value, "a torn value");
                    hits += 1;
                }
                None => incomplete += on_miss(&rig.cache.stats()),
            }
            let is_back = get(&rig, 1).is_some();
            assert_eq!(is_back, bad_records(&rig.cache.stats()) == 0, "forgotten for good");
            set(&rig, 1, &self.value);
            assert!(get(&rig, 1).as_ref() == Some(&self.value));
        }
        (hits, incomplete)
    }

    /// The keys of all parts from `start` on, as docs/formats.md describes records with this magic; they have this
    /// alignment and no flags.
    pub(crate) fn keys_of_parts(
        &self,
        start: u64,
        (magic, align_bytes, key_at): (&[u8], usize, usize),
    ) -> Vec<&[u8]> {
        let regions = &self.bytes[usize::try_from(start).unwrap()..];
        let part_at = |at: &usize| regions[*at..].starts_with(magic) && regions[at + 15] == 0x40;
        let places = (0..regions.len() - 64).step_by(align_bytes).filter(part_at);
        let keys: Vec<_> = places.map(|at| &regions[at + key_at..][..20]).collect();
        assert!(keys.len() >= 32, "{} parts", keys.len());
        keys
    }

    /// A user's key equal to the key of a part is a different key; `ask` may check it further. Its value of `bytes`
    /// bytes displaces the part.
    pub(crate) fn key_like_that_of_a_part(
        &self,
        key: &[u8],
        bytes: usize,
        ask: impl Fn(&Rig),
    ) -> Rig {
        let rig = self.reopened(&self.bytes);
        assert_eq!(block_on(rig.cache.get(key)).unwrap(), None);
        ask(&rig);
        assert!(get(&rig, 1).as_ref() == Some(&self.value), "asking for it does no harm");
        let mine = patterned(2, 1, bytes);
        block_on(rig.cache.set(key, &mine, None)).unwrap();
        assert_eq!(block_on(rig.cache.get(key)).unwrap().as_deref(), Some(&mine[..]));
        assert_eq!(get(&rig, 1), None, "a part is gone");
        assert_eq!(block_on(rig.cache.get(key)).unwrap().as_deref(), Some(&mine[..]));
        rig
    }
}

#[test]
fn a_value_with_a_damaged_part_is_a_miss() {
    let left = LeftBehind::by(small_regions());
    let regions = (left.layout.loc_offset, left.layout.loc_regions);
    let on_miss = |stats: &Stats| {
        assert_eq!(stats.loc_bad_records, 1, "one part or the head");
        stats.loc_incomplete_objects
    };
    let (hits, incomplete) =
        left.with_each_block_damaged(regions, |stats| stats.loc_bad_records, on_miss);
    // Nearly all blocks belong to parts; some bytes lie in the gap at the end of a region.
    assert!(incomplete >= 60 && hits <= 5, "{incomplete} misses, {hits} hits");
}

#[test]
fn a_key_like_that_of_a_part_is_a_key_like_any_other() {
    let left = LeftBehind::by(small_regions());
    for key in left.keys_of_parts(left.layout.loc_offset, (b"LREC", 4, 32)) {
        let is_absent = |rig: &Rig| assert!(!block_on(rig.cache.contains(key)).unwrap());
        let rig = left.key_like_that_of_a_part(key, 2000, is_absent);
        assert_eq!(rig.cache.stats().loc_incomplete_objects, 1);
    }
}

#[test]
fn a_value_whose_first_part_was_evicted_is_a_miss() {
    let rig = Rig::open(small_regions(), &drive());
    let value = patterned(1, 1, 10 * REGION);
    set(&rig, 1, &value);
    let regions = rig.cache.layout().unwrap().loc_regions;
    let mut set_after = 0;
    while get(&rig, 1).inspect(|found| assert!(*found == value, "a torn value")).is_some() {
        rig.set(100 + set_after, 1, REGION / 2 - 200);
        set_after += 1;
    }
    // Two to a region: what was written with the first part is reclaimed first, and not before the others.
    assert!(set_after > 2 * (regions - 16) && set_after < 2 * regions, "{set_after} of {regions}");
    assert_eq!(rig.cache.stats().loc_incomplete_objects, 1);
    set(&rig, 1, &value);
    assert!(get(&rig, 1) == Some(value));
}

/// Scans a cache whose long values are in this tier.
pub(crate) fn a_scan_returns_each_once(rig: &Rig, long: Tier) {
    let ttl = Some(Duration::from_secs(60));
    (0..12).for_each(|key| rig.set(key, 3, (key as usize + 1) * REGION / 2));
    block_on(rig.cache.set(&key_of(20), &value_of(20, 3, 3 * REGION), ttl)).unwrap();
    rig.delete(7);
    rig.set(8, 4, 5 * REGION);
    rig.set(9, 4, 100);
    let mut found = HashMap::new();
    let mut scan = rig.cache.scan();
    while let Some(batch) = block_on(scan.next()) {
        for item in batch {
            let key = (0..30).find(|&key| key_of(key) == item.key()).expect("a user's key");
            let there = (version_in(key, item.value()), item.tier(), item.expires_at());
            assert!(found.insert(key, there).is_none(), "key {key} twice");
        }
    }
    for key in (0..12).filter(|&key| key != 7) {
        let tier = if key == 9 { Tier::SmallObjects } else { long };
        assert_eq!(found[&key], (3 + u32::from(key == 8 || key == 9), tier, None), "key {key}");
    }
    assert_eq!(found[&20], (3, long, Some(Duration::from_secs(1060))));
    assert_eq!(found.len(), 12);
}

#[test]
fn a_scan_returns_long_values_whole_and_once() {
    a_scan_returns_each_once(&Rig::open(small_regions(), &drive()), Tier::LargeObjects);
}
