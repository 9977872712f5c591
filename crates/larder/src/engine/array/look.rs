//! Looks an object up, by key or by its position.

use super::Array;
use super::entry::SetEntry;
use super::log::State;
use crate::base::item::{FlashItem, Kind, is_expired};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::side_by_side::together;
use crate::base::tier::Tier;
use crate::engine::long::{Lack, ReadPurpose};
use crate::engine::{Cursor, Judge};

/// Objects that a scan reads concurrently.
const READS_AT_ONCE: usize = 8;

impl Array {
    /// Looks `key` up: at most two reads, and two for each part of a long value.
    pub(super) async fn find_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<FlashItem> {
        let (fetched, entry) = self.head_or_whole(hash, key, now_s).await?;
        match fetched.kind {
            Kind::Head => self.complete(fetched, entry).await,
            Kind::Whole | Kind::Part => Some(fetched),
        }
    }

    /// The record of `key` and its entry: the head of a long value, or the whole object. At most two reads.
    pub(super) async fn head_or_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(FlashItem, SetEntry)> {
        let entry = self.tables.find(hash).await?;
        let fetched = self.fetch(hash, entry, now_s).await.ok()?;
        if fetched.item().key != key || fetched.kind == Kind::Part {
            self.log.counters().array_collisions.add(1);
            return None;
        }
        if fetched.item().is_expired(now_s) {
            self.log.counters().expired.add(1);
            let bytes = fetched.item().object_bytes();
            self.log.counters().removals.key(
                RemovalReason::Expired,
                Tier::ArrayObjects,
                key,
                bytes,
            );
            return None;
        }
        Some((fetched, entry))
    }

    /// Reads the record of an entry: one read; none if the record is gone or in memory.
    pub(super) async fn fetch(
        &self,
        hash: KeyHash,
        entry: SetEntry,
        now_s: u32,
    ) -> Result<FlashItem, Lack> {
        let (at, filling, in_memory) = {
            let state = &mut *self.log.lock();
            let at = state.entries.shape().place_of(entry);
            let is_current = self.log.is_current(state, entry);
            let ends = is_current.then(|| state.regions.get(at.region).latest_expiry_s());
            if ends.is_none_or(|ends| is_expired(ends, now_s)) {
                self.log.counters().array_stale_entries.add(1);
                return Err(self.forget(state, hash, entry));
            }
            (at, state.filling(at.region), self.log.in_memory(state, at))
        };
        self.log.read_record(at, filling, in_memory).await
    }

    /// Removes an entry that leads to no record from its set, if it is still there. Returns what that means for the
    /// look-up.
    fn forget(&self, state: &mut State, hash: KeyHash, entry: SetEntry) -> Lack {
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        match state.entries.set(slot).get(shape, slot.fingerprint) {
            Some(there) if shape.place_of(there) == shape.place_of(entry) => {
                state.entries.set_mut(slot).remove(shape, slot.fingerprint);
                Lack::Gone
            }
            // The object has moved.
            Some(_) => Lack::Unreadable,
            None => Lack::Gone,
        }
    }

    /// Continues a scan, table by table.
    ///
    /// The cursor identifies an object by its position, because a table does not have the full hash of a key. After an
    /// object was read, the scan checks that it is still the newest of its key; for that its table may be read again.
    pub(super) async fn scan_a_table<T>(
        &self,
        cursor: &mut Cursor,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        if cursor.names.is_empty() {
            let table = u32::try_from(cursor.parts.next()?).expect("a table of the index");
            cursor.names = self.tables.positions_in(table).await.into_iter().map(KeyHash).collect();
        }
        let rest = cursor.names.len().saturating_sub(READS_AT_ONCE);
        let judged =
            together(cursor.names[rest..].iter().map(|&name| self.peek(name, judge))).await;
        // Not earlier: if this future is dropped, the next call visits the same objects again.
        cursor.names.truncate(rest);
        Some(judged.into_iter().flatten().collect())
    }

    /// Applies `judge` to the object at a position, if it is still the newest of its key. Counts no hit.
    async fn peek<T>(&self, KeyHash(position): KeyHash, judge: Judge<'_, T>) -> Option<T> {
        let (at, filling, in_memory) = {
            let state = self.log.lock();
            let at = state.entries.shape().place_at(position);
            (at, state.filling(at.region), self.log.in_memory(&state, at))
        };
        let fetched = self.log.read_record(at, filling, in_memory).await.ok()?;
        let hash = fetched.hash;
        let whole = self.peek_whole(fetched).await?;
        let newest = self.tables.locate(hash, ReadPurpose::Walk).await.ok()?;
        (newest.position() == position).then(|| judge(&whole.item()))?
    }
}
