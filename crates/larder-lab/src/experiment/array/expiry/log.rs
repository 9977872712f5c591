//! A log of regions whose objects expire. With several groups of similar lifetime, a region is freed as a whole once
//! the bound of its group has passed since its last write. With one group without a bound, expired objects stay until
//! their region is reclaimed. If no region is free, the oldest one is reclaimed, whatever it holds.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::{Answer, ExpiringCache, Flash};

/// Never.
const NEVER_S: u64 = u64::MAX;

/// The region of an object, and the time until which it may be returned.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    region: usize,
    slot: usize,
    filling: u64,
    expires_s: u64,
}

/// The content of a region since it was last free.
#[derive(Debug, Clone, Default)]
struct Region {
    group: usize,
    /// Sequence number of this filling; 0 means none.
    filling: u64,
    keys: Vec<u64>,
    first_write_s: u64,
    last_write_s: u64,
}

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct RegionLog {
    /// Upper bounds of the groups' lifetimes in seconds, ascending.
    bounds_s: Vec<u64>,
    region_objects: usize,
    regions: Vec<Region>,
    free: Vec<usize>,
    open: Vec<Option<usize>>,
    /// Closed regions by group, oldest first.
    closed: Vec<VecDeque<usize>>,
    index: HashTable<Entry>,
    fillings: u64,
    flash: Flash,
}

impl RegionLog {
    /// A log of `regions` regions with the given bounds. There must be more than twice as many regions as groups.
    /// Objects that live longer than the last bound are in the last group.
    pub(in crate::experiment::array) fn new(
        bounds_s: &[u64],
        regions: usize,
        region_objects: usize,
    ) -> Self {
        assert!(
            regions > 2 * bounds_s.len(),
            "each group may have one open, and some must be closed"
        );
        Self {
            bounds_s: bounds_s.to_vec(),
            region_objects,
            regions: vec![Region::default(); regions],
            free: (0..regions).rev().collect(),
            open: vec![None; bounds_s.len()],
            closed: vec![VecDeque::new(); bounds_s.len()],
            index: HashTable::new(),
            fillings: 0,
            flash: Flash::default(),
        }
    }

    /// A log without groups.
    pub(in crate::experiment::array) fn lazy(regions: usize, region_objects: usize) -> Self {
        Self::new(&[NEVER_S], regions, region_objects)
    }

    fn group(&self, ttl_s: u32) -> usize {
        let last = self.bounds_s.len() - 1;
        match ttl_s {
            0 => last,
            ttl_s => self.bounds_s[..last].partition_point(|&bound| bound < u64::from(ttl_s)),
        }
    }

    fn free(&mut self, region: usize) {
        let freed = &mut self.regions[region];
        freed.filling = 0;
        freed.keys.clear();
        self.free.push(region);
    }

    /// Frees the regions whose bound has passed. The last group has no bound.
    fn expire(&mut self, now_s: u64) {
        for group in 0..self.bounds_s.len() - 1 {
            let bound = self.bounds_s[group];
            // Without this check, an open region that fills slowly would keep its first objects for ever.
            if let Some(open) = self.open[group]
                && self.regions[open].first_write_s + bound <= now_s
            {
                self.open[group] = None;
                self.closed[group].push_back(open);
            }
            while let Some(&oldest) = self.closed[group].front()
                && self.regions[oldest].last_write_s + bound <= now_s
            {
                self.closed[group].pop_front();
                self.free(oldest);
                self.flash.freed_whole += 1;
            }
        }
    }

    /// Returns a region with room for an object of a group.
    fn room(&mut self, group: usize, now_s: u64) -> usize {
        if let Some(open) = self.open[group] {
            if self.regions[open].keys.len() < self.region_objects {
                return open;
            }
            self.closed[group].push_back(open);
        }
        if self.free.is_empty() {
            self.reclaim();
        }
        let region = self.free.pop().unwrap_or(0);
        self.fillings += 1;
        let fresh = &mut self.regions[region];
        (fresh.group, fresh.filling, fresh.first_write_s) = (group, self.fillings, now_s);
        self.open[group] = Some(region);
        region
    }

    /// Frees the region whose filling began first.
    fn reclaim(&mut self) {
        let heads = self.closed.iter().filter_map(|closed| closed.front().copied());
        let oldest = heads.min_by_key(|&region| self.regions[region].filling);
        let Some(oldest) = oldest else { return };
        self.closed[self.regions[oldest].group].pop_front();
        self.free(oldest);
        self.flash.reclaimed += 1;
    }

