//! Tombstones of keys: of small objects in buckets, and of objects that a table of the array's index names.
//!
//! Both divide the range of hashes among places that are written whole, under a stamp: the index of the next key's
//! tombstone. Both draw their indices from one clock. A tombstone of index i is dead in what was written with a stamp
//! of at most i, and is needed no more when its place is on flash with a later one.

use std::ops::Range;

use super::dead::KeysIn;
use super::{CLOCK_MAX, Receipt, State, Tombstones};

impl State {
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
    /// The index of the next key's tombstone, to stamp a bucket or a table with: taken before its dead are asked for.
    pub(crate) fn clock(&self) -> u64 {
        self.lock().clock
    }

    pub(crate) fn set_clock(&self, clock: u64) {
        self.lock().clock = clock;
    }

    /// Whether these places hold no live object of this hash, whatever else says so.
    pub(crate) fn is_dead(&self, keys: KeysIn, hash: u64) -> bool {
        self.lock().dead.of(keys).is_pending(hash)
    }

    /// Declares the object of this hash dead, if it is not: flash holds no other version.
    pub(crate) fn invalidate_key(&self, keys: KeysIn, hash: u64) -> Receipt {
        let mut state = self.lock();
        if !state.dead.of(keys).is_pending(hash) {
            state.die(keys, hash);
            self.counters.tombstones.add(1);
        }
        state.receipt()
    }

    /// Declares all objects of this hash dead that there are by now, also if it was dead before: a newer version may
    /// have come since, of which its place does not know yet.
    pub(crate) fn invalidate_key_again(&self, keys: KeysIn, hash: u64) -> Receipt {
        let mut state = self.lock();
        state.die(keys, hash);
        self.counters.tombstones.add(1);
        state.receipt()
    }

    /// The dead of a bucket or table, whose hashes these are.
    pub(crate) fn dead_in(&self, keys: KeysIn, hashes: Range<u128>) -> Vec<u64> {
        self.lock().dead.of(keys).dead_in(hashes)
    }

    /// A bucket or table is about to be written without these, under this stamp; [`Tombstones::resolved`] says how it
    /// ended.
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

    /// A bucket or table that nothing was known of has been read, with this stamp.
    pub(crate) fn settle_inherited(&self, keys: KeysIn, hashes: Range<u128>, stamp: u64) {
        self.lock().dead.of_mut(keys).settle_inherited(hashes, stamp);
    }

    /// The index that this hash has died with, as far as its table may not know of it.
    pub(crate) fn index_of(&self, keys: KeysIn, hash: u64) -> Option<u64> {
        self.lock().dead.of(keys).index_of(hash)
    }

    /// Hashes of a table that have died, each with its index, as far as the table may not know of it.
    pub(crate) fn deaths_within(&self, keys: KeysIn, hashes: Range<u128>) -> Vec<(u64, u64)> {
        self.lock().dead.of(keys).within(&hashes)
    }

    /// Tables on flash know of these: who died again since is still dead.
    pub(crate) fn deaths_known(&self, keys: KeysIn, deaths: &[(u64, u64)]) {
        self.lock().dead.of_mut(keys).known(deaths);
    }

    /// All hashes that are dead in their places, or may be.
    pub(crate) fn dead(&self, keys: KeysIn) -> Vec<u64> {
        self.lock().dead.of(keys).all()
    }

    /// All hashes of which a crash has left open whether they are dead.
    pub(crate) fn inherited(&self, keys: KeysIn) -> Vec<u64> {
        self.lock().dead.of(keys).inherited()
    }

    /// How many dead keys there may be.
    pub(crate) fn keys_max(&self, keys: KeysIn) -> u64 {
        self.place.keys_max(keys, &self.superblock.layout)
    }

    /// A dead key whose place should be written without it, if there are too many of them.
    pub(crate) fn key_to_work_off(&self, keys: KeysIn, from: u64) -> Option<u64> {
        let most = self.keys_max(keys) / 2;
        let state = self.lock();
        let dead = state.dead.of(keys);
        let too_many = dead.pending_len() as u64 > most;
        too_many.then(|| dead.pending_from(from))?
    }
}
