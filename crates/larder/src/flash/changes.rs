//! Derives the settings with which a cache was made from its layout, and finds those that have changed.
//!
//! The superblock records how the device is divided, not which settings were given. The settings follow from the
//! layout: of all percentages that give the same number of buckets, the roundest is most likely the one that was
//! configured.

mod array;

use std::fmt;

use larder_device::DeviceInfo;

use super::division::{
    automatic_tombstone_log_bytes, pages_space, share, soc_buckets, soc_log_segments, usable_bytes,
};
use super::pages_layout::PagesLayout;
use crate::base::layout::Layout;
use crate::config::{Config, CrashSafety, LocConfig, OnChange, SOC_PERCENT, SocConfig, SocLayout};
use crate::engine::soc::{BUCKET_BYTES, BUCKET_SNAPSHOT_BYTES};

/// Candidate percentages are multiples of `1 / grain`. Coarser steps come first, since people prefer round numbers.
const GRAINS: [f64; 9] = [1.0, 2.0, 10.0, 20.0, 100.0, 200.0, 1000.0, 10_000.0, 100_000.0];

/// Multiples to try for each grain: metadata takes a part of a share, and its size is only roughly known.
const STEPS: i32 = 50;

/// Returns the layout with which the cache on a device continues. `planned` is the layout that the configuration asks
/// for.
///
/// A different device size is not a changed setting: as long as the whole cache fits, it keeps its layout, unless the
/// configuration allows it to start empty on the whole device.
///
/// # Errors
/// The changed settings, in words.
pub(super) fn reconcile(
    config: &Config,
    info: &DeviceInfo,
    planned: &Layout,
    found: &Layout,
) -> Result<Layout, String> {
    if planned == found {
        return Ok(*found);
    }
    let config = &as_decided(config, found);
    if Layout::plan(config, info).is_ok_and(|layout| layout == *found) {
        return Ok(*found);
    }
    let as_before = DeviceInfo { capacity_bytes: found.capacity_bytes, ..info.clone() };
    let fits = found.usable_bytes <= info.capacity_bytes && config.on_change == OnChange::Refuse;
    if fits && Layout::plan(config, &as_before).is_ok_and(|layout| layout == *found) {
        return Ok(*found);
    }
    let mut changes = Vec::new();
    if !fits && info.capacity_bytes != found.capacity_bytes {
        changes.push(change("the bytes of the device", info.capacity_bytes, found.capacity_bytes));
    }
    changes.extend(settings(config, &as_before, found));
    Err(changes.join(", "))
}

/// Fills in what the cache decided when it was created, where the configuration leaves that to the cache. The default
/// share of small objects and 0 are both no change, because memory budgets vary.
fn as_decided(config: &Config, found: &Layout) -> Config {
    let before = soc_percent(SOC_PERCENT, found);
    let is_decided = config.soc.percent.is_none() && [0.0, SOC_PERCENT].contains(&before);
    let percent = if is_decided { Some(before) } else { config.soc.percent };
    let layout = config.soc.layout.or_else(|| soc_layout(found));
    // The number of sets follows from the memory of the time.
    let pages_per_set = config.soc.pages_per_set.or_else(|| pages_per_set(config, found));
    let log_percent = config.soc.log_percent.or_else(|| Some(soc_log_percent(0.0, found)));
    let soc = SocConfig { percent, layout, pages_per_set, log_percent, ..config.soc.clone() };
    Config { soc, ..config.clone() }
}

/// The settings in `config` that differ from those that divide a device like `info` as in `found`.
fn settings(config: &Config, info: &DeviceInfo, found: &Layout) -> Vec<String> {
    let (mut changes, mut before) = shares(config, found);
    let with = |array| Config { array, ..before.clone() };
    let array = array::before(&config.array, found, |array| Layout::plan(&with(array), info).ok());
    changes.extend(array::changes(&config.array, &array));
    before.array = array;
    let is_explained =
        |before: &Config| Layout::plan(before, info).is_ok_and(|layout| layout == *found);
    if is_explained(&before) {
        return changes;
    }
    if before.crash_safety != CrashSafety::Off {
        let wanted = config.tombstone_log_bytes;
        before.tombstone_log_bytes = u32::try_from(found.tombstone_log_bytes).ok();
        if is_explained(&before) {
            let now = wanted.map_or("None".to_owned(), |bytes| bytes.to_string());
            changes.push(change("tombstone_log_bytes", now, found.tombstone_log_bytes));
            return changes;
        }
        before.tombstone_log_bytes = wanted;
    }
    before.loc.region_bytes = Some(found.region_bytes);
    if is_explained(&before) {
        let now = config.loc.region_bytes.map_or("None".to_owned(), |bytes| bytes.to_string());
        changes.push(change("loc.region_bytes", now, found.region_bytes));
        return changes;
    }
    before.loc.ru_aware_eviction = !config.loc.ru_aware_eviction;
    if is_explained(&before)
        || is_explained(&Config {
            loc: LocConfig { region_bytes: None, ..before.loc.clone() },
            ..before.clone()
        })
    {
        let (now, before) = (config.loc.ru_aware_eviction, before.loc.ru_aware_eviction);
        changes.push(change("loc.ru_aware_eviction", now, before));
    } else if changes.is_empty() {
        changes.push("the size of the device's reclaim units, or loc.region_bytes".to_owned());
    }
    changes
}

