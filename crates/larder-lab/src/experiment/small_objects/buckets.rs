//! Buckets: each object that leaves DRAM rewrites the bucket of its key.

use super::layout::{Entry, Held, Layout, LookUp, PAGE_BYTES, Places, World, set_of};
use super::objects::{Key, Objects};
use super::sets::{Eviction, SET_BITS, Sets};

pub(super) struct Buckets {
    sets: Sets,
    places: Places,
    eviction: Eviction,
}

impl Buckets {
    pub(super) fn new(soc_bytes: u64, keys: usize, eviction: Eviction) -> Self {
        let count = u32::try_from(soc_bytes / PAGE_BYTES).unwrap_or(u32::MAX).max(1);
        Self { sets: Sets::new(count, eviction), places: Places::new(keys), eviction }
    }
}

impl Layout for Buckets {
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp {
        let set = set_of(key, self.sets.count());
        self.sets.look_up(set, key, &mut self.places, objects)
    }

    fn holds(&self, key: Key) -> bool {
        self.places.get(key).is_some()
    }

    fn forget(&mut self, key: Key, _is_known: bool) {
        self.places.clear(key);
    }

    fn write(&mut self, key: Key, world: &mut World<'_>) {
        let set = set_of(key, self.sets.count());
        let entry = Entry::of(key, world.objects);
        world.written.admit(entry.bytes);
        world.written.reads += 1;
        world.written.page();
        self.sets.rewrite(set, &[entry], &mut self.places, world.objects);
    }

    fn held(&self, objects: &Objects) -> Held {
        let mut held = held_in_sets(&self.sets, &self.places, objects);
        held.dram_bits = f64::from(self.sets.count()) * SET_BITS + hit_bits(self.eviction, &held);
        held
    }
}

/// What sets hold; the DRAM is left to the caller.
pub(super) fn held_in_sets(sets: &Sets, places: &Places, objects: &Objects) -> Held {
    let mut held = Held { placed: places.count(objects), ..Held::default() };
    for (set, entries) in sets.all() {
        held.entries += entries.len() as u64;
        for entry in sets.live(set, places, objects) {
            held.objects += 1;
            held.bytes += u64::from(entry.flash_bytes());
        }
    }
    held
}

/// A bit for each object with RRIP, none with FIFO.
#[allow(clippy::cast_precision_loss)] // a count of objects
pub(super) fn hit_bits(eviction: Eviction, held: &Held) -> f64 {
    match eviction {
        Eviction::Fifo => 0.0,
        Eviction::Rrip => held.entries as f64,
    }
}
