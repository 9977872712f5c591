//! What DRAM knows of each bucket: its filter, the generation that was last written, and whether it can be read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_log::Backoff;

use super::filter::{FILTER_BYTES, Filters, UNKNOWN_FILTER};

/// Bytes of one bucket in the snapshot of a clean shutdown: its filter and its generation.
pub(crate) const BUCKET_SNAPSHOT_BYTES: usize = FILTER_BYTES + 2;

/// Filters that are sampled to estimate the number of objects.
const FILTERS_COUNTED: usize = 4096;

/// State of the knowledge about a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Knowledge {
    /// Filter and generation are those of the bucket on flash.
    Known,
    /// A crash has left it, and it has not been read since. Its filter answers yes to everything.
    Unknown,
    /// Its write failed: its content is unknown. It is not read. It is written again only after a back-off, starting
    /// from an empty bucket.
    Retired,
}

impl Knowledge {
    /// The inverse of `as u8`.
    fn of(stored: u8) -> Self {
        let all = [Self::Known, Self::Unknown, Self::Retired];
        let known = all.into_iter().find(|knowledge| *knowledge as u8 == stored);
        known.expect("only these values are stored")
    }
}

/// What is known of all buckets without a read of flash. A bucket's state changes only under the bucket's lock; reading
/// it needs no lock.
pub(super) struct BucketStates {
    filters: Filters,
    /// The generation that was last written, by bucket: a lost write of the device is detected by it.
    generations: Vec<AtomicU16>,
    /// [`Knowledge`], by bucket.
    knowledge: Vec<AtomicU8>,
    /// Buckets whose write failed, by number.
    retired: Mutex<HashMap<u64, Backoff>>,
}

impl BucketStates {
    /// Memory of one bucket.
    pub(super) const BYTES_EACH: u64 = (BUCKET_SNAPSHOT_BYTES + size_of::<AtomicU8>()) as u64;

    /// The states of `buckets` buckets, all known to be empty.
    pub(super) fn new(buckets: u64) -> Self {
        Self {
            filters: Filters::new(buckets),
            generations: (0..buckets).map(|_| AtomicU16::new(0)).collect(),
            knowledge: (0..buckets).map(|_| AtomicU8::new(Knowledge::Known as u8)).collect(),
            retired: Mutex::default(),
        }
    }

    fn numbers(&self) -> std::ops::Range<u64> {
        0..self.generations.len() as u64
    }

    /// Whether the bucket's filter says yes.
    pub(super) fn may_hold(&self, number: u64, tag: u16) -> bool {
        self.filters.may_hold(number, tag)
    }

    /// Whether the bucket is known to be empty.
    pub(super) fn is_empty(&self, number: u64) -> bool {
        self.filters.is_empty(number)
    }

    pub(super) fn knows(&self, number: u64) -> Knowledge {
        Knowledge::of(self.knowledge[at(number)].load(Ordering::Acquire))
    }

    fn know(&self, number: u64, knowledge: Knowledge) {
        self.knowledge[at(number)].store(knowledge as u8, Ordering::Release);
    }

    /// The generation that was last written.
    pub(super) fn generation(&self, number: u64) -> u16 {
        self.generations[at(number)].load(Ordering::Acquire)
    }

    /// Whether a write of the bucket may be attempted: its last one did not fail, or the back-off is over.
    pub(super) fn is_due(&self, number: u64, now_s: u32) -> bool {
        self.knows(number) != Knowledge::Retired
            || self.retired().get(&number).is_none_or(|backoff| backoff.is_due(now_s))
    }

    /// Only these tags are left in the bucket that can be found.
    pub(super) fn keep_only(&self, number: u64, tags: impl Iterator<Item = u16>) {
        self.filters.rebuild(number, tags);
    }

    /// The bucket was read for the first time after a crash.
    pub(super) fn learnt(&self, number: u64, generation: u16, tags: impl Iterator<Item = u16>) {
        self.generations[at(number)].store(generation, Ordering::Release);
        self.filters.rebuild(number, tags);
        self.know(number, Knowledge::Known);
    }

    /// Makes a bucket empty without a write.
    pub(super) fn empty(&self, number: u64) {
        self.filters.clear(number);
        // A request that asked the filter earlier must not accept the content either.
        self.generations[at(number)].fetch_add(1, Ordering::AcqRel);
    }

