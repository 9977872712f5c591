//! Pages by set, as the product has them: each set has a page in memory, which takes what leaves DRAM, and is appended
//! to a ring when it is full.
//!
//! - Keys hash to sets. A set is a list of pages on flash, oldest first here, and looked through newest first.
//! - An object that is stored anew or deleted leaves the page in memory. On flash its fingerprint is cleared, and with
//!   it those of other objects of the set that have the same.
//! - A page in memory begins with the objects with hits of the set's pages in the oldest part of the ring.
//! - Units leave in order, with what is still in them. Nothing is copied to erase one.
//! - Pages in memory take their bytes from DRAM.

use super::layout::{Entry, Held, Layout, LookUp, PAGE_BYTES, Places, World, set_of};
use super::objects::{Key, Objects};
use super::open_page::{BODY_BYTES, OpenPage, Slot, record_bytes};

/// A place with this bit is the number of a set, whose page in memory has the object; without it, of a page on flash.
const IN_MEMORY: u32 = 1 << 31;
/// Bits of DRAM for a page on flash without its hits: its place, and the number of its slots.
const PAGE_BITS: f64 = 32.0 + 8.0;
/// Bits of DRAM for a slot: its fingerprint.
const SLOT_BITS: f64 = 16.0;
/// Bits of DRAM for a set: three lists and a lock.
const SET_BITS: f64 = 80.0 * 8.0;
/// Values of a fingerprint; the one that is left marks a slot that is gone.
const FINGERPRINTS: u16 = u16::MAX;
/// Slots of a page whose hits are told apart; those behind share the last.
const HIT_SLOTS: usize = 24;
/// Bytes on flash for a page in the lists at the end of its unit: an entry of the footer, and the number of slots; and
/// for a slot, its fingerprint.
const LISTED_BYTES: (u64, u64) = (16 + 1, 2);
/// Bytes on flash for a page in the snapshot's place, which are written at a shutdown only.
const SNAPSHOT_BYTES: u64 = 17;
/// Pages whose objects ride along with one page, at most.
const PAGES_AT_ONCE: usize = 4;
/// Units that the ring has at least.
const UNITS_MIN: u64 = 4;

/// What a set's lists of pages and slots take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lists {
    /// The memory of the most that they ever had, as in the product.
    Grown,
    /// The memory of what they have.
    Exact,
    /// The same, and slots that are gone leave.
    Dense,
}

impl Lists {
    /// Reads one of `grown`, `exact`, `dense`.
    pub(super) fn read(text: &str) -> Option<Self> {
        match text {
            "grown" => Some(Self::Grown),
            "exact" => Some(Self::Exact),
            "dense" => Some(Self::Dense),
            _ => None,
        }
    }
}

/// The parameters of the layout, and its parts that the lab can switch off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PagesOptions {
    /// Pages on flash by set.
    pub(super) pages_per_set: u32,
    /// Mean bytes of an object, key and value: the ring leaves room for the lists.
    pub(super) object_bytes: f64,
    /// The most of a page that objects take that ride along; 0 switches them off.
    pub(super) carry_share: f64,
    /// The oldest part of the ring, whose objects with hits ride along.
    pub(super) zone: f64,
    /// Rounds that a hit keeps an object.
    pub(super) rounds: u8,
    /// Whether a page in memory waits until it is full; otherwise each object takes a page.
    pub(super) fills: bool,
    /// What its lists take.
    pub(super) lists: Lists,
}

/// A page on flash.
#[derive(Default)]
struct Page {
    entries: Vec<Entry>,
    /// By slot; 0 is gone.
    fingerprints: Vec<u16>,
    /// Rounds that the object of a slot may still ride along; equal for the slots that share their hits.
    rounds: Vec<u8>,
    set: u32,
}

impl Page {
    fn has_hits(&self) -> bool {
        self.rounds.iter().any(|left| *left > 0)
    }

    fn hit(&mut self, slot: usize, rounds: u8) {
        let slot = slot.min(HIT_SLOTS - 1);
        let shared = if slot == HIT_SLOTS - 1 { self.rounds.len() } else { slot + 1 };
        self.rounds[slot..shared].fill(rounds);
    }
}