    fn entry(&self, key: u64) -> Option<Entry> {
        let entry = self.index.find(key, |entry| entry.key == key)?;
        (self.regions[entry.region].filling == entry.filling).then_some(*entry)
    }

    fn forget(&mut self, key: u64) {
        if let Ok(entry) = self.index.find_entry(key, |entry| entry.key == key) {
            entry.remove();
        }
    }
}

impl ExpiringCache for RegionLog {
    fn get(&mut self, key: u64, now_s: u64) -> Answer {
        self.expire(now_s);
        match self.entry(key) {
            None => Answer::Absent,
            Some(entry) if entry.expires_s <= now_s => {
                self.forget(key);
                self.flash.reads_of_expired += 1;
                Answer::Expired
            }
            Some(_) => Answer::Found,
        }
    }

    fn set(&mut self, key: u64, ttl_s: u32, now_s: u64) {
        self.expire(now_s);
        let region = self.room(self.group(ttl_s), now_s);
        let filled = &mut self.regions[region];
        filled.last_write_s = now_s;
        filled.keys.push(key);
        let (slot, filling) = (filled.keys.len() - 1, filled.filling);
        let expires_s = if ttl_s == 0 { NEVER_S } else { now_s + u64::from(ttl_s) };
        self.forget(key);
        let entry = Entry { key, region, slot, filling, expires_s };
        self.index.insert_unique(key, entry, |entry| entry.key);
        self.flash.written += 1;
    }

    fn flash(&mut self, now_s: u64) -> Flash {
        let mut flash = self.flash;
        flash.slots = (self.regions.len() * self.region_objects) as u64;
        for (number, region) in self.regions.iter().enumerate() {
            for (slot, &key) in region.keys.iter().enumerate() {
                let is_this = |entry: &Entry| (entry.region, entry.slot) == (number, slot);
                let entry = self.entry(key).filter(is_this);
                flash.taken += 1;
                flash.live += u64::from(entry.is_some_and(|entry| entry.expires_s > now_s));
            }
        }
        flash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_freed_when_its_bound_has_passed_since_its_last_write() {
        let mut log = RegionLog::new(&[60, 3600], 5, 2);
        log.set(1, 60, 0);
        log.set(2, 60, 30);
        log.set(3, 60, 40);
        assert_eq!(log.get(1, 59), Answer::Found);
        assert_eq!(log.get(1, 60), Answer::Expired, "the region has 2, which lives");
        assert_eq!(log.get(1, 61), Answer::Absent);
        assert_eq!(log.get(2, 89), Answer::Found);
        let Flash { freed_whole, taken, live, .. } = log.flash(89);
        assert_eq!((freed_whole, taken, live), (0, 3, 2));
        assert_eq!(log.get(2, 90), Answer::Absent, "freed whole, unread");
        let Flash { freed_whole, taken, reads_of_expired, .. } = log.flash(90);
        assert_eq!((freed_whole, taken, reads_of_expired), (1, 1, 1));
        // Its region never became full.
        assert_eq!(log.get(3, 100), Answer::Absent);
        assert_eq!(log.flash(100).freed_whole, 2);
    }

    #[test]
    fn what_has_no_end_or_lives_too_long_is_in_the_last_group_and_is_reclaimed() {
        let mut log = RegionLog::new(&[60, 3600], 5, 1);
        log.set(1, 0, 0);
        log.set(2, 1_000_000, 0);
        for key in 3..6 {
            log.set(key, 0, 0);
        }
        assert_eq!(log.get(1, 100_000), Answer::Found);
        log.set(6, 60, 100_000);
        assert_eq!(log.get(1, 100_000), Answer::Absent, "the oldest gave way");
        assert_eq!(log.get(2, 100_000), Answer::Found);
        assert_eq!(log.flash(100_000).reclaimed, 1);
    }

    #[test]
    fn without_groups_what_has_expired_stays_until_it_is_the_oldest() {
        let mut log = RegionLog::lazy(3, 1);
        log.set(1, 60, 0);
        log.set(2, 0, 0);
        let Flash { taken, live, .. } = log.flash(100);
        assert_eq!((taken, live), (2, 1));
        log.set(2, 0, 100);
        let Flash { taken, live, .. } = log.flash(100);
        assert_eq!((taken, live), (3, 1), "what was replaced is dead too");
        log.set(3, 0, 100);
        assert_eq!(log.get(1, 100), Answer::Absent);
    }
}
