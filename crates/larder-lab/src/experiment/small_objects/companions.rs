//! Pages by set without pages in memory: a page is filled from DRAM at once, with companions, and written at the head
//! of a ring. The product has `pages` instead.
//!
//! - Keys hash to sets. A set is a list of pages, oldest first here, and looked through newest first.
//! - When the oldest dirty item must leave DRAM, the dirty items of its set that are colder than the warmest ones go
//!   into one page with it, coldest first. They stay in DRAM as clean items.
//! - The same page takes live objects along from the page of the set that will be reclaimed next, those with hits
//!   first.
//! - Units leave in order, with what is still in them. Nothing is copied to erase one.

use super::layout::{
    ENTRY_BYTES, Entry, Held, Layout, LookUp, PAGE_BYTES, PAYLOAD_BYTES, Places, World,
    flash_bytes, set_of,
};
use super::objects::{Key, Objects};

/// Bits of DRAM for a page: its place.
const PAGE_BITS: f64 = 5.0 * 8.0;
/// Bits of DRAM for the list of a set.
const SET_BITS: f64 = 4.0 * 8.0;
/// Units that the ring has at least.
const UNITS_MIN: u64 = 3;
/// Share of misses that fingerprints may let through.
const FALSE_READS: f64 = 0.03;
/// Bits of a fingerprint at least, and at most.
const FINGERPRINT_BITS: (f64, f64) = (14.0, 20.0);
/// The oldest part of the ring, whose objects may be carried.
const ZONE: f64 = 0.1;

/// The parameters of the layout, and its parts that the lab can switch off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct CompanionsOptions {
    /// Pages that a set has in the mean.
    pub(super) pages_per_set: u32,
    /// Bits of a fingerprint, 14 to 20.
    pub(super) fingerprint_bits: u32,
    /// Whether other dirty items go along at all.
    pub(super) groups: bool,
    /// Whether clean items of DRAM whose copy has left flash go along too.
    pub(super) takes_lost: bool,
    /// Dirty items that were used in the last part of the time that DRAM holds stay, 1 - this.
    pub(super) cold_share: f64,
    /// The most of a page that carried objects take; 0 switches the carry off.
    pub(super) carry_share: f64,
    /// Rounds that a hit keeps an object; 1 takes a bit of DRAM for each object, 3 take two.
    pub(super) rounds: u8,
    /// Whether a page with room left takes objects along that were not hit.
    pub(super) tops_up: bool,
}

impl CompanionsOptions {
    /// The design for objects of this mean size: fingerprints are as wide as a set's objects need it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 14 to 20
    pub(super) fn new(pages_per_set: u32, object_bytes: f64) -> Self {
        let entries = f64::from(PAYLOAD_BYTES) / (object_bytes + f64::from(ENTRY_BYTES));
        let values = f64::from(pages_per_set) * entries / FALSE_READS;
        let bits = values.log2().ceil().clamp(FINGERPRINT_BITS.0, FINGERPRINT_BITS.1);
        Self {
            pages_per_set,
            fingerprint_bits: bits as u32,
            groups: true,
            takes_lost: true,
            cold_share: 1.0,
            carry_share: 0.3,
            rounds: 1,
            tops_up: true,
        }
    }

    /// Bits of DRAM for an entry: its fingerprint and the rounds that it has left.
    fn slot_bits(&self) -> f64 {
        f64::from(self.fingerprint_bits) + f64::from(self.rounds + 1).log2().ceil()
    }
}

#[derive(Default)]
struct Page {
    entries: Vec<Entry>,
    /// Slots that still have a fingerprint.
    slots: u32,
}

#[derive(Default, Clone)]
struct Set {
    /// Pages, oldest first.
    pages: Vec<u32>,
    /// Keys whose last version in DRAM is not on flash. Some have left DRAM since.
    dirty: Vec<Key>,
    /// Slots of all pages.
    slots: u32,
}

/// The ring of pages, and its sets. The place of an object is the number of its page.
pub(super) struct Companions {
    options: CompanionsOptions,
    sets: Vec<Set>,
    pages: Vec<Page>,
    /// The set of each page.
    owner: Vec<u32>,
    unit_pages: u32,
    /// The page that is written next.
    head: u32,
    places: Places,
    buffer: Vec<Entry>,
}

