//! Walking over all objects, table by table.
//!
//! The cursor names an object by where it lies, for a table does not tell the whole hash of a key. Whether an object
//! that was read is still the newest of its key is asked again: its table may be read once more for that.

use larder_log::RegionId;

use super::Array;
use super::entry::{Entry, Place};
use super::look::Why;
use super::table::{PAGES, Page};
use crate::engine::{Cursor, Judge};
use crate::item::Kind;
use crate::key::KeyHash;
use crate::side_by_side::together;

/// Objects that a scan reads side by side.
const READS_AT_ONCE: usize = 8;

impl Array {
    /// Goes on with a scan.
    pub(super) async fn scan_a_table<T>(
        &self,
        cursor: &mut Cursor,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        if cursor.names.is_empty() {
            let table = u32::try_from(cursor.parts.next()?).expect("a table of the index");
            let names = self.places_in(table).await;
            cursor.names = names.into_iter().map(|place| self.name_of(place)).collect();
        }
        let rest = cursor.names.len().saturating_sub(READS_AT_ONCE);
        let judged =
            together(cursor.names[rest..].iter().map(|&name| self.peek(name, judge))).await;
        // Not before: who drops this comes to them again.
        cursor.names.truncate(rest);
        Some(judged.into_iter().flatten().collect())
    }

    /// Where the objects of a table lie.
    async fn places_in(&self, table: u32) -> Vec<Place> {
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
        let is_only_there = |&entry: &Entry| {
            let slot = index.slot_of(table, shape.fingerprint_of(entry));
            index.set(slot).get(shape, slot.fingerprint).is_none()
        };
        let all = in_sets.chain(in_table.filter(is_only_there));
        all.filter(|&entry| self.is_current(&state, entry)).map(|it| shape.place_of(it)).collect()
    }

    /// Region, offset and length in one word: the offset and the length in grains have less than 32 bits together.
    fn name_of(&self, Place { region, offset, span }: Place) -> KeyHash {
        let grain = super::entry::GRAIN_BYTES;
        let grains = self.place.log.region_bytes / grain;
        let at = u64::from(region.number()) * u64::from(grains) + u64::from(offset / grain);
        KeyHash(at << 14 | u64::from(span / grain))
    }

    fn place_named(&self, KeyHash(name): KeyHash) -> Place {
        let grain = super::entry::GRAIN_BYTES;
        let grains = u64::from(self.place.log.region_bytes / grain);
        let narrow = |number: u64| u32::try_from(number).expect("it was made of 32 bits");
        let at = name >> 14;
        Place {
            region: RegionId::new(narrow(at / grains)),
            offset: narrow(at % grains) * grain,
            span: narrow(name & 0x3fff) * grain,
        }
    }

    /// What `judge` makes of the object there, if it is still the newest of its key. No use of it.
    async fn peek<T>(&self, name: KeyHash, judge: Judge<'_, T>) -> Option<T> {
        let at = self.place_named(name);
        let (filling, in_memory) = {
            let state = self.lock();
            let active = state.active.get(at.region);
            let in_memory = active.and_then(|it| it.in_memory(at.offset, at.span, self.log.pool()));
            (state.filling(at.region), in_memory)
        };
        let fetched = self.read_record(at, filling, in_memory).await?;
        let newest = self.find(fetched.hash).await?;
        let is_newest = self.lock().entries.shape().place_of(newest) == at;
        (is_newest && fetched.kind == Kind::Whole).then(|| judge(&fetched.item()))?
    }
}
