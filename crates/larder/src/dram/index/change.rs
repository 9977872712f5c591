//! Changes of index entries, each under the lock of its shard. Lock-free readers do not wait for it. A change that
//! could make a reader overlook an entry, or confuse two records, is counted as a move.

use super::super::readers::{LockProof, LockProofAlone};
use super::super::table::{Bucket, Entry, Location, Records, Table, buckets_for, empty_buckets};
use super::{Index, IndexShard};
use crate::base::key::KeyHash;
use crate::base::sync::atomic::Ordering;

/// More keys have this hash than there are places for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardFull;

/// Outcome of putting a record under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    /// The record is stored.
    Done,
    /// The existing record stays.
    Refused,
    /// There was no room for the record.
    NoRoom,
}

/// Puts a record under a key; called with the lock of the key's shard. The default methods never overwrite a record,
/// and ignore an appended record that is not used.
pub(crate) trait Putting {
    /// Whether the record there may be overwritten.
    fn fits(&mut self, _old: Location, _locked: &LockProof) -> bool {
        false
    }

    /// Overwrites the record there, for which `fits` was true; lock-free readers are kept away. `None`: the new
    /// record must be appended.
    fn overwrite(&mut self, _old: Location, _locked: &LockProofAlone) -> Option<PutOutcome> {
        None
    }

    /// Writes the record to a new place. The error says why not.
    fn append(&mut self, old: Option<Location>, locked: &LockProof)
    -> Result<Location, PutOutcome>;

    /// The appended record is not used.
    fn take_back(&mut self, _appended: Location, _locked: &LockProof) {}
}

impl Index {
    /// Lets `putting` put a record under `key`, with the shard's lock taken once. Lock-free readers retry if a record
    /// was overwritten. A replacement counts as a hit.
    ///
    /// # Errors
    /// [`ShardFull`], after the record was appended: the key has no entry.
    pub(crate) fn put(
        &self,
        hash: KeyHash,
        key: &[u8],
        clean: bool,
        records: &impl Records,
        putting: &mut impl Putting,
    ) -> Result<PutOutcome, ShardFull> {
        let (shard, mut len, mut locked) = self.write(hash);
        let table = shard.table(&locked);
        let found = table.position(hash, key, records, &locked);
        if let Some((place, old)) = found
            && putting.fits(old.location(), &locked)
        {
            shard.begin_moves();
            let put = putting.overwrite(old.location(), &locked);
            if put == Some(PutOutcome::Done) {
                place.put(Entry::new(hash, old.location(), clean, old.frequency() + 1));
            }
            shard.end_moves();
            if let Some(put) = put {
                return Ok(put);
            }
        }
        let location = match putting.append(found.map(|(_, old)| old.location()), &locked) {
            Ok(location) => location,
            Err(put) => return Ok(put),
        };
        debug_assert!(
            found.is_none_or(|(_, old)| old.location() != location),
            "what is appended lies elsewhere"
        );
        match found {
            Some((place, old)) => place.put(Entry::new(hash, location, clean, old.frequency() + 1)),
            None => {
                let entry = Entry::new(hash, location, clean, 0);
                if !table.insert(entry)
                    && let Err(full) = self.insert_among(shard, *len, entry, &mut locked)
                {
                    putting.take_back(location, &locked);
                    return Err(full);
                }
                *len += 1;
            }
        }
        debug_assert!(
            shard.table(&locked).position_at(hash, location).is_some(),
            "what was put is in one of its two buckets"
        );
        Ok(PutOutcome::Done)
    }

    /// Inserts an entry into a shard whose two buckets for it are full: moves other entries, or grows the table.
    fn insert_among(
        &self,
        shard: &IndexShard,
        len: usize,
        entry: Entry,
        locked: &mut LockProofAlone,
    ) -> Result<(), ShardFull> {
        shard.begin_moves();
        let inserted = loop {
            let table = shard.table(locked);
            if table.insert(entry) || table.clear_and_insert(entry) {
                break Ok(());
            }
            if !table.should_grow(len) {
                break Err(ShardFull);
            }
            let larger = table.grown();
            let grown = size_of_val(&*larger) - table.memory_bytes();
            self.bytes.fetch_add(grown, Ordering::Relaxed);
            shard.buckets.replace(larger, &self.readers, locked);
            debug_assert_eq!(
                shard.table(locked).entries().count(),
                len,
                "growing keeps every entry"
            );
        };
        shard.end_moves();
        inserted
    }

