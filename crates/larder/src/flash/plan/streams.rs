//! The streams of a cache, and what can be assumed of them before anything was written.

use std::time::Duration;

use larder_device::plan::{Class, Stream};

use crate::base::layout::Layout;
use crate::base::ttl_groups::bounds_s;
use crate::config::{Config, RegionEviction};
use crate::engine::array::table::TABLE_BYTES;

const DAY: Duration = Duration::from_secs(86_400);
/// Next to engines of large objects, the small-object engine is assumed to write half of all bytes: small objects are
/// numerous, and each costs a write of a bucket.
const SOC_SHARE: f64 = 0.5;
/// Share of the log in the writes of the small-object engine: the log writes each object once, while a write of a
/// bucket takes several objects.
const LOG_PART: f64 = 0.5;
/// Share of the hot buckets in the writes of all buckets.
const HOT_PART: f64 = 0.25;
/// Maximum lifetime of data in hot buckets, relative to the others; follows from the definition of hot.
const HOT_LIFETIME: f64 = 0.5;

/// Shares of the LOC's writes: of all TTL classes together, and of objects kept at reclaims.
const TTL_PART: f64 = 0.5;
const KEPT_PART: f64 = 0.25;
/// Share of an array in the writes of large objects, next to a large-object engine.
const ARRAY_SHARE: f64 = 0.5;
/// Share of the index tables in the array's writes: some hundred bytes for each object of many KiB.
const TABLES_PART: f64 = 0.03;
/// Share of the last group, with a far expiry or none, in the writes of the array's objects. All other groups together
/// have the rest.
const LAST_GROUP_PART: f64 = 0.5;

/// Lifetime of objects kept at reclaims, as a multiple of the others' lifetime, by segment.
const KEPT_LIFETIMES: [f64; 2] = [3.0, 5.0];

/// The streams of one cache on its device, in the order in which handles are numbered. The SOC and the LOC come first,
/// so that their handles do not depend on what else there is.
pub(crate) fn streams_of(config: &Config, layout: &Layout, tenant: &str) -> Vec<Stream> {
    let soc_bytes = layout.soc_bytes();
    let loc_bytes = u64::from(layout.loc_regions) * u64::from(layout.region_bytes);
    let log_bytes = u64::from(layout.soc_log_segments) * u64::from(layout.soc_log_segment_bytes);
    let small = match (soc_bytes, layout.large_regions()) {
        (0, _) => 0.0,
        (_, 0) => 1.0,
        _ => SOC_SHARE,
    };
    let log = if log_bytes > 0 { small * LOG_PART } else { 0.0 };
    let has_hot = config.soc.dynamic_placement && layout.soc_buckets > 0;
    let hot = if has_hot { (small - log) * HOT_PART } else { 0.0 };
    let soc_lifetime = lifetime(soc_bytes, small - log, layout.capacity_bytes);
    let stream = |class, write_share, lifetime| Stream {
        tenant: tenant.to_owned(),
        class,
        write_share,
        lifetime,
        places: config.placement,
    };
    let area = |class, bytes, share| {
        (bytes > 0).then(|| stream(class, share, lifetime(bytes, share, layout.capacity_bytes)))
    };
    let soc = (soc_bytes > 0).then(|| stream(Class::Soc, small - log - hot, soc_lifetime));
    let hot_lifetime = soc_lifetime.map(|lifetime| lifetime.mul_f64(HOT_LIFETIME));
    let hot = has_hot.then(|| stream(Class::SocHot, hot, hot_lifetime));
    let metadata = Some(stream(Class::Metadata, 0.0, None));
    let array = match (layout.array_regions, loc_bytes) {
        (0, _) => 0.0,
        (_, 0) => 1.0 - small,
        _ => (1.0 - small) * ARRAY_SHARE,
    };
    let large = 1.0 - small - array;
    let [loc, ttl, kept] = loc_shares(config, large);
    let all = lifetime(loc_bytes, large, layout.capacity_bytes).filter(|_| loc_bytes > 0);
    let loc = (loc_bytes > 0).then(|| stream(Class::Loc, loc, all));
    let log = area(Class::SocLog, log_bytes, log);
    let mut streams: Vec<_> = [soc, loc, log, hot].into_iter().flatten().collect();
    if loc_bytes > 0 {
        for (class, bound) in (0..).zip(&config.loc.ttl_classes) {
            let bound = Duration::from_secs(u64::from(*bound));
            let lifetime = all.map_or(bound, |all| all.min(bound));
            streams.push(stream(Class::LocTtl(class), ttl, Some(lifetime)));
        }
        if kept > 0.0 {
            for (segment, times) in (1..).zip(KEPT_LIFETIMES) {
                let share = kept / 2.0;
                let lifetime = all.map(|all| all.mul_f64(times));
                streams.push(stream(Class::LocKept(segment), share, lifetime));
            }
        }
    }
    let array = array_streams(layout, array).into_iter();
    streams.extend(array.map(|(class, share, lifetime)| stream(class, share, lifetime)));
    streams.extend(metadata);
    streams
}