impl Companions {
    #[allow(clippy::cast_possible_truncation)] // pages of a small flash
    pub(super) fn new(
        soc_bytes: u64,
        unit_bytes: u64,
        keys: usize,
        options: CompanionsOptions,
    ) -> Self {
        let pages = soc_bytes / PAGE_BYTES;
        let mut unit_pages = unit_bytes / PAGE_BYTES;
        if pages / unit_pages < UNITS_MIN {
            unit_pages = (pages / UNITS_MIN).max(1);
        }
        let pages = (pages / unit_pages * unit_pages).max(UNITS_MIN) as u32;
        let sets = ((pages - unit_pages as u32) / options.pages_per_set).max(1);
        Self {
            options,
            sets: vec![Set::default(); sets as usize],
            pages: (0..pages).map(|_| Page::default()).collect(),
            owner: vec![0; pages as usize],
            unit_pages: unit_pages as u32,
            head: 0,
            places: Places::new(keys),
            buffer: Vec::new(),
        }
    }

    fn set_of(&self, key: Key) -> usize {
        #[allow(clippy::cast_possible_truncation)] // made from a `u32`
        let sets = self.sets.len() as u32;
        set_of(key, sets) as usize
    }

    /// Pages written since this page was.
    fn age(&self, page: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // made from a `u32`
        let pages = self.pages.len() as u32;
        (self.head + pages - page) % pages
    }

    /// Takes the objects along that the oldest page of the set loses soon. They leave room for `oldest`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a page
    fn carry(&self, set: usize, oldest: Entry, page: &mut Vec<Entry>, world: &mut World<'_>) {
        let most = (self.options.carry_share * f64::from(PAYLOAD_BYTES)) as u32;
        let most = most.min(PAYLOAD_BYTES - oldest.flash_bytes());
        let old = self.sets[set].pages.first().copied();
        let Some(old) = old.filter(|old| self.is_in_zone(*old)).filter(|_| most > 0) else {
            return;
        };
        world.written.reads += 1;
        let mut hot = self.live_of(old, world.objects);
        hot.retain(|entry| self.places.hits(entry.key) > 0);
        hot.sort_by_key(|entry| std::cmp::Reverse(self.places.hits(entry.key)));
        for entry in hot {
            if flash_bytes(page) + entry.flash_bytes() <= most {
                page.push(entry);
                world.written.carried += 1;
            }
        }
    }

    fn is_in_zone(&self, page: u32) -> bool {
        f64::from(self.age(page)) >= (1.0 - ZONE) * self.pages.len() as f64
    }

    /// The live objects of a page.
    fn live_of(&self, page: u32, objects: &Objects) -> Vec<Entry> {
        let entries = self.pages[page as usize].entries.iter();
        entries.filter(|entry| self.places.is_live(entry, page, objects)).copied().collect()
    }

