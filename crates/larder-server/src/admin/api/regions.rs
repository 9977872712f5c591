//! `/api/regions`: a map of flash. It has the parts of each cache in the order of the device, and the regions of its
//! large-object engine and its array engine: one per cell, or several per cell if there are many.

use std::ops::Range;

use larder::plan::Class;
use larder::{FlashRegion, Larder, Layout, RegionState};
use serde::Serialize;

use crate::shared::ServerState;
use crate::tenant::Tenant;

/// Most cells per map: more than this cannot be told apart on a screen.
const CELLS_MAX: usize = 2048;

#[derive(Serialize)]
pub(super) struct Regions {
    tenants: Vec<TenantRegions>,
}

#[derive(Serialize)]
struct TenantRegions {
    name: String,
    /// One for each device; none without flash.
    shards: Vec<ShardRegions>,
}

#[derive(Serialize)]
struct ShardRegions {
    parts: Vec<Part>,
    /// The map of the large-object engine.
    #[serde(flatten)]
    loc: Map,
    /// `null` without an array engine.
    array: Option<Map>,
}

/// The regions of one engine.
#[derive(Serialize)]
struct Map {
    region_bytes: u32,
    regions: usize,
    /// Regions in a cell. The cell shows the one that was begun last.
    regions_per_cell: usize,
    cells: Vec<Cell>,
}

/// A part of the device.
#[derive(Serialize)]
struct Part {
    part: &'static str,
    offset: u64,
    bytes: u64,
    handle: u16,
}

#[derive(Serialize)]
struct Cell {
    state: &'static str,
    /// The stream that fills it; `null` if the region is empty or was filled before the start.
    stream: Option<String>,
    handle: Option<u16>,
    /// How many fills the newest region of this cache is ahead of it; `null` if the region is empty. We do not report
    /// the fill numbers themselves: they may be too large for JavaScript.
    behind: Option<u64>,
    age_s: Option<u64>,
}

pub(super) fn of(shared: &ServerState) -> Regions {
    let of_tenant = |tenant: &Tenant| TenantRegions {
        name: tenant.name().to_owned(),
        shards: tenant.caches().into_iter().filter_map(|it| shard(it, tenant.name())).collect(),
    };
    Regions { tenants: shared.tenants.iter().map(|tenant| of_tenant(tenant)).collect() }
}

fn shard(cache: &Larder, tenant: &str) -> Option<ShardRegions> {
    let layout = cache.layout()?;
    let regions = cache.flash_regions();
    // Region numbers run through both engines.
    let is_loc = |region: &FlashRegion| region.number < layout.loc_regions;
    let (loc, array): (Vec<_>, Vec<_>) = regions.into_iter().partition(is_loc);
    let has_array = layout.array_regions > 0;
    Some(ShardRegions {
        parts: parts(layout, |class| cache.placement().handle_of(tenant, class).index()),
        loc: map(cache, &loc, layout.region_bytes),
        array: has_array.then(|| map(cache, &array, layout.array_region_bytes)),
    })
}

fn map(cache: &Larder, regions: &[FlashRegion], region_bytes: u32) -> Map {
    let regions_per_cell = regions.len().div_ceil(CELLS_MAX).max(1);
    let latest = regions.iter().map(|region| region.sequence).max().unwrap_or(0);
    let newest = |group: &[FlashRegion]| group.iter().max_by_key(|it| it.sequence).copied();
    let newest = regions.chunks(regions_per_cell).filter_map(newest);
    Map {
        region_bytes,
        regions: regions.len(),
        regions_per_cell,
        cells: newest.map(|region| cell(cache, &region, latest)).collect(),
    }
}

fn cell(cache: &Larder, region: &FlashRegion, latest: u64) -> Cell {
    let is_empty = matches!(region.state, RegionState::Free | RegionState::Retired);
    let age = region.begun.map(|begun| cache.now().saturating_sub(begun).as_secs());
    Cell {
        state: match region.state {
            RegionState::Free => "free",
            RegionState::Active => "active",
            RegionState::Sealed => "sealed",
            RegionState::Expired => "expired",
            RegionState::Retired => "retired",
            RegionState::Unknown => "unknown",
        },
        stream: region.class.map(|class| class.to_string()),
        handle: region.handle.map(larder_device::PlacementHandle::index),
        behind: (!is_empty).then(|| latest.saturating_sub(region.sequence)),
        age_s: age,
    }
}

/// The existing parts, in the order of the device.
fn parts(layout: &Layout, handle_of: impl Fn(Class) -> u16) -> Vec<Part> {
    let regions = u64::from(layout.loc_regions) * u64::from(layout.region_bytes);
    let segments = u64::from(layout.soc_log_segments) * u64::from(layout.soc_log_segment_bytes);
    let bytes_of = |range: &Range<u64>| range.end - range.start;
    let all = [
        ("metadata", 0, layout.metadata_bytes, Class::Metadata),
        ("tombstones", layout.metadata_bytes, layout.tombstone_log_bytes, Class::Metadata),
        ("LOC", layout.loc_offset, regions, Class::Loc),
        ("array", layout.array_range().start, bytes_of(&layout.array_range()), Class::ArrayTables),
        ("SOC log", layout.soc_log_offset, segments, Class::SocLog),
        ("SOC", layout.soc_offset, layout.soc_bytes(), Class::Soc),
    ];
    let part =
        |(part, offset, bytes, class)| Part { part, offset, bytes, handle: handle_of(class) };
    all.into_iter().filter(|(_, _, bytes, _)| *bytes > 0).map(part).collect()
}