    /// Shrinks the table after entries were removed, if few are left.
    fn shrink(&self, shard: &IndexShard, len: usize, locked: &mut LockProofAlone) {
        let table = shard.table(locked);
        let Some(smaller) = table.shrunk(len) else { return };
        let bytes = table.memory_bytes() - size_of_val(&*smaller);
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "every table is counted");
        shard.begin_moves();
        shard.buckets.replace(smaller, &self.readers, locked);
        shard.end_moves();
        debug_assert_eq!(shard.table(locked).entries().count(), len, "shrinking keeps every entry");
    }

    /// Divides a shard, if no other thread does so. The hash of an entry is computed from its record.
    pub(crate) fn divide(&self, records: &impl Records) {
        let Ok(_alone) = self.dividing.try_lock() else { return };
        if !self.is_to_be_divided() {
            return;
        }
        let from = self.shards.at(self.shards.next_divided());
        let (to, made) = self.shards.prepare_next(|| IndexShard::of_buckets(0));
        // Lock in the order of their numbers.
        let (mut from_len, mut locked) = from.write();
        let (mut to_len, mut to_locked) = to.write();
        let table = from.table(&locked);
        let (go, stay): (Vec<_>, Vec<_>) = table
            .entries()
            .partition(|entry| self.shards.goes_to_next(records.hash(entry.location(), &locked)));
        assert_eq!(go.len() + stay.len(), *from_len, "the entries of a shard are counted");
        assert_eq!(*to_len, 0, "no reader finds the next shard before it is added");
        let (here, there) = (buckets_of(&stay), buckets_of(&go));
        let more = size_of_val(&*here) + size_of_val(&*there) + made * size_of::<IndexShard>();
        let less = table.memory_bytes();
        self.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes.fetch_sub(less, Ordering::Relaxed);
        (*from_len, *to_len) = (stay.len(), go.len());
        from.begin_moves();
        to.buckets.replace(there, &self.readers, &mut to_locked);
        self.shards.add_next();
        from.buckets.replace(here, &self.readers, &mut locked);
        from.end_moves();
    }

    /// Marks the entry of `key` as clean (flash holds its version) or not.
    pub(crate) fn set_clean(&self, hash: KeyHash, key: &[u8], clean: bool, records: &impl Records) {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position(hash, key, records, &locked);
        if let Some((place, entry)) = found {
            place.put(entry.with_clean(clean));
        }
    }

    /// Removes `key`, if `look` returns a result for its entry.
    pub(crate) fn remove_if<T>(
        &self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        look: impl FnOnce(Entry, &LockProof) -> Option<T>,
    ) -> Option<T> {
        let (shard, mut len, mut locked) = self.write(hash);
        let (place, entry) = shard.table(&locked).position(hash, key, records, &locked)?;
        let seen = look(entry, &locked)?;
        debug_assert!(*len > 0, "an entry that is taken out was counted");
        place.clear();
        *len -= 1;
        self.shrink(shard, *len, &mut locked);
        Some(seen)
    }

    /// Removes everything, shard by shard, each in one step, and calls `each` for each entry.
    pub(crate) fn clear(&self, mut each: impl FnMut(Entry, &LockProof)) {
        let _undivided = self.dividing();
        for shard in self.shards.all() {
            let (mut len, mut locked) = shard.write();
            let mut left = 0;
            shard.table(&locked).clear(|entry| {
                left += 1;
                each(entry, &locked);
            });
            debug_assert_eq!(left, *len, "the entries of a shard are counted");
            *len = 0;
            self.shrink(shard, 0, &mut locked);
        }
    }

    /// Removes the entry of this hash that points to `location`. Returns whether there was one.
    pub(crate) fn remove_at(&self, hash: KeyHash, location: Location) -> bool {
        self.remove_at_if(hash, location, |_| true).is_some()
    }

    /// The entry of this hash that points to `location`; it is removed if `leaves` returns true.
    pub(crate) fn remove_at_if(
        &self,
        hash: KeyHash,
        location: Location,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<Entry> {
        let (shard, mut len, mut locked) = self.write(hash);
        let (entry, left) = shard.take_out(hash, location, &mut len, &locked, leaves)?;
        if left {
            self.shrink(shard, *len, &mut locked);
        }
        Some(entry)
    }

    /// The same for the end of the tier: tables do not shrink. Returns whether the entry was removed; `None` if there
    /// is none.
    pub(crate) fn leave(
        &self,
        hash: KeyHash,
        location: Location,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<bool> {
        let (shard, mut len, locked) = self.write(hash);
        let (_, left) = shard.take_out(hash, location, &mut len, &locked, leaves)?;
        Some(left)
    }

    /// Points the entry of this hash from one place to another, and calls `about_to` just before. Returns whether the
    /// entry was there.
    pub(crate) fn relocate(
        &self,
        hash: KeyHash,
        from: Location,
        (to, frequency): (Location, u64),
        about_to: impl FnOnce(&LockProofAlone),
    ) -> bool {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position_at(hash, from);
        let Some((place, old)) = found else { return false };
        about_to(&locked);
        place.put(Entry::new(hash, to, old.is_clean(), frequency));
        true
    }
}

/// Builds a table of these entries.
fn buckets_of(entries: &[Entry]) -> Box<[Bucket]> {
    let mut buckets = empty_buckets(buckets_for(entries.len()));
    while !Table(&buckets).take_all(entries.iter().copied()) {
        let count = buckets.len();
        buckets = empty_buckets(count + (count / 4).max(1));
    }
    buckets
}

impl IndexShard {
    /// The entry of this hash that points to `location`, and whether it was removed, which happens if `leaves`
    /// returns true.
    fn take_out(
        &self,
        hash: KeyHash,
        location: Location,
        len: &mut usize,
        locked: &LockProofAlone,
        leaves: impl FnOnce(Entry) -> bool,
    ) -> Option<(Entry, bool)> {
        let (place, entry) = self.table(locked).position_at(hash, location)?;
        let left = leaves(entry);
        if left {
            debug_assert!(*len > 0, "an entry that is taken out was counted");
            place.clear();
            *len -= 1;
        }
        Some((entry, left))
    }

    /// Starts moves. The lock is held until [`IndexShard::end_moves`].
    fn begin_moves(&self) {
        let before = self.moves.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before & 1 == 0, "one at a time moves entries, with the shard's lock");
    }

    /// Only the holder of the lock changes the number, so it is stored without a second atomic addition. A reader that
    /// sees the new number sees the moves.
    fn end_moves(&self) {
        let before = self.moves.load(Ordering::Relaxed);
        debug_assert!(before & 1 == 1, "moves end that have begun");
        self.moves.store(before.wrapping_add(1), Ordering::Release);
    }
}
