//! The buckets' part of the snapshot of a clean shutdown.

use std::sync::atomic::Ordering;

use super::filter::{FILTER_BYTES, UNKNOWN_FILTER};
use super::{BUCKET_SNAPSHOT_BYTES, Knowledge, Soc};

impl Soc {
    /// Exports what DRAM knows of the buckets: [`BUCKET_SNAPSHOT_BYTES`] each.
    pub(super) fn export_buckets(&self, out: &mut Vec<u8>) {
        for number in 0..self.place.buckets {
            let usable = match self.knows(number) {
                Knowledge::Known => self.filters.get(number),
                Knowledge::Unknown => UNKNOWN_FILTER,
                // A retired bucket counts as empty, and an empty bucket is written before it is read. With tombstones,
                // a crash would make it readable again, so its dead keys must stay known.
                Knowledge::Retired if self.tombstones.is_none() => [0, 0],
                Knowledge::Retired => UNKNOWN_FILTER,
            };
            usable.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            out.extend_from_slice(&self.generation(number).load(Ordering::Relaxed).to_le_bytes());
        }
        let bytes = self.place.buckets * BUCKET_SNAPSHOT_BYTES as u64;
        assert_eq!(
            out.len() as u64,
            bytes,
            "the layout reserves as much, and `import` splits it there"
        );
    }

    /// Takes over what [`Soc::export_buckets`] wrote.
    pub(super) fn import_buckets(&self, bytes: &[u8]) {
        debug_assert!(
            bytes.is_empty()
                || bytes.len() as u64 == self.place.buckets * BUCKET_SNAPSHOT_BYTES as u64,
            "all buckets, or none where there is no snapshot"
        );
        for (number, kept) in (0..self.place.buckets).zip(bytes.chunks_exact(BUCKET_SNAPSHOT_BYTES))
        {
            let (words, generation) = kept.split_at(FILTER_BYTES);
            if let (Some(low), Some(high), Some(generation)) =
                (words.first_chunk(), words.last_chunk(), generation.first_chunk())
            {
                let filter = [u64::from_le_bytes(*low), u64::from_le_bytes(*high)];
                self.filters.set(number, filter);
                self.generation(number).store(u16::from_le_bytes(*generation), Ordering::Relaxed);
                if filter == UNKNOWN_FILTER {
                    self.know(number, Knowledge::Unknown);
                }
            }
        }
    }
}
