//! Statistics of a cache in Open CAS's categories (block-cache.md, 1.12): requests, bytes and errors. Also the reasons
//! for which requests bypassed the cache, and the metadata that was written.

use super::coverage::Coverage;
use crate::layout::{DeviceIo, PlacementClass, Refusal, Span, Target};

/// Why a request has bypassed the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BypassReason {
    /// The mode requires it.
    Mode,
    /// The request is part of a long sequential run.
    SequentialCutOff,
    /// The promotion policy does not admit the data yet.
    Promotion,
    /// The IO class of the request is never cached.
    IoClass,
    /// Its IO class has used up its share of the cache.
    ClassFull,
    /// The cached data is pinned, or belongs to IO classes of higher priority.
    Pinned,
    /// The cache device has failed.
    CacheFailed,
    /// There is no cache device.
    Detached,
    /// The cache device is overloaded: nothing new is cached.
    Saturated,
    /// The cache is full of dirty data, and writing this to the core is cheaper than destaging the data that it would
    /// replace.
    Pressure,
    /// There is no room until something is destaged.
    NoRoom,
}

impl BypassReason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::Mode,
        Self::SequentialCutOff,
        Self::Promotion,
        Self::IoClass,
        Self::ClassFull,
        Self::Pinned,
        Self::CacheFailed,
        Self::Detached,
        Self::Saturated,
        Self::Pressure,
        Self::NoRoom,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::SequentialCutOff => "sequential cut-off",
            Self::Promotion => "promotion",
            Self::IoClass => "io class",
            Self::ClassFull => "io class full",
            Self::Pinned => "pinned",
            Self::CacheFailed => "cache failed",
            Self::Detached => "detached",
            Self::Saturated => "saturated",
            Self::Pressure => "pressure",
            Self::NoRoom => "no room",
        }
    }
}

impl From<Refusal> for BypassReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::ClassFull,
            Refusal::Pinned => Self::Pinned,
        }
    }
}

/// Requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All sectors were cached.
    pub hits: u64,
    /// Some sectors were cached.
    pub partial_misses: u64,
    /// No sector was cached.
    pub full_misses: u64,
    /// The request has bypassed the cache; not included in the others.
    pub pass_through: u64,
    /// Bytes of all these requests.
    pub bytes: u64,
}

impl RequestCounts {
    /// The number of all requests.
    pub fn total(&self) -> u64 {
        self.hits + self.partial_misses + self.full_misses + self.pass_through
    }

    pub(super) fn count(&mut self, span: Span, coverage: Coverage, passes: bool) {
        self.bytes += span.bytes() as u64;
        let counter = match (passes, coverage.is_full(), coverage.has_cached) {
            (true, ..) => &mut self.pass_through,
            (_, true, _) => &mut self.hits,
            (_, false, true) => &mut self.partial_misses,
            (_, false, false) => &mut self.full_misses,
        };
        *counter += 1;
    }
}

/// I/Os that devices have refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Reads of the cache device.
    pub cache_reads: u64,
    /// Writes and flushes of the cache device.
    pub cache_writes: u64,
    /// Reads of cores.
    pub core_reads: u64,
    /// Writes, flushes and trims of cores.
    pub core_writes: u64,
    /// Requests that were retried after an error of the cache device instead of failing at once.
    pub tried_again: u64,
}

impl Errors {
    /// All refused I/Os.
    pub fn total(&self) -> u64 {
        self.cache_reads + self.cache_writes + self.core_reads + self.core_writes
    }

    pub(super) fn count(&mut self, target: Target, reads: bool) {
        let counter = match (target, reads) {
            (Target::Cache, true) => &mut self.cache_reads,
            (Target::Cache, false) => &mut self.cache_writes,
            (Target::Core(_), true) => &mut self.core_reads,
            (Target::Core(_), false) => &mut self.core_writes,
        };
        *counter += 1;
    }
}

/// Read-ahead of read streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadCounts {
    /// Number of reads of cores.
    pub requests: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Reads that a core has refused. No client sees these errors.
    pub failed: u64,
}

/// Statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Client reads.
    pub reads: RequestCounts,
    /// Client writes.
    pub writes: RequestCounts,
    /// Hits that the core has served because the cache device was busy enough; included in the hits.
    pub core_hits: u64,
    /// Read-ahead; included in the reads of cores.
    pub read_ahead: ReadAheadCounts,
    /// How often routing has found the cache device saturated.
    pub saturations: u64,
    /// Bytes read from cores.
    pub core_read_bytes: u64,
    /// Bytes written to cores.
    pub core_written_bytes: u64,
    /// Bytes read from the cache device.
    pub cache_read_bytes: u64,
    /// Bytes written to the cache device.
    pub cache_written_bytes: u64,
    /// Of these, metadata: all but the next two.
    pub metadata_bytes: u64,
    /// Of these, data that the cores did not have (dirty).
    pub dirty_bytes: u64,
    /// Of these, data that a core had too: cached reads and write-through.
    pub clean_bytes: u64,
    /// Bytes in the per-block metadata of written blocks; not included in any of the numbers above.
    pub beside_bytes: u64,
    /// Bytes destaged for IO classes that were full of dirty data. This includes data that was overwritten before its
    /// destage began; the rest is included in the bytes written to cores. A layout that does this by itself does not
    /// count it.
    pub destaged_for_classes_bytes: u64,
    /// Flushes of cores.
    pub core_flushes: u64,
    /// Flushes of the cache device.
    pub cache_flushes: u64,
    /// I/Os that devices have refused.
    pub errors: Errors,
    bypassed: [u64; BypassReason::ALL.len()],
}

impl Statistics {
    /// Requests that have bypassed the cache for this reason, and reads that were not cached for it.
    pub fn bypasses(&self, reason: BypassReason) -> u64 {
        self.bypassed[reason as usize]
    }

    pub(super) fn bypassed(&mut self, reason: BypassReason) {
        self.bypassed[reason as usize] += 1;
    }

    pub(super) fn io(&mut self, io: &DeviceIo) {
        let is_cache = io.target() == Target::Cache;
        match io {
            DeviceIo::Read { bytes, .. } if is_cache => self.cache_read_bytes += *bytes as u64,
            DeviceIo::Read { bytes, .. } => self.core_read_bytes += *bytes as u64,
            DeviceIo::Write { parts, metadata_bytes, class, beside, .. } => {
                let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
                if is_cache {
                    self.cache_written_bytes += bytes;
                    self.metadata_bytes += *metadata_bytes as u64;
                    let data = match class {
                        PlacementClass::Metadata => &mut self.metadata_bytes,
                        PlacementClass::Dirty => &mut self.dirty_bytes,
                        PlacementClass::Clean => &mut self.clean_bytes,
                    };
                    *data += bytes - *metadata_bytes as u64;
                    self.beside_bytes += beside.as_ref().map_or(0, |beside| beside.len()) as u64;
                } else {
                    self.core_written_bytes += bytes;
                }
            }
            DeviceIo::Flush { .. } if is_cache => self.cache_flushes += 1,
            DeviceIo::Flush { .. } => self.core_flushes += 1,
            DeviceIo::Deallocate { .. } => {}
        }
    }
}
