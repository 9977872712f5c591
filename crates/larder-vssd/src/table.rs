//! The map of one vSSD: the physical blocks of each logical block.
//!
//! A vSSD has one *slot* per logical block that it can have at a time. The number of a block encodes its slot and a
//! generation:
//!
//! ```text
//!   number = generation · stride + slot
//! ```
//!
//! The stride is the largest number of slots that the vSSD can grow to. So numbers stay the same when it grows, a
//! look-up is a division, and the number of a freed block is distinguished from that of the block that has its
//! slot now. A new block gets the lowest number above all used ones whose slot is free. So numbers grow with the age
//! order of blocks, and are never reused. An entry is stored in columns: 4 bytes for each physical block, 4 for the
//! generation, 8 for the owner's tag, and a bit that says whether it is free. This is at most 16 bytes per physical
//! block, including the spare.
//!
//! A *lent* block has its physical blocks on dies of another vSSD, which it names one by one. Nothing of it is stored:
//! to the catalogue its slot is free, and its number is used.

use std::collections::BTreeMap;

use larder_ssd::nand::{BlockIndex, DieIndex};
use larder_ssd::raw::BlockTag;

/// A slot of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// Bit of a generation: the slot holds a block.
const LIVE: u32 = 1 << 31;
/// Marks a missing physical block.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockTable {
    /// Physical blocks per logical block.
    width: usize,
    /// Physical blocks, slot after slot.
    members: Vec<u32>,
    /// Generation of the block in the slot, or of the next one there.
    generations: Vec<u32>,
    tags: Vec<u64>,
    /// One bit per slot: whether it is free.
    free: Vec<u64>,
    live: u32,
    /// Numbers of a generation, at least the number of slots.
    stride: u32,
    /// Above all numbers used so far.
    next: u64,
    /// By slot of a lent block: drive and die of each part.
    lent: BTreeMap<u32, Vec<(u32, DieIndex)>>,
}

impl BlockTable {
    /// A table of free slots, which can grow to `stride` slots.
    pub(super) fn new(slots: u32, stride: u32, width: usize) -> Self {
        Self::of_generations(vec![0; slots as usize], stride, width)
    }

