//! Divides the device among the parts of the cache as the configuration asks.

use larder_device::DeviceInfo;

use super::array_layout::ArrayLayout;
use super::dead_keys::{DEAD_KEY_SNAPSHOT_BYTES, DEAD_KEYS_SNAPSHOT_HEADER_BYTES};
use super::pages_layout::{self, PagesLayout};
use super::snapshot::{HEADER_BYTES, PART_HEADER_BYTES, SNAPSHOT_AT};
use super::unit;
use crate::base::error::Error;
use crate::base::layout::{LOG_SEGMENTS_MAX, Layout};
use crate::config::{Config, CrashSafety, LocConfig, SocLayout};
use crate::engine::loc::{self, snapshot::snapshot_bytes_max};
use crate::engine::soc::{BUCKET_BYTES, BUCKET_SNAPSHOT_BYTES, log};
use crate::engine::tombstones::TombstonesPlace;

const BLOCK: u64 = 4096;
/// The tombstone log gets `1 / LOG_PART` of the cache, within the bounds of `LOG_BYTES`: sixteen bytes for each 4 KiB
/// of objects, of which a fraction are replaced before they are evicted.
const LOG_PART: u64 = 256;
const LOG_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=128 << 20;
const REGION_BYTES_AUTO: std::ops::RangeInclusive<u64> = 1 << 20..=32 << 20;
/// Header of the snapshot, and two part headers.
const SNAPSHOT_FIXED_BYTES: u64 = (HEADER_BYTES + 2 * PART_HEADER_BYTES) as u64;
/// Target number of regions. With fewer, dropping one region drops too much of the cache.
const REGIONS_AUTO: u64 = 64;
/// Minimum number of regions, multiplied by the number of regions that are reclaimed together.
const REGIONS_MIN: u64 = 2;
/// Target number of segments of the small-object log. One segment is reclaimed at a time: with fewer segments, too much
/// of the log would be empty, waiting to be filled.
const LOG_SEGMENTS: u64 = 64;
const LOG_SEGMENTS_MIN: u64 = 4;
const LOG_SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 8 << 10..=256 << 10;
const _: () = assert!(
    LOG_BYTES.start().is_multiple_of(BLOCK)
        && REGION_BYTES_AUTO.start().is_multiple_of(BLOCK)
        && LOG_SEGMENT_BYTES.start().is_multiple_of(BLOCK),
    "parts begin and end between blocks"
);
const _: () = assert!(LOG_SEGMENTS_MIN > 1 && LOG_SEGMENTS_MIN <= LOG_SEGMENTS);

/// Bytes that a bucket costs, including its share of the snapshot.
const BUCKET_COST: u64 = (BUCKET_BYTES + BUCKET_SNAPSHOT_BYTES) as u64;

/// The log in front of the buckets.
struct LogLayout {
    segments: u32,
    segment_bytes: u32,
    /// Bytes that the snapshot reserves for it.
    snapshot_bytes: u64,
}

/// The parts for small objects: buckets and a log before them, or pages by set.
struct SmallLayout {
    buckets: u64,
    pages: PagesLayout,
    log: LogLayout,
    /// Bytes that the snapshot reserves for them.
    snapshot_bytes: u64,
}

impl SmallLayout {
    /// Divides the share of `soc_percent`; `page_bytes` of it are for pages by set: all or none.
    fn plan(
        config: &Config,
        info: &DeviceInfo,
        (usable, tombstone_log_bytes): (u64, u64),
        (soc_percent, log_percent, page_bytes): (f64, f64, u64),
    ) -> Result<Self, Error> {
        let (buckets, pages) = match page_bytes {
            0 => {
                let buckets = soc_buckets(soc_percent, usable, tombstone_log_bytes);
                (buckets, PagesLayout::default())
            }
            _ => {
                let space = pages_space(soc_percent, usable, tombstone_log_bytes);
                (0, PagesLayout::plan(config, space, info)?)
            }
        };
        let plan_log = |percent| Layout::plan_log(percent, usable, buckets, tombstone_log_bytes);
        let log = match plan_log(log_percent) {
            // The cache's own choice gives way.
            Err(_) if config.soc.log_percent.is_none() => plan_log(0.0)?,
            log => log?,
        };
        let snapshot_bytes = buckets * BUCKET_SNAPSHOT_BYTES as u64
            + dead_keys_snapshot_bytes(tombstone_log_bytes, buckets)
            + pages.snapshot_bytes
            + log.snapshot_bytes;
        Ok(Self { buckets, pages, log, snapshot_bytes })
    }
}

