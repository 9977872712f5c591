//! What is in DRAM, for those who want to see all of it: scans, and `flush`.

use super::DramTier;
use super::index::Entry;
use super::readers::Locked;
use crate::key::KeyHash;
use crate::value::Pinned;

/// An item of the tier, pinned.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) value: Pinned,
    /// Whether flash held this very version, or none, when it came or was flushed.
    pub(crate) clean: bool,
}

/// Counts of a part of the items ([`DramTier::sample`]).
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The tier has about `step` times as many.
    step: u64,
    items: u64,
    dirty: u64,
    with_lifetime: u64,
    dirty_with_lifetime: u64,
}

impl Sample {
    /// Items that are not known to be on flash, in the tier.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty * self.step
    }

    /// Of these, those that have a lifetime.
    pub(crate) fn dirty_with_lifetime(&self) -> u64 {
        self.dirty_with_lifetime * self.step
    }

    /// How many of `count` items have a lifetime, if they are like those of the sample.
    pub(crate) fn with_lifetime_of(&self, count: u64) -> u64 {
        let share = u128::from(count) * u128::from(self.with_lifetime);
        u64::try_from(share / u128::from(self.items.max(1))).unwrap_or(count)
    }
}

impl DramTier {
    /// How many equal parts the space of hashes is divided into: a power of two. They become more.
    pub(crate) fn parts(&self) -> usize {
        self.index.parts()
    }

    /// The hashes of all items of one of so many parts, demoting ones too, and whether they are clean.
    pub(crate) fn hashes_in(&self, part: usize, parts: usize) -> Vec<(KeyHash, bool)> {
        let mut hashes = Vec::new();
        self.index.each_in(part, parts, |entry, locked| {
            let hash = self.hasher.hash(self.record(entry.location(), locked).key);
            hashes.push((hash, entry.is_clean()));
        });
        hashes
    }

    /// How many items are not known to be on flash.
    pub(crate) fn dirty(&self) -> u64 {
        self.estimated_dirty(usize::MAX)
    }

    /// The same, about: from `parts` parts at least, a power of two. Exact where there are no more.
    pub(crate) fn estimated_dirty(&self, parts: usize) -> u64 {
        let mut dirty = 0;
        let step = self.each_of(parts, |entry, _| dirty += u64::from(!entry.is_clean()));
        dirty * step
    }

    /// Looks at the items of `parts` parts at least, spread over all. The tier has about as many times as many as the
    /// result says.
    fn each_of(&self, parts: usize, mut look: impl FnMut(Entry, &Locked)) -> u64 {
        let all = self.parts();
        let step = (all / parts).max(1);
        (0..all).step_by(step).for_each(|part| self.index.each_in(part, all, &mut look));
        step as u64
    }

    /// What a sample of the items is like, from as many parts. It reads their records, which a count of dirty ones does
    /// not.
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

    /// The items of a hash, alive or expired: one, but for keys whose hashes collide. Counts no use.
    pub(crate) fn residents(&self, hash: KeyHash) -> Vec<Resident> {
        let mut found = Vec::new();
        self.index.peek(hash, |entry, locked| {
            let at = entry.location();
            let record = self.record(at, locked);
            let key = record.key;
            // An entry may be shown twice: the two buckets of a hash may be one.
            let known = found.iter().any(|resident: &Resident| resident.value.key() == key);
            if !known && self.hasher.hash(key) == hash {
                let pin = self.slots.get(at, locked).pin_locked(at.at, locked);
                let value = Pinned::new(pin, record.marks);
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

    /// Flash does not hold the version of `key` any more that is here, if it did. The caller holds the key's lock.
    pub(crate) fn note_dirty(&self, hash: KeyHash, key: &[u8]) {
        self.index.set_clean(hash, key, false, self);
    }
}