/// Streams of the array, if there is one: its tables, then its TTL groups.
fn array_streams(layout: &Layout, share: f64) -> Vec<(Class, f64, Option<Duration>)> {
    let bytes = u64::from(layout.array_regions) * u64::from(layout.array_region_bytes);
    let Some(bounds) = bounds_s(layout.array_ttl_groups).filter(|_| bytes > 0) else {
        return Vec::new();
    };
    let (tables, objects) = (share * TABLES_PART, share * (1.0 - TABLES_PART));
    // A table lives until it is written again.
    let tables_bytes = u64::from(layout.array_tables) * TABLE_BYTES as u64;
    let tables_lifetime = lifetime(tables_bytes, tables, layout.capacity_bytes);
    let all = lifetime(bytes, share, layout.capacity_bytes);
    let others = bounds.len() - 1;
    let last = if others > 0 { objects * LAST_GROUP_PART } else { objects };
    let mut streams = vec![(Class::ArrayTables, tables, tables_lifetime)];
    for (group, bound) in (0..).zip(bounds) {
        let bound = Duration::from_secs(u64::from(*bound));
        let is_last = usize::from(group) == others;
        // Regions of the last group end only by reclaim.
        let lifetime = if is_last { all } else { Some(all.map_or(bound, |all| all.min(bound))) };
        let share = if is_last { last } else { (objects - last) / part_count(others) };
        streams.push((Class::ArrayGroup(group), share, lifetime));
    }
    streams
}

#[allow(clippy::cast_precision_loss)] // only a few
fn part_count(parts: usize) -> f64 {
    parts.max(1) as f64
}

/// Divides `share` among the LOC's first stream, each TTL class, and the objects kept at reclaims.
fn loc_shares(config: &Config, share: f64) -> [f64; 3] {
    let classes = u32::try_from(config.loc.ttl_classes.len()).unwrap_or(u32::MAX);
    let ttl = if classes > 0 { share * TTL_PART } else { 0.0 };
    let keeps = config.loc.eviction == RegionEviction::SegmentedFifo;
    let kept = if keeps { share * KEPT_PART } else { 0.0 };
    [share - ttl - kept, ttl / f64::from(classes.max(1)), kept]
}