/// Compares shares of the device. Returns the changes, and the settings before: they explain everything in `found`
/// except the array engine and the sizes within the parts.
fn shares(config: &Config, found: &Layout) -> (Vec<String>, Config) {
    let mut changes = Vec::new();
    let soc_before = soc_percent(config.soc.percent.unwrap_or(SOC_PERCENT), found);
    if config.soc.percent.is_none_or(|now| now.to_bits() != soc_before.to_bits()) {
        let now = config.soc.percent.map_or("None".to_owned(), |percent| percent.to_string());
        changes.push(change("soc.percent", now, soc_before));
    }
    let layout_before = soc_layout(found);
    if let (Some(now), Some(before)) = (config.soc.layout, layout_before)
        && now != before
    {
        changes.push(change("soc.layout", now, before));
    }
    let pages_before = pages_per_set(config, found);
    if let (Some(now), Some(before)) = (config.soc.pages_per_set, pages_before)
        && now != before
    {
        changes.push(change("soc.pages_per_set", now, before));
    }
    let log_now = config.soc.log_percent.unwrap_or(0.0);
    let before = Config {
        utilization_percent: utilization_percent(config.utilization_percent, found),
        soc: SocConfig {
            percent: Some(soc_before),
            layout: layout_before.or(config.soc.layout),
            pages_per_set: pages_before.or(config.soc.pages_per_set),
            log_percent: Some(soc_log_percent(log_now, found)),
            ..config.soc.clone()
        },
        // The layout does not tell `Process` from `Power`: a cache may switch between them.
        crash_safety: match (found.tombstone_log_bytes, config.crash_safety) {
            (0, _) => CrashSafety::Off,
            (_, CrashSafety::Off) => CrashSafety::Process,
            (_, with_log) => with_log,
        },
        ..config.clone()
    };
    let percents = [
        ("utilization_percent", config.utilization_percent, before.utilization_percent),
        ("soc.log_percent", log_now, before.soc.log_percent.unwrap_or(0.0)),
    ];
    // Values before equal the configuration's own wherever those explain the layout.
    let changed = percents.iter().filter(|(_, now, before)| now.to_bits() != before.to_bits());
    changes.extend(changed.map(|(name, now, before)| change(name, now, before)));
    if before.crash_safety != config.crash_safety {
        changes.push(change("crash_safety", config.crash_safety, before.crash_safety));
    }
    (changes, before)
}

fn change(name: &str, now: impl fmt::Display, before: impl fmt::Display) -> String {
    format!("{name} = {now} (it was made with {before})")
}

fn utilization_percent(now: f64, found: &Layout) -> f64 {
    let explains = |percent: f64| usable_bytes(percent, found.capacity_bytes) == found.usable_bytes;
    shortest(now, part(found.usable_bytes, found.capacity_bytes), explains)
}

/// How small objects are stored; `None` without them.
pub(super) fn soc_layout(found: &Layout) -> Option<SocLayout> {
    match (found.soc_sets, found.soc_buckets) {
        (1.., _) => Some(SocLayout::Pages),
        (0, 1..) => Some(SocLayout::Buckets),
        (0, 0) => None,
    }
}

/// The number of pages of a set: that of `config` if it explains the layout; `None` without sets.
fn pages_per_set(config: &Config, found: &Layout) -> Option<u32> {
    let pages = PagesLayout::of(found);
    let explains = |soc: &SocConfig| soc.sets_for(pages.bytes(), 1) == Some(pages.sets);
    let now = config.soc.pages_per_set.filter(|_| explains(&config.soc));
    (pages.sets > 0).then(|| now.unwrap_or_else(|| pages.pages_per_set()))
}

