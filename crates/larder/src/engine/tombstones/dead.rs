//! Keys that are dead although their place on flash still holds them: a bucket of small objects, or a table of the
//! array's index.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::Tombstone;

/// The kind of place that holds keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeysIn {
    /// Buckets of the small-object engine.
    Buckets,
    /// Tables of the array's index.
    Tables,
}

impl KeysIn {
    pub(crate) const ALL: [Self; 2] = [Self::Buckets, Self::Tables];

    pub(super) fn tombstone(self, hash: u64, index: u64) -> Tombstone {
        match self {
            Self::Buckets => Tombstone::Key { hash, index },
            Self::Tables => Tombstone::TableKey { hash, index },
        }
    }
}

/// The dead keys of each kind of place.
#[derive(Debug, Default)]
pub(super) struct DeadByPlace {
    buckets: DeadKeys,
    tables: DeadKeys,
}

impl DeadByPlace {
    pub(super) fn of(&self, keys: KeysIn) -> &DeadKeys {
        match keys {
            KeysIn::Buckets => &self.buckets,
            KeysIn::Tables => &self.tables,
        }
    }

    pub(super) fn of_mut(&mut self, keys: KeysIn) -> &mut DeadKeys {
        match keys {
            KeysIn::Buckets => &mut self.buckets,
            KeysIn::Tables => &mut self.tables,
        }
    }

    pub(super) fn len(&self) -> usize {
        KeysIn::ALL.iter().map(|&keys| self.of(keys).len()).sum()
    }

    pub(super) fn inherit(&mut self, buckets: BTreeMap<u64, u64>, tables: BTreeMap<u64, u64>) {
        self.buckets.inherit(buckets);
        // The stamps of the tables tell which tables know of them; these are available as soon as the tables are found.
        self.tables.inherit_pending(tables);
    }

    pub(super) fn durable_up_to(&mut self, position: u64) {
        KeysIn::ALL.iter().for_each(|&keys| self.of_mut(keys).durable_up_to(position));
    }

    pub(super) fn forget_replaced(&mut self) {
        KeysIn::ALL.iter().for_each(|&keys| self.of_mut(keys).forget_replaced());
    }
}

/// Keys with a tombstone that their place does not reflect yet, by hash. The value is the index of the tombstone.
///
/// Hashes that share a bucket are adjacent here, because buckets divide the range of hashes. Comments that mention
/// buckets apply to tables too.
#[derive(Debug, Default)]
pub(super) struct DeadKeys {
    /// Flash holds no other version of them.
    pending: BTreeMap<u64, u64>,
    /// Left by a crash: dead in buckets with a stamp of at most the index. It is not yet known for which buckets that
    /// holds.
    inherited: BTreeMap<u64, u64>,
    /// A bucket without them is being written; until the write has ended, a crash may bring back the old bucket.
    resolving: BTreeMap<u64, u64>,
    /// The write of a bucket without them failed. The bucket on flash may remain the old one, or be the new one, to
    /// which their tombstones do not apply because its stamp is later. So their tombstones are still needed, but a
    /// change of the key needs another one.
    uncertain: BTreeMap<u64, u64>,
    /// Hash and index of a tombstone that a later one of the same hash has replaced, and the position in the log at
    /// which the later one is durable. Until then the earlier one must be kept: a crash would find neither if the ring
    /// overwrote it.
    replaced: BTreeMap<(u64, u64), u64>,
}

impl DeadKeys {
    pub(super) fn len(&self) -> usize {
        self.kinds().iter().map(|keys| keys.len()).sum::<usize>() + self.replaced.len()
    }

    pub(super) fn is_pending(&self, hash: u64) -> bool {
        self.pending.contains_key(&hash)
    }

    /// Marks a hash dead with a later index than any before. If it is already dead in any way, its earlier tombstones
    /// stay needed until the log is durable up to `position`, even if this one replaces them sooner. `None`: the log is
    /// lost, and needs nothing.
    pub(super) fn die(&mut self, hash: u64, index: u64, position: Option<u64>) {
        if let Some(position) = position {
            let before = self.kinds().map(|keys| keys.get(&hash).copied());
            for before in before.into_iter().flatten() {
                debug_assert!(before < index, "indices grow: {index} after {before}");
                self.replaced.insert((hash, before), position);
            }
        }
        self.pending.insert(hash, index);
    }

