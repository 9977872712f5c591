//! Assigns to each engine its part of the device and its placement handle.

use larder_device::{DeviceInfo, Durability, PlacementHandle};
use larder_log::{LogPlace, RecordForm, RegionEviction, Stream};

use super::unit;
use crate::base::error::Error;
use crate::base::layout::Layout;
use crate::base::ttl_groups::bounds_s;
use crate::config::{Config, LocConfig};
use crate::engine::array::memory::{ArrayMemory, Sizes};
use crate::engine::array::place::ArrayPlace;
use crate::engine::loc::LocPlace;
use crate::engine::loc::streams::{of_handles, streams};
use crate::engine::pages::{OBJECT_BYTES_MAX as PAGE_OBJECT_BYTES_MAX, PagesPlace};
use crate::engine::soc::{SocLogPlace, SocPlace};
use crate::engine::superblock::{EPOCH_MAX, Superblock};
use crate::flash::plan::{Class, PlacementPlan};

/// Bytes of large objects, over all open regions, that may wait until they fill a write.
const OPEN_REGIONS_BYTES: usize = 8 << 20;

/// Bytes of a write of pages by set.
const PAGE_PIECE_BYTES: u32 = 256 << 10;

/// The parts of one cache.
pub(super) struct Places {
    pub(super) soc: Option<SocPlace>,
    pub(super) soc_log: Option<SocLogPlace>,
    pub(super) pages: Option<PagesPlace>,
    pub(super) loc: Option<LocPlace>,
    pub(super) array: Option<ArrayPlace>,
    #[cfg(test)]
    pub(super) plain: Option<super::plain::PlainPlace>,
}

impl Places {
    /// Gives each engine its part of the device and the handle that `placement` has for the class of `tenant`.
    pub(super) fn plan(
        config: &Config,
        info: &DeviceInfo,
        layout: &Layout,
        superblock: &Superblock,
        (placement, tenant): (&PlacementPlan, &str),
    ) -> Result<Self, Error> {
        let handle_of = |class| placement.handle_of(tenant, class);
        let loc = (layout.loc_regions > 0)
            .then(|| loc_place(&config.loc, info, layout, superblock, handle_of))
            .transpose()?;
        let array = (layout.array_regions > 0)
            .then(|| array_place(config, layout, superblock, handle_of))
            .transpose()?;
        let soc = (layout.soc_buckets > 0).then(|| SocPlace {
            offset: layout.soc_offset,
            buckets: layout.soc_buckets,
            handle: handle_of(Class::Soc),
            hot_handle: config.soc.dynamic_placement.then(|| handle_of(Class::SocHot)),
            object_bytes_max: config.soc.max_object_bytes as usize,
            eviction: config.soc.eviction,
            durability: durability(superblock),
            cache: superblock.cache,
            hasher: superblock.hasher,
            epoch: superblock.epoch,
            oldest_epoch: superblock.oldest_epoch,
        });
        let soc_log = (layout.soc_log_segments > 0).then(|| SocLogPlace {
            offset: layout.soc_log_offset,
            segments: layout.soc_log_segments,
            segment_bytes: layout.soc_log_segment_bytes,
            handle: handle_of(Class::SocLog),
            threshold: config.soc.log_threshold,
            cache: superblock.cache,
            first_sequence: first_sequence(superblock.epoch),
        });
        let pages = (layout.soc_page_regions > 0)
            .then(|| pages_place(config, layout, superblock, handle_of(Class::Soc)));
        #[cfg(test)]
        let plain = (layout.plain_blocks > 0).then_some(super::plain::PlainPlace {
            offset: layout.plain_offset,
            blocks: layout.plain_blocks,
            cache: superblock.cache,
            first_position: first_sequence(superblock.epoch),
        });
        Ok(Self {
            soc,
            soc_log,
            pages,
            loc,
            array,
            #[cfg(test)]
            plain,
        })
    }
}

fn loc_place(
    config: &LocConfig,
    info: &DeviceInfo,
    layout: &Layout,
    superblock: &Superblock,
    handle_of: impl Fn(Class) -> PlacementHandle,
) -> Result<LocPlace, Error> {
    let piece_bytes = config.write_bytes.min(layout.region_bytes);
    let log = LogPlace {
        offset: layout.loc_offset,
        regions: layout.loc_regions,
        region_bytes: layout.region_bytes,
        piece_bytes,
        budget_bytes: OPEN_REGIONS_BYTES.max(2 * piece_bytes as usize),
        form: RecordForm::PLAIN,
        streams: of_handles(&loc_handles(config, handle_of), config.ttl_classes.len()),
        eviction: config.eviction,
        regions_per_unit: unit::regions_per_unit(config, info, layout.region_bytes)?,
        durability: durability(superblock),
        cache: superblock.cache,
        first_sequence: first_sequence(superblock.epoch),
    };
    Ok(LocPlace {
        log,
        ttl_classes: config.ttl_classes.clone(),
        reinsertion: config.reinsertion,
        hasher: superblock.hasher,
        eager_index_objects: config.eager_index_objects,
        oldest_sequence: first_sequence(superblock.oldest_epoch),
    })
}

