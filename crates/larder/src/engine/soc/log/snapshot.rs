//! The log's part of the snapshot of a clean shutdown: its index, and the segments that it points into. The pages
//! themselves are on flash and need not be read.
//!
//! ```text
//!   8  length of what follows
//!   4  number of the segment that was filled last
//!   4  n, number of sealed segments
//!  12n  per sealed segment: number (4), sequence number (8)
//!   *  per partition of 16 buckets, from 0 on: m, number of objects (4); m entries of the index (7),
//!      oldest first
//! ```
//!
//! The snapshot has room for [`PAGE_OBJECTS`] objects per page. Objects beyond that are given up, together with the
//! content of their buckets, which may hold older versions of them.

use super::page::PAGE_BYTES;
use super::{Log, SocLogPlace};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::soc::log_index::{self, ENTRY_SNAPSHOT_BYTES, PARTITION_SNAPSHOT_BYTES};

/// Objects per page that the snapshot has room for. It is enough if objects have 34 bytes (key and value) on average.
const PAGE_OBJECTS: u64 = 96;
const LENGTH_BYTES: usize = 8;
const SEGMENT_BYTES: usize = 12;

/// Upper bound of the snapshot bytes of a log: for each segment, and a fixed part if there is a log at all.
pub(crate) fn snapshot_bytes_max(segment_bytes: u32, buckets: u64) -> (u64, u64) {
    let pages = u64::from(segment_bytes) / PAGE_BYTES as u64;
    let segment = SEGMENT_BYTES as u64 + pages * PAGE_OBJECTS * ENTRY_SNAPSHOT_BYTES as u64;
    let fixed = LENGTH_BYTES as u64 + 8;
    (segment, fixed + log_index::partitions(buckets) * PARTITION_SNAPSHOT_BYTES as u64)
}

impl Log {
    /// Writes what the log has in memory.
    pub(in crate::engine::soc) async fn write_out(&self) {
        let mut turn = self.take_turn().await;
        // At second 0 no object counts as expired.
        self.write_active(&mut turn, 0).await;
    }

    /// The log's part of the snapshot, for what is on flash. Must be called before the buckets' part is exported.
    pub(in crate::engine::soc) async fn export(&self) -> Vec<u8> {
        let _turn = self.take_turn().await;
        let mut out = vec![0; LENGTH_BYTES];
        let (newest, sealed) = self.segments().sealed();
        let count = u32::try_from(sealed.len()).expect("segments are counted in 32 bits");
        out.extend_from_slice(&newest.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        for (number, sequence) in sealed {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        let SocLogPlace { segments, .. } = self.place;
        let pages = u64::from(segments) * u64::from(self.place.pages_per_segment());
        for (number, _) in self.index.export(&mut out, pages * PAGE_OBJECTS) {
            let _stripe = self.buckets.lock(number).await;
            self.buckets.empty(number);
            self.counters.soc_log_dropped_objects.add(1);
            self.counters.removals.unknown(RemovalReason::LogDropped, Tier::SmallObjects, 1);
        }
        let (segment, fixed) = snapshot_bytes_max(self.place.segment_bytes, self.buckets.count());
        let most = fixed + u64::from(segments) * segment;
        assert!(out.len() as u64 <= most, "the layout reserves {most} bytes: {}", out.len());
        let length = (out.len() - LENGTH_BYTES) as u64;
        out[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// Takes the log's part from the front of `bytes` and returns the rest. `None` if it is not what
    /// [`Log::export`] wrote; then nothing was taken over.
    pub(in crate::engine::soc) fn import<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, behind) = rest.split_at_checked(length)?;
        let (newest, part) = part.split_first_chunk::<4>()?;
        let (count, part) = part.split_first_chunk::<4>()?;
        let listed = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let (listed, entries) = part.split_at_checked(listed.checked_mul(SEGMENT_BYTES)?)?;
        let listed: Option<Vec<(u32, u64)>> = listed
            .chunks_exact(SEGMENT_BYTES)
            .map(|segment| {
                let (number, sequence) = segment.split_first_chunk::<4>()?;
                let sequence = u64::from_le_bytes(*sequence.first_chunk()?);
                Some((u32::from_le_bytes(*number), sequence))
            })
            .collect();
        let listed = listed?;
        let mut sealed = vec![false; self.place.segments as usize];
        for (number, _) in &listed {
            *sealed.get_mut(*number as usize)? = true;
        }
        let pages = self.place.pages_per_segment();
        let is_known = |page: u32| sealed.get((page / pages) as usize) == Some(&true);
        let taken = self.segments().restore(u32::from_le_bytes(*newest), &listed);
        if taken && self.index.import(entries, is_known) {
            return Some(behind);
        }
        *self.segments() = super::Segments::new(&self.place);
        None
    }
}
