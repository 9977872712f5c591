//! What is in DRAM, for those who want to see all of it: scans, and `flush`.

use super::DramTier;
use crate::key::KeyHash;
use crate::value::Pinned;

/// An item of the tier, pinned.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) value: Pinned,
    /// Whether flash held this very version, or none, when it came or was flushed.
    pub(crate) clean: bool,
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
        let mut dirty = 0;
        let parts = self.parts();
        for part in 0..parts {
            self.index.each_in(part, parts, |entry, _| dirty += u64::from(!entry.is_clean()));
        }
        dirty
    }

    /// The same, about: from so many parts at least, a power of two. Exact where there are no more.
    pub(crate) fn estimated_dirty(&self, parts: usize) -> u64 {
        let (mut dirty, all) = (0, self.parts());
        let step = (all / parts).max(1);
        for part in (0..all).step_by(step) {
            self.index.each_in(part, all, |entry, _| dirty += u64::from(!entry.is_clean()));
        }
        dirty * step as u64
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
