//! Scans all objects, table by table.
//!
//! The cursor identifies an object by its position, because a table does not have the full hash of a key. After an
//! object was read, the scan checks that it is still the newest of its key; for that its table may be read again.

use super::Array;
use super::entry::SetEntry;
use super::host::Why;
use super::table::{PAGES, Page};
use crate::base::key::KeyHash;
use crate::base::side_by_side::together;
use crate::engine::long::ReadPurpose;
use crate::engine::{Cursor, Judge};

/// Objects that a scan reads concurrently.
const READS_AT_ONCE: usize = 8;

impl Array {
    /// Continues a scan.
    pub(super) async fn scan_a_table<T>(
        &self,
        cursor: &mut Cursor,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        if cursor.names.is_empty() {
            let table = u32::try_from(cursor.parts.next()?).expect("a table of the index");
            cursor.names = self.positions_in(table).await.into_iter().map(KeyHash).collect();
        }
        let rest = cursor.names.len().saturating_sub(READS_AT_ONCE);
        let judged =
            together(cursor.names[rest..].iter().map(|&name| self.peek(name, judge))).await;
        // Not earlier: if this future is dropped, the next call visits the same objects again.
        cursor.names.truncate(rest);
        Some(judged.into_iter().flatten().collect())
    }

    /// Positions of the objects of a table.
    async fn positions_in(&self, table: u32) -> Vec<u64> {
        let read = {
            let state = self.lock();
            state.entries.place(table).map(|at| self.table_read(&state, table, at, 0..PAGES))
        };
        let pages = match &read {
            Some(read) => self.read_pages(read, Why::Upkeep).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let state = self.lock();
        let index = &state.entries;
        let shape = index.shape();
        let in_sets = index.sets_of(table).iter().flat_map(|set| set.entries());
        let in_table = pages.iter().flat_map(|Page { entries, .. }| entries.iter().copied());
        let is_only_there = |&entry: &SetEntry| {
            let slot = index.slot_of(table, shape.fingerprint_of(entry));
            index.set(slot).get(shape, slot.fingerprint).is_none()
        };
        let all = in_sets.chain(in_table.filter(is_only_there));
        all.filter(|&entry| self.is_current(&state, entry)).map(SetEntry::position).collect()
    }

    /// Applies `judge` to the object at a position, if it is still the newest of its key. Counts no hit.
    async fn peek<T>(&self, KeyHash(position): KeyHash, judge: Judge<'_, T>) -> Option<T> {
        let (at, filling, in_memory) = {
            let state = self.lock();
            let at = state.entries.shape().place_at(position);
            (at, state.filling(at.region), self.in_memory(&state, at))
        };
        let fetched = self.read_record(at, filling, in_memory).await.ok()?;
        let hash = fetched.hash;
        let whole = self.peek_whole(fetched).await?;
        let newest = self.locate(hash, ReadPurpose::Walk).await.ok()?;
        (newest.position() == position).then(|| judge(&whole.item()))?
    }
}
