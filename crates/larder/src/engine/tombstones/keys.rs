//! Tombstones of keys: of small objects in buckets, and of objects in tables of the array's index.
//!
//! Both kinds of place divide the range of hashes, and are written as a whole under a stamp: the index of the next key
//! tombstone. Both take their indices from the same clock. A tombstone of index i voids its key in everything written
//! with a stamp of at most i. It is no longer needed when its place is on flash with a later stamp.

use std::ops::Range;

use super::dead::KeysIn;
use super::{CLOCK_MAX, Receipt, Tombstones, TombstonesState};

impl TombstonesState {
    fn die(&mut self, keys: KeysIn, hash: u64) {
        let index = self.clock;
        self.clock += 1;
        debug_assert!(self.clock <= 2 * CLOCK_MAX, "a stamp of 48 bits holds it");
        let is_kept = self.enqueue(keys.tombstone(hash, index));
        let position = is_kept.then(|| self.receipt().0);
        self.dead.of_mut(keys).die(hash, index, position);
    }
}

impl Tombstones {
    /// The index of the next key tombstone, used as the stamp of a bucket or table. Read it before asking for the dead
    /// keys.
    pub(crate) fn clock(&self) -> u64 {
        self.lock().clock
    }

    pub(crate) fn set_clock(&self, clock: u64) {
        self.lock().clock = clock;
    }

    /// Whether these places hold no live object of this hash, whatever other data say.
    pub(crate) fn is_dead(&self, keys: KeysIn, hash: u64) -> bool {
        self.lock().dead.of(keys).is_pending(hash)
    }

    /// Marks the object of this hash dead, if it is not already: flash then holds no live version.
    pub(crate) fn invalidate_key(&self, keys: KeysIn, hash: u64) -> Receipt {
        let mut state = self.lock();
        if !state.dead.of(keys).is_pending(hash) {
            state.die(keys, hash);
            self.counters.tombstones.add(1);
        }
        state.receipt()
    }

    /// Marks all objects of this hash that exist by now dead, even if the hash was dead before: a newer version may
    /// have been set since, which its place does not know yet.
    pub(crate) fn invalidate_key_again(&self, keys: KeysIn, hash: u64) -> Receipt {
        let mut state = self.lock();
        state.die(keys, hash);
        self.counters.tombstones.add(1);
        state.receipt()
    }

    /// The dead keys of a bucket or table with this range of hashes.
    pub(crate) fn dead_in(&self, keys: KeysIn, hashes: Range<u128>) -> Vec<u64> {
        self.lock().dead.of(keys).dead_in(hashes)
    }

    /// Notes that a bucket or table is about to be written without these keys, under this stamp.
    /// [`Tombstones::resolved`] must report the end of the write.
    pub(crate) fn resolve(&self, keys: KeysIn, hashes: &[u64], stamp: u64) {
        if !hashes.is_empty() {
            self.lock().dead.of_mut(keys).resolve(hashes, stamp);
        }
    }

    pub(crate) fn resolved(&self, keys: KeysIn, hashes: &[u64], written: bool) {
        if !hashes.is_empty() {
            self.lock().dead.of_mut(keys).resolved(hashes, written);
        }
    }

    /// Notes that an unknown bucket or table has been read, with this stamp.
    pub(crate) fn settle_inherited(&self, keys: KeysIn, hashes: Range<u128>, stamp: u64) {
        self.lock().dead.of_mut(keys).settle_inherited(hashes, stamp);
    }

    /// The index of the death of this hash, if its table may not know it.
    pub(crate) fn index_of(&self, keys: KeysIn, hash: u64) -> Option<u64> {
        self.lock().dead.of(keys).index_of(hash)
    }

    /// Hashes of a table that have died, each with its index, if the table may not know it.
    pub(crate) fn deaths_within(&self, keys: KeysIn, hashes: Range<u128>) -> Vec<(u64, u64)> {
        self.lock().dead.of(keys).within(&hashes)
    }

    /// Notes that tables on flash know these deaths. A key that has died again since is still dead.
    pub(crate) fn deaths_known(&self, keys: KeysIn, deaths: &[(u64, u64)]) {
        self.lock().dead.of_mut(keys).known(deaths);
    }

    /// All hashes that are dead in their places, or may be.
    pub(crate) fn dead(&self, keys: KeysIn) -> Vec<u64> {
        self.lock().dead.of(keys).all()
    }

    /// All hashes for which it is not known yet, after a crash, whether they are dead.
    pub(crate) fn inherited(&self, keys: KeysIn) -> Vec<u64> {
        self.lock().dead.of(keys).inherited()
    }

    /// Maximum number of dead keys.
    pub(crate) fn keys_max(&self, keys: KeysIn) -> u64 {
        self.place.keys_max(keys, &self.superblock.layout)
    }

    /// A dead key whose place should be written without it, if there are too many dead keys.
    pub(crate) fn key_to_work_off(&self, keys: KeysIn, from: u64) -> Option<u64> {
        let most = self.keys_max(keys) / 2;
        let state = self.lock();
        let dead = state.dead.of(keys);
        let too_many = dead.pending_len() as u64 > most;
        too_many.then(|| dead.pending_from(from))?
    }
}
