//! A page of a set: 4 KiB that are filled in memory, written once, and never changed. On flash it is a record of the
//! region log that begins and ends with a block. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0     32  header of a record (`larder-log`): no flags, never expires
//!      32      4  key: number of the set
//!      36   4060  value: records of small objects (`engine/small_record.rs`), oldest first; then zeros
//! ```
//!
//! A record's position among those of its page is its slot.

#![deny(clippy::indexing_slicing)]

use larder_log::{NewRecord, Record, record};

use crate::base::item::ItemRef;
use crate::base::key::KeyHash;
use crate::engine::small_record::{self, SmallRecord, SmallRecords};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
const KEY_BYTES: usize = size_of::<u32>();
/// Bytes of a page for the records of objects.
pub(super) const BODY_BYTES: usize = PAGE_BYTES - record::RECORD_HEADER_BYTES - KEY_BYTES;
/// Longest object (key and value) that a page can hold.
pub(crate) const OBJECT_BYTES_MAX: usize = BODY_BYTES - small_record::BESIDE_OBJECT_BYTES;
/// Most objects of a page: with more, the last bytes of a page of tiny objects stay empty.
pub(crate) const SLOTS_MAX: usize = 126;
/// Memory of an open page grows by this number of bytes.
const GROWN_BYTES: usize = 512;
/// Set numbers are below this value: larger ones mean other records of the log.
pub(super) const SETS_END: u32 = u32::MAX;

/// A page in memory.
#[derive(Debug)]
pub(super) struct OpenPage {
    body: Vec<u8>,
    entries: Vec<OpenEntry>,
    /// The page is full when its records take this number of bytes.
    full_bytes: usize,
}

/// One object of a page in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenEntry {
    hash: KeyHash,
    at: u16,
    bytes: u16,
}

impl OpenPage {
    /// An empty page that takes up to this number of bytes, or one object that is longer.
    pub(super) fn of_bytes(full_bytes: usize) -> Self {
        Self { body: Vec::new(), entries: Vec::new(), full_bytes: full_bytes.min(BODY_BYTES) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of objects.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of its records.
    pub(super) fn used_bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether a record of this length fits. An empty page has room for any record.
    pub(super) fn has_room(&self, record_bytes: usize) -> bool {
        self.is_empty()
            || self.body.len() + record_bytes <= self.full_bytes && self.entries.len() < SLOTS_MAX
    }

    /// Appends an item for which there is room.
    pub(super) fn push(&mut self, item: &ItemRef<'_>) {
        let bytes = small_record::record_bytes(item);
        assert!(bytes <= BODY_BYTES && self.has_room(bytes), "the caller has asked");
        let at = self.body.len();
        if self.body.capacity() < at + bytes {
            self.body.reserve_exact(bytes.next_multiple_of(GROWN_BYTES));
        }
        self.body.resize(at + bytes, 0);
        let room = self.body.get_mut(at..).unwrap_or_default();
        small_record::put(room, item).expect("the engine takes no longer objects");
        self.entries.push(OpenEntry { hash: item.hash, at: narrow(at), bytes: narrow(bytes) });
    }

    pub(super) fn holds(&self, hash: KeyHash) -> bool {
        self.entries.iter().any(|entry| entry.hash == hash)
    }

    /// The object of `key`.
    pub(super) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<SmallRecord<'_>> {
        let candidates = self.entries.iter().rev().filter(|entry| entry.hash == hash);
        candidates.filter_map(|entry| self.record(*entry)).find(|record| record.key == key)
    }

    fn record(&self, OpenEntry { at, bytes, .. }: OpenEntry) -> Option<SmallRecord<'_>> {
        let (at, bytes) = (usize::from(at), usize::from(bytes));
        small_record::records(&self.body, at, at + bytes).next()
    }

    /// All objects with their hashes, oldest first.
    pub(super) fn objects(&self) -> impl Iterator<Item = (KeyHash, SmallRecord<'_>)> {
        self.entries.iter().filter_map(|entry| Some((entry.hash, self.record(*entry)?)))
    }

    /// Removes the objects of this hash; of `key` alone, if there is one. Returns their number.
    pub(super) fn remove(&mut self, hash: KeyHash, key: Option<&[u8]>) -> usize {
        let mut removed = 0;
        while let Some(number) = self.entries.iter().position(|entry| {
            entry.hash == hash
                && key.is_none_or(|key| self.record(*entry).is_some_and(|it| it.key == key))
        }) {
            let OpenEntry { at, bytes, .. } = self.entries.remove(number);
            self.body.drain(usize::from(at)..usize::from(at + bytes));
            let behind = self.entries.get_mut(number..).unwrap_or_default();
            behind.iter_mut().for_each(|entry| entry.at -= bytes);
            removed += 1;
        }
        removed
    }

    /// The fingerprints of its objects, by slot.
    pub(super) fn fingerprints(&self) -> Vec<u16> {
        self.entries.iter().map(|entry| fingerprint(entry.hash)).collect()
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.body.capacity() + self.entries.capacity() * size_of::<OpenEntry>()
    }