/// How long bytes live in an area of `bytes` that gets `share` of the writes, if the bytes written to the device per
/// day equal its capacity.
#[allow(clippy::cast_precision_loss)] // an estimate
fn lifetime(bytes: u64, share: f64, capacity_bytes: u64) -> Option<Duration> {
    let rounds_a_day = share * capacity_bytes as f64 / bytes as f64;
    let days = rounds_a_day.recip();
    Duration::try_from_secs_f64(DAY.as_secs_f64() * days).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ArrayConfig, LocConfig, SocConfig};
    use larder_device::DeviceInfo;

    fn streams(config: &Config) -> Vec<Stream> {
        let info = DeviceInfo::new("test", 1 << 30, 4096, 1 << 18);
        streams_of(config, &Layout::plan(config, &info).unwrap(), "")
    }

    #[test]
    fn small_areas_that_are_written_as_much_live_shorter() {
        let all = streams(&Config {
            soc: SocConfig {
                dynamic_placement: true,
                log_percent: Some(1.0),
                ..SocConfig::default()
            },
            ..Config::default()
        });
        let classes: Vec<Class> = all.iter().map(|stream| stream.class).collect();
        use Class::{Loc, Metadata, Soc, SocHot, SocLog};
        assert_eq!(classes, [Soc, Loc, SocLog, SocHot, Metadata]);
        let hours = |class: Class| {
            let stream = all.iter().find(|stream| stream.class == class).unwrap();
            stream.lifetime.unwrap().as_secs_f64() / 3600.0
        };
        // 4 % of the device get a quarter of its writes: a sixth of a day.
        assert!((hours(Soc) - 3.84).abs() < 0.05, "{}", hours(Soc));
        assert!((hours(SocHot) - 1.92).abs() < 0.03, "{}", hours(SocHot));
        // 1 % in whole segments of 128 KiB.
        assert!((0.80..=0.96).contains(&hours(SocLog)), "{}", hours(SocLog));
        assert!((hours(Loc) - 45.0).abs() < 2.0, "{}", hours(Loc));
        let shares: f64 = all.iter().map(|stream| stream.write_share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn classes_and_segments_of_the_loc_come_behind_all_others() {
        let config = Config {
            loc: LocConfig {
                ttl_classes: vec![60, 3600],
                eviction: RegionEviction::SegmentedFifo,
                ..LocConfig::default()
            },
            soc: SocConfig { percent: Some(4.0), ..SocConfig::default() },
            ..Config::default()
        };
        let all = streams(&config);
        let classes: Vec<Class> = all.iter().map(|stream| stream.class).collect();
        use Class::{Loc, LocKept, LocTtl, Metadata, Soc};
        let kept = [LocKept(1), LocKept(2)];
        assert_eq!(classes, [&[Soc, Loc, LocTtl(0), LocTtl(1)], &kept[..], &[Metadata]].concat());
        assert_eq!(all[2].lifetime, Some(Duration::from_secs(60)));
        assert!(all[4].lifetime > all[1].lifetime && all[1].lifetime > all[3].lifetime);
        let shares: f64 = all.iter().map(|stream| stream.write_share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn the_array_has_a_stream_of_tables_and_one_for_each_group() {
        let array = |percent, from, ttl_groups| ArrayConfig {
            percent,
            min_object_bytes: from,
            ttl_groups,
            ..ArrayConfig::default()
        };
        let all = streams(&Config { array: array(50.0, 8192, true), ..Config::default() });
        use Class::{ArrayGroup, ArrayTables, Loc, Metadata, Soc};
        let classes: Vec<Class> = all.iter().map(|stream| stream.class).collect();
        assert_eq!(classes[..4], [Soc, Loc, ArrayTables, ArrayGroup(0)]);
        assert_eq!((classes.len(), classes[34], classes[35]), (36, ArrayGroup(31), Metadata));
        let lifetimes: Vec<_> = all[3..35].iter().map(|stream| stream.lifetime.unwrap()).collect();
        assert!(lifetimes.is_sorted() && lifetimes[0] == Duration::from_secs(60), "{lifetimes:?}");
        let shares: f64 = all.iter().map(|stream| stream.write_share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        let one = streams(&Config { array: array(100.0, 0, false), ..Config::default() });
        let classes: Vec<Class> = one.iter().map(|stream| stream.class).collect();
        assert_eq!(classes, [ArrayTables, ArrayGroup(0), Metadata]);
        assert!((one[0].write_share + one[1].write_share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_engine_that_is_off_has_no_stream() {
        for (soc_percent, left) in [(100.0, Class::Soc), (0.0, Class::Loc)] {
            let all = streams(&Config {
                soc: SocConfig { percent: Some(soc_percent), ..SocConfig::default() },
                ..Config::default()
            });
            assert_eq!((all.len(), all[0].class, all[0].write_share), (2, left, 1.0));
        }
    }
}
