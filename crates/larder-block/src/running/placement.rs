//! Placement handles of a cache in the placement plan. There are three streams, by expected lifetime: dirty data,
//! clean data and metadata.

use larder_device::PlacementInfo;
use larder_device::plan::{Class as Stored, PlacementPlan, Stream, solve};

use super::Handles;

/// Expected share of each stream in the writes: dirty data, clean data, and one metadata page for every few lines.
const SHARES: [(Stored, f64); 3] =
    [(Stored::BlockDirty, 0.6), (Stored::BlockClean, 0.3), (Stored::BlockTable, 0.1)];

impl Handles {
    /// The handles for a device with this placement, and the plan that describes them. If `places` is false, all
    /// writes use the default handle.
    ///
    /// ```
    /// use larder_block::running::Handles;
    /// use larder_device::PlacementInfo;
    ///
    /// let (handles, plan) = Handles::plan(&PlacementInfo::none(), true);
    /// assert_eq!(handles, Handles::default());
    /// assert!(plan.to_string().contains("default handle only"), "{plan}");
    /// ```
    pub fn plan(placement: &PlacementInfo, places: bool) -> (Self, PlacementPlan) {
        let stream = |(class, write_share)| {
            let (tenant, lifetime) = (String::new(), None);
            Stream { tenant, class, write_share, lifetime, places }
        };
        let plan = solve(&SHARES.map(stream), placement);
        let handle = |class| plan.handle_of("", class);
        let handles = Self {
            metadata: handle(Stored::BlockTable),
            dirty: handle(Stored::BlockDirty),
            clean: handle(Stored::BlockClean),
        };
        (handles, plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(handles: u16) -> Handles {
        Handles::plan(&PlacementInfo { handles, ..PlacementInfo::none() }, true).0
    }

    #[test]
    fn with_enough_handles_each_stream_has_its_own_and_with_fewer_the_table_is_alone() {
        let all = with(8);
        let default = larder_device::PlacementHandle::DEFAULT;
        assert!(all.metadata != all.dirty && all.dirty != all.clean && all.clean != all.metadata);
        assert!([all.metadata, all.dirty, all.clean].iter().all(|handle| *handle != default));
        let few = with(3);
        assert!(few.dirty == few.clean && few.metadata != few.dirty, "{few:?}");
        assert_eq!(
            Handles::plan(&PlacementInfo { handles: 8, ..PlacementInfo::none() }, false).0,
            Handles::default()
        );
    }
}
