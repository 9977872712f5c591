//! A cache that keeps its small objects in pages by set.

use larder::{SocConfig, SocEviction, SocLayout};

use super::plan::Plan;

/// Makes these random numbers independent of those of the plan.
const APART: u64 = 0x9a6e_5e75;

impl Plan {
    /// Stores small objects in pages, whose regions are reclaimed soon.
    pub(super) fn put_in_pages(&mut self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed ^ APART);
        let config = &mut self.config;
        config.utilization_percent = [60.0, 100.0][rng.usize(..2)];
        config.soc = SocConfig {
            layout: Some(SocLayout::Pages),
            pages_per_set: Some([2, 8, 24, 100][rng.usize(..4)]),
            percent: Some([20.0, 40.0][rng.usize(..2)]),
            log_percent: Some(0.0),
            dynamic_placement: false,
            eviction: SocEviction::default(),
            max_object_bytes: [640, 2000, 4050][rng.usize(..3)],
            ..config.soc.clone()
        };
        self.leaning.small |= rng.bool();
        self.keys = if rng.bool() { self.keys.max(1500) } else { self.keys };
        // Changes of the division of the device are not tested here.
        self.changing = false;
    }
}