    /// A write with this filter is about to start. Until it has ended, the bucket may be the old or the new one.
    /// Returns the generation to write.
    pub(super) fn begin_write(&self, number: u64, filter: [u64; 2]) -> u16 {
        self.filters.add(number, filter);
        let generation = self.generations[at(number)].load(Ordering::Relaxed).wrapping_add(1);
        // Before the write starts: a concurrent reader must detect the write.
        self.generations[at(number)].store(generation, Ordering::Release);
        generation
    }

    /// The write with this filter has succeeded. Returns whether the bucket was retired before.
    pub(super) fn written(&self, number: u64, filter: [u64; 2]) -> bool {
        debug_assert!(
            self.filters.covers(number, filter),
            "until the write has ended the filter says yes to old and new"
        );
        self.filters.set(number, filter);
        let was_retired = self.knows(number) == Knowledge::Retired;
        if was_retired {
            self.retired().remove(&number);
        }
        self.know(number, Knowledge::Known);
        was_retired
    }

    /// The bucket's write has failed. Returns whether the bucket was in use until now.
    pub(super) fn failed(&self, number: u64, now_s: u32) -> bool {
        let was_in_use = self.knows(number) != Knowledge::Retired;
        self.retired().entry(number).or_default().failed(now_s);
        self.know(number, Knowledge::Retired);
        was_in_use
    }

    /// A failed bucket holds nothing that may be found.
    pub(super) fn give_up(&self, number: u64) {
        self.filters.clear(number);
    }

    /// A new epoch has voided all buckets. Those with a failed write continue their back-off.
    pub(super) fn clear(&self) {
        for number in self.numbers() {
            // An empty bucket is not read before it is written.
            self.filters.clear(number);
            if self.knows(number) == Knowledge::Unknown {
                self.know(number, Knowledge::Known);
            }
        }
    }

    /// Marks all buckets Unknown: a crash has left them.
    pub(super) fn forget_all(&self) {
        for number in self.numbers() {
            self.filters.set(number, UNKNOWN_FILTER);
            self.know(number, Knowledge::Unknown);
        }
    }

    /// Estimates how many objects all buckets hold together.
    pub(super) fn estimated_len(&self) -> u64 {
        self.filters.estimated_len(FILTERS_COUNTED)
    }

    /// Exports [`BUCKET_SNAPSHOT_BYTES`] for each bucket. `retired_are_empty`: a retired bucket counts as empty for the
    /// next opening, and an empty bucket is written before it is read. With tombstones, a crash would make it readable
    /// again, so its dead keys must stay known.
    pub(super) fn export(&self, out: &mut Vec<u8>, retired_are_empty: bool) {
        for number in self.numbers() {
            let usable = match self.knows(number) {
                Knowledge::Known => self.filters.get(number),
                Knowledge::Retired if retired_are_empty => [0, 0],
                Knowledge::Unknown | Knowledge::Retired => UNKNOWN_FILTER,
            };
            usable.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            let generation = self.generations[at(number)].load(Ordering::Relaxed);
            out.extend_from_slice(&generation.to_le_bytes());
        }
        let bytes = self.generations.len() * BUCKET_SNAPSHOT_BYTES;
        assert_eq!(out.len(), bytes, "the layout reserves as much, and `import` splits it there");
    }

    /// Takes over what [`BucketStates::export`] wrote.
    pub(super) fn import(&self, bytes: &[u8]) {
        debug_assert!(
            bytes.is_empty() || bytes.len() == self.generations.len() * BUCKET_SNAPSHOT_BYTES,
            "all buckets, or none where there is no snapshot"
        );
        for (number, kept) in self.numbers().zip(bytes.chunks_exact(BUCKET_SNAPSHOT_BYTES)) {
            let (words, generation) = kept.split_at(FILTER_BYTES);
            if let (Some(low), Some(high), Some(generation)) =
                (words.first_chunk(), words.last_chunk(), generation.first_chunk())
            {
                let filter = [u64::from_le_bytes(*low), u64::from_le_bytes(*high)];
                self.filters.set(number, filter);
                let generation = u16::from_le_bytes(*generation);
                self.generations[at(number)].store(generation, Ordering::Relaxed);
                if filter == UNKNOWN_FILTER {
                    self.know(number, Knowledge::Unknown);
                }
            }
        }
    }

    fn retired(&self) -> MutexGuard<'_, HashMap<u64, Backoff>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("a bucket number")
}
