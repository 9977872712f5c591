//! What a cache has done, in Open CAS's categories (block-cache.md, 1.12): requests, bytes, errors; and why requests
//! have passed it by, and what it has written that only says where data are.

use super::coverage::Coverage;
use crate::layout::{Class, DeviceIo, Refusal, Span, Target};

/// Why a request has passed the cache by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BypassReason {
    /// The mode says so.
    Mode,
    /// It is part of a long sequential run.
    SequentialCutOff,
    /// The promotion policy does not admit it yet.
    Promotion,
    /// Its IO class is never cached.
    IoClass,
    /// Its IO class has its share of the cache.
    ClassFull,
    /// What is there is pinned, or of IO classes of a higher priority.
    Pinned,
    /// The cache device has failed.
    CacheFailed,
    /// There is no cache device.
    Detached,
    /// The cache device has more to do than it can: nothing new is taken in.
    Saturated,
    /// The cache is full of dirty data, and the core takes this for less than to destage what is in its place.
    Pressure,
    /// There is no room before something is destaged.
    NoRoom,
}

impl BypassReason {
    /// All of them.
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

    /// Its name in reports.
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
    /// All of it was cached.
    pub hits: u64,
    /// A part of it was.
    pub partial_misses: u64,
    /// Nothing of it was.
    pub full_misses: u64,
    /// It has passed the cache by; not among the others.
    pub pass_through: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl RequestCounts {
    /// All of them.
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
    /// Requests that were tried again for an error of the cache device, and not refused at once.
    pub tried_again: u64,
}

impl Errors {
    /// All that devices have refused.
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

/// What was read ahead of streams of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadCounts {
    /// Reads of cores.
    pub requests: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Those that a core has refused. No user has heard of it.
    pub failed: u64,
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Users' reads.
    pub reads: RequestCounts,
    /// Users' writes.
    pub writes: RequestCounts,
    /// Hits that the core has served, for the cache device had enough to do; they are among the hits.
    pub core_hits: u64,
    /// What was read ahead; it is among what was read from cores.
    pub read_ahead: ReadAheadCounts,
    /// How often routing has found the cache device saturated.
    pub saturations: u64,
    /// Read from cores, in bytes.
    pub core_read_bytes: u64,
    /// Written to cores, in bytes.
    pub core_written_bytes: u64,
    /// Read from the cache device, in bytes.
    pub cache_read_bytes: u64,
    /// Written to the cache device, in bytes.
    pub cache_written_bytes: u64,
    /// Of these, those that only say where others are: what is neither of the next two.
    pub metadata_bytes: u64,
    /// Of these, data that the cores did not have.
    pub dirty_bytes: u64,
    /// Of these, data that a core had too: what was read, or written through.
    pub clean_bytes: u64,
    /// Sent beside the blocks that were written, in their metadata, and in none of the numbers above.
    pub beside_bytes: u64,
    /// Destaged for IO classes that were full of dirty data, in bytes, with what was overwritten before it had set out;
    /// the rest is among what was written to cores. A layout that sees to that by itself does not count it.
    pub destaged_for_classes_bytes: u64,
    /// Flushes of cores.
    pub core_flushes: u64,
    /// Flushes of the cache device.
    pub cache_flushes: u64,
    /// What devices have refused.
    pub errors: Errors,
    bypassed: [u64; BypassReason::ALL.len()],
}

impl Statistics {
    /// How many requests, or reads that might have been kept, have passed the cache by for this reason.
    pub fn bypasses(&self, reason: BypassReason) -> u64 {
        self.bypassed[reason as usize]
    }

    pub(super) fn bypassed(&mut self, reason: BypassReason) {
        self.bypassed[reason as usize] += 1;
    }

    pub(super) fn read(&mut self, span: Span, coverage: Coverage, passes: bool) {
        self.reads.count(span, coverage, passes);
    }

    pub(super) fn write(&mut self, span: Span, coverage: Coverage, passes: bool) {
        self.writes.count(span, coverage, passes);
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
                        Class::Metadata => &mut self.metadata_bytes,
                        Class::Dirty => &mut self.dirty_bytes,
                        Class::Clean => &mut self.clean_bytes,
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
