//! Which engine gets which part of the device, and which placement handle.

use larder_device::{Assignment, DeviceInfo, HandleAllocator};

use super::layout::Layout;
use super::metadata::Superblock;
use super::unit;
use crate::config::Config;
use crate::error::Error;
use crate::loc::LocPlace;
use crate::soc::{LogPlace, SocPlace};

/// The parts of one cache.
pub(super) struct Places {
    pub(super) soc: Option<SocPlace>,
    pub(super) soc_log: Option<LogPlace>,
    pub(super) loc: Option<LocPlace>,
    pub(super) assignments: Vec<Assignment>,
}

impl Places {
    /// Gives out the handles: SOC, LOC, SOC log, and last the SOC's often rewritten buckets, so that
    /// the other streams have the same handles with and without these.
    pub(super) fn plan(
        config: &Config,
        info: &DeviceInfo,
        layout: &Layout,
        superblock: &Superblock,
    ) -> Result<Self, Error> {
        let mut handles = if config.placement {
            HandleAllocator::new(&info.placement)
        } else {
            HandleAllocator::disabled()
        };
        let mut soc = (layout.soc_buckets > 0).then(|| SocPlace {
            offset: layout.soc_offset,
            buckets: layout.soc_buckets,
            handle: handles.allocate("SOC"),
            hot_handle: None,
            epoch: superblock.epoch,
            oldest_epoch: superblock.oldest_epoch,
        });
        // An epoch has room for 2^32 fillings; the next one starts above them all.
        let first_sequence = superblock.epoch << 32;
        let regions_per_unit = unit::regions_per_unit(config, info, layout.region_bytes)?;
        let loc = (layout.loc_regions > 0).then(|| LocPlace {
            offset: layout.loc_offset,
            regions: layout.loc_regions,
            region_bytes: layout.region_bytes,
            piece_bytes: config.region_write_bytes.min(layout.region_bytes),
            handle: handles.allocate("LOC"),
            eviction: config.region_eviction,
            regions_per_unit,
            reinsertion_hits: config.reinsertion_hits,
            oldest_sequence: superblock.oldest_epoch << 32,
            first_sequence,
        });
        let soc_log = (layout.soc_log_segments > 0).then(|| LogPlace {
            offset: layout.soc_log_offset,
            segments: layout.soc_log_segments,
            segment_bytes: layout.soc_log_segment_bytes,
            handle: handles.allocate("SOC log"),
            threshold: config.soc_log_threshold,
            first_sequence,
        });
        if let Some(place) = soc.as_mut().filter(|_| config.dynamic_placement) {
            place.hot_handle = Some(handles.allocate("SOC, hot buckets"));
        }
        Ok(Self { soc, soc_log, loc, assignments: handles.assignments().to_vec() })
    }
}