    /// Passes the page, as a record of the region log, to `take`.
    pub(super) fn as_record<T>(&self, set: u32, take: impl FnOnce(&NewRecord<'_>) -> T) -> T {
        let mut value = [0; BODY_BYTES];
        let (used, _) = value.split_at_mut(self.body.len());
        used.copy_from_slice(&self.body);
        let key = set.to_le_bytes();
        let hash = u64::from(set);
        let new = NewRecord {
            hash,
            key: &key,
            value: &value,
            expiry_s: 0,
            flags: 0,
            marks: 0,
            stamp: None,
        };
        debug_assert_eq!(new.record_bytes(), PAGE_BYTES, "a page is a block");
        take(&new)
    }
}

/// The set of a record of the log. `None` if it is no page.
pub(super) fn set_of(record: &Record<'_>) -> Option<u32> {
    let key = record.key().try_into().ok()?;
    let is_page = record.body.len() == KEY_BYTES + BODY_BYTES;
    Some(u32::from_le_bytes(key)).filter(|&set| is_page && set < SETS_END)
}

/// The objects of a page that was read, by slot. Their offsets count from `body_at`, where the page's value begins in
/// the buffer.
pub(super) fn records(buffer: &[u8], body_at: usize) -> SmallRecords<'_> {
    small_record::records(buffer, body_at, (body_at + BODY_BYTES).min(buffer.len()))
}

/// Where the value of a page begins in its record.
pub(super) const BODY_AT: usize = record::RECORD_HEADER_BYTES + KEY_BYTES;

/// The part of a hash that the index stores. 0 marks an object that is gone.
pub(super) fn fingerprint(hash: KeyHash) -> u16 {
    hash.tag().max(1)
}

fn narrow(bytes: usize) -> u16 {
    u16::try_from(bytes).expect("a page is shorter than 64 KiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_log::{CacheId, RecordIdentity};
    use proptest::prelude::*;

    fn item<'a>(key: &'a [u8], value: &'a [u8]) -> ItemRef<'a> {
        ItemRef { flags: 3, ..ItemRef::new(KeyHash::of(key), key, value, 77) }
    }

    #[test]
    fn a_page_is_a_block_with_its_objects_in_order() {
        let mut page = OpenPage::of_bytes(BODY_BYTES);
        [b"one", b"two", b"six"].iter().for_each(|key| page.push(&item(*key, b"value")));
        let identity = RecordIdentity { cache: CacheId::ZERO, sequence: 7, offset: 8192 };
        let bytes = page.as_record(5, |new| new.to_vec(identity));
        assert_eq!(bytes.len(), PAGE_BYTES);
        let read = record::parse_first(&bytes, identity).unwrap();
        assert_eq!((set_of(&read), read.body_at() + KEY_BYTES), (Some(5), BODY_AT));
        let keys: Vec<_> = records(&bytes, BODY_AT).map(|record| record.key).collect();
        assert_eq!(keys, [b"one", b"two", b"six"]);
        let last = records(&bytes, BODY_AT).nth(2).unwrap();
        assert_eq!((last.value, last.expiry_s, last.flags), (&b"value"[..], 77, 3));
    }

    #[test]
    fn the_longest_object_has_a_page_of_its_own() {
        let value = vec![9; OBJECT_BYTES_MAX - 1];
        let mut page = OpenPage::of_bytes(100);
        assert!(page.has_room(BODY_BYTES));
        page.push(&item(b"k", &value));
        assert!(!page.has_room(9));
        assert_eq!(page.find(KeyHash::of(b"k"), b"k").unwrap().value, value);
    }

    #[test]
    fn a_page_of_tiny_objects_has_a_slot_for_each() {
        let mut page = OpenPage::of_bytes(BODY_BYTES);
        let keys: Vec<_> = (0..u32::MAX).take(SLOTS_MAX).map(u32::to_le_bytes).collect();
        for key in &keys {
            assert!(page.has_room(16));
            page.push(&ItemRef::new(KeyHash::of(key), key, b"", 0));
        }
        assert!(!page.has_room(16));
    }

    proptest! {
        /// Compares a page with a list.
        #[test]
        fn agrees_with_a_list(ops in prop::collection::vec((0..12_u8, 0..90_usize, any::<bool>()), 1..80)) {
            let mut page = OpenPage::of_bytes(BODY_BYTES);
            let mut list: Vec<(u8, Vec<u8>)> = Vec::new();
            for (key, length, remove) in ops {
                let (name, value) = ([key + 1], vec![key; length]);
                let removed = page.remove(KeyHash::of(&name), Some(&name));
                prop_assert_eq!(removed, list.iter().filter(|(known, _)| *known == key).count());
                list.retain(|(known, _)| *known != key);
                let new = item(&name, &value);
                if !remove && page.has_room(small_record::record_bytes(&new)) {
                    page.push(&new);
                    list.push((key, value));
                }
                let found: Vec<_> =
                    page.objects().map(|(_, it)| (it.key.first().unwrap() - 1, it.value.to_vec())).collect();
                prop_assert_eq!(&found, &list);
                prop_assert_eq!(page.fingerprints().len(), page.len());
            }
        }
    }
}