impl Layout {
    /// Divides the device as the configuration asks.
    pub(crate) fn plan(config: &Config, info: &DeviceInfo) -> Result<Self, Error> {
        check_block(info)?;
        let usable = usable_bytes(config.utilization_percent, info.capacity_bytes);
        #[cfg(test)]
        let (usable, plain_blocks) = super::plain::carve(usable);
        let soc_percent = config.soc_percent(usable);
        let page_bytes = page_bytes(config, (usable, soc_percent));
        let tombstone_log_bytes = tombstone_log_bytes(config, (usable, page_bytes));
        let fixed = fixed_bytes(tombstone_log_bytes);
        let snapshot_fixed = SNAPSHOT_FIXED_BYTES;
        #[cfg(test)]
        let (fixed, snapshot_fixed) = {
            let plain = super::plain::snapshot_bytes(plain_blocks);
            (fixed + plain, snapshot_fixed + plain)
        };
        let log_percent = config.log_percent((soc_percent, share(usable, soc_percent)), usable);
        let shares = (soc_percent, log_percent, page_bytes);
        let small = SmallLayout::plan(config, info, (usable, tombstone_log_bytes), shares)?;
        let SmallLayout { buckets: soc_buckets, pages, log, snapshot_bytes: small_snapshot } =
            small;
        let soc_offset = usable - soc_buckets * BUCKET_BYTES as u64 - pages.bytes();
        let log_bytes = u64::from(log.segments) * u64::from(log.segment_bytes);
        let soc_log_offset = soc_offset.saturating_sub(log_bytes);
        let regions_space = soc_log_offset.saturating_sub(fixed + small_snapshot);
        let array_space = share(usable, config.array.percent).min(regions_space);
        let tombstones = tombstones_place(0, tombstone_log_bytes);
        let array = ArrayLayout::plan(&config.array, array_space, tombstones)?;
        let loc_space = regions_space.saturating_sub(array.bytes() + array.snapshot_bytes);
        let wants_loc = config.loc_percent(soc_percent, log_percent) > 0.0;
        let (region_bytes, loc_regions) =
            Self::plan_loc(&config.loc, info, (usable, loc_space), wants_loc)?;
        let units = soc_buckets + u64::from(pages.regions);
        check_engines(soc_percent, usable, units, loc_regions * u64::from(region_bytes))?;
        let snapshot = snapshot_fixed
            + small_snapshot
            + array.snapshot_bytes
            + loc_regions * snapshot_bytes_max(region_bytes);
        let metadata_bytes = SNAPSHOT_AT + snapshot.next_multiple_of(BLOCK);
        let loc_regions = u32::try_from(loc_regions)
            .map_err(|_| Error::config("more than 2^32 regions: use larger ones"))?;
        let layout = Self {
            capacity_bytes: info.capacity_bytes,
            usable_bytes: usable,
            metadata_bytes,
            tombstone_log_bytes,
            loc_offset: metadata_bytes + tombstone_log_bytes,
            loc_regions,
            region_bytes,
            // 0 without an array, as in caches made before there were arrays.
            array_offset: if array.regions > 0 { soc_log_offset - array.bytes() } else { 0 },
            array_regions: array.regions,
            array_region_bytes: array.region_bytes,
            array_tables: array.tables,
            array_ttl_groups: array.groups,
            soc_offset,
            soc_buckets,
            soc_page_regions: pages.regions,
            soc_page_region_bytes: pages.region_bytes,
            soc_sets: pages.sets,
            soc_log_offset,
            soc_log_segments: log.segments,
            soc_log_segment_bytes: log.segment_bytes,
            #[cfg(test)]
            plain_offset: usable,
            #[cfg(test)]
            plain_blocks,
        };
        debug_assert!(is_in_order(&layout), "no part overlaps another: {layout:?}");
        Ok(layout)
    }