#[derive(Default)]
struct Set {
    /// Pages on flash, oldest first.
    pages: Vec<u32>,
    open: Option<OpenPage>,
    /// Slots of all pages on flash, and those that are not gone.
    slots: u32,
    fingerprints: u32,
    /// The most pages and slots that it had: the lists keep the memory.
    most: (usize, u32),
}

/// The ring of pages, and its sets.
pub(super) struct Pages {
    options: PagesOptions,
    sets: Vec<Set>,
    pages: Vec<Page>,
    unit_pages: u32,
    /// The page that is written next.
    head: u32,
    /// Pages from the open unit's first to the end of the part that leaves soon.
    leave_soon: u32,
    places: Places,
    /// Bytes of memory of the pages in memory.
    open_bytes: u64,
    /// The key that was looked for last, if it was not there.
    absent: Option<Key>,
}

impl Pages {
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub(super) fn new(soc_bytes: u64, unit_bytes: u64, keys: usize, options: PagesOptions) -> Self {
        let slots = (f64::from(BODY_BYTES) / (options.object_bytes + 8.0)) as u64;
        let page_bytes = PAGE_BYTES + LISTED_BYTES.0 + LISTED_BYTES.1 * slots + SNAPSHOT_BYTES;
        let pages = soc_bytes / page_bytes;
        let mut unit_pages = unit_bytes / PAGE_BYTES;
        if pages / unit_pages < UNITS_MIN {
            unit_pages = (pages / UNITS_MIN).max(1);
        }
        let units = (pages / unit_pages).max(UNITS_MIN);
        let pages = (units * unit_pages) as u32;
        let leave_soon = (units as f64 * options.zone).ceil() as u32;
        Self {
            options,
            sets: (0..(pages / options.pages_per_set).max(1)).map(|_| Set::default()).collect(),
            pages: (0..pages).map(|_| Page::default()).collect(),
            unit_pages: unit_pages as u32,
            head: 0,
            leave_soon: (1 + leave_soon) * unit_pages as u32,
            places: Places::new(keys),
            open_bytes: 0,
            absent: None,
        }
    }

    fn set_of(&self, key: Key) -> usize {
        set_of(key, u32::try_from(self.sets.len()).unwrap_or(u32::MAX)) as usize
    }

    /// Changes the page in memory of a set, and counts its memory.
    fn change<T>(&mut self, set: usize, change: impl FnOnce(&mut Option<OpenPage>) -> T) -> T {
        let open = &mut self.sets[set].open;
        let bytes = |open: &Option<OpenPage>| open.as_ref().map_or(0, OpenPage::memory_bytes);
        let before = bytes(open);
        let changed = change(open);
        self.open_bytes = self.open_bytes + bytes(open) - before;
        changed
    }

    /// Adds an object to the set's page in memory, if it leaves at most `full_bytes` taken there.
    fn push(&mut self, set: usize, slot: Slot, full_bytes: u32) -> bool {
        // The first page of a set ends early, each at another fill: otherwise all would be full at once.
        let share = if self.sets[set].pages.is_empty() { first_full_share(set) } else { 1.0 };
        let pushed = self.change(set, |open| {
            let page = open.get_or_insert_with(|| OpenPage::new(share));
            page.push(slot, full_bytes)
        });
        if pushed {
            self.places.put(slot.entry.key, in_memory(set));
        }
        pushed
    }

