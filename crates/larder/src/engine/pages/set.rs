//! What DRAM knows of a set: its pages on flash with a fingerprint for each of their objects, and its pages in memory.
//!
//! ```text
//!  pages        place, number of slots, hits        8 bytes a page, oldest page first
//!  slots        fingerprint of an object, 0: gone   2 bytes an object, in the order of the pages
//!  in memory    pages that wait for their place in a region, oldest first; the last is being filled
//! ```
//!
//! A key's newest object is in the newest page that has it. Look-ups therefore ask memory first, then the pages from
//! the newest to the oldest.

use super::page::{BODY_BYTES, OpenPage, SLOTS_MAX, fingerprint};
use crate::base::key::KeyHash;

/// Slots whose hits are told apart; those behind share the bit of the last.
const HIT_BITS: u8 = 24;
const SLOTS_AT: u32 = 24;
const _: () = assert!(SLOTS_MAX < 1 << (32 - SLOTS_AT) && HIT_BITS as u32 <= SLOTS_AT);
/// About the slots of a page: memory for that number more is kept when a page has left, since another one comes.
const SLOTS_USUAL: usize = 16;
/// Fingerprints that are compared at a time.
const AT_ONCE: usize = 32;

/// Number of a page among all pages of the engine's regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PagePlace(pub(super) u32);

/// The place of an object on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPlace {
    pub(super) page: PagePlace,
    pub(super) slot: u8,
}

/// What is known of a page on flash.
#[derive(Debug, Clone, Copy)]
struct PageHead {
    place: PagePlace,
    /// Bits 0 to 23: hits of the slots. Bits 24 to 31: number of slots.
    slots_and_hits: u32,
}

impl PageHead {
    fn slots(self) -> usize {
        (self.slots_and_hits >> SLOTS_AT) as usize
    }

    fn is_hit(self, slot: usize) -> bool {
        self.slots_and_hits >> slot.min(usize::from(HIT_BITS) - 1) & 1 != 0
    }

    fn hit(&mut self, slot: u8) {
        self.slots_and_hits |= 1 << slot.min(HIT_BITS - 1);
    }

    fn has_hits(self) -> bool {
        self.slots_and_hits & ((1 << SLOTS_AT) - 1) != 0
    }
}

/// One set.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    pages: Vec<PageHead>,
    slots: Vec<u16>,
    in_memory: Vec<OpenPage>,
}

/// Memory of a set: for what it knows of flash, and for its pages in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SetBytes {
    pub(super) index: u64,
    pub(super) open: u64,
}