    /// Divides the remaining `space` into regions. Returns the size of a region and the number of regions.
    fn plan_loc(
        config: &LocConfig,
        info: &DeviceInfo,
        (usable, space): (u64, u64),
        wanted: bool,
    ) -> Result<(u32, u64), Error> {
        let region_bytes = match config.region_bytes {
            Some(bytes) => bytes,
            None if config.ru_aware_eviction => {
                unit::fitting_region_bytes(automatic_region_bytes(space), info)?
            }
            None => automatic_region_bytes(space),
        };
        // Regions that are reclaimed together must all exist, or none of them.
        let together = u64::from(unit::regions_per_unit(config, info, region_bytes)?.unwrap_or(1));
        if !wanted {
            return Ok((region_bytes, 0));
        }
        let region_cost = u64::from(region_bytes) + snapshot_bytes_max(region_bytes);
        let regions = space / region_cost / together * together;
        debug_assert!(regions.is_multiple_of(together), "{regions} in groups of {together}");
        let regions_min = (REGIONS_MIN * together).max(regions_open_min(config));
        if regions < regions_min {
            return Err(Error::config(format!(
                "a flash cache of {usable} bytes leaves {space} for the large-object engine: \
                 fewer than {regions_min} regions \
                 of {region_bytes} bytes; use more flash, smaller regions, or soc.percent = 100"
            )));
        }
        Ok((region_bytes, regions))
    }

    /// Divides the share of the log into segments, given the number of buckets and the size of the tombstone log. Each
    /// segment pays for its part of the snapshot.
    fn plan_log(
        percent: f64,
        usable: u64,
        soc_buckets: u64,
        tombstone_log_bytes: u64,
    ) -> Result<LogLayout, Error> {
        if percent == 0.0 {
            return Ok(LogLayout { segments: 0, segment_bytes: 0, snapshot_bytes: 0 });
        }
        let space = share(usable, percent);
        let wanted = 1 << (space / LOG_SEGMENTS).max(1).ilog2();
        let segment_bytes = wanted.clamp(*LOG_SEGMENT_BYTES.start(), *LOG_SEGMENT_BYTES.end());
        let segment_bytes = u32::try_from(segment_bytes).expect("the range is far below 4 GiB");
        let (per_segment, fixed) = log::snapshot_bytes_max(segment_bytes, soc_buckets);
        let segments = space.saturating_sub(fixed) / (u64::from(segment_bytes) + per_segment);
        // The buckets may have taken everything that superblock, snapshot and tombstone log leave.
        let buckets = soc_buckets * BUCKET_COST;
        let fits = buckets + space + beside_engines(tombstone_log_bytes, soc_buckets) <= usable;
        if segments < LOG_SEGMENTS_MIN || !fits {
            return Err(Error::config(format!(
                "soc.log_percent = {percent} of {usable} bytes leaves room for {segments} segments \
                 of {segment_bytes} bytes beside the buckets and the metadata: fewer than \
                 {LOG_SEGMENTS_MIN}; use more flash, another share, or soc.log_percent = 0"
            )));
        }
        if segments > LOG_SEGMENTS_MAX || segments * u64::from(segment_bytes) > log::BYTES_MAX {
            return Err(Error::config(format!(
                "soc.log_percent = {percent} of {usable} bytes: the log can use {} bytes; use a \
                 smaller share",
                log::BYTES_MAX.min(LOG_SEGMENTS_MAX * u64::from(segment_bytes))
            )));
        }
        Ok(LogLayout {
            segments: u32::try_from(segments).expect("below the most"),
            segment_bytes,
            snapshot_bytes: fixed + segments * per_segment,
        })
    }