    /// Appends the set's page in memory at the head of the ring.
    fn append(&mut self, set: usize, world: &mut World<'_>) {
        let Some(open) = self.change(set, Option::take).filter(|open| !open.slots().is_empty())
        else {
            return;
        };
        world.written.page();
        world.written.part_filled += u64::from(open.bytes() < BODY_BYTES / 10 * 9);
        world.written.flash_bytes += LISTED_BYTES.0 + LISTED_BYTES.1 * open.slots().len() as u64;
        let (number, slots) = (self.head, open.slots());
        let page = &mut self.pages[number as usize];
        page.entries = slots.iter().map(|slot| slot.entry).collect();
        page.fingerprints = slots.iter().map(|slot| fingerprint(slot.entry.key)).collect();
        page.rounds = vec![0; slots.len()];
        page.set = in_memory(set) & !IN_MEMORY;
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.rounds > 0) {
            page.hit(at, slot.rounds);
        }
        slots.iter().for_each(|slot| self.places.put(slot.entry.key, number));
        let count = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let set = &mut self.sets[set];
        set.pages.push(number);
        set.slots += count;
        set.fingerprints += count;
        set.most = (set.most.0.max(set.pages.len()), set.most.1.max(set.slots));
        self.head = (number + 1) % self.count();
        if self.head.is_multiple_of(self.unit_pages) {
            self.reclaim();
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.pages.len()).unwrap_or(u32::MAX)
    }

    /// Drops the unit that the head comes to.
    fn reclaim(&mut self) {
        for number in self.head..self.head + self.unit_pages {
            let page = std::mem::take(&mut self.pages[number as usize]);
            if page.entries.is_empty() {
                continue;
            }
            for entry in &page.entries {
                if self.places.get(entry.key) == Some(number) {
                    self.places.clear(entry.key);
                }
            }
            let live = page.fingerprints.iter().filter(|it| **it != 0).count();
            let set = &mut self.sets[page.set as usize];
            set.slots -= u32::try_from(page.entries.len()).unwrap_or(0);
            set.fingerprints -= u32::try_from(live).unwrap_or(0);
            set.pages.retain(|it| *it != number);
        }
    }

    /// Whether the page is in the part of the ring that was the oldest when the open unit was begun.
    fn leaves_soon(&self, page: u32) -> bool {
        let begun = self.head / self.unit_pages * self.unit_pages;
        let behind = (page + self.count() - begun) % self.count();
        (self.unit_pages..self.leave_soon).contains(&behind)
    }

    /// Copies objects with hits from pages that leave soon to the set's new page in memory, oldest first.
    fn take_along(&mut self, set: usize, world: &mut World<'_>) {
        let pages = self.sets[set].pages.iter().copied();
        let with_hits = pages.filter(|page| self.pages[*page as usize].has_hits());
        let leave: Vec<u32> =
            with_hits.take_while(|page| self.leaves_soon(*page)).take(PAGES_AT_ONCE).collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a page
        let most = (self.options.carry_share * f64::from(BODY_BYTES)) as u32;
        for number in leave.into_iter().filter(|_| most > 0) {
            world.written.reads += 1;
            let page = &self.pages[number as usize];
            let hit: Vec<_> = (page.entries.iter().zip(&page.rounds))
                .filter(|(entry, left)| {
                    **left > 0 && self.places.is_live(entry, number, world.objects)
                })
                .map(|(entry, left)| Slot { entry: *entry, rounds: left - 1 })
                .collect();
            for slot in hit {
                if !self.push(set, slot, most) {
                    return;
                }
                world.written.carried += 1;
            }
            self.pages[number as usize].rounds.fill(0);
        }
    }

    /// Clears all fingerprints of the set on flash that are those of this key.
    fn void(&mut self, key: Key) {
        let set = self.set_of(key);
        let wanted = fingerprint(key);
        let Set { pages, fingerprints, .. } = &mut self.sets[set];
        for number in pages {
            let page = &mut self.pages[*number as usize];
            if !page.fingerprints.contains(&wanted) {
                continue;
            }
            for (it, entry) in page.fingerprints.iter_mut().zip(&page.entries) {
                if *it == wanted {
                    *it = 0;
                    *fingerprints -= 1;
                    if self.places.get(entry.key) == Some(*number) {
                        self.places.clear(entry.key);
                    }
                }
            }
        }
    }

    /// Fingerprints of the set in pages that are newer than `page`.
    fn newer(&self, set: usize, page: u32) -> usize {
        let newer = self.sets[set].pages.iter().rev().take_while(|it| **it != page);
        let fingerprints = newer.flat_map(|it| &self.pages[*it as usize].fingerprints);
        fingerprints.filter(|it| **it != 0).count()
    }
}

/// The place of what the set's page in memory has.
fn in_memory(set: usize) -> u32 {
    IN_MEMORY | u32::try_from(set).unwrap_or(u32::MAX)
}

/// The share of the first page of a set that is filled, in a fixed order without a pattern.
fn first_full_share(set: usize) -> f64 {
    let number = in_memory(set) & !IN_MEMORY;
    f64::from(number.wrapping_mul(0x9e37_79b9)) / f64::from(u32::MAX)
}