fn pages_place(
    config: &Config,
    layout: &Layout,
    superblock: &Superblock,
    handle: PlacementHandle,
) -> PagesPlace {
    let region_bytes = layout.soc_page_region_bytes;
    let piece_bytes = config.loc.write_bytes.min(PAGE_PIECE_BYTES).min(region_bytes);
    let log = LogPlace {
        offset: layout.soc_offset,
        regions: layout.soc_page_regions,
        region_bytes,
        piece_bytes,
        budget_bytes: 2 * piece_bytes as usize,
        form: RecordForm::PLAIN,
        streams: vec![Stream { handle, segment: 0, stays: false }],
        eviction: RegionEviction::Fifo,
        regions_per_unit: None,
        durability: durability(superblock),
        cache: superblock.cache,
        first_sequence: first_sequence(superblock.epoch),
    };
    PagesPlace {
        log,
        sets: layout.soc_sets,
        object_bytes_max: PAGE_OBJECT_BYTES_MAX.min(config.soc.max_object_bytes as usize),
        hasher: superblock.hasher,
        oldest_sequence: first_sequence(superblock.oldest_epoch),
        first_region_number: layout.large_regions(),
    }
}

fn array_place(
    Config { array: config, soc, .. }: &Config,
    layout: &Layout,
    superblock: &Superblock,
    handle_of: impl Fn(Class) -> PlacementHandle,
) -> Result<ArrayPlace, Error> {
    let groups = bounds_s(layout.array_ttl_groups).unwrap_or_default();
    let array_bytes = u64::from(layout.array_regions) * u64::from(layout.array_region_bytes);
    let sizes = Sizes {
        regions: layout.array_regions,
        region_bytes: layout.array_region_bytes,
        tables: layout.array_tables,
        groups: layout.array_ttl_groups,
        dead_keys_max: layout.tombstones().map(|log| log.table_keys_max(layout.array_tables)),
    };
    let memory = ArrayMemory::plan(config, sizes)?;
    let numbers = (0..groups.len()).map(|group| u16::try_from(group).unwrap_or(u16::MAX));
    let stream = |class, stays| Stream { handle: handle_of(class), segment: 0, stays };
    let mut streams: Vec<_> =
        numbers.map(|group| stream(Class::ArrayGroup(group), false)).collect();
    let index_stream = streams.len();
    // Regions that contain the current tables are not reclaimed for objects.
    streams.push(stream(Class::ArrayTables, true));
    let log = LogPlace {
        offset: layout.array_offset,
        regions: layout.array_regions,
        region_bytes: layout.array_region_bytes,
        piece_bytes: config.write_bytes.min(layout.array_region_bytes),
        budget_bytes: config.open_bytes_of(array_bytes),
        form: RecordForm::STAMPED,
        streams,
        eviction: RegionEviction::Fifo,
        regions_per_unit: None,
        durability: durability(superblock),
        cache: superblock.cache,
        first_sequence: first_sequence(superblock.epoch),
    };
    Ok(ArrayPlace {
        log,
        tables: layout.array_tables,
        sets_per_table: memory.sets_per_table(layout.array_tables),
        memory,
        index_stream,
        groups,
        object_bytes_min: match layout.soc_bytes() {
            0 => config.min_object_bytes,
            // Objects up to this size belong to buckets.
            _ => config.min_object_bytes.max(soc.max_object_bytes + 1),
        },
        reinsertion: config.reinsertion,
        hasher: superblock.hasher,
        oldest_sequence: first_sequence(superblock.oldest_epoch),
        first_region_number: layout.loc_regions,
    })
}

/// Durability required for writes that must not be lost.
fn durability(superblock: &Superblock) -> Durability {
    if superblock.power { Durability::Power } else { Durability::Device }
}

/// First filling number of an epoch. An epoch has room for 2^32 fillings; the next epoch starts above all of them.
fn first_sequence(epoch: u64) -> u64 {
    debug_assert!(epoch < EPOCH_MAX, "the fillings of epoch {epoch} have numbers");
    epoch << 32
}

/// A handle for each stream of the LOC. Objects that were kept once live longer than the rest, and objects that were
/// kept for several hits live longer still. In one reclaim unit, the longer-lived ones would prevent the unit from
/// dying as a whole.
fn loc_handles(
    config: &LocConfig,
    handle_of: impl Fn(Class) -> PlacementHandle,
) -> Vec<PlacementHandle> {
    let classes = (0..config.ttl_classes.len()).map(|class| u16::try_from(class).unwrap_or(0));
    let mut handles = vec![handle_of(Class::Loc)];
    handles.extend(classes.map(|class| handle_of(Class::LocTtl(class))));
    let streams = streams(config.ttl_classes.len(), config.eviction);
    let kept = (1..).map(|segment| handle_of(Class::LocKept(segment)));
    handles.extend(kept.take(streams - handles.len()));
    debug_assert_eq!(handles.len(), streams, "each stream has a handle");
    handles
}
