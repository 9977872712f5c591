//! Groups of sets that are filled in DRAM and written whole (Nemo). A group leaves flash whole, in order.
//!
//! Two groups are open. An object goes to its set in the older one, or else in the newer one. If neither has room, it
//! is dropped; after a number of drops the older one is written, filled up with the hot objects of the group that
//! leaves. Every group has a filter for each of its sets, in DRAM.

use super::layout::{
    Entry, Held, Layout, LookUp, PAGE_BYTES, PAYLOAD_BYTES, Places, World, flash_bytes, set_of,
};
use super::objects::{Key, Objects};

/// Groups that are open, in DRAM.
const OPEN: u32 = 2;
/// Of this number of sets of a group, one may drop an object before the group is written.
const SETS_PER_DROP: u32 = 4;
/// Share of misses that all filters of a set let through together.
const FALSE_READS: f64 = 0.03;

/// The groups. The place of an object is the number of its group's slot and of its set.
pub(super) struct Groups {
    sets_per_group: u32,
    /// Slots: those on flash, and the open ones.
    slots: u32,
    /// The sets of all slots.
    sets: Vec<Vec<Entry>>,
    /// The slot of the older open group; the newer one is the next.
    front: u32,
    dropped: u32,
    places: Places,
}

impl Groups {
    #[allow(clippy::cast_possible_truncation)] // pages of a small flash
    pub(super) fn new(soc_bytes: u64, group_bytes: u64, keys: usize) -> Self {
        let pages = (soc_bytes / PAGE_BYTES) as u32;
        let sets_per_group = ((group_bytes / PAGE_BYTES) as u32).min(pages / 4).max(1);
        let slots = (pages / sets_per_group).max(1) + OPEN;
        Self {
            sets_per_group,
            slots,
            sets: vec![Vec::new(); (slots * sets_per_group) as usize],
            front: 0,
            dropped: 0,
            places: Places::new(keys),
        }
    }

    fn place(&self, slot: u32, set: u32) -> u32 {
        slot * self.sets_per_group + set
    }

    fn is_open(&self, slot: u32) -> bool {
        (slot + self.slots - self.front) % self.slots < OPEN
    }

    /// Puts an entry into an open group, if its set has room.
    fn insert(&mut self, slot: u32, set: u32, entry: Entry) -> bool {
        let place = self.place(slot, set);
        let entries = &mut self.sets[place as usize];
        let has_room = flash_bytes(entries) + entry.flash_bytes() <= PAYLOAD_BYTES;
        if has_room {
            entries.push(entry);
            self.places.put(entry.key, place);
        }
        has_room
    }

    /// Writes the older open group, and opens another.
    fn flush(&mut self, world: &mut World<'_>) {
        let front = self.front;
        let leaving = (front + OPEN) % self.slots;
        for set in 0..self.sets_per_group {
            let place = self.place(leaving, set);
            let old = std::mem::take(&mut self.sets[place as usize]);
            let hits = |entry: &Entry| self.places.hits(entry.key);
            let live = old.iter().filter(|it| self.places.is_live(it, place, world.objects));
            let mut hot: Vec<Entry> = live.filter(|entry| hits(entry) > 0).copied().collect();
            hot.sort_by_key(|entry| std::cmp::Reverse(hits(entry)));
            world.written.reads += u64::from(!hot.is_empty());
            for entry in hot {
                world.written.carried += u64::from(self.insert(front, set, entry));
            }
            for entry in &old {
                if self.places.get(entry.key) == Some(place) {
                    self.places.clear(entry.key);
                }
            }
            let written = &self.sets[self.place(front, set) as usize];
            let is_part = flash_bytes(written) < PAYLOAD_BYTES / 10 * 9;
            world.written.part_filled += u64::from(is_part);
            world.written.page();
        }
        self.front = (front + 1) % self.slots;
        self.dropped = 0;
    }

    /// Bits of a filter for each entry: those of a Bloom filter.
    fn filter_bits(&self) -> f64 {
        (f64::from(self.slots - OPEN) / FALSE_READS).log2() / std::f64::consts::LN_2
    }
}

impl Layout for Groups {
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp {
        let Some(place) = self.places.get(key) else {
            return LookUp { reads: FALSE_READS, ..LookUp::default() };
        };
        let entries = self.sets[place as usize].iter();
        let entry = entries.rev().find(|entry| entry.key == key);
        let version = entry.filter(|_| !objects.is_expired(key)).map(|entry| entry.version);
        match version {
            Some(_) => self.places.hit(key),
            None => self.places.clear(key),
        }
        let (slot, group) = (place / self.sets_per_group, self.slots - OPEN);
        // Younger groups are asked before.
        let younger = (self.front + self.slots - slot) % self.slots;
        let false_reads = FALSE_READS * f64::from(younger) / f64::from(group);
        let is_old = version.is_none();
        let read = false_reads + f64::from(!is_old);
        let is_open = self.is_open(slot);
        let reads = if is_open { 0.0 } else { read };
        LookUp { version, reads, is_old, is_in_memory: is_open && version.is_some() }
    }

    fn holds(&self, key: Key) -> bool {
        self.places.get(key).is_some()
    }

    fn forget(&mut self, key: Key, _is_known: bool) {
        let Some(place) = self.places.get(key) else { return };
        if self.is_open(place / self.sets_per_group) {
            self.sets[place as usize].retain(|entry| entry.key != key);
        }
        self.places.clear(key);
    }

    fn write(&mut self, key: Key, world: &mut World<'_>) {
        let entry = Entry::of(key, world.objects);
        world.written.admit(entry.bytes);
        let set = set_of(key, self.sets_per_group);
        let open = [self.front, (self.front + 1) % self.slots];
        if open.into_iter().any(|slot| self.insert(slot, set, entry)) {
            return;
        }
        self.dropped += 1;
        world.written.dropped += 1;
        if self.dropped > self.sets_per_group / SETS_PER_DROP {
            self.flush(world);
        }
    }

    #[allow(clippy::cast_precision_loss)] // counts of a small flash
    fn held(&self, objects: &Objects) -> Held {
        let mut held = Held { placed: self.places.count(objects), ..Held::default() };
        for (place, entries) in (0..).zip(&self.sets) {
            held.entries += entries.len() as u64;
            for entry in entries.iter().filter(|it| self.places.is_live(it, place, objects)) {
                held.objects += 1;
                // Objects of open groups are in DRAM.
                let is_open = self.is_open(place / self.sets_per_group);
                held.bytes += if is_open { 0 } else { u64::from(entry.flash_bytes()) };
            }
        }
        let open_bytes = u64::from(OPEN * self.sets_per_group) * PAGE_BYTES;
        held.dram_bits = held.entries as f64 * (self.filter_bits() + 1.0) + 8.0 * open_bytes as f64;
        held
    }
}
