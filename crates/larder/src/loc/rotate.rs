//! From a full region to the next one.

use larder_log::RegionId;

use super::rescue::Hot;
use super::{Loc, object_bytes_max};

impl Loc {
    /// Makes sure that the open region of a stream has room for an object of this size. `false` if no
    /// region can be had: all are retired.
    pub(super) async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert!(stream < self.place.streams(), "stream {stream} has a handle");
        debug_assert!(
            object_bytes <= object_bytes_max(self.region_bytes()),
            "an empty region has room for {object_bytes} bytes, or the loop of who asks has no end"
        );
        let mut writer = self.log.writer().await;
        if self.log.has_room_for(stream, object_bytes) {
            return true; // whoever had the writer before made room
        }
        // First its end is on its way: a stream has one region that is open.
        self.log.close_open(&mut writer, stream).await;
        // After a crash regions are Unknown, and an Unknown one is not reclaimed (`recover.rs`, rule 1): without this
        // a cache that has looked at none yet would find no region to fill.
        self.find_room().await;
        // Under the writer still: two that reclaim at a time would empty one region for two.
        let hot = Hot { loc: self, now_s };
        self.log.open_next(&mut writer, (stream, object_bytes), now_s, &hot).await
    }

    /// Empties a sealed region before its time: the tombstone log is full of its dead.
    pub(crate) async fn give_up_region(&self, region: u32) {
        if self.log.give_up_region(RegionId::new(region)).await {
            self.counters().loc_given_up_regions.add(1);
        }
    }
}
