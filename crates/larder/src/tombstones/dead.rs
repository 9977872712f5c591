//! Small objects that are dead although a bucket on flash still holds them.

use std::collections::BTreeMap;
use std::ops::Range;

/// Which keys have a tombstone that a bucket has not followed yet, by hash. The number is the
/// tombstone's index.
///
/// Hashes that share a bucket are neighbours here, as buckets divide the range of hashes.
#[derive(Debug, Default)]
pub(super) struct DeadKeys {
    /// Flash holds no other version of them.
    pending: BTreeMap<u64, u64>,
    /// Left behind by a crash: dead in buckets with a stamp of at most the index. Of which buckets
    /// that is true is not known yet.
    inherited: BTreeMap<u64, u64>,
    /// A bucket without them is being written; until it is, a crash may still bring up the old one.
    resolving: BTreeMap<u64, u64>,
    /// The write of a bucket without them failed: it may be the old one for ever, or the new one, of
    /// which their tombstones say nothing, for it bears a later stamp. So they are needed, but whoever
    /// changes the key needs another one.
    uncertain: BTreeMap<u64, u64>,
}

impl DeadKeys {
    pub(super) fn len(&self) -> usize {
        self.kinds().iter().map(|keys| keys.len()).sum()
    }

    pub(super) fn is_pending(&self, hash: u64) -> bool {
        self.pending.contains_key(&hash)
    }

    pub(super) fn die(&mut self, hash: u64, index: u64) {
        let before = self.pending.insert(hash, index);
        debug_assert_eq!(before, None, "who is dead already needs no other tombstone");
    }

    /// Indices by hash; of a new opening, which knows of no others.
    pub(super) fn inherit(&mut self, keys: BTreeMap<u64, u64>) {
        debug_assert!(self.inherited.is_empty(), "an opening inherits once");
        self.inherited = keys;
    }

    /// Whether a tombstone is still needed.
    pub(super) fn needs(&self, hash: u64, index: u64) -> bool {
        self.kinds().iter().any(|keys| keys.get(&hash) == Some(&index))
    }

    fn kinds(&self) -> [&BTreeMap<u64, u64>; 4] {
        [&self.pending, &self.inherited, &self.resolving, &self.uncertain]
    }

    /// The dead of a bucket that is about to be written, in order: those that a write which failed may
    /// have left in it as well.
    pub(super) fn dead_in(&self, bucket: Range<u128>) -> Vec<u64> {
        let mut dead = in_range(&self.pending, &bucket);
        dead.extend(in_range(&self.uncertain, &bucket));
        dead.sort_unstable();
        dead.dedup();
        debug_assert!(dead.iter().all(|&hash| bucket.contains(&u128::from(hash))), "{bucket:?}");
        dead
    }

    /// One of the pending dead at or behind `hash`, going around.
    pub(super) fn pending_from(&self, hash: u64) -> Option<u64> {
        let behind = self.pending.range(hash..).next();
        behind.or_else(|| self.pending.iter().next()).map(|(&hash, _)| hash)
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            self.kinds().iter().flat_map(|keys| keys.keys().copied()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    pub(super) fn inherited(&self) -> Vec<u64> {
        self.inherited.keys().copied().collect()
    }

    pub(super) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// These are gone from a bucket that is about to be written.
    pub(super) fn resolve(&mut self, hashes: &[u64]) {
        for hash in hashes {
            let (pending, uncertain) = (self.pending.remove(hash), self.uncertain.remove(hash));
            // The later one says all that the earlier one does.
            if let Some(index) = pending.max(uncertain) {
                // One write of a bucket at a time.
                let before = self.resolving.insert(*hash, index);
                debug_assert_eq!(before, None, "its bucket is being written already");
            }
        }
    }

    /// The write of a bucket that resolves these has ended.
    pub(super) fn resolved(&mut self, hashes: &[u64], written: bool) {
        for hash in hashes {
            if let Some(index) = self.resolving.remove(hash)
                && !written
            {
                self.uncertain.insert(*hash, index);
            }
        }
    }

    /// A bucket with this stamp was read: of what was inherited, what is later than the stamp is dead
    /// in it.
    pub(super) fn settle_inherited(&mut self, bucket: Range<u128>, stamp: u64) {
        if self.inherited.is_empty() {
            return;
        }
        for hash in in_range(&self.inherited, &bucket) {
            if let Some(index) = self.inherited.remove(&hash)
                && index >= stamp
            {
                self.pending.entry(hash).or_insert(index);
            }
        }
    }
}

fn in_range(keys: &BTreeMap<u64, u64>, bucket: &Range<u128>) -> Vec<u64> {
    let Ok(start) = u64::try_from(bucket.start) else { return Vec::new() };
    match u64::try_from(bucket.end) {
        Ok(end) => keys.range(start..end).map(|(&hash, _)| hash).collect(),
        Err(_) => keys.range(start..).map(|(&hash, _)| hash).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_is_needed_until_its_bucket_is_written() {
        let mut dead = DeadKeys::default();
        dead.die(5, 100);
        assert!(dead.is_pending(5) && dead.needs(5, 100) && !dead.needs(5, 99));
        dead.resolve(&[5]);
        assert!(!dead.is_pending(5) && dead.needs(5, 100), "a crash may bring up the old bucket");
        dead.die(5, 200);
        dead.resolved(&[5], true);
        assert!(dead.is_pending(5) && dead.needs(5, 200) && !dead.needs(5, 100));
    }

    #[test]
    fn a_write_that_failed_leaves_the_old_bucket_or_the_new_one() {
        let mut dead = DeadKeys::default();
        dead.die(5, 100);
        dead.resolve(&[5]);
        dead.resolved(&[5], false);
        assert!(dead.needs(5, 100), "of the old one");
        assert!(!dead.is_pending(5), "of the new one a change needs another tombstone");
        dead.die(5, 200);
        assert!(dead.is_pending(5) && dead.needs(5, 100) && dead.needs(5, 200));
        assert_eq!(dead.dead_in(0..10), [5]);
        dead.resolve(&[5]);
        assert!(dead.needs(5, 200) && dead.dead_in(0..10).is_empty());
        dead.resolved(&[5], true);
        assert_eq!((dead.len(), dead.needs(5, 200)), (0, false), "overwritten for good");
    }

    #[test]
    fn a_stamp_tells_which_of_the_inherited_are_dead() {
        let mut dead = DeadKeys::default();
        dead.inherit(BTreeMap::from([(10, 7), (11, 6), (20, 9)]));
        dead.settle_inherited(10..20, 7);
        assert_eq!((dead.is_pending(10), dead.is_pending(11)), (true, false));
        assert!(!dead.is_pending(20) && dead.needs(20, 9));
        dead.settle_inherited(20..1 << 64, 1);
        assert_eq!(dead.dead_in(0..1 << 64), [10, 20]);
        assert_eq!((dead.pending_from(11), dead.pending_from(21)), (Some(20), Some(10)));
    }
}
