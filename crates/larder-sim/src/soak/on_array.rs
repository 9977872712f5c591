//! A cache that keeps its large objects in the array engine, whose index is on flash.

use larder::ArrayConfig;

use super::plan::Plan;

/// Makes these random numbers independent of those of the plan.
const APART: u64 = 0xa44a_15ee;
/// The minimum, so that the log wraps around and tables overflow.
const REGION_BYTES: u32 = 64 << 10;

impl Plan {
    /// Gives the large-object engine's share to the array, or a part of it.
    pub(super) fn put_in_array(&mut self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed ^ APART);
        let config = &mut self.config;
        config.utilization_percent = [75.0, 100.0][rng.usize(..2)];
        let soc = &mut config.soc;
        // Nothing but the array, or buckets in addition.
        if rng.u32(..4) == 0 {
            (soc.percent, soc.log_percent, soc.dynamic_placement) = (Some(0.0), Some(0.0), false);
        }
        let left = 100.0 - soc.percent.unwrap_or(0.0) - soc.log_percent.unwrap_or(0.0);
        let has_three = soc.percent > Some(0.0) && left > 80.0 && rng.u32(..3) == 0;
        let tables = 10;
        config.array = ArrayConfig {
            percent: if has_three { left - 20.0 } else { left },
            min_object_bytes: if has_three { 3000 } else { 0 },
            region_bytes: Some(REGION_BYTES),
            write_bytes: [4096, 16 << 10, 256 << 10][rng.usize(..3)],
            open_bytes: None,
            mean_object_bytes: [1024, 4096][rng.usize(..2)],
            index_bytes: Some(64 * tables * [1, 1, 3, 16][rng.usize(..4)]),
            memory_bytes: None,
            reinsertion: rng.u32(..4) > 0,
            ttl_groups: left > 50.0 && rng.bool(),
        };
        config.loc.region_bytes = Some(32 << 10);
        config.loc.ru_aware_eviction = false;
        if has_three {
            config.loc.ttl_classes.clear();
        }
        self.leaning.long = !self.leaning.small && rng.u32(..3) == 0;
        // Changes of the division of the device are not tested here.
        self.changing = false;
    }
}
