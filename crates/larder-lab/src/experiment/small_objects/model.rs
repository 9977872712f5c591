//! Plays requests through DRAM and a layout, for a look-aside client: a GET that misses stores the object.

use larder_workload::Op;

use super::admission::{Admission, Policy};
use super::cells::Cell;
use super::dram::Dram;
use super::layout::{Held, Layout, World, Written};
use super::objects::{Key, Objects};
use super::workload::{Event, Recorded};

/// The share of the requests that fill the cache. The rest are counted.
const WARM_UP: f64 = 0.6;
/// Times that the content of flash is counted and checked during the measurement.
pub(super) const SAMPLES: usize = 4;

/// What a run counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) gets: u64,
    pub(super) dram_hits: u64,
    pub(super) flash_hits: u64,
    /// Those of them in pages or groups that are not written yet.
    pub(super) memory_hits: u64,
    pub(super) misses: u64,
    /// Reads of the look-ups that hit flash.
    pub(super) hit_reads: f64,
    /// Reads of the look-ups that missed, for nothing.
    pub(super) miss_reads: f64,
    /// Reads of look-ups that found an old or expired version.
    pub(super) expired_reads: u64,
    /// Hits with another version than the last one.
    pub(super) wrong: u64,
    /// Samples in which the live objects took more bytes than the layout has.
    pub(super) overfull: u64,
    /// Objects, over the samples, that have a place and are not there.
    pub(super) astray: u64,
    /// Objects that admission refused.
    pub(super) refused: u64,
    /// Objects that expired before they left DRAM.
    pub(super) expired: u64,
    pub(super) written: Written,
    /// Sums over the samples.
    pub(super) held: Held,
    pub(super) samples: u64,
    /// Bytes that the layout took from DRAM, over the samples.
    pub(super) memory_bytes: u64,
    /// Bytes of the layout, and of DRAM.
    pub(super) soc_bytes: u64,
    pub(super) dram_bytes: u64,
}

/// DRAM, a layout, and what the client knows.
struct Model<'a> {
    layout: &'a mut dyn Layout,
    objects: Objects,
    dram: Dram,
    admission: Admission,
    counts: Counts,
}

/// Plays all requests.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
pub(super) fn play(
    recorded: &Recorded,
    layout: &mut dyn Layout,
    cell: Cell,
    policy: Policy,
) -> Counts {
    let mut model = Model {
        layout,
        objects: Objects::new(recorded.keys),
        dram: Dram::new(recorded.keys, cell.dram_bytes),
        admission: Admission::new(policy, recorded.keys),
        counts: Counts::default(),
    };
    let warm = (recorded.events.len() as f64 * WARM_UP) as usize;
    let (filling, measured) = recorded.events.split_at(warm);
    filling.iter().for_each(|event| model.step(event));
    model.counts =
        Counts { soc_bytes: cell.soc_bytes, dram_bytes: cell.dram_bytes, ..Counts::default() };
    for part in measured.chunks(measured.len().div_ceil(SAMPLES).max(1)) {
        part.iter().for_each(|event| model.step(event));
        model.sample();
    }
    model.counts
}

