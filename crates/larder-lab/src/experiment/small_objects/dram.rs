//! The DRAM tier: an LRU list by bytes. An item is clean if flash had its version when it came or since it was written.

use super::objects::Key;

/// Bytes of DRAM that an item takes besides key and value: its header, and its entry of the index.
pub(super) const ITEM_BYTES: u64 = 56;
const NONE: Key = Key::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Absent,
    Clean,
    Dirty,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    newer: Key,
    older: Key,
    /// The number of the last access.
    stamp: u64,
    bytes: u16,
    state: State,
}

/// The items in the order of their last access.
pub(super) struct Dram {
    items: Vec<Item>,
    newest: Key,
    oldest: Key,
    used_bytes: u64,
    capacity_bytes: u64,
    /// Bytes of the capacity that a layout has taken.
    reserved_bytes: u64,
    /// Accesses so far.
    clock: u64,
}

impl Dram {
    pub(super) fn new(keys: usize, capacity_bytes: u64) -> Self {
        let absent = Item { newer: NONE, older: NONE, stamp: 0, bytes: 0, state: State::Absent };
        Self {
            items: vec![absent; keys],
            newest: NONE,
            oldest: NONE,
            used_bytes: 0,
            capacity_bytes,
            reserved_bytes: 0,
            clock: 0,
        }
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.items[key as usize].state != State::Absent
    }

    /// Whether DRAM has the item, and flash does not have this version.
    pub(super) fn is_dirty(&self, key: Key) -> bool {
        self.items[key as usize].state == State::Dirty
    }

    /// The number of the item's last access.
    pub(super) fn stamp(&self, key: Key) -> u64 {
        self.items[key as usize].stamp
    }

    /// Accesses so far.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Stores an item, or replaces it. The caller makes room afterwards.
    pub(super) fn put(&mut self, key: Key, bytes: u16, is_dirty: bool) {
        self.remove(key);
        self.used_bytes += u64::from(bytes) + ITEM_BYTES;
        let item = &mut self.items[key as usize];
        item.bytes = bytes;
        item.state = if is_dirty { State::Dirty } else { State::Clean };
        self.link(key);
    }

    /// Counts an access of an item that is there.
    pub(super) fn touch(&mut self, key: Key) {
        self.unlink(key);
        self.link(key);
    }

    /// Flash has this version now, or lost it.
    pub(super) fn mark(&mut self, key: Key, is_dirty: bool) {
        let item = &mut self.items[key as usize];
        debug_assert_ne!(item.state, State::Absent);
        item.state = if is_dirty { State::Dirty } else { State::Clean };
    }

    /// Removes an item, if it is there.
    pub(super) fn remove(&mut self, key: Key) {
        if self.holds(key) {
            self.unlink(key);
            let item = &mut self.items[key as usize];
            item.state = State::Absent;
            self.used_bytes -= u64::from(item.bytes) + ITEM_BYTES;
        }
    }

    /// A layout takes this number of bytes of DRAM now, instead of what it has taken before.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved_bytes = bytes;
    }

    /// The item that has to leave: the least recently used one, if DRAM is too full.
    pub(super) fn surplus(&self) -> Option<Key> {
        let taken_bytes = self.used_bytes + self.reserved_bytes;
        (taken_bytes > self.capacity_bytes && self.oldest != NONE).then_some(self.oldest)
    }

    fn link(&mut self, key: Key) {
        self.clock += 1;
        let (clock, older) = (self.clock, self.newest);
        let item = &mut self.items[key as usize];
        (item.newer, item.older, item.stamp) = (NONE, older, clock);
        match older {
            NONE => self.oldest = key,
            older => self.items[older as usize].newer = key,
        }
        self.newest = key;
    }

    fn unlink(&mut self, key: Key) {
        let Item { newer, older, .. } = self.items[key as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.items[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.items[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_item_leaves() {
        let mut dram = Dram::new(4, 3 * (100 + ITEM_BYTES));
        (0..3).for_each(|key| dram.put(key, 100, true));
        assert_eq!(dram.surplus(), None);
        dram.touch(0);
        dram.put(3, 100, false);
        assert_eq!(dram.surplus(), Some(1));
        dram.remove(1);
        assert_eq!((dram.surplus(), dram.holds(1), dram.is_dirty(3)), (None, false, false));
        dram.put(2, 300, true);
        assert_eq!(dram.surplus(), Some(0), "an item that grew takes more room");
        dram.remove(0);
        dram.put(2, 100, false);
        dram.reserve(100 + ITEM_BYTES);
        assert_eq!(dram.surplus(), None);
        dram.reserve(101 + ITEM_BYTES);
        assert_eq!(dram.surplus(), Some(3), "two items, and what a layout takes");
    }
}