    /// The dirty items of the set that go with `oldest`, in their order.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    fn companions(&mut self, set: usize, oldest: Key, world: &World<'_>) -> Vec<Key> {
        let dirty = &mut self.sets[set].dirty;
        let places = &self.places;
        let takes_lost = self.options.takes_lost;
        let is_lost = |key| takes_lost && world.dram.holds(key) && places.get(key).is_none();
        dirty.retain(|key| world.dram.is_dirty(*key) || is_lost(*key));
        dirty.sort_unstable_by_key(|key| world.dram.stamp(*key));
        dirty.dedup();
        if !self.options.groups {
            return vec![oldest];
        }
        let from = world.dram.stamp(oldest);
        let span = (world.dram.clock() - from) as f64;
        let to = from + (self.options.cold_share * span) as u64;
        let cold = dirty.iter().copied().filter(|key| {
            *key == oldest
                || world.dram.stamp(*key) <= to
                    && !world.objects.is_expired(*key)
                    && world.admission.admits(*key, world.objects)
        });
        cold.collect()
    }

    /// Writes one page of the set of `oldest`.
    fn flush(&mut self, oldest: Key, world: &mut World<'_>) {
        let set = self.set_of(oldest);
        let mut page = std::mem::take(&mut self.buffer);
        page.clear();
        self.carry(set, Entry::of(oldest, world.objects), &mut page, world);
        let carried = page.len();
        let mut bytes = flash_bytes(&page);
        for key in self.companions(set, oldest, world) {
            let entry = Entry::of(key, world.objects);
            if bytes + entry.flash_bytes() <= PAYLOAD_BYTES {
                bytes += entry.flash_bytes();
                page.push(entry);
            }
        }
        debug_assert!(page[carried..].iter().any(|entry| entry.key == oldest));
        for entry in &page[carried..] {
            world.written.admit(entry.bytes);
            world.dram.mark(entry.key, false);
        }
        if self.options.tops_up {
            self.top_up(set, &mut page, world);
        }
        world.written.part_filled += u64::from(flash_bytes(&page) < PAYLOAD_BYTES / 10 * 9);
        world.written.page();
        self.append(set, &page);
        self.buffer = page;
    }

    /// Fills what is left of a page with live objects of the set's oldest page.
    fn top_up(&self, set: usize, page: &mut Vec<Entry>, world: &mut World<'_>) {
        let old = self.sets[set].pages.first().copied();
        let Some(old) = old.filter(|old| self.is_in_zone(*old)) else { return };
        for entry in self.live_of(old, world.objects) {
            let is_new = page.iter().all(|it| it.key != entry.key);
            if is_new && flash_bytes(page) + entry.flash_bytes() <= PAYLOAD_BYTES {
                page.push(entry);
                world.written.carried += 1;
            }
        }
    }

    /// Appends a page at the head of the ring.
    fn append(&mut self, set: usize, entries: &[Entry]) {
        let page = self.head;
        #[allow(clippy::cast_possible_truncation)] // entries of a page, and a number of a set
        let (slots, owner) = (entries.len() as u32, set as u32);
        self.owner[page as usize] = owner;
        let it = &mut self.pages[page as usize];
        it.entries.clear();
        it.entries.extend_from_slice(entries);
        it.slots = slots;
        let set = &mut self.sets[set];
        set.pages.push(page);
        set.slots += slots;
        for entry in entries {
            let left = self.places.hits(entry.key).saturating_sub(1);
            if let Some(old) = self.places.get(entry.key) {
                // A carried object leaves its old page, and has one round less.
                self.remove_slot(old);
            }
            self.places.put(entry.key, page);
            self.places.set_hits(entry.key, left);
        }
        self.head = (self.head + 1) % u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        if self.head.is_multiple_of(self.unit_pages) {
            self.reclaim();
        }
    }

    /// Removes the fingerprint of a dead entry from the list of its page.
    fn remove_slot(&mut self, page: u32) {
        self.pages[page as usize].slots -= 1;
        self.sets[self.owner[page as usize] as usize].slots -= 1;
    }

    /// Drops the unit that the head comes to.
    fn reclaim(&mut self) {
        for page in self.head..self.head + self.unit_pages {
            let it = &mut self.pages[page as usize];
            if it.entries.is_empty() {
                continue;
            }
            let set = &mut self.sets[self.owner[page as usize] as usize];
            for entry in it.entries.drain(..) {
                if self.places.get(entry.key) == Some(page) {
                    self.places.clear(entry.key);
                    // If it is in DRAM, clean, flash has to get it anew.
                    set.dirty.push(entry.key);
                }
            }
            set.slots -= std::mem::take(&mut it.slots);
            set.pages.retain(|it| *it != page);
        }
    }

    /// Slots of the set in pages that are newer than `page`.
    fn newer_slots(&self, set: usize, page: u32) -> u32 {
        let newer = self.sets[set].pages.iter().rev().take_while(|it| **it != page);
        newer.map(|it| self.pages[*it as usize].slots).sum()
    }
}

impl Layout for Companions {
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp {
        let set = self.set_of(key);
        let values = f64::from(1_u32 << self.options.fingerprint_bits);
        let Some(page) = self.places.get(key) else {
            let reads = f64::from(self.sets[set].slots) / values;
            return LookUp { reads, ..LookUp::default() };
        };
        let false_reads = f64::from(self.newer_slots(set, page)) / values;
        let entries = &self.pages[page as usize].entries;
        let entry = entries.iter().find(|entry| entry.key == key);
        let version = entry.filter(|_| !objects.is_expired(key)).map(|entry| entry.version);
        match version {
            Some(_) => self.places.set_hits(key, self.options.rounds),
            None => self.forget(key, true),
        }
        let is_old = version.is_none();
        LookUp { version, reads: false_reads + f64::from(!is_old), is_old, ..LookUp::default() }
    }

    fn holds(&self, key: Key) -> bool {
        self.places.get(key).is_some()
    }

    fn forget(&mut self, key: Key, is_known: bool) {
        if let Some(page) = self.places.get(key).filter(|_| is_known) {
            self.remove_slot(page);
        }
        self.places.clear(key);
    }

    fn dirtied(&mut self, key: Key) {
        let set = self.set_of(key);
        self.sets[set].dirty.push(key);
    }

    fn write(&mut self, key: Key, world: &mut World<'_>) {
        if !world.dram.is_dirty(key) {
            world.dram.mark(key, true);
            self.dirtied(key);
        }
        self.flush(key, world);
    }

    #[allow(clippy::cast_precision_loss)] // counts of a small flash
    fn held(&self, objects: &Objects) -> Held {
        let mut held = Held { placed: self.places.count(objects), ..Held::default() };
        for (page, it) in (0..).zip(&self.pages) {
            held.entries += u64::from(it.slots);
            for entry in it.entries.iter().filter(|it| self.places.is_live(it, page, objects)) {
                held.objects += 1;
                held.bytes += u64::from(entry.flash_bytes());
            }
        }
        held.dram_bits = self.pages.len() as f64 * PAGE_BITS
            + held.entries as f64 * self.options.slot_bits()
            + self.sets.len() as f64 * SET_BITS;
        held
    }
}
