//! Sums the statistics of several caches.

use super::Stats;
use crate::observe::latency::Latency;

/// Functions that combine gauges of several caches.
pub(super) fn total(a: u64, b: u64) -> u64 {
    a + b
}

pub(super) fn least(a: u64, b: u64) -> u64 {
    a.min(b)
}

pub(super) fn most(a: u64, b: u64) -> u64 {
    a.max(b)
}

/// For points in time, where 0 means none.
pub(super) fn earliest(a: u64, b: u64) -> u64 {
    [a, b].into_iter().filter(|at| *at > 0).min().unwrap_or(0)
}

impl std::iter::Sum for Stats {
    /// The sum of the statistics of several caches. Drives have individual lifetimes, so the sum has none. The sum is
    /// crash-safe if each cache is, and placement is active if it is for each. Drives that the caches share are listed
    /// once.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self { crash_safe: 1, placement_active: 1, ..Self::default() };
        let mut caches = 0;
        for one in all {
            caches += 1;
            if sum.placement_path.is_empty() || one.placement_active == 0 {
                sum.placement_path = one.placement_path;
            }
            sum.add_gauges(&one);
            for drive in &one.drives {
                if sum.drives.iter().all(|known| known.path != drive.path) {
                    sum.drives.push(drive.clone());
                }
            }
            sum.add_past(one);
        }
        let (crash_safe, active) = (sum.crash_safe.min(caches), sum.placement_active.min(caches));
        Self { crash_safe, placement_active: active, ..sum }
    }
}

impl Stats {
    /// Adds the counters of a cache that no longer exists, but not its gauges.
    pub(crate) fn add_past(&mut self, past: Self) {
        self.add_counters(&past);
        self.last_device_error = self.last_device_error.take().or(past.last_device_error);
        for latency in past.latencies {
            let same =
                |it: &&mut Latency| (it.operation, it.tier) == (latency.operation, latency.tier);
            match self.latencies.iter_mut().find(same) {
                Some(known) => known.histogram.add(&latency.histogram),
                None => self.latencies.push(latency),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_of_several_caches_are_brought_together_each_in_its_way() {
        let one = Stats {
            demoting_bytes: 3,
            loc_unindexed_regions: 2,
            crash_safe: 1,
            flash_avoided_since_seconds: 7,
            ..Stats::default()
        };
        let other = Stats { crash_safe: 0, flash_avoided_since_seconds: 5, ..one.clone() };
        let calm = Stats { flash_avoided_since_seconds: 0, ..one.clone() };
        let sum: Stats = [one, other, calm].into_iter().sum();
        assert_eq!((sum.demoting_bytes, sum.loc_unindexed_regions), (9, 6));
        assert_eq!((sum.crash_safe, sum.flash_avoided_since_seconds), (0, 5));
    }

    #[test]
    fn what_is_past_adds_to_totals_alone() {
        let mut sum = Stats { gets: 5, dram_items: 4, crash_safe: 1, ..Stats::default() };
        sum.add_past(Stats { gets: 7, dram_items: 9, ..Stats::default() });
        assert_eq!((sum.gets, sum.dram_items, sum.crash_safe), (12, 4, 1));
    }
}