/// The fingerprint of a key: independent of its set.
fn fingerprint(key: Key) -> u16 {
    let value = set_of(key ^ 0x5bd1_e995, FINGERPRINTS.into()) + 1;
    u16::try_from(value).unwrap_or(FINGERPRINTS)
}

impl Layout for Pages {
    #[allow(clippy::cast_precision_loss)] // slots of a set
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp {
        let set = self.set_of(key);
        let Some(place) = self.places.get(key) else {
            self.absent = Some(key);
            let reads = f64::from(self.sets[set].fingerprints) / f64::from(FINGERPRINTS);
            return LookUp { reads, ..LookUp::default() };
        };
        let is_current = |entry: &&Entry| entry.key == key && !objects.is_expired(key);
        if place == in_memory(set) {
            let slots = self.sets[set].open.iter().flat_map(OpenPage::slots);
            let version = slots.map(|it| &it.entry).find(is_current).map(|it| it.version);
            if version.is_none() {
                self.forget(key, true);
            }
            return LookUp { version, is_in_memory: version.is_some(), ..LookUp::default() };
        }
        let false_reads = self.newer(set, place) as f64 / f64::from(FINGERPRINTS);
        let page = &mut self.pages[place as usize];
        let slot = page.entries.iter().position(|entry| is_current(&entry));
        let Some(slot) = slot else {
            self.forget(key, true);
            return LookUp { reads: false_reads, is_old: true, ..LookUp::default() };
        };
        page.hit(slot, self.options.rounds);
        let version = Some(page.entries[slot].version);
        LookUp { version, reads: 1.0 + false_reads, ..LookUp::default() }
    }

    fn holds(&self, key: Key) -> bool {
        self.places.get(key).is_some()
    }

    fn forget(&mut self, key: Key, is_known: bool) {
        let place = self.places.get(key);
        let set = self.set_of(key);
        if place == Some(in_memory(set)) {
            self.change(set, |open| {
                if let Some(page) = open {
                    page.remove(key);
                }
            });
        }
        self.places.clear(key);
        if place.is_some() || is_known {
            self.void(key);
        }
    }

    /// A client that has just looked for the key in vain needs no fingerprint to be cleared.
    fn dirtied(&mut self, key: Key) {
        if self.absent.take() != Some(key) {
            self.void(key);
        }
    }