impl Model<'_> {
    fn step(&mut self, event: &Event) {
        self.counts.requests += 1;
        self.objects.advance_to(event.time_s);
        match event.op {
            Op::Get => self.get(event),
            Op::Set if event.bytes > 0 => self.set(event),
            Op::Set => {}
            Op::Delete => {
                self.objects.delete(event.key);
                // A delete looks for the object on flash.
                self.counts.written.reads += u64::from(self.layout.holds(event.key));
                self.layout.forget(event.key, true);
                self.dram.remove(event.key);
            }
        }
    }

    fn get(&mut self, event: &Event) {
        let key = event.key;
        self.counts.gets += 1;
        if self.dram.holds(key) {
            if !self.objects.is_expired(key) {
                self.counts.dram_hits += 1;
                self.dram.touch(key);
                return;
            }
            self.expire(key);
        }
        let found = self.layout.look_up(key, &self.objects);
        match found.version {
            Some(version) => {
                self.counts.flash_hits += 1;
                self.counts.memory_hits += u64::from(found.is_in_memory);
                self.counts.hit_reads += found.reads;
                self.counts.wrong += u64::from(version != self.objects.version(key));
                self.dram.put(key, self.objects.bytes(key), false);
                self.make_room();
            }
            None => {
                self.counts.misses += 1;
                self.counts.miss_reads += found.reads;
                self.counts.expired_reads += u64::from(found.is_old);
                if event.bytes > 0 {
                    self.set(event);
                }
            }
        }
    }

    fn set(&mut self, event: &Event) {
        self.objects.set(event.key, event.bytes, event.ttl_s);
        let is_known = self.dram.holds(event.key) && !self.dram.is_dirty(event.key);
        self.layout.forget(event.key, is_known);
        self.dram.put(event.key, event.bytes, true);
        self.layout.dirtied(event.key);
        self.make_room();
    }

    /// The item has expired in DRAM: flash must not have an older version.
    fn expire(&mut self, key: Key) {
        self.counts.expired += 1;
        self.layout.forget(key, false);
        self.dram.remove(key);
    }

    fn make_room(&mut self) {
        loop {
            self.dram.reserve(self.layout.memory_bytes());
            let Some(key) = self.dram.surplus() else { return };
            if self.objects.is_expired(key) {
                self.expire(key);
                continue;
            }
            let is_there = !self.dram.is_dirty(key) && self.layout.holds(key);
            if !is_there {
                self.demote(key);
            }
            self.dram.remove(key);
        }
    }

    /// An item that flash does not have leaves DRAM.
    fn demote(&mut self, key: Key) {
        if !self.admission.admits(key, &self.objects) {
            self.counts.refused += 1;
            self.admission.refused(key);
            self.layout.forget(key, false);
            return;
        }
        let mut world = World {
            objects: &self.objects,
            dram: &mut self.dram,
            admission: &self.admission,
            written: &mut self.counts.written,
        };
        self.layout.write(key, &mut world);
    }

    fn sample(&mut self) {
        let held = self.layout.held(&self.objects);
        let sum = &mut self.counts.held;
        sum.objects += held.objects;
        sum.bytes += held.bytes;
        sum.entries += held.entries;
        sum.in_memory += held.in_memory;
        self.counts.memory_bytes += self.layout.memory_bytes();
        sum.dram_bits += held.dram_bits;
        self.counts.overfull += u64::from(held.bytes > self.counts.soc_bytes);
        self.counts.astray += held.placed.abs_diff(held.objects + held.in_memory);
        self.counts.samples += 1;
    }
}

/// The share of the measured GETs that a cache without limits answers.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
pub(super) fn possible(recorded: &Recorded) -> f64 {
    let mut objects = Objects::new(recorded.keys);
    let mut is_there = vec![false; recorded.keys];
    let warm = (recorded.events.len() as f64 * WARM_UP) as usize;
    let (mut gets, mut hits) = (0_u64, 0_u64);
    for (number, event) in recorded.events.iter().enumerate() {
        objects.advance_to(event.time_s);
        let is_here = &mut is_there[event.key as usize];
        let is_hit = *is_here && !objects.is_expired(event.key);
        if event.op == Op::Get && number >= warm {
            gets += 1;
            hits += u64::from(is_hit);
        }
        let is_stored = event.bytes > 0 && (event.op == Op::Set || event.op == Op::Get && !is_hit);
        if is_stored {
            objects.set(event.key, event.bytes, event.ttl_s);
        }
        *is_here =
            event.op != Op::Delete && (is_stored || is_hit || event.op == Op::Set && *is_here);
    }
    hits as f64 / gets.max(1) as f64
}
