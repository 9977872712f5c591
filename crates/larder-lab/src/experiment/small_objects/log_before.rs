//! A log before sets (Kangaroo), and the same with sets in erase units, folded (FairyWREN).
//!
//! When the oldest record of the log has to leave, its set takes all live records of the log: if they are as many as
//! the threshold, or if they have room without evicting. Otherwise the record is appended again if it was hit, and
//! dropped if not. With `Units`, sets have no fixed place, and a unit is cleaned by rewriting its sets with what the
//! log has for them.

use super::buckets::{held_in_sets, hit_bits};
use super::fold::Units;
use super::layout::{
    Entry, Held, Layout, LookUp, PAGE_BYTES, PAYLOAD_BYTES, Places, World, flash_bytes, set_of,
};
use super::log::Log;
use super::objects::{Key, Objects};
use super::sets::{Eviction, SET_BITS, Sets};

/// Records of a set that are worth a rewrite.
const THRESHOLD: usize = 2;

pub(super) struct LogBefore {
    log: Log,
    sets: Sets,
    places: Places,
    eviction: Eviction,
    units: Option<Units>,
}

impl LogBefore {
    /// A log of `share` of the engine, and buckets in place in the rest.
    pub(super) fn new(soc_bytes: u64, keys: usize, share: f64, eviction: Eviction) -> Self {
        let (log_bytes, pages) = divided(soc_bytes, share);
        let sets = pages.max(1);
        Self {
            log: Log::new(log_bytes, sets),
            sets: Sets::new(sets, eviction),
            places: Places::new(keys),
            eviction,
            units: None,
        }
    }

    /// The same with sets in units of `unit_bytes`. The share `spare` of the sets stays free.
    pub(super) fn folded(
        soc_bytes: u64,
        keys: usize,
        share: f64,
        (unit_bytes, spare): (u64, f64),
    ) -> Self {
        let (log_bytes, pages) = divided(soc_bytes, share);
        let unit_pages = u32::try_from(unit_bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        let units = Units::new(pages, unit_pages, spare);
        Self {
            log: Log::new(log_bytes, units.sets()),
            sets: Sets::new(units.sets(), Eviction::Rrip),
            places: Places::new(keys),
            eviction: Eviction::Rrip,
            units: Some(units),
        }
    }

    fn drain(&mut self, world: &mut World<'_>) {
        while let Some((entry, place)) = self.log.surplus() {
            let set = set_of(entry.key, self.sets.count());
            if !self.places.is_live(&entry, place, world.objects) {
                self.log.remove_oldest();
                continue;
            }
            let waiting = self.log.of_set(set, &self.places, world.objects);
            if waiting.len() >= THRESHOLD || self.has_room(set, &waiting, world.objects) {
                self.rewrite(set, &waiting, world);
                self.fold(world);
                self.log.remove_oldest();
            } else if self.places.hits(entry.key) > 0 {
                self.log.remove_oldest();
                world.written.flash_bytes += self.log.append(entry, set, &mut self.places);
                world.written.carried += 1;
            } else {
                self.places.clear(entry.key);
                world.written.dropped += 1;
                self.log.remove_oldest();
            }
        }
    }

    fn has_room(&self, set: u32, waiting: &[Entry], objects: &Objects) -> bool {
        let used = self.sets.live(set, &self.places, objects).map(Entry::flash_bytes).sum::<u32>();
        used + flash_bytes(waiting) <= PAYLOAD_BYTES
    }

    fn rewrite(&mut self, set: u32, waiting: &[Entry], world: &mut World<'_>) {
        world.written.reads += 1;
        world.written.page();
        self.sets.rewrite(set, waiting, &mut self.places, world.objects);
        if let Some(units) = &mut self.units {
            units.place(set);
        }
    }

    /// Cleans units until two are free: each live set of the victim takes what the log has for it.
    fn fold(&mut self, world: &mut World<'_>) {
        while let Some(victims) = self.units.as_mut().and_then(Units::clean) {
            for set in victims {
                let waiting = self.log.of_set(set, &self.places, world.objects);
                let is_empty = self.sets.live(set, &self.places, world.objects).next().is_none();
                if waiting.is_empty() && is_empty {
                    self.sets.clear(set);
                } else {
                    self.rewrite(set, &waiting, world);
                }
            }
        }
    }
}

/// Bytes of the log, and pages of the rest.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn divided(soc_bytes: u64, share: f64) -> (u64, u32) {
    let log_bytes = (soc_bytes as f64 * share) as u64;
    (log_bytes, ((soc_bytes - log_bytes) / PAGE_BYTES) as u32)
}

impl Layout for LogBefore {
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp {
        let set = set_of(key, self.sets.count());
        let false_reads = self.log.false_reads(set);
        if let Some(place) = self.places.get(key).filter(|place| Log::is_in_log(*place)) {
            let version = self.log.version(place).filter(|_| !objects.is_expired(key));
            match version {
                Some(_) => self.places.hit(key),
                None => self.places.clear(key),
            }
            let is_old = version.is_none();
            let reads = false_reads + f64::from(!is_old);
            return LookUp { version, reads, is_old, ..LookUp::default() };
        }
        let found = self.sets.look_up(set, key, &mut self.places, objects);
        LookUp { reads: found.reads + false_reads, ..found }
    }

    fn holds(&self, key: Key) -> bool {
        self.places.get(key).is_some()
    }

    fn forget(&mut self, key: Key, _is_known: bool) {
        self.places.clear(key);
    }

    fn write(&mut self, key: Key, world: &mut World<'_>) {
        let entry = Entry::of(key, world.objects);
        let set = set_of(key, self.sets.count());
        world.written.admit(entry.bytes);
        world.written.flash_bytes += self.log.append(entry, set, &mut self.places);
        self.drain(world);
    }

    fn held(&self, objects: &Objects) -> Held {
        let mut held = held_in_sets(&self.sets, &self.places, objects);
        let units_bits = self.units.as_ref().map_or(0.0, Units::dram_bits);
        held.dram_bits =
            f64::from(self.sets.count()) * SET_BITS + hit_bits(self.eviction, &held) + units_bits;
        let in_sets = held.objects;
        for entry in self.log.live(&self.places, objects) {
            held.objects += 1;
            held.entries += 1;
            held.bytes += u64::from(entry.flash_bytes());
        }
        held.dram_bits += self.log.dram_bits(held.objects - in_sets);
        held
    }
}