/// The share of the small-object engine: `now` if it explains the layout.
fn soc_percent(now: f64, found: &Layout) -> f64 {
    let pages = PagesLayout::of(found);
    if pages.sets == 0 {
        return buckets_percent(now, found);
    }
    let (usable, log) = (found.usable_bytes, found.tombstone_log_bytes);
    let explains = |percent: f64| {
        let space = pages_space(percent, usable, log);
        let planned = PagesLayout::with_regions(&Config::default(), space, pages.region_bytes);
        planned.is_ok_and(|it| it.regions == pages.regions)
    };
    // The log of tombstones follows from the share too, unless it is configured.
    let explains_log = |percent| {
        explains(percent) && automatic_tombstone_log_bytes(usable, share(usable, percent)) == log
    };
    let least = part(pages.bytes(), usable);
    let percent = shortest(now, least, explains_log);
    if explains_log(percent) { percent } else { shortest(now, least, explains) }
}

fn buckets_percent(now: f64, found: &Layout) -> f64 {
    let explains = |percent: f64| {
        let buckets = soc_buckets(percent, found.usable_bytes, found.tombstone_log_bytes);
        // Without buckets the share must have been 0.
        buckets == found.soc_buckets && (buckets > 0 || percent == 0.0)
    };
    let bytes = found.soc_buckets.saturating_mul((BUCKET_BYTES + BUCKET_SNAPSHOT_BYTES) as u64);
    shortest(now, part(bytes, found.usable_bytes), explains)
}

fn soc_log_percent(now: f64, found: &Layout) -> f64 {
    let has = (found.soc_log_segments, found.soc_log_segment_bytes);
    let explains = |percent: f64| {
        soc_log_segments(percent, found.usable_bytes, found.soc_buckets, found.tombstone_log_bytes)
            == Some(has)
    };
    let bytes = u64::from(has.0) * u64::from(has.1);
    shortest(now, part(bytes, found.usable_bytes), explains)
}

/// `of` as a percentage of `all`.
#[allow(clippy::cast_precision_loss)]
fn part(of: u64, all: u64) -> f64 {
    of as f64 * 100.0 / all.max(1) as f64
}

