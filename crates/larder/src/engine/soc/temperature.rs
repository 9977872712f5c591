//! Measures how frequently each bucket is rewritten, to write hot and cold buckets to different places.
//!
//! Time is counted in writes of the engine. A bucket's temperature is the moving average of the intervals between its
//! rewrites, to which the latest interval contributes a quarter. If all buckets were alike, the average interval would
//! be the number of buckets; a bucket whose average is less than half of that is hot. The factor of two is necessary
//! because intervals of equal buckets vary: even so, one write in twenty goes to a bucket that is classified as hot by
//! chance.
//!
//! Nothing of this survives a restart: a bucket is cold until its intervals show otherwise.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A hot bucket's average interval is shorter than the average bucket's by more than this factor.
const HOT_FACTOR: u64 = 2;
/// Weight of the older intervals, out of [`WEIGHTS`]; the latest one has the rest.
const OLD_WEIGHT: u64 = 3;
const WEIGHTS: u64 = 4;
const _: () = assert!(OLD_WEIGHT < WEIGHTS, "the latest interval has a weight");

/// What is known of one bucket.
#[derive(Debug, Default)]
struct Record {
    /// Time of its last write, counted in writes of the engine modulo 2^32. A bucket that is not written for longer
    /// than that looks younger than it is, once.
    last: AtomicU32,
    /// Moving average of its intervals; 0 for a bucket that was never written.
    average: AtomicU32,
}

/// Bytes of memory per bucket.
pub(super) const BUCKET_BYTES: usize = size_of::<Record>();

/// The temperatures of all buckets. A bucket's record changes only under the bucket's lock.
#[derive(Debug)]
pub(super) struct Temperatures {
    /// Writes of the engine so far.
    writes: AtomicU64,
    records: Vec<Record>,
}

impl Temperatures {
    /// Creates the records of `buckets` buckets, all cold.
    pub(super) fn new(buckets: u64) -> Self {
        assert!(buckets > 0, "there is at least one bucket");
        let records = (0..buckets).map(|_| Record::default()).collect();
        Self { writes: AtomicU64::new(0), records }
    }

    /// Notes that bucket `number` is being written. Returns whether it is hot.
    pub(super) fn note_write(&self, number: u64) -> bool {
        let record = &self.records[usize::try_from(number).expect("a bucket number")];
        // Modulo 2^32, as `Record::last` says.
        #[allow(clippy::cast_possible_truncation)]
        let now = self.writes.fetch_add(1, Ordering::Relaxed) as u32;
        let interval = u64::from(now.wrapping_sub(record.last.swap(now, Ordering::Relaxed)));
        let usual = self.records.len() as u64;
        let average = match u64::from(record.average.load(Ordering::Relaxed)) {
            0 => usual, // the first write ends no interval
            older => (older * OLD_WEIGHT + interval * (WEIGHTS - OLD_WEIGHT)) / WEIGHTS,
        };
        // Never 0, which means that the bucket was never written.
        let kept = u32::try_from(average.max(1)).unwrap_or(u32::MAX);
        record.average.store(kept, Ordering::Relaxed);
        average * HOT_FACTOR < usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to 1000 buckets; `skewed` of 10 writes go to the first hundred. Returns the share of hot writes in the
    /// last half, for the first hundred and for the others.
    fn hot_shares(skewed: u32) -> (f64, f64) {
        let temperatures = Temperatures::new(1000);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut hot = [0.0, 0.0];
        let mut all = [0.0, 0.0];
        for write in 0..200_000 {
            let to_few = rng.u32(..10) < skewed;
            let bucket = if to_few { rng.u64(..100) } else { rng.u64(..1000) };
            let is_hot = temperatures.note_write(bucket);
            if write >= 100_000 {
                let class = usize::from(bucket >= 100);
                all[class] += 1.0;
                hot[class] += if is_hot { 1.0 } else { 0.0 };
            }
        }
        (hot[0] / all[0], hot[1] / all[1])
    }

    #[test]
    fn buckets_that_are_rewritten_often_are_hot() {
        let (few, others) = hot_shares(5);
        assert!(few > 0.95 && others < 0.1, "{few} {others}");
    }

    #[test]
    fn equal_buckets_are_mostly_cold() {
        let (few, others) = hot_shares(0);
        assert!((0.03..0.07).contains(&few) && (0.04..0.06).contains(&others), "{few} {others}");
    }

    #[test]
    fn a_bucket_is_cold_at_first_and_again_when_it_is_left_alone() {
        let temperatures = Temperatures::new(100);
        assert!(!temperatures.note_write(1), "one write is no rate");
        let hot = (0..10).filter(|_| temperatures.note_write(1)).count();
        assert_eq!(hot, 8, "three intervals of 1 bring the average from 100 below 50");
        (0..2000).for_each(|write| _ = temperatures.note_write(2 + write % 90));
        assert!(!temperatures.note_write(1));
    }
}