    /// Notes that the log is durable up to this position.
    pub(super) fn durable_up_to(&mut self, position: u64) {
        self.replaced.retain(|_, needed_until| *needed_until > position);
    }

    /// Forgets replaced tombstones: the log has lost entries for good, so nothing will be copied.
    pub(super) fn forget_replaced(&mut self) {
        self.replaced.clear();
    }

    /// As `inherit`, for places whose stamps are known at once.
    pub(super) fn inherit_pending(&mut self, keys: BTreeMap<u64, u64>) {
        debug_assert!(self.pending.is_empty(), "an opening inherits once");
        self.pending = keys;
    }

    /// The index of the pending tombstone of a hash.
    pub(super) fn index_of(&self, hash: u64) -> Option<u64> {
        self.pending.get(&hash).copied()
    }

    /// The pending tombstones of these hashes: hash and index.
    pub(super) fn within(&self, place: &Range<u128>) -> Vec<(u64, u64)> {
        let hashes = in_range(&self.pending, place);
        hashes.into_iter().filter_map(|hash| Some((hash, self.index_of(hash)?))).collect()
    }

    /// Notes that the place of these keys is on flash without them. A key that has died again since stays.
    pub(super) fn known(&mut self, deaths: &[(u64, u64)]) {
        for (hash, index) in deaths {
            if self.pending.get(hash) == Some(index) {
                self.pending.remove(hash);
            }
        }
    }

    /// Adds the indices by hash that an earlier opening has left. May be called once.
    pub(super) fn inherit(&mut self, keys: BTreeMap<u64, u64>) {
        debug_assert!(self.inherited.is_empty(), "an opening inherits once");
        self.inherited = keys;
    }

    /// Whether a tombstone is still needed.
    pub(super) fn needs(&self, hash: u64, index: u64) -> bool {
        self.kinds().iter().any(|keys| keys.get(&hash) == Some(&index))
            || self.replaced.contains_key(&(hash, index))
    }

    fn kinds(&self) -> [&BTreeMap<u64, u64>; 4] {
        [&self.pending, &self.inherited, &self.resolving, &self.uncertain]
    }

    /// The dead keys of a bucket that is about to be written, sorted. Includes keys that a failed write may have left
    /// in it.
    pub(super) fn dead_in(&self, bucket: Range<u128>) -> Vec<u64> {
        let mut dead = in_range(&self.pending, &bucket);
        dead.extend(in_range(&self.uncertain, &bucket));
        dead.sort_unstable();
        dead.dedup();
        debug_assert!(dead.iter().all(|&hash| bucket.contains(&u128::from(hash))), "{bucket:?}");
        dead
    }

    /// A pending dead hash at or after `hash`, wrapping around.
    pub(super) fn pending_from(&self, hash: u64) -> Option<u64> {
        let behind = self.pending.range(hash..).next();
        behind.or_else(|| self.pending.iter().next()).map(|(&hash, _)| hash)
    }

    /// All dead hashes, sorted.
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

    /// Moves these keys to `resolving`: they are gone from a bucket that is about to be written with this stamp. A key
    /// that has died since the stamp was taken stays dead: the bucket may hold a version set between the look-up of the
    /// dead keys and that death.
    pub(super) fn resolve(&mut self, hashes: &[u64], stamp: u64) {
        for hash in hashes {
            let is_covered = self.pending.get(hash).is_some_and(|index| *index < stamp);
            let pending = if is_covered { self.pending.remove(hash) } else { None };
            let uncertain = self.uncertain.remove(hash);
            debug_assert!(
                uncertain.is_none_or(|index| index < stamp),
                "an earlier stamp covered it"
            );
            // The later one covers the earlier one.
            if let Some(index) = pending.max(uncertain) {
                // A bucket has only one write at a time.
                let before = self.resolving.insert(*hash, index);
                debug_assert_eq!(before, None, "its bucket is being written already");
            }
        }
    }