    fn write(&mut self, key: Key, world: &mut World<'_>) {
        let entry = Entry::of(key, world.objects);
        let set = self.set_of(key);
        world.written.admit(entry.bytes);
        while !self.push(set, Slot { entry, rounds: 0 }, BODY_BYTES) {
            self.append(set, world);
            self.take_along(set, world);
        }
        if !self.options.fills {
            self.append(set, world);
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.open_bytes
    }

    #[allow(clippy::cast_precision_loss)] // counts of a small flash
    fn held(&self, objects: &Objects) -> Held {
        let mut held = Held { placed: self.places.count(objects), ..Held::default() };
        for (number, page) in (0..).zip(&self.pages) {
            held.entries += page.entries.len() as u64;
            for entry in page.entries.iter().filter(|it| self.places.is_live(it, number, objects)) {
                held.objects += 1;
                held.bytes += u64::from(record_bytes(entry));
            }
        }
        for (number, set) in self.sets.iter().enumerate() {
            let slots = set.open.iter().flat_map(OpenPage::slots);
            let live =
                slots.filter(|it| self.places.is_live(&it.entry, in_memory(number), objects));
            held.in_memory += live.count() as u64;
        }
        let hit_bits = HIT_SLOTS as f64 * f64::from(self.options.rounds + 1).log2().ceil();
        held.dram_bits = self.sets.iter().fold(0.0, |bits, set| {
            let (pages, slots) = match self.options.lists {
                Lists::Grown => set.most,
                Lists::Exact => (set.pages.len(), set.slots),
                Lists::Dense => (set.pages.len(), set.fingerprints),
            };
            let page_bits = PAGE_BITS + hit_bits;
            bits + SET_BITS + pages as f64 * page_bits + f64::from(slots) * SLOT_BITS
        });
        held
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::{Admission, Policy};
    use super::super::dram::Dram;
    use super::super::layout::Written;
    use super::*;

    const KEYS: usize = 100_000;

    struct Bench {
        pages: Pages,
        objects: Objects,
        written: Written,
    }

    impl Bench {
        /// Objects of 50 bytes, 70 in a page; one set with this number of pages.
        fn new(pages: u64) -> Self {
            let mut objects = Objects::new(KEYS);
            (0..).take(KEYS).for_each(|key| objects.set(key, 50, 0));
            let options = PagesOptions {
                pages_per_set: u32::MAX,
                object_bytes: 50.0,
                carry_share: 0.3,
                zone: 0.2,
                rounds: 1,
                fills: true,
                lists: Lists::Exact,
            };
            let pages = Pages::new(pages * 4300, 2 * PAGE_BYTES, KEYS, options);
            Self { pages, objects, written: Written::default() }
        }

        fn write(&mut self, key: Key) {
            let mut dram = Dram::new(KEYS, 0);
            dram.put(key, 50, true);
            let admission = Admission::new(Policy::All, KEYS);
            let (objects, written) = (&self.objects, &mut self.written);
            let mut world = World { objects, dram: &mut dram, admission: &admission, written };
            self.pages.write(key, &mut world);
        }

        fn look_up(&mut self, key: Key) -> LookUp {
            self.pages.look_up(key, &self.objects)
        }
    }

    #[test]
    fn what_is_changed_leaves_the_page_in_memory() {
        let mut bench = Bench::new(20);
        for key in (0..50).cycle().take(500) {
            bench.objects.set(key, 50, 0);
            bench.pages.forget(key, false);
            bench.write(key);
        }
        assert_eq!(bench.written.pages, 1, "the first was short, and fifty objects fit");
        let found = bench.look_up(7);
        assert!(found.version == Some(11) && found.is_in_memory && found.reads == 0.0, "{found:?}");
        bench.pages.forget(7, true);
        assert_eq!(bench.look_up(7).version, None);
        assert_eq!(bench.pages.held(&bench.objects).in_memory, 49);
    }

    /// The first page is short, the second has 70 objects. All 70 are in the oldest part when the page of a later
    /// object is begun.
    #[test]
    fn objects_with_hits_ride_along_and_the_last_slots_share_a_hit() {
        let mut bench = Bench::new(20);
        (0..200).for_each(|key| bench.write(key));
        let page = bench.pages.pages.iter().position(|page| page.entries.len() == 70).unwrap();
        let keys: Vec<_> = bench.pages.pages[page].entries.iter().map(|it| it.key).collect();
        assert_eq!(bench.look_up(keys[3]).reads.floor(), 1.0);
        bench.look_up(keys[60]);
        let rounds = &bench.pages.pages[page].rounds;
        assert_eq!(rounds.iter().filter(|left| **left > 0).count(), 1 + 70 - 23);
        (1000..)
            .take_while(|key| {
                bench.write(*key);
                bench.pages.pages[page].entries.first().map(|it| it.key) == Some(keys[0])
            })
            .for_each(drop);
        // 3/10 of 4060 bytes are 20 records of 58 bytes.
        let stay: Vec<_> = keys.iter().copied().filter(|key| bench.pages.holds(*key)).collect();
        assert_eq!(stay.len(), 48, "the rest came with the next page");
        assert!(stay.contains(&keys[3]) && stay.contains(&keys[60]) && !stay.contains(&keys[5]));
        assert_eq!(bench.written.carried, 48);
        assert_eq!(bench.look_up(keys[3]).version, Some(1));
    }

    #[test]
    fn an_overwrite_voids_what_has_the_same_fingerprint_unless_it_was_looked_for() {
        let mut known = std::collections::HashMap::new();
        let mut keys = 2000..;
        let (key, other) = keys
            .find_map(|key| known.insert(fingerprint(key), key).map(|other| (key, other)))
            .unwrap();
        let stored = || {
            let mut bench = Bench::new(40);
            bench.write(other);
            (1000..1200).for_each(|key| bench.write(key));
            assert!(bench.look_up(other).reads >= 1.0);
            bench
        };
        let mut bench = stored();
        assert_eq!(bench.look_up(key).version, None);
        bench.pages.forget(key, false);
        bench.pages.dirtied(key);
        assert!(bench.pages.holds(other));
        let mut bench = stored();
        bench.pages.dirtied(key);
        assert!(!bench.pages.holds(other), "the key was stored without a look-up");
    }
}
