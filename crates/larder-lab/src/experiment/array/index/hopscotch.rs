//! The index of uDepot as BigKV's artifact builds it: a hopscotch table of fixed size. An entry lies in one of the 32
//! slots from its key's own on, and has 8 bits of the key. A slot with these bits says that the value there may be the
//! key's: its value is read to compare the key, by a GET and before a SET too. So an update reads the old value.
//!
//! The artifact has 2^25 slots beside 128 MiB of DRAM: at 8 bytes a slot, a table of twice the DRAM, and of four times
//! if entries of 16 bytes have a time to live. `udepot-opt` has the whole table in DRAM. `udepot-cache` has its pages
//! of 16 KiB there, as many as fit.

use super::frames::{Frames, PAGE_BYTES};
use super::{Access, ValueIndex, spread};

/// Slots in which an entry may lie.
const HOPS: usize = 32;
/// Bytes of DRAM for each slot: 128 MiB for 2^25.
const DRAM_PER_SLOT: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct HopscotchTable {
    slots: Vec<Option<u64>>,
    /// Slots of a page.
    page_slots: usize,
    /// What is in DRAM, if not all of it.
    frames: Option<Frames>,
}

impl HopscotchTable {
    /// `udepot-opt`: a table of the size that belongs to `dram_bytes` bytes, with all of its entries of `entry_bytes`
    /// bytes in DRAM.
    pub(in crate::experiment::array) fn whole(dram_bytes: u64, entry_bytes: u64) -> Self {
        let page_slots = u64::from(PAGE_BYTES) / entry_bytes;
        let pages = (dram_bytes / DRAM_PER_SLOT).div_ceil(page_slots).max(1);
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let slots = vec![None; index(pages * page_slots)];
        Self { slots, page_slots: index(page_slots), frames: None }
    }

    /// `udepot-cache`: the same table, of whose pages as many as fit into `dram_bytes` bytes are in DRAM.
    pub(in crate::experiment::array) fn paged(dram_bytes: u64, entry_bytes: u64) -> Self {
        let table = Self::whole(dram_bytes, entry_bytes);
        let pages = table.slots.len() / table.page_slots;
        Self { frames: Some(Frames::new(pages, dram_bytes)), ..table }
    }

    fn home(&self, key: u64) -> usize {
        usize::try_from(spread(key, self.slots.len() as u64)).unwrap_or(0)
    }

    fn slot(&self, home: usize, hop: usize) -> usize {
        (home + hop) % self.slots.len()
    }

    fn bring(&mut self, slot: usize, asked: &mut Vec<Access>) {
        if let Some(frames) = &mut self.frames {
            frames.bring(slot / self.page_slots, asked);
        }
    }

    fn change(&mut self, slot: usize, entry: Option<u64>, asked: &mut Vec<Access>) {
        if let Some(frames) = &mut self.frames {
            frames.change(slot / self.page_slots, asked);
        }
        self.slots[slot] = entry;
    }

    /// The slot of a key. Reads every value whose entry has the key's bits, up to the key's own.
    fn find(&mut self, key: u64, asked: &mut Vec<Access>) -> Option<usize> {
        let home = self.home(key);
        for hop in 0..HOPS {
            let slot = self.slot(home, hop);
            self.bring(slot, asked);
            let Some(known) = self.slots[slot].filter(|&known| tag(known) == tag(key)) else {
                continue;
            };
            asked.push(Access::value(known));
            if known == key {
                return Some(slot);
            }
        }
        None
    }

    /// A slot for a new key: a free one, one whose entry can move farther from its own home, or else the last of the
    /// key's, whose entry is lost.
    fn room(&mut self, key: u64, asked: &mut Vec<Access>) -> usize {
        let home = self.home(key);
        let mut reachable = (0..HOPS).map(|hop| self.slot(home, hop));
        if let Some(free) = reachable.find(|&slot| self.slots[slot].is_none()) {
            return free;
        }
        for slot in (0..HOPS).rev().map(|hop| self.slot(home, hop)).collect::<Vec<_>>() {
            let Some(other) = self.slots[slot] else { continue };
            let other_home = self.home(other);
            let away = (self.slots.len() + slot - other_home) % self.slots.len();
            let mut farther = (away + 1..HOPS).map(|hop| self.slot(other_home, hop));
            if let Some(free) = farther.find(|&slot| self.slots[slot].is_none()) {
                self.change(free, Some(other), asked);
                return slot;
            }
        }
        self.slot(home, HOPS - 1)
    }
}

/// The bits of a key in its entry.
fn tag(key: u64) -> u8 {
    key.to_le_bytes()[0]
}

