//! How entries of the index change: each with the lock of its shard, which those who look without a lock do not wait
//! for. What may make one of them overlook an entry, or take a record for another, is counted as a move.

use super::super::readers::{Locked, LockedAlone};
use super::super::table::{Bucket, Entry, Location, Records, Table, buckets_for, empty_buckets};
use super::{Index, Shard};
use crate::key::KeyHash;
use crate::sync::atomic::Ordering;

/// More keys have this hash than there are places for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardFull;

/// What became of a record that was to be put under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is there.
    Done,
    /// What is there stays.
    Refused,
    /// It could not be written.
    NoRoom,
}

/// Somebody who puts a record under a key, and is asked with the lock of its shard. Who says nothing else
/// overwrites none, and does not mind if it is of no use.
pub(crate) trait Putting {
    /// Whether the record there may be overwritten.
    fn fits(&mut self, _old: Location, _locked: &Locked) -> bool {
        false
    }

    /// Overwrites the record there, which fits; readers without a lock are kept away. `None`: it has to be
    /// appended.
    fn overwrite(&mut self, _old: Location, _locked: &LockedAlone) -> Option<Put> {
        None
    }

    /// Writes the record to another place than that of the old one, if there is one; or why not.
    fn append(&mut self, old: Option<Location>, locked: &Locked) -> Result<Location, Put>;

    /// The record that was appended is of no use.
    fn take_back(&mut self, _appended: Location, _locked: &Locked) {}
}

impl Index {
    /// Lets `putting` put a record under `key`, all with the shard's lock taken once. Readers without a lock
    /// look again after one was overwritten. A replacement counts as a hit.
    ///
    /// # Errors
    /// [`ShardFull`], though the record was appended: there is no entry of the key.
    pub(crate) fn put(
        &self,
        hash: KeyHash,
        key: &[u8],
        clean: bool,
        records: &impl Records,
        putting: &mut impl Putting,
    ) -> Result<Put, ShardFull> {
        let (shard, mut len, mut locked) = self.write(hash);
        let table = shard.table(&locked);
        let found = table.position(hash, key, records, &locked);
        if let Some((place, old)) = found
            && putting.fits(old.location(), &locked)
        {
            shard.begin_moves();
            let put = putting.overwrite(old.location(), &locked);
            if put == Some(Put::Done) {
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
        Ok(Put::Done)
    }

    /// Puts an entry into a shard in whose buckets for it there is no place: others move, or the table
    /// grows.
    fn insert_among(
        &self,
        shard: &Shard,
        len: usize,
        entry: Entry,
        locked: &mut LockedAlone,
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

    /// Gives memory back after entries were taken out, if few are left.
    fn shrink(&self, shard: &Shard, len: usize, locked: &mut LockedAlone) {
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

    /// Divides a shard, if nobody else does so. The hash of each of its entries is that of its record.
    pub(crate) fn divide(&self, records: &impl Records) {
        let Ok(_alone) = self.dividing.try_lock() else { return };
        if !self.is_to_be_divided() {
            return;
        }
        let from = self.shards.at(self.shards.next_divided());
        let (to, made) = self.shards.prepare_next(|| Shard::of_buckets(0));
        // In the order of their numbers.
        let (mut from_len, mut locked) = from.write();
        let (mut to_len, mut to_locked) = to.write();
        let table = from.table(&locked);
        let (go, stay): (Vec<_>, Vec<_>) = table
            .entries()
            .partition(|entry| self.shards.goes_to_next(records.hash(entry.location(), &locked)));
        assert_eq!(go.len() + stay.len(), *from_len, "the entries of a shard are counted");
        assert_eq!(*to_len, 0, "nobody finds the next shard before it is added");
        let (here, there) = (buckets_of(&stay), buckets_of(&go));
        let more = size_of_val(&*here) + size_of_val(&*there) + made * size_of::<Shard>();
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

    /// Marks the entry of `key` as one whose version flash holds, or does not hold any more.
    pub(crate) fn set_clean(&self, hash: KeyHash, key: &[u8], clean: bool, records: &impl Records) {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position(hash, key, records, &locked);
        if let Some((place, entry)) = found {
            place.put(entry.with_clean(clean));
        }
    }

    /// Takes `key` out, if `look` finds in its entry what it wants.
    pub(crate) fn remove_if<T>(
        &self,
        hash: KeyHash,
        key: &[u8],
        records: &impl Records,
        look: impl FnOnce(Entry, &Locked) -> Option<T>,
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

    /// Takes everything out, shard by shard, each in one step, and shows it to `each`.
    pub(crate) fn clear(&self, mut each: impl FnMut(Entry, &Locked)) {
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

    /// Takes out the entry of this hash that points to `location`. Says whether there was one.
    pub(crate) fn remove_at(&self, hash: KeyHash, location: Location) -> bool {
        self.remove_at_if(hash, location, |_| true).is_some()
    }

    /// The entry of this hash that points to `location`, which is taken out if `leaves` says so.
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

    /// The same for a tier that ends: no table becomes smaller. Says whether the entry was taken out; `None`:
    /// there is none.
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

    /// Points the entry of this hash from one place to another, after a last word of `about_to`. Says
    /// whether it was there.
    pub(crate) fn relocate(
        &self,
        hash: KeyHash,
        from: Location,
        (to, frequency): (Location, u64),
        about_to: impl FnOnce(&LockedAlone),
    ) -> bool {
        let (shard, _len, locked) = self.write(hash);
        let found = shard.table(&locked).position_at(hash, from);
        let Some((place, old)) = found else { return false };
        about_to(&locked);
        place.put(Entry::new(hash, to, old.is_clean(), frequency));
        true
    }
}

/// A table of these entries.
fn buckets_of(entries: &[Entry]) -> Box<[Bucket]> {
    let mut buckets = empty_buckets(buckets_for(entries.len()));
    while !Table(&buckets).take_all(entries.iter().copied()) {
        let count = buckets.len();
        buckets = empty_buckets(count + (count / 4).max(1));
    }
    buckets
}

impl Shard {
    /// The entry of this hash that points to `location`, and whether it was taken out: if `leaves` says so.
    fn take_out(
        &self,
        hash: KeyHash,
        location: Location,
        len: &mut usize,
        locked: &LockedAlone,
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

    /// With the lock held, until [`Shard::end_moves`].
    fn begin_moves(&self) {
        let before = self.moves.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before & 1 == 0, "one at a time moves entries, with the shard's lock");
    }

    fn end_moves(&self) {
        let before = self.moves.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before & 1 == 1, "moves end that have begun");
    }
}