    /// Where the tombstone log lies, if there is one.
    pub(crate) fn tombstones(&self) -> Option<TombstonesPlace> {
        tombstones_place(self.metadata_bytes, self.tombstone_log_bytes)
    }
}

fn tombstones_place(offset: u64, bytes: u64) -> Option<TombstonesPlace> {
    (bytes > 0).then_some(TombstonesPlace { offset, blocks: bytes / BLOCK })
}

/// Bytes of a device that the cache uses.
pub(super) fn usable_bytes(utilization_percent: f64, capacity_bytes: u64) -> u64 {
    share(capacity_bytes, utilization_percent) / BLOCK * BLOCK
}

/// Refuses devices with unsuitable blocks. All writes of the cache are aligned to [`BLOCK`], so the device's block size
/// must divide it. In-place updates of data that must not be lost rely on sectors that a power loss leaves whole, and
/// memory with smaller blocks does not provide that.
fn check_block(info: &DeviceInfo) -> Result<(), Error> {
    if info.block_bytes >= 512 && BLOCK.is_multiple_of(u64::from(info.block_bytes)) {
        return Ok(());
    }
    Err(Error::config(format!(
        "block_bytes {} of {}: the cache writes units of {BLOCK} bytes, which must be whole blocks of the device, \
         of 512 at least; format the drive with blocks of 512 or 4096 bytes, or use another",
        info.block_bytes, info.name
    )))
}

/// Bytes that the cache needs independently of how it divides the rest.
fn fixed_bytes(tombstone_log_bytes: u64) -> u64 {
    SNAPSHOT_AT + BLOCK + tombstone_log_bytes
}

/// Bytes needed in addition to buckets, segments, regions and their parts of the snapshot.
fn beside_engines(tombstone_log_bytes: u64, soc_buckets: u64) -> u64 {
    fixed_bytes(tombstone_log_bytes)
        + SNAPSHOT_FIXED_BYTES
        + dead_keys_snapshot_bytes(tombstone_log_bytes, soc_buckets)
}

/// Number of buckets that fit into the share of the small-object engine.
pub(super) fn soc_buckets(percent: f64, usable: u64, tombstone_log_bytes: u64) -> u64 {
    let wanted = share(usable, percent);
    // Without regions, no other part gives up space for the snapshot content other than that of buckets.
    let left = usable.saturating_sub(beside_engines(tombstone_log_bytes, wanted / BUCKET_COST));
    wanted.min(left) / BUCKET_COST
}

/// The share of small objects, if they are stored in pages by set; else 0.
fn page_bytes(config: &Config, (usable, soc_percent): (u64, f64)) -> u64 {
    let bytes = share(usable, soc_percent);
    match config.soc.layout_for(bytes, config.memory()) {
        SocLayout::Pages => bytes,
        SocLayout::Buckets => 0,
    }
}

/// Bytes for regions of pages by set, and their parts of the snapshot.
pub(super) fn pages_space(percent: f64, usable: u64, tombstone_log_bytes: u64) -> u64 {
    let left = usable.saturating_sub(beside_engines(tombstone_log_bytes, 0));
    share(usable, percent).min(left)
}

/// Number and size of the segments that fit into the share of the log. `None` if the share is invalid.
pub(super) fn soc_log_segments(
    percent: f64,
    usable: u64,
    soc_buckets: u64,
    tombstone_log_bytes: u64,
) -> Option<(u32, u32)> {
    let log = Layout::plan_log(percent, usable, soc_buckets, tombstone_log_bytes).ok()?;
    Some((log.segments, log.segment_bytes))
}

fn tombstone_log_bytes(config: &Config, (usable, page_bytes): (u64, u64)) -> u64 {
    match config.crash_safety {
        CrashSafety::Off => 0,
        CrashSafety::Process | CrashSafety::Power => config
            .tombstone_log_bytes
            .map_or_else(|| automatic_tombstone_log_bytes(usable, page_bytes), u64::from),
    }
}

