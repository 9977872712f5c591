//! How the cache divides its device.
//!
//! ```text
//!   0            metadata_bytes   loc_offset          soc_log_offset   soc_offset     usable_bytes
//!   ├── superblock, snapshot ──┼─ tombstones ─┼─ LOC: regions … ─ gap ─┼─ SOC log ─┼─ SOC: buckets … ─┤
//! ```

/// Bits of the superblock's word for the number of segments.
const LOG_WORD_BITS: u32 = 24;
/// Segments that the log has at most.
pub(crate) const LOG_SEGMENTS_MAX: u64 = (1 << LOG_WORD_BITS) - 1;

/// Where on the device each part of the cache lies. All offsets and sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Layout {
    /// Capacity of the device.
    pub capacity_bytes: u64,
    /// What the cache uses of it.
    pub usable_bytes: u64,
    /// Superblock and snapshot, from 0 on.
    pub metadata_bytes: u64,
    /// The tombstone log, from `metadata_bytes` on; 0 where there is none.
    pub tombstone_log_bytes: u64,
    /// Where the regions of the large-object engine begin.
    pub loc_offset: u64,
    /// Their number; 0 switches the engine off.
    pub loc_regions: u32,
    /// Their size.
    pub region_bytes: u32,
    /// Where the buckets of the small-object engine begin.
    pub soc_offset: u64,
    /// Their number; 0 switches the engine off.
    pub soc_buckets: u64,
    /// Where the log in front of the buckets begins; `soc_offset` without one.
    pub soc_log_offset: u64,
    /// Its segments; 0 is no log.
    pub soc_log_segments: u32,
    /// Their size, a power of 2; 0 without a log.
    pub soc_log_segment_bytes: u32,
}

impl Layout {
    /// What the superblock says of the log: number of segments, and logarithm of their size.
    pub(crate) fn soc_log_word(&self) -> u32 {
        let logarithm = self.soc_log_segment_bytes.checked_ilog2().unwrap_or(0);
        self.soc_log_segments | logarithm << LOG_WORD_BITS
    }

    /// An empty layout with the log that the word tells of, in front of buckets at `soc_offset`.
    /// `None` if there is no such log.
    pub(crate) fn with_soc_log(word: u32, soc_offset: u64) -> Option<Self> {
        let segments = word & ((1 << LOG_WORD_BITS) - 1);
        let segment_bytes = match word >> LOG_WORD_BITS {
            0 => 0,
            logarithm => 1_u32.checked_shl(logarithm)?,
        };
        let log_bytes = u64::from(segments) * u64::from(segment_bytes);
        Some(Self {
            capacity_bytes: 0,
            usable_bytes: 0,
            metadata_bytes: 0,
            tombstone_log_bytes: 0,
            loc_offset: 0,
            loc_regions: 0,
            region_bytes: 0,
            soc_offset,
            soc_buckets: 0,
            soc_log_offset: soc_offset.checked_sub(log_bytes)?,
            soc_log_segments: segments,
            soc_log_segment_bytes: segment_bytes,
        })
    }
}