/// The roundest percentage, from `least` upwards, that explains the layout; `now` if that explains it.
fn shortest(now: f64, least: f64, explains: impl Fn(f64) -> bool) -> f64 {
    let rounded = GRAINS.into_iter().flat_map(|grain| {
        (0..STEPS).map(move |step| (((least * grain).ceil() + f64::from(step)) / grain).min(100.0))
    });
    let mut candidates = std::iter::once(now).chain(rounded);
    candidates.find(|&percent| explains(percent)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use larder_device::PlacementInfo;

    use super::*;

    fn info(capacity_bytes: u64) -> DeviceInfo {
        DeviceInfo {
            placement: PlacementInfo { reclaim_unit_bytes: Some(1 << 20), ..PlacementInfo::none() },
            ..DeviceInfo::new("test", capacity_bytes, 4096, 1 << 18)
        }
    }

    /// The error text if a cache made with `before` is opened with `now`; empty if it opens.
    fn said(before: &Config, now: &Config) -> String {
        let info = info(256 << 20);
        let found = Layout::plan(before, &info).unwrap();
        let planned = Layout::plan(now, &info).unwrap();
        reconcile(now, &info, &planned, &found).err().unwrap_or_default()
    }

    fn with_buckets(percent: f64) -> Config {
        let (percent, layout) = (Some(percent), Some(SocLayout::Buckets));
        Config { soc: SocConfig { percent, layout, ..SocConfig::default() }, ..Config::default() }
    }

    #[test]
    fn each_setting_is_named_with_both_values() {
        let base = || with_buckets(4.0);
        let said = |now: Config| said(&base(), &now);
        assert_eq!(said(base()), "");
        assert_eq!(
            said(Config { soc: SocConfig { percent: Some(10.0), ..base().soc }, ..base() }),
            "soc.percent = 10 (it was made with 4)"
        );
        assert_eq!(
            said(Config { utilization_percent: 62.5, ..base() }),
            "utilization_percent = 62.5 (it was made with 100)"
        );
        assert_eq!(
            said(Config { soc: SocConfig { log_percent: Some(5.0), ..base().soc }, ..base() }),
            "soc.log_percent = 5 (it was made with 0)"
        );
        assert_eq!(
            said(Config { crash_safety: CrashSafety::Off, ..base() }),
            "crash_safety = off (it was made with process)"
        );
        assert_eq!(
            said(Config { loc: LocConfig { region_bytes: Some(4 << 20), ..base().loc }, ..base() }),
            "loc.region_bytes = 4194304 (it was made with 2097152)"
        );
        assert_eq!(
            said(Config { tombstone_log_bytes: Some(64 << 10), ..base() }),
            "tombstone_log_bytes = 65536 (it was made with 1048576)"
        );
        let several = Config {
            soc: SocConfig { percent: Some(12.25), log_percent: Some(3.5), ..base().soc },
            ..base()
        };
        assert_eq!(
            said(several),
            "soc.percent = 12.25 (it was made with 4), soc.log_percent = 3.5 (it was made with 0)"
        );
    }

    #[test]
    fn shares_of_pages_are_found_again() {
        let pages = |percent| {
            let soc = SocConfig { layout: Some(SocLayout::Pages), ..with_buckets(percent).soc };
            Config { soc, ..Config::default() }
        };
        for percent in [2.0, 4.0, 7.25, 33.3, 50.0, 90.0] {
            let expected = format!("soc.percent = 20 (it was made with {percent})");
            assert_eq!(said(&pages(percent), &pages(20.0)), expected);
            let expected = "soc.layout = buckets (it was made with pages)";
            assert_eq!(said(&pages(percent), &with_buckets(percent)), expected);
        }
    }

    #[test]
    fn what_was_asked_for_is_found_again() {
        let base = || with_buckets(4.0);
        for percent in [0.0, 0.5, 1.0, 7.25, 33.3, 50.0, 97.5, 100.0] {
            let before =
                Config { soc: SocConfig { percent: Some(percent), ..base().soc }, ..base() };
            let now = Config { soc: SocConfig { percent: Some(20.0), ..base().soc }, ..base() };
            let expected = format!("soc.percent = 20 (it was made with {percent})");
            assert_eq!(said(&before, &now), expected);
        }
        for percent in [0.5, 3.5, 12.5] {
            let before =
                Config { soc: SocConfig { log_percent: Some(percent), ..base().soc }, ..base() };
            let expected = format!("soc.log_percent = 0 (it was made with {percent})");
            let none = SocConfig { log_percent: Some(0.0), ..base().soc };
            assert_eq!(said(&before, &Config { soc: none, ..base() }), expected);
            assert_eq!(said(&before, &base()), "", "it was decided before");
        }
        let before =
            Config { loc: LocConfig { region_bytes: Some(512 << 10), ..base().loc }, ..base() };
        let expected = "loc.region_bytes = None (it was made with 524288)";
        assert_eq!(said(&before, &base()), expected);
        let before =
            Config { loc: LocConfig { region_bytes: Some(3 << 19), ..base().loc }, ..base() };
        let now = Config { loc: LocConfig { ru_aware_eviction: true, ..base().loc }, ..base() };
        assert!(!said(&before, &now).is_empty());
    }

    #[test]
    fn a_config_without_a_small_object_share_keeps_the_share_on_flash() {
        let with = |dram_bytes| Config { dram_bytes, ..Config::default() };
        let info = info(256 << 20);
        let (much, little) = (with(16 << 20), with((16 << 20) - 1));
        let plan = |config: &Config| Layout::plan(config, &info).unwrap();
        assert_eq!(plan(&much).soc_buckets, 0, "16 bytes of flash a byte");
        assert!(plan(&little).soc_buckets > 0);
        for (now, before) in [(&much, &little), (&little, &much)] {
            let found = plan(before);
            assert_eq!(reconcile(now, &info, &plan(now), &found), Ok(found));
        }
        let asked = Config {
            soc: SocConfig { percent: Some(20.0), ..with(64 << 20).soc },
            ..with(64 << 20)
        };
        assert_eq!(said(&asked, &much), "soc.percent = None (it was made with 20)");
        let all = Config { memory_bytes: Some(1 << 20), ..much };
        assert!(plan(&all).soc_buckets > 0, "the budget of everything counts");
    }

    #[test]
    fn a_cache_goes_on_where_it_is_on_a_device_of_another_size() {
        let config = Config { utilization_percent: 50.0, ..Config::default() };
        let found = Layout::plan(&config, &info(256 << 20)).unwrap();
        let with = |capacity_bytes| {
            let info = info(capacity_bytes);
            let planned = Layout::plan(&config, &info).unwrap();
            reconcile(&config, &info, &planned, &found)
        };
        assert_eq!(with(512 << 20), Ok(found));
        assert_eq!(with(128 << 20), Ok(found), "all of it is there");
        let gone = "the bytes of the device = 104857600 (it was made with 268435456)";
        assert_eq!(with(100 << 20), Err(gone.to_owned()));
    }
}
