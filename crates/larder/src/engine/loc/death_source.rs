//! Where the engine learns which records are dead in the regions that an earlier opening has left.

use std::collections::HashMap;
use std::sync::Arc;

use larder_log::{Footer, RegionId};

use crate::engine::tombstones::Inheritance;

/// Which records of a region are current, as a snapshot lists them.
pub(super) struct ListedRecords {
    pub(super) sequence: u64,
    pub(super) count: usize,
    pub(super) bitmap: Box<[u8]>,
}

impl ListedRecords {
    /// Whether this is the footer that the list describes.
    pub(super) fn is_of(&self, footer: &Footer) -> bool {
        footer.sequence == self.sequence && footer.entries.len() == self.count
    }

    /// Number of current records.
    pub(super) fn current(&self) -> u64 {
        self.bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Whether the record with this number in the footer is current.
    pub(super) fn is_current(&self, record: usize) -> bool {
        debug_assert!(record < self.count, "record {record} of {}", self.count);
        self.bitmap.get(record / 8).is_some_and(|byte| byte >> (record % 8) & 1 == 1)
    }
}

/// The source that names the dead records in the regions that an earlier opening has left.
pub(super) enum DeathSource {
    /// The tombstone log.
    Log(Arc<Inheritance>),
    /// The snapshot, by region: what is not listed is dead.
    Snapshot(HashMap<RegionId, ListedRecords>),
}

impl DeathSource {
    pub(super) fn is_log(&self) -> bool {
        matches!(self, Self::Log(_))
    }

    /// Whether a region may contain something.
    pub(super) fn knows_of(&self, region: RegionId) -> bool {
        match self {
            Self::Log(_) => true,
            Self::Snapshot(regions) => regions.contains_key(&region),
        }
    }

    /// Whether this source applies to this footer.
    pub(super) fn believes(&self, region: RegionId, footer: &Footer) -> bool {
        match self {
            Self::Log(_) => true,
            Self::Snapshot(regions) => regions.get(&region).is_some_and(|it| it.is_of(footer)),
        }
    }

    /// The first valid filling of a region; 0 if any may be valid.
    pub(super) fn first_filling(&self, region: RegionId) -> u64 {
        match self {
            Self::Log(log) => log.first_filling(region.number()),
            Self::Snapshot(regions) => regions.get(&region).map_or(0, |it| it.sequence),
        }
    }
}