    /// Notes the end of the write of a bucket that resolves these keys.
    pub(super) fn resolved(&mut self, hashes: &[u64], written: bool) {
        for hash in hashes {
            if let Some(index) = self.resolving.remove(hash)
                && !written
            {
                self.uncertain.insert(*hash, index);
            }
        }
    }

    /// Notes that a bucket with this stamp was read: inherited tombstones with an index at or above the stamp apply to
    /// it.
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
        dead.die(5, 100, None);
        assert!(dead.is_pending(5) && dead.needs(5, 100) && !dead.needs(5, 99));
        dead.resolve(&[5], 150);
        assert!(!dead.is_pending(5) && dead.needs(5, 100), "a crash may bring up the old bucket");
        dead.die(5, 200, None);
        dead.resolved(&[5], true);
        assert!(dead.is_pending(5) && dead.needs(5, 200) && !dead.needs(5, 100));
    }

    #[test]
    fn a_write_that_failed_leaves_the_old_bucket_or_the_new_one() {
        let mut dead = DeadKeys::default();
        dead.die(5, 100, None);
        dead.resolve(&[5], 150);
        dead.resolved(&[5], false);
        assert!(dead.needs(5, 100), "of the old one");
        assert!(!dead.is_pending(5), "of the new one a change needs another tombstone");
        dead.die(5, 200, None);
        assert!(dead.is_pending(5) && dead.needs(5, 100) && dead.needs(5, 200));
        assert_eq!(dead.dead_in(0..10), [5]);
        dead.resolve(&[5], 250);
        assert!(dead.needs(5, 200) && dead.dead_in(0..10).is_empty());
        dead.resolved(&[5], true);
        assert_eq!((dead.len(), dead.needs(5, 200)), (0, false), "overwritten for good");
    }

    #[test]
    fn a_key_that_dies_again_needs_the_first_tombstone_until_the_second_is_durable() {
        let mut dead = DeadKeys::default();
        dead.die(5, 100, Some(1));
        dead.durable_up_to(1);
        dead.die(5, 200, Some(7));
        dead.die(5, 300, Some(9));
        assert!([100, 200, 300].iter().all(|&index| dead.needs(5, index)));
        dead.durable_up_to(7);
        assert!(!dead.needs(5, 100) && dead.needs(5, 200) && dead.needs(5, 300));
        dead.durable_up_to(9);
        assert!(!dead.needs(5, 200) && dead.needs(5, 300) && dead.len() == 1);
    }

    #[test]
    fn a_tombstone_of_which_another_takes_the_place_is_needed_until_that_is_durable() {
        // The bucket that was written without it may still be the old one; the inherited tombstones are settled later.
        let mut failed = DeadKeys::default();
        failed.die(5, 100, Some(1));
        failed.durable_up_to(1);
        failed.resolve(&[5], 150);
        let mut under_way = DeadKeys::default();
        under_way.die(5, 100, Some(1));
        under_way.durable_up_to(1);
        under_way.resolve(&[5], 150);
        failed.resolved(&[5], false);
        let mut inherited = DeadKeys::default();
        inherited.inherit(BTreeMap::from([(5, 100)]));
        for mut dead in [failed, inherited] {
            dead.die(5, 200, Some(7));
            dead.settle_inherited(0..10, 50);
            dead.resolve(&[5], 250);
            assert!(dead.needs(5, 100) && dead.needs(5, 200), "{dead:?}");
            dead.durable_up_to(7);
            assert!(!dead.needs(5, 100) && dead.needs(5, 200), "{dead:?}");
        }
        under_way.die(5, 200, Some(7));
        under_way.resolved(&[5], false);
        under_way.resolve(&[5], 250);
        assert!(under_way.needs(5, 100) && under_way.needs(5, 200));
    }

    #[test]
    fn a_key_that_dies_after_the_stamp_was_taken_stays_dead() {
        let mut dead = DeadKeys::default();
        dead.die(5, 100, None);
        assert_eq!(dead.dead_in(0..10), [5]);
        dead.die(5, 150, None);
        dead.resolve(&[5], 101);
        dead.resolved(&[5], true);
        assert!(
            dead.is_pending(5) && dead.needs(5, 150),
            "the bucket may hold what came before 150"
        );
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