    /// A table with the slots of [`Self::generations`]. The caller must set the tags of live slots.
    pub(super) fn of_generations(generations: Vec<u32>, stride: u32, width: usize) -> Self {
        let slots = generations.len();
        assert!(width > 0 && slots > 0 && slots <= stride as usize, "{slots} slots of {width}");
        let mut table = Self {
            width,
            members: vec![NONE; slots * width],
            tags: vec![0; slots],
            generations,
            free: vec![0; slots.div_ceil(64)],
            live: 0,
            stride,
            next: 0,
            lent: BTreeMap::new(),
        };
        for slot in (0..table.slots()).map(Slot) {
            let live = table.is_live(slot);
            table.live += u32::from(live);
            if !live {
                table.set_free(slot, true);
            }
            // The generation of a free slot is the earliest one that its next block can have.
            let above = table.number_in(slot.0) + u64::from(live);
            let given = if live { above } else { above.saturating_sub(u64::from(stride) - 1) };
            table.next = table.next.max(given);
        }
        table
    }

    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.generations.len()).unwrap_or(u32::MAX)
    }

    /// Numbers of a generation: the table can grow to this number of slots.
    pub(super) fn stride(&self) -> u32 {
        self.stride
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds free slots. All numbers stay as they are.
    pub(super) fn grow(&mut self, slots: u32) {
        let before = self.slots();
        let after = before + slots;
        assert!(after <= self.stride, "{after} slots: the table can grow to {}", self.stride);
        self.members.resize(after as usize * self.width, NONE);
        self.tags.resize(after as usize, 0);
        self.generations.resize(after as usize, 0);
        self.free.resize((after as usize).div_ceil(64), 0);
        (before..after).for_each(|slot| self.set_free(Slot(slot), true));
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// By slot: its generation, with the topmost bit set if it holds a block that survives a loss of power.
    pub(super) fn stored_generations(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..self.slots()).map(|slot| {
            let generation = self.generations[slot as usize];
            if self.lent.contains_key(&slot) { (generation & !LIVE) + 1 } else { generation }
        })
    }

    /// Bytes of memory of the table.
    pub(super) fn memory_bytes(&self) -> u64 {
        let (members, slots) = (self.members.len(), self.generations.len());
        let columns = members * size_of::<u32>() + slots * (size_of::<u32>() + size_of::<u64>());
        (columns + self.free.len() * size_of::<u64>()) as u64
    }

    /// The first generation that does not fit numbers of 40 bits.
    fn generation_end(&self) -> u32 {
        let end = BlockTag::BLOCKS / u64::from(self.stride);
        u32::try_from(end).unwrap_or(LIVE).min(LIVE)
    }

    fn set_free(&mut self, slot: Slot, free: bool) {
        let (word, bit) = (slot.at() / 64, 1 << (slot.at() % 64));
        if free {
            self.free[word] |= bit;
        } else {
            self.free[word] &= !bit;
        }
    }

    /// The first free slot from `from` on.
    fn first_free(&self, from: u32) -> Option<u32> {
        if from >= self.slots() {
            return None;
        }
        let (first, mut mask) = (from as usize / 64, u64::MAX << (from % 64));
        for (at, word) in (first..).zip(&self.free[first..]) {
            if word & mask != 0 {
                let slot = at * 64 + (word & mask).trailing_zeros() as usize;
                return u32::try_from(slot).ok();
            }
            mask = u64::MAX;
        }
        None
    }

    /// The number that [`Self::take`] would return next.
    pub(super) fn next_number(&self) -> Option<u64> {
        let stride = u64::from(self.stride);
        let from = u32::try_from(self.next % stride).unwrap_or(0);
        let round = self.next / stride;
        let (round, slot) = match self.first_free(from) {
            Some(slot) => (round, slot),
            None => (round + 1, self.first_free(0)?),
        };
        (round < u64::from(self.generation_end())).then(|| round * stride + u64::from(slot))
    }

    /// Allocates a block with a tag of the owner; `None` if all slots are in use, or all numbers were used.
    pub(super) fn take(&mut self, tag: u64) -> Option<u64> {
        let number = self.next_number()?;
        let taken = self.replay_take(number, tag);
        assert!(taken, "{number} is the next");
        Some(number)
    }

    /// Frees the block in `slot`.
    pub(super) fn release(&mut self, slot: Slot) {
        assert_ne!(self.generations[slot.at()] & LIVE, 0, "{slot:?} is free");
        self.generations[slot.at()] = (self.generations[slot.at()] & !LIVE) + 1;
        self.tags[slot.at()] = 0;
        self.live -= 1;
        self.lent.remove(&slot.0);
        let first = slot.at() * self.width;
        self.members[first..first + self.width].fill(NONE);
        self.set_free(slot, true);
    }

    /// Takes the slot of block `number`, for a record of a journal. `false` if no history can allocate that number now.
    pub(super) fn replay_take(&mut self, number: u64, tag: u64) -> bool {
        let stride = u64::from(self.stride);
        let slot = u32::try_from(number % stride).ok().filter(|slot| *slot < self.slots());
        let generation = u32::try_from(number / stride).ok();
        let (Some(slot), Some(generation)) = (slot.map(Slot), generation) else { return false };
        if number < self.next || generation >= self.generation_end() || self.is_live(slot) {
            return false;
        }
        debug_assert!(self.generations[slot.at()] <= generation, "numbers grow");
        debug_assert!(self.members_of(slot).iter().all(|&member| member == NONE));
        self.generations[slot.at()] = generation | LIVE;
        self.tags[slot.at()] = tag;
        self.live += 1;
        self.next = number + 1;
        self.set_free(slot, false);
        true
    }

    /// The slot of block `number`; `None` if the block does not exist (any more).
    pub(super) fn find(&self, number: u64) -> Option<Slot> {
        let stride = u64::from(self.stride);
        let slot = u32::try_from(number % stride).ok().filter(|slot| *slot < self.slots())?;
        let (slot, generation) = (Slot(slot), u32::try_from(number / stride).ok()?);
        (generation < self.generation_end() && self.generations[slot.at()] == generation | LIVE)
            .then_some(slot)
    }

    /// The number of the block in `slot`, which must be live.
    pub(super) fn number(&self, slot: Slot) -> u64 {
        assert!(self.is_live(slot), "{slot:?} is free");
        self.number_in(slot.0)
    }

    /// The same, or `None` if its generation does not fit numbers of 40 bits: for untrusted bytes.
    pub(super) fn find_number_in(&self, slot: Slot) -> Option<u64> {
        let number = self.number_in(slot.0);
        (self.find(number) == Some(slot)).then_some(number)
    }

    fn number_in(&self, slot: u32) -> u64 {
        let generation = u64::from(self.generations[slot as usize] & !LIVE);
        generation * u64::from(self.stride) + u64::from(slot)
    }

    fn is_live(&self, slot: Slot) -> bool {
        self.generations[slot.at()] & LIVE != 0
    }

    /// `slot`, if it holds a block.
    pub(super) fn live_slot(&self, slot: Slot) -> Option<Slot> {
        (slot.0 < self.slots() && self.is_live(slot)).then_some(slot)
    }

    /// The slots that hold blocks, in order.
    pub(super) fn live_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.slots()).map(Slot).filter(|slot| self.is_live(*slot))
    }

    /// The slots whose blocks survive a loss of power, in order.
    pub(super) fn kept_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.live_slots().filter(|slot| !self.is_lent(*slot))
    }

    /// The block in `slot`, which has no physical blocks yet, is on these dies of a lender: one for each part.
    pub(super) fn lend(&mut self, slot: Slot, dies: Vec<(u32, DieIndex)>) {
        assert!(dies.len() == self.width && self.is_live(slot), "{} dies of {slot:?}", dies.len());
        debug_assert!(self.members_of(slot).iter().all(|&member| member == NONE));
        self.lent.insert(slot.0, dies);
    }

    /// Whether the block in `slot` is lent.
    pub(super) fn is_lent(&self, slot: Slot) -> bool {
        self.lent.contains_key(&slot.0)
    }

    /// Drive and die of part `member` of the block in `slot`; `None` unless that block is lent.
    pub(super) fn lent_place(&self, slot: Slot, member: usize) -> Option<(u32, DieIndex)> {
        self.lent.get(&slot.0).map(|dies| dies[member])
    }

    /// The owner's tag of the block in `slot`.
    pub(super) fn tag(&self, slot: Slot) -> u64 {
        self.tags[slot.at()]
    }

    pub(super) fn set_tag(&mut self, slot: Slot, tag: u64) {
        self.tags[slot.at()] = tag;
    }

    fn members_of(&self, slot: Slot) -> &[u32] {
        &self.members[slot.at() * self.width..][..self.width]
    }

    /// The physical block of part `member` of the block in `slot`; `None` before its first program.
    pub(super) fn member(&self, slot: Slot, member: usize) -> Option<BlockIndex> {
        debug_assert!(member < self.width && self.is_live(slot), "part {member} of {slot:?}");
        let block = self.members_of(slot)[member];
        (block != NONE).then_some(BlockIndex(block))
    }

    pub(super) fn set_member(&mut self, slot: Slot, member: usize, block: Option<BlockIndex>) {
        assert!(member < self.width && self.is_live(slot), "part {member} of {slot:?}");
        self.members[slot.at() * self.width + member] = block.map_or(NONE, |block| block.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_while_their_blocks_live_and_never_again() {
        let mut table = BlockTable::new(3, 3, 2);
        let numbers: Vec<u64> = (10..13).map(|tag| table.take(tag).unwrap()).collect();
        assert_eq!((numbers.clone(), table.take(0)), (vec![0, 1, 2], None));
        let slot = table.find(1).unwrap();
        table.set_member(slot, 1, Some(BlockIndex(7)));
        assert_eq!((table.tag(slot), table.member(slot, 1)), (11, Some(BlockIndex(7))));
        table.release(slot);
        assert_eq!((table.find(1), table.live()), (None, 2));
        assert_eq!(table.take(20), Some(4), "the slot's second block");
        assert_eq!(table.take(21), None, "all slots are taken");
        assert_eq!(table.member(table.find(4).unwrap(), 1), None, "nothing of the first is left");
        assert_eq!(table.find(7), None, "the third is to come");
    }

    #[test]
    fn block_numbers_grow_and_the_generations_restore_the_counter() {
        let (mut table, mut last) = (BlockTable::new(200, 256, 1), None);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..5000 {
            let number = match table.take(0) {
                Some(number) => number,
                None => {
                    for slot in (0..20).map(|_| Slot(rng.u32(..200))) {
                        if table.is_live(slot) {
                            table.release(slot);
                        }
                    }
                    continue;
                }
            };
            assert!(last < Some(number), "{number} after {last:?}");
            last = Some(number);
            let again = BlockTable::of_generations(table.stored_generations().collect(), 256, 1);
            assert_eq!((again.next, again.live), (table.next, table.live), "generations tell it");
        }
    }

    #[test]
    fn a_table_that_grows_keeps_its_numbers_and_gives_no_number_twice() {
        let mut table = BlockTable::new(70, 210, 2);
        let mut numbers: Vec<u64> = std::iter::from_fn(|| table.take(1)).collect();
        assert_eq!(numbers.len(), 70);
        table.release(table.find(3).unwrap());
        table.grow(140);
        assert!(numbers.iter().all(|number| table.find(*number).is_some() == (*number != 3)));
        assert!(table.find(200).is_none() && table.slots() == 210);
        let new: Vec<u64> = std::iter::from_fn(|| table.take(2)).collect();
        assert_eq!((new.len(), new[0], new[140]), (141, 70, 213), "then the slot of block 3");
        numbers.extend(&new);
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let again = BlockTable::of_generations(table.stored_generations().collect(), 210, 2);
        assert_eq!((again.next, again.live), (table.next, 210));
    }

    #[test]
    fn a_journal_takes_and_frees_what_it_could_have_given_out() {
        let mut table = BlockTable::new(4, 4, 1);
        assert!(table.replay_take(2, 5) && !table.replay_take(2, 5));
        assert!(!table.replay_take(1, 5), "a number below one that was given out");
        assert!(!table.replay_take(6, 5), "its slot is taken");
        table.release(table.find(2).unwrap());
        assert!(table.replay_take(6, 9), "the next generation");
        let mut given: Vec<u64> = std::iter::from_fn(|| table.take(0)).collect();
        given.sort_unstable();
        assert_eq!((given, table.live()), (vec![7, 8, 9], 4));
    }

    #[test]
    fn an_entry_takes_no_more_than_16_bytes_a_physical_block() {
        for width in [1, 2, 64] {
            let table = BlockTable::new(1000, 4000, width);
            // 10 of the 1010 blocks of a die are its spare.
            assert!(table.memory_bytes() <= 16 * 1010 * width as u64, "{width}");
        }
    }

    #[test]
    fn a_lent_block_is_not_stored_and_its_number_is_used() {
        let mut table = BlockTable::new(3, 3, 2);
        let (own, lent) = (table.take(7).unwrap(), table.take(8).unwrap());
        let slot = table.find(lent).unwrap();
        table.lend(slot, vec![(1, DieIndex(5)), (1, DieIndex(6))]);
        assert_eq!(table.lent_place(slot, 1), Some((1, DieIndex(6))));
        assert_eq!(table.lent_place(table.find(own).unwrap(), 1), None);
        assert_eq!((table.kept_slots().count(), table.live_slots().count()), (1, 2));
        let mut again = BlockTable::of_generations(table.stored_generations().collect(), 3, 2);
        assert_eq!((again.find(own).is_some(), again.find(lent)), (true, None));
        table.release(slot);
        assert!(table.stored_generations().eq(again.stored_generations()), "as it was stored");
        assert!(again.take(9) > Some(lent) && !again.replay_take(lent, 0), "never again");
    }

    #[test]
    fn slots_without_another_number_are_not_used_any_more() {
        let slots = 1 << 10;
        let end = 1 << 30;
        let mut generations = vec![end - 1; slots];
        generations[..slots - 1].fill(end);
        let mut table = BlockTable::of_generations(generations, 1 << 10, 1);
        let last = table.take(1).unwrap();
        assert_eq!(last, BlockTag::BLOCKS - 1);
        assert_eq!(table.take(1), None);
        table.release(table.find(last).unwrap());
        assert_eq!((table.take(1), table.find(BlockTag::BLOCKS + 5)), (None, None));
    }
}