impl PageSet {
    /// Whether the set may hold an object of this hash. "No" is certain.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        self.holds_in_memory(hash) || self.first_from(0, fingerprint(hash)).is_some()
    }

    pub(super) fn holds_in_memory(&self, hash: KeyHash) -> bool {
        self.in_memory.iter().any(|page| page.holds(hash))
    }

    /// The pages in memory, newest first.
    pub(super) fn in_memory(&self) -> impl Iterator<Item = &OpenPage> {
        self.in_memory.iter().rev()
    }

    /// The position of the first slot from `from` on with this fingerprint.
    fn first_from(&self, from: usize, wanted: u16) -> Option<usize> {
        let rest = &self.slots[from..];
        let mut at = from;
        // Without branches inside a chunk, the compiler compares many fingerprints with an instruction.
        for chunk in rest.chunks(AT_ONCE) {
            if chunk.iter().fold(false, |found, &it| found | (it == wanted)) {
                return chunk.iter().position(|&it| it == wanted).map(|within| at + within);
            }
            at += chunk.len();
        }
        None
    }

    /// The places of objects on flash that may be the one of this hash, newest first.
    pub(super) fn candidates(&self, hash: KeyHash) -> Vec<SlotPlace> {
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(at) = self.first_from(from, fingerprint(hash)) {
            found.push(self.place_of(at));
            from = at + 1;
        }
        found.reverse();
        found
    }

    fn place_of(&self, at: usize) -> SlotPlace {
        let mut first = 0;
        for head in &self.pages {
            if at < first + head.slots() {
                let slot = u8::try_from(at - first).expect("a page has few slots");
                return SlotPlace { page: head.place, slot };
            }
            first += head.slots();
        }
        unreachable!("each slot is of a page");
    }

    /// The number of a page of this set in `pages`, and the position of its first slot.
    fn position(&self, place: PagePlace) -> Option<(usize, usize)> {
        let mut first = 0;
        for (number, head) in self.pages.iter().enumerate() {
            if head.place == place {
                return Some((number, first));
            }
            first += head.slots();
        }
        None
    }

    /// Whether the object at this place is of this hash, as far as the fingerprint tells, and not gone. If so, and
    /// `hit`, notes a hit.
    pub(super) fn is_there(&mut self, hash: KeyHash, at: SlotPlace, hit: bool) -> bool {
        let Some((number, first)) = self.position(at.page) else { return false };
        let head = &mut self.pages[number];
        let slot = usize::from(at.slot);
        let is_there = slot < head.slots() && self.slots[first + slot] == fingerprint(hash);
        if is_there && hit {
            head.hit(at.slot);
        }
        is_there
    }

    /// Forgets the object at this place. Returns whether it was there.
    pub(super) fn clear(&mut self, hash: KeyHash, at: SlotPlace) -> bool {
        let is_there = self.is_there(hash, at, false);
        if is_there && let Some((_, first)) = self.position(at.page) {
            self.slots[first + usize::from(at.slot)] = 0;
        }
        is_there
    }

    /// Forgets all objects on flash that may be the one of this hash.
    pub(super) fn clear_all(&mut self, hash: KeyHash) {
        let gone = fingerprint(hash);
        self.slots.iter_mut().filter(|it| **it == gone).for_each(|it| *it = 0);
    }

    /// Removes the objects of this hash from the pages in memory. Returns their number.
    pub(super) fn remove_in_memory(&mut self, hash: KeyHash, key: Option<&[u8]>) -> usize {
        self.in_memory.iter_mut().map(|page| page.remove(hash, key)).sum()
    }

    /// The page that takes new objects, if it has room for this record; begins one if none is open.
    pub(super) fn open_with_room(
        &mut self,
        record_bytes: usize,
        full_bytes: impl FnOnce() -> usize,
    ) -> Option<&mut OpenPage> {
        if self.in_memory.is_empty() {
            // The first page of a set ends early, each at another fill: otherwise all pages would be full at once.
            let full = if self.pages.is_empty() { full_bytes() } else { BODY_BYTES };
            self.in_memory.push(OpenPage::of_bytes(full));
        }
        self.in_memory.last_mut().filter(|page| page.has_room(record_bytes))
    }

    /// Ends the page that is being filled, if it has objects: it waits for its place.
    pub(super) fn close_open(&mut self) {
        if self.in_memory.last().is_some_and(|page| !page.is_empty()) {
            self.in_memory.push(OpenPage::of_bytes(BODY_BYTES));
        }
    }

    /// The oldest page that waits for its place.
    pub(super) fn waiting(&self) -> Option<&OpenPage> {
        let (_, waiting) = self.in_memory.split_last()?;
        waiting.first()
    }

    /// The oldest waiting page leaves memory.
    pub(super) fn pop_waiting(&mut self) {
        assert!(self.in_memory.len() > 1, "one waits");
        self.in_memory.remove(0);
        if self.in_memory.len() == 1 && self.in_memory[0].is_empty() {
            self.in_memory = Vec::new();
        }
    }

    /// Adds a page that is the newest on flash.
    pub(super) fn push_page(&mut self, place: PagePlace, fingerprints: &[u16]) {
        let slots = u32::try_from(fingerprints.len()).expect("a page has few slots");
        self.pages.reserve_exact(1);
        self.slots.reserve_exact(fingerprints.len());
        self.pages.push(PageHead { place, slots_and_hits: slots << SLOTS_AT });
        self.slots.extend_from_slice(fingerprints);
    }

    /// Removes a page. Returns the number of its objects that were not gone; `None` if it was not there.
    pub(super) fn remove_page(&mut self, place: PagePlace) -> Option<u64> {
        let (number, first) = self.position(place)?;
        let head = self.pages.remove(number);
        let gone = self.slots.drain(first..first + head.slots());
        let objects = gone.filter(|&it| it != 0).count() as u64;
        // Or a set keeps the memory of the most that it ever had.
        self.pages.shrink_to(self.pages.len() + 1);
        self.slots.shrink_to(self.slots.len() + SLOTS_USUAL);
        Some(objects)
    }

    /// Removes all pages whose place is `gone`. Returns the number of their objects.
    pub(super) fn remove_pages(&mut self, is_gone: impl Fn(PagePlace) -> bool) -> u64 {
        let places: Vec<_> = self.pages.iter().map(|head| head.place).collect();
        let gone = places.into_iter().filter(|&place| is_gone(place));
        gone.filter_map(|place| self.remove_page(place)).sum()
    }

    /// The pages on flash, oldest first.
    pub(super) fn pages(&self) -> impl DoubleEndedIterator<Item = PagePlace> {
        self.pages.iter().map(|head| head.place)
    }

    /// The fingerprints of a page by slot; 0 for those that are gone.
    pub(super) fn slots_of(&self, place: PagePlace) -> Option<&[u16]> {
        let (number, first) = self.position(place)?;
        Some(&self.slots[first..first + self.pages[number].slots()])
    }

    /// The pages that have objects with hits, oldest first.
    pub(super) fn pages_with_hits(&self) -> impl Iterator<Item = PagePlace> {
        self.pages.iter().filter(|head| head.has_hits()).map(|head| head.place)
    }

    /// The slots of a page that were hit and are not gone.
    pub(super) fn hits_of(&self, place: PagePlace) -> Vec<u8> {
        let Some((number, first)) = self.position(place) else { return Vec::new() };
        let head = self.pages[number];
        let slots = (0..).zip(&self.slots[first..first + head.slots()]);
        let hit = slots.filter(|&(slot, &it)| it != 0 && head.is_hit(usize::from(slot)));
        hit.map(|(slot, _)| slot).collect()
    }

    /// Forgets the hits of a page.
    pub(super) fn forget_hits(&mut self, place: PagePlace) {
        if let Some((number, _)) = self.position(place) {
            self.pages[number].slots_and_hits &= !((1 << SLOTS_AT) - 1);
        }
    }

    /// Number of objects that are not gone.
    pub(super) fn len(&self) -> u64 {
        let on_flash = self.slots.iter().filter(|&&it| it != 0).count();
        (on_flash + self.in_memory.iter().map(OpenPage::len).sum::<usize>()) as u64
    }

    /// Bytes of memory besides those of the set itself.
    pub(super) fn memory_bytes(&self) -> SetBytes {
        let index = self.pages.capacity() * size_of::<PageHead>()
            + self.slots.capacity() * size_of::<u16>();
        let open: usize = self.in_memory.iter().map(OpenPage::memory_bytes).sum();
        SetBytes { index: index as u64, open: open as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(n: u32) -> PagePlace {
        PagePlace(n)
    }

    fn hash(tag: u16) -> KeyHash {
        KeyHash(tag.into())
    }

    #[test]
    fn the_newest_of_a_fingerprint_comes_first() {
        let mut set = PageSet::default();
        set.push_page(place(7), &[1, 2, 3]);
        set.push_page(place(3), &[2; 40]);
        let found = set.candidates(hash(2));
        assert_eq!(found.len(), 41);
        assert_eq!(found.first(), Some(&SlotPlace { page: place(3), slot: 39 }));
        assert_eq!(found.last(), Some(&SlotPlace { page: place(7), slot: 1 }));
        assert!(set.clear(hash(2), *found.last().unwrap()));
        assert!(!set.clear(hash(2), *found.last().unwrap()));
        assert_eq!((set.candidates(hash(2)).len(), set.len()), (40, 42));
        assert_eq!((set.remove_page(place(3)), set.remove_page(place(3))), (Some(40), None));
        assert!(!set.may_hold(hash(2)) && set.may_hold(hash(3)));
    }

    #[test]
    fn hits_are_of_their_slot_and_are_taken_once() {
        let mut set = PageSet::default();
        set.push_page(place(1), &[5; 30]);
        set.push_page(place(2), &[6]);
        assert_eq!(set.pages_with_hits().count(), 0);
        for slot in [3, 8, 28] {
            assert!(set.is_there(hash(5), SlotPlace { page: place(1), slot }, true));
        }
        assert!(!set.is_there(hash(5), SlotPlace { page: place(1), slot: 30 }, true));
        assert!(set.clear(hash(5), SlotPlace { page: place(1), slot: 8 }));
        assert_eq!(set.pages_with_hits().collect::<Vec<_>>(), [place(1)]);
        let shared = "the last share a bit";
        assert_eq!(set.hits_of(place(1)), [3, 23, 24, 25, 26, 27, 28, 29], "{shared}");
        set.forget_hits(place(1));
        assert_eq!((set.pages_with_hits().count(), set.hits_of(place(1))), (0, vec![]));
        assert_eq!(set.slots_of(place(2)), Some(&[6][..]));
    }

    #[test]
    fn a_set_begins_early_and_then_fills_its_pages() {
        use crate::base::item::ItemRef;
        let mut set = PageSet::default();
        let item = ItemRef::new(hash(9), b"key", b"value", 0);
        set.open_with_room(16, || 40).unwrap().push(&item);
        set.open_with_room(16, || unreachable!()).unwrap().push(&item);
        assert!(set.open_with_room(16, || unreachable!()).is_none());
        set.close_open();
        assert_eq!((set.waiting().unwrap().len(), set.len()), (2, 2));
        let listed = set.waiting().unwrap().fingerprints();
        set.push_page(place(1), &listed);
        set.pop_waiting();
        assert!(set.waiting().is_none() && set.memory_bytes().open == 0);
        set.open_with_room(4000, || unreachable!()).unwrap().push(&item);
        assert!(set.open_with_room(4000, || unreachable!()).is_some(), "a whole page");
    }

    proptest! {
        /// Compares a set with a plain list of pages.
        #[test]
        fn agrees_with_lists(
            ops in prop::collection::vec((0..4_u8, 0..20_u32, prop::collection::vec(1..40_u16, 0..60)), 1..60),
        ) {
            let mut set = PageSet::default();
            let mut list: Vec<(u32, Vec<u16>)> = Vec::new();
            for (op, n, fingerprints) in ops {
                let known = list.iter().position(|(of, _)| *of == n);
                match op {
                    0 | 1 if known.is_none() => {
                        set.push_page(place(n), &fingerprints);
                        list.push((n, fingerprints));
                    }
                    2 => {
                        let gone = known.map(|at| list.remove(at).1);
                        let objects = gone.map(|it| it.iter().filter(|&&it| it != 0).count() as u64);
                        prop_assert_eq!(set.remove_page(place(n)), objects);
                    }
                    _ => {
                        let tag = u16::try_from(n).unwrap() + 1;
                        if let Some(&at) = set.candidates(hash(tag)).first() {
                            prop_assert!(set.clear(hash(tag), at));
                            let page = list.iter_mut().find(|(of, _)| *of == at.page.0).unwrap();
                            prop_assert_eq!(page.1[usize::from(at.slot)], tag);
                            page.1[usize::from(at.slot)] = 0;
                        }
                    }
                }
                for tag in 1..40_u16 {
                    let expected: Vec<_> = list.iter().flat_map(|(of, slots)| {
                        let slots = (0..).zip(slots).filter(|(_, it)| **it == tag);
                        slots.map(|(slot, _)| SlotPlace { page: place(*of), slot }).collect::<Vec<_>>()
                    }).rev().collect();
                    prop_assert_eq!(set.candidates(hash(tag)), expected);
                }
                prop_assert_eq!(set.len(), list.iter().flat_map(|it| &it.1).filter(|it| **it != 0).count() as u64);
            }
        }
    }
}
