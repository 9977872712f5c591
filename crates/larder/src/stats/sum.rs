//! What several caches did and hold together.

use super::Stats;
use crate::latency::Latency;

impl std::iter::Sum for Stats {
    /// What several caches did and hold together. Drives have lives of their own: that of the sum is
    /// unknown. It is safe from a crash if each is, and placement is active if it is for each. Drives
    /// that they share are listed once.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self { crash_safe: 1, placement_active: 1, ..Self::default() };
        let mut caches = 0;
        for one in all {
            caches += 1;
            sum.add_counters(&one);
            sum.dram_items += one.dram_items;
            sum.dram_used_bytes += one.dram_used_bytes;
            sum.loc_objects += one.loc_objects;
            sum.loc_index_bytes += one.loc_index_bytes;
            sum.array_objects += one.array_objects;
            sum.array_index_bytes += one.array_index_bytes;
            sum.soc_filter_bytes += one.soc_filter_bytes;
            sum.flash_memory_bytes += one.flash_memory_bytes;
            sum.tombstone_bytes += one.tombstone_bytes;
            sum.admission_memory_bytes += one.admission_memory_bytes;
            sum.crash_safe = sum.crash_safe.min(one.crash_safe);
            sum.flash_avoided = sum.flash_avoided.max(one.flash_avoided);
            let since = [sum.flash_avoided_since_seconds, one.flash_avoided_since_seconds];
            sum.flash_avoided_since_seconds =
                since.into_iter().filter(|since| *since > 0).min().unwrap_or(0);
            sum.compromised_streams += one.compromised_streams;
            sum.soc_log_held_objects += one.soc_log_held_objects;
            sum.soc_log_index_bytes += one.soc_log_index_bytes;
            sum.last_device_error = one.last_device_error.or(sum.last_device_error);
            sum.placement_active = sum.placement_active.min(one.placement_active);
            if sum.placement_path.is_empty() || one.placement_active == 0 {
                sum.placement_path = one.placement_path;
            }
            for latency in one.latencies {
                let same = |it: &&mut Latency| {
                    (it.operation, it.tier) == (latency.operation, latency.tier)
                };
                match sum.latencies.iter_mut().find(same) {
                    Some(known) => known.histogram.add(&latency.histogram),
                    None => sum.latencies.push(latency),
                }
            }
            for drive in one.drives {
                if sum.drives.iter().all(|known| known.path != drive.path) {
                    sum.drives.push(drive);
                }
            }
        }
        let (crash_safe, active) = (sum.crash_safe.min(caches), sum.placement_active.min(caches));
        Self { crash_safe, placement_active: active, ..sum }
    }
}
