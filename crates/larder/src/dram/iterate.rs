//! Lists the content of DRAM, for scans and `flush`.

use super::DramTier;
use super::index::Entry;
use super::readers::LockProof;
use super::value::PinnedValue;
use crate::base::key::KeyHash;

/// A pinned item of the tier.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) value: PinnedValue,
    /// Whether flash held this very version, or none, when the item came or was flushed.
    pub(crate) clean: bool,
}

/// Counts of a sample of the items ([`DramTier::sample`]).
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Scale factor: the tier has about `step` times as many.
    step: u64,
    items: u64,
    dirty: u64,
    with_lifetime: u64,
    dirty_with_lifetime: u64,
}

impl Sample {
    /// Estimated number of items in the tier that are not known to be on flash.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty * self.step
    }

    /// Estimated number of those that have a lifetime.
    pub(crate) fn dirty_with_lifetime(&self) -> u64 {
        self.dirty_with_lifetime * self.step
    }

    /// Estimated number of items with a lifetime among `count` items, at the ratio of the sample.
    pub(crate) fn with_lifetime_of(&self, count: u64) -> u64 {
        let share = u128::from(count) * u128::from(self.with_lifetime);
        u64::try_from(share / u128::from(self.items.max(1))).unwrap_or(count)
    }
}

impl DramTier {
    /// Number of equal parts into which the hash space is divided: a power of two, which grows.
    pub(crate) fn parts(&self) -> usize {
        self.index.parts()
    }

    /// The hashes of all items of one of `parts` parts, demoting ones included, and whether they are clean.
    pub(crate) fn hashes_in(&self, part: usize, parts: usize) -> Vec<(KeyHash, bool)> {
        let mut hashes = Vec::new();
        self.index.each_in(part, parts, |entry, locked| {
            let hash = self.hasher.hash(self.record(entry.location(), locked).key);
            hashes.push((hash, entry.is_clean()));
        });
        hashes
    }

    /// Number of items that are not known to be on flash.
    pub(crate) fn dirty(&self) -> u64 {
        self.estimated_dirty(usize::MAX)
    }

    /// An estimate of it from at least `parts` parts, a power of two. Exact if there are no more parts.
    pub(crate) fn estimated_dirty(&self, parts: usize) -> u64 {
        let mut dirty = 0;
        let step = self.each_of(parts, |entry, _| dirty += u64::from(!entry.is_clean()));
        dirty * step
    }

    /// Visits the items of at least `parts` parts, spread evenly. Returns the factor from the sample to the tier.
    fn each_of(&self, parts: usize, mut look: impl FnMut(Entry, &LockProof)) -> u64 {
        let all = self.parts();
        let step = (all / parts).max(1);
        (0..all).step_by(step).for_each(|part| self.index.each_in(part, all, &mut look));
        step as u64
    }

    /// Samples the items from at least `parts` parts. Unlike a count of dirty items, it reads their records.
    pub(crate) fn sample(&self, parts: usize) -> Sample {
        let mut sample = Sample::default();
        sample.step = self.each_of(parts, |entry, locked| {
            let is_dirty = u64::from(!entry.is_clean());
            let may_expire = u64::from(self.record(entry.location(), locked).expiry_s > 0);
            sample.items += 1;
            sample.dirty += is_dirty;
            sample.with_lifetime += may_expire;
            sample.dirty_with_lifetime += is_dirty * may_expire;
        });
        sample
    }

    /// The items of a hash, alive or expired: one, except for colliding keys. Counts no use.
    pub(crate) fn residents(&self, hash: KeyHash) -> Vec<Resident> {
        let mut found = Vec::new();
        self.index.peek(hash, |entry, locked| {
            let at = entry.location();
            let record = self.record(at, locked);
            let key = record.key;
            // An entry may be visited twice, because the two buckets of a hash may be the same.
            let known = found.iter().any(|resident: &Resident| resident.value.key() == key);
            if !known && self.hasher.hash(key) == hash {
                let pin = self.segments.get(at, locked).pin_locked(at.at, locked);
                let value = PinnedValue::new(pin, record.marks);
                found.push(Resident { value, clean: entry.is_clean() });
            }
            None::<()>
        });
        found
    }

    /// Flash holds the very version of `key` that is here. The caller holds the key's lock.
    pub(crate) fn note_clean(&self, hash: KeyHash, key: &[u8]) {
        self.index.set_clean(hash, key, true, self);
    }

    /// Flash no longer holds the version of `key` that is here, if it did. The caller holds the key's lock.
    pub(crate) fn note_dirty(&self, hash: KeyHash, key: &[u8]) {
        self.index.set_clean(hash, key, false, self);
    }
}