/// Bytes of the log if they are not configured, with this share for pages by set.
pub(super) fn automatic_tombstone_log_bytes(usable: u64, page_bytes: u64) -> u64 {
    let common = (usable / LOG_PART / BLOCK * BLOCK).clamp(*LOG_BYTES.start(), *LOG_BYTES.end());
    common + pages_layout::tombstone_bytes(page_bytes) / BLOCK * BLOCK
}

/// Minimum number of regions: with several streams, one open region for each stream, one whose last write is in flight,
/// and one to reclaim.
fn regions_open_min(config: &LocConfig) -> u64 {
    match loc::streams::streams(config.ttl_classes.len(), config.eviction) {
        0 | 1 => REGIONS_MIN,
        streams => streams as u64 + 2,
    }
}

fn check_engines(
    soc_percent: f64,
    usable: u64,
    soc_buckets: u64,
    loc_bytes: u64,
) -> Result<(), Error> {
    if soc_percent > 0.0 && soc_buckets == 0 {
        return Err(Error::config(format!(
            "soc.percent = {soc_percent} of {usable} bytes is less than one bucket; use more flash or \
             soc.percent = 0"
        )));
    }
    if loc_bytes > loc::BYTES_MAX {
        return Err(Error::config(format!(
            "the large-object engine can use {} bytes of one device and would get more; use a \
             smaller utilization_percent, or several caches",
            loc::BYTES_MAX
        )));
    }
    Ok(())
}

/// Upper bound of the snapshot bytes for dead keys in buckets.
fn dead_keys_snapshot_bytes(log_bytes: u64, soc_buckets: u64) -> u64 {
    let Some(log) = tombstones_place(0, log_bytes) else { return 0 };
    DEAD_KEYS_SNAPSHOT_HEADER_BYTES + log.bucket_keys_max(soc_buckets) * DEAD_KEY_SNAPSHOT_BYTES
}

/// A percentage of `bytes`, rounded down.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn share(bytes: u64, percent: f64) -> u64 {
    // The configuration's percentages are 0 to 100, so the product is not negative and not above `bytes`.
    ((bytes as f64 * (percent / 100.0)) as u64).min(bytes)
}

/// Whether the parts follow one another as drawn in `base/layout.rs`.
fn is_in_order(layout: &Layout) -> bool {
    let end = |at: u64, units: u64, unit_bytes: u32| at + units * u64::from(unit_bytes);
    let regions_end = end(layout.loc_offset, u64::from(layout.loc_regions), layout.region_bytes);
    let (array_from, array_end) = match layout.array_regions {
        0 => (layout.soc_log_offset, layout.soc_log_offset),
        regions => {
            let from = layout.array_offset;
            (from, end(from, u64::from(regions), layout.array_region_bytes))
        }
    };
    let log_end = end(
        layout.soc_log_offset,
        u64::from(layout.soc_log_segments),
        layout.soc_log_segment_bytes,
    );
    layout.metadata_bytes + layout.tombstone_log_bytes == layout.loc_offset
        && regions_end <= array_from
        && array_end == layout.soc_log_offset
        && log_end == layout.soc_offset
        && layout.soc_offset + layout.soc_bytes() == layout.usable_bytes
}