impl ValueIndex for HopscotchTable {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        self.find(key, asked).is_some()
    }

    fn set(&mut self, key: u64, asked: &mut Vec<Access>) {
        let slot = match self.find(key, asked) {
            Some(slot) => slot,
            None => self.room(key, asked),
        };
        self.change(slot, Some(key), asked);
    }

    fn dram_bytes(&self) -> u64 {
        let whole = (self.slots.len() / self.page_slots) as u64 * u64::from(PAGE_BYTES);
        self.frames.as_ref().map_or(whole, Frames::dram_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages of 2048 slots, one of which is in DRAM.
    fn small() -> HopscotchTable {
        HopscotchTable::paged(PAGE_BYTES.into(), 8)
    }

    /// A key of this home and these bits.
    fn key(home: u64, tag: u64) -> u64 {
        ((home << 52) | (1 << 20)) + tag
    }

    fn asked(ask: impl FnOnce(&mut Vec<Access>)) -> Vec<Access> {
        let mut asked = Vec::new();
        ask(&mut asked);
        asked
    }

    #[test]
    fn an_update_reads_the_old_value_and_a_page_comes_when_it_is_asked_for() {
        let mut table = small();
        assert_eq!((table.slots.len(), table.dram_bytes()), (4096, 16 << 10));
        let (first, last) = (key(1, 7), key(4000, 7));
        let page = |page| Access::read(page, PAGE_BYTES);
        assert_eq!(asked(|it| table.set(first, it)), [page(0)], "no value was there");
        assert_eq!(asked(|it| table.set(first, it)), [Access::value(first)]);
        assert_eq!(asked(|it| table.set(last, it)), [Access::write(0, PAGE_BYTES), page(1)]);
        let found = [Access::write(1, PAGE_BYTES), page(0), Access::value(first)];
        assert_eq!(asked(|it| assert!(table.get(first, it))), found);
        assert_eq!(asked(|it| assert!(!table.get(key(1, 8), it))), [], "no slot has its bits");
    }

    #[test]
    fn a_value_with_the_same_bits_is_read_for_nothing() {
        let mut table = HopscotchTable::whole(PAGE_BYTES.into(), 8);
        assert_eq!(table.dram_bytes(), 32 << 10);
        let keys = [key(1, 7), key(2, 8), key(3, 7)];
        keys.iter().for_each(|&key| table.set(key, &mut Vec::new()));
        let both = [Access::value(keys[0]), Access::value(keys[2])];
        assert_eq!(asked(|it| assert!(!table.get(key(1, 7) + (1 << 30), it))), both);
        assert_eq!(asked(|it| assert!(table.get(keys[2], it))), [Access::value(keys[2])]);
    }

    #[test]
    fn the_slots_of_a_home_may_lie_in_two_pages() {
        let mut table = small();
        let page = |page| Access::read(page, PAGE_BYTES);
        let wanted = [page(0), page(1)];
        assert_eq!(asked(|it| assert!(!table.get(key(2047, 1), it))), wanted);
    }

    #[test]
    fn an_entry_moves_for_another_and_without_room_one_is_lost() {
        let mut table = HopscotchTable::whole(PAGE_BYTES.into(), 8);
        // Slots 1 to 32: the first is of home 1, the others of home 2 and can move on to slot 33.
        table.set(key(1, 1), &mut Vec::new());
        (0..31).for_each(|tag| table.set(key(2, 100 + tag), &mut Vec::new()));
        table.set(key(1, 2), &mut Vec::new());
        let all = |table: &mut HopscotchTable| {
            let moved = (0..31).all(|tag| table.get(key(2, 100 + tag), &mut Vec::new()));
            [key(1, 1), key(1, 2)].map(|key| table.get(key, &mut Vec::new())) == [true; 2] && moved
        };
        assert!(all(&mut table), "the entry in slot 32 moved to 33");
        (0..40).for_each(|tag| table.set(key(1, 3 + tag), &mut Vec::new()));
        assert!(!all(&mut table), "entries of home 1 overwrote each other");
        assert!(table.get(key(1, 42), &mut Vec::new()), "the last is there");
    }

    #[test]
    fn entries_with_a_time_to_live_fill_twice_as_many_pages() {
        let pages = |entry_bytes| {
            let table = HopscotchTable::paged(1 << 20, entry_bytes);
            (table.slots.len(), table.frames.unwrap().pages())
        };
        assert_eq!([pages(8), pages(16)], [(1 << 18, 128), (1 << 18, 256)]);
    }
}
