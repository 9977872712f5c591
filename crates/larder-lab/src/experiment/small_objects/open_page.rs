//! The page in memory of a set, as the product has it: records of objects, and the memory that they take.

use super::layout::Entry;
use super::objects::Key;

/// Bytes of a page for its objects: without the header of a record of the log, and the number of the set.
pub(super) const BODY_BYTES: u32 = 4096 - 32 - 4;
/// Bytes in front of each object.
const RECORD_BYTES: u32 = 8;
/// Most objects of a page.
const SLOTS_MAX: usize = 126;
/// Memory of a page grows by this number of bytes.
const GROWN_BYTES: u32 = 512;
/// Memory of a page besides its records, and of each object besides its record.
const FIXED_BYTES: u64 = 56;
const SLOT_BYTES: u64 = 16;
/// Objects for which there is memory from the beginning.
const SLOTS_MIN: usize = 4;

/// Bytes of an object in a page.
pub(super) fn record_bytes(entry: &Entry) -> u32 {
    u32::from(entry.bytes) + RECORD_BYTES
}

/// An object of a page in memory.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) entry: Entry,
    /// Rounds that it may still ride along without another hit.
    pub(super) rounds: u8,
}

/// A page in memory.
pub(super) struct OpenPage {
    slots: Vec<Slot>,
    bytes: u32,
    /// The page is full with this number of bytes.
    full_bytes: u32,
    /// Memory that was taken: bytes for records, and a number of objects.
    allocated: (u32, usize),
}

impl OpenPage {
    /// An empty page of which this share is filled.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a page
    pub(super) fn new(share: f64) -> Self {
        let full_bytes = (f64::from(BODY_BYTES) * share) as u32;
        Self { slots: Vec::new(), bytes: 0, full_bytes, allocated: (0, 0) }
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Bytes of its records.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Adds an object, if `full_bytes` are not exceeded and it has room. An empty page has room for any.
    pub(super) fn push(&mut self, slot: Slot, full_bytes: u32) -> bool {
        let record_bytes = record_bytes(&slot.entry);
        let bytes = self.bytes + record_bytes;
        let has_room =
            self.slots.is_empty() || bytes <= self.full_bytes && self.slots.len() < SLOTS_MAX;
        if !has_room || bytes > full_bytes {
            return false;
        }
        if self.allocated.0 < bytes {
            self.allocated.0 = self.bytes + record_bytes.next_multiple_of(GROWN_BYTES);
        }
        self.bytes = bytes;
        self.slots.push(slot);
        let slots = self.slots.len().next_power_of_two().max(SLOTS_MIN);
        self.allocated.1 = self.allocated.1.max(slots);
        true
    }

    /// Removes the object of a key.
    pub(super) fn remove(&mut self, key: Key) {
        self.slots.retain(|slot| slot.entry.key != key);
        self.bytes = self.slots.iter().map(|slot| record_bytes(&slot.entry)).sum();
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        FIXED_BYTES + u64::from(self.allocated.0) + self.allocated.1 as u64 * SLOT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Objects;
    use super::*;

    #[test]
    fn a_page_takes_what_fits_and_counts_its_memory() {
        let mut objects = Objects::new(200);
        (0..200).for_each(|key| objects.set(key, 192, 0));
        let slot = |key| Slot { entry: Entry::of(key, &objects), rounds: 0 };
        let mut page = OpenPage::new(1.0);
        assert!(page.push(slot(0), BODY_BYTES));
        assert_eq!(page.memory_bytes(), 56 + 512 + 4 * 16);
        assert!(!page.push(slot(1), 399), "only half of it may ride along");
        let count = (1..).take_while(|key| page.push(slot(*key), BODY_BYTES)).count();
        assert_eq!((count, page.bytes()), (19, 4000));
        page.remove(7);
        assert_eq!((page.slots().len(), page.bytes()), (19, 3800));
        assert_eq!(page.memory_bytes(), 56 + 4400 - 288 + 32 * 16, "memory stays");
        let mut first = OpenPage::new(0.25);
        let count = (0..).take_while(|key| first.push(slot(*key), BODY_BYTES)).count();
        assert_eq!(count, 5, "the first page of a set ends early");
    }

    #[test]
    fn an_empty_page_takes_any_object_and_never_more_than_126() {
        let mut objects = Objects::new(200);
        (1..200).for_each(|key| objects.set(key, 10, 0));
        objects.set(0, 4050, 0);
        let slot = |key| Slot { entry: Entry::of(key, &objects), rounds: 0 };
        assert!(OpenPage::new(0.0).push(slot(0), BODY_BYTES));
        let mut page = OpenPage::new(1.0);
        assert_eq!((1..200).take_while(|key| page.push(slot(*key), BODY_BYTES)).count(), 126);
    }
}