fn automatic_region_bytes(loc_space: u64) -> u32 {
    let wanted = (loc_space / REGIONS_AUTO).max(1);
    let power = 1 << wanted.ilog2();
    let bytes = power.clamp(*REGION_BYTES_AUTO.start(), *REGION_BYTES_AUTO.end());
    u32::try_from(bytes).expect("the range is far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ArrayConfig, SocConfig};
    use crate::engine::array::stored::{REGION_SNAPSHOT_BYTES, TABLE_SNAPSHOT_BYTES};
    use crate::engine::tombstones::KeysIn;
    use proptest::prelude::*;

    fn loc_end_of(layout: &Layout) -> u64 {
        layout.loc_offset + u64::from(layout.loc_regions) * u64::from(layout.region_bytes)
    }

    fn info(capacity_bytes: u64) -> DeviceInfo {
        DeviceInfo::new("test", capacity_bytes, 4096, 1 << 18)
    }

    #[test]
    fn too_little_flash_is_refused_with_the_way_out() {
        let error = Layout::plan(&Config::default(), &info(1 << 20)).unwrap_err();
        assert!(error.to_string().contains("soc.percent = 100"), "{error}");
    }

    #[test]
    fn all_flash_can_go_to_small_objects() {
        let config = Config {
            soc: SocConfig {
                percent: Some(100.0),
                layout: Some(SocLayout::Buckets),
                ..SocConfig::default()
            },
            ..Config::default()
        };
        let layout = Layout::plan(&config, &info(64 << 20)).unwrap();
        assert_eq!(layout.loc_regions, 0);
        assert!(layout.soc_buckets > 16_000);
        let soc = SocConfig { layout: Some(SocLayout::Pages), ..config.soc.clone() };
        let layout = Layout::plan(&Config { soc, ..config }, &info(64 << 20)).unwrap();
        assert_eq!((layout.loc_regions, layout.soc_page_region_bytes), (0, 256 << 10));
        assert!(layout.soc_page_regions > 230, "{layout:?}");
    }

    #[test]
    fn a_log_that_the_buckets_leave_no_room_for_is_refused() {
        let config = Config {
            utilization_percent: 19.952_333_796_560_93,
            soc: SocConfig {
                percent: Some(100.0),
                log_percent: Some(0.066_883_561_637_827_66),
                ..SocConfig::default()
            },
            ..Config::default()
        };
        let error = Layout::plan(&config, &info(314_793_984)).unwrap_err().to_string();
        assert!(error.contains("soc.log_percent"), "{error}");
    }

    #[test]
    fn a_log_has_about_as_many_segments_as_it_should() {
        for capacity in [64_u64 << 20, 100 << 20, 300 << 20] {
            let config = Config {
                soc: SocConfig { log_percent: Some(5.0), ..SocConfig::default() },
                ..Config::default()
            };
            let layout = Layout::plan(&config, &info(capacity)).unwrap();
            let (segments, bytes) = (layout.soc_log_segments, layout.soc_log_segment_bytes);
            let limits = [LOG_SEGMENT_BYTES.start(), LOG_SEGMENT_BYTES.end()].map(|limit| *limit);
            assert!(!limits.contains(&u64::from(bytes)), "of {capacity}: {bytes}, not chosen");
            let wanted = LOG_SEGMENTS * 3 / 4..LOG_SEGMENTS * 2;
            assert!(wanted.contains(&u64::from(segments)), "of {capacity}: {segments} of {bytes}");
        }
    }

    #[test]
    fn regions_that_share_a_unit_are_all_there() {
        let mut info = info(64 << 20);
        let config = Config {
            loc: LocConfig { ru_aware_eviction: true, ..LocConfig::default() },
            soc: SocConfig { percent: Some(4.0), ..SocConfig::default() },
            ..Config::default()
        };
        assert!(Layout::plan(&config, &info).unwrap_err().to_string().contains("does not say"));
        info.placement.reclaim_unit_bytes = Some(5 << 20);
        let layout = Layout::plan(&config, &info).unwrap();
        assert_eq!((layout.region_bytes, layout.loc_regions), (1 << 20, 60));
        info.placement.reclaim_unit_bytes = Some(320 << 10);
        let layout = Layout::plan(&config, &info).unwrap();
        assert_eq!((layout.region_bytes, layout.loc_regions), (960 << 10, 65));
        info.placement.reclaim_unit_bytes = Some(32 << 20);
        let error = Layout::plan(&config, &info).unwrap_err().to_string();
        assert!(error.contains("fewer than 64 regions"), "two units of regions: {error}");
    }

    /// Bytes of superblock and snapshot when every engine is as full as possible.
    fn snapshot_bytes_needed(layout: &Layout) -> u64 {
        let segments = u64::from(layout.soc_log_segments);
        let (per_segment, fixed) =
            log::snapshot_bytes_max(layout.soc_log_segment_bytes, layout.soc_buckets);
        let of_log = if segments > 0 { fixed + segments * per_segment } else { 0 };
        SNAPSHOT_AT
            + of_log
            + layout.soc_buckets * BUCKET_SNAPSHOT_BYTES as u64
            + dead_keys_snapshot_bytes(layout.tombstone_log_bytes, layout.soc_buckets)
            + u64::from(layout.loc_regions) * snapshot_bytes_max(layout.region_bytes)
            + u64::from(layout.array_regions) * REGION_SNAPSHOT_BYTES
            + u64::from(layout.array_tables) * TABLE_SNAPSHOT_BYTES
            + u64::from(layout.soc_page_regions)
                * crate::engine::pages::snapshot_bytes_max(layout.soc_page_region_bytes)
            + layout.tombstones().map_or(0, |log| log.keys_max(KeysIn::Tables, layout)) * 8
    }

    proptest! {
        #[test]
        fn parts_never_overlap(
            capacity in 4_u64 << 20..4 << 30,
            utilization in 10.0..100.0_f64,
            soc in prop_oneof![Just(100.0), 0.0..=100.0_f64],
            // Small shares of the log are most likely to be miscounted when buckets take the rest.
            log in prop_oneof![Just(0.0), 0.0..=100.0_f64, 0.0..0.2_f64],
            array in prop_oneof![Just(0.0), Just(100.0), 0.0..=100.0_f64],
            (mean, region) in (1024_u32..100_000, prop::option::of(16_u32..1024)),
        ) {
            let config = Config {
                utilization_percent: utilization,
                array: ArrayConfig {
                    percent: array,
                    min_object_bytes: 10_000,
                    mean_object_bytes: mean,
                    region_bytes: region.map(|blocks| 4096 * blocks),
                    ..ArrayConfig::default()
                },
                soc: SocConfig { percent: Some(soc), log_percent: Some(log), ..SocConfig::default() },
                ..Config::default()
            };
            let fits = config.check().is_ok();
            if let Some(layout) = Layout::plan(&config, &info(capacity / 4096 * 4096)).ok().filter(|_| fits) {
                let log_bytes = u64::from(layout.soc_log_segments) * u64::from(layout.soc_log_segment_bytes);
                prop_assert_eq!(layout.soc_log_offset + log_bytes, layout.soc_offset);
                prop_assert_eq!(log > 0.0, layout.soc_log_segments > 0);
                let array_bytes = u64::from(layout.array_regions) * u64::from(layout.array_region_bytes);
                prop_assert_eq!(array > 0.0, layout.array_regions > 0);
                let array_offset = if array > 0.0 { layout.array_offset } else { layout.soc_log_offset };
                prop_assert_eq!(array_offset + array_bytes, layout.soc_log_offset);
                prop_assert!(loc_end_of(&layout) <= array_offset, "{layout:?}");
                let front = Layout {
                    capacity_bytes: layout.capacity_bytes,
                    usable_bytes: layout.usable_bytes,
                    metadata_bytes: layout.metadata_bytes,
                    ..Layout::default()
                };
                prop_assert_eq!(front.with_sections(&layout.sections()), Some(layout));
                prop_assert_eq!(layout.metadata_bytes + layout.tombstone_log_bytes, layout.loc_offset);
                prop_assert_eq!(layout.soc_offset + layout.soc_bytes(), layout.usable_bytes);
                prop_assert!(layout.usable_bytes <= capacity);
                prop_assert_eq!(layout.loc_offset % 4096, 0);
                prop_assert!(snapshot_bytes_needed(&layout) <= layout.metadata_bytes, "{layout:?}");
            }
        }
    }
}
